"""Applications run as plain Python on a real database, through its driver, one transaction after the other."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from isolde.tx.dialects import Dialect
from isolde.tx.procedures import Invariant
from isolde.tx.python import AbortedByProgram, Handle
from isolde.tx.python.handle import Answer
from isolde.tx.render import render_schema, rendered
from isolde.tx.sql import statement
from isolde.workloads.application import Application, Part
from isolde.workloads.applications import APPLICATIONS, application_named

SMALL: dict[str, dict[str, int]] = {
    "bank": {"accounts": 12, "pairs": 3},
    "smallbank": {"customers": 12, "hot": 4},
    "twitter": {"users": 12, "tweets": 3},
    "rubis": {"users": 8, "items": 2, "comments": 2, "regions": 5},
    "tpcc": {"warehouses": 2, "districts": 2, "customers": 9, "items": 20},
    "courseware": {"students": 8, "courses": 4, "capacity": 3},
    "wikipedia": {"pages": 6, "users": 10},
    "shopping-cart": {"carts": 4, "items": 6, "stock": 12},
}
LOCKING = [name for name in APPLICATIONS if name.endswith("-locking")]
SMALL |= {name: SMALL[name.removesuffix("-locking")] for name in LOCKING}
VARIANTS = [*LOCKING, "tpcc-nokeys"]
"""Applications that are another one but for locks or keys."""
SMALL["tpcc-nokeys"] = SMALL["tpcc"]
TRANSACTIONS = 400


class Real(Handle):
    """A real database through its driver; ``duplicate`` is what the driver raises where a key is taken."""

    def __init__(self, dialect: Dialect, connection: Any, duplicate: type[Exception]) -> None:
        self.dialect, self.connection, self.duplicate = dialect, connection, duplicate

    def run(self, sql: str, parameters: Mapping[str, Any]) -> Answer:
        text, names = rendered(statement(sql, Dialect.POSTGRESQL), self.dialect)
        return self.send(text, [parameters[name] for name in names])

    def send(self, text: str, values: Any = ()) -> Answer:
        cursor = self.connection.cursor()
        cursor.execute(text, values)
        if cursor.description is None:
            return Answer((), (), cursor.rowcount)
        rows = cursor.fetchall()
        return Answer(tuple(column[0] for column in cursor.description), rows, len(rows))

    def violations(self, invariant: Invariant) -> list[Any]:
        return list(self.send(rendered(invariant.violations, self.dialect)[0]).rows)

    def call(self, part: Part, arguments: dict[str, Any]) -> tuple[str, Any]:
        """How one transaction ended, and what it returned."""
        self.send("BEGIN")
        try:
            value = part.transaction(self, **arguments)
        except AbortedByProgram:
            ending, value = "aborted", None
        except self.duplicate:
            ending, value = "unique", None
        else:
            ending = "returned"
        self.send("COMMIT" if ending == "returned" else "ROLLBACK")
        return ending, plain(value)


def plain(value: Any) -> Any:
    """Databases give sums as decimals, and truth as numbers: all that matters here is a number or a text."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value if value is None or isinstance(value, str) else int(value)


def populate(real: Real, application: Application, scale: Mapping[str, int]) -> None:
    for name in application.schema.tables:
        real.send(f"DROP TABLE IF EXISTS {name}")
    for text in render_schema(application.schema, real.dialect):
        real.send(text)
    real.send("BEGIN")
    mark: Callable[[int], str] = {
        Dialect.SQLITE: lambda _: "?",
        Dialect.MYSQL: lambda _: "%s",
        Dialect.POSTGRESQL: lambda number: f"${number}",
    }[real.dialect]
    for table, row in application.populate(Random(1), scale):
        marks = ", ".join(mark(number) for number in range(1, len(row) + 1))
        real.send(f"INSERT INTO {table} VALUES ({marks})", row)
    real.send("COMMIT")


def sqlite() -> Real:
    return Real(Dialect.SQLITE, sqlite3.connect(":memory:", isolation_level=None), sqlite3.IntegrityError)


def started(name: str) -> tuple[Application, Real]:
    application, real = application_named(name), sqlite()
    populate(real, application, SMALL[name])
    return application, real


def broken(real: Real, application: Application) -> dict[str, list[Any]]:
    found = {invariant.name: real.violations(invariant) for invariant in application.invariants}
    return {name: rows for name, rows in found.items() if rows}


def drawn(application: Application, scale: Mapping[str, int], seed: int) -> list[tuple[Part, dict[str, Any]]]:
    random = Random(seed)
    weights = [part.weight for part in application.parts]
    parts = random.choices(application.parts, weights, k=TRANSACTIONS)
    # Every kind at least a few times, however rare.
    parts = [part for part in application.parts for _ in range(10)] + parts
    return [(part, part.arguments(random, scale)) for part in parts]


def contents(real: Real, application: Application) -> dict[str, list[Any]]:
    return {
        name: sorted(map(tuple, real.send(f"SELECT * FROM {name}").rows), key=repr)
        for name in application.schema.tables
    }
