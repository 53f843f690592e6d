"""TiDB behind ``mysql://``: what a server of the 8.5 branch answered, recorded by ``tidb_recording.py`` and played again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from certificates_replayed import Replay, unexplained_reads
from isolde.databases.recoveries.tidb import Heard, Stored, certificate_of, changed_rows, versions_of
from isolde.databases.recovery import Account, Ended, Lookup
from isolde.errors import DatabaseUnavailable
from isolde.formats.certificates import write_certificate
from isolde.history.certificate import Certificate, Installed, ObjectId, RowId, Sees, VersionSet
from running import isolde
from tidb_recording import PLACE, certificate_of_run, replayed


def test_it_names_itself_and_refuses_the_levels_that_it_does_not_have() -> None:
    found = replayed("names-itself")
    assert found["version"].startswith("TiDB v8.")
    assert found["levels"] == [
        [("read-committed", "read-committed"), ("repeatable-read", "prefix")],
        [("read-committed", "read-committed"), ("repeatable-read", "snapshot-isolation")],
    ]
    assert found["refused"].startswith("8048: The isolation level 'SERIALIZABLE' is not supported")
    assert "TiDB has READ COMMITTED and REPEATABLE READ" in found["refused"]


@pytest.fixture(scope="module")
def modes() -> dict[str, Any]:
    return replayed("two-modes")


def verdicts(
    place: Path, first: int, lines: list[dict[str, Any]], told: Certificate, *levels: str
) -> list[tuple[str, list[str]]]:
    header = {"isolde": "history", "version": 1, "initial": [[0, first], [1, 0]]}
    history = place / "history.jsonl"
    history.write_text("\n".join(json.dumps(line) for line in [header, *lines]) + "\n")
    write_certificate(told, str(place / "history.certificate.jsonl"))
    asked = [word for level in levels for word in ("--level", level)]
    _, out, error = isolde("check", *asked, "--json", str(history))
    assert out, error
    results = json.loads(out)["results"]
    return [(result["verdict"], [one["name"] for one in result["anomalies"]]) for result in results]


def line(name: str, *ops: list[Any], status: str = "committed") -> dict[str, Any]:
    return {"id": name, "session": name, "ops": list(ops), "status": status}


def test_the_optimistic_mode_reads_at_the_start_and_conflicts_at_commit(modes: dict[str, Any], tmp_path: Path) -> None:
    told: Certificate = modes["optimistic"]
    assert modes["conflict"] == "9007 serialization-failure"
    assert told.commits == ("skew.1", "skew.2", "lost.1")
    assert told.objects[0] == Installed((None, ("skew.1", 2), ("lost.1", 1)))
    assert told.reads["skew.2", 0] == VersionSet(Sees(0))
    assert told.reads["lost.1", 0] == VersionSet(Sees(2))
    lines = [
        line("skew.1", ["r", 0, 0], ["r", 1, 0], ["w", 0, 10]),
        line("skew.2", ["r", 0, 0], ["r", 1, 0], ["w", 1, 20]),
        line("lost.1", ["r", 0, 10], ["w", 0, 11]),
        line("lost.2", ["r", 0, 10], ["w", 0, 21], status="aborted"),
    ]
    found = verdicts(tmp_path, 0, lines, told, "si", "ser")
    assert found == [("satisfied", []), ("violated", ["write-skew"])]


def test_the_pessimistic_mode_changes_newer_rows_than_it_shows(modes: dict[str, Any], tmp_path: Path) -> None:
    told: Certificate = modes["pessimistic"]
    # The read at start_ts, the swap at for_update_ts.
    assert (told.reads["swap.1", 0], told.reads["swap.1", 1]) == (VersionSet(Sees(0)), VersionSet(Sees(1)))
    lines = [line("swap.1", ["r", 0, 11], ["cas", 0, 30, 40, True]), line("swap.2", ["w", 0, 30])]
    ((verdict, _),) = verdicts(tmp_path, 11, lines, told, "si")
    assert verdict == "violated"


RUNS = [
    ("optimistic-keys", ("si", "satisfied"), ("ser", "violated")),
    ("pessimistic-keys", ("prefix", "satisfied"), ("si", "violated")),
    ("read-committed", ("pl-2", "satisfied"), ("ser", "violated")),
    ("optimistic-predicates", ("si", "satisfied"), ("ser", "violated")),
    ("pessimistic-predicates", ("pl-2", "satisfied"), ("ser", "violated")),
]


@pytest.mark.parametrize(("name", "kept", "broken"), RUNS, ids=[name for name, *_ in RUNS])
def test_recorded_runs_give_what_their_level_really_is(
    name: str, kept: tuple[str, str], broken: tuple[str, str], tmp_path: Path
) -> None:
    history = tmp_path / "history.jsonl"
    shutil.copy(PLACE / f"{name}.jsonl", history)
    write_certificate(certificate_of_run(name), str(tmp_path / "history.certificate.jsonl"))
    _, out, error = isolde("check", "--level", kept[0], "--level", broken[0], "--json", str(history))
    assert out, error
    results = json.loads(out)["results"]
    assert [(one["verdict"], one["oracle"]) for one in results] == [
        (kept[1], "certificate"),
        (broken[1], "certificate"),
    ]
    if name.endswith("keys"):
        reads, wrong = unexplained_reads(history)
        assert (wrong, reads > 100) == ([], True)
    else:
        replay = Replay(history, only_last=True)
        assert (replay.wrong, replay.replayed > 300) == ([], True)


def test_locks_and_what_was_rolled_back_are_no_versions() -> None:
    entries = [
        {"type": 2, "start_ts": 5, "commit_ts": 6},
        {"type": 1, "start_ts": 7, "commit_ts": 8},
        {"type": 3, "start_ts": 9, "commit_ts": 9},
        {"start_ts": 1, "commit_ts": 2, "short_value": "AA=="},
    ]
    told = {"key": "74", "region_id": 4, "value": {"info": {"writes": entries}}}
    assert versions_of(json.dumps(told).encode()) == (Stored(1, 2), Stored(7, 8))
    told["value"]["info"]["lock"] = {"start_ts": 10}  # type: ignore[index]
    assert versions_of(json.dumps(told).encode()) is None
    assert versions_of(b'{"key": "74", "region_id": 4, "value": {"info": {}}}') == ()


def heard(*keys: int, lookup: Lookup | None = None, **fields: Any) -> Heard:
    named = tuple(RowId("t", (1, key)) for key in keys) or None
    return Heard(10, 10, True, named, lookup, **fields)


def test_the_statement_that_made_a_version_is_known_by_the_keys_that_it_names() -> None:
    one, two = (Lookup("", (), "t", None, ((0, 1), (1, key))) for key in (4, 5))
    account = Account("1.0", Ended.COMMITTED, 0, ((0, heard(lookup=one)), (1, heard(lookup=two)), (2, heard(6))))
    stored: dict[ObjectId, list[Stored]] = {RowId("t", (1, key)): [Stored(10, 20)] for key in (4, 5, 6)}
    told = certificate_of("", stored, [account], 5, lambda *_: frozenset())
    assert [told.objects[thing].versions[-1] for thing in stored] == [("1.0", 0), ("1.0", 1), ("1.0", 2)]
    # Where neither keys nor what was found tell, nobody guesses.
    vague = Lookup("SELECT …", (), "t")
    account = Account("1.0", Ended.COMMITTED, 0, ((0, heard(4)), (1, heard(lookup=vague))))
    with pytest.raises(DatabaseUnavailable, match=r"which statement of the transaction 1\.0 wrote"):
        certificate_of("", {RowId("t", (1, 4)): [Stored(10, 20)]}, [account], 5, lambda *_: frozenset())


def test_only_rows_that_somebody_may_have_changed_are_asked_for() -> None:
    rows = [RowId("t", (1, key)) for key in range(5)]
    by_part = Lookup("SELECT …", (), "t", None, ((1, 3),))
    account = Account("1.0", Ended.COMMITTED, 0, ((0, heard(0)), (1, heard(lookup=by_part))))
    assert changed_rows([account], rows) == {rows[0], rows[3]}
    other = Account("1.1", Ended.COMMITTED, 0, ((0, heard(inserts=True)), (1, heard(2, deletes=True))))
    with pytest.raises(DatabaseUnavailable, match="may be gone again"):
        changed_rows([other], rows)


def test_what_a_transaction_brought_and_removed_again_has_no_place() -> None:
    operations = ((0, heard(4, inserts=True)), (1, heard(4, deletes=True)))
    told = certificate_of(
        "", {RowId("t", (1, 4)): []}, [Account("1.0", Ended.COMMITTED, 0, operations)], 5, lambda *_: frozenset()
    )
    assert told.objects[RowId("t", (1, 4))] == Installed((None,), partial=True)


def test_writes_of_others_are_refused() -> None:
    with pytest.raises(DatabaseUnavailable, match="none of this run"):
        certificate_of("", {1: [Stored(9, 10)]}, [], 5, lambda *_: frozenset())
