"""What has to be proved of one transaction at one level: each commit keeps the invariants, and what the others rely on.

A way through the transaction meets committed states; each of them satisfies all invariants, and from each to the next the rely
holds. Facts about all rows are instantiated at the rows that are named: the answer "it cannot be" is sound whatever is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from pathlib import Path as FilePath
from typing import Literal

from isolde.engines.infer.candidates import Candidate
from isolde.engines.infer.mutual import Mutual, may_break
from isolde.engines.infer.problem import Problem, TransactionProblem
from isolde.levels.specifications import Specification
from isolde.semantics.core.catalog import Catalog, TableInfo
from isolde.semantics.core.relations import Insert, Query
from isolde.semantics.sets.ghosts import ties
from isolde.semantics.sets.invariants import Condition, tables_of
from isolde.semantics.sets.path import Path
from isolde.semantics.sets.queries import Tables
from isolde.semantics.sets.state import Base, Book, Committed, Key, Universal, View
from isolde.semantics.sets.values import key_places, terms_of
from isolde.smt import terms as smt
from isolde.smt.terms import Solver, Term

DEPTH_MAX = 1
"""How far from the rows that a transaction names facts about all rows are instantiated."""
ROUNDS = 2

Goal = Condition | Candidate


@dataclass(frozen=True, slots=True)
class Answer:
    """``proved`` with the rely that it used; else whether there is a state that a solver thinks breaks it."""

    status: Literal["proved", "broken", "unknown"]
    used: frozenset[str] = frozenset()


class Instances:
    """A book with its facts about all rows, instantiated as far as rows are named."""

    def __init__(self, book: Book, deepest: int = DEPTH_MAX) -> None:
        self.book, self.deepest = book, deepest
        self._done: set[tuple[int, tuple[tuple[int, ...], ...]]] = set()
        self._facts = 0
        self._tied: set[tuple[int, str, tuple[int, ...]]] = set()

    def copy(self) -> Instances:
        new = Instances(self.book.copy(), self.deepest)
        new._done, new._facts, new._tied = set(self._done), self._facts, set(self._tied)
        return new

    def grown(self, rounds: int = ROUNDS) -> list[Term]:
        """All that is new since the last time."""
        found: list[Term] = []
        for _ in range(rounds):
            self._tie()
            named = {table: list(keys.items()) for table, keys in self.book.points.items()}
            for number, universal in enumerate(list(self.book.universals)):
                found += self._instances(number, universal, named)
        found += self.book.facts[self._facts :]
        self._facts = len(self.book.facts)
        return found

    def _instances(
        self, number: int, universal: Universal, named: Mapping[int, Sequence[tuple[tuple[int, ...], tuple[Key, int]]]]
    ) -> Iterator[Term]:
        lists = [named.get(info.position, ()) for info in universal.tables]
        for combination in product(*lists):
            index = (number, tuple(identity for identity, _ in combination))
            depth = sum(depth for _, (_, depth) in combination)
            if index in self._done or depth > self.deepest:
                continue
            self._done.add(index)
            self.book.depth = depth + 1
            term = universal.say(self.book, *(key for _, (key, _) in combination))
            self.book.depth = 0
            if not smt.is_true(term):
                yield term

    def _tie(self) -> None:
        for index, (view, ghost, group, depth) in list(self.book.uses.items()):
            if index not in self._tied and depth <= self.deepest:
                self._tied.add(index)
                self.book.depth = max(depth, 1)
                ties(self.book, view, ghost, group, near=depth == 0)
                self.book.depth = 0


@dataclass(frozen=True, eq=False)
class Ready:
    """A solver that waits for a goal about these rows."""

    solver: Solver
    book: Book
    keys: list[Key]


@dataclass(eq=False)
class Case:
    """One way through a transaction at a level, with all that may be assumed. ``last``: the state after the commit."""

    path: Path
    states: list[Base]
    last: Committed
    instances: Instances
    solver: Solver
    written: frozenset[int]
    told: list[Term]
    ready: dict[str, Ready] = field(default_factory=dict)


@dataclass(eq=False)
class Obligations:
    """Asks, and remembers what was answered: a proof holds for every larger rely, a failure for every smaller one."""

    problem: Problem
    candidates: Mapping[str, Candidate]
    conditions: Mapping[str, Condition]
    seconds: float = 5.0
    directory: FilePath | None = None
    told: Callable[[str], None] = lambda _: None
    asked: int = 0
    mutual: dict[str, Mutual] = field(default_factory=dict)
    """What serializable transactions are among each other, by the name that such an assignment's level has."""
    _cases: dict[tuple[str, str, str], list[Case]] = field(default_factory=dict)
    _proved: dict[tuple[str, str, str, str], list[frozenset[str]]] = field(default_factory=dict)
    _failed: dict[tuple[str, str, str, str], list[tuple[frozenset[str], Answer]]] = field(default_factory=dict)

    def answer(self, transaction: TransactionProblem, level: Specification, goal: Goal, rely: frozenset[str]) -> Answer:
        """Whether every commit of a transaction keeps a goal, if the others keep ``rely`` and all invariants."""
        if not self.concerned(transaction, goal):
            return Answer("proved")
        index = (transaction.name, level.database, level.level, goal.name)
        for used in self._proved.get(index, ()):
            if used <= rely:
                return Answer("proved", used)
        for given, answer in self._failed.get(index, ()):
            if rely <= given:
                return answer
        answer = self._ask(transaction, level, goal, rely)
        if answer.status == "proved":
            self._proved.setdefault(index, []).append(answer.used)
        else:
            self._failed.setdefault(index, []).append((rely, answer))
        return answer

    def concerned(self, transaction: TransactionProblem, goal: Goal) -> bool:
        """Whether the transaction could break it at all, by what it writes."""
        writing = transaction.writing
        if isinstance(goal, Condition):
            return bool(writing.tables & goal.tables)
        if not writing.tables & goal.touches:
            return False
        if len(goal.touches) > 1:
            return True
        return may_break(self.problem, transaction.name, goal)

    def _ask(self, transaction: TransactionProblem, level: Specification, goal: Goal, rely: frozenset[str]) -> Answer:
        used: set[str] = set()
        for case in self.cases(transaction, level):
            if not case.written:
                continue
            answer = self._ask_case(transaction, level, case, goal, rely)
            if answer.status != "proved":
                return answer
            used |= answer.used
        return Answer("proved", frozenset(used))

    def _ask_case(
        self, transaction: TransactionProblem, level: Specification, case: Case, goal: Goal, rely: frozenset[str]
    ) -> Answer:
        self.asked += 1
        self.told(f"{transaction.name} at {level.level}: {goal.name}")
        ready = self._ready(case, goal)
        solver = ready.solver
        solver.push()
        try:
            if isinstance(goal, Candidate):
                solver.add(smt.no(goal.step(ready.book, case.path.timeline.commit, case.last, ready.keys[0])))
            labels = [_label(name) for name in sorted(rely)]
            if self.directory is not None:
                name = f"{self.asked:05d} {transaction.name} {level.level} {goal.name}".replace("/", " ")
                (self.directory / f"{name.replace(' ', '-')}.smt2").write_text(solver.text(labels))
            answer = "unknown"
            for focus in self._focuses(case, ready):
                answer = solver.check([*labels, *focus])
                if answer == "unsat":
                    core = [_name(label) for label in solver.core()]
                    return Answer("proved", frozenset(name for name in core if name in self.candidates))
            return Answer("broken" if answer == "sat" else "unknown")
        finally:
            solver.pop()

    def _ready(self, case: Case, goal: Goal) -> Ready:
        """A solver that knows the case and the rows of a goal; candidates about one table share it."""
        index = f"invariant {goal.name}" if isinstance(goal, Condition) else f"table {goal.table.position}"
        if index not in case.ready:
            instances = case.instances.copy()
            book = instances.book
            if isinstance(goal, Condition):
                keys = [book.fresh_key(scan.table, "broken") for scan in goal.rows]
                book.fact(goal.violated(Tables(book, self.problem.ghosts, case.last), keys))
            else:
                keys = [book.fresh_key(goal.table, "broken")]
                for one in self.candidates.values():
                    if one.table is goal.table:
                        # The rows that it names are named now, so that facts are told of them.
                        one.step(book, case.path.timeline.commit, case.last, keys[0])
            solver = Solver(self.seconds)
            solver.add(*case.told)
            solver.add(*instances.grown())
            case.ready[index] = Ready(solver, book, keys)
        return case.ready[index]

    @staticmethod
    def _focuses(case: Case, ready: Ready) -> Iterator[list[Term]]:
        """The rounds of loops to look at: any choice is sound, those that the goal's rows name are tried."""
        if not case.path.focus:
            yield []
            return
        for part in dict.fromkeys(part for key in ready.keys for part in key):
            chosen = smt.constant(ready.book.names.fresh("focus"), "boolean")
            ready.solver.add(smt.implies(chosen, smt.every(smt.equal(one, part) for one in case.path.focus)))
            yield [chosen]

    def broken(self, book: Book, case: Case, goal: Goal) -> Iterator[Term]:
        """That the commit breaks a goal, at rows of which nothing else is known."""
        if isinstance(goal, Condition):
            keys = [book.fresh_key(scan.table, "broken") for scan in goal.rows]
            yield goal.violated(Tables(book, self.problem.ghosts, case.last), keys)
            return
        key = book.fresh_key(goal.table, "broken")
        yield smt.no(goal.step(book, case.path.timeline.commit, case.last, key))

    # Cases

    def cases(self, transaction: TransactionProblem, level: Specification) -> list[Case]:
        index = (transaction.name, level.database, level.level)
        if index not in self._cases:
            ways = transaction.ways(level, self.problem.names)
            self._cases[index] = [self._case(path, level) for path in ways]
        return self._cases[index]

    def _case(self, path: Path, level: Specification) -> Case:
        path = path.copy()
        book = path.book
        states = path.timeline.end(book)
        locked = [
            (lock.table, lock.key, lock.held) for lock in path.timeline.locks if lock.exclusive and not lock.presence
        ]
        last = Committed(path.timeline.commit, path.writes, locked)
        book.kept.append(last)
        for info, key in path.fresh_rows:
            for state in states:
                book.fact(smt.no(state.row(info, key).there))
        looked = _looked(path)
        for state in states:
            view = View(state)
            book.kept.append(view)
            self._assume_constraints(book, view)
            tables, grouped = looked.get(id(state), (frozenset(), False))
            for condition in self.conditions.values():
                near = condition.tables & tables and (grouped or not condition.aggregates)
                if state is path.timeline.commit or near:
                    self._assume(book, condition, view)
        self._assume_constraints(book, last)
        for old, new in pairwise(states):
            for info in {id(one.counts): one.counts for one in self.candidates.values() if one.counts}.values():
                assert info is not None
                book.universals.append(_counting(info, old, new))
            for candidate in self.candidates.values():
                self._assume_rely(book, candidate, old, new)
        if level.database in self.mutual:
            book.universals += self.mutual[level.database].universals(path, states)
        instances = Instances(book)
        solver = Solver(self.seconds)
        told = instances.grown()
        solver.add(*told)
        written = frozenset(write.table.position for write in path.writes)
        return Case(path, states, last, instances, solver, written, told)

    def _assume(self, book: Book, condition: Condition, view: View) -> None:
        def holds(inside: Book, *keys: Key) -> Term:
            return smt.no(condition.violated(Tables(inside, self.problem.ghosts, view), keys))

        if condition.rows:
            book.universals.append(Universal(tuple(scan.table for scan in condition.rows), holds))
        else:
            book.fact(holds(book))

    @staticmethod
    def _assume_rely(book: Book, candidate: Candidate, old: Base, new: Base) -> None:
        label = _label(candidate.name)

        def holds(inside: Book, key: Key) -> Term:
            return smt.implies(label, candidate.step(inside, old, new, key))

        book.universals.append(Universal((candidate.table,), holds))

    def _assume_constraints(self, book: Book, view: View) -> None:
        """What the database itself sees to in every committed state: unique and foreign keys."""
        for info in self.problem.catalog.tables:
            for place, unique in enumerate(info.uniques):
                if place > 0 or not info.table.primary_key:
                    book.universals.append(_unique(view, info, unique))
        for universal in _references(self.problem.catalog, view):
            book.universals.append(universal)


def _looked(path: Path) -> dict[int, tuple[frozenset[int], bool]]:
    """The tables that were read in each state, and whether groups were: what is known of the rest of it is not needed."""
    found: dict[int, tuple[frozenset[int], bool]] = {}
    grouped = {id(view.base) for view, _, _, _ in path.book.uses.values()}
    for base, statement, _ in path.reads:
        if isinstance(statement, Query):
            tables = frozenset(tables_of(statement))
            if statement.limit is not None:
                # The first of several rows is the smallest of a group.
                grouped.add(id(base))
        else:
            assert not isinstance(statement, Insert)
            tables = frozenset({statement.scan.table.position})
        found[id(base)] = (found.get(id(base), (frozenset(), False))[0] | tables, id(base) in grouped)
    return found


def _counting(info: TableInfo, old: Base, new: Base) -> Universal:
    """Counters of commits only rise."""

    def rise(_: Book, key: Key) -> Term:
        return smt.both(
            old.counter(info, "written", key) <= new.counter(info, "written", key),
            old.counter(info, "locked", key) <= new.counter(info, "locked", key),
        )

    return Universal((info,), rise)


def _unique(view: View, info: TableInfo, places: tuple[int, ...]) -> Universal:
    def distinct(_: Book, one: Key, other: Key) -> Term:
        left, right = view.row(info, one), view.row(info, other)
        parts = [(left.values[place], right.values[place]) for place in places]
        nulls = smt.some(smt.either(a.null, b.null) for a, b in parts)
        equal = smt.every(smt.equal(a.known, b.known) for a, b in parts)
        return smt.implies(smt.both(left.there, right.there, smt.no(nulls), equal), smt.all_equal(one, other))

    return Universal((info, info), distinct)


def _references(catalog: Catalog, view: View) -> Iterator[Universal]:
    for reference in catalog.references:
        child, parent = catalog.tables[reference.child], catalog.tables[reference.parent]
        places = key_places(parent)
        if places is None or set(places) != set(reference.parent_columns):
            continue
        columns = [reference.child_columns[reference.parent_columns.index(place)] for place in places]

        def refers(
            book: Book, key: Key, child: TableInfo = child, parent: TableInfo = parent, columns: list[int] = columns
        ) -> Term:
            row = view.row(child, key)
            values = [row.values[place] for place in columns]
            nulls = smt.some(value.null for value in values)
            return smt.implies(smt.both(row.there, smt.no(nulls)), book.row(view, parent, terms_of(values)).there)

        yield Universal((child,), refers)


def _label(name: str) -> Term:
    return smt.constant(f"rely {name}", "boolean")


def _name(label: str) -> str:
    return label.strip("|").removeprefix("rely ")
