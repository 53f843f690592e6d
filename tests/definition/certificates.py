"""Levels of histories with predicates, by Adya's definitions over the order that a certificate gives: quadratic and plain.

Statements are run by the concrete store on copies of their version sets; what a statement reads is asked by putting primary keys
in the place of what it selects. Only statements over the tables ``t`` and ``s`` are understood, whose primary key is ``id``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from isolde.errors import ExecutionError, OutsideFragment
from isolde.formats.tables import SqlHistory, sql_history
from isolde.history import History, Read, Sql, Status, Transaction, TxnId, Write
from isolde.history.certificate import Certificate, RowId, VersionId
from isolde.semantics.concrete import Store
from isolde.tx.sql import statement

from .evidence import Told
from .satisfaction import satisfies

Object = tuple[str, int]
Row = tuple[Any, ...]
Edge = tuple[TxnId, TxnId, str]
_FLOW = {"so", "ww", "wr", "predicate-wr"}
_WEAK = ("read-committed", "read-atomic", "causal", "prefix")


class Circular(Exception):
    """Versions are computed from each other."""


class Open(Exception):
    """The definition leaves it open."""


@dataclass
class Text:
    """A statement, taken apart by its words."""

    sql: str
    params: tuple[Any, ...]

    @cached_property
    def kind(self) -> str:
        return self.sql.split()[0].lower()

    @cached_property
    def tables(self) -> set[str]:
        return {name for name in ("t", "s") if re.search(rf"\b{name}\b", self.sql)}

    @cached_property
    def simple(self) -> bool:
        nested = len(re.findall(r"\bSELECT\b", self.sql)) > (self.kind == "select")
        return not nested and not re.search(r"\bJOIN\b|\bLIMIT\b", self.sql)

    @cached_property
    def target(self) -> str:
        found = re.match(r"(?:UPDATE|DELETE FROM|INSERT INTO)\s+(\w+)", self.sql)
        assert found is not None
        return found[1]

    @cached_property
    def where(self) -> str:
        found = re.search(r"\bWHERE\b(.*?)(?:\bORDER BY\b|\bGROUP BY\b|\bLIMIT\b|\bRETURNING\b|$)", self.sql)
        return found[1] if found else " 1 = 1"

    @cached_property
    def upsert(self) -> bool:
        return " ON CONFLICT " in self.sql or " ON DUPLICATE " in self.sql

    @cached_property
    def plain_insert(self) -> bool:
        return self.kind == "insert" and not self.upsert and "SELECT" not in self.sql

    def keys(self) -> str | None:
        """The query for the primary keys of the rows that this reads; ``None`` if it reads none."""
        if self.kind in ("update", "delete"):
            return f"SELECT {self.target}.id FROM {self.target} WHERE {self.where}"
        text = self.sql[self.sql.index("SELECT") :] if "SELECT" in self.sql else ""
        if not text or (self.kind == "select" and re.match(r"SELECT count\(\*\) FROM", text)):
            return None
        shown, rest = re.match(r"SELECT (.*?) FROM (.*)$", text).groups()  # type: ignore[union-attr]
        outer = re.split(r"\bWHERE\b|\bORDER BY\b|\bLIMIT\b|\bGROUP BY\b", rest)[0]
        names = [name for name in ("t", "s") if re.search(rf"\b{name}\b", outer)]
        if "(" in shown or "DISTINCT" in shown or "GROUP BY" in rest:
            rest = re.split(r"\bGROUP BY\b|\bORDER BY\b|\bLIMIT\b", rest)[0]
        return f"SELECT {', '.join(f'{name}.id' for name in names)} FROM {rest}"

    def key_tables(self) -> list[str]:
        query = self.keys()
        assert query is not None
        return re.findall(r"\b(t|s)\.id\b", query[: query.index(" FROM ")])


@dataclass(frozen=True)
class Ran:
    """What a statement gives: rows, counts of rows found and changed, rows read, rows after it."""

    rows: tuple[Row, ...]
    found: int
    changed: int
    used: frozenset[Object]
    after: dict[Object, Row]
    matched: frozenset[Object]


class Definition:
    """One history with its certificate."""

    def __init__(self, history: History, certificate: Certificate) -> None:
        self.history, self.told = history, certificate
        self.sql: SqlHistory = sql_history(history)
        self.store = Store(self.sql.schema, self.sql.dialect)
        self.by_id: dict[TxnId, Transaction] = {t.id: t for t in history.transactions}
        listed = {v[0] for one in certificate.objects.values() for v in one.versions if v is not None}
        listed |= {*certificate.commits, *(certificate.serial or ())}
        self.effective = [
            t.id
            for t in history.transactions
            if t.status is Status.COMMITTED or (t.status is Status.UNKNOWN and t.id in listed)
        ]
        self.initial: dict[Object, Row] = {
            (name, row[0]): tuple(row)  # type: ignore[misc]
            for name in self.sql.rows
            for row in self.sql.known_rows(name)
        }
        self.listed: dict[Object, list[VersionId]] = {
            _object(thing): [v for v in one.versions if v is not None] for thing, one in certificate.objects.items()
        }
        self.lines: dict[Object, list[VersionId]] = {}
        for thing, versions in self.listed.items():
            last = {v[0]: at for at, v in enumerate(versions)}
            self.lines[thing] = [v for at, v in enumerate(versions) if last[v[0]] == at]
        self.texts: dict[VersionId, Text] = {
            (t.id, index): Text(op.content["sql"], tuple(op.content.get("params") or ()))
            for t in history.transactions
            for index, op in enumerate(t.ops)
            if isinstance(op, Sql) and op.content.get("error") is None
        }
        named = [thing for seen in certificate.reads.values() for thing in (seen.versions or {})]
        self.objects = sorted({*self.initial, *self.lines, *map(_object, named)}, key=repr)
        self._contents: dict[tuple[Object, VersionId], Row | None] = {}
        self._path: list[tuple[Object, VersionId]] = []
        self._ran: dict[Any, Ran | None] = {}

    # Version sets

    def sees(self, op: VersionId, txn: TxnId) -> bool:
        sees = self.told.reads[op].sees
        assert sees is not None
        return (txn in self.told.commits[: sees.first] and txn not in sees.without) or txn in sees.also

    def others(self, op: VersionId, thing: Object) -> VersionId | None:
        """The version that the version set has of an object if the transaction has not written it."""
        seen = self.told.reads[op]
        for named, version in (seen.versions or {}).items():
            if _object(named) == thing:
                return version
        if seen.sees is None:
            return None
        visible = [v for v in self.lines.get(thing, []) if v[0] != op[0] and self.sees(op, v[0])]
        return visible[-1] if visible else None

    def own(self, op: VersionId, thing: Object) -> VersionId | None:
        """The last earlier version of its own."""
        for index in range(op[1] - 1, -1, -1):
            earlier = (op[0], index)
            text = self.texts.get(earlier)
            if text is None or text.kind == "select" or text.target != thing[0]:
                continue
            if earlier not in self.told.reads and not text.plain_insert and earlier not in self.listed.get(thing, []):
                # Without a version set, it wrote what is told.
                continue
            if earlier in self.listed.get(thing, []) or self.row_after(earlier, thing) != self.row_before(
                earlier, thing
            ):
                return earlier
        return None

    def version(self, op: VersionId, thing: Object) -> VersionId | None:
        seen = self.told.reads[op]
        if any(_object(named) == thing for named in seen.versions or {}) or seen.sees is None:
            return self.others(op, thing)
        return self.own(op, thing) or self.others(op, thing)

    # Rows

    def content(self, thing: Object, version: VersionId | None) -> Row | None:
        if version is None:
            return self.initial.get(thing)
        key = (thing, version)
        if key not in self._contents:
            if key in self._path:
                raise Circular
            self._path.append(key)
            try:
                self._contents[key] = self.row_after(version, thing)
            finally:
                self._path.pop()
        return self._contents[key]

    def row_before(self, op: VersionId, thing: Object) -> Row | None:
        if op in self.told.reads:
            return self.content(thing, self.version(op, thing))
        own = self.own(op, thing)
        if own is not None:
            return self.content(thing, own)
        line = self.lines.get(thing, [])
        at = next((at for at, v in enumerate(line) if v[0] == op[0]), 0)
        return self.content(thing, line[at - 1] if at else None)

    def row_after(self, op: VersionId, thing: Object) -> Row | None:
        text = self.texts[op]
        before = self.row_before(op, thing)
        if text.target != thing[0]:
            return before
        if text.simple:
            rows = {} if before is None else {thing: before}
            ran = self.run(text, rows)
            return before if ran is None else ran.after.get(thing)
        ran = self.run(text, self.state(op))
        return before if ran is None else ran.after.get(thing)

    def state(self, op: VersionId, instead: tuple[Object, Row | None] | None = None) -> dict[Object, Row]:
        """The rows of the version set, with another row in the place of one."""
        rows: dict[Object, Row] = {}
        for thing in self.objects:
            if thing[0] in self.texts[op].tables:
                row = self.row_before(op, thing)
                if instead is not None and instead[0] == thing:
                    row = instead[1]
                if row is not None:
                    rows[thing] = row
        return rows

    def run(self, text: Text, rows: dict[Object, Row]) -> Ran | None:
        """``None`` if the statement fails."""
        key = (text.sql, text.params, tuple(sorted(rows.items(), key=repr)))
        if key not in self._ran:
            self._ran[key] = self._run(text, rows)
        return self._ran[key]

    def _run(self, text: Text, rows: dict[Object, Row]) -> Ran | None:
        counts = []
        try:
            used: set[Object] = set()
            query = text.keys()
            if query is not None:
                for found in self._stored(rows, query, text.params)[1]:
                    used |= {(name, key) for name, key in zip(text.key_tables(), found, strict=True) if key is not None}
            for found_rows in (True, False):
                count, shown, after = self._stored(rows, text.sql, text.params, counts_found=found_rows)
                counts.append(count)
        except ExecutionError:
            return None
        matched = set(used) if text.kind in ("update", "delete") else set()
        if text.kind == "insert":
            written = {thing for thing in {*rows, *after} if rows.get(thing) != after.get(thing)}
            if text.upsert and text.simple:
                # A row that is there already and stays as it is was found, too.
                written |= {thing for thing in rows if self._takes_place_of(text, thing)}
            matched = written
            if " DO NOTHING" not in text.sql:
                used |= written & set(rows)
            else:
                matched = {thing for thing in written if thing not in rows}
        return Ran(tuple(shown), counts[0], counts[1], frozenset(used), after, frozenset(matched))

    def _takes_place_of(self, text: Text, thing: Object) -> bool:
        found = re.search(r"VALUES\s*\((-?\d+)", text.sql)
        return found is not None and (thing[0], int(found[1])) == (text.target, thing[1])

    def _stored(
        self, rows: dict[Object, Row], sql: str, params: tuple[Any, ...], *, counts_found: bool = True
    ) -> tuple[int, list[Row], dict[Object, Row]]:
        store = self.store.copy()
        for name in ("t", "s"):
            if name in self.sql.schema.tables:
                store.load(name, [row for (table, _), row in sorted(rows.items(), key=repr) if table == name])
        store.counts_found = counts_found
        transaction = store.transaction()
        given = {f"p{at}": value for at, value in enumerate(params, 1)}
        result = transaction.run(statement(sql, self.sql.dialect), given)
        after = {(name, row[0]): tuple(row) for name, content in store.state().items() for row in content}
        transaction.rollback()
        return result.count, [tuple(row) for row in result.rows], after

    # Anomalies without a cycle

    def faulty(self) -> bool:
        ops = [op for op in self.texts if op[0] in self.effective]
        told = [op for op in ops if op in self.told.reads]
        # What an INSERT of values does hangs on no version set.
        inserts = [op for op in ops if op not in self.told.reads and self.texts[op].plain_insert]
        wrong = any(self._bad_set(op) or self._mismatch(op, self.state(op)) for op in told)
        return wrong or any(self._mismatch(op, {}) for op in inserts) or self._bad_order()

    def _bad_set(self, op: VersionId) -> bool:
        for thing in self.objects:
            if thing[0] not in self.texts[op].tables:
                continue
            version, own = self.version(op, thing), self.own(op, thing)
            if own is not None and version != own:
                return True
            if version is None:
                continue
            if version[0] == op[0]:
                # The second: it is told to have seen what it wrote, and nobody tells of a version.
                if version[1] >= op[1] or (own is None and version not in self.told.reads):
                    return True
                continue
            if version[0] not in self.effective or (thing in self.lines and version not in self.lines[thing]):
                return True
        return False

    def _mismatch(self, op: VersionId, state: dict[Object, Row]) -> bool:
        text, content = self.texts[op], self._content_of(op)
        ran = self.run(text, state)
        if ran is None:
            return True
        recorded = content.get("rows")
        returned = text.kind == "select" or "RETURNING" in text.sql
        if returned and recorded is not None:
            given = [tuple(row) for row in recorded]
            if list(ran.rows) != given if " ORDER BY " in text.sql else Counter(ran.rows) != Counter(given):
                return True
        elif content.get("count") is not None:
            changed = ran.changed
            if text.kind == "update":
                changed = sum(state[thing] != ran.after.get(thing) for thing in ran.matched)
            allowed = {"found": {ran.found}, "changed": {changed}}.get(self.sql.counts or "", {ran.found, changed})
            if content["count"] not in allowed:
                return True
        if text.kind == "select":
            return any(op in line for line in self.listed.values())
        changes = {thing for thing in {*state, *ran.after} if state.get(thing) != ran.after.get(thing)}
        for thing in changes:
            if not any(v[0] == op[0] and v[1] >= op[1] for v in self.listed.get(thing, [])):
                return True
        return any(op in line and thing not in changes | ran.matched for thing, line in self.listed.items())

    def _content_of(self, op: VersionId) -> Any:
        operation = self.by_id[op[0]].ops[op[1]]
        assert isinstance(operation, Sql)
        return operation.content

    def _bad_order(self) -> bool:
        for thing, listed in self.listed.items():
            line = list(dict.fromkeys(listed))
            for at, op in enumerate(line):
                # Of its transaction's versions that are not listed, each came just before.
                chain = [op]
                while (own := self.own(chain[0], thing)) is not None and own not in line:
                    chain.insert(0, own)
                for last, made in zip((line[at - 1] if at else None, *chain), chain, strict=False):
                    text, before = self.texts[made], self.content(thing, last)
                    if text.kind == "insert" and not text.upsert and before is not None:
                        return True
                    if text.kind in ("update", "delete") and before is None:
                        return True
        return False

    # Edges

    def overwrites(self) -> Iterator[Edge]:
        for versions in (*self.lines.values(), *self.listed.values()):
            for (a, _), (b, _) in pairwise(versions):
                if a != b:
                    yield a, b, "ww"

    def reads(self, op: VersionId) -> Iterator[tuple[Object, VersionId | None]]:
        """Versions of others that were read."""
        if op not in self.told.reads:
            yield from self._untold_reads(op)
            return
        ran = self.run(self.texts[op], self.state(op))
        assert ran is not None
        for thing in sorted(ran.used, key=repr):
            version = self.version(op, thing)
            if version is None or version[0] != op[0]:
                yield thing, version

    def _untold_reads(self, op: VersionId) -> Iterator[tuple[Object, VersionId | None]]:
        """Without a version set, a change read the versions before those that it made."""
        if self.texts[op].kind == "select" or self.texts[op].plain_insert:
            return
        for thing, line in self.lines.items():
            at = next((at for at, version in enumerate(line) if version[0] == op[0]), None)
            mine = op in self.listed[thing] or self.row_after(op, thing) != self.row_before(op, thing)
            if at is None or line[at][1] < op[1] or not mine or thing[0] != self.texts[op].target:
                continue
            if self.own(op, thing) is None and self.row_before(op, thing) is not None:
                yield thing, line[at - 1] if at else None

    def item_edges(self) -> Iterator[Edge]:
        for op in self.texts:
            if op[0] not in self.effective:
                continue
            for thing, version in self.reads(op):
                line = self.lines.get(thing, [])
                at = line.index(version) if version is not None else -1
                if version is not None:
                    yield version[0], op[0], "wr"
                if at + 1 < len(line) and line[at + 1][0] != op[0]:
                    yield op[0], line[at + 1][0], "rw"

    def changes(self, op: VersionId, thing: Object, at: int) -> bool:
        """Whether the version at a place of an object's line changes the matches of a statement."""
        text, line = self.texts[op], self.lines[thing]
        rows = [self.content(thing, line[place] if place >= 0 else None) for place in (at - 1, at)]
        if text.plain_insert:
            return False
        if not text.simple:
            results = [self.run(text, self.state(op, (thing, row))) for row in rows]
            return bool(_effect(text, results[0]) != _effect(text, results[1]))
        return self.matches(text, thing, rows[0]) != self.matches(text, thing, rows[1])

    def matches(self, text: Text, thing: Object, row: Row | None) -> bool:
        if row is None or thing[0] not in text.tables:
            return False
        if text.kind == "insert":
            return self._takes_place_of(text, thing)
        table = text.target if text.kind != "select" else next(iter(text.tables))
        count = text.where.count("?")
        query = f"SELECT count(*) FROM {table} WHERE {text.where}"
        given = text.params[len(text.params) - count :] if count else ()
        return bool(self._stored({thing: row}, query, given)[1][0][0])

    def predicate_edges(self) -> Iterator[Edge]:
        for op, text in self.texts.items():
            if op[0] not in self.effective or op not in self.told.reads:
                continue
            for thing, line in self.lines.items():
                if thing[0] not in text.tables:
                    continue
                version = self.version(op, thing)
                at = -1
                if version is not None:
                    at = next(place for place, v in enumerate(line) if v[0] == version[0])
                changing = [place for place in range(len(line)) if self.changes(op, thing, place)]
                before = [place for place in changing if place <= at]
                if before and line[before[-1]][0] != op[0]:
                    yield line[before[-1]][0], op[0], "predicate-wr"
                for place in changing:
                    if place > at and line[place][0] != op[0]:
                        yield op[0], line[place][0], "predicate-rw"

    def session_edges(self) -> Iterator[Edge]:
        for a in self.effective:
            for b in self.effective[self.effective.index(a) + 1 :]:
                if self.by_id[a].session == self.by_id[b].session:
                    yield a, b, "so"

    def time_edges(self) -> Iterator[Edge]:
        for a in self.effective:
            for b in self.effective:
                end, start = self.by_id[a].end, self.by_id[b].start
                if end is not None and start is not None and end < start:
                    yield a, b, "rt"

    # Levels

    def verdicts(self, *, session_order: bool = True) -> dict[str, bool | None]:
        """By level: whether it is satisfied; ``None`` if it is left open."""
        answers: dict[str, bool | None] = {"read-uncommitted": not cyclic(self.effective, list(self.overwrites()))}
        levels = ("pl-2", "repeatable-read", "snapshot-isolation", "serializable", *_WEAK)
        strict = ("strict-snapshot-isolation", "strict-serializable")
        try:
            faulty = self.faulty()
        except Circular:
            faulty = True
        if faulty:
            return answers | dict.fromkeys((*levels, *strict), False)
        so = list(self.session_edges()) if session_order else []
        edges = [*so, *self.overwrites(), *self.item_edges(), *self.predicate_edges()]
        timed = [*edges, *self.time_edges()]
        flow = [edge for edge in edges if edge[2] in _FLOW]
        answers["pl-2"] = not cyclic(self.effective, flow)
        answers["repeatable-read"] = not cyclic(self.effective, [e for e in edges if e[2] != "predicate-rw"])
        answers["snapshot-isolation"] = snapshots(self.effective, edges)
        answers["serializable"] = not cyclic(self.effective, edges)
        answers["strict-snapshot-isolation"] = snapshots(self.effective, timed)
        answers["strict-serializable"] = not cyclic(self.effective, timed)
        items, orders = self.items()
        predicates = tuple(edge for edge in edges if edge[2] == "predicate-wr")
        told = Told(edges=(*predicates, *(edge for edge in self.overwrites())), orders=orders)
        for level in _WEAK:
            answers[level] = satisfies(items, level, session_order=session_order, told=told)
        return answers

    def _by_age(self) -> list[TxnId]:
        """The transactions in an order of what they overwrote and read."""
        left, order = list(self.effective), list[TxnId]()
        pairs = {(a, b) for a, b, kind in (*self.overwrites(), *self.item_edges()) if kind != "rw"}
        while left:
            first = next((n for n in left if not any(b == n and a in left for a, b in pairs)), left[0])
            left.remove(first)
            order.append(first)
        return order

    def items(self) -> tuple[History, tuple[tuple[TxnId | None, ...], ...]]:
        """The item operations: a key for each object, a value for each version."""
        place = {txn: at for at, txn in enumerate(self._by_age())}
        transactions = []
        for t in self.history.transactions:
            ops: list[Read | Write] = []
            for index in range(len(t.ops)) if t.id in self.effective else ():
                op = (t.id, index)
                if op in self.texts:
                    # The rows of one statement are read at once: none of them before another that is older.
                    seen = sorted(self.reads(op), key=lambda read: -1 if read[1] is None else place[read[1][0]])
                    ops += [Read(repr(thing), None if version is None else repr(version)) for thing, version in seen]
                ops += [Write(repr(thing), repr(op)) for thing, line in self.lines.items() if op in line]
            status = Status.COMMITTED if t.id in self.effective else Status.ABORTED
            transactions.append(Transaction(t.id, t.session, tuple(ops), status, t.start, t.end))
        orders = tuple((None, *(v[0] for v in line)) for line in self.lines.values() if line)
        return History(tuple(transactions)), orders


def _effect(text: Text, ran: Ran | None) -> Any:
    if ran is None:
        return None
    shown = ran.rows if " ORDER BY " in text.sql else frozenset(Counter(ran.rows).items())
    return shown, ran.found, ran.used, ran.matched and {thing: ran.after.get(thing) for thing in ran.matched}


def _object(thing: Any) -> Object:
    assert isinstance(thing, RowId)
    key = thing.key[0]
    assert isinstance(key, int)
    return thing.table, key


def cyclic(nodes: list[TxnId], edges: list[Edge]) -> bool:
    left = set(nodes)
    pairs = {(a, b) for a, b, _ in edges if a in left and b in left and a != b}
    while True:
        first = {node for node in left if not any(b == node and a in left for a, b in pairs)}
        if not first:
            return bool(left)
        left -= first


def snapshots(nodes: list[TxnId], edges: list[Edge]) -> bool:
    """Starts and commits can be ordered: what is seen or overwritten commits before the start, what is missed after it."""
    pairs: list[Edge] = [(f"start {n}", f"commit {n}", "") for n in nodes]
    for a, b, kind in edges:
        if kind in ("rw", "predicate-rw"):
            pairs.append((f"start {a}", f"commit {b}", ""))
        else:
            pairs.append((f"commit {a}", f"start {b}", ""))
    return not cyclic([name for pair in pairs[: len(nodes)] for name in pair[:2]], pairs)


__all__ = ["Circular", "Definition", "Open", "OutsideFragment"]
