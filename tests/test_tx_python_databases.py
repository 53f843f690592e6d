"""Transaction functions get the same from a real database as from the store that stands for it: types, counts, constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from isolde.databases import Kind, SqlConnection, Table, open_database
from isolde.databases.caller import Caller
from isolde.databases.servers import Running
from isolde.errors import Aborted, ExecutionError, OutsideFragment
from isolde.semantics.concrete import Store, call_function
from isolde.tx.dialects import Dialect
from isolde.tx.procedures import Program
from isolde.tx.python import transaction
from isolde.tx.sql import schema

TABLES = schema(
    """
    CREATE TABLE shelf (id INTEGER PRIMARY KEY, room INTEGER NOT NULL);
    CREATE TABLE book (
        id INTEGER PRIMARY KEY, shelf INTEGER REFERENCES shelf (id), lent BOOLEAN, price DECIMAL(8, 2), bought TIMESTAMP
    );
    """,
    Dialect.POSTGRESQL,
)
DIALECTS = {
    "postgresql": Dialect.POSTGRESQL,
    "mariadb": Dialect.MYSQL,
    "sqlite": Dialect.SQLITE,
    "duckdb": Dialect.POSTGRESQL,
}
BOUGHT = datetime(2024, 1, 2, 12, 0, 0, 500_000)


@transaction
def build(tx: Any) -> Any:
    tx.execute("INSERT INTO shelf VALUES (1, 7), (2, 7)")


@transaction
def put(tx: Any, book: int, shelf: int, price: Decimal, bought: datetime) -> Any:
    tx.execute(
        "INSERT INTO book VALUES (:book, :shelf, :lent, :price, :bought)",
        book=book,
        shelf=shelf,
        lent=True,
        price=price,
        bought=bought,
    )
    row = tx.one("SELECT id, lent, price, bought FROM book WHERE id = :book", book=book)
    return row.id, row.lent, row.price, row.bought


@transaction
def unchanged(tx: Any) -> Any:
    found = tx.execute("UPDATE shelf SET room = room")
    taken = tx.execute("INSERT INTO shelf VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET room = shelf.room")
    return found, taken


@pytest.fixture(params=list(DIALECTS))
def both(request: pytest.FixtureRequest, server: Callable[[str], Running], tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """What calls a function on a database, and what calls it on the store."""
    kind = request.param
    url = f"{kind}:{tmp_path / 'real.db'}" if kind in ("sqlite", "duckdb") else server(kind).url
    # Others may have left tables of these names on a server that all use.
    _, database = open_database(url)
    with closing(cast(SqlConnection, database.connect(Table("isolde_none", Kind.REGISTERS, 0)))) as connection:
        for name in ("book", "shelf"):
            connection.execute(f"DROP TABLE IF EXISTS {name}")
    database.close()
    store = Store(TABLES, DIALECTS[kind])
    with Caller(url, TABLES) as call:
        call.create_tables()
        call(build)
        call_function(store, build)
        yield call, lambda *arguments: call_function(store, *arguments)


def test_values_come_back_as_the_same_values(both: tuple[Any, Any]) -> None:
    real, store = both
    given = (put, 1, 1, Decimal("1.50"), BOUGHT)
    assert [repr(value) for value in real(*given)] == [repr(value) for value in store(*given)]


@transaction
def take(tx: Any, given: Any) -> Any:
    row = tx.one(
        "SELECT COUNT(:given) AS n, MAX(CASE WHEN :given IS NULL THEN 'nothing' ELSE 'a' END) AS t FROM shelf",
        given=given,
    )
    return row.n, row.t


@transaction
def halve(tx: Any, given: float) -> Any:
    return tx.value("SELECT :given / 2 AS half", given=given)


@pytest.mark.parametrize("given", [1, "a", None, 0.5, Decimal("1.5"), True, BOUGHT], ids=str)
def test_a_parameter_may_stand_where_any_type_is_taken(both: tuple[Any, Any], given: Any) -> None:
    real, store = both
    assert real(take, given) == store(take, given)
    if isinstance(given, float):
        assert real(halve, given) == store(halve, given) == 0.25


def test_rows_that_are_found_and_not_changed_count_alike(both: tuple[Any, Any]) -> None:
    real, store = both
    assert real(unchanged) == store(unchanged) == (2, 1)


def test_a_foreign_key_holds(both: tuple[Any, Any]) -> None:
    real, store = both
    given = (put, 1, 4711, Decimal(1), BOUGHT)
    with pytest.raises(Aborted):
        real(*given)
    with pytest.raises(ExecutionError, match="refers to 4711"):
        store(*given)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_compiled_function_counts_what_was_found(dialect: Dialect) -> None:
    store = Store(TABLES, dialect)
    call_function(store, build)
    assert store.call(Program(TABLES, (unchanged.procedure,)), "unchanged").values == (2, 1)


@transaction
def same(tx: Any, price: Decimal) -> Any:
    known = tx.value("SELECT price FROM book WHERE id = 1")
    return known == price


def test_what_sqlite_would_make_another_value_of_is_not_given_to_a_compiled_function() -> None:
    """Python compares the decimal that it was given, not the float that SQLite makes of it."""
    store = Store(TABLES, Dialect.SQLITE)
    with pytest.raises(OutsideFragment, match="a Decimal given to a function in SQLite"):
        store.call(Program(TABLES, (same.procedure,)), "same", (Decimal("0.1"),))
