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
from isolde.semantics.sets.loops import Rounds, counters, others
from isolde.semantics.sets.path import Path
from isolde.semantics.sets.state import Base, Book, Names
from isolde.semantics.sets.timeline import Others, Timeline
from isolde.semantics.sets.values import NULL, RowsValue, RowValue, Symbol, Value, merged, outside, sort_of
from isolde.smt import terms as smt

WAYS_MAX = 128

Signal = tuple[str, int] | None
"""How a list of steps ended: not at all, by a return, or by leaving or repeating the loop at a depth."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """``kind``: its type; a list has the types of its elements' values, by place."""

    name: str
    kind: ValueType


class Execution:
    """One transaction at one level."""

    def __init__(self, ghosts: Ghosts, routine: core.Routine, parameters: Sequence[Parameter]) -> None:
        self.ghosts, self.routine, self.parameters = ghosts, routine, parameters
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
                yield slot, RowsValue(count, len(parameter.kind.columns))
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
            return RowsValue(path.book.fresh("many"), len(kind.columns))
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

    # Loops

    def _loop(self, step: core.ForEach | core.ForRange | core.While, path: Path) -> list[tuple[Path, Signal]]:
        if any(_writes(step.body)):
            return self._writing_loop(step, path)
        # What such a loop leaves in variables is not known; it may end the procedure, or the transaction.
        ends = any(isinstance(one, core.Return) for one in all_steps(step.body))
        if isinstance(step, core.ForEach) and not isinstance(step.rows, int):
            path.timeline.plain(path.book)
        rows = (
            path.env.variables.get(step.rows) if isinstance(step, core.ForEach) and isinstance(step.rows, int) else None
        )
        starts = {slot: path.env.variables.get(slot, NULL) for slot in counters(step.body)}
        self._forget(step, path)
        if isinstance(rows, RowsValue) and not any(isinstance(one, core.Jump) for one in all_steps(step.body)):
            for slot, added in counters(step.body).items():
                start = starts[slot]
                if isinstance(start, Value):
                    path.env.variables[slot] = Value(start.known + added * rows.count, start.null)
        found: list[tuple[Path, Signal]] = [(path, None)]
        if ends:
            found.append((path.copy(), ("return", 0)))
        return found

    def _writing_loop(self, step: core.ForEach | core.ForRange | core.While, path: Path) -> list[tuple[Path, Signal]]:
        if isinstance(step, core.While) or any(isinstance(one, core.Return) for one in all_steps(step.body)):
            raise outside("WHILE that writes, or a loop that writes and returns")
        if any(isinstance(one, core.ForEach | core.ForRange | core.While) for one in all_steps(step.body)):
            raise outside("a loop inside of a loop that writes")
        book, reader = path.book, self._reader(path)
        since = book.names.last
        focus = book.fresh("focus")
        path.focus.append(focus)
        if isinstance(step, core.ForRange):
            first, last = reader.value(step.first, path.env).known, reader.value(step.last, path.env).known
            rounds = Rounds(smt.choose(last >= first, last - first + 1, smt.number(0)), focus - first)
        else:
            rows = path.env.variables.get(step.rows) if isinstance(step.rows, int) else None
            if rows is None:
                path.timeline.plain(book)
            many = rows.count if isinstance(rows, RowsValue) else book.fresh("many")
            book.fact(many >= 0)
            rounds = Rounds(many, focus)
        steady = {slot: added for slot, added in counters(step.body).items() if added}
        starts = {slot: path.env.variables.get(slot, NULL) for slot in steady}
        once = not any(isinstance(one, core.Jump) for one in all_steps(step.body))
        # A first run tells what a round writes; what it learned besides is forgotten.
        trial = path.copy()
        self._enter(step, trial, rounds, starts, steady)
        index = [focus, *(v.term for s in steady if isinstance(v := trial.env.variables[s], Value))]
        index += [term + steady[slot] for slot, term in zip(steady, index[1:], strict=False)]
        written = [found.writes[len(path.writes) :] for found, _ in self._steps(step.body, [trial])]
        found: list[tuple[Path, Signal]] = []
        for inside in (True, False):
            way = path.copy()
            way.book.fact(rounds.inside if inside else smt.no(rounds.inside))
            left = rounds.many - 1 if inside else rounds.many
            before = way.book.fresh("before")
            way.book.fact(smt.both(before >= 0, before <= left))
            way.writes += tuple(others(way.book, written, since, index, before if once else None))
            ways = [way]
            if inside:
                self._enter(step, way, rounds, starts, steady)
                ways = [one for one, _ in self._steps(step.body, [way])]
            for one in ways:
                one.writes += tuple(others(one.book, written, since, index, left - before if once else None))
                self._forget(step, one)
                for slot, start in starts.items():
                    if isinstance(start, Value):
                        one.env.variables[slot] = Value(start.known + steady[slot] * rounds.many, start.null)
                found.append((one, None))
        return found

    def _forget(self, step: core.ForEach | core.ForRange | core.While, path: Path) -> None:
        for slot, kind in _assigned(step):
            path.env.variables[slot] = self._unknown(path, kind)

    def _enter(
        self,
        step: core.ForEach | core.ForRange,
        path: Path,
        rounds: Rounds,
        starts: dict[int, Symbol],
        steady: dict[int, int],
    ) -> None:
        """Variables as they are when the round begins that is looked at."""
        self._forget(step, path)
        for slot, start in starts.items():
            if isinstance(start, Value):
                path.env.variables[slot] = Value(start.known + steady[slot] * rounds.number, start.null)
        if isinstance(step, core.ForRange):
            path.env.variables[step.slot] = Value(path.focus[-1])
            return
        rows = path.env.variables.get(step.rows) if isinstance(step.rows, int) else None
        width = rows.width if isinstance(rows, RowsValue) else 64
        given = isinstance(step.rows, int) and step.rows < len(self.parameters)
        reader = self._reader(path)
        path.env.rows[step.source] = tuple(reader.unknown(BIGINT, nonnull=given) for _ in range(width))
        for assign in step.assigns:
            if isinstance(assign, core.AssignRow):
                self._assign_row(assign, path, smt.TRUE)
            else:
                self._assign(assign, path)


def all_steps(steps: Sequence[core.Step]) -> Iterator[core.Step]:
    for step in steps:
        yield step
        match step:
            case core.If(branches, otherwise):
                for _, body in branches:
                    yield from all_steps(body)
                yield from all_steps(otherwise)
            case core.ForEach() | core.ForRange() | core.While():
                yield from all_steps(step.body)
            case _:
                pass


def _writes(steps: Sequence[core.Step]) -> Iterator[bool]:
    for step in all_steps(steps):
        match step:
            case core.Run(statement) | core.Fetch(statement) | core.FetchAll(statement):
                yield not isinstance(statement, Query)
            case core.Call() | core.OpenCursor() | core.FetchCursor():
                yield True
            case _:
                pass


def _assigned(step: core.ForEach | core.ForRange | core.While) -> Iterator[tuple[int, ValueType]]:
    """The variables that a loop assigns to, with the types that they get."""
    if isinstance(step, core.ForRange):
        yield step.slot, step.first.type
    own = [*step.before, *step.assigns] if isinstance(step, core.ForEach) else []
    for one in (*own, *all_steps(step.body)):
        match one:
            case core.Assign(slot, value):
                yield slot, value.type
            case core.AssignRow(slot):
                yield slot, ValueType(Sort.ROW)
            case core.Fetch() | core.FetchCursor():
                for assign in one.assigns:
                    kind = assign.value.type if isinstance(assign, core.Assign) else _row_type(one)
                    yield assign.slot, kind
                if one.found is not None:
                    yield one.found.slot, one.found.value.type
            case core.FetchAll(_, slot):
                yield slot, ValueType(Sort.ROWS)
            case core.Draw() | core.Pick():
                yield one.assign.slot, one.assign.value.type
            case core.Run(_, _, assign) if assign is not None:
                yield assign.slot, assign.value.type
            case core.ForRange(slot, first):
                yield slot, first.type
            case core.ForEach():
                for given in (*one.before, *one.assigns):
                    yield given.slot, given.value.type if isinstance(given, core.Assign) else ValueType(Sort.ROW)
            case _:
                pass


def _row_type(step: core.Fetch | core.FetchCursor) -> ValueType:
    if isinstance(step, core.Fetch) and isinstance(step.statement, Query):
        return ValueType(Sort.ROW, columns=tuple((one.name, one.type) for one in step.statement.outputs))
    return ValueType(Sort.ROW)
