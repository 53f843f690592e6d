"""COMMIT and ROLLBACK inside of a procedure: they end its transaction, so nothing that touches a table may come after them.

A database goes on after either of them, in another transaction. Here a procedure is one transaction; what would be a second one
is refused. Where nothing but variables and results follows, COMMIT says nothing that the end of the procedure does not say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from isolde.errors import OutsideFragment
from isolde.tx.place import Place
from isolde.tx.procedures import Abort, Assign, Draw, Fetch, ForEach, ForRange, If, Pick, Return, Run, Step, While
from isolde.tx.queries import Select, TableSource
from isolde.tx.rewrite import rewritten


class Endings:
    """The COMMITs and ROLLBACKs of a procedure that is being read."""

    def __init__(self) -> None:
        self._commits: list[Assign] = []
        self._rollbacks: list[Abort] = []

    def commit(self, mark: Assign) -> Assign:
        """A mark for a COMMIT, until all that comes after it is known."""
        self._commits.append(mark)
        return mark

    def rollback(self, abort: Abort) -> Abort:
        self._rollbacks.append(abort)
        return abort

    def resolved(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """The steps without marks; refused if a second transaction would begin."""
        self._look(steps, [], inside_loop=False)
        return self._unmarked(steps)

    def _look(self, steps: Sequence[Step], after: list[Sequence[Step]], inside_loop: bool) -> None:
        for position, step in enumerate(steps):
            rest = [steps[position + 1 :], *after]
            match step:
                case Assign() if any(step is mark for mark in self._commits):
                    _check("COMMIT", step.place, rest, inside_loop)
                case Abort() if any(step is abort for abort in self._rollbacks):
                    _check("ROLLBACK", step.place, rest, inside_loop)
                case If():
                    for _, body in step.branches:
                        self._look(body, rest, inside_loop)
                    self._look(step.otherwise, rest, inside_loop)
                case ForEach() | ForRange() | While():
                    self._look(step.body, rest, inside_loop=True)
                case _:
                    pass

    def _unmarked(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        if not self._commits:
            return steps
        marks = {id(mark) for mark in self._commits}

        def without(node: Any) -> Any:
            if isinstance(node, If):
                branches = tuple((condition, _kept(body, marks)) for condition, body in node.branches)
                return If(branches, _kept(node.otherwise, marks), node.place)
            return replace(node, body=_kept(node.body, marks)) if isinstance(node, ForEach | ForRange | While) else node

        return _kept(rewritten(steps, without), marks)


def _kept(steps: tuple[Step, ...], marks: set[int]) -> tuple[Step, ...]:
    return tuple(step for step in steps if id(step) not in marks)


def _check(word: str, place: Place | None, rest: list[Sequence[Step]], inside_loop: bool) -> None:
    following = [step for steps in rest for step in steps]
    if inside_loop and not (following and isinstance(following[0], Return)):
        raise OutsideFragment(
            str(place), f"{word} inside of a loop", "RETURN after it, or use one procedure a transaction"
        )
    found = _second(following, aborts=word == "ROLLBACK")
    if found is not None:
        raise OutsideFragment(
            str(found.place or place),
            f"a statement after {word}",
            "use one procedure a transaction, or RETURN before it",
        )


def _second(steps: Sequence[Step], aborts: bool) -> Step | None:
    """The first step that would belong to another transaction."""
    for step in steps:
        match step:
            case Return():
                return None
            case Assign() | Draw() | Pick():
                continue
            case Abort() if aborts:
                return None
            case Run() | Fetch() if isinstance(step.statement, Select) and not _reads(step.statement):
                continue
            case If():
                for body in (*(body for _, body in step.branches), step.otherwise):
                    if (found := _second(body, aborts)) is not None:
                        return found
            case _:
                return step
    return None


def _reads(query: Select) -> bool:
    seen: list[TableSource] = []

    def look(node: Any) -> Any:
        if isinstance(node, TableSource):
            seen.append(node)
        return node

    rewritten(query, look)
    return bool(seen)
