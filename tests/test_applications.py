"""The applications: they compile, start right, stay right when run one after the other, and mean the same everywhere.

The same functions run as plain Python on SQLite, PostgreSQL and MariaDB, and as compiled procedures on the store: each
transaction must end in the same way, and all must leave the same rows.
"""

from __future__ import annotations

import doctest
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from applications_on_databases import SMALL, VARIANTS, Real, broken, contents, drawn, plain, populate, sqlite, started
from isolde.databases.servers import Running
from isolde.errors import ExecutionError, UsageError
from isolde.semantics.concrete import Ending, Store
from isolde.tx.dialects import Dialect
from isolde.workloads.application import Application, Part
from isolde.workloads.applications import APPLICATIONS, application_named
from isolde.workloads.applications.courseware import enroll_as_printed

PAGE = Path(__file__).resolve().parent.parent / "docs" / "applications.md"

every_application = pytest.mark.parametrize("name", list(APPLICATIONS))


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


@pytest.mark.parametrize("name", [name for name in APPLICATIONS if name not in VARIANTS])
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


@pytest.mark.parametrize("name", [name for name in APPLICATIONS if not name.startswith("tpcc-")])
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
    ("bank", "partners-are-mutual"): "UPDATE accounts SET partner = 3 WHERE acc_id = 1",
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
    ("rubis", "every-bid-has-an-item"): "INSERT INTO bids VALUES (1, 1, 0, 5, 0)",
    ("rubis", "every-sale-has-an-item"): "INSERT INTO buy_now VALUES (1, 1, 0, 1)",
    ("rubis", "every-comment-has-a-rating"): "INSERT INTO comments VALUES (-1, 1, 0, 1, 0, 0, '')",
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
    named = [application_named(name) for name in APPLICATIONS if name not in VARIANTS]
    assert [(application.name, one.name) for application in named for one in application.invariants] == list(BREAKING)


@pytest.mark.parametrize(("name", "invariant"), list(BREAKING))
def test_an_invariant_can_be_broken(name: str, invariant: str) -> None:
    application, real = started(name)
    real.send(BREAKING[name, invariant])
    assert invariant in broken(real, application)


def test_enroll_as_printed_breaks_its_invariant_without_any_concurrency() -> None:
    application, real = started("courseware")
    assert enroll_as_printed(real, 77, 1, 1)
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
