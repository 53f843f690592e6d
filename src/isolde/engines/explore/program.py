"""Programs: sessions of calls, the state that they start from, and what must hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isolde.errors import UsageError
from isolde.visible import visible

Check = Callable[[Mapping[Hashable, Any]], bool]


@dataclass(frozen=True, slots=True)
class Call:
    """A transaction: a function of a handle, with its arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    session: int
    position: int

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", repr(self.function)))

    @property
    def id(self) -> str:
        """Session and place in it, from 0."""
        return f"{self.session}.{self.position}"

    def __str__(self) -> str:
        return visible(f"{self.name}({', '.join(map(repr, self.arguments))})")


@dataclass(frozen=True)
class Program:
    """Sessions that run at once, each a list of calls.

    A call is a function of ``tx`` alone, or a tuple of a function and its arguments. ``tx`` reads and writes keys; those that
    ``initial`` does not name hold ``None`` at first. ``invariant`` is a function of the final state, or several by name;
    ``history`` one of the transactions of a history. ``levels`` gives transactions levels of their own, by their names.

    >>> def deposit(tx, amount):
    ...     tx.write("x", tx.read("x") + amount)
    >>> program = Program(sessions=[[(deposit, 10)], [(deposit, 20)]], initial={"x": 0})
    >>> [str(call) for call in program.calls]
    ['deposit(10)', 'deposit(20)']
    """

    sessions: Sequence[Sequence[Any]]
    initial: Mapping[Hashable, Any] = field(default_factory=dict)
    invariant: Check | Mapping[str, Check] | None = None
    history: Callable[[Sequence[Any]], bool] | None = None
    levels: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    calls: tuple[Call, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        calls = tuple(
            _call(entry, session, position)
            for session, entries in enumerate(self.sessions)
            for position, entry in enumerate(_listed(entries, session))
        )
        if not calls:
            raise UsageError("the program has no transactions; give sessions, each a list of calls")
        unknown = set(self.levels) - {call.name for call in calls}
        if unknown:
            raise UsageError(f"levels name {', '.join(sorted(unknown))}, which no session calls")
        object.__setattr__(self, "calls", calls)

    @property
    def invariants(self) -> dict[str, Check]:
        """The invariants by their names."""
        if self.invariant is None:
            return {}
        return dict(self.invariant) if isinstance(self.invariant, Mapping) else {"invariant": self.invariant}


def _listed(entries: Any, session: int) -> Sequence[Any]:
    if not isinstance(entries, (list, tuple)):
        raise UsageError(f"session {session} is {entries!r}; it has to be a list of calls")
    return entries


def _call(entry: Any, session: int, position: int) -> Call:
    function, *arguments = entry if isinstance(entry, tuple) else (entry,)
    where = f"call {position} of session {session}"
    if not callable(function):
        raise UsageError(
            f"{where} is {visible(repr(entry))}; give a function of tx, or a tuple of one and its arguments"
        )
    call = Call(function, tuple(arguments), session, position)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return call
    try:
        signature.bind(None, *arguments)
    except TypeError as error:
        raise UsageError(f"{where}: {call} does not fit {call.name}{signature}: {error}") from None
    return call
