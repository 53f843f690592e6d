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

from isolde.engines.infer.assumptions import (
    assume,
    assume_absence,
    assume_constraints,
    assume_rely,
    counting,
    label,
    looked,
)
from isolde.engines.infer.cache import Cache
from isolde.engines.infer.candidates import Candidate
from isolde.engines.infer.mutual import Mutual
from isolde.engines.infer.problem import Problem, TransactionProblem
from isolde.levels.specifications import Specification
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.nodes import Column
from isolde.semantics.core.types import Sort
from isolde.semantics.sets.aggregates import Ghost
from isolde.semantics.sets.invariants import Condition
from isolde.semantics.sets.joined import Joined
from isolde.semantics.sets.path import Path
from isolde.semantics.sets.queries import Tables
from isolde.semantics.sets.state import Base, Book, Committed, Key, Universal, View
from isolde.semantics.sets.ties import compared, ties
from isolde.semantics.sets.values import key_places
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
        self._compared: set[tuple[object, ...]] = set()

    def copy(self) -> Instances:
        new = Instances(self.book.copy(), self.deepest)
        new._done, new._facts, new._tied = set(self._done), self._facts, set(self._tied)
        new._compared = set(self._compared)
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
        self._compare()

    def _compare(self) -> None:
        """Sums over rows that were written without being counted, with others of the same group."""
        near = [
            (index, (view, ghost, group))
            for index, (view, ghost, group, depth) in self.book.uses.items()
            if depth == 0 and ghost.kind in {"count", "sum"} and not isinstance(ghost, Joined)
        ]
        for index, one in near:
            if not one[1].opaque(one[0]):
                continue
            for other_index, other in near:
                pair = (index, other_index)
                if other_index == index or pair in self._compared or pair[::-1] in self._compared:
                    continue
                if one[1].kind == other[1].kind and _same_group(one, other):
                    self._compared.add(pair)
                    compared(self.book, one, other)


def _same_group(one: tuple[View, Ghost, Key], other: tuple[View, Ghost, Key]) -> bool:
    """Whether two aggregates are of rows of one table with the same columns, written alike."""
    named = [
        {
            (node.place, *smt.identity([term]))
            for node, term in zip(ghost.groups, group, strict=True)
            if isinstance(node, Column)
        }
        for _, ghost, group in (one, other)
    ]
    return one[1].table is other[1].table and len(named[0]) == len(one[1].groups) and named[0] == named[1]


@dataclass(frozen=True, eq=False)
class Ready:
    """A solver that waits for a goal about these rows. ``broken``: for each candidate a truth value that says it is broken."""

    solver: Solver
    book: Book
    rows: list[tuple[TableInfo, Key]]
    broken: dict[str, Term] = field(default_factory=dict)


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
    cache: Cache | None = None
    asked: int = 0
    unanswered: int = 0
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
        if isinstance(goal, Candidate):
            return goal.may_break(writing)
        updated = {(table, place) for table, places in writing.updates.items() for place in places}
        return bool((writing.inserts | writing.deletes) & goal.tables or updated & goal.columns)

    # Candidates of one table are asked for together

    def broken_candidates(
        self, transaction: TransactionProblem, level: Specification, names: frozenset[str], rely: frozenset[str]
    ) -> frozenset[str]:
        """Which of these candidates a transaction may break, if the others keep ``rely`` and all invariants."""
        open_, broken = set[str](), set[str]()
        for name in names:
            if not self.concerned(transaction, self.candidates[name]):
                continue
            index = (transaction.name, level.database, level.level, name)
            if any(used <= rely for used in self._proved.get(index, ())):
                continue
            if any(rely <= given for given, _ in self._failed.get(index, ())):
                broken.add(name)
            else:
                open_.add(name)
        groups: dict[int, set[str]] = {}
        for name in open_:
            groups.setdefault(self.candidates[name].table.position, set()).add(name)
        for group in groups.values():
            broken |= self._ask_group(transaction, level, group, rely)
        return frozenset(broken)

    def _ask_group(
        self, transaction: TransactionProblem, level: Specification, names: set[str], rely: frozenset[str]
    ) -> set[str]:
        parts = self._parts(transaction, level, rely, ["candidates", *sorted(names)])
        kept = self.cache.recall(parts) if self.cache is not None else None
        if kept is not None:
            return self._noted_group(transaction, level, names, rely, (set(kept[0]), set(kept[1])))
        pending, used, broken = set(names), set[str](), set[str]()
        for case in self.cases(transaction, level):
            if case.written and pending:
                lost, core = self._ask_group_case(transaction, level, case, pending, rely)
                pending -= lost
                broken |= lost
                used |= core
        if self.cache is not None:
            self.cache.keep(parts, [sorted(broken), sorted(used)])
        return self._noted_group(transaction, level, names, rely, (broken, used))

    def _noted_group(
        self,
        transaction: TransactionProblem,
        level: Specification,
        names: set[str],
        rely: frozenset[str],
        found: tuple[set[str], set[str]],
    ) -> set[str]:
        broken, used = found
        for name in names:
            index = (transaction.name, level.database, level.level, name)
            if name in broken:
                self._failed.setdefault(index, []).append((rely, Answer("broken")))
            else:
                self._proved.setdefault(index, []).append(frozenset(used))
        return broken

    def _parts(
        self, transaction: TransactionProblem, level: Specification, rely: frozenset[str], goal: Sequence[str]
    ) -> list[str]:
        """What a question is made of, beside what all have in common."""
        peers = sorted(self.mutual[level.database].peers) if level.database in self.mutual else []
        known = [*sorted(self.conditions), "", *sorted(self.candidates), "", *sorted(rely), "", *peers, ""]
        return [transaction.name, repr(level), f"{self.seconds:g}", *known, *goal]

    def _ask_group_case(
        self,
        transaction: TransactionProblem,
        level: Specification,
        case: Case,
        names: set[str],
        rely: frozenset[str],
    ) -> tuple[set[str], set[str]]:
        """Which of some candidates of a table one way through a transaction may break, and what the proof of the rest used."""
        first = self.candidates[min(names)]
        self.told(f"{transaction.name} at {level.level}: {len(names)} candidates about {first.table.table.name}")
        ready = self._ready(case, first)
        labels = [label(name) for name in sorted(rely)]
        left, used = set(names), set[str]()
        for focus in self._focuses(case, ready):
            proved, core = self._proved_together(ready, left, [*labels, *focus], (transaction.name, level.level))
            left -= proved
            used |= core
            if not left:
                break
        return left, used

    def _proved_together(
        self, ready: Ready, names: set[str], assumed: list[Term], asker: tuple[str, str]
    ) -> tuple[set[str], set[str]]:
        """Those candidates that are left when every one that a model breaks is taken out."""
        pending = set(names)
        while pending:
            ready.solver.push()
            try:
                ready.solver.add(smt.some(ready.broken[name] for name in sorted(pending)))
                self._written_down(ready.solver, assumed, f"{asker[0]} {asker[1]} {len(pending)} candidates")
                answer = ready.solver.check(assumed)
                if answer == "unsat":
                    return pending, {_name(one) for one in ready.solver.core()} & set(self.candidates)
                if answer == "unknown":
                    self.unanswered += 1
                    if len(pending) == 1:
                        return set(), set()
                    broken = set[str]()
                else:
                    broken = {name for name in pending if ready.solver.value(ready.broken[name]) is True}
            finally:
                ready.solver.pop()
            if not broken:
                return self._one_by_one(ready, pending, assumed, asker)
            pending -= broken
        return set(), set()

    def _one_by_one(
        self, ready: Ready, names: set[str], assumed: list[Term], asker: tuple[str, str]
    ) -> tuple[set[str], set[str]]:
        proved, used = set[str](), set[str]()
        for name in sorted(names):
            one, core = self._proved_together(ready, {name}, assumed, asker)
            proved |= one
            used |= core
        return proved, used

    # Invariants

    def _ask(self, transaction: TransactionProblem, level: Specification, goal: Goal, rely: frozenset[str]) -> Answer:
        parts = self._parts(transaction, level, rely, [goal.name])
        kept = self.cache.recall(parts) if self.cache is not None else None
        if kept is not None:
            return Answer(kept[0], frozenset(kept[1]))
        answer = self._ask_cases(transaction, level, goal, rely)
        # With more time, or on a day when the machine is less busy, the solver may know.
        if self.cache is not None and answer.status != "unknown":
            self.cache.keep(parts, [answer.status, sorted(answer.used)])
        return answer

    def _ask_cases(
        self, transaction: TransactionProblem, level: Specification, goal: Goal, rely: frozenset[str]
    ) -> Answer:
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
        self.told(f"{transaction.name} at {level.level}: {goal.name}")
        ready = self._ready(case, goal)
        solver = ready.solver
        solver.push()
        try:
            if isinstance(goal, Candidate):
                solver.add(ready.broken[goal.name])
            labels = [label(name) for name in sorted(rely)]
            answer = "unknown"
            for focus in self._focuses(case, ready):
                self._written_down(solver, [*labels, *focus], f"{transaction.name} {level.level} {goal.name}")
                answer = solver.check([*labels, *focus])
                if answer == "unsat":
                    core = {_name(one) for one in solver.core()}
                    return Answer("proved", frozenset(name for name in core if name in self.candidates))
            self.unanswered += answer == "unknown"
            return Answer("broken" if answer == "sat" else "unknown")
        finally:
            solver.pop()

    def _written_down(self, solver: Solver, assumed: Sequence[Term], what: str) -> None:
        """Every question is counted, and kept as a file if there is a directory for it."""
        self.asked += 1
        if self.directory is not None:
            name = f"{self.asked:05d} {what}".replace("/", " ").replace(" ", "-")
            (self.directory / f"{name}.smt2").write_text(solver.text(assumed))

    def _ready(self, case: Case, goal: Goal) -> Ready:
        """A solver that knows the case and the rows of a goal; candidates about one table share it."""
        index = f"invariant {goal.name}" if isinstance(goal, Condition) else f"table {goal.table.position}"
        if index not in case.ready:
            instances = case.instances.copy()
            book = instances.book
            tables = [scan.table for scan in goal.rows] if isinstance(goal, Condition) else [goal.table]
            keys = [book.fresh_key(table, "broken") for table in tables]
            if isinstance(goal, Condition):
                book.fact(goal.violated(Tables(book, self.problem.ghosts, case.last), keys))
            # The rows that candidates name are named now, so that facts are told of them.
            broken = {} if isinstance(goal, Condition) else self._broken(book, case, goal.table, keys[0])
            solver = Solver(self.seconds)
            solver.add(*case.told)
            solver.add(*instances.grown())
            for named, step in broken.values():
                solver.add(smt.equal(named, smt.no(step)))
            rows = list(zip(tables, keys, strict=True))
            case.ready[index] = Ready(solver, book, rows, {name: named for name, (named, _) in broken.items()})
        return case.ready[index]

    def _broken(self, book: Book, case: Case, table: TableInfo, key: Key) -> dict[str, tuple[Term, Term]]:
        return {
            one.name: (
                smt.constant(f"broken {one.name}", "boolean"),
                one.step(book, case.path.timeline.commit, case.last, key),
            )
            for one in self.candidates.values()
            if one.table is table
        }

    def _named(self, case: Case, table: TableInfo, key: Key) -> Key:
        """What a row is known by: its key, or the numbers in it that invariants look at."""
        if key_places(table) is not None:
            return key
        row = case.last.row(table, key)
        looked = sorted(place for position, place in self.problem.looked if position == table.position)
        terms = [row.values[place].term for place in looked if table.types[place].sort is Sort.INTEGER]
        return tuple(terms) or key

    def _focuses(self, case: Case, ready: Ready) -> Iterator[list[Term]]:
        """The rounds of loops to look at: any choice is sound, those that the goal's rows name are tried."""
        if not case.path.focus:
            yield []
            return
        named = [(table, key, self._named(case, table, key)) for table, key in ready.rows]
        for index in range(max(len(told) for _, _, told in named) if named else 1):
            equal = []
            for table, key, told in named:
                for focus in case.path.focus:
                    if focus.table is None:
                        equal.append(smt.equal(focus.key[0], told[index % len(told)]))
                    elif focus.table is table:
                        equal.append(smt.all_equal(focus.key, key))
                if equal:
                    break
            chosen = smt.constant(ready.book.names.fresh("focus"), "boolean")
            ready.solver.add(smt.implies(chosen, smt.every(equal)))
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
        seen = looked(path)
        states = path.timeline.end(book, frozenset(self._unlooked(seen)))
        locked = [
            (lock.table, lock.key, lock.held) for lock in path.timeline.locks if lock.exclusive and not lock.presence
        ]
        last = Committed(path.timeline.commit, path.writes, locked)
        book.kept.append(last)
        for info, key in path.fresh_rows:
            for state in states:
                book.fact(smt.no(state.row(info, key).there))
        for state in states:
            view = View(state)
            book.kept.append(view)
            assume_constraints(book, self.problem, view)
            tables, grouped = seen.get(id(state), (frozenset(), False))
            for condition in self.conditions.values():
                near = condition.tables & tables and (grouped or not condition.aggregates)
                if state is path.timeline.commit or near:
                    assume(book, self.problem.ghosts, condition, view)
        assume_constraints(book, self.problem, last)
        for old, new in pairwise(states):
            for info in {id(one.counts): one.counts for one in self.candidates.values() if one.counts}.values():
                assert info is not None
                book.universals.append(counting(info, old, new))
            for candidate in self.candidates.values():
                assume_rely(book, candidate, old, new)
        for waited in path.timeline.waited:
            assume_absence(book, list(self.candidates.values()), waited)
        if level.database in self.mutual:
            book.universals += self.mutual[level.database].universals(path, states)
        instances = Instances(book)
        solver = Solver(self.seconds)
        told = instances.grown()
        solver.add(*told)
        written = frozenset(write.table.position for write in path.writes)
        return Case(path, states, last, instances, solver, written, told)

    def _unlooked(self, seen: Mapping[int, tuple[frozenset[int], bool]]) -> Iterator[int]:
        """The states in which nothing was read that an invariant looks at: nothing has to be known of them."""
        return (state for state, (tables, _) in seen.items() if not tables & self.problem.named)


def _name(labelled: str) -> str:
    return labelled.strip("|").removeprefix("rely ")
