"""The proofs of ACIDifier (POPL 2018, section 5) in its own encoding: for comparison, on programs as small as its examples.

A transaction is what it makes of sets of records: SELECT binds a record of a set, UPDATE and DELETE bind over the records of a
table, FOREACH over those of a query. A statement that other commits may change the meaning of reads from some state of which only
the invariants are known (it is weakened); one that they cannot reads from the state that is committed to. What others do is one
commit of any transaction, each of its own statements weakened, which is the most that it may do at any level.

Carried are tables with primary keys, queries on one table, COUNT that is compared with 0, and invariants without aggregates; the
rest is refused by name. Two rows of a state differ in their keys, and an inserted key is new (the paper's ids).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from isolde.engines.infer.figure_10 import Bind, Either, Encoding, Forgotten, Held, Member, SetOf, Such
from isolde.engines.infer.problem import Problem, TransactionProblem
from isolde.engines.infer.records import Records
from isolde.levels.specifications import Reads, Specification, Writes
from isolde.semantics.core import steps as core
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.relations import Delete, Insert, Query, Scan, Statement, Update
from isolde.semantics.sets.expressions import Environment, Reader
from isolde.semantics.sets.state import Book
from isolde.semantics.sets.values import NULL, RowValue, Value, key_places, outside, sort_of
from isolde.smt import terms as smt
from isolde.smt.terms import Solver, Term
from isolde.tx.statements import InsertMode

_SECONDS = 5.0
_WEAKEST = Specification("", "weakest", Reads.STATEMENT, Writes.LOOSE, False, "", "")


@dataclass(eq=False)
class _Way:
    """One way through a transaction. ``added`` and ``gone``: sets of records by table that it leaves, or deletes."""

    book: Book
    env: Environment
    encoding: Encoding
    added: list[SetOf] = field(default_factory=list)
    gone: list[SetOf] = field(default_factory=list)
    snapshot: Member | None = None

    def copy(self) -> _Way:
        new = Encoding(self.encoding.kinds, self.encoding.fresh)
        new.facts = list(self.encoding.facts)
        return _Way(self.book.copy(), self.env.copy(), new, list(self.added), list(self.gone), self.snapshot)


class Forgetting:
    """What can be proved so of the transactions of a problem."""

    def __init__(self, problem: Problem, seconds: float = _SECONDS) -> None:
        self.problem, self.seconds = problem, seconds
        self.records = Records(problem)
        self.asked = 0
        self._peers: dict[str, list[tuple[_Way, Member]]] = {}
        self.uncarried = dict(self.records.uncarried)

    def broken(self, transaction: TransactionProblem, level: Specification) -> list[str]:
        """The invariants that could not be shown to survive a transaction at a level."""
        found = []
        ways = list(self._ways(transaction, level))
        for name in self.records.invariants:
            if not all(self._kept(way, commit, name) for way, commit in ways):
                found.append(name)
        return found

    def _kept(self, way: _Way, commit: Member, name: str) -> bool:
        # The records of the violation are any: a solver that finds none has a proof.
        _, body = self.records.violation(name, self._after(way, commit))
        return self._impossible(way, body)

    def _impossible(self, way: _Way, wrong: Term) -> bool:
        solver = Solver(self.seconds)
        solver.add(*way.book.facts, *way.encoding.facts, wrong)
        self.asked += 1
        return solver.check() == "unsat"

    # One transaction

    def _ways(self, transaction: TransactionProblem, level: Specification) -> Iterator[tuple[_Way, Member]]:
        """All ways through it, with the state that each commits to."""
        assert transaction.execution is not None
        book = Book(self.problem.names)
        way = _Way(book, Environment(), Encoding(self.records.kinds, self.problem.names.fresh))
        commit = way.encoding.state("commit")
        way.encoding.facts += self.records.known(commit)
        for slot, parameter in enumerate(transaction.parameters):
            if parameter.kind.sort.name == "ROWS":
                raise outside("a list parameter")
            way.env.variables[slot] = Value(book.fresh(parameter.name, sort_of(parameter.kind)))
        routine = transaction.execution.routine
        run = _Run(self, level, commit)
        for assign in routine.converted:
            run.assign(way, assign)
        for found, _ in run.steps(routine.body, [way]):
            yield found, commit

    def _after(self, way: _Way, commit: Member) -> Member:
        """The state when what a way leaves is put over the one that it commits to: δ ▷ Δ."""
        added = [(one.table, way.encoding.encoded(one)) for one in way.added]
        gone = [(one.table, way.encoding.encoded(one)) for one in way.gone]

        def member(table: TableInfo, record: Term) -> Term:
            mine = [holds for info, holds in (*added, *gone) if info is table]
            other = way.encoding.record(table, "written")
            alike = self.records.same_key(table, other, record)
            over = smt.some(smt.there_is([other], smt.both(holds(other), alike)) for holds in mine)
            new = smt.some(holds(record) for info, holds in added if info is table)
            return smt.either(new, smt.both(commit(table, record), smt.no(over)))

        return member

    # Stability

    def stable(self, way: _Way, meant: Callable[[Member], SetOf]) -> bool:
        """Whether a commit of any transaction leaves a set as it is."""
        for transaction in self.problem.transactions.values():
            if transaction.reads_only:
                continue
            for other, before in self.weakened(transaction):
                looked = way.copy()
                one, two = (looked.encoding.encoded(meant(state)) for state in (before, self._after(other, before)))
                looked.encoding.facts += other.encoding.facts
                looked.book.facts += other.book.facts
                record = looked.encoding.record(meant(before).table, "changed")
                if not self._impossible(looked, smt.no(smt.equal(one(record), two(record)))):
                    return False
        return True

    def weakened(self, transaction: TransactionProblem) -> list[tuple[_Way, Member]]:
        """The ways through a transaction that reads from any states; what is outside of the encoding is refused."""
        if transaction.name not in self._peers:
            self._peers[transaction.name] = list(self._ways(transaction, _WEAKEST))
        return self._peers[transaction.name]


@dataclass(frozen=True, eq=False)
class _Run:
    """A transaction at a level, statement by statement."""

    whole: Forgetting
    level: Specification
    commit: Member

    def steps(self, steps: Sequence[core.Step], ways: list[_Way]) -> list[tuple[_Way, bool]]:
        """The ways through steps, each with whether it has returned."""
        running, ended = ways, list[tuple[_Way, bool]]()
        for step in steps:
            after = []
            for way in running:
                for found, returned in self._step(step, way):
                    if returned:
                        ended.append((found, True))
                    else:
                        after.append(found)
            running = after
        return [*((way, False) for way in running), *ended]

    def _step(self, step: core.Step, way: _Way) -> list[tuple[_Way, bool]]:
        match step:
            case core.Assign():
                self.assign(way, step)
            case core.Run(statement, bound, assign):
                many = self._write(way, statement)
                way.env.bound[bound] = many
                if assign is not None:
                    self.assign(way, assign)
            case core.Fetch():
                self._fetch(step, way)
            case core.If():
                return self._if(step, way)
            case core.ForEach():
                self._for_each(step, way)
            case core.Return():
                return [(way, True)]
            case core.Abort() | core.Wrong():
                return []
            case core.Assert(condition):
                way.book.fact(Reader(way.book).value(condition, way.env).true)
            case core.NeedRecords():
                pass
            case _:
                raise outside("a loop other than FOREACH over a query, a cursor or a call")
        return [(way, False)]

    def assign(self, way: _Way, assign: core.Assign) -> None:
        way.env.variables[assign.slot] = Reader(way.book).value(assign.value, way.env)

    def _if(self, step: core.If, way: _Way) -> list[tuple[_Way, bool]]:
        found: list[tuple[_Way, bool]] = []
        for condition, body in step.branches:
            holds = Reader(way.book).value(condition, way.env).true
            if not smt.is_false(holds):
                inside = way.copy()
                inside.book.fact(holds)
                found += self.steps(body, [inside])
            way.book.fact(smt.no(holds))
        return found + self.steps(step.otherwise, [way])

    # Reading

    def _read(self, way: _Way, meant: Callable[[Member], SetOf]) -> SetOf:
        """A set as the level shows it: from the state to commit to, if that makes no difference."""
        if self.level.reads is Reads.COMMIT:
            return meant(self.commit)
        if self.level is not _WEAKEST and self.whole.stable(way, meant):
            return meant(self.commit)
        if self.level.reads is Reads.STATEMENT:
            return Forgotten(self.whole.records.known, meant, meant(self.commit).table)
        if way.snapshot is None:
            way.snapshot = way.encoding.state("snapshot")
            way.encoding.facts += self.whole.records.known(way.snapshot)
        return meant(way.snapshot)

    def _matching(self, way: _Way, statement: Query | Update | Delete) -> tuple[Scan, Callable[[Member], SetOf]]:
        """The records that a statement finds, in any state, over what was written before."""
        source = statement.source if isinstance(statement, Query) else statement.scan
        if not isinstance(source, Scan):
            raise outside("a query on anything but one table")
        table, records = source.table, self.whole.records
        if any(one.table is table for one in (*way.added, *way.gone)):
            raise outside(f"{table.table.name} is read after it was written (the paper assumes that away)")
        env = way.env.copy()

        def says(record: Term) -> Term:
            env.rows[source.id] = records.row(table, record).values
            return records.exactly(lambda book: Reader(book).holds(statement.where, env))

        def meant(state: Member) -> SetOf:
            return Bind(
                Held(table, state),
                lambda found: Either(says(found), Such(table, lambda record: smt.equal(record, found))),
                table,
            )

        return source, meant

    def _fetch(self, step: core.Fetch, way: _Way) -> None:
        query = step.statement
        if not isinstance(query, Query):
            raise outside("RETURNING")
        scan, meant = self._matching(way, query)
        inside = way.encoding.encoded(self._read(way, meant))
        record = way.encoding.record(scan.table, "found")
        other = way.encoding.record(scan.table, "other")
        none = smt.for_all([other], smt.no(inside(other)))
        env = way.env.copy()
        env.rows[scan.id] = self.whole.records.row(scan.table, record).values
        if query.grouping is not None:
            values = self._counted(query, way, none)
            found: Term = smt.TRUE
        else:
            found = way.book.fresh("found", "boolean")
            way.encoding.facts += [smt.implies(found, inside(record)), smt.implies(smt.no(found), none)]
            values = tuple(Reader(way.book).value(one.value, env) for one in query.outputs)
        if step.required:
            way.book.fact(found)
        way.env.bound[step.bound] = Value(found)
        way.env.rows[step.source] = tuple(value.unless(found) for value in values)
        if step.keep:
            raise outside("a variable that keeps its value where no row is found")
        for assign in step.assigns:
            if isinstance(assign, core.AssignRow):
                way.env.variables[assign.slot] = RowValue(found, way.env.rows[assign.source])
            else:
                self.assign(way, assign)
        if step.found is not None:
            self.assign(way, step.found)

    @staticmethod
    def _counted(query: Query, way: _Way, none: Term) -> tuple[Value, ...]:
        """COUNT(*): a number that is 0 if and only if there is no record."""
        grouping = query.grouping
        assert grouping is not None
        plain = [one for one in grouping.aggregates if getattr(one.function, "__name__", "") == "len"]
        if not grouping.whole or grouping.having or len(plain) != len(grouping.aggregates):
            raise outside("an aggregate other than COUNT")
        env = way.env.copy()
        counts = []
        for _ in grouping.aggregates:
            many = way.book.fresh("many")
            way.encoding.facts += [many >= 0, smt.equal(many == 0, none)]
            counts.append(Value(many))
        env.aggregates = counts
        return tuple(Reader(way.book).value(one.value, env) for one in query.outputs)

    # Writing

    def _write(self, way: _Way, statement: Statement) -> Value:
        match statement:
            case Insert():
                way.added.append(self._inserted(way, statement, way.env))
                return Value(smt.number(len(statement.rows)))
            case Update() | Delete():
                scan, meant = self._matching(way, statement)
                read = self._read(way, meant)
                self._hold(way, read)
                into = way.gone if isinstance(statement, Delete) else way.added
                into.append(self._changed(statement, scan, read, way.env))
                many = way.book.fresh("many")
                way.book.fact(many >= 0)
                return Value(many)
            case _:
                raise outside("a query for its effects")

    def _hold(self, way: _Way, read: SetOf) -> None:
        """I_ww: rows that are written from a snapshot are in the state to commit to as they were."""
        if self.level.writes is not Writes.UNCHANGED or way.snapshot is None:
            return
        inside, record = way.encoding.encoded(read), way.encoding.record(read.table, "held")
        kept = smt.implies(inside(record), self.commit(read.table, record))
        way.encoding.facts.append(smt.for_all([record], kept))

    def _changed(self, change: Update | Delete, scan: Scan, read: SetOf, around: Environment) -> SetOf:
        if change.returning:
            raise outside("RETURNING")
        if isinstance(change, Delete):
            return read
        if {one.place for one in change.sets} & set(key_places(scan.table) or ()):
            raise outside("an UPDATE of a primary key")
        records = self.whole.records

        def new(old: Term) -> SetOf:
            env = around.copy()
            env.rows[scan.id] = records.row(scan.table, old).values
            values = list(env.rows[scan.id])
            for one in change.sets:
                values[one.place] = records.known_value(lambda book: Reader(book).value(one.value, env))  # noqa: B023
                if one.slot is not None:
                    env.bound[one.slot] = values[one.place]
            return Such(scan.table, lambda record: records.holds(scan.table, record, values))

        return Bind(read, new, scan.table)

    def _inserted(self, way: _Way, change: Insert, env: Environment) -> SetOf:
        if change.query is not None or change.batch is not None or change.conflict is not None or len(change.rows) != 1:
            raise outside("an INSERT other than of one row of values")
        if change.mode is not InsertMode.PLAIN or change.queries or change.returning:
            raise outside("an INSERT that reads, ignores or replaces")
        records, table = self.whole.records, change.table
        values = [Reader(way.book).value(node, env) for node in change.rows[0]]
        for value, nonnull in zip(values, table.nonnull, strict=True):
            if nonnull:
                way.book.fact(smt.no(value.null))
        other = way.encoding.record(table, "there")
        alike = smt.all_equal(records.key(table, other), records.key_of(table, values))
        way.encoding.facts.append(smt.for_all([other], smt.no(smt.both(self.commit(table, other), alike))))
        return Such(table, lambda record: records.holds(table, record, values))

    def _for_each(self, step: core.ForEach, way: _Way) -> None:
        """FOREACH: what one round leaves, bound over the records of the query."""
        query = step.rows
        if not isinstance(query, Query) or query.grouping is not None:
            raise outside("FOREACH over anything but a query of rows")
        scan, meant = self._matching(way, query)
        read = self._read(way, meant)
        for one in step.body:
            if not isinstance(one, core.Run) or isinstance(one.statement, Query | Insert):
                raise outside("FOREACH with anything but UPDATE and DELETE in it (binds nested deeper than one level)")
            self._matching(way, one.statement)
            self._round(way, step, (scan, read), one.statement)
        for one in step.body:
            assert isinstance(one, core.Run)
            if one.assign is not None:
                way.env.variables[one.assign.slot] = NULL

    def _round(
        self,
        way: _Way,
        step: core.ForEach,
        over: tuple[Scan, SetOf],
        change: Update | Delete,
    ) -> None:
        scan, read = over
        query = step.rows
        assert isinstance(query, Query)
        records = self.whole.records

        def one(found: Term) -> SetOf:
            env = way.env.copy()
            env.rows[scan.id] = records.row(scan.table, found).values
            outputs = tuple(
                records.known_value(lambda book, node=out.value: Reader(book).value(node, env))  # type: ignore[misc]
                for out in query.outputs
            )
            env.rows[step.source] = outputs
            for assign in step.assigns:
                if isinstance(assign, core.AssignRow):
                    env.variables[assign.slot] = RowValue(smt.TRUE, outputs)
                else:
                    env.variables[assign.slot] = records.known_value(
                        lambda book, value=assign.value: Reader(book).value(value, env)  # type: ignore[misc]
                    )
            inside = _Way(way.book, env, way.encoding, snapshot=way.snapshot)
            target, meant = self._matching(inside, change)
            state = self.commit if self.level.reads is Reads.COMMIT or way.snapshot is None else way.snapshot
            if self.level.reads is Reads.STATEMENT:
                rows: SetOf = Forgotten(records.known, meant, target.table)
            else:
                rows = meant(state)
            return self._changed(change, target, rows, env)

        into = way.gone if isinstance(change, Delete) else way.added
        into.append(Bind(read, one, change.scan.table))
