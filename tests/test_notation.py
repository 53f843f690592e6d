"""The short notation: what each form means, how it is printed, and where a text that is none goes wrong."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from isolde.errors import InputError, IsoldeError, MalformedNotation
from isolde.formats import encode, read
from isolde.history import (
    Append,
    CompareAndSet,
    History,
    Operation,
    Read,
    Scan,
    Sql,
    Status,
    Transaction,
    VersionChain,
    Write,
    parse,
    render,
)

OPERATIONS: dict[str, Operation] = {
    "r(x,1)": Read("x", 1),
    "r(x,_)": Read("x", None),
    "r(x,[])": Read("x", ()),
    "r(x,[1,a,_,true])": Read("x", (1, "a", None, True)),
    "r(7,-1)": Read(7, -1),
    'r("a b","x\\ny")': Read("a b", "x\ny"),
    'r("true","null")': Read("true", "null"),
    'r("7","_")': Read("7", "_"),
    "r(k.1-b_c,word)": Read("k.1-b_c", "word"),
    "w(x,1)": Write("x", 1),
    "w(x,_)": Write("x", None),
    "w(x,false)": Write("x", False),
    "w(x,1.5)": Write("x", Decimal("1.5")),
    "w(x,1E-30)": Write("x", Decimal("1E-30")),
    "w(x,123456789012345678901234567890)": Write("x", 123456789012345678901234567890),
    "a(x,1)": Append("x", 1),
    "a(x,_)": Append("x", None),
    "cas(x,1,2)": CompareAndSet("x", 1, 2, applied=True),
    "cas(x,_,2)": CompareAndSet("x", None, 2, applied=True),
    "cas(x,1,2)!": CompareAndSet("x", 1, 2, applied=False),
    "cas(x,1,2)!3": CompareAndSet("x", 1, 2, applied=False, current=(3,)),
    "cas(x,1,2)!_": CompareAndSet("x", 1, 2, applied=False, current=(None,)),
    '{"scan":{"t":1},"rows":[]}': Scan({"scan": {"t": 1}, "rows": []}),
    '{"sql":"select 1","rows":[[1]]}': Sql({"sql": "select 1", "rows": [[1]]}),
    '{"sql":"a","params":[1.5]}': Sql({"sql": "a", "params": [Decimal("1.5")]}),
}

T = Transaction
HISTORIES: dict[str, History] = {
    "": History(()),
    "s1: []": History((T(0, "s1", ()),)),
    "s1: [] [] | s2: []": History((T(0, "s1", ()), T(1, "s1", ()), T(2, "s2", ()))),
    "7: []": History((T(0, 7, ()),)),
    '"s 1": []': History((T(0, "s 1", ()),)),
    '"true": []': History((T(0, "true", ()),)),
    "s1: t1=[] 5=[]": History((T("t1", "s1", ()), T(5, "s1", ()))),
    "s1: []!abort | s2: []!unknown": History((T(0, "s1", (), Status.ABORTED), T(1, "s2", (), Status.UNKNOWN))),
    "s1: []@1..5 []@-2.. []!abort@..9": History(
        (T(0, "s1", (), start=1, end=5), T(1, "s1", (), start=-2), T(2, "s1", (), Status.ABORTED, end=9))
    ),
    'initial: x=0 7=_ "a b"=[1,2] | s1: []': History((T(0, "s1", ()),), {"x": 0, 7: None, "a b": (1, 2)}),
    "versions: x=[0,1,5] | versions: x=[] | s1: []": History(
        (T(0, "s1", ()),), versions=(VersionChain("x", (0, 1, 5)), VersionChain("x", ()))
    ),
    '"initial": [r(x,1)]': History((T(0, "initial", (Read("x", 1),)),)),
    '"initial": t=[w(x,1)]': History((T("t", "initial", (Write("x", 1),)),)),
    '"versions": t=[a(x,1)]': History((T("t", "versions", (Append("x", 1),)),)),
}

SPELLINGS: dict[str, str] = {
    "  s1 :[ r( x , 1 )w(x,2) ] !abort": "s1: [r(x,1) w(x,2)]!abort",
    "s1: [r(x,1)]\ns2: []\n": "s1: [r(x,1)] | s2: []",
    "# a comment\ns1: [r(x,1)] # and one\n# s2: []\n": "s1: [r(x,1)]",
    "s1: [] | s2: [] | s1: []": "s1: [] 2=[] | s2: 1=[]",
    "s1: [] || s2: []|": "s1: [] | s2: []",
    "s1: [r(x,null) w(x,1.0) w(x,1e2)]": "s1: [r(x,_) w(x,1) w(x,100)]",
    's1: [r("x","word")]\r\ns2: []': "s1: [r(x,word)] | s2: []",
    "s1: 0=[] t=[]": "s1: [] t=[]",
    "initial: x=0 y=1\ninitial: x=2\n": "initial: x=2 y=1",
}

ERRORS: dict[str, str] = {
    "s1": "1: column 3 has the end of the line; expected ':'",
    "s1: [r(x,1)": "1: column 12 has no operation; expected r(key,value), w(key,value), a(key,element) or cas(key,expected,new)",
    "s1: r(x,1)": "1: column 6 has '(x,1)'; expected '='",
    "s1: [q(x,1)]": "1: column 7 has no operation; expected r(key,value), w(key,value), a(key,element) or cas(key,expected,new)",
    "s1: [r x]": "1: column 8 has 'x]'; expected '('",
    "s1: [r(x)]": "1: column 9 has ')]'; expected ','",
    "s1: [r(x,)]": "1: column 10 has ')]'; expected a value",
    "s1: [r(x,1]": "1: column 11 has ']'; expected ')'",
    "s1: [r(_,1)]": "1: column 9 has _ is no name; expected a key",
    "s1: [r(true,1)]": "1: column 12 has true is no name; expected a key",
    "s1: [r(1.5,1)]": "1: column 11 has 1.5 is no name; expected a key",
    "s1: [w(x,[1])]": "1: column 13 has the list [1]; expected a single value",
    "s1: [r(x,[[1]])]": "1: column 11 has a list in a list; expected a single value",
    "s1: [r(x,[1 2])]": "1: column 13 has '2])]'; expected ','",
    "s1: [cas(x,1)]": "1: column 13 has ')]'; expected ','",
    's1: [r(x,"a)]': "1: column 10 has not JSON; expected a JSON string or object",
    's1: [{"sql":]': "1: column 6 has not JSON; expected a JSON string or object",
    "s1: []\n\ns2: [r(x,1) %]": (
        "3: column 13 has no operation; expected r(key,value), w(key,value), a(key,element) or cas(key,expected,new)"
    ),
    "s1: []!abrt": "1: column 7 has '!abrt'; expected a transaction such as [r(x,0) w(x,1)]",
    "s1: []@1": "1: column 9 has the end of the line; expected '..'",
    "s1: [] | : []": "1: column 10 has ': []'; expected a session's name, such as s1",
    "s1: t=[] t=[]": "1: column 14 has two transactions are called 't'; expected a name for each",
    "s1: 1=[] []": "1: column 12 has two transactions are called 1; expected a name for each",
    "versions: x=1": "1: column 14 has 1; expected a list of versions such as [0,1,5]",
    "initial: x=0 y": "1: column 15 has the end of the line; expected '='",
    f"s1: [w(x,{'9' * 1001})]": "1: column 1011 has a number of more than 1,000 digits; expected a shorter one",
    "?": "1: column 1 has '?'; expected a session's name, such as s1",
}

# Numbers and characters that the parts below the parser refuse in their own ways.
UNSAYABLE = (
    "s1: [w(x,1e99999999999999999999)]",
    "s1: [w(x,1e-99999999999999999999)]",
    f"s1: []@{'9' * 5000}..",
    f"s1: []@1..{'9' * 5000}",
    f's1: [{{"sql":"a","params":[{"9" * 5000}]}}]',
    's1: [w(x,"\\ud800")]',
    '"\\ud800": []',
    's1: [{"sql":"\\ud800"}]',
    's1: [{"sql":NaN}]',
    "s1: [" + '{"scan":' * 2000 + "1",
    "s1: [r(x," + "[" * 5000,
)


@pytest.mark.parametrize("text", OPERATIONS)
def test_an_operation_is_read_and_printed(text: str) -> None:
    history = History((Transaction(0, "s", (OPERATIONS[text],)),))
    assert parse(f"s: [{text}]") == history
    assert render(history) == f"s: [{text}]"


@pytest.mark.parametrize("text", HISTORIES)
def test_a_history_is_read_and_printed(text: str) -> None:
    assert parse(text) == HISTORIES[text]
    assert parse(render(HISTORIES[text])) == HISTORIES[text]
    assert render(HISTORIES[text]) == text


@pytest.mark.parametrize("text", HISTORIES)
def test_a_history_may_have_a_line_a_session(text: str) -> None:
    assert parse(render(HISTORIES[text], separator="\n")) == HISTORIES[text]


@pytest.mark.parametrize(("text", "plain"), SPELLINGS.items())
def test_a_history_may_be_spelled_in_other_ways(text: str, plain: str) -> None:
    assert render(parse(text)) == plain


def test_true_and_one_are_read_as_different_values() -> None:
    ops = parse("s: [r(x,true) r(x,1)]").transactions[0].ops
    assert [type(op.value) for op in ops if isinstance(op, Read)] == [bool, int]


@pytest.mark.parametrize("text", ERRORS, ids=lambda text: text[:30])
def test_an_error_says_where_it_is_and_what_was_expected(text: str) -> None:
    with pytest.raises(MalformedNotation) as raised:
        parse(text)
    assert str(raised.value) == f"notation:{ERRORS[text]}"


@pytest.mark.parametrize("text", UNSAYABLE, ids=lambda text: text[:40])
def test_what_no_history_can_hold_is_refused_and_nothing_else_happens(text: str) -> None:
    with pytest.raises(IsoldeError):
        encode(parse(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# a comment\n\ninitial: x=0 log=[]\na: [w(x,1)]", '3: "initial" is a list for the key "log"; expected a single value, '),
        ("initial: x=[] y=0\na: [a(x,1)]", '1: "initial" is a single value for the key "y"; expected a list, '),
        ("a: [r(x,_)] [w(x,1)]\n\nb: [r(x,1)]\nc: [r(x,_)] | d: [r(y,[1])]", '4: "ops[0]" is an operation on lists '),
        ("versions: x=[1]\n\na: [w(x,1)] [w(x,2)]@5..4", '3: "end" is 4; expected a time not before "start" (5)'),
    ],
)  # fmt: skip
def test_what_only_the_whole_shows_is_told_by_the_line_of_the_text(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "h.txt"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        read(str(path))
    assert str(raised.value).startswith(f"{path}:{message}")
