"""The directory of a run is a history at any moment: wherever its last line breaks off, what came before is read.

What breaks off belongs to a transaction of unknown outcome; nothing is in it that was not sent.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from isolde.databases import Kind, Offer, Swap, Table
from isolde.engines.record.client import Surroundings
from isolde.engines.record.journal import Journal
from isolde.engines.record.session import Session
from isolde.errors import InputError
from isolde.formats import decode, read
from isolde.formats.recording import completed
from isolde.history import CompareAndSet, Status
from isolde.workloads import WORKLOADS
from running import isolde

HEADER = '{"isolde":"history","version":1}\n'
LINE_MAX = 2_500
"""Lines longer than this are not cut at every byte: it would take long and show nothing new."""


def recording(directory: Path, *sessions: bytes, header: str = HEADER) -> Path:
    (directory / "sessions").mkdir(parents=True, exist_ok=True)
    (directory / "run.json").write_text(header)
    for number, content in enumerate(sessions):
        (directory / "sessions" / f"{number}.jsonl").write_bytes(content)
    return directory


def run(directory: Path, *options: str) -> list[bytes]:
    """The lines that a real run wrote, without the header."""
    status, _, error = isolde("run", *options, "-o", str(directory), "--json")
    assert status in (0, 1, 3), error
    return (directory / "history.jsonl").read_bytes().splitlines()[1:]


def interesting(lines: list[bytes]) -> list[bytes]:
    """One line for each sequence of operations and outcome."""
    kinds: dict[object, bytes] = {}
    for line in lines:
        content = json.loads(line)
        ops = tuple(op[0] if isinstance(op, list) else op["sql"][:6] for op in content["ops"])
        answers = tuple(op[4] for op in content["ops"] if isinstance(op, list) and op[0] == "cas")
        if len(line) <= LINE_MAX:
            kinds.setdefault((len(ops), frozenset(ops), answers, content["status"]), line)
    return list(kinds.values())


def assert_readable_wherever_cut(line: bytes, before: bytes, directory: Path) -> None:
    meant = decode(read(str(recording(directory, before + line + b"\n")))).transactions[1]
    for size in range(len(line) + 1):
        history = decode(read(str(recording(directory, before + line[:size]))))
        first, *torn = history.transactions
        assert first.status is Status.COMMITTED, size
        ops = [op for t in torn for op in t.ops]
        # Nothing is invented: only the answer of a compare-and-set or of a statement may be missing.
        assert len(ops) <= len(meant.ops), size
        for found, op in zip(ops, meant.ops, strict=False):
            if isinstance(found, CompareAndSet):
                assert isinstance(op, CompareAndSet), size
                assert (found.key, found.expected, found.new) == (op.key, op.expected, op.new), size
            elif hasattr(found, "content"):
                assert found.content["sql"] == op.content["sql"], size  # type: ignore[union-attr]
                assert found.content["params"] == op.content["params"], size  # type: ignore[union-attr]
            else:
                assert found == op, size
        if size < len(line):
            assert all(t.status is Status.UNKNOWN for t in torn), size
        else:
            assert [t.status for t in torn] == [meant.status]


BEFORE = b'{"session":99,"start":1,"ops":[["w",0,1]],"status":"committed","end":2}\n'
BEFORE_LISTS = b'{"session":99,"start":1,"ops":[["a",0,1]],"status":"committed","end":2}\n'
BEFORE_SQL = b'{"session":99,"start":1,"ops":[{"sql":"select 1","rows":[[1]]}],"status":"committed","end":2}\n'


@pytest.mark.parametrize("workload", [entry.name for entry in WORKLOADS])
def test_a_line_of_every_workload_may_break_off_at_every_byte(workload: str, tmp_path: Path) -> None:
    options = ["--workload", workload, "--transactions", "120", "--sessions", "3", "--keys", "3"]
    lines = interesting(run(tmp_path / "run", *options))
    assert lines
    for line in lines[:5]:
        before = BEFORE_LISTS if workload == "append" else BEFORE
        assert_readable_wherever_cut(line, before, tmp_path / "cut")


@pytest.mark.parametrize("workload", ["bank", "smallbank"])
def test_a_line_of_an_application_may_break_off_at_every_byte(workload: str, tmp_path: Path) -> None:
    lines = interesting(run(tmp_path / "run", "--workload", workload, "--transactions", "40", "--sessions", "2"))
    assert lines
    for line in lines[:3]:
        assert_readable_wherever_cut(line, BEFORE_SQL, tmp_path / "cut")


KINDS = [
    b'["r",10,123]',
    b'["r",10,null]',
    b'["r",10,[12,-3]]',
    b'["w",10,123]',
    b'["w",10,null]',
    b'["a",10,123]',
    b'["cas",10,0,123,true]',
    b'["cas",10,0,123,false]',
    b'["cas",10,0,123,false,45]',
]


@pytest.mark.parametrize("operation", KINDS)
@pytest.mark.parametrize("earlier", [b"", b'["r",1,0],', b'["w",1,12],'])
def test_an_operation_of_every_kind_may_break_off_at_every_byte(
    operation: bytes, earlier: bytes, tmp_path: Path
) -> None:
    lists = operation.startswith((b'["a"', b'["r",10,['))
    if lists:
        earlier = earlier.replace(b'"w"', b'"a"').replace(b"1,0]", b"1,[0]]")
    line = b'{"session":0,"start":3,"ops":[%b%b],"status":"committed","end":4}' % (earlier, operation)
    assert_readable_wherever_cut(line, BEFORE_LISTS if lists else BEFORE, tmp_path)


# --- Compare-and-sets that were sent ----------------------------------------------------------------------------------


class _Killed(BaseException):
    """As if the process were gone."""


class _Connection:
    """A database that is asked for a compare-and-set, and never answers."""

    def begin(self, offer: Offer) -> None: ...

    def read(self, _key: int) -> bytes:
        return b"0"

    def write(self, key: int, value: int) -> None: ...

    def compare_and_set(self, *_: int) -> Swap:
        raise _Killed


@pytest.mark.parametrize(("plan", "found"), [
    ([(4, 1)], [["cas"]]),
    ([(0, 0), (4, 1)], [["r", "cas"]]),
    # What was written may have taken effect although the swap did not, so that they part.
    ([(1, 0), (4, 1)], [["w"], ["cas"]]),
])  # fmt: skip
def test_a_compare_and_set_that_was_sent_is_read_though_its_answer_never_came(
    plan: list[tuple[int, int]], found: list[list[str]], tmp_path: Path
) -> None:
    directory = recording(tmp_path)
    journal = Journal(directory / "sessions" / "0.jsonl")
    shared: Any = Surroundings(None, Table("t", Kind.REGISTERS, 9), 1, 1.0, None, 0)  # type: ignore[arg-type]
    session = Session(0, journal, shared, offer=None, successors=None, believes=True)  # type: ignore[arg-type]
    session.connection = _Connection()  # type: ignore[assignment]
    with pytest.raises(_Killed):
        session.step(plan)
    lines = [json.loads(line) for line in completed((directory / "sessions" / "0.jsonl").read_bytes())]
    assert [[op[0] for op in line["ops"]] for line in lines] == found
    assert lines[-1]["ops"][-1][4] is True
    assert {line["status"] for line in lines} == {"unknown"}
    assert len({line["session"] for line in lines}) == len(lines)
    history = decode(read(str(directory)))
    assert Counter(type(op).__name__ for t in history.transactions for op in t.ops)["CompareAndSet"] == 1


def test_a_torn_line_of_20000_operations_is_completed_in_one_pass() -> None:
    """It was tried at every operation before, which took longer than anybody waits."""
    operations = b",".join(b'["w",1,%d]' % number for number in range(20_000))
    (line,) = completed(b'{"session":0,"start":1,"ops":[' + operations + b',["w",1,2')
    assert len(json.loads(line)["ops"]) == 20_000


# --- What is no recording ---------------------------------------------------------------------------------------------

WHOLE = b'{"session":0,"start":1,"ops":[],"status":"committed","end":2}\n'
DAMAGED: list[tuple[bytes, str]] = [
    (WHOLE + b"garbage\n" + WHOLE, '0.jsonl:2: a line without "start"; expected a transaction as \'isolde run\' writes it'),
    (WHOLE + b'{"session":0,"start":"x","ops":[]}\n', '0.jsonl:2: a line without "start"; expected a transaction as \'isolde run\' writes it'),
    (WHOLE + WHOLE + b'{"session":0,"start":0,"ops":[["w",1]],"end":2}\n', '0.jsonl:3: "ops[0]" is an operation that ends early; expected the value to follow'),
    (b"\0\0\0\n", '0.jsonl:1: a line without "start"; expected a transaction as \'isolde run\' writes it'),
    (b'{"start":5,\xff\n', "0.jsonl:1: not valid JSON at column 12 (key must be a string); expected one JSON object on the line"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), DAMAGED)
def test_a_damaged_line_is_named_by_its_file_and_place(content: bytes, message: str, tmp_path: Path) -> None:
    directory = recording(tmp_path / "run", content)
    status, out, error = isolde("check", str(directory))
    assert (status, out) == (2, "")
    assert error == f"isolde: {directory}/sessions/{message}\n"


@pytest.mark.parametrize("header", ["", "\n", "{}", "[]", "isolde", '{"isolde":"history"}\n{"session":1,"ops":[]}'])
def test_a_run_without_a_header_is_refused(header: str, tmp_path: Path) -> None:
    directory = recording(tmp_path, WHOLE, header=header)
    with pytest.raises(InputError) as raised:
        read(str(directory))
    found = "is empty" if not header.strip() else "is no header"
    assert (
        str(raised.value) == f'{directory}/run.json: {found}; expected one line that starts with {{"isolde": "history"'
    )


def test_a_header_that_is_wrong_is_named_as_such(tmp_path: Path) -> None:
    directory = recording(tmp_path, WHOLE, header='{"isolde":"history","version":2}')
    with pytest.raises(InputError, match=r'run\.json:1: "version" is 2; expected 1, the only version'):
        read(str(directory))


def test_what_is_no_file_among_the_sessions_is_refused(tmp_path: Path) -> None:
    directory = recording(tmp_path, WHOLE)
    os.mkfifo(directory / "sessions" / "1.jsonl")
    with pytest.raises(InputError, match=r"1\.jsonl: no regular file; expected the lines of a session"):
        read(str(directory))
