"""Applications on real databases: their transactions run concurrently, every statement is recorded, invariants are checked."""

from isolde.engines.record.application.client import Call, application_job
from isolde.engines.record.application.install import Broken, Installation

__all__ = ["Broken", "Call", "Installation", "application_job"]
