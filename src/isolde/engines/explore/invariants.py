"""What must hold of a program: in states, by functions or queries; and in histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from isolde._core.exploration import Sources
from isolde.engines.explore.bodies import Bodies
from isolde.engines.explore.evidence import Executed
from isolde.engines.explore.program import Check, Program
from isolde.engines.explore.rounds import in_rounds
from isolde.errors import ExecutionError, IsoldeError, UsageError
from isolde.tx.queries import Select

if TYPE_CHECKING:
    from isolde.engines.explore.tables import TableBodies
    from isolde.semantics.concrete import Store

FIRST = 1 << 20
"""Numbers of invariants begin here; those of checks inside transactions at 0."""


class Invariants:
    """The invariants of a program. They are asked once for each state."""

    def __init__(self, program: Program, bodies: Bodies) -> None:
        self._program, self._bodies = program, bodies
        self._checks = program.invariants()
        self.names = tuple(self._checks)
        self._broken: tuple[int, Sources] | None = None

    def __bool__(self) -> bool:
        return bool(self._checks)

    def judge(self, written: Mapping[Any, Any]) -> int | None:
        """The number of the first invariant that does not hold, if these are the last versions of what was written."""
        state = self.state(written)

        @cache
        def store() -> Store:
            return loaded_store(self._tables().store, state)

        for number, (name, check) in enumerate(self._checks.items()):
            if not holds(name, check, state, store):
                return FIRST + number
        return None

    def state(self, written: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """The state that functions are given: keys with their values, or tables with their rows."""
        return self._bodies.state(written)

    def _tables(self) -> TableBodies:
        tables = in_rounds(self._program, self._bodies)
        assert tables is not None, "a query asks about tables"
        return tables

    # Predicates over histories

    def judge_history(self, sources: Sources, laid_open: Callable[[], tuple[Executed, ...]]) -> None:
        """Asks the program's predicate over histories; the shortest history that breaks it is kept."""
        predicate = self._program.history
        assert predicate is not None
        from isolde.engines.explore.shown import transactions_of

        history = laid_open()
        try:
            held = bool(predicate(transactions_of(history)))
        except IsoldeError:
            raise
        except AssertionError:
            held = False
        except (Exception, SystemExit) as error:
            raise _failed("the predicate over histories", error) from None
        if not held:
            self.break_history(sources, sum(len(entry.trace.events) for entry in history))

    def break_history(self, sources: Sources, events: int) -> None:
        """Takes notice of a history, of so many events, that breaks the program's predicate."""
        if self._broken is None or (events, sorted(sources)) < (self._broken[0], sorted(self._broken[1])):
            self._broken = (events, sources)

    def broken_histories(self) -> Iterator[tuple[str, Sources]]:
        if self._broken is not None:
            yield "history", self._broken[1]


def holds(name: str, check: Check | Select, state: Mapping[Any, Any], store: Callable[[], Store]) -> bool:
    """Whether an invariant holds of a state. A query is run on ``store``, which holds that state; it finds what is wrong."""
    if isinstance(check, Select):
        try:
            with store().transaction() as transaction:
                return not transaction.run(check).rows
        except ExecutionError as error:
            raise UsageError(f"the query of {name} failed: {error}") from None
    try:
        return bool(check(state))
    except IsoldeError:
        raise
    except AssertionError:
        return False
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from None


def loaded_store(first: Store, state: Mapping[Any, Any]) -> Store:
    """A store like the first one with other rows. Weak levels leave states that break keys: they are loaded as they are."""
    store = first.copy()
    for info in first.catalog.tables:
        table = store.writable(info.position)
        for number, _ in list(table.all()):
            table.put(number, None)
        for row in state[info.table.name]:
            table.put(None, tuple(row))
    return store


def _failed(what: str, error: BaseException) -> UsageError:
    from isolde.workloads.blame import in_one_line, place_of

    return UsageError(f"{what} failed{place_of(error)}: {in_one_line(error)}")
