"""Robustness: transactions that run as if each ran alone at the moment of its commit.

A transaction that writes is as good as serial if every statement would have read the same from the state that it commits to; one
that only reads, if all its statements would have read the same from the last state that it met. Where that holds of all of them,
what is committed is what they do one after the other, in the order of their commits. No invariant is asked for, or assumed; the
rely is found as for invariants.

PostgreSQL's SERIALIZABLE puts transactions into another order than that of their commits. It counts where all of them run at it,
those that only read included; beside others it is a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from isolde.engines.infer.assumptions import label
from isolde.engines.infer.obligations import Case
from isolde.engines.infer.problem import SERIAL
from isolde.engines.infer.prove import Assignment, Attempt, Failure, Prover
from isolde.levels.specifications import Specification
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.nodes import Column, Expression, below, query_of
from isolde.semantics.core.plan import depends_on
from isolde.semantics.core.relations import Derived, Insert, Query, Scan, Update, query_parts, scans
from isolde.semantics.sets.expressions import Reader
from isolde.semantics.sets.path import Read
from isolde.semantics.sets.state import Base, Book, View
from isolde.semantics.sets.values import same
from isolde.smt import terms as smt
from isolde.smt.terms import Solver, Term

SERIALIZABLE = "reads what it would read alone"


class RobustProver(Prover):
    """Proves that all transactions of an assignment, those that only read included, behave as one after the other."""

    def specifications(self, assignment: Assignment) -> dict[str, Specification]:
        chosen = {name: self.levels[level] for name, level in assignment.items()}
        if all(level.mutual for level in chosen.values()):
            return dict.fromkeys(chosen, SERIAL)
        return {name: replace(level, mutual=False) for name, level in chosen.items()}

    def _attempt(self, assignment: Assignment) -> Attempt:
        chosen = self.specifications(assignment)
        rely = self.rely(chosen)
        failures = [
            Failure(name, SERIALIZABLE, True) for name, level in chosen.items() if not self._stable(name, level, rely)
        ]
        return Attempt(tuple(failures), rely)

    def _stable(self, name: str, level: Specification, rely: frozenset[str]) -> bool:
        index = (name, level.level)
        if any(known <= rely for known in self._known.get(index, ())):
            return True
        used = set[str]()
        for case in self.obligations.cases(self.transactions[name], level):
            found = self._stable_case(case, rely)
            if found is None:
                return False
            used |= found
        self._known.setdefault(index, []).append(frozenset(used))
        return True

    def _stable_case(self, case: Case, rely: frozenset[str]) -> set[str] | None:
        """What of the rely makes every read of one way through a transaction the same at its place; ``None`` if nothing does.

        Its place is its commit if it writes a row; else the last state that it read from.
        """
        path = case.path
        writes = path.writes
        if any(write.key is None for write in writes):
            return self._stable_at(case, path.timeline.commit, smt.TRUE, rely)
        wrote = smt.some(write.at(write.key)[0] for write in writes)
        found = self._stable_at(case, path.timeline.commit, wrote, rely)
        if found is None or not path.reads:
            return found
        other = self._stable_at(case, path.reads[-1].base, smt.no(wrote), rely)
        return None if other is None else found | other

    def _stable_at(self, case: Case, place: Base, when: Term, rely: frozenset[str]) -> set[str] | None:
        obligations = self.obligations
        instances = case.instances.copy()
        reads = [read for read in case.path.reads if read.base is not place or read.spread]
        changed = [term for read in reads for term in differences(instances.book, read, place)]
        if not changed or smt.is_false(when):
            return set()
        solver = Solver(obligations.seconds)
        solver.add(*case.told)
        solver.add(*instances.grown())
        solver.add(smt.some(changed), when)
        obligations.asked += 1
        if solver.check([label(one) for one in sorted(rely)]) != "unsat":
            return None
        return {one.strip("|").removeprefix("rely ") for one in solver.core()} & set(obligations.candidates)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._known: dict[tuple[str, str], list[frozenset[str]]] = {}


def differences(book: Book, read: Read, place: Base) -> Iterator[Term]:
    """That some row which matters to a statement is another one in the state that it read from than in ``place``."""
    if read.spread:
        # A row may have been another one when it was looked at than before and after.
        yield smt.TRUE
        return
    old, new = View(read.base, read.shown), View(place, read.written)
    book.kept += [old, new]
    for info, scan, columns, conditions in _looked_at(read):
        key = book.fresh_key(info, "read")
        before, after = old.row(info, key), new.row(info, key)
        alike = smt.every(same(before.values[one], after.values[one]) for one in sorted(columns))
        differ = smt.no(smt.both(smt.equal(before.there, after.there), smt.implies(before.there, alike)))
        matches = []
        for row in (before, after):
            env = read.env.copy()
            if scan is not None:
                env.rows[scan] = row.values
            matches.append(smt.both(row.there, Reader(book).holds(conditions, env)))
        yield smt.both(differ, smt.some(matches))


def _looked_at(read: Read) -> Iterator[tuple[TableInfo, int | None, set[int], list[Expression]]]:
    """The tables of a statement: the rows that its conditions name, and the columns of them that it looks at."""
    statement = read.statement
    if isinstance(statement, Query):
        parts = [*statement.where] if read.only_where else list(query_parts(statement))
        yield from _of_query(statement, parts)
        return
    assert not isinstance(statement, Insert)
    parts = list(statement.where)
    if isinstance(statement, Update) and not read.only_where:
        parts += [one.value for one in statement.sets]
    info, scan = statement.scan.table, statement.scan.id
    yield info, scan, _columns(parts, scan), _local(statement.where, scan)
    yield from _inside(parts)


def _of_query(
    query: Query, parts: list[Expression]
) -> Iterator[tuple[TableInfo, int | None, set[int], list[Expression]]]:
    for leaf in scans(query.source):
        if isinstance(leaf, Derived):
            yield from _of_query(leaf.query, list(query_parts(leaf.query)))
        else:
            yield leaf.table, leaf.id, _columns(parts, leaf.id), _local(query.where, leaf.id)
    yield from _inside(parts)


def _inside(parts: list[Expression]) -> Iterator[tuple[TableInfo, int | None, set[int], list[Expression]]]:
    """Queries inside of expressions: of their tables, all rows and columns."""
    for part in parts:
        for node in below(part):
            query = query_of(node)
            if query is None:
                continue
            for leaf in scans(query.source):
                if isinstance(leaf, Scan):
                    yield leaf.table, None, set(range(len(leaf.table.types))), []
                else:
                    yield from _of_query(leaf.query, list(query_parts(leaf.query)))
            yield from _inside(list(query_parts(query)))


def _columns(parts: list[Expression], scan: int) -> set[int]:
    return {node.place for part in parts for node in below(part) if isinstance(node, Column) and node.source == scan}


def _local(where: tuple[Expression, ...], scan: int) -> list[Expression]:
    """The conditions that are about the row of one table alone."""
    return [
        one for one in where if depends_on(one) <= {scan} and not any(query_of(node) is not None for node in below(one))
    ]
