"""Evidence from outside: the sentences, names and numbers that a person gets to see, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from isolde.cli.main import cli
from isolde.engines.check import Evidence, check, witness
from isolde.errors import InputError, MistakeError, UsageError
from isolde.findings import Anomaly, Finding, Verdict
from isolde.formats import encode
from isolde.history import History, parse
from isolde.levels import Level
from isolde.report import document

TWO = parse("s1: [w(x,1)] | s2: [w(y,1)]")
THREE = parse("s1: [w(x,1)] | s2: [w(y,1)] | s3: [w(z,1)]")


def finding(history: History, level: Level, *edges: tuple[int, int, str, str]) -> Finding:
    return check(encode(history), [level], evidence=Evidence.of_edges(edges)).findings[0]  # type: ignore[arg-type]


def only(found: Finding) -> Anomaly:
    assert found.verdict is Verdict.VIOLATED
    (anomaly,) = found.anomalies
    return anomaly


COUNTED = "T0 counted the rows with a > 3; T1 then inserted one."
PHANTOM = (0, 1, "predicate-rw", COUNTED), (1, 0, "predicate-rw", "T1 counted too; T0 then deleted one.")


def test_the_reason_of_an_edge_is_what_a_person_reads() -> None:
    anomaly = only(finding(TWO, Level.SERIALIZABLE, *PHANTOM))
    assert anomaly.name == "phantom"
    assert anomaly.adya == "g2"
    assert [link.sentence for link in anomaly.cycle if link.source == 0] == [COUNTED]
    assert {link.basis for link in anomaly.cycle} == {"outside"}


@pytest.mark.parametrize("level", Level)
def test_a_phantom_is_forbidden_from_serializable_up(level: Level) -> None:
    expected = {
        Level.SERIALIZABLE: Verdict.VIOLATED,
        Level.STRICT_SERIALIZABLE: Verdict.VIOLATED,
        # The history has no times.
        Level.STRICT_SNAPSHOT_ISOLATION: Verdict.UNDECIDED,
        Level.LINEARIZABLE: Verdict.UNDECIDED,
    }
    assert finding(TWO, level, *PHANTOM).verdict is expected.get(level, Verdict.SATISFIED)


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        (("predicate-rw", "wr"), "g-single"),
        (("rw", "predicate-wr"), "g-single"),
        (("predicate-rw", "rw"), "g2"),
        (("predicate-rw", "predicate-rw"), "phantom"),
        (("predicate-wr", "ww"), "g1c"),
        (("ww", "ww"), "g0"),
    ],
)
def test_a_cycle_is_named_by_the_kinds_of_its_edges(kinds: tuple[str, str], name: str) -> None:
    anomaly = only(finding(TWO, Level.SERIALIZABLE, (0, 1, kinds[0], "one"), (1, 0, kinds[1], "two")))
    assert anomaly.name == name


def test_the_document_has_the_kinds_and_counts_what_was_told() -> None:
    evidence = Evidence.of_edges(PHANTOM)  # type: ignore[arg-type]
    (result,) = document(check(encode(TWO), [Level.SERIALIZABLE], evidence=evidence))["results"]
    assert [edge["kind"] for edge in result["anomalies"][0]["cycle"]] == ["predicate-rw", "predicate-rw"]
    assert result["evidence"]["outside"] == {"predicate-rw": 2}


def test_a_told_order_that_comes_back_is_a_cycle_of_overwrites() -> None:
    history = parse("s1: [w(x,1) w(x,2)] | s2: [w(x,3)]")
    told = Evidence(versions=[[(0, 0), (1, 0), (0, 1)]])
    anomaly = only(check(encode(history), [Level.READ_UNCOMMITTED], evidence=told).findings[0])
    assert anomaly.name == "g0"


def test_a_told_order_finds_the_readers_that_missed_something() -> None:
    history = parse("initial: x=0 | s1: [w(x,1)] | s2: [w(x,2) w(y,1)] | s3: [r(x,1) r(y,1)]")
    assert check(encode(history), [Level.SERIALIZABLE]).findings[0].verdict is Verdict.SATISFIED
    told = Evidence(versions=[[None, (0, 0), (1, 0)]])
    assert only(check(encode(history), [Level.SERIALIZABLE], evidence=told).findings[0]).name == "fractured-read"


def test_a_witness_carries_the_evidence_about_its_transactions() -> None:
    edges = [(1, 2, "predicate-rw", "one"), (2, 1, "rw", "two"), (0, 1, "so", "three")]
    evidence = Evidence.of_edges(edges)  # type: ignore[arg-type]
    anomaly = only(check(encode(THREE), [Level.SERIALIZABLE], evidence=evidence).findings[0])
    part = witness(encode(THREE), Level.SERIALIZABLE, anomaly, evidence=evidence)
    assert [t.id for t in part.history.transactions] == [1, 2]
    assert (part.evidence.sources, part.evidence.targets) == ((0, 1), (1, 0))
    assert part.evidence.reasons == ("one", "two")


def test_sql_is_decided_where_the_edges_hold_all_that_it_says(tmp_path: Path) -> None:
    from isolde.formats import read

    path = tmp_path / "h.jsonl"
    path.write_text('{"session":1,"ops":[{"sql":"select 1"}]}\n{"session":2,"ops":[{"sql":"select 2"}]}\n')
    columns = read(str(path))
    assert check(columns, [Level.SERIALIZABLE]).findings[0].verdict is Verdict.UNDECIDED
    told = replace(Evidence.of_edges(PHANTOM), complete=True)  # type: ignore[arg-type]
    assert only(check(columns, [Level.SERIALIZABLE], evidence=told).findings[0]).name == "phantom"
    assert check(columns, [Level.REPEATABLE_READ], evidence=told).findings[0].verdict is Verdict.SATISFIED


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence.of_edges([(0, 7, "ww", "")]), "edge 0"),
        (Evidence.of_edges([(0, 0, "ww", "")]), "edge 0"),
        (Evidence(versions=[[(0, 0), (1, 0)]]), "version 1 of told order 0"),
        (Evidence(versions=[[(0, 0), None]]), "version 1 of told order 0"),
        (Evidence(versions=[[(0, 5)]]), "version 0 of told order 0"),
        (Evidence(serial=[0, 0]), "place 1 of the serial order"),
    ],
)
def test_evidence_that_does_not_fit_its_history_is_refused_with_its_place(evidence: Evidence, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(encode(TWO), [Level.SERIALIZABLE], evidence=evidence)


def test_an_unknown_kind_of_edge_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="unknown kind of edge 'wrr'"):
        finding(TWO, Level.SERIALIZABLE, (0, 1, "wrr", ""))


def lines(*serials: float | None) -> str:
    """Blind writers of one key, and what was read of it last, with these places."""
    ops: list[list[object]] = [["w", "x", at] for at in range(len(serials) - 1)]
    ops.append(["r", "x", 0])
    rows = []
    for at, (op, serial) in enumerate(zip(ops, serials, strict=True)):
        rows.append({"id": at, "session": at, "ops": [op]} | ({} if serial is None else {"serial": serial}))
    return "".join(json.dumps(row) + "\n" for row in rows)


def run(tmp_path: Path, text: str, *options: str) -> tuple[int, str]:
    path = tmp_path / "h.jsonl"
    path.write_text(text)
    result = CliRunner().invoke(cli, ["check", str(path), *options], standalone_mode=False)
    if isinstance(result.exception, InputError):
        return 2, str(result.exception)
    return result.return_value, result.output


def test_a_claimed_order_is_replayed_although_another_would_explain_the_history(tmp_path: Path) -> None:
    assert run(tmp_path, lines(1, 2.5, 10))[0] == 0
    status, text = run(tmp_path, lines(1, 2.5, 10), "--serialization-order", "--json")
    assert status == 1
    assert "serialization-order-violation" in text
    assert "T1 came before it and was the last to leave x = 1, but T2 saw x = 0" in text
    assert run(tmp_path, lines(2.5, 1, 10), "--serialization-order")[0] == 0


def test_two_transactions_at_one_place_are_an_error_with_the_line(tmp_path: Path) -> None:
    status, text = run(tmp_path, lines(1, 1.0, 2))
    assert status == 2
    assert 'h.jsonl:2: "serial" is 1' in text


def test_a_claimed_order_has_a_place_for_every_committed_transaction(tmp_path: Path) -> None:
    status, text = run(tmp_path, lines(1, None, 2), "--serialization-order")
    assert status == 2
    assert 'h.jsonl:2: T1 has no "serial"' in text


def test_a_told_order_is_tried_first() -> None:
    # Blind writes of one value each: with no budget the search gives up, unless it is told where to look.
    count = 40
    rows = [f'{{"session":{at},"serial":{at},"ops":[["w","x",{at % 3}],["w","y",{at % 2}]]}}' for at in range(count)]
    rows.append(f'{{"session":"r","serial":{count},"ops":[["r","x",{(count - 1) % 3}],["r","y",{(count - 1) % 2}]]}}')
    from isolde._core import Columns

    columns = Columns.from_jsonl("\n".join(rows).encode())
    (found,) = check(columns, [Level.SERIALIZABLE], budget=0, order=True).findings
    assert found.verdict is Verdict.SATISFIED
    assert found.order is not None
    assert list(found.order.transactions) == list(range(count + 1))


def test_a_violation_that_does_not_hold_up_is_a_mistake_and_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    from isolde.engines.check import verify

    monkeypatch.setattr(verify, "holds_up", lambda *_, **__: False)
    with pytest.raises(MistakeError, match="does not hold up"):
        check(encode(parse("s1: [r(x,1)]")), [Level.SERIALIZABLE])


def test_a_mistake_is_one_line_and_status_70(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from isolde.cli.main import main
    from isolde.engines.check import verify

    monkeypatch.setattr(verify, "holds_up", lambda *_, **__: False)
    history = Path("corpus/prefix/lost-update.txt")
    monkeypatch.setattr("sys.argv", ["isolde", "check", str(history)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 70
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("isolde: a mistake of Isolde itself: ")
    assert said.err.count("\n") == 1
