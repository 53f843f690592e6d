"""Functions with parameters that are lists: what they mean, on the store and on real databases, and what is refused."""

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
from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete import Ending, Store, call_function
from isolde.tx.dialects import Dialect
from isolde.tx.procedures import Local
from isolde.tx.python import Transaction, program, transaction
from isolde.tx.sql import schema

TABLES = schema(
    """
    CREATE TABLE ware (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL);
    CREATE TABLE sold (no INTEGER, ware INTEGER, pieces INTEGER, note VARCHAR(20), PRIMARY KEY (no, ware));
    """,
    Dialect.POSTGRESQL,
)


@transaction
def order(tx: Any, no: int, lines: Any) -> Any:
    """A list of tuples: its loop and its length tell that it is one."""
    total = 0
    for ware, pieces, note in lines:
        stock = tx.value("SELECT stock FROM ware WHERE id = :ware", ware=ware)
        if stock is None:
            tx.abort("no such ware")
        if pieces > stock:
            continue
        tx.execute("UPDATE ware SET stock = stock - :pieces WHERE id = :ware", pieces=pieces, ware=ware)
        tx.execute("INSERT INTO sold VALUES (:no, :ware, :pieces, :note)", no=no, ware=ware, pieces=pieces, note=note)
        total += pieces
    return total, len(lines)


@transaction
def fill(tx: Any, wares: list[int]) -> Any:
    """A list of values, in a loop in a loop."""
    if not wares:
        return 0
    pairs = 0
    for ware in wares:
        tx.execute("INSERT INTO ware VALUES (:ware, 10)", ware=ware)
        for other in wares:
            if other == ware:
                break
            pairs += 1
    return pairs


@transaction
def order_twice(tx: Any, no: int, lines: Any) -> Any:
    """It only hands the list on, so the transaction that it calls tells what the elements are."""
    first, size = order(tx, no, lines)
    second, size = order(tx, no + 1, lines)
    return first + second, size


@transaction
def fill_in_rounds(tx: Any, rounds: int, wares: Any) -> Any:
    """It calls itself."""
    for ware in wares:
        tx.execute("UPDATE ware SET stock = stock + 1 WHERE id = :ware", ware=ware)
    if rounds > 1:
        fill_in_rounds(tx, rounds - 1, wares)


@transaction
def longest(_: Any, one: Any, two: Any) -> Any:
    return max(len(one), len(two))


ALL = (fill, fill_in_rounds, order, order_twice, longest)
CALLS: list[tuple[Transaction, tuple[Any, ...]]] = [
    (fill, ([1, 2, 3],)),
    (fill, ([],)),
    (order, (1, [(1, 4, "a"), (3, 11, None), (2, 2, None)])),
    (order, (2, [])),
    (order, (3, [(1, 1, None), (9, 1, "gone")])),
    (order, (3, [[2, 1, "lists in a list"]])),
    (order, (4, ((1, 0, ""),))),
    (order_twice, (5, [(3, 3, "x"), (2, 1, "y")])),
    (order_twice, (7, [])),
    (fill_in_rounds, (3, [1, 2, 2])),
    (longest, ([1, 2], ["a"])),
    (longest, ([], [(1, 2), (3, 4), (5, 6)])),
]


def test_a_list_is_told_by_how_it_is_used() -> None:
    assert order.procedure.parameters == (Local("no"), Local("lines", many=True, width=3))
    assert fill.procedure.parameters == (Local("wares", many=True),)
    assert order_twice.procedure.parameters == (Local("no"), Local("lines", many=True, width=3))
    assert longest.procedure.parameters == (Local("one", many=True, width=None), Local("two", many=True, width=None))


@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_compiled_function_does_with_lists_what_python_does(dialect: Dialect) -> None:
    plain, compiled, whole = Store(TABLES, dialect), Store(TABLES, dialect), program(TABLES, ALL)
    for function, arguments in CALLS:
        expected = call_function(plain, function, *arguments)
        outcome = compiled.call(whole, function.name, arguments)
        if outcome.ending is Ending.ABORTED:
            assert expected is None
        else:
            assert (outcome.values or (None,)) == (expected if isinstance(expected, tuple) else (expected,))
        assert plain.same_state(compiled)


@pytest.fixture(params=["sqlite", "duckdb", "postgresql", "mariadb"])
def call(request: pytest.FixtureRequest, server: Callable[[str], Running], tmp_path: Path) -> Iterator[Caller]:
    kind = request.param
    url = f"{kind}:{tmp_path / 'real.db'}" if kind in ("sqlite", "duckdb") else server(kind).url
    _, database = open_database(url)
    with closing(cast(SqlConnection, database.connect(Table("isolde_none", Kind.REGISTERS, 0)))) as connection:
        for name in ("ware", "sold"):
            connection.execute(f"DROP TABLE IF EXISTS {name}")
    database.close()
    with Caller(url, TABLES) as caller:
        caller.create_tables()
        yield caller


@transaction
def wares(tx: Any) -> Any:
    return tuple((row.id, row.stock) for row in tx.all("SELECT id, stock FROM ware ORDER BY id"))


def test_a_database_does_with_lists_what_the_store_does(call: Caller) -> None:
    store = Store(TABLES, Dialect.POSTGRESQL)
    for function, arguments in CALLS:
        assert call(function, *arguments) == call_function(store, function, *arguments)
    assert call(wares) == call_function(store, wares)


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (order, (1, 5), "5 for the list lines; give a list"),
        (order, (1, None), "None for the list lines; give a list"),
        # Python would unpack the letters.
        (order, (1, "abc"), "'abc' for the list lines; give a list"),
        (order, (1, ["abc"]), "this list for lines; give a list of tuples of 3"),
        (order, (1, [(1, 2)]), "this list for lines; give a list of tuples of 3"),
        (order, (1, [(1, 2, "a"), (1, 2)]), "this list for lines; give a list of tuples of 3"),
        (order, (1, [(1, 2, "a"), (1, "2", "b")]), "int, str in the list lines"),
        (order, (1, [(1, 2, (3, 4))]), "tuple in the list lines"),
        (order, ([1], []), "a list for the value no"),
        (fill, ([(1,), (2,)],), "this list for wares; give a list of values"),
        (fill, ([1, True],), "bool, int in the list wares"),
        (longest, ([1, (2, 3)], []), "this list for one; give a list of elements of one kind"),
        (longest, ([()], []), "this list for one"),
    ],
)
def test_a_list_that_python_would_take_for_something_else_is_refused(
    function: Transaction, arguments: tuple[Any, ...], words: str
) -> None:
    with pytest.raises(OutsideFragment) as refusal:
        Store(TABLES, Dialect.POSTGRESQL).call(program(TABLES, ALL), function.name, arguments)
    assert f"{refusal.value.what}; {refusal.value.instead}".startswith(words)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_an_integer_in_a_list_fits_into_a_database(dialect: Dialect) -> None:
    store = Store(TABLES, dialect)
    with pytest.raises(ExecutionError, match="out of range"):
        store.call(program(TABLES, ALL), "fill", ([1, 2**63],))
    assert store.state()["ware"] == []


@pytest.mark.parametrize("value", [Decimal("0.5"), datetime(2024, 1, 2)])
def test_what_sqlite_would_make_another_value_of_is_not_given_in_a_list(value: Any) -> None:
    with pytest.raises(OutsideFragment, match=f"a {type(value).__name__} given to a function in SQLite"):
        Store(TABLES, Dialect.SQLITE).call(program(TABLES, ALL), "fill", ([value],))


@transaction
def looks_up(_: Any, items: list[int]) -> Any:
    return items[0]


@transaction
def names_a_part(_: Any, items: Any) -> Any:
    return items.first + len(items)


@transaction
def gives_it_to_sql(tx: Any, items: list[int]) -> Any:
    tx.execute("DELETE FROM ware WHERE id = :items", items=items)


@transaction
def unpacks_in_two_ways(tx: Any, items: Any) -> Any:
    for ware, _pieces in items:
        tx.execute("DELETE FROM ware WHERE id = :ware", ware=ware)
    for ware in items:
        tx.execute("DELETE FROM ware WHERE id = :ware", ware=ware)


@transaction
def unpacks_otherwise_than_annotated(tx: Any, items: list[tuple[int, int, int]]) -> Any:
    for ware, _pieces in items:  # type: ignore[misc]
        tx.execute("DELETE FROM ware WHERE id = :ware", ware=ware)


@transaction
def unpacks_one(tx: Any, items: Any) -> Any:
    for (ware,) in items:
        tx.execute("DELETE FROM ware WHERE id = :ware", ware=ware)


@transaction
def assigns_to_it(tx: Any, items: list[int]) -> Any:
    items = tx.all("SELECT id FROM ware")
    return len(items)


@transaction
def uses_an_element_as_a_row(_: Any, items: Any) -> Any:
    total = 0
    for item in items:
        total += item.price
    return total


@transaction
def counts_along(_: Any, items: Any) -> Any:
    total = 0
    for number, item in enumerate(items):
        total += number * item
    return total


@transaction
def hands_on_rows(tx: Any, no: int) -> Any:
    rows = tx.all("SELECT ware, pieces, note FROM sold")
    order(tx, no, rows)


@transaction
def hands_on_a_list_for_a_value(tx: Any, items: list[tuple[int, int, str]]) -> Any:
    order(tx, items, items)


@transaction
def searches(_: Any, items: list[int], item: int) -> Any:
    return 1 if item in items else 0


@transaction
def compares_it(_: Any, items: list[int]) -> Any:
    return 1 if items is None else 0


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (looks_up, "'items[0]', a part of a list; loop over it: for element in items"),
        (names_a_part, "'items.first', a part of a list; loop over it"),
        (gives_it_to_sql, "the list 'items' as a value; loop over it, or use len(items)"),
        (
            unpacks_in_two_ways,
            "'items' for a list of tuples of 2 and for one of values; loop over it with as many names",
        ),
        (unpacks_otherwise_than_annotated, "'items' for a list of tuples of 3 and for one of tuples of 2"),
        (unpacks_one, "elements of a list in a tuple of one name; loop with a name: for ware in items"),
        (assigns_to_it, "'items' for a list and for rows; use two names"),
        (uses_an_element_as_a_row, "'item.price'; only rows that"),
        (counts_along, "a loop over 'enumerate(items)'; loop over tx.all(…), its result, a parameter that is a list"),
        (hands_on_rows, "'rows' for a parameter of order that is a list"),
        (hands_on_a_list_for_a_value, "the list 'items' as a value"),
        (searches, "'item … items'; compare by"),
        (compares_it, "the list 'items' as a value"),
    ],
    ids=lambda given: given.name if isinstance(given, Transaction) else "",
)
def test_what_lists_cannot_do_is_refused_at_its_line(function: Transaction, words: str) -> None:
    with pytest.raises(OutsideFragment, match=Path(__file__).name) as refusal:
        assert function.procedure
    assert f"{refusal.value.what}; {refusal.value.instead}".startswith(words)
