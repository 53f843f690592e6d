"""The temporary directory of a server: removed with it, or by whoever comes next if we were killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_LOCK = "held"


class HeldDirectory:
    """A new directory, locked for as long as this process lives: the kernel gives the lock back when we are killed."""

    def __init__(self, name: str) -> None:
        _remove_left_behind()
        self.path = Path(tempfile.mkdtemp(prefix=f"isolde-{name}-"))
        # Locked before it has its name: a lock that can be found is held, or its holder is dead.
        unnamed = self.path / f".{_LOCK}"
        self._lock = os.open(unnamed, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / _LOCK)

    def remove(self) -> None:
        if self._lock < 0:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1


def _remove_left_behind() -> None:
    for lock in Path(tempfile.gettempdir()).glob(f"isolde-*/{_LOCK}"):
        # Another user's cannot be opened, one that is in use cannot be locked, one may be removed by another right now.
        with suppress(OSError):
            handle = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(handle)
