"""Reports: every shape of them is kept and read again as it was, drawn from the file alone, and refused where it is none."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, ForwardRef, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isolde.engines.check import check, exhibited
from isolde.errors import InputError
from isolde.findings import (
    AtLevel,
    BrokenInvariant,
    Case,
    Evidence,
    Fact,
    Finding,
    InvariantKept,
    ProgramSubject,
    Question,
    Report,
    Schedule,
    Spent,
    Step,
    Subject,
    Verdict,
)
from isolde.findings.evidence import Datum
from isolde.formats import encode
from isolde.history import Append, CompareAndSet, History, Read, Sql, Status, Transaction, VersionChain, Write, parse
from isolde.levels import LEVELS, Level
from isolde.report import document, render_report
from isolde.report.any import as_document, as_text
from isolde.report.codec import read, write
from test_cli import isolde

NUMBERS = st.integers(-(2**53), 2**53)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**6), max_value=10**6)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS | DECIMALS
KEYS = st.integers(0, 9) | TEXTS
DATA: st.SearchStrategy[Any] = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)
FLOATS = st.floats(0, 1e6)


@st.composite
def transactions(draw: st.DrawFn) -> tuple[Transaction, ...]:
    """Of one kind of keys, with names of their own."""
    shapes: list[st.SearchStrategy[Any]] = [
        st.builds(Read, KEYS, SCALARS)
        | st.builds(Write, KEYS, SCALARS)
        | st.builds(CompareAndSet, KEYS, SCALARS, SCALARS, st.just(True)),
        st.builds(Append, KEYS, NUMBERS) | st.builds(Read, KEYS, st.lists(NUMBERS, max_size=3).map(tuple)),
        st.builds(
            lambda text, rows: Sql({"sql": text, "params": [], "rows": rows}),
            TEXTS,
            st.lists(st.lists(NUMBERS, max_size=2), max_size=2),
        ),
    ]
    operations = draw(st.sampled_from(shapes))
    names = draw(st.lists(st.integers(0, 50) | TEXTS, max_size=4, unique_by=lambda name: (type(name), name)))
    return tuple(
        Transaction(
            name,
            draw(st.integers(0, 3)),
            tuple(draw(st.lists(operations, max_size=3))),
            draw(st.sampled_from(Status)),
            *draw(st.sampled_from([(None, None), (number, number + 3)])),
        )
        for number, name in enumerate(names)
    )


HISTORIES = st.builds(History, transactions())
RECURSIVE = {Case: 2}


def shaped(hint: Any, depth: int = 4) -> st.SearchStrategy[Any]:
    """Every value of a type, by the type alone: what is added to the findings is covered without a word here."""
    origin, arguments = getattr(hint, "__origin__", None), get_args(hint)
    if hint == Datum or isinstance(hint, ForwardRef):
        return DATA
    if hint is History:
        return HISTORIES
    if str(origin) == "typing.Literal":
        return st.sampled_from(arguments)
    if hint == tuple[Transaction, ...]:
        return transactions()
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return st.lists(shaped(arguments[0], depth - 1), max_size=2).map(tuple) if depth > 0 else st.just(())
        return st.tuples(*(shaped(part, depth) for part in arguments))
    if arguments:
        return st.one_of(*(shaped(part, depth) for part in arguments))
    if isinstance(hint, type) and issubclass(hint, Level | Verdict):
        return st.sampled_from(hint)
    if dataclasses.is_dataclass(hint):
        return _object(hint, depth)
    return {int: NUMBERS, str: TEXTS, bool: st.booleans(), float: FLOATS, Decimal: DECIMALS, type(None): st.none()}[
        hint
    ]


def _object(kind: Any, depth: int) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    below = depth - 1 if kind in RECURSIVE else depth

    def made() -> st.SearchStrategy[Any]:
        return st.builds(kind, **{field.name: shaped(hints[field.name], below) for field in dataclasses.fields(kind)})

    return st.deferred(made)


def of_one(kind: Any) -> st.SearchStrategy[Report]:
    """Reports that hold one thing of this kind, wherever it belongs."""
    thing, member = shaped(kind), kind
    subject = thing if member in get_args(Subject) else st.just(ProgramSubject("p", 1, 1))
    question = thing if member in get_args(Question) else st.just(InvariantKept("i"))
    evidence = thing.map(lambda one: (one,)) if member in get_args(Evidence) else st.just(())
    facts = thing.map(lambda one: (one,)) if member in get_args(Fact) else st.just(())
    finding = st.builds(Finding, question, st.sampled_from(Verdict), TEXTS, shaped(Spent), evidence, TEXTS)
    return st.builds(Report, subject, finding.map(lambda one: (one,)), transactions(), facts)


KINDS = [member for union in (Subject, Question, Evidence, Fact) for member in get_args(union)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_is_written_is_read_again_as_it_was(kind: Any, data: st.DataObject) -> None:
    report = data.draw(of_one(kind))
    assert read(write(report)) == report


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_report_about_a_program_can_be_drawn_and_documented(kind: Any, data: st.DataObject) -> None:
    from isolde.report.general import general_document, render_general

    report = data.draw(of_one(kind))
    assert render_general(report)
    assert {"subject", "results"} <= set(general_document(report)) <= {"subject", "results", "remarks"}


SKEW = "initial: x=0 y=0\ns1: [r(x,0) r(y,0) w(x,1)]\ns2: [r(x,0) r(y,0) w(y,2)]"
# Whichever write came first, one of the readers went back.
OPEN = "initial: x=0\ns1: [w(x,1)]\ns2: [w(x,2)]\ns3: [r(x,1)] [r(x,2)]\ns4: [r(x,2)] [r(x,1)]"
LISTS = "s1: [a(x,1)]\ns2: [a(x,2)]\ns3: [r(x,[1])]\ns4: [r(x,[2])]"


@pytest.mark.parametrize("text", [SKEW, OPEN, LISTS])
def test_a_report_of_a_history_is_drawn_and_documented_the_same_after_it_was_kept(text: str) -> None:
    columns = encode(parse(text))
    report = exhibited(check(columns, [row.level for row in LEVELS], every=True, order=True, surveyed=True), columns)
    again = read(write(report))
    assert again == report
    assert render_report(again, all_cases=True) == render_report(report, all_cases=True)
    assert document(again) == document(report)


def test_an_exploration_is_documented_as_the_command_line_fixes_it() -> None:
    ran = parse("initial: x=0\ns1: [r(x,0) w(x,10)]\ns2: [r(x,0) w(x,20)]")
    steps = (Step("0.0", "begin"), Step("0.0", "read x = 0"))
    broken = BrokenInvariant("invariant", "x is 20", history=ran, schedule=Schedule(steps), state=(("x", 20),))
    spent = Spent(0.01, (("histories", 3), ("end_states", 3), ("explored", 15), ("filtered", 0)))
    asked = InvariantKept("", AtLevel(Level.READ_COMMITTED))
    finding = Finding(asked, Verdict.VIOLATED, "explore-ce", spent, (broken,))
    report = Report(ProgramSubject("bank", 2, 2), (finding,))
    content = as_document(report)
    assert content["subject"] == {"name": "bank", "sessions": 2, "transactions": 2}
    (result,) = content["results"]
    (violation,) = result.pop("violations")
    assert result == {
        "question": "invariant",
        "level": "read-committed",
        "verdict": "violated",
        "method": "explore-ce",
        "histories": 3,
        "end_states": 3,
        "explored": 15,
        "filtered": 0,
        "seconds": 0.01,
    }
    assert violation["schedule"] == [["0.0", "begin"], ["0.0", "read x = 0"]]
    assert violation["state"] == {"x": 20}
    assert [line["session"] for line in violation["history"]] == ["s1", "s2"]
    assert "VIOLATED" in as_text(report)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda c: c["findings"][0].update(verdict="yes"), "findings[0].verdict"),
        (lambda c: c["findings"][0].pop("method"), '"method" is missing'),
        (lambda c: c["findings"][0]["question"].update(level="sr"), "findings[0].question.level"),
        (lambda c: c["findings"][0]["question"].update({"is": "Riddle"}), "findings[0].question"),
        (lambda c: c["findings"][0]["evidence"][0].update(cycle={}), "evidence[0].cycle"),
        (lambda c: c["findings"][0]["spent"].update(seconds="long"), "spent.seconds"),
        (lambda c: c["exhibit"][0].update(status="gone"), "exhibit"),
        (lambda c: c["exhibit"][0].pop("id"), "exhibit"),
        (lambda c: c.update(exhibit=7), "exhibit"),
        (lambda c: c.update(version=2), "version 2"),
        (lambda c: c.update(isolde="history"), "no report"),
    ],
)
def test_what_is_no_report_is_refused_with_its_place(change: Any, place: str) -> None:
    columns = encode(parse(SKEW))
    content = json.loads(write(exhibited(check(columns, [Level.SERIALIZABLE]), columns)))
    change(content)
    with pytest.raises(InputError) as refused:
        read(json.dumps(content), "r.json")
    assert str(refused.value).startswith("r.json")
    assert place in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"isolde": "report"}', "\x00"])
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InputError) as refused:
        read(text, "r.json")
    assert "\n" not in str(refused.value)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("kept")
    (place / "h.txt").write_text(SKEW)
    return place


def test_show_draws_what_check_drew_without_the_history(kept: Path) -> None:
    first = isolde("check", "--level", "ser", "--level", "si", "--report", "r.json", "h.txt", cwd=kept)
    (kept / "h.txt").rename(kept / "gone.txt")
    again = isolde("show", "r.json", cwd=kept)
    (kept / "gone.txt").rename(kept / "h.txt")
    assert (again.status, again.out) == (first.status, first.out)
    assert first.status == 1


def test_show_prints_the_document_that_check_prints(kept: Path) -> None:
    printed = isolde("check", "--json", "--report", "r.json", "h.txt", cwd=kept)
    assert isolde("show", "--json", "r.json", cwd=kept).out == printed.out


@pytest.mark.parametrize("more", [(), ("--workload", "bank", "--scale", "accounts=4"), ("duckdb:", "--matrix")])
def test_show_draws_what_run_drew(kept: Path, more: tuple[str, ...]) -> None:
    first = isolde("run", "--transactions", "60", "--sessions", "3", "--report", "run.json", *more, cwd=kept)
    again = isolde("show", "run.json", cwd=kept)
    assert (again.status, again.out) == (first.status, first.out)


def test_show_says_in_a_line_what_is_no_result(kept: Path) -> None:
    (kept / "no.json").write_text("{}")
    for name, words in (
        ("no.json", "no report"),
        ("none.json", "No such file"),
        ("h.txt", "no JSON"),
    ):
        shown = isolde("show", name, cwd=kept)
        assert shown.status == 2
        assert words in shown.err
        assert shown.err.count("\n") == 1


def test_show_draws_what_json_printed_as_far_as_it_goes(kept: Path) -> None:
    printed = isolde("check", "--json", "--level", "ser", "--level", "si", "h.txt", cwd=kept)
    (kept / "printed.json").write_text(printed.out)
    shown = isolde("show", "printed.json", cwd=kept)
    assert shown.status == printed.status == 1
    assert "serializable: VIOLATED" in shown.out
    assert "snapshot-isolation: satisfied" in shown.out
    assert "write-skew" in shown.out


def test_versions_and_initial_values_of_an_explored_history_are_kept() -> None:
    history = History((Transaction(0, "s", (Write("x", 1),)),), {"x": 0, 3: 5}, versions=(VersionChain("x", (0, 1)),))
    finding = Finding(InvariantKept(""), Verdict.VIOLATED, "m", evidence=(BrokenInvariant("c", "e", history=history),))
    report = Report(ProgramSubject("p", 1, 1), (finding,))
    assert read(write(report)) == report
