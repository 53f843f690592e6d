"""Certificates: what the database says about its order, as evidence for ``check`` (the papers' Emme and Enne)."""

from isolde.engines.certify.door import Certified, certify
from isolde.engines.certify.predicates import Judge
from isolde.engines.certify.told import Fault, Told

__all__ = ["Certified", "Fault", "Judge", "Told", "certify"]
