"""What must be true of real databases: which promises they keep, and which of them are caught."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import pytest

from isolde.databases import offer_named, open_database
from isolde.databases.conformance import Subject
from isolde.databases.servers import Running
from isolde.databases.stepper import End, Stepper
from isolde.engines.check import check
from isolde.formats import encode
from isolde.history import History, Key, Read, Status, Transaction, Value, Write
from isolde.levels import Level
from running import ran

Started = Callable[[str], Running]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


KEPT = [
    ("postgresql", "", "serializable", "ser", "mini"),
    ("postgresql", "", "repeatable-read", "si", "mini"),
    ("postgresql", "", "read-committed", "rc", "mini"),
    ("postgresql", "", "serializable", "ser", "append"),
    ("mariadb", "", "serializable", "ser", "mini"),
    ("mariadb", "", "repeatable-read", "prefix", "mini"),
    ("mariadb", "?innodb_snapshot_isolation=ON", "repeatable-read", "si", "mini"),
    ("mariadb", "", "read-committed", "rc", "mini"),
    ("etcd", "", "serializable", "strict-ser", "mini"),
    ("etcd", "", "single", "linearizable", "cas"),
    ("redis", "", "watch", "strict-ser", "mini"),
    ("redis", "", "single", "linearizable", "cas"),
    ("valkey", "", "watch", "strict-ser", "append"),
]
_COUNTS = {"etcd": "500"}


@pytest.mark.parametrize(("kind", "options", "isolation", "level", "workload"), KEPT, ids=lambda text: text or "-")
def test_a_promise_is_kept(
    kind: str, options: str, isolation: str, level: str, workload: str, server: Started, out: Path
) -> None:
    count = _COUNTS.get(kind, "1500")
    result = ran(
        out,
        server(kind).url + options,
        *("--isolation", isolation, "--check", level, "--workload", workload, "--transactions", count),
    )
    assert (result.status, result.verdicts) == (0, ["satisfied"]), result.error
    assert result.run["committed"] > int(count) * 0.9
    assert result.run["unknown"] == 0


@pytest.mark.parametrize("isolation", ["deferred", "immediate"])
def test_sqlite_is_strict_serializable(isolation: str, out: Path) -> None:
    result = ran(out, "sqlite:", "--isolation", isolation, "--check", "strict-ser", "--keys", "10")
    assert (result.status, result.verdicts) == (0, ["satisfied"])


def test_duckdb_satisfies_snapshot_isolation_on_reads_and_updates(out: Path) -> None:
    result = ran(out, "duckdb:", "--check", "si", "--transactions", "250", "--keys", "10", "--sessions", "5")
    assert (result.status, result.verdicts) == (0, ["satisfied"])


CAUGHT = [
    ("postgresql", "read-committed", "si"),
    ("postgresql", "repeatable-read", "ser"),
    ("mariadb", "repeatable-read", "si"),
    ("mariadb", "repeatable-read", "ser"),
    ("redis", "unwatched", "si"),
]


@pytest.mark.parametrize(("kind", "isolation", "level"), CAUGHT)
def test_a_stronger_level_than_promised_is_caught_before_long(
    kind: str, isolation: str, level: str, server: Started, out: Path
) -> None:
    url = server(kind).url
    result = ran(out, url, "--isolation", isolation, "--check", level, "--until-violation", "--transactions", "40000")
    assert (result.status, result.verdicts) == (1, ["violated"]), result.error
    # A few thousand as a rule; how soon sessions meet is up to the machine. Windows end with reads of every key, a few more.
    assert result.run["committed"] <= 41_000
    assert [anomaly["name"] for anomaly in result.document["results"][0]["anomalies"]]


@pytest.mark.parametrize(("kind", "isolation"), [("postgresql", "read-committed"), ("mariadb", "repeatable-read")])
def test_updates_are_lost_without_snapshot_isolation(kind: str, isolation: str, server: Started, out: Path) -> None:
    result = ran(out, server(kind).url, "--isolation", isolation, "--check", "si", "--keys", "20")
    assert result.status == 1
    assert "lost-update" in _anomalies(next(_lost_updates(result.history)), Level.SNAPSHOT_ISOLATION)


def test_no_update_is_lost_with_the_switch_of_mariadb(server: Started, out: Path) -> None:
    url = server("mariadb").url + "?innodb_snapshot_isolation=ON"
    result = ran(out, url, "--isolation", "repeatable-read", "--keys", "20")
    assert (result.status, result.verdicts) == (0, ["satisfied"])
    assert result.run["claims"] == "snapshot-isolation"
    assert list(_lost_updates(result.history)) == []


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "duckdb"])
def test_snapshots_allow_write_skew(kind: str, server: Started, out: Path) -> None:
    url = "duckdb:" if kind == "duckdb" else server(kind).url
    if kind == "mariadb":
        url += "?innodb_snapshot_isolation=ON"
    # DuckDB takes milliseconds for what takes others microseconds.
    level = ("--transactions", "300") if kind == "duckdb" else ("--isolation", "repeatable-read")
    # Until two have met: shapes that can skew are a part of all, and few of them overlap.
    for seed in range(5):
        result = ran(out / str(seed), url, *level, "--check", "ser", "--keys", "6", "--seed", str(seed))
        found = next(_skews(result.history), None)
        if found is not None:
            break
    assert found is not None, "no write skew in five runs"
    assert result.status == 1
    assert "write-skew" in _anomalies(found, Level.SERIALIZABLE)


@pytest.mark.parametrize(
    ("kind", "options", "isolation", "level"),
    [
        ("postgresql", "", "serializable", "ser"),
        ("postgresql", "", "repeatable-read", "si"),
        ("mariadb", "", "serializable", "ser"),
        ("mariadb", "?innodb_snapshot_isolation=ON", "repeatable-read", "si"),
        ("etcd", "", "serializable", "strict-ser"),
        ("redis", "", "watch", "strict-ser"),
    ],
    ids=lambda text: text or "-",
)
def test_deletes_and_reinserts_keep_the_promise(
    kind: str, options: str, isolation: str, level: str, server: Started, out: Path
) -> None:
    result = ran(
        out,
        server(kind).url + options,
        *("--isolation", isolation, "--check", level, "--deletes", "0.2", "--keys", "100", "--transactions", "500"),
    )
    assert result.verdicts == ["satisfied"], result.out
    writes = [op for t in result.history.transactions for op in t.ops if isinstance(op, Write)]
    assert any(write.value is None for write in writes)


def test_duckdb_loses_an_update_to_a_concurrent_delete() -> None:
    """The update is told that it found its row, and committed after the delete; the row is gone."""
    subject = Subject(*open_database("duckdb:"))
    database = subject.database
    with subject.table() as table:
        stepper = Stepper(lambda: database.connect(table), subject.strongest)
        stepper.do("A", lambda c: c.read(0))
        stepper.do("B", lambda c: c.read(0))
        stepper.do("A", lambda c: c.delete(0))
        stepper.do("B", lambda c: c.write(0, 5))
        stepper.commit("A")
        stepper.commit("B")
        ends = [stepper.sessions[name].end for name in "AB"]
        stepper.close()
        with subject.connection(table) as connection:
            left = subject.read(connection, 0)
    database.close()
    assert (ends, left) == ([End.COMMITTED, End.COMMITTED], [None])


def test_postgresql_finds_no_conflict_with_a_key_that_was_inserted_and_deleted_meanwhile(server: Started) -> None:
    """By keys that is no snapshot isolation: A inserts what B and C wrote after A's snapshot, and does not hear of it."""
    subject = Subject(*open_database(server("postgresql").url))
    offer = offer_named(subject.database, "repeatable-read")
    with subject.table() as table:
        stepper = Stepper(lambda: subject.database.connect(table), offer)
        stepper.do("D", lambda c: c.delete(0))
        stepper.commit("D")
        seen = [stepper.do("A", lambda c, key=key: c.read(key)).result for key in (0, 1)]  # type: ignore[misc]
        stepper.do("B", lambda c: c.insert(0, 7))
        stepper.do("B", lambda c: c.write(1, 70))
        stepper.commit("B")
        stepper.do("C", lambda c: c.delete(0))
        stepper.commit("C")
        stepper.do("A", lambda c: c.insert(0, 9))
        stepper.commit("A")
        ends = {stepper.sessions[name].end for name in "ABC"}
        stepper.close()
    assert (seen, ends) == ([b"null", b"0"], {End.COMMITTED})
    a, b, c = (
        Transaction(0, "a", (Read(0, None), Read(1, 0), Write(0, 9))),
        Transaction(1, "b", (Read(0, None), Write(0, 7), Write(1, 70))),
        Transaction(2, "c", (Read(0, 7), Write(0, None))),
    )
    history = History((a, b, c), initial={0: None, 1: 0})
    assert _anomalies(history, Level.SNAPSHOT_ISOLATION)
    assert not _anomalies(history, Level.PREFIX)


def test_galera_loses_updates_at_repeatable_read_and_gives_no_more_than_snapshots_at_serializable(
    server: Started, out: Path
) -> None:
    """Two clients of one node lose updates as on any MariaDB; two of different nodes are certified by their writes only."""
    url = server("galera").url
    common = ("--check", "si", "--keys", "10", "--transactions", "1000")
    lost = ran(out / "lost", url, "--isolation", "repeatable-read", *common)
    assert (lost.status, lost.verdicts) == (1, ["violated"])
    assert "lost-update" in _anomalies(next(_lost_updates(lost.history)), Level.SNAPSHOT_ISOLATION)
    kept = ran(out / "kept", url, "--isolation", "serializable", *common)
    assert (kept.status, kept.verdicts) == (0, ["satisfied"])
    assert kept.run["claims"] == "snapshot-isolation"


def _anomalies(history: History, level: Level) -> list[str]:
    return [anomaly.name for finding in check(encode(history), [level]).findings for anomaly in finding.anomalies]


def _lost_updates(history: History) -> Iterator[History]:
    """Two committed transactions that read the same version of a key and replaced it, with its writer: their part of it."""
    readers: dict[tuple[Key, Value], list[Transaction]] = {}
    for transaction in _committed(history):
        reads = _first_reads(transaction)
        for key in _written(transaction) & reads.keys():
            readers.setdefault((key, reads[key]), []).append(transaction)
    for (key, value), found in readers.items():
        if len(found) > 1 and value is not None:
            yield _part({key: value}, found[:2])


def _skews(history: History) -> Iterator[History]:
    """Two committed transactions that read the same versions of two keys, and replaced one each."""
    readers: dict[tuple[tuple[Key, Value], ...], list[Transaction]] = {}
    for transaction in _committed(history):
        reads = _first_reads(transaction)
        if len(reads) == 2 and None not in reads.values() and len(_written(transaction)) == 1:
            readers.setdefault(tuple(sorted(reads.items())), []).append(transaction)
    for versions, found in readers.items():
        for one, two in combinations(found, 2):
            if _written(one) != _written(two) and _written(one) | _written(two) == dict(versions).keys():
                yield _part(dict(versions), [one, two])


def _part(versions: dict[Key, Value], chosen: list[Transaction]) -> History:
    """What the chosen did to these keys, which held these versions at first."""
    kept = [
        Transaction(
            id=transaction.id,
            session=place,
            ops=tuple(op for op in transaction.ops if isinstance(op, Read | Write) and op.key in versions),
        )
        for place, transaction in enumerate(chosen)
    ]
    return History(tuple(kept), initial=versions)


def _committed(history: History) -> Iterator[Transaction]:
    return (transaction for transaction in history.transactions if transaction.status is Status.COMMITTED)


def _first_reads(transaction: Transaction) -> dict[Key, Value]:
    reads: dict[Key, Value] = {}
    for op in transaction.ops:
        if isinstance(op, Read):
            reads.setdefault(op.key, op.value)
    return reads


def _written(transaction: Transaction) -> set[Key]:
    return {op.key for op in transaction.ops if isinstance(op, Write)}
