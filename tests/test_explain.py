"""What is said about a violation: the cycle that the level forbids, how each order is known, one case instead of many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from isolde.engines.check import check, cut_out, holds_up
from isolde.findings import Anomaly, HistorySubject, Link, Report
from isolde.formats import encode
from isolde.history import parse
from isolde.levels import Level
from isolde.report import document, render_report
from test_cli import isolde

SI, SER = Level.SNAPSHOT_ISOLATION, Level.SERIALIZABLE

LOST_UPDATE = "initial: x=0\ns1: [r(x,0) w(x,1)]\ns2: [r(x,0) w(x,2)]"

# T1 writes x without reading it: that it comes after what was made from the initial value, no read shows.
INFERRED = "initial: x=0 y=0\ns1: [r(x,0) w(x,1)]\ns2: [w(x,5) r(y,0)]\ns3: [r(x,1) w(y,1)]"

TOLD = "initial: x=0 y=0\nversions: x=[1,2]\ns1: [w(x,1) r(y,1)]\ns2: [w(x,2) w(y,1)]"

# Whichever of the two writes came first, one of the readers went back.
OPPOSITE = """
initial: x=0
s1: [w(x,1)]@0..10
s2: [w(x,2)]@5..20
s3: [r(x,1)]@21..22 [r(x,2)]@23..24
s4: [r(x,2)]@21..22 [r(x,1)]@25..30
"""


def found(text: str, level: Level) -> Anomaly:
    (anomaly,) = check(encode(parse(text)), [level]).findings[0].anomalies
    assert holds_up(parse(text), level, anomaly)
    return anomaly


def reported(text: str, level: Level) -> tuple[Report, str]:
    history = parse(text)
    report = check(encode(history), [level])
    return report, render_report(
        replace(report, subject=HistorySubject("h", report.size), exhibit=history.transactions)
    )


def links(report: Report) -> list[dict[str, Any]]:
    return [link for anomaly in document(report)["results"][0]["anomalies"] for link in anomaly["cycle"]]


@pytest.mark.parametrize("level", [SI, SER, Level.REPEATABLE_READ])
def test_a_lost_update_is_drawn_with_the_overwrite_that_either_order_brings(level: Level) -> None:
    anomaly = found(LOST_UPDATE, level)
    assert (anomaly.name, anomaly.adya) == ("lost-update", "g-single")
    assert [(link.kind, link.assumed) for link in anomaly.cycle] == [("rw", False), ("ww", True)]
    assert "the same with the two exchanged" in anomaly.cycle[1].sentence


def test_the_order_of_a_lost_update_is_the_clocks() -> None:
    later_first = "initial: x=0\ns1: [r(x,0) w(x,1)]@5..30\ns2: [r(x,0) w(x,2)]@0..20"
    assert found(later_first, SI).cycle[1] == Link(
        1,
        0,
        "ww",
        "x",
        "T0 overwrote x = 2 of T1 with x = 1, if T1 wrote first; if not, the same with the two exchanged.",
        assumed=True,
    )


@pytest.mark.parametrize(
    "text",
    [
        "initial: x=0\nversions: x=[1,2]\nversions: x=[2,1]\ns1: [w(x,1)]\ns2: [w(x,2)]",
        "initial: x=0\nversions: x=[1,2] x=[2,1]\ns1: [w(x,1)]\ns2: [w(x,2)]",
        "initial: x=0\nversions: x=[1,2]\nversions: x=[2,3]\nversions: x=[3,1]\ns1: [w(x,1)]\ns2: [w(x,2)]\ns3: [w(x,3)]",
    ],
)
@pytest.mark.parametrize("level", [Level.READ_UNCOMMITTED, Level.CAUSAL, SI, SER])
def test_versions_lines_that_contradict_each_other_are_no_anomaly_of_the_database(text: str, level: Level) -> None:
    anomaly = found(text, level)
    assert (anomaly.name, anomaly.adya) == ("contradictory-versions", "")
    assert "The versions lines contradict each other" in anomaly.explanation


def test_what_two_keys_are_told_is_a_g0_of_the_database() -> None:
    text = "versions: x=[1,2] y=[2,1]\ns1: [w(x,1) w(y,1)]\ns2: [w(x,2) w(y,2)]"
    assert [found(text, level).name for level in (Level.READ_UNCOMMITTED, Level.PL_2, SER)] == ["g0"] * 3


def test_told_edges_are_counted_and_marked_apart() -> None:
    report, text = reported(TOLD, SER)
    assert "1 overwrite only told" in text
    assert "(A versions line tells that order.)" in text
    evidence = document(report)["results"][0]["evidence"]
    assert (evidence["told_ww"], evidence["told_rw"]) == (1, 0)
    assert [link.get("told", False) for link in links(report)] == [link["kind"] == "ww" for link in links(report)]


def test_an_inferred_order_is_marked_and_explained() -> None:
    report, text = reported(INFERRED, SER)
    assert "(Inferred: T1 did not read x" in text
    assert [(link["kind"], link["key"]) for link in links(report) if link.get("inferred")] == [("rw", "x")]


def test_a_circle_of_inferred_overwrites_is_no_g0() -> None:
    # Each wrote one key by reading it and the other blindly: only snapshot isolation puts the blind writes last.
    text = "initial: x=0 y=0\ns1: [r(x,0) w(x,1) w(y,1)]\ns2: [r(y,0) w(y,2) w(x,2)]"
    history = encode(parse(text))
    names = {f.level: [a.name for a in f.anomalies] for f in check(history, list(Level)).findings}
    assert names[Level.READ_UNCOMMITTED] == names[Level.PL_2] == names[Level.CAUSAL] == []
    assert set(names[SI] + names[SER]) <= {"lost-update", "g-single"}


def test_a_list_that_changed_beside_an_append_is_not_said_to_be_untouched() -> None:
    anomaly = found("s1: [a(x,1)]\ns2: [r(x,[]) a(x,7) r(x,[1,7])]", SI)
    assert anomaly.name == "non-repeatable-read"
    assert "although it had appended only 7 itself in between" in anomaly.explanation
    untouched = found("s1: [a(x,1)]\ns2: [r(x,[]) a(y,7) r(x,[1])]", SI)
    assert "without writing x in between" in untouched.explanation


def test_of_cases_the_one_that_fits_the_clock_is_told() -> None:
    anomaly = found(OPPOSITE, SER)
    assert [case.supposition.first for case in anomaly.cases] == [0, 1]
    assert "If T0 wrote x = 1 before T1 wrote x = 2, as the clock suggests, there is a" in anomaly.explanation
    assert "Otherwise there is a" in anomaly.explanation
    swapped = OPPOSITE.replace("@0..10", "@0..20").replace("@5..20", "@5..10")
    assert [case.supposition.first for case in found(swapped, SER).cases] == [1, 0]


def test_only_the_leading_case_is_drawn_unless_all_are_asked_for() -> None:
    _, text = reported(OPPOSITE, SER)
    assert "(one further case: --all-cases)" in text
    assert "├─ if" not in text
    asked = isolde("check", "--all-cases", "-", stdin=OPPOSITE).out
    assert "├─ if T0 wrote x = 1 before T1 wrote x = 2:" in asked
    assert "└─ if T1 wrote x = 2 before T0 wrote x = 1:" in asked
    (whole,) = isolde("check", "--json", "-", stdin=OPPOSITE).documents
    assert len(whole["results"][0]["anomalies"][0]["cases"]) == 2


def test_the_witness_of_cases_has_cases_again() -> None:
    # T6 wrote what T4 read; cut out without it, that read must not become the violation.
    text = OPPOSITE + "s5: [w(y,7)]@0..1\ns6: [r(y,7) r(x,2)]@31..32\n"
    columns = encode(parse(text))
    (anomaly,) = check(columns, [SER]).findings[0].anomalies
    witness = cut_out(columns, SER, anomaly)
    (again,) = check(encode(witness), [SER]).findings[0].anomalies
    assert again.cycle or again.cases
