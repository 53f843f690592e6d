"""What is wrong with a file of another tool is said in one line: where, what is there, what should be."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from isolde.errors import InputError
from isolde.formats import read
from test_cli import isolde
from test_foreign_formats import BINCODE, COBRA, SAMPLES, bincode, cobra, logs

CALL = "[:append key element], [:w key value], [:insert key value], [:delete key] or [:r key value]"
KNOWN = ":txn, :read, :write, :cas, :get, :put, :acquire or :release"
KEY = "an integer, a string, a keyword or a vector"
SCALAR = "nil, a boolean, a number, a string or a keyword"
PROCESS = "an integer, or the name of a process that is no client"
LINE = "r(key,value,session,transaction) or w(...), four numbers without spaces"
HIST = "a transaction such as [x:=1 y==2], a line of dashes or a // comment"
HIST_EVENT = "x:=1, x==1 or x==?, where x is a name and 1 a number"
AWDIT = "r KEY VALUE, w KEY VALUE, or a line of dashes or equals signs"
EVENT = '{"Read": {"variable": 0, "version": 1}}, {"Write": ...}, ["r", 0, 1] or ["w", 0, 1]'
TRANSACTION = 'a transaction: {"events": [...], "committed": true or false}'


def ok(value: str) -> str:
    return "{:type :ok, :process 0, :value " + value + "}"


FAULTS: list[tuple[str, str, str]] = [
    # EDN itself.
    ("elle-edn", "{:type :ok\n", ":1: a '{' that is never closed; expected '}'"),
    ("elle-edn", "{:type :invoke}", ":1: an invocation without :process, whose completion cannot be told; expected " + PROCESS),
    ("elle-edn", "[\n", ":1: a history that is never closed; expected ']' at its end"),
    ("elle-edn", "[] {:a 1}", ":1: {:a 1}; expected the end of the history"),
    ("elle-edn", "{:a [1 }", ":1: a '}' that closes no bracket; expected ']'"),
    ("elle-edn", "{:a}", ":1: {:a}; expected a map in which every key has a value"),
    ("elle-edn", '\n{:a "b', ":2: a string that is never closed; expected a closing quote"),
    ("elle-edn", '{:a "\\q"}', ':1: the escape \\q"}; expected one that EDN has'),
    ("elle-edn", '{:a "\\ud800"}', ':1: the escape \\ud800; expected one that EDN has'),
    ("elle-edn", "{:a #_}", ":1: a #_ with nothing behind it; expected a form to leave out"),
    ("elle-edn", "{:a #b}", ":1: a tag with nothing behind it; expected the form that it belongs to"),
    ("elle-edn", "{:a " + "[" * 100, ":1: EDN that is nested too deeply; expected at most 64 levels"),
    ("elle-edn", "\n7", ":2: 7; expected an operation: a map with :type, :process and :value"),
    # Operations.
    ("elle-edn", "{:process 1.5, :type :ok}", f':1: "process" is 1.5; expected {PROCESS}'),
    ("elle-edn", "{:process nil, :type :ok}", f':1: "process" is nil; expected {PROCESS}'),
    ("elle-edn", "{:process 1, :type :okay}", ':1: "type" is :okay; expected :invoke, :ok, :fail or :info'),
    ("elle-edn", "{:process 1, :type :ok, :f :enqueue}", f':1: "f" is :enqueue, of a queue history; Isolde has no model of queues; expected {KNOWN}'),
    ("elle-edn", "{:process 1, :type :ok, :f :spin}", f':1: "f" is :spin; expected {KNOWN}'),
    ("elle-edn", "{:process 1, :type :ok, :f :transfer, :value {:from 1}}", f""":1: "f" is :transfer, of a bank history, whose transfers tell no values; run 'isolde run --workload bank', or record each transfer as a transaction of [:r account balance] and [:w account balance]; expected {KNOWN}"""),
    ("elle-edn", "{:process 1, :type :ok, :f :add, :value 3}", f':1: "f" is :add, of a set or counter history, whose additions are no writes of a key; record elements of a set as [:append key element], and the increments of a counter as [:r key value] and [:w key value]; expected {KNOWN}'),
    ("elle-edn", "{:process 1, :type :ok, :f :read, :value {0 10, 1 20}}", """:1: "value" is {0 10, 1 20}, of a bank history, whose transfers tell no values; run 'isolde run --workload bank', or record each transfer as a transaction of [:r account balance] and [:w account balance]; expected nil, a boolean, a number, a string or a keyword"""),
    ("elle-edn", "{:process 1, :type :ok, :f :read, :value #{1 2}}", ':1: "value" is #{1 2}, of a set or counter history, whose additions are no writes of a key; record elements of a set as [:append key element], and the increments of a counter as [:r key value] and [:w key value]; expected nil, a boolean, a number, a string or a keyword'),
    ("elle-edn", "{:process 1, :type :ok, :f :increment, :value 3}", f':1: "f" is :increment, of a set or counter history, whose additions are no writes of a key; record elements of a set as [:append key element], and the increments of a counter as [:r key value] and [:w key value]; expected {KNOWN}'),
    ("elle-edn", ok("[[:rp [:= 1] {1 1}]]"), ':1: "value[0]" is the predicate read [:rp [:= 1] {1 1}]; expected reads of single keys: of what a predicate did not match, registers say nothing (record the statements as SQL, and audit them or check them with a certificate)'),
    ("elle-edn", "{:process 1, :type :ok, :f :txn}", f':1: "value" is nil; expected a vector of {CALL}'),
    ("elle-edn", "{:process 1, :type :ok, :time 1.5, :value []}", ':1: "time" is 1.5; expected an integer between -2^63 and 2^63 (exclusive)'),
    ("elle-edn", ok("[[:w 1]]"), f':1: "value[0]" is [:w 1]; expected {CALL}'),
    ("elle-edn", ok("[[:r 1 nil] [:upsert 2 3]]"), f':1: "value[1]" is [:upsert 2 3]; expected {CALL}'),
    ("elle-edn", ok("[[:r x nil]]"), f':1: "value[0][1]" is x; expected {KEY}'),
    ("elle-edn", ok("[[:w 1.5 1]]"), f':1: "value[0][1]" is 1.5; expected {KEY}'),
    ("elle-edn", ok("[[:w 1 {:a 1}]]"), f':1: "value[0][2]" is {{:a 1}}; expected {SCALAR}'),
    ("elle-edn", ok("[[:r 1 #{1}]]"), f':1: "value[0][2]" is #{{1}}; expected {SCALAR}'),
    ("elle-edn", ok("[[:w 1 1/2]]"), f':1: "value[0][2]" is 1/2; expected {SCALAR}'),
    ("elle-edn", ok("[[:r 1 [1 [2]]]]"), f':1: "value[0][2][1]" is [2]; expected {SCALAR}'),
    ("elle-edn", ok("[[:append 1 1]]") + "\n" + ok("[[:w 1 1]]"), ':2: "value[0]" is an operation on registers (w, cas, reads of single values); expected only operations on lists (a, reads of arrays), as earlier in this history'),
    ("elle-edn", "{:type :invoke :process 0 :value []}\n" * 2, ':2: "process" is 0; expected a process that waits for nothing (it has since line 1)'),
    ("elle-edn", "{:type :ok, :f :cas, :process 0, :value 3}", ':1: "value" is 3; expected [from to], or [key [from to]] where there are several registers'),
    ("elle-edn", "{:type :ok, :f :write, :process 0, :value [1]}", ':1: "value" is [1]; expected a value, or [key value] where there are several registers'),
    ("elle-edn", "{:type :ok, :f :write, :process 0, :value 1}\n{:type :ok, :f :write, :process 0, :value [1 2]}", ':2: "value" is [1 2]; expected a value without a key, as earlier in this file'),
    ("elle-json", '{"a":1}', ':1: {"a":1}; expected an array of operations'),
    ("elle-json", '[\n{"a":]', ":2: not valid JSON at column 6 (expected value); expected JSON"),
    ("elle-json", '[\n\n{"type":"ok","process":0,"value":[["r","x",{}]]}]', f':3: "value[0][2]" is {{}}; expected {SCALAR}'),
    ("elle-json", "[" * 100, ":1: JSON that is nested too deeply; expected at most 64 levels"),
    # Texts of numbers.
    ("plume", "w(0,1,1,1)\nw(0, 2,1,1)", f":2: w(0, 2,1,1); expected {LINE}"),
    ("plume", "w(0,1,1,-2)", f":1: w(0,1,1,-2); expected {LINE}"),
    ("plume", "w(0,1,1,1,1)", f":1: w(0,1,1,1,1); expected {LINE}"),
    ("plume", "w(99999999999999999999,1,1,1)", f":1: w(99999999999999999999,1,1,1); expected {LINE}"),
    ("awdit", "w 0 1\nr 0", f":2: r 0; expected {AWDIT}"),
    ("awdit", "w 0 1 2", f":1: w 0 1 2; expected {AWDIT}"),
    ("awdit", "x 0 1", f":1: x 0 1; expected {AWDIT}"),
    ("dbcop-hist", "[x:=1]\nx:=1", f":2: x:=1; expected {HIST}"),
    ("dbcop-hist", "[x:=1 y=2]", f":1: y=2; expected {HIST_EVENT}"),
    ("dbcop-hist", "[x:=?]", f":1: x:=?; expected {HIST_EVENT}"),
    ("dbcop-hist", "\n[x:=1", ":2: a transaction that does not end; expected a closing bracket"),
    ("dbcop-json", "3", ':1: 3; expected an object with "data", or an array of sessions'),
    ("dbcop-json", '{"params":{}}', ':1: an object without "data"; expected an object with "data", or an array of sessions'),
    ("dbcop-json", "[[],\n3]", ':2: "data[1]" is 3; expected a session: an array of transactions'),
    ("dbcop-json", '[[{"events":[]}]]', f':1: "data[0][0]" is {{"events":[]}}; expected {TRANSACTION}'),
    ("dbcop-json", '[[{"events":[["w",0,null]],"committed":true}]]', f':1: "data[0][0].events[0]" is ["w",0,null]; expected {EVENT}'),
    ("dbcop-json", '[[{"events":[["r",-1,1]],"committed":true}]]', f':1: "data[0][0].events[0]" is ["r",-1,1]; expected {EVENT}'),
]  # fmt: skip


def refusal(path: Path, format: str | None) -> str:
    with pytest.raises(InputError) as raised:
        read(str(path), format)
    message = str(raised.value)
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


@pytest.mark.parametrize(("format", "text", "message"), FAULTS)
def test_a_fault_is_named_by_line_place_and_reason(format: str, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "h"
    path.write_text(text, encoding="utf-8")
    assert refusal(path, format) == message


@pytest.mark.parametrize("format", ["elle-edn", "elle-json", "dbcop-hist", "dbcop-json"])
def test_what_is_not_utf8_is_named_by_its_byte(format: str, tmp_path: Path) -> None:
    path = tmp_path / "h"
    path.write_bytes(b"\n\xff")
    assert refusal(path, format) == ":2: byte 1 is not UTF-8; expected a text"


EVENTS = 40 + 3 * 8 + len("2022-07-05T12:23:43.032406225+08:00" + "2022-07-05T12:23:44+08:00") + 24


BINARY_FAULTS: list[tuple[bytes, str]] = [
    (BINCODE[:-1], f": the file ends at byte {len(BINCODE) - 1}, inside whether the transaction succeeded that starts at byte {len(BINCODE) - 1}; expected 1 bytes"),
    (bincode([[([(2, 0, 0, 1)], 1)]]), f": byte {EVENTS} is 2; expected 0 or 1: whether the event is a write"),
    (struct.pack("<6Q", 1, 2, 3, 4, 5, 2**63), f": the file ends at byte 48, inside info that starts at byte 48; expected {2**63} bytes"),
    (struct.pack("<6Q", 1, 2, 3, 4, 5, 1) + b"\xff", ": bytes from 48 are not UTF-8; expected a text: info"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BINARY_FAULTS)
def test_a_fault_in_bincode_is_named_by_its_byte(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "h.bincode"
    path.write_bytes(content)
    assert refusal(path, "dbcop-bincode") == message


LOG_FAULTS: list[tuple[bytes, str]] = [
    (b"X", ': "T1.log, byte 0" is X; expected S: the start of a transaction'),
    (cobra(("S", 1)) + b"\0", ': "T1.log, byte 9" is 0x00; expected R, W or C: a read, a write or a commit'),
    (cobra(("S", 1), ("C", 2)), ': "T1.log, byte 9" is commits 2; expected the commit of 1'),
    (cobra(("S", 1)), ': "T1.log, byte 9" is the file ends inside transaction 1; expected its commit'),
    (cobra(("S", 1), ("W", 1)), ': "T1.log, byte 9" is a record that breaks off; expected numbers of eight bytes'),
    (cobra(("S", 1, 9), ("C", 1, 8)), ': "T1.log, byte 17" is ends at 8; expected a time not before 9'),
    (cobra(("S", 1), ("C", 1)) * 2, ': "id" is 1; expected an id that no other transaction of the file has'),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), LOG_FAULTS)
def test_a_fault_in_a_log_is_named_by_file_and_byte(content: bytes, message: str, tmp_path: Path) -> None:
    assert refusal(logs(tmp_path / "c", {"T1.log": content}), None) == message


# --- The program ------------------------------------------------------------------------------------------------------

SKEW = "w(0,1,1,1)\nr(1,0,1,1)\nw(1,2,2,2)\nr(0,0,2,2)\n"


def test_standard_input_is_told_by_content_as_files_are() -> None:
    for text in (SKEW, "initial: x=0 y=0\na: [r(x,0) w(y,1)]\nb: [r(y,0) w(x,2)]\n"):
        ran = isolde("check", "--level", "ser", "-", stdin=text)
        assert ran.status == 1, ran
        assert "write-skew" in ran.out


def test_an_option_overrides_the_content(tmp_path: Path) -> None:
    path = tmp_path / "h"
    path.write_text(SKEW)
    assert isolde("check", "--format", "plume", path).status == 1
    ran = isolde("check", "--format", "awdit", path)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == f"isolde: {path}:1: w(0,1,1,1); expected {AWDIT}\n"


def test_a_conversion_names_both_formats_and_tells_what_is_left_out(tmp_path: Path) -> None:
    ran = isolde("convert", "--from", "elle-edn", "--to", "plume", SAMPLES / "registers.edn", "-")
    assert (ran.status, ran.err) == (2, "isolde: standard output: transaction 2 cannot be written as plume: its values are numbers from 0 to 2^63 - 1, not -1.5\n")  # fmt: skip
    ran = isolde("convert", "--to", "elle-edn", "-", "-", stdin="s: [w(x,1)]@1..2\n")
    assert ran.out == (
        '{:type :invoke, :f :txn, :value [[:w "x" 1]], :time 1, :process 0, :index 0}\n'
        '{:type :ok, :f :txn, :value [[:w "x" 1]], :time 2, :process 0, :index 1}\n'
    )
    assert ran.err == 'isolde: -: sessions are numbered in the order of their first use: "s" is 0\n'
    ran = isolde("convert", logs(tmp_path / "c", COBRA), tmp_path / "h.jsonl")
    assert (ran.status, ran.out, ran.err) == (0, "", "")


@pytest.mark.parametrize("format", ["elle-edn", "elle-json", "plume", "dbcop-bincode", "dbcop-json", "dbcop-hist"])
def test_a_generated_write_skew_is_found_in_every_format(format: str, tmp_path: Path) -> None:
    source, target = tmp_path / "h.jsonl", tmp_path / "h"
    isolde("generate", "--inject", "write-skew", "--transactions", 300, "-o", source)
    assert isolde("convert", "--to", format, source, target).status == 0
    ran = isolde("check", "--level", "si", "--level", "ser", target)
    assert "snapshot-isolation: satisfied" in ran.out
    assert "serializable: VIOLATED by write-skew" in ran.out
