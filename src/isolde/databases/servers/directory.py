"""A temporary directory of ours: removed with us, or by whoever comes next if we were killed."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

_LOCK = ".isolde-held"
_NAME = re.compile(r"isolde-[a-z]+-[a-z0-9_]{8}")
_TRIES = 5


class HeldDirectory:
    """A new directory, locked for as long as this process lives: the kernel gives the lock back when we are killed."""

    def __init__(self, name: str) -> None:
        remove_left_behind()
        self.path = Path(tempfile.mkdtemp(prefix=f"isolde-{name}-"))
        # Locked before it has its name: a lock that can be found is held, or its holder is dead.
        unnamed = self.path / f"{_LOCK}-new"
        self._lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(self._lock, _mark(self.path))
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / _LOCK)

    def remove(self) -> None:
        if self._lock < 0:
            return
        _remove(self.path)
        os.close(self._lock)
        self._lock = -1


def remove_left_behind() -> None:
    """Removes what processes of ours left that were killed, and nothing else: not everything that is called so is ours."""
    for lock in Path(tempfile.gettempdir()).glob(f"isolde-*/{_LOCK}"):
        # Another user's cannot be opened, one that is in use cannot be locked, one may be removed by another right now.
        with suppress(OSError):
            handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if _ours(handle, lock.parent):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(lock.parent)
            finally:
                os.close(handle)


def _mark(directory: Path) -> bytes:
    """What the lock says, so that neither another file of its name nor a copy of ours elsewhere is taken for it."""
    return f"Isolde removes this directory, {directory}, when nobody holds this file locked.\n".encode()


def _ours(handle: int, directory: Path) -> bool:
    """Whether we made the directory: its lock is a file of this user's, has no other name, and names the directory."""
    found = os.fstat(handle)
    return (
        _NAME.fullmatch(directory.name) is not None
        and not directory.is_symlink()
        and stat.S_ISREG(found.st_mode)
        and found.st_uid == os.geteuid()
        and found.st_nlink == 1
        and os.pread(handle, found.st_size, 0) == _mark(directory)
    )


def _remove(directory: Path) -> None:
    """The lock goes last: until everything else is gone, the next one has to find it."""
    for _ in range(_TRIES):
        with suppress(OSError):
            for entry in directory.iterdir():
                if entry.name != _LOCK:
                    _remove_entry(entry)
            if all(entry.name == _LOCK for entry in directory.iterdir()):
                break
    else:
        return
    shutil.rmtree(directory, ignore_errors=True)


def _remove_entry(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)
