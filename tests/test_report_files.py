"""Reports as files for people and build servers: pages, pictures, JUnit and SARIF, from every shape of report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isolde.engines.check import check, exhibited
from isolde.findings import (
    FailingPrefix,
    Finding,
    LogExplained,
    LogSubject,
    NotProved,
    OnStore,
    Report,
    Schedule,
    Step,
    TableRows,
    Verdict,
)
from isolde.formats import encode
from isolde.history import parse
from isolde.levels import LEVELS, Level
from isolde.report.build_servers import junit, sarif
from isolde.report.codec import write
from isolde.report.drawing import drawing_of
from isolde.report.html.markup import Markup, tag
from isolde.report.html.page import page, pages
from isolde.report.html.stepper import stepper
from isolde.report.picture import dot, first_drawing, svg
from test_cli import isolde
from test_reports import KINDS, OPEN, SKEW, of_one

_SVG = "{http://www.w3.org/2000/svg}"


def skew(*levels: Level) -> Report:
    columns = encode(parse(SKEW))
    return exhibited(check(columns, list(levels or (Level.SERIALIZABLE,))), columns)


def tree(text: str) -> ElementTree.Element:
    """A page as XML; what is style and script is taken out first."""
    text = text.removeprefix("<!doctype html>\n")
    return ElementTree.fromstring(re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.S))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_every_report_is_a_well_formed_page_a_junit_file_and_a_sarif_file(kind: Any, data: st.DataObject) -> None:
    report = data.draw(of_one(kind))
    whole = tree(page(report))
    names = [element.get("id") for element in whole.iter() if element.get("id") and not element.tag.endswith("marker")]
    assert len(names) == len(set(names))
    assert ElementTree.fromstring(junit([report])).find("testsuite") is not None
    assert json.loads(sarif([report]))["version"] == "2.1.0"


def test_rows_of_an_interleaving_stand_under_the_names_of_their_columns() -> None:
    def heads(*schema: str, rows: Any = ((1, 5),)) -> list[str]:
        shown = stepper(Schedule((Step("A", "COMMIT"),), schema, (TableRows("item", rows),)))
        return re.findall(r'<th scope="col">([^<]*)</th>', str(shown))[2:]

    made = "CREATE TABLE item (id INT PRIMARY KEY, `left` INT NOT NULL)"
    assert heads(made) == ["id", "left"]
    assert heads(made, rows=()) == ["id", "left"]
    # Not known, or not any more: no names rather than wrong ones.
    assert heads(made, rows=((1, 5, 6),)) == []
    assert heads(made, "ALTER TABLE item RENAME COLUMN id TO number") == []
    assert heads("CREATE TABLE item AS SELECT 1") == heads("no SQL at all") == heads() == []


def test_texts_of_others_cannot_become_html() -> None:
    assert tag("p", "<script>", title='"><b>') == '<p title="&quot;&gt;&lt;b&gt;">&lt;script&gt;</p>'
    assert tag("p", Markup("<b>x</b>"), hidden=True, id=None, n=0) == '<p hidden="" n="0"><b>x</b></p>'
    evil = "</script><img src=x onerror=alert(1)>"
    columns = encode(parse(SKEW))
    report = exhibited(check(columns, [Level.SERIALIZABLE]), columns)
    subject = LogSubject(evil, 1, 1, 1)
    failing = FailingPrefix(1, "t1", 0, ((evil,),), (("‮abc",),), "semantic", evil)
    finding = Finding(LogExplained(OnStore(evil, "rc")), Verdict.VIOLATED, evil, evidence=(failing,))
    text = page(Report(subject, (finding,), report.exhibit))
    assert "<img" not in text
    assert "‮" not in text


def test_a_page_needs_no_network_and_holds_only_what_is_shown() -> None:
    text = page(skew(*(row.level for row in LEVELS)))
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    assert "default-src &#x27;none&#x27;" in text
    assert len(text) < 200_000


def test_an_arrow_knows_the_two_operations_that_made_it() -> None:
    report = skew()
    (anomaly,) = report.findings[0].anomalies
    shown = drawing_of(anomaly, {one.id: one for one in report.exhibit})
    lines = [{line.place: line.text for line in box.lines} for box in shown.boxes]
    made = {
        (arrow.label, lines[arrow.source][arrow.source_line or 0], lines[arrow.target][arrow.target_line or 0])
        for arrow in shown.arrows
    }
    assert made == {("rw x", "read x = 0", "write x = 1"), ("rw y", "read y = 0", "write y = 2")}


def test_a_violation_by_cases_is_drawn_by_the_case_that_is_told() -> None:
    columns = encode(parse(OPEN))
    report = exhibited(check(columns, [Level.SERIALIZABLE]), columns)
    shown = first_drawing(report)
    assert shown is not None
    assert shown.arrows
    assert "All cases" in page(report)


def test_a_picture_is_svg_with_its_colours_written_out_and_dot() -> None:
    shown = first_drawing(skew())
    assert shown is not None
    drawn = svg(shown)
    assert "var(" not in drawn
    root = ElementTree.fromstring(drawn)
    assert root.tag == f"{_SVG}svg"
    assert len([one for one in root.iter(f"{_SVG}g") if (one.get("class") or "").startswith("arrow")]) == 2
    text = dot(shown)
    assert text.count("->") == 2
    assert 'label="rw x"' in text


def test_junit_counts_what_is_undecided_as_an_error() -> None:
    findings = tuple(
        Finding(LogExplained(OnStore("postgresql", "rc")), verdict, "m", evidence=(NotProved("too large"),))
        for verdict in Verdict
    )
    suite = ElementTree.fromstring(junit([Report(LogSubject("log", 1, 1, 1), findings)])).find("testsuite")
    assert suite is not None
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["3", "1", "1", "0"]
    assert [part.tag for case in suite for part in case] == ["failure", "error"]


def test_junit_does_not_pass_what_has_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    done = isolde("check", tmp_path / "empty.jsonl", "--report", tmp_path / "r.xml")
    assert (done.status, "nothing was checked" in done.err) == (0, True)
    suite = ElementTree.parse(tmp_path / "r.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("skipped")) == ("1", "1")


def test_a_level_that_rules_out_the_same_anomaly_leads_to_the_picture_of_it(tmp_path: Path) -> None:
    (tmp_path / "h.txt").write_text(SKEW)
    isolde("check", tmp_path / "h.txt", "--level", "ser", "--level", "strict-ser", "--report", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert page.count("<figure data-figure") == 1
    assert 'the one shown at <a href="#finding-1">serializable</a>' in page


def test_sarif_has_a_result_for_each_violation_at_its_file() -> None:
    (result,) = json.loads(sarif([skew(Level.SNAPSHOT_ISOLATION, Level.SERIALIZABLE)]))["runs"][0]["results"]
    assert result["ruleId"] == "write-skew"
    assert result["level"] == "error"
    assert "serializable" in result["message"]["text"]


def test_several_reports_share_a_page() -> None:
    text = pages([skew(), skew(Level.SNAPSHOT_ISOLATION)])
    assert {"report-1", "report-2"} <= {element.get("id") for element in tree(text).iter()}


def test_the_name_of_a_file_says_what_is_kept(tmp_path: Path) -> None:
    history = tmp_path / "h.txt"
    history.write_text(SKEW)
    files = [tmp_path / name for name in ("r.json", "r.html", "r.xml", "r.sarif")]
    graphs = [tmp_path / "g.svg", tmp_path / "g.dot"]
    options = [part for file in files for part in ("--report", str(file))]
    options += [part for file in graphs for part in ("--graph", str(file))]
    found = isolde("check", str(history), *options)
    assert found.status == 1, found.err
    begins = ['{"isolde"', "<!doctype html>", "<?xml", "{", "<?xml", "digraph"]
    assert [file.read_text()[: len(begin)] for file, begin in zip([*files, *graphs], begins, strict=True)] == begins


def test_several_files_are_kept_on_one_page_and_not_in_one_result(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(SKEW)
    both = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    refused = isolde("check", *both, "--report", str(tmp_path / "r.json"))
    assert refused.status == 2
    assert "--report" in refused.err
    assert "Traceback" not in refused.err
    assert isolde("check", *both, "--report", str(tmp_path / "r.html")).status == 1
    assert (tmp_path / "r.html").read_text().count('class="finding violated"') == 2


def test_a_graph_needs_a_name_that_says_what_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "h.txt").write_text(SKEW)
    found = isolde("check", str(tmp_path / "h.txt"), "--graph", str(tmp_path / "g.png"))
    assert found.status == 2
    assert ".svg or .dot" in found.err


def test_a_directory_of_results_is_one_page(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.json").write_text(write(skew()))
    (tmp_path / "other.json").write_text('{"some": "thing"}')
    found = isolde("show", str(tmp_path), "--html")
    assert found.status == 1, found.err
    whole = tree(found.out)
    assert (
        len([one for one in whole.iter("a") if "chip" in (one.get("class") or "") and "report-" in one.get("href", "")])
        == 3
    )
    listed = isolde("show", str(tmp_path))
    assert listed.out.count("VIOLATED") == 3
    (tmp_path / "empty").mkdir()
    assert isolde("show", str(tmp_path / "empty"), "--html").status == 2


def test_show_writes_the_page_of_a_kept_result(tmp_path: Path) -> None:
    kept = tmp_path / "r.json"
    report = skew()
    kept.write_text(write(report))
    found = isolde("show", str(kept), "--html")
    assert found.status == 1
    assert found.out == page(report)
