"""Does a recorded history satisfy a level, and if not, why?"""

from isolde.engines.check.decide import check, size_of
from isolde.engines.check.evidence import Evidence, Shown
from isolde.engines.check.exhibit import exhibited
from isolde.engines.check.frontier import frontier
from isolde.engines.check.recheck import holds_up
from isolde.engines.check.witness import Witness, cut_out, witness

__all__ = [
    "Evidence",
    "Shown",
    "Witness",
    "check",
    "cut_out",
    "exhibited",
    "frontier",
    "holds_up",
    "size_of",
    "witness",
]
