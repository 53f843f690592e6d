"""Counterexamples for ``infer``: pairs and triples of calls from small states, explored on the store model of a database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, pairwise, product
from random import Random
from typing import Any

from isolde.campaigns.lawful import Laws
from isolde.campaigns.store import StoreOptions, explore_on_store
from isolde.engines.explore.invariants import holds, loaded_store
from isolde.engines.explore.program import Program, populated
from isolde.engines.infer.prove import Assignment, Failure
from isolde.engines.infer.search import Nogood
from isolde.errors import ExecutionError, IsoldeError
from isolde.findings import BrokenInvariant
from isolde.history.schedule import Schedule
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.workloads.application import Application

Rows = Mapping[str, Sequence[tuple[Any, ...]]]
Call = tuple[str, tuple[Any, ...]]

_STATES = 24
_NEAR = 48
_DRAWS = 60
_PAIRS = 10
_TRIPLES = 12
STATES_MAX = 6_000
SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Witness:
    """A program and the levels of its transactions, with what breaks and the schedule that leads there."""

    rows: Rows
    calls: tuple[Call, ...]
    broken: BrokenInvariant
    schedule: Schedule


@dataclass(eq=False)
class Refuter:
    """Looks for counterexamples on the model of ``store``. ``application`` has the invariants that are judged."""

    application: Application
    store: str
    settings: Mapping[str, str]
    levels: Sequence[str]
    names: Sequence[str]
    deadline: float | None = None
    anywhere: bool = True
    """Whether states count to which no transactions lead, as long as they satisfy the invariants."""
    told: Callable[[str], None] = lambda _: None
    explored: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """Why a transaction failed the last time that it did when it ran alone."""
    _states: list[Store] = field(default_factory=list)
    _tried: set[tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._laws = Laws(self.application.schema)

    def refute(self, assignment: Assignment, failures: Sequence[Failure]) -> list[Nogood]:
        """Nogoods that refuse the assignment, if there are any, and others that came with them."""
        failing = list(dict.fromkeys(failure.transaction for failure in failures))
        found: list[Nogood] = []
        for size in (2, 3):
            for names in self._groups(failing, size):
                if not any(all(one in names for one, _ in nogood.levels) for nogood in found):
                    found += self._group(names, tuple(assignment[name] for name in names))
            if found:
                return found
        return found

    def _groups(self, failing: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
        seen: set[tuple[str, ...]] = set()
        for first in failing:
            for others in combinations_with_replacement(self.names, size - 1):
                names = tuple(sorted((first, *others)))
                if names not in seen:
                    seen.add(names)
                    yield names

    def _group(self, names: tuple[str, ...], levels: tuple[str, ...]) -> list[Nogood]:
        index = (names, levels)
        if index in self._tried or (self.deadline is not None and time.monotonic() > self.deadline):
            return []
        self._tried.add(index)
        self.told(f"looking for a counterexample: {' ∥ '.join(map(' at '.join, zip(names, levels, strict=True)))}")
        for rows, calls in self.programs(names):
            witness = self.witness(rows, calls, dict(zip(names, levels, strict=True)))
            if witness is not None:
                return [self._nogood(names, levels, witness), *self._others(names, levels, rows, calls)]
        return []

    def _others(
        self, names: tuple[str, ...], levels: tuple[str, ...], rows: Rows, calls: tuple[Call, ...]
    ) -> Iterator[Nogood]:
        """The same program at all other levels."""
        different = list(dict.fromkeys(names))
        for chosen in product(self.levels, repeat=len(different)):
            named = dict(zip(different, chosen, strict=True))
            if tuple(named[name] for name in names) == levels:
                continue
            witness = self.witness(rows, calls, named)
            if witness is not None:
                yield self._nogood(names, tuple(named[name] for name in names), witness)

    @staticmethod
    def _nogood(names: tuple[str, ...], levels: tuple[str, ...], witness: Witness) -> Nogood:
        return Nogood(tuple(dict(zip(names, levels, strict=True)).items()), witness.broken.check, witness)

    def witness(self, rows: Rows, calls: tuple[Call, ...], levels: Mapping[str, str]) -> Witness | None:
        parts = {part.name: part.transaction for part in self.application.parts}
        program = Program(
            sessions=[[(parts[name], *arguments)] for name, arguments in calls],
            application=self.application,
            rows=rows,
        )
        options = StoreOptions(self.store, self.levels[0], levels, self.settings, True, STATES_MAX, SECONDS)
        self.explored += 1
        finding, schedules = explore_on_store(program, options)
        broken = [one for one in finding.evidence if isinstance(one, BrokenInvariant)]
        return Witness(rows, calls, broken[0], schedules[0]) if broken else None

    # Programs

    def programs(self, names: tuple[str, ...]) -> Iterator[tuple[Rows, tuple[Call, ...]]]:
        """States and calls that all do something when they run alone; those that share most arguments first."""
        random = Random(repr(names))
        scored: list[tuple[int, int, Store, tuple[Call, ...]]] = []
        for _ in range(_DRAWS):
            store = random.choice(self.states())
            calls = self.calls(names, random)
            if all(self._effective(store, call) for call in calls) or random.random() < 0.05:
                shared = sum(
                    1
                    for (_, one), (_, other) in pairwise(calls)
                    for value in one
                    if isinstance(value, int) and value in other
                )
                scored.append((-shared, len(scored), store, calls))
        seen: set[tuple[str, str]] = set()
        for _, _, store, calls in sorted(scored, key=lambda one: one[:2]):
            index = (repr(store.state()), repr(calls))
            if index not in seen and len(seen) < (_PAIRS if len(names) == 2 else _TRIPLES):
                seen.add(index)
                yield store.state(), calls

    def calls(self, names: tuple[str, ...], random: Random) -> tuple[Call, ...]:
        parts = {part.name: part for part in self.application.parts}
        taken: dict[str, Any] = {}
        calls = []
        for name in names:
            given = parts[name].arguments(random, self._scale(random))
            order = [local.name for local in parts[name].transaction.procedure.parameters]
            for parameter in order:
                value = given[parameter]
                # Numbers as large as these are ids that nobody else has.
                if parameter in taken and random.random() < 0.7 and not (isinstance(value, int) and value > 1 << 40):
                    given[parameter] = taken[parameter]
                taken[parameter] = given[parameter]
            calls.append((name, tuple(given[parameter] for parameter in order)))
        return tuple(calls)

    def _scale(self, random: Random) -> dict[str, int]:
        return {name: random.randint(1, 2) for name in self.application.scale}

    def states(self) -> list[Store]:
        """Small states: those that transactions lead to from small first rows, and others near to them."""
        if not self._states:
            for seed in range(_STATES):
                random = Random(seed)
                store = self._first(random)
                for _ in range(seed % 6):
                    part = random.choice(self.application.parts)
                    arguments = part.arguments(random, self._scale(random))
                    self.run(
                        store,
                        part.name,
                        tuple(arguments[local.name] for local in part.transaction.procedure.parameters),
                    )
                if self.sound(store):
                    self._states.append(store)
            if self.anywhere:
                self._states += self._near(list(self._states))
        return self._states

    def _near(self, reached: Sequence[Store]) -> Iterator[Store]:
        """States with a few rows more or less, or other numbers in them, that satisfy all invariants."""
        random = Random(len(reached))
        for _ in range(_NEAR if reached else 0):
            rows = {table: list(found) for table, found in random.choice(reached).state().items()}
            for _ in range(random.randint(1, 3)):
                _changed(rows, random)
            try:
                store = Store(self.application.schema, Dialect.POSTGRESQL)
                for table, found in rows.items():
                    store.load(table, found)
                if self.sound(store):
                    yield store
            except IsoldeError:
                continue

    def _first(self, random: Random) -> Store:
        store = Store(self.application.schema, Dialect.POSTGRESQL)
        for table, rows in populated(self.application.populate(random, self._scale(random))).items():
            store.load(table, [tuple(row) for row in rows])
        return store

    def commits(self, name: str) -> bool:
        """Whether a transaction was seen to change something and commit."""
        random = Random(name)
        return any(
            self._effective(random.choice(self.states()), *self.calls((name,), random))
            for _ in range(_DRAWS if self.states() else 0)
        )

    def sound(self, store: Store) -> bool:
        """Whether all invariants hold of a state in which a database may be."""
        rows = store.state()
        return self._laws.kept(store) and all(
            holds(one.name, one.violations, rows, lambda: loaded_store(store, rows))
            for one in self.application.invariants
        )

    def _effective(self, store: Store, call: Call) -> bool:
        twin = store.copy()
        return self.run(twin, *call) and not twin.same_state(store)

    def run(self, store: Store, name: str, arguments: tuple[Any, ...]) -> bool:
        try:
            store.call(self.application.program, name, list(arguments))
        except (ExecutionError, IsoldeError) as error:
            self.failed[name] = str(error)
            return False
        return True


def _changed(rows: dict[str, list[tuple[Any, ...]]], random: Random) -> None:
    """Takes a row out, puts one in that is like another, or changes a number."""
    table = random.choice([name for name, found in rows.items() if found] or list(rows))
    found = rows[table]
    if not found:
        return
    place = random.randrange(len(found))
    row = list(found[place])
    match random.randrange(3):
        case 0:
            found.pop(place)
        case 1:
            found.append(tuple(_other(value, random) for value in row))
        case _:
            column = random.randrange(len(row))
            row[column] = _other(row[column], random)
            found[place] = tuple(row)


def _other(value: Any, random: Random) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return random.choice((value, value + 1, max(value - 1, 0), random.randint(0, 4)))
