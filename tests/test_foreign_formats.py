"""The files of other tools: each thing in them means what the tool's description says, and comes back as it was written.

The samples are our own, written to the formats' descriptions; the binary ones are made here, by encoders that share nothing
with the readers.
"""

from __future__ import annotations

import gzip
import json
import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isolde._core import Columns, FailedCas, Reading, foreign_formats
from isolde.engines.check import check
from isolde.errors import InputError, UsageError
from isolde.findings import Verdict
from isolde.formats import NAMES, WRITTEN, decode, encode, read, write
from isolde.formats.known import FORMATS, recognised
from isolde.history import (
    CompareAndSet,
    History,
    Operation,
    Read,
    Status,
    Transaction,
    Write,
    parse,
    render,
)
from isolde.levels import Level

SAMPLES = Path(__file__).parent / "samples"
INITIAL, NOTHING, COLLECTED = 0xBEBEEBEE, 0xDEADBEEF, 0x23332333


def bincode(sessions: list[list[tuple[list[tuple[int, int, int, int]], int]]], info: str = "") -> bytes:
    """dbcop's bincode: events are (write, variable, value, success), a transaction has a success of its own."""
    out = struct.pack("<5Q", 1, 2, 3, 4, 5)
    for text in (info, "2022-07-05T12:23:43.032406225+08:00", "2022-07-05T12:23:44+08:00"):
        out += struct.pack("<Q", len(text.encode())) + text.encode()
    out += struct.pack("<Q", len(sessions))
    for session in sessions:
        out += struct.pack("<Q", len(session))
        for events, success in session:
            out += struct.pack("<Q", len(events)) + b"".join(struct.pack("<BQQB", *event) for event in events)
            out += bytes([success])
    return out


BINCODE = bincode(
    [
        [([(1, 0, 1, 1), (0, 1, 0, 1)], 1), ([(1, 0, 2, 1), (1, 1, 9, 0)], 0)],
        [([(0, 0, 1, 1), (1, 1, 2**64 - 1, 1)], 1), ([], 1)],
    ],
    "two sessions",
)


def cobra(*records: tuple[object, ...]) -> bytes:
    """A log of Cobra: letters and big-endian numbers."""
    return b"".join(str(letter).encode() + struct.pack(f">{len(n)}q", *n) for letter, *n in records)


COBRA = {
    "T2.log": cobra(
        *[("S", 12), ("R", 10, 501, -3, 77), ("R", INITIAL, INITIAL, 4, 0), ("W", 502, 4, 78), ("C", 12)],
        *[("S", 13), ("R", INITIAL, COLLECTED, 9, 0), ("R", NOTHING, NOTHING, 5, 0), ("C", 13)],
    ),
    "T10.log": cobra(("S", 10), ("W", 501, -3, 77), ("C", 10)),
    "T2.debug": b"not a log",
    "empty.log": b"",
}
TIMED_COBRA = {
    "T0.log": cobra(("S", 1, 1000), ("W", 501, 3, 0), ("C", 1, 1005), ("S", 2, 1006), ("C", 2, 1007)),
    "T1.log": cobra(("S", 3, 1001), ("R", 1, 501, 3, 0), ("C", 3, 1009)),
}


def logs(directory: Path, files: dict[str, bytes]) -> Path:
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return directory


# --- What samples mean ------------------------------------------------------------------------------------------------

MEANT: dict[str, tuple[str, str]] = {
    "append.edn": (
        "elle-edn",
        """0: 0=[a(x,1) r(y,[])]@100..200 6=[a(x,2)]!abort@300..350 8=[a(x,3)]!unknown@400..450
        1: 1=[r(x,[1]) a(7,"a\\tbé")]@150..250
        "0/2": 10=[r(x,[1,3])]@500..550
        2: 12=[a(x,4)]!unknown@600..""",
    ),
    # The clock stands still, so that the index serves instead.
    "registers.edn": ("elle-edn", "3: 0=[w(1,10) r(2,_)]@0..1 | 4: 2=[r(1,10) w(2,-1.5)]@2..3"),
    "completions.edn": ("elle-edn", '0: 0=[w(x,true)] 1=[w(x,b) r(x,true)]!abort | 1: 2=[w(x,3)]!unknown'),
    "cas.edn": (
        "elle-edn",
        """0: 0=[w(register,0)]@1..2 3=[]!abort@7..8 4=[r(register,1)]@9..10
        1: 1=[cas(register,0,1)]@3..5 5=[cas(register,1,2)]!unknown@11..12
        2: 2=[cas(register,5,6)]!abort@4..6 6=[cas(register,1,3)]!abort@13..14""",
    ),
    # Neither times nor indices: the order of the lines. A read that never ended is behind all others.
    "order.edn": (
        "elle-edn",
        """0: 0=[w(register,1)]@1..3 3=[r(register,2)]@6..8
        1: 1=[cas(register,1,2)]@2..4
        2: 2=[cas(register,7,8)]!abort@5..7 4=[]!unknown@9..""",
    ),
    "cas-keys.edn": ("elle-edn", "0: 0=[w(a,1)]@0..1 4=[r(a,1)]@4..5 | 1: 2=[cas(b,_,4)]@2..3"),
    "append.elle.json": ("elle-json", '0: 0=[a(x,1) r(y,[])]@0..2 | 1: 3=[r(x,[1]) a("é\\n",v)]'),
    "run.dbcop.json": (
        "dbcop-json",
        "initial: 0=0 1=0 | 0: 0=[w(0,1) r(1,0)] 1=[r(0,1)]!abort | 1: 2=[r(0,0) w(1,18446744073709551615)]",
    ),
    # Somebody writes 0 to the first key, so it is a value like others there.
    "bare.dbcop.json": ("dbcop-json", "initial: 1=0 | 0: 0=[w(0,0) w(1,2)] | 1: 1=[r(0,0) r(1,0) r(0,_)]"),
    "run.hist": ("dbcop-hist", "initial: x=0 y=0 z=0 | 0: 0=[w(x,1) w(y,1)] 1=[r(x,1)]!abort | 1: 2=[r(x,1) w(y,2) r(z,0)] 3=[]"),
    "run.plume": (
        "plume",
        """initial: 0=0 1=0
        1: 1=[w(0,1) r(1,0)] 2=[w(1,3)]
        2: 7=[r(0,1)] aborted-1=[w(0,9) r(0,9)]!abort 8=[w(0,2)] aborted-2=[w(1,4)]!abort""",
    ),
    "run.awdit": ("awdit", "0: 0=[w(0,0) w(1,0)] | 1: 1=[w(0,1)] 2=[r(0,1) r(1,0)]"),
}  # fmt: skip


def same(found: History, meant: History) -> None:
    """The same but for the order of sessions, which only their transactions' order in the file shows."""
    by_id = {t.id: t for t in found.transactions}
    assert by_id == {t.id: t for t in meant.transactions}
    for history in (found, meant):
        assert len({t.id for t in history.transactions}) == len(history.transactions)
    assert sessions_of(found) == sessions_of(meant)
    assert found.initial == meant.initial


def sessions_of(history: History) -> dict[object, list[object]]:
    sessions: dict[object, list[object]] = {}
    for transaction in history.transactions:
        sessions.setdefault(transaction.session, []).append(transaction.id)
    return sessions


@pytest.mark.parametrize("name", MEANT)
def test_a_sample_is_recognised_and_means_what_its_format_says(name: str) -> None:
    format, meant = MEANT[name]
    found = recognised((SAMPLES / name).read_bytes())
    assert found is not None
    assert found.name == format
    same(decode(read(str(SAMPLES / name))), parse(meant))
    same(decode(read(str(SAMPLES / name), format)), parse(meant))


def test_every_sample_has_a_meaning() -> None:
    assert {path.name for path in SAMPLES.iterdir() if path.is_file()} == set(MEANT)


@pytest.mark.parametrize("name", MEANT)
def test_a_packed_sample_is_read_alike(name: str, tmp_path: Path) -> None:
    path = tmp_path / "packed"
    path.write_bytes(gzip.compress((SAMPLES / name).read_bytes()))
    assert read(str(path)).to_jsonl() == read(str(SAMPLES / name)).to_jsonl()


def test_bincode_is_recognised_and_read_to_the_last_byte(tmp_path: Path) -> None:
    path = tmp_path / "history.bincode"
    path.write_bytes(BINCODE)
    meant = "initial: 0=0 1=0 | 0: [w(0,1) r(1,0)] [w(0,2)]!abort | 1: [r(0,1) w(1,18446744073709551615)] []"
    history = decode(read(str(path)))
    same(history, parse(meant))
    assert history.meta["dbcop"]["info"] == "two sessions"
    path.write_bytes(BINCODE + b"\0")
    with pytest.raises(InputError, match=r"history\.bincode: 1 more bytes from byte \d+ on .*; expected the end of"):
        read(str(path))


def test_cobra_logs_are_sessions_in_natural_order(tmp_path: Path) -> None:
    history = decode(read(str(logs(tmp_path / "c", COBRA))))
    same(history, parse("T2: 12=[r(-3,501) r(4,_) w(4,502)] 13=[r(5,_)] | T10: 10=[w(-3,501)]"))
    assert [t.session for t in history.transactions] == ["T2", "T2", "T10"]


def test_cobra_logs_may_have_times(tmp_path: Path) -> None:
    history = decode(read(str(logs(tmp_path / "c", TIMED_COBRA))))
    same(history, parse("T0: 1=[w(3,501)]@1000..1005 2=[]@1006..1007 | T1: 3=[r(3,501)]@1001..1009"))


# --- Which format it is -----------------------------------------------------------------------------------------------

BEGINNINGS: dict[str, list[bytes]] = {
    "jsonl": [b"", b" \n", b'{"session":1,"ops":[]}', b'\xef\xbb\xbf{"isolde":"history"}', b'{"start":1,"session":1', b"{]"],
    "notation": [b"s1: [r(x,1)]", b"# only a comment", b'"a b" : []', b"-1: []", b"initial: x=0", b" | r: [w(x,1)]", b"# {:a\nw: []"],
    "parquet": [b"PAR1\x15\x04"],
    "elle-edn": [b"{:type :ok}", b"[{:type", b"({:type", b"; x\n {:type", b"#a.B{:type", b"[\n#a.B {:type", b",{,:type", b"()"],
    "elle-json": [b'[{"type"', b'[ \n {"process"', b"[]", b" [ ] \n"],
    "dbcop-json": [b'{"params": {"id"', b'{ "data":[[', b"[[{", b"[ [ ]", b'{"info":"x"', b'{"start":"2026'],
    "dbcop-hist": [b"[x:=1]", b"// s\n[", b"---\n[y==?]", b"[]\n[x:=1]", b"[ _a==3 ]", b"//"],
    "plume": [b"r(0,1,2,3)\n", b"w(0,9,2,-1)"],
    "awdit": [b"r 0 1\n", b"---\nw 1 2\n", b"==\n==\nr 3 4\r\n"],
    "dbcop-bincode": [BINCODE, struct.pack("<6Q", 2**60, 1, 2, 3, 4, 0)],
}  # fmt: skip


@pytest.mark.parametrize("name", BEGINNINGS)
def test_a_format_is_told_by_how_its_files_begin(name: str) -> None:
    for head in BEGINNINGS[name]:
        found = recognised(head)
        assert found is not None, head
        assert found.name == name, head


@pytest.mark.parametrize("text", ["<xml>", "hello", "r(x,1)", "\0\1\2", "*", "[1]", "(", "s1 [r(x,1)]"])
def test_what_is_no_history_is_refused_with_a_word_about_the_option(text: str, tmp_path: Path) -> None:
    path = tmp_path / "h"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        read(str(path))
    message = str(raised.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert text == "(" or "name its format with --format (jsonl, notation, parquet, awdit, " in message


def test_the_core_and_the_table_know_the_same_formats() -> None:
    assert set(NAMES) == {"jsonl", "parquet", "notation", "porcupine", "timekiller", *foreign_formats()}
    assert set(NAMES) - set(WRITTEN) == {"porcupine", "timekiller"}
    suffixes = [suffix for entry in FORMATS for suffix in entry.suffixes]
    assert len(suffixes) == len(set(suffixes))


def _content(text: str, directory: Path) -> tuple[History, list[tuple[object, ...]]]:
    path = directory / "h"
    path.write_text(text)
    history = decode(read(str(path)))
    return history, [(t.session, t.status.value, *t.ops) for t in history.transactions]


def test_operations_of_jepsen_that_leave_something_out(tmp_path: Path) -> None:
    """Without a process each is a session of its own; a read without a value showed nil; a vector is a key like any other."""
    text = "{:type :ok, :value [[:r [1 :a]] [:w [1, :a] 5]]}\n{:type :fail, :value [[:insert :y 1] [:delete :z]]}"
    assert _content(text, tmp_path)[1] == [
        ("operation 1", "committed", Read("[1 :a]", None), Write("[1 :a]", 5)),
        ("operation 2", "aborted", Write("y", 1), Write("z", None)),
    ]


def test_the_first_rows_of_a_predicate_workload_are_initial_values(tmp_path: Path) -> None:
    text = "{:type :ok, :process 0, :f :init, :value {1 10}}\n{:type :ok, :process 0, :f :txn, :value [[:r 1 10]]}"
    history, transactions = _content(text, tmp_path)
    assert history.initial == {1: 10}
    assert transactions == [(0, "committed", Read(1, 10))]


def test_a_lock_is_a_register_that_is_compared_and_set(tmp_path: Path) -> None:
    event = "{{:type :{}, :process {}, :f :{}, :value nil}}"
    text = "\n".join(event.format(*e) for e in [("invoke", 0, "acquire"), ("ok", 0, "acquire")])
    history, transactions = _content(text, tmp_path)
    assert history.initial == {"lock": "free"}
    assert transactions == [(0, "committed", CompareAndSet("lock", "free", "held", applied=True))]
    twice = [("invoke", 0), ("ok", 0), ("invoke", 1), ("ok", 1)]
    text = "\n".join(event.format(*e, "acquire") for e in twice)
    (tmp_path / "twice.edn").write_text(text)
    (finding,) = check(read(str(tmp_path / "twice.edn")), [Level.LINEARIZABLE]).findings
    assert finding.verdict is Verdict.VIOLATED, "two processes hold one lock"


def test_a_store_that_names_keys_beside_values_starts_with_empty_texts(tmp_path: Path) -> None:
    event = '{{:process {}, :type :{}, :f :{}, :key "a", :value {}}}'
    text = "\n".join(
        event.format(*e)
        for e in [
            (0, "invoke", "get", "nil"),
            (0, "ok", "get", '""'),
            (1, "invoke", "put", '"x"'),
            (1, "ok", "put", '"x"'),
        ]
    )
    history, transactions = _content(text, tmp_path)
    assert history.initial == {"a": ""}
    assert transactions == [(0, "committed", Read("a", "")), (1, "committed", Write("a", "x"))]


def test_a_log_of_porcupine_is_read(tmp_path: Path) -> None:
    lines = [
        "0\t:invoke\t:write\t3",
        "1\t:invoke\t:cas\t[3 4]",
        "0\t:ok\t:write\t3",
        "1\t:fail\t:cas\t[3 4]",
        "0\t:invoke\t:read\tnil",
        "0\t:fail\t:read\t:timed-out",
        "2\t:invoke\t:read\tnil",
        "2\t:ok\t:read\t3",
    ]
    text = "\n".join(f"INFO  jepsen.util - {line}" for line in [*lines, "nemesis :info :start nil"])
    assert [(status, *ops) for _, status, *ops in _content(text, tmp_path)[1]] == [
        ("committed", Write("register", 3)),
        ("committed", CompareAndSet("register", 3, 4, applied=False)),
        ("unknown",),
        ("committed", Read("register", 3)),
    ]


def test_a_history_of_timekiller_is_read_with_its_order_of_commits(tmp_path: Path) -> None:
    first = {"tid": 7, "sid": 1, "sts": {"p": "10", "l": 0}, "cts": {"p": "20", "l": 1}}
    then = {"tid": 8, "sid": 2, "sts": {"p": 5, "l": 0}, "cts": {"p": 20, "l": 0}}
    ops = [{"t": "w", "k": 1, "v": 5}, {"t": "read", "k": 2, "v": None}]
    text = json.dumps([first | {"ops": ops}, then | {"ops": [{"t": "r", "k": 1, "v": 0}]}])
    history, transactions = _content(text, tmp_path)
    assert [(t.id, t.serial) for t in history.transactions] == [(7, 1), (8, 0)]
    assert history.initial == {1: 0, 2: 0}
    assert transactions[0] == (1, "committed", Write(1, 5), Read(2, None))
    with pytest.raises(InputError, match="transaction 0: expected a transaction of TimeKiller"):
        _content('[{"tid": 1}]', tmp_path)
    with pytest.raises(UsageError, match="timekiller is read only; write one of jsonl"):
        write(encode(history), str(tmp_path / "h.timekiller.json"))


def test_the_initial_value_of_another_tools_file_can_be_told(tmp_path: Path) -> None:
    path = tmp_path / "h.awdit"
    path.write_text("r 0 7\nw 1 3\n")
    assert decode(read(str(path))).initial == {}
    assert decode(read(str(path), reading=Reading(initial=7))).initial == {0: 7, 1: 7}


def test_a_format_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown format 'x'; use one of jsonl,"):
        read("anything", "x")


# --- There and back ---------------------------------------------------------------------------------------------------

NUMBERS = ("plume", "awdit", "dbcop-bincode", "dbcop-json", "dbcop-hist", "cobra")
SUFFIX = {entry.name: entry.suffixes[0] for entry in FORMATS}


def through(history: History, format: str, directory: Path) -> History:
    path = directory / f"h{SUFFIX[format]}"
    if format == "cobra":
        path = directory / f"h{len(list(directory.iterdir()))}.cobra"
    write(encode(history), str(path))
    # A directory without logs is only read as a history if it is called one.
    return decode(read(str(path), format if format == "cobra" else None))


def content(history: History, *, names: bool = False, times: bool = False) -> object:
    """What every format carries: sessions as lists of transactions that did something, initial values as ``None``."""
    sessions: dict[object, list[object]] = {}
    for t in history.transactions:
        key = (
            t.session if names else sorted(map(repr, {u.session for u in history.transactions})).index(repr(t.session))
        )
        ops = tuple(_spoken(op, history) for op in t.ops)
        if ops:
            sessions.setdefault(key, []).append((ops, t.status, *((t.start, t.end) if times else ())))
    return sessions


def _spoken(op: Operation, history: History) -> Operation:
    if isinstance(op, Read) and op.value == history.initial.get(op.key):
        return Read(op.key, None)
    return op


@st.composite
def numbered(draw: st.DrawFn, *, initial: bool, aborted: bool) -> History:
    """Sessions 0, 1, ... of reads and writes of numbers, each written once, keys and values above 0."""
    written: list[tuple[int, int]] = []
    transactions: list[Transaction] = []
    for session in range(draw(st.integers(0, 3))):
        was_aborted = False
        for _ in range(draw(st.integers(1, 3))):
            ops: list[Operation] = []
            for _ in range(draw(st.integers(1, 3))):
                key, reads, early = draw(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()))
                if written and reads:
                    ops.append(Read(*draw(st.sampled_from(written))))
                elif initial and early:
                    ops.append(Read(key, 0))
                else:
                    written.append((key, len(written) + 1 + 2**40 * draw(st.integers(0, 1))))
                    ops.append(Write(*written[-1]))
            # Aborted neighbours in a session become one in Plume.
            may_abort = aborted and not was_aborted
            was_aborted = draw(st.booleans()) if may_abort else False
            status = Status.ABORTED if was_aborted else Status.COMMITTED
            transactions.append(Transaction(len(transactions), session, tuple(ops), status))
    return History(tuple(transactions), dict.fromkeys(range(4), 0) if initial else {})


QUICK = settings(
    max_examples=80, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)


@pytest.mark.parametrize("format", NUMBERS)
def test_reads_and_writes_of_numbers_come_back_from_every_format(format: str, tmp_path: Path) -> None:
    @QUICK
    @given(numbered(initial=format != "awdit", aborted=format not in ("awdit", "cobra")))
    def law(history: History) -> None:
        again = through(history, format, tmp_path)
        meant = history
        if format == "dbcop-hist":
            meant = decode(
                Columns.from_jsonl(re.sub(rb'\["([rw])",(\d+)', rb'["\1","k\2"', encode(history).to_jsonl()))
            )
            meant = replace(meant, initial={f"k{key}": value for key, value in history.initial.items()})
        assert content(again) == content(meant)

    law()


ELLE = {
    "lists": "0: [a(x,1) r(y,[])]@1..4 [a(x,2) r(x,[1])]!abort@5..9 [a(y,3)]!unknown@10.. | 1: [r(x,[1]) a(3,true)]@2..6",
    "registers": '0: [w(x,1) r(y,_)]@1..4 [w(x,"2")]!abort@4..9 | 1: [r(x,1) w(3,1.5) w(y,99999999999999999999)]@4..6',
    "no times": "0: [w(x,1) r(y,_)] [w(x,2)]!abort | 1: [r(x,1)] [w(y,3)]!unknown",
    "one register": "0: [w(register,1)]@1..2 [cas(register,1,2)]@3..5 | 1: [cas(register,3,4)]!abort@2..4 [r(register,2)]@6..7",
    "several registers": "0: [cas(a,_,2)]@1..5 [cas(a,2,3)]!abort@6..7 | 1: [w(b,2)]!unknown@6..8",
    "touching": "0: [w(x,1)]@1..1 [w(x,2)]@1..1 [w(x,3)]@1..2 | 1: [r(x,1)]@1..2 [r(x,2)]@2..2",
    "nothing": "",
}


@pytest.mark.parametrize("format", ["elle-edn", "elle-json"])
@pytest.mark.parametrize("name", ELLE)
def test_operations_of_jepsen_come_back_with_their_times(name: str, format: str, tmp_path: Path) -> None:
    history = parse(ELLE[name])
    assert content(through(history, format, tmp_path), names=True, times=True) == content(
        history, names=True, times=True
    )


def test_a_failed_compare_and_set_means_what_the_option_says() -> None:
    def second(failed_cas: FailedCas) -> str:
        history = decode(read(str(SAMPLES / "cas.edn"), reading=Reading(failed_cas)))
        return render(replace(history, transactions=history.transactions[2:3]))

    assert second("aborted") == "2: 2=[cas(register,5,6)]!abort@4..6"
    assert second("compared") == "2: 2=[cas(register,5,6)!]@4..6"


def test_an_initial_value_is_nil_in_elle_and_0_in_plume(tmp_path: Path) -> None:
    history = parse("initial: x=5 | 0: [r(x,5) w(x,6)]")
    assert render(through(history, "elle-edn", tmp_path)) == "0: [r(x,_) w(x,6)]"
    assert render(through(history, "plume", tmp_path)) == "initial: 0=0 | 0: [r(0,0) w(0,6)]"


def test_keys_and_sessions_that_are_no_numbers_are_numbered_and_that_is_told(tmp_path: Path) -> None:
    columns = encode(parse("a: [w(x,1)]@1..2 | b: [r(x,1) w(y,2)]@2..3"))
    notes = write(columns, str(tmp_path / "h.plume"))
    assert notes == (
        "times are left out",
        'keys are numbered in the order of their first use: "x" is 0, "y" is 1',
        'sessions are numbered in the order of their first use: "a" is 0, "b" is 1',
    )
    assert (tmp_path / "h.plume").read_text() == "w(0,1,0,0)\nr(0,1,1,1)\nw(1,2,1,1)\n"


@pytest.mark.parametrize("suffix", [".edn.gz", ".plume.zst", ".elle.json.gz"])
def test_texts_are_packed_by_suffix(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"h{suffix}"
    write(encode(parse("0: [w(0,1)]")), str(path))
    assert path.read_bytes()[:2] in (b"\x1f\x8b", b"\x28\xb5")
    assert read(str(path)).counts().transactions == 1
