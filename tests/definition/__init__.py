"""The isolation levels by brute force, straight from their definitions: the independent second way.

Nothing here is shared with the checker, and nothing is clever: outcomes, commit orders and attributions of reads are
enumerated. Meant for histories of up to about six committed transactions.

============================  =============================================================================
``worlds``                    which transactions took effect, what each saw and left behind
``orders``                    session order, real time, version chains
``executions``, ``axioms``    some commit order fulfils the axioms of Biswas & Enea (OOPSLA 2019)
``replay``, ``snapshots``     the same levels operationally, on a key-value map
``linear``, ``uncommitted``   the two levels that need no commit order of everything
``evidence``                  what edges, told orders and a serial order from outside ask for
``satisfaction``              one question: ``satisfies(history, level)``
============================  =============================================================================
"""

from .evidence import Told
from .satisfaction import LEVELS, replays, satisfies

__all__ = ["LEVELS", "Told", "replays", "satisfies"]
