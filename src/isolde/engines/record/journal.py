"""One session's file: a line a transaction, which grows while the transaction runs.

Everything is handed to the operating system at once, so that nothing observed is lost when this process is killed.
A line that breaks off belongs to a transaction of unknown outcome (``isolde.formats.recording`` reads it so).
"""

from __future__ import annotations

import os
from pathlib import Path

from isolde.errors import not_written


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that its user alone can read: what a database holds is nobody else's business."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


class Journal:
    """Appends to one file; each ``put`` ends after a whole operation."""

    __slots__ = ("_fd", "_size", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._size = 0

    def put(self, chunk: bytes) -> None:
        """Writes the bytes to the file; ``InputError`` if the disk does not take them."""
        try:
            done = os.write(self._fd, chunk)
            while done < len(chunk):
                done += os.write(self._fd, chunk[done:])
            self._size += done
        except OSError as error:
            raise not_written(f"{self.path}: {error.strerror}; what was written so far can be checked", error) from None

    def cut(self, size: int) -> None:
        """Takes back what was written beyond ``size``: it was announced, and turned out to be nothing."""
        os.ftruncate(self._fd, size)
        self._size = size

    def size(self) -> int:
        """How much was written; nobody else writes to the file."""
        return self._size

    def close(self) -> None:
        os.close(self._fd)
