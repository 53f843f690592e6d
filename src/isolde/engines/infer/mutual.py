"""What PostgreSQL's SERIALIZABLE adds to snapshot isolation, against transactions that run at it, too.

Take a candidate for the rely that only serializable transactions could break, by what they write. While a serializable
transaction T runs, only the commit of a serializable transaction P can break it: take the first such commit (of a row that may
not go) or the last (of one that may not come). If T read what P wrote, and P read what T writes, then P committed first and T is
aborted: so that P does not exist.

An edge is only claimed where it is certain that the database sees it:

* The reader's condition matches a row that the writer inserts.
* T read a row that P deletes. Nobody updates rows of that table and only serializable transactions delete them, so that the
  first to delete the row deletes the version that T read.
* P read a row that T deletes or updates, of a table whose rows only serializable transactions delete or update. The first of
  them to do so since P read is T, or a transaction D that committed before T began (or T would have failed): then D comes first
  in T → P → D, which is as dangerous.

(Cahill et al., "Serializable Isolation for Snapshot Databases", 2008; Ports and Grittner, VLDB 2012.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from isolde.engines.infer.candidates import Candidate
from isolde.engines.infer.problem import Problem
from isolde.levels.specifications import Specification
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.relations import Delete, Query, Scan, Update
from isolde.semantics.sets.path import Path
from isolde.semantics.sets.queries import Tables
from isolde.semantics.sets.state import Base, Book, Committed, Key, Universal, Write
from isolde.semantics.sets.values import Row
from isolde.smt import terms as smt
from isolde.smt.terms import Term


@dataclass(frozen=True, eq=False)
class Mutual:
    """The serializable transactions of an assignment, and the level at which they run."""

    problem: Problem
    peers: frozenset[str]
    level: Specification
    candidates: Mapping[str, Candidate]

    def universals(self, path: Path, states: list[Base]) -> Iterator[Universal]:
        """For a transaction at that level: what the others keep, its serializable peers keep as far as they must."""
        for candidate in self.candidates.values():
            if candidate.simple and self._broken_by_peers_alone(candidate):
                yield Universal((candidate.table,), _Kept(self, path, states, candidate))

    def _broken_by_peers_alone(self, candidate: Candidate) -> bool:
        transactions = self.problem.transactions
        breaking = {name for name, one in transactions.items() if candidate.may_break(one.writing)}
        return bool(breaking) and breaking <= self.peers

    def only_peers(self, table: TableInfo, *, deletes_alone: bool) -> bool:
        """Whether only peers delete or update rows of a table; with ``deletes_alone`` nobody updates them."""
        for name, one in self.problem.transactions.items():
            updates, deletes = table.position in one.writing.updates, table.position in one.writing.deletes
            if (updates and deletes_alone) or ((updates or deletes) and name not in self.peers):
                return False
        return True


@dataclass(frozen=True, eq=False)
class _Kept:
    mutual: Mutual
    path: Path
    states: list[Base]
    candidate: Candidate

    def __call__(self, book: Book, key: Key) -> Term:
        if book.depth > 1 or len(self.states) < 2:
            return smt.TRUE
        first, last = self.states[0], self.states[-1]
        kept = self.candidate.step(book, first, last, key)
        broken = [
            term
            for name in sorted(self.mutual.peers)
            if self.candidate.may_break(self.mutual.problem.transactions[name].writing)
            for term in self._by_peer(book, name, key)
        ]
        return smt.either(kept, *broken)

    def _by_peer(self, book: Book, name: str, key: Key) -> Iterator[Term]:
        """That a commit of this peer breaks it, on each way through the peer, and nothing forbids that."""
        problem = self.mutual.problem
        peer = problem.transactions[name]
        assert peer.execution is not None
        for way in peer.execution.ways(self.mutual.level, problem.names, f"peer {name}"):
            if not any(write.table is self.candidate.table for write in way.writes):
                continue
            way.timeline.end(way.book)
            chosen = book.fresh(f"peer {name}", "boolean")
            after = Committed(way.timeline.commit, way.writes, ())
            self._tell(book, way, after, chosen)
            before: Base = way.timeline.commit
            first, last = self.states[0], self.states[-1]
            step = self.candidate.step
            near = step(book, first, before, key) if self.candidate.stays else step(book, after, last, key)
            excluded = smt.both(self._reads_from(book, way, key), _Edges(self.mutual).into(book, way, self.path))
            yield smt.both(chosen, smt.no(step(book, before, after, key)), near, smt.no(excluded))

    @staticmethod
    def _tell(book: Book, way: Path, after: Committed, chosen: Term) -> None:
        """What is known of the peer: all of it hangs on ``chosen``."""
        for fact in way.book.facts:
            book.fact(smt.implies(chosen, fact))
        for universal in way.book.universals:
            book.universals.append(_guarded(universal, chosen))
        for position, keys in way.book.points.items():
            for index, (point, _) in keys.items():
                book.points.setdefault(position, {}).setdefault(index, (point, 1))
        for use, (view, ghost, group, _) in way.book.uses.items():
            book.uses.setdefault(use, (view, ghost, group, 1))
        book.kept += [after, *way.book.kept]

    def _reads_from(self, book: Book, way: Path, key: Key) -> Term:
        """T → P: this transaction read something that the peer writes."""
        edges = _Edges(self.mutual)
        found = [edges.inserts(book, self.path, write) for write in way.writes]
        table = self.candidate.table
        if self.candidate.stays and self.mutual.only_peers(table, deletes_alone=True):
            # The candidate is broken by the first deletion since the snapshot: that of the version that was read.
            row = self.states[0].row(table, key)
            found.append(edges.read(book, self.path, table, key, row))
        return smt.some(found)


@dataclass(frozen=True, eq=False)
class _Edges:
    mutual: Mutual

    def into(self, book: Book, way: Path, path: Path) -> Term:
        """P → T, or P → D with D before T: the peer read something that this transaction writes."""
        found = [self.inserts(book, way, write) for write in path.writes]
        for write in path.writes:
            if write.key is None or not self.mutual.only_peers(write.table, deletes_alone=False):
                continue
            hit, new = write.at(write.key)
            if write.changed is None and smt.is_true(new.there):
                continue
            for one in way.reads[:1]:
                row = one.base.row(write.table, write.key)
                found.append(smt.both(hit, self.read(book, way, write.table, write.key, row)))
        return smt.some(found)

    def inserts(self, book: Book, reader: Path, write: Write) -> Term:
        """The write inserts a row that matches what the reader asked for."""
        if write.changed is not None or write.key is None:
            return smt.FALSE
        hit, new = write.at(write.key)
        if not smt.is_true(new.there):
            return smt.FALSE
        return smt.both(hit, self.read(book, reader, write.table, write.key, new))

    def read(self, book: Book, reader: Path, table: TableInfo, _: Key, row: Row) -> Term:
        """The row matches what one of the reader's statements asked for."""
        found = []
        for one in reader.reads:
            base, statement, env = one.base, one.statement, one.env
            if isinstance(statement, Query):
                source, where = statement.source, statement.where
                # A limited query may stop before it has read all that match.
                if statement.limit is not None or statement.offset is not None:
                    continue
            elif isinstance(statement, Update | Delete):
                source, where = statement.scan, statement.where
            else:
                continue
            if isinstance(source, Scan) and source.table is table:
                inside = env.copy()
                inside.rows[source.id] = row.values
                reads = Tables(book, self.mutual.problem.ghosts, reader.view(base)).reader()
                found.append(smt.both(row.there, reads.holds(where, inside)))
        return smt.some(found)


def _guarded(universal: Universal, chosen: Term) -> Universal:
    return Universal(universal.tables, lambda book, *keys: smt.implies(chosen, universal.say(book, *keys)))
