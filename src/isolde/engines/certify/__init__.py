"""Certificates: what the database says about its order, as evidence for ``check`` (the papers' Emme and Enne)."""

from isolde.engines.certify.completing import Completions
from isolde.engines.certify.cut import parts
from isolde.engines.certify.door import Certified, certify
from isolde.engines.certify.duplicates import duplicate_write
from isolde.engines.certify.predicates import Judge
from isolde.engines.certify.told import Fault, SecondOpinion, Told

__all__ = ["Certified", "Completions", "Fault", "Judge", "SecondOpinion", "Told", "certify", "duplicate_write", "parts"]
