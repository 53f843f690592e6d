"""What is asked of an exploration: levels, and how the executions are walked through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from isolde._core.exploration import exploration_levels
from isolde.engines.explore.program import Call, Program
from isolde.errors import UsageError
from isolde.levels import level_named, row

TRIVIAL = "trivial"
_STEERING = ("read-committed", "read-atomic", "causal")
"""The levels at which every step of an exploration can be kept, weakest first (theorem 3.4); prefix is none of them."""


@dataclass(frozen=True, slots=True)
class Question:
    """``level`` of all transactions but those that ``levels`` (and the program) give their own, by name.

    ``base``: the level that every step keeps, when it is not the default; ``against``: the level whose behaviours are
    allowed. ``states``: which states the invariants must hold in.
    """

    level: str
    levels: Mapping[str, str] = field(default_factory=dict)
    base: str | None = None
    method: Literal["swapping", "dfs"] = "swapping"
    against: str | None = None
    states: Literal["final", "each-commit"] = "final"

    def by_transaction(self, program: Program) -> tuple[str, ...]:
        """The long name of the level of each transaction."""
        own = {**program.levels, **self.levels}
        unknown = set(own) - {call.name for call in program.calls}
        if unknown:
            raise UsageError(f"a level is given to {', '.join(sorted(unknown))}, which no session calls")
        return tuple(explored_level(own.get(call.name, self.level)) for call in program.calls)

    def steering(self, levels: Sequence[str]) -> str:
        """The level that every step keeps: the strongest of RC, RA and CC that is above none of the levels."""
        weakest = min(levels, key=exploration_levels().index)
        default = weakest if weakest in _STEERING else _STEERING[-1]
        if self.base is None:
            return default
        base = TRIVIAL if self.base in {TRIVIAL, "true"} else explored_level(self.base)
        if base != TRIVIAL and base not in _STEERING:
            raise UsageError(f"'{base}' cannot be a base; those are {TRIVIAL}, {', '.join(_STEERING)}")
        order = exploration_levels()
        if order.index(base) > order.index(default):
            raise UsageError(f"the base {base} forbids histories that {weakest} allows; take {default} or a weaker one")
        return base


def explored_level(name: str) -> str:
    """The long name of a level that can be explored.

    >>> explored_level("si")
    'snapshot-isolation'
    """
    level = level_named(name).value
    known = [entry for entry in exploration_levels() if entry != TRIVIAL]
    if level not in known:
        raise UsageError(f"'{level}' cannot be explored; the levels of explore are {', '.join(known)}")
    return level


def shown_levels(calls: Sequence[Call], levels: Sequence[str]) -> str:
    """The levels in a few words: one name if they are all the same."""
    if len(set(levels)) == 1:
        return levels[0]
    shown = dict.fromkeys(f"{call.name}: {short(level)}" for call, level in zip(calls, levels, strict=True))
    return ", ".join(shown)


def short(level: str) -> str:
    return row(level_named(level)).short or level
