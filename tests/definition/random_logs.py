"""Small random logs of SQL transactions from a sloppy database, for agreement tests.

Transactions are run one after the other on a database that keeps all its past states. How they read (the latest state, an older
one, another one for each statement) is drawn for each log, and now and then an answer is changed, so that verdicts are mixed at
every level. Times are drawn so that some transactions overlap.
"""

from __future__ import annotations

import random
from typing import Any

from isolde.errors import ExecutionError
from isolde.formats.tables import SqlHistory
from isolde.history import Sql, Status, Transaction
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema, statement

from .audits import Definition, State, Writes, applied

TABLES = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)"
SHAPES = ("registers", "ranges", "rows", "keys")


def random_log(seed: int, transactions: int = 4) -> SqlHistory:
    """A log of three or four transactions over one table."""
    chance = random.Random(seed)
    dialect = chance.choice((Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLITE))
    tables = schema(TABLES, dialect)
    rows = tuple((key, chance.randrange(3), chance.randrange(3)) for key in range(1, chance.choice((2, 3, 4))))
    log = SqlHistory(dialect, tables, {"t": rows}, ())
    shape = chance.choice(SHAPES)
    sloppy = chance.choice((0.0, 0.4, 0.8, 1.0))
    by_statement = chance.random() < 0.4
    definition = Definition(log)
    states: list[State] = [definition.first()]
    found: list[Transaction] = []
    clock = 0
    for number in range(chance.choice((2, 3, transactions))):
        own: Writes = {}
        ops: list[Sql] = []
        snapshot = _snapshot(chance, sloppy, len(states))
        for _ in range(chance.choice((1, 2, 2, 3))):
            sql, params = _statement(chance, shape)
            if by_statement:
                snapshot = chance.randrange(snapshot, len(states))
            op = _answered(definition, states[snapshot], own, sql, params)
            ops.append(op)
            after = definition.run(states[snapshot], own, op)
            assert after is not None
            own = after
        status = chance.choices((Status.COMMITTED, Status.ABORTED, Status.UNKNOWN), (0.84, 0.06, 0.1))[0]
        if status is Status.COMMITTED or (status is Status.UNKNOWN and chance.random() < 0.5):
            states.append(applied(states[-1], own))
        start = max(0, clock - chance.choice((0, 0, 3, 8)))
        clock += chance.choice((1, 4, 6))
        found.append(
            Transaction(number, chance.choice(("s1", "s2", "s3")), tuple(ops), status, start, max(clock, start + 1))
        )
    if chance.random() < 0.25:
        found = _changed(chance, found)
    if chance.random() < 0.3:
        chance.shuffle(found)
    counts: Any = chance.choice(("found", None)) if dialect is Dialect.MYSQL else None
    return SqlHistory(dialect, tables, {"t": rows}, tuple(found), counts=counts)


def _snapshot(chance: random.Random, sloppy: float, states: int) -> int:
    return chance.randrange(states) if chance.random() < sloppy else states - 1


def _statement(chance: random.Random, shape: str) -> tuple[str, list[Any]]:
    key, value, other = chance.randrange(1, 4), chance.randrange(4), chance.randrange(1, 5)
    plain: list[tuple[str, list[Any]]] = [
        ("SELECT a FROM t WHERE id = ?", [key]),
        ("UPDATE t SET a = ? WHERE id = ?", [value, key]),
        (f"UPDATE t SET a = a + {chance.randrange(1, 3)} WHERE id = {key}", []),
    ]
    more: dict[str, list[tuple[str, list[Any]]]] = {
        "registers": plain,
        "ranges": [
            *plain,
            (f"SELECT id, a FROM t WHERE a > {value}", []),
            ("SELECT SUM(a), COUNT(*) FROM t", []),
            ("SELECT MAX(b) FROM t WHERE a < ?", [value]),
            ("UPDATE t SET b = b + 1 WHERE a >= ?", [value]),
            ("SELECT id, b FROM t ORDER BY id", []),
        ],
        "rows": [
            *plain,
            ("SELECT id, a, b FROM t", []),
            ("INSERT INTO t (id, a, b) VALUES (?, ?, ?)", [key, value, 0]),
            ("DELETE FROM t WHERE id = ?", [key]),
            ("DELETE FROM t WHERE a = ?", [value]),
            ("SELECT COUNT(*) FROM t WHERE b = 0", []),
        ],
        "keys": [
            *plain,
            ("SELECT id, a FROM t", []),
            ("UPDATE t SET id = ? WHERE id = ?", [other, key]),
            ("INSERT INTO t (id, a, b) VALUES (?, ?, ?)", [key, value, 0]),
            ("UPDATE t SET a = 0", []),
        ],
    }
    return chance.choice(more[shape])


def _answered(definition: Definition, state: State, own: Writes, sql: str, params: list[Any]) -> Sql:
    """The statement with the answer that this state gives."""
    store = Store(definition.log.schema, definition.log.dialect)
    for (table, _), row in sorted({**state, **own}.items(), key=repr):
        if row is not None:
            store.load(table, [row])
    store.counts_found = True
    given = {f"p{place}": value for place, value in enumerate(params, 1)}
    content: dict[str, Any] = {"sql": sql, "params": params, "rows": None}
    try:
        result = store.transaction().run(statement(sql, definition.log.dialect), given)
    except ExecutionError as error:
        return Sql(content | {"error": error.word})
    if sql.startswith("SELECT"):
        content["rows"] = [list(row) for row in result.rows]
    return Sql(content | {"count": result.count})


def _changed(chance: random.Random, transactions: list[Transaction]) -> list[Transaction]:
    """One answer is another one."""
    place = chance.randrange(len(transactions))
    one = transactions[place]
    at = chance.randrange(len(one.ops))
    op = one.ops[at]
    assert isinstance(op, Sql)
    content = dict(op.content)
    rows = [list(row) for row in content.get("rows") or []]
    if rows and chance.random() < 0.7:
        row = chance.randrange(len(rows))
        column = chance.randrange(len(rows[row]))
        rows[row][column] = chance.randrange(5)
        content["rows"] = rows
    elif rows:
        content["rows"] = rows[1:]
    elif content.get("error"):
        del content["error"]
        content["count"] = 1
    elif content.get("rows") is not None:
        content["rows"] = [[1] * content["sql"].split(" FROM ")[0].count(",") + [1]]
    else:
        content["count"] = chance.randrange(3)
    ops = (*one.ops[:at], Sql(content), *one.ops[at + 1 :])
    changed = Transaction(one.id, one.session, ops, one.status, one.start, one.end)
    return [*transactions[:place], changed, *transactions[place + 1 :]]
