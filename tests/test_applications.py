"""The applications: they compile, start right, stay right when run one after the other, and mean the same everywhere.

The same functions run as plain Python on SQLite, PostgreSQL and MariaDB, and as compiled procedures on the store: each
transaction must end in the same way, and all must leave the same rows.
"""

from __future__ import annotations

import contextlib
import doctest
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from isolde.databases.servers import Running
from isolde.errors import ExecutionError, UsageError
from isolde.semantics.concrete import Ending, Store
from isolde.tx.dialects import Dialect
from isolde.tx.procedures import Invariant
from isolde.tx.python import AbortedByProgram, Handle, locking
from isolde.tx.python.handle import Answer
from isolde.tx.queries import Lock, Select, TableSource
from isolde.tx.render import render_schema, rendered
from isolde.tx.rewrite import rewritten
from isolde.tx.sql import statement
from isolde.workloads.application import Application, Part
from isolde.workloads.applications import APPLICATIONS, application_named
from isolde.workloads.applications.courseware import enroll_as_printed
from isolde.workloads.applications.tpcc import STANDARD, TROUBADOUR
from isolde.workloads.applications.tpcc_data import last_name, nurand

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
TRANSACTIONS = 400
PAGE = Path(__file__).resolve().parent.parent / "docs" / "applications.md"

every_application = pytest.mark.parametrize("name", list(APPLICATIONS))


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


@every_application
def test_the_table_says_what_the_application_says(name: str) -> None:
    application, entry = application_named(name), APPLICATIONS[name]
    assert (application.name, application.meaning, application.source) == (entry.name, entry.meaning, entry.source)
    assert application.scale.keys() == SMALL[name].keys()


@every_application
def test_every_transaction_compiles_and_takes_the_arguments_that_are_drawn(name: str) -> None:
    application = application_named(name)
    names = [procedure.name for procedure in application.program.procedures]
    assert names == [part.name for part in application.parts]
    assert len(set(names)) == len(names)
    for part in application.parts:
        given = part.arguments(Random(1), application.scale)
        assert given.keys() == {local.name for local in part.transaction.procedure.parameters}
        assert given == part.arguments(Random(1), application.scale)


@every_application
def test_the_first_rows_satisfy_all_invariants(name: str) -> None:
    application, real = started(name)
    assert all(real.send(f"SELECT COUNT(*) FROM {table}").rows for table in application.schema.tables)
    assert broken(real, application) == {}


@pytest.mark.parametrize("name", [name for name in APPLICATIONS if name not in LOCKING])
def test_the_first_rows_of_the_usual_size_satisfy_all_invariants(name: str) -> None:
    application, real = application_named(name), sqlite()
    populate(real, application, application.scale)
    assert broken(real, application) == {}


@every_application
@pytest.mark.parametrize("seed", [1, 2])
def test_one_after_the_other_the_transactions_keep_all_invariants(name: str, seed: int) -> None:
    application, real = started(name)
    endings: dict[str, set[str]] = {part.name: set() for part in application.parts}
    for part, arguments in drawn(application, SMALL[name], seed):
        endings[part.name].add(real.call(part, arguments)[0])
    assert broken(real, application) == {}
    assert all("returned" in ended for ended in endings.values()), endings


def on_the_store(application: Application, scale: Mapping[str, int], dialect: Dialect) -> Store:
    store = Store(application.schema, dialect)
    for table, row in application.populate(Random(1), scale):
        store.load(table, [row])
    return store


def called(store: Store, application: Application, part: Part, arguments: dict[str, Any]) -> tuple[str, Any]:
    try:
        outcome = store.call(application.program, part.name, arguments)
    except ExecutionError as error:
        return error.kind, None
    if outcome.ending is not Ending.RETURNED:
        return outcome.ending.value, None
    values = outcome.values
    return "returned", plain(values[0] if len(values) == 1 else values or None)


def agree(real: Real, name: str, seed: int) -> None:
    """Runs the same transactions on the database and on the store in the same dialect, which is not the one they are written in."""
    application, scale = application_named(name), SMALL[name]
    populate(real, application, scale)
    store = on_the_store(application, scale, real.dialect)
    for number, (part, arguments) in enumerate(drawn(application, scale, seed)):
        assert real.call(part, arguments) == called(store, application, part, arguments), (number, part.name, arguments)
    state = {table: sorted(map(tuple, rows), key=repr) for table, rows in store.state().items()}
    assert contents(real, application) == state
    assert broken(real, application) == {}
    with store.transaction() as transaction:
        assert [transaction.run(invariant.violations).rows for invariant in application.invariants] == [
            [] for _ in application.invariants
        ]


@every_application
def test_python_on_sqlite_and_the_compiled_procedures_on_the_store_do_the_same(name: str) -> None:
    agree(sqlite(), name, seed=3)


@every_application
def test_python_on_postgresql_and_the_compiled_procedures_on_the_store_do_the_same(
    name: str, server: Callable[[str], Running]
) -> None:
    psycopg = pytest.importorskip("psycopg")
    url = server("postgresql").url
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        agree(Real(Dialect.POSTGRESQL, connection, psycopg.errors.UniqueViolation), name, seed=4)


@pytest.mark.parametrize("name", [name for name in APPLICATIONS if name != "tpcc-locking"])
def test_python_on_mariadb_and_the_compiled_procedures_on_the_store_do_the_same(
    name: str, server: Callable[[str], Running]
) -> None:
    pymysql = pytest.importorskip("pymysql")
    where = urlsplit(server("mariadb").url)
    connection = pymysql.connect(
        host=where.hostname,
        port=where.port,
        user=where.username,
        password=where.password or "",
        database=where.path.lstrip("/"),
        autocommit=True,
    )
    with connection:
        agree(Real(Dialect.MYSQL, connection, pymysql.err.IntegrityError), name, seed=5)


# One way to break each invariant, so that none is true of everything.
BREAKING = {
    ("bank", "balance-is-sum-of-movements"): "UPDATE accounts SET balance = balance + 1 WHERE acc_id = 1",
    ("bank", "money-is-preserved"): "INSERT INTO movements VALUES (99, 1, 5)",
    ("bank", "transfers-are-even"): "INSERT INTO movements VALUES (99, 1, 5), (99, 2, -4)",
    ("bank", "no-account-is-overdrawn"): "UPDATE accounts SET balance = -1 WHERE acc_id = 12",
    ("bank", "no-pair-is-overdrawn"): "UPDATE accounts SET balance = -1000000 WHERE acc_id = 2",
    ("smallbank", "total-is-sum-of-ledger"): "UPDATE checking SET bal = bal - 1 WHERE custid = 3",
    ("smallbank", "money-is-preserved"): "INSERT INTO ledger VALUES (99, 1, 1)",
    ("smallbank", "savings-not-negative"): "UPDATE savings SET bal = -1 WHERE custid = 3",
    ("smallbank", "every-customer-has-both-accounts"): "DELETE FROM checking WHERE custid = 3",
    ("twitter", "following-has-its-follower"): "UPDATE following SET follow = 0 WHERE src = 1",
    ("twitter", "follower-has-its-following"): "INSERT INTO followers VALUES (1, 2, 7, 1)",
    ("twitter", "follows-are-counted"): "UPDATE users SET follows = 2 WHERE id = 1",
    ("twitter", "followers-are-counted"): "INSERT INTO followers VALUES (1, 2, 7, 1)",
    ("twitter", "last-tweet-exists"): "UPDATE last_tweet SET tweet_id = (SELECT tweet_id FROM last_tweet WHERE user_id = 2) WHERE user_id = 1",
    ("rubis", "max-bid-is-highest-bid"): "INSERT INTO bids VALUES (1, 1, 1, 5, 0)",
    ("rubis", "bids-are-counted"): "UPDATE items SET nb_of_bids = 1 WHERE id = 2",
    ("rubis", "quantity-is-what-is-not-sold"): "INSERT INTO buy_now VALUES (1, 1, 1, 1)",
    ("rubis", "quantity-not-negative"): "UPDATE items SET quantity = -1 WHERE id = 1",
    ("rubis", "rating-is-sum-of-comments"): "UPDATE ratings SET rating = rating + 1 WHERE user_id = 1",
    ("rubis", "every-user-is-rated"): "DELETE FROM ratings WHERE user_id = 1",
    ("rubis", "every-item-has-a-seller"): "DELETE FROM users WHERE id = 1",
    ("tpcc", "condition-1"): "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1",
    ("tpcc", "condition-2"): "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 2",
    ("tpcc", "condition-3"): "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 8",
    ("tpcc", "condition-4"): "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 1",
    ("tpcc", "condition-5"): "UPDATE orders SET o_carrier_id = 1 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 9",
    ("tpcc", "condition-6"): "DELETE FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 1 AND ol_number = 1",
    ("tpcc", "condition-7"): "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_o_id = 1 AND ol_number = 2",
    ("tpcc", "condition-8"): "UPDATE history SET h_amount = h_amount + 1 WHERE h_id = 1",
    ("tpcc", "condition-9"): "UPDATE district SET d_ytd = d_ytd - 1 WHERE d_w_id = 2 AND d_id = 1",
    ("tpcc", "condition-10"): "UPDATE customer SET c_balance = c_balance + 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
    ("tpcc", "condition-11"): "UPDATE customer SET c_delivery_cnt = 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
    ("tpcc", "condition-12"): "UPDATE customer SET c_ytd_payment = 0 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
    ("courseware", "I1-student"): "INSERT INTO enrollment VALUES (1, 99, 1)",
    ("courseware", "I1-course"): "INSERT INTO enrollment VALUES (1, 1, 99)",
    ("courseware", "I2"): "UPDATE course SET c_capacity = -1 WHERE c_id = 1",
    ("wikipedia", "latest-revision-exists"): "UPDATE page SET page_latest = 2 WHERE page_id = 1",
    ("wikipedia", "length-is-of-latest-revision"): "UPDATE page SET page_len = page_len + 1 WHERE page_id = 1",
    ("wikipedia", "revision-has-a-text"): "DELETE FROM page_text WHERE old_id = 1",
    ("wikipedia", "no-edit-is-lost"): "UPDATE revision SET rev_parent_id = 1 WHERE rev_id IN (2, 3)",
    ("wikipedia", "latest-revision-is-last"): "INSERT INTO revision VALUES (99, 1, 1, 1, 0, 5, 1)",
    ("wikipedia", "edits-are-counted"): "UPDATE useracct SET user_editcount = user_editcount + 1 WHERE user_id = 1",
    ("wikipedia", "edits-are-logged"): "INSERT INTO revision VALUES (99, 1, 1, 1, 0, 5, 1)",
    ("wikipedia", "watched-with-talk-page"): "DELETE FROM watchlist WHERE wl_namespace = 1",
    ("shopping-cart", "stock-not-negative"): "UPDATE items SET stock = -1 WHERE id = 1",
    ("shopping-cart", "stock-is-what-no-cart-holds"): "INSERT INTO cart_items VALUES (1, 1, 1)",
    ("shopping-cart", "total-is-sum-of-items"): "UPDATE carts SET total = 1 WHERE id = 1",
    ("shopping-cart", "quantity-is-positive"): "INSERT INTO cart_items VALUES (1, 1, 0)",
}  # fmt: skip


def test_there_is_a_way_to_break_each_invariant() -> None:
    named = [application_named(name) for name in APPLICATIONS if name not in LOCKING]
    assert [(application.name, one.name) for application in named for one in application.invariants] == list(BREAKING)


@pytest.mark.parametrize("name", LOCKING)
def test_a_locking_application_differs_by_its_locks_alone(name: str) -> None:
    careful, usual = application_named(name), application_named(name.removesuffix("-locking"))
    same = ("ddl", "invariants", "scale", "populate")
    assert all(getattr(careful, field) is getattr(usual, field) for field in same)
    mixes = [[(part.name, part.weight, part.arguments) for part in one.parts] for one in (careful, usual)]
    assert mixes[0] == mixes[1]
    assert locked(usual) == []
    assert locked(careful) == LOCKED[name]


LOCKED = {
    "bank-locking": ["deposit accounts", "transfer accounts", "withdraw accounts", "withdraw_overdraft accounts"],
    "tpcc-locking": ["delivery new_order", "new_order district", "new_order stock"],
    "courseware-locking": [
        "cancel_course course", "deregister student", "enroll course", "enroll student", "leave enrollment",
    ],
}  # fmt: skip


def locked(application: Application) -> list[str]:
    """Which transaction locks rows of which table, as its procedure has it."""
    found: set[str] = set()

    def look(name: str) -> Callable[[Any], Any]:
        def at(node: Any) -> Any:
            if isinstance(node, Select) and node.lock is Lock.UPDATE and isinstance(node.source, TableSource):
                found.add(f"{name} {node.source.table}")
            return node

        return at

    for procedure in application.program.procedures:
        rewritten(procedure, look(procedure.name))
    return sorted(found)


@pytest.mark.parametrize("name", LOCKING)
def test_the_function_sends_the_locks_that_its_procedure_has(name: str) -> None:
    application, real = started(name)
    sent: set[str] = set()

    class Watched(Handle):
        def __init__(self, part: str) -> None:
            self.part = part

        def run(self, sql: str, parameters: Mapping[str, Any]) -> Answer:
            query = statement(sql, Dialect.POSTGRESQL)
            if isinstance(query, Select) and query.lock is Lock.UPDATE and isinstance(query.source, TableSource):
                sent.add(f"{self.part} {query.source.table}")
            return real.run(sql, parameters)

    for part, arguments in drawn(application, SMALL[name], 1):
        with contextlib.suppress(AbortedByProgram, sqlite3.IntegrityError):
            part.transaction(Watched(part.name), **arguments)
    assert sorted(sent) == LOCKED[name]


def test_what_cannot_be_locked_is_told() -> None:
    with pytest.raises(UsageError, match="reads no row of student that can be locked"):
        _ = locking(enroll_as_printed, "student").procedure


@pytest.mark.parametrize(("name", "invariant"), list(BREAKING))
def test_an_invariant_can_be_broken(name: str, invariant: str) -> None:
    application, real = started(name)
    real.send(BREAKING[name, invariant])
    assert invariant in broken(real, application)


# What TPC-C's sizes and the way its transactions are drawn must be (clauses 1.2.1, 2.4.1, 2.5.1, 5.2.3).


def test_tpcc_counts_rows_as_the_standard_does() -> None:
    application = application_named("tpcc")
    # A tenth of the standard's customers and a hundredth of its items: the ratios are what counts.
    scale = {**STANDARD, "customers": 300, "items": 1000}
    counts: dict[str, int] = dict.fromkeys(application.schema.tables, 0)
    for table, row in application.populate(Random(1), scale):
        counts[table] += 1
        assert len(row) == len(application.schema.tables[table].columns)
    assert counts["warehouse"] == 1
    assert counts["district"] == 10
    assert counts["customer"] == counts["history"] == counts["orders"] == 3000
    assert counts["new_order"] == 900
    assert counts["stock"] == counts["item"] == 1000
    assert 9.5 < counts["order_line"] / counts["orders"] < 10.5


@pytest.mark.parametrize("scale", [TROUBADOUR, {"warehouses": 1, "districts": 1, "customers": 1, "items": 1}])
def test_tpcc_runs_on_the_smallest_sizes(scale: dict[str, int]) -> None:
    application, real = application_named("tpcc"), sqlite()
    populate(real, application, scale)
    for part, arguments in drawn(application, scale, seed=1)[:200]:
        real.call(part, arguments)
    assert broken(real, application) == {}


def test_tpcc_draws_as_the_standard_says() -> None:
    application, random = application_named("tpcc"), Random(7)
    parts = {part.name: part for part in application.parts}
    scale = {"warehouses": 3, "districts": 10, "customers": 3000, "items": 100_000}
    orders = [parts["new_order"].arguments(random, scale) for _ in range(20_000)]
    lines = [(order, number) for order in orders for number in range(1, order["ol_cnt"] + 1)]
    assert 0.007 < sum(order[f"item{order['ol_cnt']}"] > 100_000 for order in orders) / len(orders) < 0.013
    assert 0.008 < sum(order[f"supply{k}"] != order["w_id"] for order, k in lines) / len(lines) < 0.012
    assert all(
        (order["all_local"] == 0) == any(order[f"supply{k}"] not in (0, order["w_id"]) for k in range(1, 16))
        for order in orders
    )
    assert {order["ol_cnt"] for order in orders} == set(range(5, 16))
    payments = [parts["payment"].arguments(random, scale) for _ in range(20_000)]
    assert 0.13 < sum(one["c_w_id"] != one["w_id"] for one in payments) / len(payments) < 0.17
    assert 0.58 < sum(one["by_name"] for one in payments) / len(payments) < 0.62
    assert {part.name: part.weight for part in application.parts} == {
        "new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4,
    }  # fmt: skip


def test_tpcc_takes_the_customer_in_the_middle_of_his_namesakes() -> None:
    application, real = started("tpcc")
    real.send(
        "UPDATE customer SET c_last = 'X', c_first = 'first ' || c_id WHERE c_w_id = 1 AND c_d_id = 1 AND c_id <= 4"
    )
    payment = next(part for part in application.parts if part.name == "payment")
    base = {
        "w_id": 1,
        "d_id": 1,
        "c_w_id": 1,
        "c_d_id": 1,
        "by_name": 1,
        "c_id": 0,
        "c_last": "X",
        "amount": 100,
        "now": 0,
    }
    real.call(payment, {**base, "h_id": 10_000})
    # Of four the second.
    assert real.send("SELECT h_c_id FROM history WHERE h_id = 10000").rows[0][0] == 2
    real.send("UPDATE customer SET c_last = 'X', c_first = 'first 5' WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 5")
    real.call(payment, {**base, "h_id": 10_001})
    # Of five the third.
    assert real.send("SELECT h_c_id FROM history WHERE h_id = 10001").rows[0][0] == 3


def test_tpcc_notes_payments_of_customers_with_bad_credit() -> None:
    application, real = started("tpcc")
    real.send("UPDATE customer SET c_credit = 'BC', c_data = 'before' WHERE c_w_id = 2 AND c_d_id = 1 AND c_id = 3")
    payment = next(part for part in application.parts if part.name == "payment")
    where = {"w_id": 1, "d_id": 2, "c_w_id": 2, "c_d_id": 1, "by_name": 0, "c_id": 3, "c_last": ""}
    real.call(payment, {**where, "amount": 250, "h_id": 10_000, "now": 0})
    found = real.send("SELECT c_data FROM customer WHERE c_w_id = 2 AND c_d_id = 1 AND c_id = 3").rows[0][0]
    assert found == "3 1 2 2 1 250 before"


def test_numbers_of_tpcc_are_skewed_and_within_bounds() -> None:
    random = Random(1)
    numbers = [nurand(random, 1023, 1, 3000, 259) for _ in range(30_000)]
    assert min(numbers) >= 1
    assert max(numbers) <= 3000
    counts = sorted((numbers.count(number) for number in set(numbers)), reverse=True)
    assert sum(counts[:300]) > 0.25 * len(numbers)
    assert last_name(0) == "BARBARBAR"


def test_enroll_as_printed_breaks_its_invariant_without_any_concurrency() -> None:
    application, real = started("courseware")
    assert enroll_as_printed(real, 1, 77, 1)
    assert list(broken(real, application)) == ["I1-student"]


def test_a_name_that_is_nearly_right_is_told() -> None:
    with pytest.raises(UsageError, match="did you mean 'tpcc'"):
        application_named("tpc-c")
    assert application_named("shopping_cart") is application_named("shopping-cart")


def test_the_table_of_applications_needs_no_parser() -> None:
    code = "import isolde.workloads, isolde.workloads.applications, sys; assert 'sqlglot' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_examples_of_the_page_are_right() -> None:
    assert doctest.testfile(str(PAGE), module_relative=False).failed == 0


@every_application
def test_the_page_has_the_mix_and_the_sizes(name: str) -> None:
    application = application_named(name)
    row = next(line for line in PAGE.read_text("utf-8").splitlines() if line.startswith(f"| `{name}`"))
    _, _, mix, _, sizes, _ = row.split("|")
    assert mix.strip() == ", ".join(f"{part.name} {part.weight}" for part in application.parts)
    assert all(f"{size} {number}" in sizes for size, number in application.scale.items())
