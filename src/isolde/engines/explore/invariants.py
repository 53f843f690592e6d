"""What must hold of a program: in states, by functions or queries; and in histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from isolde._core.exploration import Sources
from isolde.engines.explore.bodies import Bodies
from isolde.engines.explore.evidence import Executed
from isolde.engines.explore.program import Check, Program
from isolde.engines.explore.shown import transactions_of
from isolde.engines.explore.tables import TableBodies
from isolde.errors import IsoldeError, UsageError
from isolde.semantics.concrete import Store
from isolde.tx.python.handle import Row
from isolde.tx.queries import Select
from isolde.workloads.blame import in_one_line, place_of

FIRST = 1 << 20
"""Numbers of invariants begin here; those of checks inside transactions at 0."""


class KeyState(dict[Any, Any]):
    """A state of keys; one that nobody has written and that has no initial value is ``None``."""

    def __missing__(self, key: Any) -> None:
        return None


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
        store: Store | None = None
        for number, (name, check) in enumerate(self._checks.items()):
            if isinstance(check, Select):
                store = store or self._loaded(state)
                with store.transaction() as transaction:
                    held = not transaction.run(check).rows
            else:
                held = self._asked(name, check, state)
            if not held:
                return FIRST + number
        return None

    def state(self, written: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """The state that functions are given: keys with their values, or tables with their rows."""
        bodies = self._bodies
        if isinstance(bodies, TableBodies):
            names = {info.table.name: tuple(info.columns) for info in bodies.catalog.tables}
            return {table: [Row(names[table], row) for row in rows] for table, rows in bodies.state(written).items()}
        return KeyState({**self._program.initial, **written})

    def _asked(self, name: str, check: Check, state: Mapping[Any, Any]) -> bool:
        try:
            return bool(check(state))
        except IsoldeError:
            raise
        except AssertionError:
            return False
        except (Exception, SystemExit) as error:
            raise UsageError(f"{name} failed{place_of(error)}: {in_one_line(error)}") from None

    def _loaded(self, state: Mapping[Any, Any]) -> Store:
        bodies = self._bodies
        assert isinstance(bodies, TableBodies)
        store = bodies.store.copy()
        for info in bodies.catalog.tables:
            table = store.writable(info.position)
            for number, _ in list(table.all()):
                table.put(number, None)
            # Weak levels leave states that break keys: they are loaded as they are.
            for row in state[info.table.name]:
                table.put(None, tuple(row))
        return store

    # Predicates over histories

    def judge_history(self, sources: Sources, laid_open: Callable[[], tuple[Executed, ...]]) -> None:
        """Asks the program's predicate over histories; the shortest history that breaks it is kept."""
        predicate = self._program.history
        assert predicate is not None
        history = laid_open()
        try:
            held = bool(predicate(transactions_of(history)))
        except IsoldeError:
            raise
        except AssertionError:
            held = False
        except (Exception, SystemExit) as error:
            raise UsageError(f"the predicate over histories failed{place_of(error)}: {in_one_line(error)}") from None
        if not held:
            events = sum(len(entry.trace.events) for entry in history)
            if self._broken is None or (events, sorted(sources)) < (self._broken[0], sorted(self._broken[1])):
                self._broken = (events, sources)

    def broken_histories(self) -> Iterator[tuple[str, Sources]]:
        if self._broken is not None:
            yield "history", self._broken[1]
