"""The paper's definition given to a solver, as in its sections 5 to 7, so that its encodings and heuristics can be compared.

In the order of ``end``, what a statement reads is chosen by an identifier of a state. Encodings: *guarded* has for each cell the
values that were written, and reads the one that the identifier points at; *baseline* has a variable for each cell in each
state; *array* has an array for each state. Judged are logs of SELECT and UPDATE by primary key, of INSERTs of rows that
nothing else looks at, and of integers; anything else is refused by name. Integers are not bounded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from isolde.engines.audit.compiling import Ask
from isolde.engines.audit.heuristics import Heuristics
from isolde.engines.audit.log import Entry, Log
from isolde.engines.audit.parts import parts_of
from isolde.engines.audit.readings import Reading, Reads
from isolde.engines.audit.search import Allowance, End
from isolde.engines.audit.tables import Name
from isolde.errors import InputError, UsageError
from isolde.semantics.core.evaluate import Environment, Evaluator
from isolde.semantics.core.nodes import Apply
from isolde.semantics.core.relations import Insert, Query, Update
from isolde.tx.dialects import Dialect

if TYPE_CHECKING:
    from isolde.smt.terms import Term

Cell = tuple[Name, int]
"""A row and the place of a column."""
CHECK_S = 300.0


class Encoding(Enum):
    """How states are told to the solver."""

    BASELINE = "baseline"
    ARRAY = "array"
    GUARDED = "guarded"


ENCODINGS = tuple(one.value for one in Encoding)


def encoding_named(name: str | None) -> Encoding | None:
    if name is not None and name not in ENCODINGS:
        raise UsageError(f"no encoding {name!r}; there are {', '.join(ENCODINGS)}")
    return None if name is None else Encoding(name)


class _Impossible(Exception):
    """An answer that no choice of states gives."""


class _Symbolic(Evaluator):
    """Values may be terms."""

    def applied(self, node: Apply, env: Environment) -> Any:
        values = [self.value(argument, env) for argument in node.arguments]
        if all(value is None or isinstance(value, int | str | bool) for value in values):
            return super().applied(node, env)
        match node.primitive.smt, values:
            case "+", [left, right]:
                return left + right
            case "-", [left, right]:
                return left - right
            case _:
                raise InputError(
                    f"the encodings of the paper cannot say {node.primitive.name!r} of a value that is chosen"
                )


@dataclass(slots=True)
class _Step:
    """A statement on one row that is there from the beginning; ``names`` of others were inserted."""

    ask: Ask
    name: Name | None


@dataclass(slots=True)
class Encoded:
    """A log of a level, encoded. ``failed``: how many transactions were explained, if it is refuted."""

    log: Log
    reading: Reading
    encoding: Encoding
    heuristics: Heuristics
    allowance: Allowance
    failed: int = 0
    queries: int = 0
    _rows: dict[Name, tuple[Any, ...]] = field(default_factory=dict)
    _changing: set[Cell] = field(default_factory=set)
    _steps: dict[int, list[_Step]] = field(default_factory=dict)

    def run(self) -> End:
        """Whether some choice of states explains the log; what the fragment does not hold is an ``InputError``."""
        if self.reading.strict and self.reading.reads is Reads.ONE_SNAPSHOT and not self.log.timed:
            raise InputError("a strict level needs start and end of every transaction")
        self._prepare()
        weak: set[int] = set()
        window = self.heuristics.window
        while True:
            attempt = _Attempt(self, weak, window)
            end = attempt.run()
            self.queries += attempt.queries
            if end is not End.NONE or not self.allowance.step():
                return end if end is not End.NONE else End.SPENT
            # What was asked for beyond the level is taken back, the last first; then older states are looked at.
            if attempt.strong:
                weak.add(max(attempt.strong))
            elif window is not None and attempt.narrowed:
                window = 2 * window
            else:
                self.failed = attempt.placed
                return End.NONE

    def _prepare(self) -> None:
        history = self.log.history
        if history.dialect is Dialect.MYSQL and history.counts != "found":
            raise InputError('the encodings of the paper need "counts": "found" of a log of MySQL')
        store = self.log.store
        for table in store.named:
            for row in table.rows.values():
                if table.key is not None:
                    self._rows[table.info.position, table.key(row)] = row
        seen: dict[Name, int] = {}
        inserted: dict[Name, None] = {}
        for entry in self.log.entries:
            if entry.maybe:
                raise InputError("the encodings of the paper do not judge transactions of unknown outcome")
            steps = self._steps[entry.number] = []
            for ask in entry.asks:
                steps.append(self._step(ask, seen, inserted))
        shared = [name for name in inserted if name in self._rows or seen.get(name, 0) > 1]
        if shared:
            raise InputError(
                f"the encodings of the paper cannot say that the row {shared[0][1]!r} is inserted and looked at"
            )

    def _step(self, ask: Ask, seen: dict[Name, int], inserted: dict[Name, None]) -> _Step:
        code = ask.form.code
        foot = parts_of(self.log).footprint(ask)
        if ask.error is not None or code is None or foot.tables or not isinstance(code.core, Query | Update | Insert):
            raise InputError(f"the encodings of the paper cannot say {' '.join(ask.text.split())[:60]!r}")
        core = code.core
        if isinstance(core, Query) and (core.grouping or core.distinct or core.order or core.limit or core.offset):
            raise InputError(f"the encodings of the paper cannot say {' '.join(ask.text.split())[:60]!r}")
        for name in foot.rows:
            seen[name] = seen.get(name, 0) + 1
        if isinstance(core, Insert):
            inserted |= dict.fromkeys(foot.rows)
            return _Step(ask, None)
        name = foot.rows[0] if foot.rows else (-1, None)
        if isinstance(core, Update):
            self._changing |= {(name, one.place) for one in core.sets}
        return _Step(ask, name)


class _Attempt:
    """One run through the log. ``strong``: transactions held to a stronger level; ``narrowed``: whether states were left out."""

    def __init__(self, whole: Encoded, weak: set[int], window: int | None) -> None:
        from isolde.smt import terms

        self.smt, self.whole, self.weak, self.window = terms, whole, weak, window
        deadline = whole.allowance.deadline
        self.solver = terms.Solver(CHECK_S if deadline is None else max(0.1, deadline - _now()))
        self.strong: list[int] = []
        self.narrowed = False
        self.placed = 0
        self.queries = 0
        self.cells: dict[Cell, list[tuple[int, Any]]] = {
            (name, place): [(0, whole._rows[name][place])]
            for name, place in sorted(whole._changing, key=repr)
            if name in whole._rows
        }
        self.numbers = {cell: place for place, cell in enumerate(self.cells)}
        self.columns: dict[Name, list[int]] = {}
        for name, column in self.cells:
            self.columns.setdefault(name, []).append(column)
        self.states: list[Any] = []
        self.ends = [entry.end or 0 for entry in whole.log.entries]
        self._open_state({})

    def run(self) -> End:
        for entry in self.whole.log.entries:
            if not self.whole.allowance.step() or (self.whole.allowance.deadline or 2**62) < _now():
                return End.SPENT
            end = self._one(entry)
            if end is not End.FOUND:
                return end
            self.placed += 1
        return End.FOUND

    def _one(self, entry: Entry) -> End:
        stronger = self.whole.heuristics.stronger and entry.number not in self.weak
        for strong in (True, False) if stronger and self.whole.reading.reads is not Reads.LATEST else (False,):
            self.solver.push()
            try:
                facts, own = self._transaction(entry, strong)
                answer = self._asked(facts)
            except _Impossible:
                answer = "unsat"
            if answer == "sat":
                if strong:
                    self.strong.append(entry.number)
                self._commit(own)
                return End.FOUND
            self.solver.pop()
            if answer == "unknown":
                return End.SPENT
        return End.NONE

    def _asked(self, facts: Sequence[Term]) -> str:
        open_facts = [fact for fact in facts if not self.smt.is_true(fact)]
        self.solver.add(*open_facts)
        if not open_facts and self.whole.encoding is Encoding.GUARDED:
            return "sat"
        self.queries += 1
        return self.solver.check()

    # A transaction

    def _transaction(self, entry: Entry, strong: bool) -> tuple[list[Term], dict[Name, dict[int, Any]]]:
        """What has to hold for its answers and its level, and what it writes."""
        here, facts = self.placed, list[Any]()
        own: dict[Name, dict[int, Any]] = {}
        read: dict[Name, list[dict[int, Any]]] = {}
        shared: Any = self._state_read(entry, strong, facts, f"s{here}")
        for place, step in enumerate(self.whole._steps[entry.number]):
            ask, name, core = step.ask, step.name, step.ask.form.code.core  # type: ignore[union-attr]
            if name is None:
                self._count(ask, len(core.rows))  # type: ignore[union-attr]
                continue
            env = Environment(variables=dict(enumerate(ask.values)))
            if not self._found(name, core):
                self._answer(ask, None, facts)
                continue
            state = shared
            if self.whole.reading.reads is Reads.EACH_STATEMENT:
                state = self._state_read(entry, strong, facts, f"s{here}_{place}")
            values = {column: self._value((name, column), state) for column in self.columns.get(name, ())}
            read.setdefault(name, []).append(values)
            row = [
                own.get(name, {}).get(column, values.get(column, value))
                for column, value in enumerate(self.whole._rows[name])
            ]
            source: Any = core.source if isinstance(core, Query) else core.scan
            env.rows[source.id] = tuple(row)
            evaluator = _Symbolic()
            if not all(evaluator.value(condition, env) is True for condition in core.where):  # type: ignore[union-attr]
                self._answer(ask, None, facts)
                continue
            if isinstance(core, Query):
                self._answer(ask, [evaluator.value(output.value, env) for output in core.outputs], facts)
                continue
            self._count(ask, 1)
            assert isinstance(core, Update)
            new = {one.place: evaluator.value(one.value, env) for one in core.sets}
            own.setdefault(name, {}).update(new)
        if self.whole.reading.first_committer:
            facts += self._no_conflicts(own, read)
        return facts, own

    def _found(self, name: Name, core: Any) -> bool:  # noqa: ARG002
        """Whether the row is there: by an index of rows (H1), or by comparing every row of the table."""
        if self.whole.heuristics.index:
            return name in self.whole._rows
        table = self.whole.log.store.named[name[0]] if name[0] >= 0 else None
        if table is None or table.key is None:
            return False
        return any([table.key(row) == name[1] for row in table.rows.values()])  # noqa: C419

    def _count(self, ask: Ask, found: int) -> None:
        if ask.count is not None and ask.count != found:
            raise _Impossible

    def _answer(self, ask: Ask, row: Sequence[Any] | None, facts: list[Term]) -> None:
        if not ask.form.is_query:
            self._count(ask, 0)
            return
        if ask.rows is None:
            return
        if len(ask.rows) != (row is not None):
            raise _Impossible
        for value, observed in zip(row or (), ask.rows[0] if ask.rows else (), strict=False):
            facts.append(self._same(value, observed))

    def _same(self, left: Any, right: Any) -> Term:
        smt = self.smt
        if _is_plain(left) and _is_plain(right):
            if left != right:
                raise _Impossible
            return smt.TRUE
        return smt.equal(self._term(left), self._term(right))

    def _term(self, value: Any) -> Term:
        if not _is_plain(value):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return self.smt.number(value)
        raise InputError("the encodings of the paper cannot say that a value is chosen that is no integer")

    def _no_conflicts(
        self, own: Mapping[Name, Mapping[int, Any]], read: Mapping[Name, Sequence[dict[int, Any]]]
    ) -> Iterator[Term]:
        """Where a row is written another value than was read, the one that was read is there until the commit."""
        smt = self.smt
        for name, new in own.items():
            last = {column: self._value((name, column), self.placed) for column in self.columns.get(name, ())}
            for values in read.get(name, ()):
                same = smt.every(self._equals(new.get(column, value), value) for column, value in values.items())
                there = smt.every(self._equals(value, last[column]) for column, value in values.items())
                yield smt.either(same, there)

    def _equals(self, left: Any, right: Any) -> Term:
        if _is_plain(left) and _is_plain(right):
            return self.smt.truth(left == right)
        return self.smt.equal(self._term(left), self._term(right))

    # States

    def _state_read(self, entry: Entry, strong: bool, facts: list[Term], name: str) -> Any:
        """The state that is read: its number, or an identifier of it."""
        reading, last = self.whole.reading, self.placed
        if reading.reads is Reads.LATEST:
            return last
        begun = last if entry.start is None else bisect_left(self.ends, entry.start, 0, last)
        if reading.strict:
            return begun
        if strong:
            return begun if reading.reads is Reads.ONE_SNAPSHOT else last
        if reading.reads is Reads.EACH_STATEMENT and name == f"s{last}":
            return last
        lowest = 0
        if self.window is not None and last - self.window > 0:
            lowest, self.narrowed = last - self.window, True
        chosen = self.smt.constant(name)
        facts += [chosen >= lowest, chosen <= last]
        return chosen

    def _value(self, cell: Cell, state: Any) -> Any:
        """A cell in a state."""
        versions = self.cells[cell]
        if self.whole.encoding is not Encoding.GUARDED:
            return self._in_states(cell, state)
        if isinstance(state, int):
            return versions[bisect_left(versions, state + 1, key=lambda one: one[0]) - 1][1]
        if all(_is_plain(value) and value == versions[0][1] for _, value in versions):
            return versions[0][1]
        lowest = self.placed - self.window if self.window is not None else 0
        first = max(bisect_left(versions, lowest + 1, key=lambda one: one[0]) - 1, 0)
        found = self._term(versions[first][1])
        for at, value in versions[first + 1 :]:
            found = self.smt.choose(state >= at, self._term(value), found)
        return found

    def _in_states(self, cell: Cell, state: Any) -> Any:
        place = self.numbers[cell]

        def at(number: int) -> Term:
            held = self.states[number]
            if self.whole.encoding is Encoding.ARRAY:
                return self.smt.selected(held, self.smt.number(place))
            return held[place]

        if isinstance(state, int):
            return at(state)
        found = at(0)
        for number in range(1, self.placed + 1):
            found = self.smt.choose(state >= number, at(number), found)
        return found

    def _commit(self, own: Mapping[Name, Mapping[int, Any]]) -> None:
        written = {(name, column): value for name, new in own.items() for column, value in new.items()}
        for cell, value in written.items():
            self.cells[cell].append((self.placed + 1, value))
        self._open_state(written)
        if self.whole.heuristics.concretise and self.whole.encoding is Encoding.GUARDED:
            self._concretise([cell for cell, value in written.items() if not _is_plain(value)])

    def _open_state(self, written: Mapping[Cell, Any]) -> None:
        """The next state, told to the solver whole: what was written, and what stays as it was."""
        smt, number = self.smt, len(self.states)
        if self.whole.encoding is Encoding.GUARDED:
            return
        if self.whole.encoding is Encoding.ARRAY:
            held: Any = smt.array(f"d{number}")
            before = self.states[-1] if self.states else held
            for cell, place in self.numbers.items():
                if not self.states:
                    self.solver.add(
                        smt.equal(smt.selected(held, smt.number(place)), self._term(self.cells[cell][0][1]))
                    )
                elif cell in written:
                    before = smt.stored(before, smt.number(place), self._term(written[cell]))
            if self.states:
                self.solver.add(held == before)
        else:
            held = [smt.constant(f"d{number}_{place}") for place in self.numbers.values()]
            for cell, place in self.numbers.items():
                before = self.states[-1][place] if self.states else self._term(self.cells[cell][0][1])
                self.solver.add(smt.equal(held[place], self._term(written[cell]) if cell in written else before))
        self.states.append(held)

    # H3

    def _concretise(self, cells: Sequence[Cell]) -> None:
        """Values that can be no others are made plain: all at once if that is so, else by halves."""
        if not cells or self.solver.check() != "sat":
            return
        smt = self.smt
        values = {cell: self.solver.value(self.cells[cell][-1][1]) for cell in cells}

        def halves(some: Sequence[Cell]) -> None:
            if not some:
                return
            known = smt.every(smt.equal(self.cells[cell][-1][1], self._term(values[cell])) for cell in some)
            self.queries += 1
            self.solver.push()
            self.solver.add(smt.no(known))
            answer = self.solver.check()
            self.solver.pop()
            if answer == "unsat":
                for cell in some:
                    self.cells[cell][-1] = (self.cells[cell][-1][0], values[cell])
            elif len(some) > 1:
                halves(some[: len(some) // 2])
                halves(some[len(some) // 2 :])

        halves(cells)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, int | str | bool)


def _now() -> float:
    import time

    return time.monotonic()
