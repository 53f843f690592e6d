"""Transactions as transformers: every way through a procedure, with the states it meets and what it writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from isolde.levels.specifications import Specification
from isolde.semantics.core import steps as core
from isolde.semantics.core.nodes import Expression, Variable
from isolde.semantics.core.relations import Delete, Insert, Query, Statement, Update
from isolde.semantics.core.types import BIGINT, Sort, ValueType
from isolde.semantics.sets.changes import Changes
from isolde.semantics.sets.expressions import Environment, Reader
from isolde.semantics.sets.fetching import Fetching
from isolde.semantics.sets.ghosts import Ghosts
from isolde.semantics.sets.havoc import all_steps, anything, silent, statements, written
from isolde.semantics.sets.loops import Rounds, assigned, counters, others
from isolde.semantics.sets.path import Focus, Path
from isolde.semantics.sets.state import Base, Book, Key, Names
from isolde.semantics.sets.timeline import Others, Timeline
from isolde.semantics.sets.values import NULL, RowsValue, RowValue, Symbol, Value, merged, outside, sort_of
from isolde.smt import terms as smt

WAYS_MAX = 128

Loop = core.ForEach | core.ForRange | core.While

Signal = tuple[str, int] | None
"""How a list of steps ended: not at all, by a return, or by leaving or repeating the loop at a depth."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """``kind``: its type; a list has the types of its elements' values, by place."""

    name: str
    kind: ValueType


@dataclass(frozen=True, slots=True)
class Looked:
    """What invariants look at: tables by position, and columns by table and place. ``exact``: every read matters, too."""

    tables: frozenset[int]
    columns: frozenset[tuple[int, int]]
    exact: bool = False


class Execution:
    """One transaction at one level. What is written besides ``looked`` need not be followed exactly."""

    def __init__(self, ghosts: Ghosts, routine: core.Routine, parameters: Sequence[Parameter], looked: Looked) -> None:
        self.ghosts, self.routine, self.parameters, self.looked = ghosts, routine, parameters, looked
        self._nesting = 0
        self.others = Others()

    def ways(self, level: Specification, names: Names, label: str) -> list[Path]:
        """All ways that end in a commit."""
        book = Book(names)
        commit = Base(names.fresh(f"{label}.commit"))
        env = Environment(variables=dict(self._arguments(book)))
        path = Path(book, env, (), Timeline(level, label, commit, others=self.others))
        path.arguments = [env.variables[slot] for slot in range(len(self.parameters))]
        for assign in self.routine.converted:
            self._assign(assign, path)
        return [found for found, _ in self._steps(self.routine.body, [path])]

    def _arguments(self, book: Book) -> Iterator[tuple[int, Symbol]]:
        for slot, parameter in enumerate(self.parameters):
            if parameter.kind.sort is Sort.ROWS:
                count = book.fresh(f"{parameter.name}.length")
                book.fact(count >= 0)
                yield slot, RowsValue(count, tuple(kind for _, kind in parameter.kind.columns))
            else:
                yield slot, Value(book.fresh(parameter.name, sort_of(parameter.kind)))

    # Steps

    def _steps(self, steps: Sequence[core.Step], paths: list[Path]) -> list[tuple[Path, Signal]]:
        running, ended = paths, list[tuple[Path, Signal]]()
        for step in steps:
            after: list[Path] = []
            for path in running:
                for found, signal in self._step(step, path):
                    if signal is None:
                        after.append(found)
                    else:
                        ended.append((found, signal))
            running = after
            if len(running) + len(ended) > WAYS_MAX:
                raise outside(f"a transaction with more than {WAYS_MAX} ways through it")
        return [*((path, None) for path in running), *ended]

    def _step(self, step: core.Step, path: Path) -> list[tuple[Path, Signal]]:
        match step:
            case core.Assign():
                self._assign(step, path)
            case core.AssignRow():
                self._assign_row(step, path, smt.TRUE)
            case core.Draw(bound, assign):
                path.env.bound[bound] = Value(path.book.fresh("drawn"))
                self._assign(assign, path)
            case core.Pick(_, _, bound, assign):
                path.env.bound[bound] = self._reader(path).unknown(assign.value.type)
                self._assign(assign, path)
            case core.Run(statement, bound, assign):
                path.env.bound[bound] = Value(self._run(statement, path))
                if assign is not None:
                    self._assign(assign, path)
            case core.Fetch():
                self._fetch(step, path)
            case core.FetchAll(statement, slot):
                path.env.variables[slot] = Fetching(self.ghosts, path).all(statement)
            case core.If():
                if self._passed_over(step, path):
                    return [(path, None)]
                return self._if(step, path)
            case core.ForEach() | core.ForRange() | core.While():
                return self._loop(step, path)
            case core.Jump(depth, again):
                return [(path, ("again" if again else "leave", depth))]
            case core.Return():
                return [(path, ("return", 0))]
            case core.Abort() | core.Wrong():
                return []
            case core.Assert(condition):
                path.book.fact(self._reader(path).value(condition, path.env).true)
            case core.NeedRecords():
                pass
            case _:
                raise outside("a cursor or a call of another procedure")
        return [(path, None)]

    def _reader(self, path: Path) -> Reader:
        return Reader(path.book)

    def _assign(self, assign: core.Assign, path: Path) -> None:
        path.env.variables[assign.slot] = self._symbol(assign.value, path)

    def _symbol(self, node: Expression, path: Path) -> Symbol:
        if isinstance(node, Variable):
            return path.env.variables.get(node.slot, NULL)
        return self._reader(path).value(node, path.env)

    def _assign_row(self, assign: core.AssignRow, path: Path, found: Any) -> None:
        path.env.variables[assign.slot] = RowValue(found, path.env.rows[assign.source])

    def _run(self, statement: Statement, path: Path) -> Any:
        match statement:
            case Query():
                return Fetching(self.ghosts, path).all(statement).count
            case Update() | Delete():
                return Changes(self.ghosts, path).changed(statement)
            case Insert():
                return Changes(self.ghosts, path).inserted(statement)

    def _fetch(self, step: core.Fetch, path: Path) -> None:
        if not isinstance(step.statement, Query):
            raise outside("RETURNING")
        found, values = Fetching(self.ghosts, path).first(step.statement)
        if step.required:
            path.book.fact(found)
        path.env.bound[step.bound] = Value(found)
        old = dict(path.env.variables)
        path.env.rows[step.source] = tuple(value.unless(found) for value in values)
        for assign in step.assigns:
            if isinstance(assign, core.AssignRow):
                self._assign_row(assign, path, found)
            else:
                self._assign(assign, path)
        if step.keep:
            for assign in step.assigns:
                self._kept(path, assign.slot, old.get(assign.slot, NULL), found)
        if step.found is not None:
            self._assign(step.found, path)

    def _kept(self, path: Path, slot: int, old: Symbol, found: Any) -> None:
        new = path.env.variables[slot]
        if not isinstance(old, Value) or not isinstance(new, Value):
            raise outside("a record that keeps its row where none is found")
        path.env.variables[slot] = merged(found, new, old)

    def _unknown(self, path: Path, kind: ValueType) -> Symbol:
        if kind.sort is Sort.ROW:
            reader = self._reader(path)
            return RowValue(path.book.fresh("found", "boolean"), tuple(reader.unknown(one) for _, one in kind.columns))
        if kind.sort is Sort.ROWS:
            return RowsValue(path.book.fresh("many"), tuple(one for _, one in kind.columns))
        return self._reader(path).unknown(kind)

    def _if(self, step: core.If, path: Path) -> list[tuple[Path, Signal]]:
        found: list[tuple[Path, Signal]] = []
        for condition, body in step.branches:
            holds = self._reader(path).value(condition, path.env).true
            if not smt.is_false(holds):
                inside = path.copy()
                inside.book.fact(holds)
                found += self._steps(body, [inside])
            if smt.is_true(holds):
                return found
            path.book.fact(smt.no(holds))
        return found + self._steps(step.otherwise, [path])

    def _passed_over(self, step: core.If | core.ForEach | core.ForRange, path: Path) -> bool:
        """Whether what a step does matters to no invariant; then what it leaves is anything."""
        parts = silent((step,), self.looked.tables, self.looked.columns, self._nesting)
        if parts is None or self.looked.exact:
            return False
        path.writes += anything(path.book, parts)
        for slot, kind in self._assigned(step):
            path.env.variables[slot] = self._unknown(path, kind)
        return True

    # Loops

    def _loop(self, step: Loop, path: Path) -> list[tuple[Path, Signal]]:
        if any(_writes((step,))):
            if not isinstance(step, core.While) and self._passed_over(step, path):
                return [(path, None)]
            return self._writing_loop(step, path)
        if self.looked.exact and any(True for _ in statements((step,))):
            raise outside("a loop that only reads, where every read matters")
        # What such a loop leaves in variables is not known; it may end the procedure, or the transaction.
        ends = any(isinstance(one, core.Return) for one in all_steps(step.body))
        if isinstance(step, core.ForEach) and not isinstance(step.rows, int):
            path.timeline.plain(path.book)
        rows = (
            path.env.variables.get(step.rows) if isinstance(step, core.ForEach) and isinstance(step.rows, int) else None
        )
        added = counters(step.body)
        starts = {slot: path.env.variables.get(slot, NULL) for slot in added}
        self._forget(step, path)
        if isinstance(rows, RowsValue):
            for slot, start in starts.items():
                if isinstance(start, Value):
                    path.env.variables[slot] = Value(start.known + added[slot] * rows.count, start.null)
        found: list[tuple[Path, Signal]] = [(path, None)]
        if ends:
            found.append((path.copy(), ("return", 0)))
        return found

    def _writing_loop(self, step: Loop, path: Path) -> list[tuple[Path, Signal]]:
        if isinstance(step, core.While) or any(isinstance(one, core.Return) for one in all_steps(step.body)):
            raise outside("WHILE that writes, or a loop that writes and returns")
        if any(isinstance(one, core.ForEach | core.ForRange | core.While) for one in all_steps(step.body)):
            raise outside("a loop inside of a loop that writes")
        if isinstance(step, core.ForEach) and not isinstance(step.rows, int | Query):
            raise outside("a loop over what a change returns")
        self._nesting += 1
        try:
            return self._rounds(step, path)
        finally:
            self._nesting -= 1

    def _rounds(self, step: core.ForEach | core.ForRange, path: Path) -> list[tuple[Path, Signal]]:
        book = path.book
        since = book.names.last
        loop = self._looked_into(step, path)
        rounds = loop.rounds
        once = not any(isinstance(one, core.Jump) for one in all_steps(step.body))
        # A first run tells what a round writes, whatever the rounds before it wrote; what it learned besides is forgotten.
        trial = path.copy()
        trial.writes += anything(trial.book, written(step.body))
        self._enter(loop, trial)
        index: list[Key] = [(rounds.focus,)] if not loop.key else [loop.key]
        counted = list[Key]()
        for slot, added in loop.steady.items():
            value = trial.env.variables[slot]
            if isinstance(value, Value):
                counted += [(value.term,), (value.term + added,)]
        begun = len(trial.writes)
        ways_ = [found.writes[begun:] for found, _ in self._steps(step.body, [trial])]
        found: list[tuple[Path, Signal]] = []
        for inside in (True, False):
            way = path.copy()
            way.book.fact(rounds.inside if inside else smt.no(rounds.inside))
            left = rounds.many - 1 if inside else rounds.many
            # Where no round is about the row that is looked at, its number says nothing.
            apart = index if loop.key and not inside else index + counted
            before = way.book.fresh("before")
            way.book.fact(smt.both(before >= 0, before <= left))
            way.writes += tuple(others(way.book, ways_, since, apart, before if once else None))
            ways = [way]
            if inside:
                self._enter(loop, way)
                ways = [one for one, _ in self._steps(step.body, [way])]
            for one in ways:
                one.writes += tuple(others(one.book, ways_, since, apart, left - before if once else None))
                self._forget(step, one)
                for slot, start in loop.starts.items():
                    if isinstance(start, Value):
                        one.env.variables[slot] = Value(start.known + loop.steady[slot] * rounds.many, start.null)
                found.append((one, None))
        return found

    def _looked_into(self, step: core.ForEach | core.ForRange, path: Path) -> _Loop:
        """The round that is looked at: by its number, or by the key of the row that it is about."""
        book, reader = path.book, self._reader(path)
        added = {slot: number for slot, number in counters(step.body).items() if number}
        starts = {slot: path.env.variables.get(slot, NULL) for slot in added}
        if isinstance(step, core.ForRange):
            focus = book.fresh("focus")
            path.focus.append(Focus((focus,)))
            first, last = reader.value(step.first, path.env).known, reader.value(step.last, path.env).known
            many = smt.choose(last >= first, last - first + 1, smt.number(0))
            number = focus - first
            return _Loop(step, Rounds(many, number, focus, smt.both(number >= 0, number < many)), starts, added)
        source = step.rows
        rows = path.env.variables.get(source) if isinstance(source, int) else Fetching(self.ghosts, path).all(source)
        many = rows.count if isinstance(rows, RowsValue) else book.fresh("many")
        book.fact(many >= 0)
        number = book.fresh("focus")
        chosen = rows.chosen if isinstance(rows, RowsValue) else None
        types = rows.types if isinstance(rows, RowsValue) else ()
        inside = smt.both(number >= 0, number < many)
        if chosen is None:
            path.focus.append(Focus((number,)))
            return _Loop(step, Rounds(many, number, number, inside), starts, added, types)
        key = book.fresh_key(chosen.table, "focus")
        path.focus.append(Focus(key, chosen.table))
        there, values = chosen.found(book, key)
        here = smt.both(there, inside)
        if not chosen.all_of_them:
            here = smt.both(here, book.fresh("chosen", "boolean"))
        else:
            # Every row that matches has a round.
            book.fact(smt.implies(there, inside))
        return _Loop(step, Rounds(many, number, number, here), starts, added, types, key, values)

    def _assigned(self, step: core.If | Loop) -> Iterator[tuple[int, ValueType]]:
        own = [*step.before, *step.assigns] if isinstance(step, core.ForEach) else []
        kinds: dict[int, ValueType] = {}
        for slot, kind in assigned((*own, step)):
            if slot not in kinds or _room(kind) >= _room(kinds[slot]):
                kinds[slot] = kind
        yield from kinds.items()

    def _forget(self, step: Loop, path: Path) -> None:
        for slot, kind in self._assigned(step):
            path.env.variables[slot] = self._unknown(path, kind)

    def _enter(self, loop: _Loop, path: Path) -> None:
        """Variables as they are when the round begins that is looked at."""
        step = loop.step
        self._forget(step, path)
        for slot, start in loop.starts.items():
            if isinstance(start, Value):
                path.env.variables[slot] = Value(start.known + loop.steady[slot] * loop.rounds.number, start.null)
        if isinstance(step, core.ForRange):
            path.env.variables[step.slot] = Value(loop.rounds.focus)
            return
        reader = self._reader(path)
        if loop.values is not None:
            path.env.rows[step.source] = loop.values
        else:
            given = isinstance(step.rows, int) and step.rows < len(self.parameters)
            types = loop.types or (BIGINT,) * 64
            path.env.rows[step.source] = tuple(reader.unknown(kind, nonnull=given) for kind in types)
        for assign in step.assigns:
            if isinstance(assign, core.AssignRow):
                self._assign_row(assign, path, smt.TRUE)
            else:
                self._assign(assign, path)


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop that writes: ``starts`` are the variables to which every round adds (``steady``), as they were before it.

    ``types`` of the rows that it goes through; ``key`` and ``values`` of the one that is looked at, where it is one of a table.
    """

    step: core.ForEach | core.ForRange
    rounds: Rounds
    starts: dict[int, Symbol]
    steady: dict[int, int]
    types: tuple[ValueType, ...] = ()
    key: Key = ()
    values: tuple[Value, ...] | None = None


def _room(kind: ValueType) -> int:
    """Of several types that a variable is given, the one with the most room is that of an unknown value."""
    if kind.sort in {Sort.ROW, Sort.ROWS}:
        return 3
    return 0 if kind.sort is Sort.NULL else 2 if sort_of(kind) == "real" else 1


def _writes(steps: Sequence[core.Step]) -> Iterator[bool]:
    yield from (not isinstance(one, Query) for one in statements(steps))
    yield from (isinstance(one, core.Call | core.OpenCursor | core.FetchCursor) for one in all_steps(steps))
