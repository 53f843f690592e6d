"""Where work runs: in this process, in processes of this machine, or on a cluster.

Work is cut into jobs, which are plain data; ``workers.py`` says what runs them, and one file each does (``processes.py``,
``cluster.py``). ``exploring.py``, ``checking.py``, ``auditing.py`` and ``trying.py`` cut and put together again.
"""

from isolde.scale.opening import Engine, opened_workers
from isolde.scale.workers import Workers

__all__ = ["Engine", "Workers", "opened_workers"]
