"""Applications on real databases: weak levels break what must hold, serializable never does."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from isolde.databases import open_database
from isolde.databases.servers import Running
from isolde.engines.record.application import Installation
from isolde.engines.record.application.values import as_json
from isolde.errors import InputError
from isolde.formats import decode, encode, read
from isolde.formats.tables import Unknown, sql_history
from isolde.history import History, Sql, Status, Transaction
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.tx.render import rendered
from isolde.tx.schema import Index
from isolde.tx.sql import statement
from isolde.workloads.applications import application_named
from running import ISOLDE, Ran, fresh_signals, ran
from running import isolde as program

# Few rows, so that transactions meet; enough time for a loaded machine. A run ends with the first broken invariant.
SMALL = {
    "tpcc": ("--scale", "warehouses=1", "--scale", "districts=2", "--scale", "customers=9", "--scale", "items=20"),
    "courseware": ("--scale", "students=8", "--scale", "courses=4", "--scale", "capacity=2"),
}
SECONDS_TO_BREAK = "55"
SECONDS_TO_HOLD = "8"


@dataclass(frozen=True, slots=True)
class Result:
    status: int
    output: str
    errors: str


def isolde(*arguments: str) -> Result:
    return Result(*program(*arguments))


def holds(result: Ran) -> None:
    """Something was done, and all that must hold was looked at and held."""
    assert result.status == 0, result.out + result.error
    assert result.document["quiet_points"] >= 1
    assert result.run["committed"] > 0


@pytest.mark.parametrize("application", list(SMALL))
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_read_committed_breaks_what_must_hold(
    kind: str, application: str, server: Callable[[str], Running], tmp_path: Path
) -> None:
    level = ("--isolation", "read-committed", "--until-violation", "--time", SECONDS_TO_BREAK)
    result = ran(tmp_path / "run", server(kind).url, "--workload", application, *level, *SMALL[application])
    assert result.status == 1, result.out + result.error
    broken = [invariant for invariant in result.document["invariants"] if invariant["broken"]]
    assert broken
    assert all(entry["rows"] for invariant in broken for entry in invariant["broken"])


@pytest.mark.parametrize("application", list(SMALL))
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_serializable_keeps_what_must_hold(
    kind: str, application: str, server: Callable[[str], Running], tmp_path: Path
) -> None:
    level = ("--isolation", "serializable", "--time", SECONDS_TO_HOLD)
    holds(ran(tmp_path / "run", server(kind).url, "--workload", application, *level, *SMALL[application]))


@pytest.mark.parametrize(
    ("application", "sizes"), [*SMALL.items(), ("bank", ("--scale", "accounts=10", "--scale", "pairs=3"))]
)
def test_locks_keep_at_read_committed_what_breaks_without_them(
    application: str, sizes: tuple[str, ...], server: Callable[[str], Running], tmp_path: Path
) -> None:
    level = ("--isolation", "read-committed", "--time", "5")
    holds(ran(tmp_path / "run", server("postgresql").url, "--workload", f"{application}-locking", *level, *sizes))


def test_every_statement_is_recorded_with_its_rows(tmp_path: Path) -> None:
    result = isolde(
        "run", "--workload", "bank", "--transactions", "60", "--scale", "accounts=20", "-o", str(tmp_path / "run")
    )
    assert result.status == 0, result.errors
    assert "6 of 6 held" in result.output
    history = decode(read(str(tmp_path / "run" / "history.jsonl")))
    committed = [t for t in history.transactions if t.status is Status.COMMITTED]
    operations = [op for transaction in committed for op in transaction.ops]
    assert operations
    assert all(isinstance(op, Sql) for op in operations)
    contents = [op.content for op in operations if isinstance(op, Sql)]
    queries = [content for content in contents if content["sql"].startswith("SELECT")]
    changes = [content for content in contents if content["sql"].startswith("UPDATE")]
    assert all(isinstance(content["rows"], list) for content in queries)
    assert all(content["rows"] is None and content["count"] >= 0 for content in changes)
    assert all(content["start"] <= content["end"] for content in contents if "start" in content)
    # The private names of the tables stay in the database.
    assert not any("isolde_" in content["sql"] for content in contents)


def test_first_rows_are_loaded_many_at_once_also_where_tables_take_turns() -> None:
    application = application_named("smallbank")
    scale = {**application.scale, "customers": 250, "hot": 10}
    _, database = open_database("sqlite:")
    with closing(database):
        installation = Installation(database, Dialect.SQLITE, application, scale, "isolde_test_")
        inserts = list(installation._inserts(installation._rows(0)))
    # At most a hundred rows a statement; row by row, a thousand of them took a minute at the usual size.
    assert sum(len(insert.source) for insert in inserts if isinstance(insert.source, tuple)) >= 750
    assert len(inserts) <= 25


def test_the_sizes_of_a_source_have_a_name(tmp_path: Path) -> None:
    directory = str(tmp_path / "run")
    sizes = ("--scale", "items=2", "--scale", "troubadour")
    result = isolde("run", "--workload", "tpcc", *sizes, "--transactions", "20", "--json", "-o", directory)
    assert result.status == 0, result.errors
    scale = {"warehouses": 1, "districts": 2, "customers": 3, "items": 2}
    assert json.loads(result.output)["run"]["scale"] == scale


def test_the_mix_is_adjustable_and_recorded(tmp_path: Path) -> None:
    weights = {"balance": 0, "deposit": 1, "withdraw": 0, "transfer": 2.5, "withdraw_overdraft": 0}
    mix = [word for name, weight in weights.items() for word in ("--mix", f"{name}={weight}")]
    directory = str(tmp_path / "run")
    result = isolde("run", "--workload", "bank", "--transactions", "80", *mix, "--json", "-o", directory)
    assert result.status == 0, result.errors
    assert json.loads(result.output)["run"]["mix"] == weights
    history = decode(read(directory))
    assert history.meta["mix"] == weights
    ran = Counter(transaction.extra.get("name") for transaction in history.transactions)
    assert set(ran) <= {"deposit", "transfer"}
    assert ran["transfer"] > ran["deposit"] > 0


def test_a_statement_that_failed_is_recorded_with_its_error(server: Callable[[str], Running], tmp_path: Path) -> None:
    directory = tmp_path / "run"
    arguments = ("--workload", "tpcc", *SMALL["tpcc"], "--transactions", "300", "-o", str(directory))
    isolde("run", server("postgresql").url, *arguments, "--isolation", "si", "--level", "payment=rc")
    history = decode(read(str(directory)))
    failed = [
        (transaction.status, operation.content)
        for transaction in history.transactions
        for operation in transaction.ops
        if isinstance(operation, Sql) and "error" in operation.content
    ]
    assert failed
    assert all(status is Status.ABORTED for status, _ in failed)
    assert any(
        content["error"] == "serialization-failure" and "could not serialize access" in content["message"]
        for _, content in failed
    )
    about = sql_history(history)
    assert (about.dialect, about.counts) == (Dialect.POSTGRESQL, "found")
    assert about.store.startswith("postgresql 1")
    levels = {transaction.extra["name"]: transaction.level for transaction in about.transactions}
    assert levels["payment"] == "READ COMMITTED"
    assert levels["new_order"] == "REPEATABLE READ"


@pytest.mark.parametrize("application", ["bank", "courseware", "tpcc", "twitter", "shopping-cart"])
def test_a_history_is_replayed_from_its_file_alone(application: str, tmp_path: Path) -> None:
    """SQLite runs writers one at a time: in the order of their ends, the store answers every statement as SQLite did."""
    directory = tmp_path / "run"
    isolde("run", "--workload", application, *SMALL.get(application, ()), "--transactions", "60", "-o", str(directory))
    about = sql_history(decode(read(str(directory / "history.jsonl"))))
    assert (about.dialect, about.counts, about.settings) == (Dialect.SQLITE, "found", {})
    assert about.store.startswith("sqlite 3.")
    store = Store(about.schema, about.dialect)
    for table in about.schema.tables:
        store.load(table, about.known_rows(table))
    answered = 0
    for transaction in sorted(about.transactions, key=lambda one: one.end or 0):
        assert transaction.level == "BEGIN IMMEDIATE"
        if transaction.status is not Status.COMMITTED:
            continue
        running = store.transaction()
        for operation in transaction.ops:
            assert isinstance(operation, Sql)
            content = operation.content
            parsed = statement(content["sql"], Dialect.SQLITE)
            given = dict(zip(rendered(parsed, Dialect.SQLITE)[1], content["params"], strict=True))
            result = running.run(parsed, given)
            if content["rows"] is not None:
                assert json.loads(as_json(result.rows)) == json.loads(as_json(content["rows"])), content["sql"]
                answered += 1
        running.commit()
    assert answered > 20


def test_an_earlier_recording_is_still_read() -> None:
    """Its dialect and tables stand under meta, its rows in the inserts of a session of their own."""
    meta = {"dialect": "sqlite", "schema": ["CREATE TABLE t (id INT PRIMARY KEY, v INT)"], "workload": "own"}
    load = Transaction(
        0, "load", (Sql({"sql": "INSERT INTO t VALUES (1, -5), (2, NULL)", "params": [], "rows": None}),)
    )
    other = Transaction(1, 0, (Sql({"sql": "SELECT v FROM t", "params": [], "rows": [[-5], [None]]}),))
    about = sql_history(History((load, other), meta=meta))
    assert about.rows == {"t": ((1, -5), (2, None))}
    assert about.transactions == (other,)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({}, '"dialect" of the header is missing; expected one of postgresql, mysql, sqlite'),
        ({"dialect": "oracle"}, "is 'oracle'"),
        ({"dialect": "sqlite"}, '"schema" of the header is missing'),
        ({"dialect": "sqlite", "schema": [7]}, '"schema" of the header'),
        ({"dialect": "sqlite", "schema": ["CREATE TABLE t (i INT)"], "rows": {"u": []}}, "the table 'u'"),
        ({"dialect": "sqlite", "schema": ["CREATE TABLE t (i INT)"], "rows": {"t": [[1, 2]]}}, "rows of 1 values"),
        ({"dialect": "sqlite", "schema": ["CREATE TABLE t (i INT)"], "rows": {"t": [[[1]]]}}, "which is no integer"),
        ({"dialect": "sqlite", "schema": ["CREATE TABLE t (i TIMESTAMP)"], "rows": {"t": [["soon"]]}}, "no timestamp"),
        ({"dialect": "sqlite", "schema": [], "counts": "lost"}, '"counts" of the header'),
        ({"dialect": "sqlite", "schema": [], "settings": {"a": 1}}, '"settings" of the header'),
    ],
)
def test_a_header_that_says_too_little_is_refused_by_its_field(header: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as refused:
        sql_history(History((), extra=header), "h.jsonl")
    assert words in str(refused.value)
    assert str(refused.value).startswith("h.jsonl")


def test_calls_of_procedures_are_read_and_written() -> None:
    history = History((Transaction(0, 0, (Sql({"call": "p", "params": [1], "rows": None}),)),))
    assert decode(encode(history)) == history


def test_unknown_cells_and_procedures_are_read() -> None:
    header = {
        "dialect": "postgresql",
        "schema": ["CREATE TABLE t (d DECIMAL(5,2), f FLOAT, b BOOLEAN, m TIMESTAMP)", "CREATE INDEX t_d ON t (d)"],
        "rows": {"t": [[1, 2, True, "2024-01-02 03:04:05"], [{"unknown": "b1"}, None, None, None]]},
        "procedures": ["CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN END $$"],
    }
    about = sql_history(History((), extra=header))
    first, second = about.rows["t"]
    assert first == (Decimal(1), 2.0, True, datetime(2024, 1, 2, 3, 4, 5))
    assert second[0] == Unknown("b1")
    with pytest.raises(InputError, match="unknown values"):
        about.known_rows("t")
    assert about.schema.tables["t"].indexes == (Index(("d",), "t_d"),)
    assert len(about.procedures) == 1


SEATS = """
from isolde.workloads.application import Application, Part
from isolde.tx.python import transaction

@transaction
def take(tx, n: int):
    tx.execute("UPDATE seats SET taken = 1 WHERE row_name = ?", n)

APPLICATION = Application(
    "seats", "seats", "here",
    "CREATE TABLE seats (id INT PRIMARY KEY, row_name INT, taken INT); CREATE INDEX by_row ON seats (row_name, taken)",
    (Part(take, 1, lambda chance, scale: {"n": chance.randint(1, 3)}),),
    lambda chance, scale: [("seats", (n, n % 3, 0)) for n in range(9)],
    {"seats": 9},
)
"""


def test_plain_indexes_reach_the_database(tmp_path: Path) -> None:
    (tmp_path / "seats.py").write_text(SEATS)
    database = tmp_path / "app.db"
    result = isolde(
        *("run", f"sqlite:{database}", "--workload", str(tmp_path / "seats.py"), "--transactions", "10", "--keep"),
        *("-o", str(tmp_path / "run")),
    )
    assert result.status == 3, result.errors
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall()
    (text,) = [row[0] for row in rows]
    assert re.fullmatch(r"CREATE INDEX isolde_\w+_seats_0 ON isolde_\w+_seats \(row_name, taken\)", text)
    about = sql_history(decode(read(str(tmp_path / "run"))))
    assert about.schema.tables["seats"].indexes == (Index(("row_name", "taken"), "by_row"),)


@pytest.mark.parametrize("seconds", [0.0, 0.4])
def test_ctrl_c_while_the_rows_are_made_leaves_no_table(tmp_path: Path, seconds: float) -> None:
    database = tmp_path / "app.db"
    process = subprocess.Popen(
        [*ISOLDE, "run", f"sqlite:{database}", "--workload", "smallbank", "-o", "run"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=fresh_signals,
    )
    while not (database.exists() and database.stat().st_size) and process.poll() is None:
        time.sleep(0.01)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.strip().splitlines()[-1].startswith("isolde: interrupted")
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []


def test_levels_are_set_by_kind_of_transaction(tmp_path: Path) -> None:
    common = ("--workload", "courseware", "--transactions", "50", *SMALL["courseware"])
    result = ran(tmp_path / "one", *common, "--isolation", "deferred", "--level", "enroll=immediate")
    levels = result.run["levels"]
    assert levels["enroll"] == "BEGIN IMMEDIATE"
    assert set(levels.values()) == {"BEGIN IMMEDIATE", "BEGIN DEFERRED"}
    wrong = ran(tmp_path / "two", *common, "--level", "enrol=immediate")
    assert wrong.status == 2
    assert "--level enrol=immediate: write TRANSACTION=LEVEL, where TRANSACTION is one of" in wrong.error


def own_application(tmp_path: Path) -> Path:
    """The example of the page."""
    page = Path(__file__).parent.parent / "docs" / "applications.md"
    (example,) = re.findall(r"```python\n(# seats.py.*?)```", page.read_text(), re.DOTALL)
    file = tmp_path / "seats.py"
    file.write_text(example)
    return file


def test_an_application_of_ones_own_is_a_file(server: Callable[[str], Running], tmp_path: Path) -> None:
    file = str(own_application(tmp_path))
    weak = isolde(
        *("run", server("postgresql").url, "--workload", file, "--isolation", "si", "--until-violation"),
        *("--time", SECONDS_TO_BREAK, "-o", str(tmp_path / "weak")),
    )
    assert weak.status == 1, weak.output + weak.errors
    assert "BROKEN one-guest" in weak.output
    strong = isolde("run", "--workload", file, "--transactions", "200", "-o", str(tmp_path / "strong"))
    assert strong.status == 0, strong.output + strong.errors


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it defines no APPLICATION"),
        ("def f(:", "own.py:1: "),
        ("x = 1\ny = x / 0\n", "own.py:2: ZeroDivisionError: division by zero"),
        (
            "from isolde.workloads.application import *\nAPPLICATION = Application('a', '', '', 'CREATE VIEW v', (), list, {})",
            "own.py: ",
        ),
    ],
)
def test_a_wrong_file_is_told_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "own.py"
    file.write_text(text)
    result = isolde("run", "--workload", str(file), "-o", str(tmp_path / "run"))
    assert result.status == 2, result.output + result.errors
    assert words in result.errors
    assert len(result.errors.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--workload", "tpccc"), "no workload 'tpccc'"),
        (("--workload", "bank", "--scale", "moons=3"), "--scale moons=3 is no size of bank; it has accounts="),
        (("--workload", "bank", "--check", "ser"), "judged by its invariants"),
        (("--workload", "bank", "--keys", "7"), "--keys is for workloads of keys; bank has tables, and --scale"),
        (("--workload", "none.py"), "none.py: there is no such file"),
        (("--workload", "mini", "--scale", "accounts=3"), "--scale, --mix and --level are for applications"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    result = isolde("run", *arguments)
    assert result.status == 2
    assert words in result.errors
    assert len(result.errors.strip().splitlines()) == 1


def test_a_store_without_sql_cannot_run_them(server: Callable[[str], Running]) -> None:
    result = isolde("run", server("redis").url, "--workload", "bank")
    assert result.status == 2
    assert "redis speaks no SQL" in result.errors
