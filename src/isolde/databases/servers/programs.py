"""Where the programs of servers are, and whether the user that a server runs as can get there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from isolde.databases.servers.process import Place


def reachable(directory: Path) -> bool:
    """Whether the user that a server runs as can get there: root's own home is closed to others."""
    return os.geteuid() != 0 or all(place.stat().st_mode & 0o001 for place in (directory, *directory.parents))


def within_reach(program: str, place: Place) -> str:
    """The program where the server's user can run it: a copy in the server's own directory, if need be."""
    path = Path(program)
    if place.owner is None or reachable(path.parent):
        return program
    copied = place.directory / path.name
    if not copied.exists():
        shutil.copy(path, copied)
        copied.chmod(0o755)
    return str(copied)


def native_program(name: str) -> str | None:
    """The program of this name on the path that needs no other one: a Python environment may have a script of the same name,
    whose interpreter the server's user cannot reach.
    """
    for directory in os.get_exec_path():
        candidate = Path(directory) / name
        try:
            with candidate.open("rb") as file:
                if file.read(4) == b"\x7fELF" and os.access(candidate, os.X_OK):
                    return str(candidate)
        except OSError:
            continue
    return None
