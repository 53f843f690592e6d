"""Answers of the solver kept in a directory, so that what did not change since the last run is not asked again.

A question is known by what it is made of: the program that makes it (Isolde's own files and the version of Z3), the application
as a whole, the level, the goal and what is relied upon. Its text in SMT-LIB would do as well, but takes several times as long to
write as the question takes to answer. A file that cannot be read is as good as none.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import isolde
from isolde.engines.infer.problem import Problem
from isolde.errors import OutsideError
from isolde.smt import terms as smt


class Cache:
    """``about``: what all questions of a run have in common."""

    def __init__(self, directory: Path, about: Iterable[str]) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutsideError(f"--cache {directory}: {error.strerror or error}") from None
        self._directory = directory
        self._about = _digest([_program(), smt.version(), *about])
        self.used = self.kept = 0

    def recall(self, parts: Sequence[str]) -> list[Any] | None:
        """What was kept for these parts of a question."""
        try:
            found = json.loads(self._place(parts).read_text())
        except (OSError, ValueError):
            return None
        if not (isinstance(found, list) and len(found) == 2 and isinstance(found[1], list)):
            return None
        self.used += 1
        return found

    def keep(self, parts: Sequence[str], answer: list[Any]) -> None:
        place = self._place(parts)
        # Two runs may keep the same answer at once.
        written = place.with_suffix(f".{os.getpid()}")
        try:
            written.write_text(json.dumps(answer))
            written.replace(place)
        except OSError as error:
            raise OutsideError(f"--cache {self._directory}: {error.strerror or error}") from None
        self.kept += 1

    def _place(self, parts: Sequence[str]) -> Path:
        return self._directory / f"{_digest([self._about, *parts])}.json"


def application_texts(problem: Problem) -> list[str]:
    """Everything that an application's questions can depend on."""
    application = problem.application
    return [
        application.ddl,
        *(
            f"{name} {one.parameters!r} {one.part.transaction.procedure!r}"
            for name, one in problem.transactions.items()
        ),
        *(f"{one.name} {one.violations!r}" for one in application.invariants),
        repr(sorted(problem.conditions)),
    ]


def _digest(parts: Iterable[str]) -> str:
    found = hashlib.sha256()
    for part in parts:
        text = part.encode("utf-8", "backslashreplace")
        found.update(len(text).to_bytes(8, "big") + text)
    return found.hexdigest()


def _program() -> str:
    """Isolde's own files: with any of them changed, a question may be another one."""
    root = Path(isolde.__file__).parent
    return _digest(
        text for path in sorted(root.rglob("*.py")) for text in (str(path.relative_to(root)), path.read_text())
    )
