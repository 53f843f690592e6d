"""What real databases tell of their order: every answer is explained by it, and they are never accused of what they did not promise."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certificates_replayed import Replay, recovered, unexplained_reads
from isolde import Verdict, run
from isolde.databases import Kind, Table, open_database
from isolde.databases.matching import DatabaseMatching
from isolde.databases.servers import Running
from isolde.tx.dialects import Dialect
from isolde.tx.render import rendered
from isolde.tx.sql import statement
from isolde.workloads.predicates import application
from running import ISOLDE, as_user, fresh_signals, isolde, ran

Started = Callable[[str], Running]


def sql(url: str, *statements: str) -> list[Any]:
    """The rows of the last of these statements."""
    _, database = open_database(url)
    connection: Any = database.connect(Table("", Kind.REGISTERS, 0))
    try:
        return [connection.execute(statement).rows for statement in statements][-1] or []
    finally:
        connection.close()
        database.close()


KEYS = [
    ("postgresql", "serializable", "mini", "serializable"),
    ("postgresql", "repeatable-read", "general", "snapshot-isolation"),
    ("postgresql", "read-committed", "mini", "pl-2"),
    ("mariadb", "serializable", "mini", "serializable"),
    ("mariadb", "repeatable-read", "mini", "prefix"),
    ("mariadb", "read-committed", "general", "pl-2"),
    ("etcd", "serializable", "mini", "strict-serializable"),
    ("redis", "watch", "mini", "strict-serializable"),
]


@pytest.mark.parametrize(("kind", "isolation", "workload", "level"), KEYS, ids="-".join)
def test_every_read_of_a_key_is_explained(
    kind: str, isolation: str, workload: str, level: str, server: Started, tmp_path: Path
) -> None:
    count = "300" if kind == "etcd" else "600"
    options = ["--isolation", isolation, "--workload", workload, "--transactions", count, "--keys", "15"]
    found = ran(tmp_path / "run", server(kind).url, "--certify", *options)
    (result,) = found.document["results"]
    assert (result["level"], result["verdict"], result["oracle"]) == (level, "satisfied", "certificate")
    reads, wrong = unexplained_reads(tmp_path / "run" / "history.jsonl")
    assert reads > 300
    assert wrong == []
    history, told = recovered(tmp_path / "run" / "history.jsonl")
    versions = sum(len(installed.versions) - 1 for installed in told.objects.values())
    assert versions > 200
    assert found.run["certificate"]["file"].endswith("history.certificate.jsonl")
    assert len(history.transactions) >= int(count)


OTHERS = [
    ("postgresql", "repeatable-read", ("append",), "snapshot-isolation", "certificate"),
    ("postgresql", "read-committed", ("cas",), "pl-2", "certificate"),
    ("postgresql", "serializable", ("general", "--deletes", "0.3"), "serializable", "certificate"),
    ("etcd", "serializable", ("append",), "strict-serializable", "certificate"),
    ("redis", "watch", ("general", "--deletes", "0.3"), "strict-serializable", "certificate"),
    ("redis", "unwatched", ("mini",), "pl-2", "certificate"),
    ("sqlite", "deferred", ("mini",), "strict-serializable", "serialization-order"),
]


@pytest.mark.parametrize(("kind", "isolation", "workload", "level", "oracle"), OTHERS, ids=str)
def test_lists_deletes_and_swaps_are_certified_too(
    kind: str, isolation: str, workload: tuple[str, ...], level: str, oracle: str, server: Started, tmp_path: Path
) -> None:
    url = "sqlite:" if kind == "sqlite" else server(kind).url
    options = ["--isolation", isolation, "--workload", *workload, "--transactions", "300", "--keys", "10"]
    found = ran(tmp_path / "run", url, "--certify", *options)
    (result,) = found.document["results"]
    assert (result["level"], result["verdict"], result["oracle"]) == (level, "satisfied", oracle)


# What PostgreSQL does with rows that are deleted and inserted again is below, as schedules.
STAYING = ("all", "--mix", "delete=0", "--mix", "delete-where=0")
PREDICATES = [
    ("postgresql", "serializable", ("all",), "serializable"),
    ("postgresql", "repeatable-read", STAYING, "snapshot-isolation"),
    ("postgresql", "read-committed", STAYING, "pl-2"),
    ("mariadb", "serializable", ("all",), "serializable"),
    ("mariadb", "repeatable-read", ("all",), "pl-2"),
]


@pytest.mark.parametrize(("kind", "isolation", "mix", "level"), PREDICATES, ids=str)
def test_every_statement_gives_on_its_version_set_what_the_database_gave(
    kind: str, isolation: str, mix: tuple[str, ...], level: str, server: Started, tmp_path: Path
) -> None:
    options = ["--isolation", isolation, "--mix", *mix, "--transactions", "400", "--keys", "15"]
    found = ran(tmp_path / "run", server(kind).url, "--workload", "predicates", *options)
    (result,) = found.document["results"]
    assert (result["level"], result["verdict"], result["oracle"]) == (level, "satisfied", "certificate")
    replay = Replay(tmp_path / "run" / "history.jsonl")
    assert replay.wrong == []
    assert replay.replayed > 500
    # Rows that waited for another transaction were looked at again.
    assert replay.looked_again > 0 or isolation != "read-committed"


def test_sqlite_replays_predicates_in_the_order_of_its_writers(tmp_path: Path) -> None:
    found = ran(tmp_path / "run", "sqlite:", "--workload", "predicates", "--transactions", "400")
    (result,) = found.document["results"]
    assert (result["verdict"], result["oracle"]) == ("satisfied", "serialization-order")


def test_mariadb_serializable_replays_in_the_order_of_its_log(server: Started, tmp_path: Path) -> None:
    ran(tmp_path / "run", server("mariadb").url, "--workload", "predicates", "--transactions", "400", "--keys", "15")
    told = tmp_path / "run" / "history.certificate.jsonl"
    lines = [line for line in told.read_text().splitlines() if line.startswith(('{"isolde"', '{"serial"'))]
    told.write_text("\n".join(lines) + "\n")
    status, out, error = isolde("check", "--level", "ser", str(tmp_path / "run" / "history.jsonl"), "--json")
    assert status == 0, error
    assert json.loads(out)["results"][0]["oracle"] == "serialization-order"


@pytest.mark.parametrize("isolation", ["read-committed", "repeatable-read"])
def test_anomalies_of_predicates_alone_are_found(isolation: str, server: Started, tmp_path: Path) -> None:
    """Two transactions count, and each inserts what the other would have counted: no row is read and changed by two."""
    mix = ["--mix", "figure-9", "--mix", "count=1", "--mix", "insert=0.2"]
    mix += [part for name in ("read", "update", "increment") for part in ("--mix", f"{name}=0")]
    levels = ["--check", "serializable", "--check", "repeatable-read"]
    options = ["--isolation", isolation, "--transactions", "600", *levels, *mix]
    found = ran(tmp_path / "run", server("postgresql").url, "--workload", "predicates", *options)
    serializable, item_only = found.document["results"]
    assert found.status == 1
    assert (serializable["verdict"], item_only["verdict"]) == ("violated", "satisfied")
    (anomaly,) = serializable["anomalies"]
    assert anomaly["name"] in {"phantom", "g-single", "g2"}
    assert "predicate-rw" in {edge["kind"] for edge in anomaly["cycle"]}


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "sqlite"])
def test_the_database_evaluates_conditions_as_the_core_does(kind: str, server: Started) -> None:
    """All versions of a run's rows, NULLs among them, against many conditions."""
    url = "sqlite:" if kind == "sqlite" else server(kind).url
    adapter, database = open_database(url)
    assert adapter.dialect is not None
    schema = application(keys=50).schema
    chance = random.Random(7)
    rows = [(key, chance.choice([None, *range(-5, 60)]), key) for key in range(500)]
    judge = DatabaseMatching(database, adapter.dialect, schema, f"isolde_{secrets.token_hex(4)}_")
    try:
        judge.load("data", rows)
        for low in range(0, 50, 7):
            for text in ("SELECT MIN(c1) FROM data WHERE", "UPDATE data SET c2 = 1 WHERE", "DELETE FROM data WHERE"):
                node = statement(f"{text} c1 >= :p1 AND c1 <= :p2", Dialect.POSTGRESQL)
                asked, names = rendered(node, adapter.dialect)
                found = judge.matching("data", asked, [{"p1": low, "p2": low + 9}[name] for name in names])
                assert found == {row[0] for row in rows if row[1] is not None and low <= row[1] <= low + 9}
    finally:
        judge.close()
        database.close()


def test_the_verdict_does_not_depend_on_who_evaluates(server: Started, tmp_path: Path) -> None:
    options = ["--isolation", "repeatable-read", "--check", "ser", "--mix", "figure-10-50", "--transactions", "300"]
    url = server("postgresql").url
    found = ran(tmp_path / "run", url, "--workload", "predicates", "--predicates-by", "database", *options)
    status, out, _ = isolde("check", "--level", "ser", str(tmp_path / "run" / "history.jsonl"), "--json")
    assert (status, found.status) == (1, 1)
    assert [one["anomalies"] for one in json.loads(out)["results"]] == [
        one["anomalies"] for one in found.document["results"]
    ]
    assert sql(url, "SELECT count(*) FROM pg_class WHERE relname LIKE 'isolde%versions'") == [(0,)]


@pytest.mark.parametrize(("isolation", "level"), [("serializable", "serializable"), ("read-committed", "pl-2")])
def test_applications_are_certified(isolation: str, level: str, server: Started, tmp_path: Path) -> None:
    options = ["--isolation", isolation, "--scale", "accounts=20", "--scale", "pairs=5", "--transactions", "300"]
    found = ran(tmp_path / "run", server("postgresql").url, "--workload", "bank", "--certify", *options)
    (result,) = found.document["results"]
    assert (result["level"], result["verdict"], result["oracle"]) == (level, "satisfied", "certificate")
    assert found.document["invariants"]
    replay = Replay(tmp_path / "run" / "history.jsonl")
    assert replay.wrong == []


def test_joins_and_subqueries_of_tpcc_are_certified(server: Started, tmp_path: Path) -> None:
    options = ["--isolation", "serializable", "--transactions", "60", "--sessions", "4"]
    found = ran(tmp_path / "run", server("postgresql").url, "--workload", "tpcc", "--certify", *options)
    (result,) = found.document["results"]
    assert (result["verdict"], result["oracle"]) == ("satisfied", "certificate")


SCHEMA, FIRST = ["create table data (c0 int primary key, c1 int)"], {"data": [[1, 10]]}
INSERTED = "insert into data values (1, 11) on conflict (c0) do update set c1 = excluded.c1"


def played(url: str, level: str, steps: list[list[str]], directory: Path) -> list[dict[str, Any]]:
    """What the steps of a schedule gave."""
    sessions = dict.fromkeys((step[0] for step in steps), level)
    file = directory / "schedule.json"
    file.write_text(json.dumps({"schema": SCHEMA, "rows": FIRST, "sessions": sessions, "steps": steps}))
    _, out, error = isolde("run", "--schedule", str(file), url, "-o", str(directory / "played"), "--json")
    assert out, error
    found: list[dict[str, Any]] = json.loads(out)["results"][0]["steps"]
    return found


def test_an_insert_over_a_row_that_was_deleted_meanwhile_is_no_conflict_at_repeatable_read(
    server: Started, tmp_path: Path
) -> None:
    """The snapshot still shows the old row, and then the new one, too: two rows of one primary key, and the delete is lost.

    That is why runs that delete and insert are accused of breaking snapshot isolation, and rightly so.
    """
    steps = [
        ["T1", "begin"],
        ["T1", "select * from data where c0 = 1"],
        ["T2", "begin"],
        ["T2", "delete from data where c0 = 1"],
        ["T2", "commit"],
        ["T1", INSERTED],
        ["T1", "select * from data"],
        ["T1", "commit"],
    ]
    found = played(server("postgresql").url, "repeatable read", steps, tmp_path)
    assert (found[6]["rows"], found[7]["error"]) == ([[1, 10], [1, 11]], None)


def test_an_update_misses_a_row_that_another_transaction_deletes_and_inserts_again_at_read_committed(
    server: Started, tmp_path: Path
) -> None:
    """It saw the row deleted, which nobody installed: an intermediate read."""
    steps = [
        ["T1", "begin"],
        ["T1", "delete from data where c0 = 1"],
        ["T1", "insert into data values (1, 11)"],
        ["T2", "begin"],
        ["T2", "update data set c1 = 12 where c0 = 1"],
        ["T1", "commit"],
        ["T2", "commit"],
    ]
    found = played(server("postgresql").url, "read committed", steps, tmp_path)
    assert (found[4]["count"], found[6]["error"]) == (0, None)


def test_what_the_server_needs_is_asked_for_in_one_line(servers: Any, tmp_path: Path) -> None:
    with servers.private("postgresql") as plain:
        found = ran(tmp_path / "run", plain.url, "--certify")
        assert (found.status, found.error.count("\n")) == (4, 1)
        assert "ALTER SYSTEM SET wal_level = logical" in found.error


def test_who_may_not_replicate_is_told_so(server: Started, tmp_path: Path) -> None:
    url = server("postgresql").url
    sql(url, "CREATE ROLE isolde_plain LOGIN PASSWORD 'x'", "GRANT ALL ON SCHEMA public TO isolde_plain")
    found = ran(tmp_path / "run", as_user(url, "isolde_plain", "x"), "--certify", "--transactions", "10")
    assert found.status == 4
    assert "ALTER ROLE … REPLICATION" in found.error


def test_a_slot_goes_whatever_happens(server: Started, tmp_path: Path) -> None:
    """Also if somebody ends the run, or kills it."""
    url = server("postgresql").url
    for number in (signal.SIGINT, signal.SIGKILL):
        command = [*ISOLDE, "run", url, "--certify", "--time", "60", "-o", str(tmp_path / number.name)]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=fresh_signals
        )
        _await(lambda: sql(url, "SELECT count(*) FROM pg_replication_slots")[0][0] == 1)
        os.kill(process.pid, number)
        process.wait(30)
        _await(lambda: sql(url, "SELECT count(*) FROM pg_replication_slots")[0][0] == 0)


def _await(condition: Callable[[], bool], within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["duckdb:", "--certify"], "duckdb cannot tell the order of its transactions: its ids are those of starts"),
        (
            ["--start", "etcd", "--certify", "--until-violation", "--nemesis", "kill"],
            "choose --nemesis or --until-violation",
        ),
        (["duckdb:", "--workload", "predicates"], "duckdb cannot tell the order"),
        (["sqlite:", "--workload", "predicates", "--mix", "figure-8"], "did you mean 'figure-9'"),
        (["sqlite:", "--workload", "predicates", "--mix", "scan=1"], "write OPERATION=WEIGHT"),
        (["sqlite:", "--certify", "--predicates-by", "database"], "for certified runs of tables"),
    ],
)
def test_what_cannot_be_certified_is_refused(arguments: list[str], reason: str, tmp_path: Path) -> None:
    found = ran(tmp_path / "run", *arguments)
    assert found.status == 2
    assert reason in found.error


def test_the_library_certifies_too(tmp_path: Path) -> None:
    report = run("sqlite:", workload="predicates", mix="figure-10-50", transactions=50, output=tmp_path / "run")
    (finding,) = report.findings
    assert finding.verdict is Verdict.SATISFIED
    certified = run("sqlite:", certify=True, transactions=50, output=tmp_path / "keys")
    assert certified.findings[0].verdict is Verdict.SATISFIED
    assert (tmp_path / "keys" / "history.certificate.jsonl").is_file()


@pytest.mark.parametrize(("kind", "faults"), [("postgresql", "kill"), ("mariadb", "kill,cut"), ("redis", "cut")])
def test_the_order_outlives_the_death_of_its_server(kind: str, faults: str, tmp_path: Path) -> None:
    options = ["--nemesis", faults, "--time", "5", "--keys", "10"]
    found = ran(tmp_path / "run", "--start", kind, "--certify", *options)
    level, durable = found.document["results"][0], found.run
    assert (level["verdict"], level["oracle"]) == ("satisfied", "certificate")
    assert durable["faults"]
    assert found.status == 0


def test_an_order_that_dies_with_its_server_is_not_asked_for(tmp_path: Path) -> None:
    status, _, error = isolde("run", "--start", "redis", "--certify", "--nemesis", "kill", "-o", str(tmp_path / "run"))
    assert status == 2
    assert "goes with --nemesis pause,cut there" in error


@pytest.mark.parametrize("workload", ["mini", "predicates"])
def test_a_certified_run_ends_at_its_first_violation(workload: str, server: Started, tmp_path: Path) -> None:
    options = ["--isolation", "read-committed", "--workload", workload, "--check", "serializable", "--keys", "10"]
    bounds = ["--until-violation", "--transactions", "20000"]
    found = ran(tmp_path / "run", server("postgresql").url, "--certify", *options, *bounds)
    (result,) = found.document["results"]
    assert (result["verdict"], result["oracle"]) == ("violated", "certificate")
    assert found.run["committed"] < 5000
    assert {file.name for file in (tmp_path / "run").iterdir()} == {
        "history.jsonl",
        "history.certificate.jsonl",
        "run.json",
    }
