"""Random histories with predicates and their certificates: a store with versions that keeps no promise, and then some damage."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from isolde.errors import ExecutionError, OutsideFragment
from isolde.history import History, Sql, Status, Transaction
from isolde.history.certificate import Certificate, Installed, ObjectId, RowId, Sees, VersionId, VersionSet
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema, statement

Object = tuple[str, int]
Row = tuple[Any, ...]
_SCHEMA = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",
    "CREATE TABLE s (id INT PRIMARY KEY, a INT, ref INT)",
)


@dataclass
class _Open:
    """A transaction on its way."""

    id: str
    session: str
    start: int
    snapshot: int
    ops: list[Sql] = field(default_factory=list)
    own: dict[Object, tuple[int, Row | None]] = field(default_factory=dict)
    all_writes: list[tuple[Object, int, Row | None]] = field(default_factory=list)


class Maker:
    """Makes one history; the same random numbers, the same history."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dialect = rng.choice([Dialect.POSTGRESQL, Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLITE])
        self.store = Store(schema(";\n".join(_SCHEMA), self.dialect), self.dialect)
        self.initial: dict[Object, Row] = {}
        for name in ("t", "s"):
            for key in range(1, rng.randint(2, 5)):
                self.initial[name, key] = (key, self.value(), self.value())
        self.lines: dict[Object, list[tuple[str, int]]] = {}
        self.contents: dict[tuple[Object, tuple[str, int]], Row | None] = {}
        self.commits: list[str] = []
        self.reads: dict[VersionId, VersionSet] = {}
        self.done: list[Transaction] = []
        self.clock = 0
        self.counts = rng.choice([None, "found", "changed"]) if self.dialect is Dialect.MYSQL else None
        self.steady = rng.random() < 0.5
        self.unruly = rng.choice([0.3, 0.3, 2.0])
        self.careful = rng.choice([0.0, 0.5, 1.0])
        self.by_versions = rng.choice([0.0, 0.0, 0.3, 1.0])
        self.wild = rng.choice([0.0, 0.1, 0.4])

    def value(self) -> int | None:
        return self.rng.choice([0, 1, 2, 3, 5, 8, None])

    # Statements

    def sql(self) -> tuple[str, tuple[Any, ...]]:
        rng = self.rng
        table = "t" if rng.random() < 0.75 else "s"
        column = rng.choice(["a", "b"] if table == "t" else ["a", "ref"])
        low, high = sorted((rng.randint(0, 4), rng.randint(1, 8)))
        where, params = rng.choice(
            [
                (f"id = {rng.randint(1, 4)}", ()),
                (f"{column} >= {low} AND {column} <= {high}", ()),
                (f"{column} BETWEEN {low} AND {high}", ()),
                (f"{column} > ?", (low,)),
                (f"{column} >= ? AND {column} < ?", (low, rng.choice([high, high, None]))),
                (f"{column} <= ? AND id > 1", (high,)),
                (f"{column} < id", ()),
                (f"{column} = {low}", ()),
                (f"{column} IS NULL", ()),
                (f"{column} <> {low} OR id = 2", ()),
            ]
        )
        if rng.random() < 0.45:
            return self.change(table, column, where, params)
        return self.query(table, column, where, params)

    def query(self, table: str, column: str, where: str, params: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
        rng = self.rng
        kind = rng.random()
        if kind < 0.3:
            return f"SELECT * FROM {table} WHERE {where}", params
        if kind < 0.4:
            return f"SELECT id, {column} FROM {table} WHERE {where} ORDER BY id", params
        if kind < 0.7:
            shown = rng.choice(["count(*)", f"min({column})", f"max({column})", f"sum({column})", f"count({column})"])
            return f"SELECT {shown} FROM {table} WHERE {where}", params
        if kind < 0.78:
            return f"SELECT id, {column} FROM {table} WHERE {where} ORDER BY id LIMIT {rng.randint(1, 2)}", params
        if kind < 0.88:
            join = rng.choice(["JOIN", "LEFT JOIN"])
            return (
                f"SELECT t.id, t.a, s.a FROM t {join} s ON s.ref = t.id WHERE t.{rng.choice('ab')} >= {rng.randint(0, 3)}",
                (),
            )
        if kind < 0.94:
            inner = f"SELECT s.ref FROM s WHERE s.a >= {rng.randint(0, 3)}"
            return f"SELECT t.id, t.a FROM t WHERE t.id IN ({inner})", ()
        return f"SELECT DISTINCT {column} FROM {table} WHERE {where}", params

    def change(self, table: str, column: str, where: str, params: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
        rng = self.rng
        returned = "" if self.dialect is Dialect.MYSQL or rng.random() < 0.8 else f" RETURNING id, {column}"
        kind, key, value = rng.random(), rng.randint(1, 4), self.value()
        shown = "NULL" if value is None else str(value)
        if kind < 0.2:
            return f"UPDATE {table} SET {column} = {shown} WHERE {where}{returned}", params
        if kind < 0.25:
            return f"UPDATE {table} SET {column} = {column} + 1 WHERE {where}{returned}", params
        if kind < 0.4:
            return f"UPDATE {table} SET {column} = {column} + 1 WHERE id = {key}", ()
        if kind < 0.5:
            return f"DELETE FROM {table} WHERE {where}{returned}", params
        if kind < 0.55:
            return f"UPDATE t SET a = (SELECT max(s.a) FROM s) WHERE id = {key}", ()
        if kind < 0.6:
            return f"DELETE FROM s WHERE s.ref IN (SELECT t.id FROM t WHERE t.a >= {rng.randint(0, 3)})", ()
        values = f"({key}, {shown}, {rng.randint(0, 4)})"
        if kind < 0.8:
            return f"INSERT INTO {table} VALUES {values}", ()
        if self.dialect is Dialect.MYSQL:
            return f"INSERT INTO {table} VALUES {values} ON DUPLICATE KEY UPDATE {column} = {shown}", ()
        act = rng.choice([f"UPDATE SET {column} = {shown}", f"UPDATE SET {column} = {table}.{column} + 1", "NOTHING"])
        return f"INSERT INTO {table} VALUES {values} ON CONFLICT (id) DO {act}", ()

    # Transactions

    def make(self) -> tuple[History, Certificate]:
        rng = self.rng
        left = rng.randint(3, 6)
        running: list[_Open] = []
        sessions = 0
        free: list[str] = []
        number = 0
        while left or running:
            self.clock += rng.randint(0, 2)
            if left and (not running or (len(running) < 4 and rng.random() < 0.5)):
                if free and rng.random() < 0.5:
                    session = free.pop()
                else:
                    sessions += 1
                    session = f"s{sessions}"
                number += 1
                running.append(_Open(f"t{number}", session, self.clock, len(self.commits)))
                left -= 1
                continue
            one = rng.choice(running)
            if len(one.ops) < 4 and rng.random() < 0.8:
                self.step(one)
            else:
                running.remove(one)
                self.end(one)
                free.append(one.session)
        order = {f"t{at}": at for at in range(1, number + 1)}
        transactions = tuple(sorted(self.done, key=lambda t: order[str(t.id)]))
        extra: dict[str, Any] = {
            "dialect": self.dialect.value,
            "schema": list(_SCHEMA),
            "rows": {
                name: [list(row) for (table, _), row in self.initial.items() if table == name] for name in ("t", "s")
            },
        }
        if self.counts is not None:
            extra["counts"] = self.counts
        objects: dict[ObjectId, Installed] = {
            RowId(*_named(thing)): Installed((None, *line)) for thing, line in self.lines.items()
        }
        certificate = Certificate("random", objects, tuple(self.commits), self.reads)
        return History(transactions, extra=extra), certificate

    def step(self, one: _Open) -> None:
        rng = self.rng
        sql, params = self.sql()
        seen, versions = self.version_set(one)
        rows = {thing: row for thing, version in versions.items() if (row := self.row(one, thing, version)) is not None}
        try:
            count, shown, after, changed_count = self.run(rows, sql, params)
        except (ExecutionError, OutsideFragment):
            return
        content: dict[str, Any] = {"sql": sql, "params": list(params), "rows": None}
        if sql.startswith("SELECT") or "RETURNING" in sql:
            content["rows"] = [list(row) for row in shown]
        else:
            content["count"] = changed_count if self.counts == "changed" else count
        place = len(one.ops)
        self.reads[one.id, place] = seen
        for thing in sorted({*rows, *after}):
            if rows.get(thing) != after.get(thing):
                one.own[thing] = (place, after.get(thing))
                one.all_writes.append((thing, place, after.get(thing)))
        one.ops.append(Sql(content))
        if rng.random() < self.wild / 4:
            one.snapshot = len(self.commits)

    def row(self, one: _Open, thing: Object, version: tuple[str, int] | None) -> Row | None:
        if version is None:
            return self.initial.get(thing)
        if version[0] == one.id:
            return next(row for other, place, row in one.all_writes if other == thing and place == version[1])
        return self.contents[thing, version]

    def version_set(self, one: _Open) -> tuple[VersionSet, dict[Object, tuple[str, int] | None]]:
        rng = self.rng
        first = one.snapshot if self.steady else len(self.commits)
        if rng.random() < self.wild:
            first = rng.randint(0, len(self.commits))
        without = tuple(name for name in self.commits[:first] if rng.random() < self.wild / 3)
        also = tuple(name for name in self.commits[first:] if rng.random() < self.wild / 2)
        seen = {*self.commits[:first], *also} - set(without)
        things = sorted({*self.initial, *self.lines, *one.own, *(thing for thing, _ in self.contents)})
        versions: dict[Object, tuple[str, int] | None] = {}
        for thing in things:
            visible = [v for v in self.lines.get(thing, []) if v[0] in seen]
            versions[thing] = visible[-1] if visible else None
            if thing in one.own:
                versions[thing] = (one.id, one.own[thing][0])
        told: dict[Any, VersionId | None] = {}
        for thing in things:
            if rng.random() < self.wild / 4:
                known = [version for other, version in self.contents if other == thing and version[0] != one.id]
                versions[thing] = rng.choice([None, *known])
                told[RowId(*_named(thing))] = versions[thing]
        if rng.random() < self.by_versions:
            named: dict[ObjectId, VersionId | None] = {
                RowId(*_named(thing)): version
                for thing, version in versions.items()
                if version is not None or rng.random() < 0.3
            }
            return VersionSet(None, named), versions
        return VersionSet(Sees(first, without, also), told or None), versions

    def run(
        self, rows: dict[Object, Row], sql: str, params: tuple[Any, ...]
    ) -> tuple[int, list[Row], dict[Object, Row], int]:
        counts = []
        for found in (True, False):
            store = self.store.copy()
            for name in ("t", "s"):
                store.load(name, [row for (table, _), row in sorted(rows.items()) if table == name])
            store.counts_found = found
            transaction = store.transaction()
            given = {f"p{at}": value for at, value in enumerate(params, 1)}
            result = transaction.run(statement(sql, self.dialect), given)
            after = {(name, row[0]): tuple(row) for name, content in store.state().items() for row in content}
            transaction.rollback()
            counts.append(result.count)
        return counts[0], [tuple(row) for row in result.rows], after, counts[1]

    def end(self, one: _Open) -> None:
        rng = self.rng
        for thing, place, row in one.all_writes:
            self.contents[thing, (one.id, place)] = row
        stale = any(
            self.latest(thing) not in (None, self.base(one, thing)) and rng.random() < self.careful for thing in one.own
        )
        status = Status.COMMITTED
        if stale or rng.random() < 0.1:
            status = Status.ABORTED
        elif rng.random() < 0.1:
            status = Status.UNKNOWN
        if status is Status.COMMITTED or (status is Status.UNKNOWN and rng.random() < 0.6):
            self.commits.append(one.id)
            every = rng.random() < 0.3
            for thing in one.own:
                line = self.lines.setdefault(thing, [])
                at = rng.randint(0, len(line)) if rng.random() < self.wild * self.unruly else len(line)
                places = [place for other, place, _ in one.all_writes if other == thing]
                line[at:at] = [(one.id, place) for place in (places if every else places[-1:])]
        self.clock += rng.randint(0, 2)
        end = None if status is Status.UNKNOWN else self.clock
        self.done.append(Transaction(one.id, one.session, tuple(one.ops), status, one.start, end))

    def latest(self, thing: Object) -> tuple[str, int] | None:
        line = self.lines.get(thing)
        return line[-1] if line else None

    def base(self, one: _Open, thing: Object) -> tuple[str, int] | None:
        """The version that the transaction's first write of the object was made from."""
        place = next(place for other, place, _ in one.all_writes if other == thing)
        seen = self.reads[one.id, place]
        if seen.versions is not None and RowId(*_named(thing)) in seen.versions:
            return seen.versions[RowId(*_named(thing))]  # type: ignore[return-value]
        if seen.sees is None:
            return None
        names = {*self.commits[: seen.sees.first], *seen.sees.also} - set(seen.sees.without)
        visible = [v for v in self.lines.get(thing, []) if v[0] in names]
        return visible[-1] if visible else None


def damaged(rng: random.Random, history: History, certificate: Certificate) -> tuple[History, Certificate]:
    """Something is not as it was any more: a version order, a version set, a row or a count of an answer."""
    kind = rng.randrange(5)
    if kind == 0 and certificate.objects:
        thing = rng.choice(sorted(certificate.objects, key=repr))
        versions = list(certificate.objects[thing].versions)
        rest = versions[1:]
        rng.shuffle(rest)
        if rest and rng.random() < 0.3:
            rest.append(rng.choice(rest))
        elif rest and rng.random() < 0.2:
            rest.pop()
        return history, replace(certificate, objects={**certificate.objects, thing: Installed((None, *rest))})
    if kind == 1 and certificate.reads:
        place = rng.choice(sorted(certificate.reads, key=repr))
        seen = certificate.reads[place]
        if seen.sees is not None:
            sees = replace(seen.sees, first=rng.randint(0, len(certificate.commits)))
            return history, replace(certificate, reads={**certificate.reads, place: replace(seen, sees=sees)})
        told = dict(seen.versions or {})
        if told:
            thing = rng.choice(sorted(told, key=repr))
            line = list(certificate.objects.get(thing, Installed(())).versions)
            told[thing] = rng.choice([None, *line])
            return history, replace(certificate, reads={**certificate.reads, place: replace(seen, versions=told)})
    if kind == 2:
        return _with_answer(rng, history), certificate
    if kind == 3 and len(certificate.commits) > 1:
        commits = list(certificate.commits)
        at = rng.randrange(len(commits) - 1)
        commits[at], commits[at + 1] = commits[at + 1], commits[at]
        return history, replace(certificate, commits=tuple(commits))
    return history, certificate


def _with_answer(rng: random.Random, history: History) -> History:
    """Another answer of one statement."""
    places = [(t, i) for t, one in enumerate(history.transactions) for i in range(len(one.ops))]
    if not places:
        return history
    t, i = rng.choice(places)
    transaction = history.transactions[t]
    op = transaction.ops[i]
    assert isinstance(op, Sql)
    content = dict(op.content)
    if content.get("rows"):
        rows = [list(row) for row in content["rows"]]
        act = rng.randrange(3)
        if act == 0:
            rows.pop(rng.randrange(len(rows)))
        elif act == 1:
            rows.append(list(rng.choice(rows)))
        else:
            rows[0][-1] = 77
        content["rows"] = rows
    elif content.get("count") is not None:
        content["count"] += 1
    ops = (*transaction.ops[:i], Sql(content), *transaction.ops[i + 1 :])
    changed = replace(transaction, ops=ops)
    return replace(history, transactions=(*history.transactions[:t], changed, *history.transactions[t + 1 :]))


def _named(thing: Object) -> tuple[str, tuple[int]]:
    return thing[0], (thing[1],)


def random_case(seed: int) -> tuple[History, Certificate]:
    """The history and the certificate of a number."""
    rng = random.Random(seed)
    history, certificate = Maker(rng).make()
    if rng.random() < 0.35:
        history, certificate = damaged(rng, history, certificate)
    return history, untold(seed, history, certificate) if seed % 7 == 3 else certificate


def untold(seed: int, history: History, certificate: Certificate) -> Certificate:
    """Some changes have no version set any more: the last ones of their transactions, so that what they wrote is told."""
    rng = random.Random(f"untold {seed}")
    texts = {
        (t.id, index): op.content["sql"]
        for t in history.transactions
        for index, op in enumerate(t.ops)
        if isinstance(op, Sql)
    }
    lasts: dict[Any, int] = {}
    for name, index in (version for one in certificate.objects.values() for version in one.versions if version):
        lasts[name] = max(index, lasts.get(name, index))
    reads = {
        place: seen
        for place, seen in certificate.reads.items()
        if "SELECT" in texts[place] or lasts.get(place[0]) != place[1] or rng.random() < 0.7
    }
    return replace(certificate, reads=reads)
