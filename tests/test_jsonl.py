"""JSON Lines: what is no history is refused by line, field and reason, and what is one may be spelled in several ways."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from isolde._core import Columns
from isolde.engines.check import check
from isolde.errors import MalformedHistory
from isolde.findings import Verdict
from isolde.formats import decode, encode, read
from isolde.history import History, Key, Sql, Value, Write
from isolde.levels import Level

# --- What is refused, and how -----------------------------------------------------------------------------------------

HEAD = '{"isolde":"history","version":1}'
NAME = "a string or an integer"
SCALAR = "null, an integer, a string, a boolean or a finite decimal"
TIME = "an integer on the run's clock, between -2^63 and 2^63 (exclusive)"
PAIRS = "an object from key to value, or an array of [key, value] pairs"
CHAIN = "[key, [oldest value, ..., newest value]]"
LONG = "a finite decimal of at most 1,000 digits and an exponent within 9,999"
ONE_LINE = "one JSON object on the line"
NINES = "9" * 1001


def op(text: str) -> str:
    return f'{{"session":1,"ops":[{text}]}}'


MALFORMED: dict[str, tuple[str, str]] = {
    # What a line is.
    "no object": ("[1]", "1: [1]; expected a JSON object: a transaction, a header or a versions line"),
    "no JSON": ("{]", f"1: not valid JSON at column 2 (key must be a string); expected {ONE_LINE}"),
    "two objects": ("{} {}", f"1: not valid JSON at column 4 (trailing characters); expected {ONE_LINE}"),
    "not UTF-8 in a name": ('{"session":"\udcff","ops":[]}', f"1: not valid JSON at column 13 (invalid unicode code point); expected {ONE_LINE}"),
    "not UTF-8 in a field that is kept": ('{"session":1,"ops":[],"k":"\udcff"}', '1: "k" is bytes that are not UTF-8; expected UTF-8'),
    # Transactions.
    "no ops": ('{"session":1}', '1: no field "ops"; expected the list of the transaction\'s operations'),
    "no session": ('{"ops":[]}', '1: no field "session"; expected the session\'s name, a string or an integer'),
    "nothing at all": ("{}", '1: no field "ops"; expected the list of the transaction\'s operations'),
    "a field twice": ('{"session":1,"session":1,"ops":[]}', '1: the field "session" appears twice; expected each field once'),
    "id null": ('{"id":null,"session":1,"ops":[]}', f'1: "id" is null; expected {NAME}'),
    "id decimal": ('{"id":1.5,"session":1,"ops":[]}', f'1: "id" is 1.5; expected {NAME}'),
    "id too long": (f'{{"id":{NINES},"session":1,"ops":[]}}', f'1: "id" is {"9" * 60}…; expected {NAME}'),
    "session list": ('{"session":[1],"ops":[]}', f'1: "session" is [1]; expected {NAME}'),
    "status misspelled": ('{"session":1,"status":"commited","ops":[]}', '1: "status" is "commited"; expected "committed", "aborted" or "unknown"'),
    "status number": ('{"session":1,"status":1,"ops":[]}', '1: "status" is 1; expected "committed", "aborted" or "unknown"'),
    "start text": ('{"session":1,"start":"1","ops":[]}', f'1: "start" is "1"; expected {TIME}'),
    "start decimal": ('{"session":1,"start":1.5,"ops":[]}', f'1: "start" is 1.5; expected {TIME}'),
    "end too large": ('{"session":1,"end":9223372036854775808,"ops":[]}', f'1: "end" is 9223372036854775808; expected {TIME}'),
    "end too small": ('{"session":1,"end":-9223372036854775808,"ops":[]}', f'1: "end" is -9223372036854775808; expected {TIME}'),
    "end before start": ('{"session":1,"start":5,"end":4,"ops":[]}', '1: "end" is 4; expected a time not before "start" (5)'),
    "serial text": ('{"session":1,"serial":"1","ops":[]}', '1: "serial" is "1"; expected a number: the place in the serialization order'),
    "serial too long": (f'{{"session":1,"serial":{NINES},"ops":[]}}', f'1: "serial" is {"9" * 60}…; expected {LONG}'),
    "ops object": ('{"session":1,"ops":{}}', '1: "ops" is {}; expected an array of operations'),
    "a header's field": ('{"session":1,"initial":{},"ops":[]}', "1: a field of a header or a versions line stands among those of a transaction; expected such a line to start with that field"),
    # Operations.
    "op number": (op("1"), '1: "ops[0]" is 1; expected an operation: an array such as ["r", "x", 1], or an object'),
    "op empty": (op("[]"), '1: "ops[0]" is []; expected an operation such as ["r", "x", 1]'),
    "op name unknown": (op('["r","x",1],["read","x",1]'), '1: "ops[1][0]" is "read"; expected "r", "w", "a" or "cas"'),
    "op name number": (op('[1,"x",1]'), '1: "ops[0][0]" is 1; expected "r", "w", "a" or "cas"'),
    "op without key": (op('["r"]'), '1: "ops[0]" is an operation that ends early; expected the key to follow'),
    "op without value": (op('["r","x"]'), '1: "ops[0]" is an operation that ends early; expected the value to follow'),
    "op key null": (op('["r",null,1]'), f'1: "ops[0][1]" is null; expected {NAME}'),
    "op key decimal": (op('["r",1e2,1]'), f'1: "ops[0][1]" is 1e2; expected {NAME}'),
    "op too long": (op('["w","x",1,2]'), '1: "ops[0]" is 2; expected the end of the operation'),
    "write of a list": (op('["w","x",[1]]'), f'1: "ops[0][2]" is [1]; expected {SCALAR}'),
    "append of an object": (op('["a","x",{"b":1}]'), f'1: "ops[0][2]" is {{"b":1}}; expected {SCALAR}'),
    "list in a list": (op('["r","x",[1,[2]]]'), f'1: "ops[0][2][1]" is [2]; expected {SCALAR}'),
    "number too long": (op(f'["w","x",{NINES}]'), f'1: "ops[0][2]" is {"9" * 60}…; expected {LONG}'),
    "exponent too large": (op('["w","x",1e10000]'), f'1: "ops[0][2]" is 1e10000; expected {LONG}'),
    "not a number": (op('["w","x",NaN]'), f"1: not valid JSON at column 30 (expected value); expected {ONE_LINE}"),
    "cas without new": (op('["cas","x",1]'), '1: "ops[0]" is an operation that ends early; expected the new value to follow'),
    "cas without applied": (op('["cas","x",1,2]'), '1: "ops[0]" is an operation that ends early; expected whether it was applied to follow'),
    "cas applied null": (op('["cas","x",1,2,null]'), '1: "ops[0][4]" is null; expected true or false: whether it was applied'),
    "cas applied with current": (op('["cas","x",1,2,true,3]'), '1: "ops[0]" is 3; expected the end of the operation'),
    "cas failed on what it expected": (op('["cas","x",1,2,false,1]'), '1: "ops[0][5]" is 1; expected a current value that differs from the expected one, since the operation failed'),
    "statement of no kind": (op('{"rows":[]}'), '1: "ops[0]" is an object without "scan", "sql" or "call"; expected a scan, an SQL statement or a call'),
    "scan without rows": (op('{"scan":{}}'), '1: "ops[0]" is a scan without "rows"; expected the rows that came back'),
    "scan text": (op('{"scan":"t","rows":[]}'), '1: "ops[0].scan" is "t"; expected an object that says what was asked'),
    "sql number": (op('{"sql":1}'), '1: "ops[0].sql" is 1; expected the statement\'s text'),
    "sql params": (op('{"sql":"","params":1}'), '1: "ops[0].params" is 1; expected an array or object of parameters'),
    "sql rows": (op('{"sql":"","rows":{}}'), '1: "ops[0].rows" is {}; expected an array of rows, or null'),
    "sql count": (op('{"sql":"","count":"1"}'), '1: "ops[0].count" is "1"; expected the number of affected rows, or null'),
    # The header.
    "isolde": ('{"isolde":"x"}', '1: "isolde" is "x"; expected "history"'),
    "version 2": ('{"isolde":"history","version":2}', '1: "version" is 2; expected 1, the only version that this program reads'),
    "header without isolde": ('{"version":1}', '1: a header without "isolde"; expected {"isolde": "history", "version": 1, ...}'),
    "header field twice": ('{"isolde":"history","meta":1,"meta":2}', '1: the field "meta" appears twice; expected each field once'),
    "header on line 2": (f"{op('')}\n{HEAD}", "2: a header line in the middle of the file; expected the header only on line 1"),
    "initial number": ('{"isolde":"history","initial":1}', f'1: "initial" is 1; expected {PAIRS}'),
    "initial list of numbers": ('{"isolde":"history","initial":[1]}', f'1: "initial" is 1; expected {PAIRS}'),
    "initial empty pair": ('{"isolde":"history","initial":[[]]}', f'1: "initial" is an empty pair; expected {PAIRS}'),
    "initial key alone": ('{"isolde":"history","initial":[["x"]]}', f'1: "initial" is a pair without a value; expected {PAIRS}'),
    "initial triple": ('{"isolde":"history","initial":[["x",1,2]]}', '1: "initial" is 2; expected the end of the pair'),
    "initial key null": ('{"isolde":"history","initial":[[null,1]]}', f'1: "initial" is null; expected {NAME}'),
    "initial twice": ('{"isolde":"history","initial":{"x":1,"x":2}}', '1: "initial" is "x" twice; expected each key once'),
    "initial object": ('{"isolde":"history","initial":{"x":{}}}', f'1: "initial.x" is {{}}; expected {SCALAR}'),
    "initial key with a line end": ('{"isolde":"history","initial":{"a\\nb":{}}}', f'1: "initial.a\ufffdb" is {{}}; expected {SCALAR}'),
    # Version chains.
    "versions number": ('{"versions":1}', f'1: "versions" is 1; expected {CHAIN}'),
    "versions empty": ('{"versions":[]}', f'1: "versions" is []; expected {CHAIN}'),
    "versions key null": ('{"versions":[null,[]]}', f'1: "versions[0]" is null; expected {NAME}'),
    "versions key alone": ('{"versions":["x"]}', f'1: "versions" is a key alone; expected {CHAIN}'),
    "versions values": ('{"versions":["x",1]}', '1: "versions[1]" is 1; expected an array of values, oldest first'),
    "versions of lists": ('{"versions":["x",[1,[2]]]}', f'1: "versions[1][1]" is [2]; expected {SCALAR}'),
    "versions triple": ('{"versions":["x",[1],2]}', f'1: "versions" is 2; expected {CHAIN}'),
    "versions and more": ('{"versions":["x",[1]],"k":1}', '1: the field "k" on a versions line; expected nothing but "versions"'),
    # The whole file.
    "id twice": ('{"id":"a","session":1,"ops":[]}\n{"id":"a","session":2,"ops":[]}', '2: "id" is "a"; expected an id that no other transaction of the file has (line 1 has it already)'),
    "id that is a position": ('{"id":1,"session":1,"ops":[]}\n{"session":2,"ops":[]}', '2: "id" is 1; expected an id that no other transaction of the file has (line 1 has it already)'),
    "serial tie": ('{"session":1,"serial":2,"ops":[]}\n\n{"session":1,"serial":2.0,"ops":[]}', '3: "serial" is 2; expected a place of its own in the serialization order (transaction 0 has it)'),
    "registers and lists": (op('["w","x",1]') + "\n" + op('["r","y",1],["a","x",1]'), '2: "ops[1]" is an operation on lists (a, reads of arrays); expected only operations on registers (w, cas, reads of single values), as earlier in this history'),
    "lists and registers": (op('["r","x",[]],["r","x",1]'), '1: "ops[1]" is an operation on registers (w, cas, reads of single values); expected only operations on lists (a, reads of arrays), as earlier in this history'),
    "a list among the initial values of registers": ('{"isolde":"history","initial":{"x":0,"log":[]}}\n' + op('["w","x",1]'), '1: "initial" is a list for the key "log"; expected a single value, because operations are on registers (w, cas, reads of single values): a history has one kind of keys'),
    "a list of pairs with a list": ('{"isolde":"history","initial":[[1,[5]]]}\n' + op('["cas",2,null,1,true]'), '1: "initial" is a list for the key 1; expected a single value, because operations are on registers (w, cas, reads of single values): a history has one kind of keys'),
    "a single value among lists": ('{"isolde":"history","initial":{"x":[],"y":0}}\n' + op('["a","x",1]'), '1: "initial" is a single value for the key "y"; expected a list, because operations are on lists (a, reads of arrays): a history has one kind of keys'),
    "initial values of both kinds": ('{"isolde":"history","initial":{"x":null,"y":0,"z":[]}}\n' + op('["r","x",null]'), '1: "initial" is a list for the key "z"; expected a single value, because that of "y" is a single value: a history has one kind of keys'),
    "initial values and SQL": ('{"isolde":"history","initial":{"x":0}}\n' + op('{"sql":""}'), '1: "initial" is a single value for the key "x"; expected no initial value, because operations are on SQL tables (sql): a history has one kind of keys'),
    "SQL and registers": (op('{"sql":""},["w","x",1]'), '1: "ops[1]" is an operation on registers (w, cas, reads of single values); expected only operations on SQL tables (sql), as earlier in this history'),
}  # fmt: skip


def refusal(text: str | bytes) -> str:
    """What the reader says to a text that is no history."""
    data = text if isinstance(text, bytes) else (text + "\n").encode(errors="surrogateescape")
    with pytest.raises(MalformedHistory) as raised:
        Columns.from_jsonl(data, "h.jsonl")
    return str(raised.value)


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_line_is_refused_by_line_field_and_reason(name: str) -> None:
    text, message = MALFORMED[name]
    assert refusal(text) == f"h.jsonl:{message}"


@pytest.mark.parametrize(
    "cut", ['{"session":1,"op', '{"session":1,"ops":[["r","x"', "{", '{"session":1,"ops":[]', '{"session":"a']
)
def test_a_truncated_last_line_says_how_many_transactions_came_before_it(cut: str) -> None:
    assert refusal((HEAD + "\n" + (op("") + "\n") * 2 + cut).encode()) == (
        "h.jsonl:4: a truncated last line; expected a complete JSON object; 2 transactions came before it"
        " (delete this line to keep them)"
    )


def test_an_error_counts_the_transactions_before_it() -> None:
    with pytest.raises(MalformedHistory) as raised:
        Columns.from_jsonl(f"{op('')}\n{op('')}\n1\n".encode(), "h.jsonl")
    assert (raised.value.line, raised.value.field, raised.value.transactions_before) == (3, "", 2)


# --- What is accepted -------------------------------------------------------------------------------------------------


def accepted(text: str | bytes) -> History:
    """What the reader makes of a text."""
    return decode(Columns.from_jsonl(text if isinstance(text, bytes) else text.encode(), "h.jsonl"))


def test_what_is_absent_fits_every_kind_of_keys() -> None:
    head = '{"isolde":"history","initial":{"x":null}}'
    for used in ('["w","y",1]', '["a","y",1]', '{"sql":""}', '["r","x",null]'):
        assert accepted(f"{head}\n{op(used)}").initial == {"x": None}


def test_a_line_of_100000_unknown_fields_is_read() -> None:
    """Each was copied for each that followed, which took minutes."""
    fields = ",".join(f'"f{i}":{i}' for i in range(100_000))
    (transaction,) = accepted(f'{{"isolde":"history",{fields}}}\n{{"session":1,{fields},"ops":[]}}').transactions
    assert len(transaction.extra) == 100_000


def test_a_history_of_50000_lists_with_initial_values_is_decided() -> None:
    """What a key starts with was looked for among all others, for every key."""
    initial = ",".join(f'"k{i}":[{i}]' for i in range(50_000))
    reads = "\n".join(op(f'["r","k{i}",[{i}]]') for i in range(50_000))
    columns = Columns.from_jsonl(f'{{"isolde":"history","initial":{{{initial}}}}}\n{reads}\n'.encode())
    assert [f.verdict for f in check(columns, [Level.SERIALIZABLE]).findings] == [Verdict.SATISFIED]


def test_blank_lines_are_skipped() -> None:
    assert accepted(f"{HEAD}\n\n  \t\r\n{op('')}\n\n") == accepted(f"{HEAD}\n{op('')}")


def test_a_last_line_needs_no_line_end() -> None:
    assert accepted(op("")) == accepted(op("") + "\n") == accepted(op("") + "\r\n")


def test_a_byte_order_mark_is_skipped() -> None:
    assert accepted(b"\xef\xbb\xbf" + HEAD.encode()) == accepted(HEAD)


def test_the_empty_file_is_the_empty_history() -> None:
    assert accepted("") == accepted("\n \n") == History(())


def test_a_missing_id_is_the_position_in_the_file() -> None:
    history = accepted(f'{HEAD}\n{op("")}\n{{"versions":["x",[]]}}\n{{"id":"b","session":1,"ops":[]}}\n{op("")}')
    assert [t.id for t in history.transactions] == [0, "b", 2]


def test_unknown_fields_are_kept() -> None:
    history = accepted('{"isolde":"history","k":[1],"meta":null}\n{"session":1,"tag":{"a":1.50},"ops":[]}')
    assert history.extra == {"k": [1]}
    assert history.transactions[0].extra == {"tag": {"a": Decimal("1.50")}}


@pytest.mark.parametrize("name", ["id", "session", "status", "start", "end", "ops", "serial", "snapshot", "versions"])
def test_an_unknown_field_of_the_header_keeps_its_name_even_if_transactions_have_it_too(name: str) -> None:
    assert accepted(f'{{"isolde":"history","{name}":5}}').extra == {name: 5}


def test_integer_keys_in_initial_are_spelled_as_strings() -> None:
    def initial(used: str) -> dict[Key, Value]:
        return dict(accepted(f'{{"isolde":"history","initial":{{"1":5}}}}\n{op(used)}').initial)

    assert initial('["r",1,5]') == {1: 5}
    assert initial('["r","1",5]') == {"1": 5}
    assert initial('["r","1",5],["r",1,null]') == {"1": 5}
    assert initial('["r",2,5]') == {"1": 5}


def test_integer_keys_in_initial_may_be_given_in_pairs() -> None:
    assert accepted('{"isolde":"history","initial":[[1,5],["1",6]]}').initial == {1: 5, "1": 6}


def test_numbers_are_one_value_however_they_are_spelled() -> None:
    history = accepted(
        op('["w","x",10e-1],["w","x",1.0],["w","x",100000000000000000000],["w","x",1e20],["w","x",-0.0]')
    )
    assert [o.value for o in history.transactions[0].ops if isinstance(o, Write)] == [1, 1, 10**20, 10**20, 0]


def test_one_and_its_text_and_true_are_different() -> None:
    history = accepted(op('["w","x",1],["w","x","1"],["w","x",true]'))
    # Python takes 1 for True; their texts differ.
    assert repr(history.transactions[0].ops) == repr((Write("x", 1), Write("x", "1"), Write("x", True)))


@pytest.mark.parametrize("blank", ["\r", "\t", " "])
def test_blanks_inside_a_statement_do_no_harm(blank: str) -> None:
    history = accepted(op(f'{{"sql":"a",{blank}"rows":[{blank}]}}'))
    assert history.transactions[0].ops == (Sql({"sql": "a", "rows": []}),)


@pytest.mark.parametrize("number", ["1e999", "1e-999", "1e99999999999999999999", "9" * 4000])
def test_numbers_that_are_not_interpreted_do_no_harm(number: str) -> None:
    try:
        columns = Columns.from_jsonl(f'{{"isolde":"history","meta":{number}}}\n'.encode())
    except MalformedHistory:
        return
    assert encode(decode(columns)).counts() == columns.counts()


def test_a_large_file_is_read_the_same_on_one_and_on_many_threads(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    texts = (f'{{"session":"s{i % 97}","k":{i},"ops":[["r","k{i % 1013}",[{i},"v{i}"]]]}}\n' for i in range(120_000))
    path.write_text('{"isolde":"history","initial":{"k1":[1]}}\n' + "".join(texts), encoding="utf-8")
    one, many = Columns.read(str(path), threads=1), Columns.read(str(path), threads=4)
    assert one.to_jsonl() == many.to_jsonl()
    assert many.lines([0, 119_999]) == [2, 120_001]


def test_the_line_of_an_error_is_right_in_a_large_file(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    path.write_text((op('["w","x",1]') + "\n") * 150_000 + op("1"), encoding="utf-8")
    with pytest.raises(MalformedHistory) as raised:
        read(str(path))
    assert (raised.value.line, raised.value.transactions_before) == (150_001, 150_000)
