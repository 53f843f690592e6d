"""What a format cannot say is refused, or told; nothing is lost without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolde._core import Columns, FailedCas, Reading
from isolde.errors import InputError, UsageError
from isolde.formats import decode, encode, read, write
from isolde.history import parse, render
from test_foreign_formats import COBRA, INITIAL, SUFFIX, logs

T7 = "transaction 7 cannot be written as"
UNSAYABLE: list[tuple[str, str, str]] = [
    ("s: 7=[cas(0,1,2)]", "plume", f"{T7} plume: it has no compare-and-set"),
    ("s: 7=[a(0,1)]", "dbcop-json", f"{T7} dbcop-json: it has no lists"),
    ("s: 7=[r(0,[])]", "plume", f"{T7} plume: it has no lists"),
    ('s: 7=[{"sql":"x"}]', "cobra", f"{T7} cobra: it has no scans or SQL statements"),
    ("s: 7=[w(0,a)]", "plume", f'{T7} plume: its values are numbers from 0 to 2^63 - 1, not "a"'),
    ("s: 7=[w(0,-1)]", "dbcop-bincode", f"{T7} dbcop-bincode: its values are numbers from 0 to 2^63 - 1, not -1"),
    ("s: 7=[w(0,_)]", "plume", f"{T7} plume: it has no deletion (key 0)"),
    ("initial: 0=1 | s: 7=[r(0,_)]", "plume", f"{T7} plume: it has no read of nothing (key 0)"),
    ("s: 7=[r(0,0)]", "plume", f"{T7} plume: 0 is the initial value there, but not that of 0"),
    ("s: 7=[r(0,_) w(0,0)]", "plume", f"{T7} plume: 0 is the initial value there, but somebody writes 0 to 0, whose initial value is read"),
    ("s: 7=[r(0,_) w(0,0)]", "dbcop-bincode", f"{T7} dbcop-bincode: 0 is the initial value there, but somebody writes 0 to 0, whose initial value is read"),
    ("s: 7=[r(0,0)]", "dbcop-hist", f"{T7} dbcop-hist: 0 is the initial value there, but not that of 0"),
    ("initial: x=3 | s: 7=[w(x,3)]", "dbcop-json", f'{T7} dbcop-json: 3 is the initial value of "x", and is written again'),
    ("s: 7=[]!unknown", "dbcop-hist", f"{T7} dbcop-hist: it has no unknown outcomes"),
    ("s: 7=[]!abort", "awdit", f"{T7} awdit: it has no aborted transactions"),
    ("s: 7=[r(x,_)]", "awdit", f'{T7} awdit: it has no initial values, and that of "x" is read'),
    ("s: 7=[]!abort", "cobra", f"{T7} cobra: it has no aborted transactions"),
    ("s: 7=[w(0,1) w(1,1)]", "cobra", f"{T7} cobra: a value is the number of its write, and it writes one that was written before"),
    ("s: 7=[r(0,1)]", "cobra", f"{T7} cobra: a read names its writer, and nobody wrote 1"),
    (f"s: 7=[w(0,{INITIAL})]", "cobra", f"{T7} cobra: {INITIAL} has a meaning of its own there"),
    ("s: 7=[cas(x,1,2) r(x,2)]", "elle-edn", f"{T7} elle-edn: compare-and-sets are operations of their own there, and it has several operations"),
    ("s: 7=[cas(x,1,2)!]!abort", "elle-edn", f"{T7} elle-edn: it has a failed compare-and-set, but was not committed"),
    ("initial: x=[1] | s: 7=[a(x,2)]", "elle-json", f'{T7} elle-json: lists start empty there, but "x" does not'),
    ("initial: x=1 | s: 7=[r(x,_)]", "elle-json", f"{T7} elle-json: nil is the initial value there, and it saw null, which was not"),
    ("initial: x=0 | s: 7=[cas(x,_,2)]", "elle-edn", f"{T7} elle-edn: nil is the initial value there, and it saw null, which was not"),
    ("s: 7=[cas(x,1,2)!]", "elle-json", f"{T7} elle-json: a compare-and-set that failed did not take place there, and this one found another value; --failed-cas compared writes it for readers that take it so"),
    ("s: [w(x,1)]!unknown 7=[w(x,2)]", "elle-edn", f"{T7} elle-edn: no process goes on after an unknown outcome there, and its session does; --lossy leaves that out"),
    ("s: 7=[r(x,_) w(y,1)]!unknown", "elle-edn", f"{T7} elle-edn: what an operation of unknown outcome read is not known there where it is nil; --lossy leaves that out"),
    ("initial: x=5 | s: 7=[r(x,5) w(y,1)]!unknown", "elle-edn", f"{T7} elle-edn: what an operation of unknown outcome read is not known there where it is nil; --lossy leaves that out"),
    ("initial: x=1 | s: 7=[w(x,1)]", "elle-edn", f'{T7} elle-edn: 1 is the initial value of "x", and is written again'),
    ("s: 7=[w(x,_)]", "elle-edn", f'{T7} elle-edn: nil is the initial value there, so that "x" cannot be deleted'),
    ("s: 6=[]@1..5 7=[]@4..6", "elle-edn", f"{T7} elle-edn: it starts before the transaction before it in its session has ended"),
    ('s: 7=[{"scan":{},"rows":[]}]', "elle-edn", f"{T7} elle-edn: it has no scans or SQL statements"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "format", "message"), UNSAYABLE)
def test_what_a_format_cannot_say_is_refused_before_anything_is_written(
    text: str, format: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / f"h{SUFFIX[format]}"
    with pytest.raises(InputError) as raised:
        write(encode(parse(text)), str(path))
    assert str(raised.value) == f"{path}: {message}"
    assert not path.exists()


def test_logs_are_not_mixed_with_those_of_another_history(tmp_path: Path) -> None:
    directory = logs(tmp_path / "c", COBRA)
    with pytest.raises(InputError, match=r"the directory holds \.log files already; name a new one"):
        write(encode(parse("s: [w(0,1)]")), str(directory), "cobra")


@pytest.mark.parametrize(
    ("path", "format"), [("-", "parquet"), ("-", "cobra"), ("h.parquet.gz", None), ("h.txt.zst", None)]
)
def test_what_cannot_be_a_stream_is_refused(path: str, format: str | None) -> None:
    with pytest.raises(UsageError):
        write(encode(parse("s: [w(0,1)]")), path, format)


def lossily(text: str, path: Path, failed_cas: FailedCas = "aborted") -> tuple[str, tuple[str, ...]]:
    """What comes back of a history that a format cannot say as a whole, and what was told."""
    notes = write(encode(parse(text)), str(path), lossy=True, failed_cas=failed_cas)
    return render(decode(read(str(path), reading=Reading(failed_cas)))), notes


def test_what_would_change_verdicts_is_left_out_on_demand_and_told(tmp_path: Path) -> None:
    split = "sessions are split after each unknown outcome, and their order there is left out"
    found = lossily("0: [w(x,1)]!unknown [w(x,2)] [w(x,3)]", tmp_path / "h.edn")
    assert found == ("0: [w(x,1)]!unknown | 1: [w(x,2)] [w(x,3)]", (split,))
    nothing = "reads of nothing in transactions of unknown outcome are left out"
    found = lossily("0: [w(x,1) r(y,_)]!unknown", tmp_path / "h.edn")
    assert found == ("0: [w(x,1)]!unknown", (nothing,))
    shown = "the values that failed compare-and-sets were shown are left out"
    compared = "failed compare-and-sets found another value: read them with --failed-cas compared"
    found = lossily("0: [cas(x,1,2)!3]", tmp_path / "h.edn", "compared")
    assert found == ("0: [cas(x,1,2)!]", (compared, shown))
    chains = "version chains are left out"
    for suffix in (".edn", ".elle.json", ".plume", ".awdit", ".bincode", ".dbcop.json", ".hist", ".cobra"):
        versions = "versions: 0=[1,2] | 0: [w(0,1) w(0,2)]"
        with pytest.raises(
            InputError, match=r"version chains \(key 0\) cannot be written as .*; --lossy leaves them out"
        ):
            write(encode(parse(versions)), str(tmp_path / f"h{suffix}"))
        assert chains in lossily(versions, tmp_path / f"lossy{suffix}")[1]


def test_what_is_told_is_told_each_time(tmp_path: Path) -> None:
    def notes(text: str, suffix: str) -> tuple[str, ...]:
        return write(encode(parse(text)), str(tmp_path / f"h{suffix}"))

    assert notes("initial: 0=5 | 0: [r(0,5)]", ".edn") == ("initial values are written as nil, such as 5 of 0",)
    assert notes("initial: 0=5 | 0: [r(0,5)]", ".plume") == ("initial values are written as 0, such as 5 of 0",)
    assert notes("0: [r(0,_)]", ".dbcop.json") == ("initial values are written as null, such as null of 0",)
    assert notes("0: [w(0,1)] []", ".awdit") == ("1 transactions without operations are left out",)
    assert notes("0: [w(0,1)]!abort [w(0,2)]!abort", ".plume") == (
        "aborted transactions that follow each other in a session get sessions of their own",
    )
    assert notes("0: 5=[w(0,1)]", ".bincode") == ("ids are left out: transactions are known by their place",)
    assert notes("a: [w(0,1)]", ".cobra") == ("names of sessions are left out: they are known by their place",)
    assert notes("0: 9=[w(0,1)]", ".edn") == ("ids are left out: operations are numbered by their place",)
    assert notes("0: [r(0,_) w(1,1)]!abort", ".edn") == (
        "what transactions that were not committed read is left out where it is nil, or a register",
    )
    assert notes("0: [w(1,1)]@5..5", ".edn") == (
        "times are left out, since some transactions have none, or all the same",
    )
    columns = Columns.from_jsonl(b'{"isolde":"history","meta":1,"k":2}\n{"session":0,"serial":1,"tag":2,"ops":[]}\n')
    told = ("meta, unknown fields of the header, serial, unknown fields of transactions are left out",)
    assert write(columns, str(tmp_path / "h.txt")) == told
