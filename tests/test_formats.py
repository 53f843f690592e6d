"""What is written is read back as it was, in every format; and a file that cannot be read is refused in so many words."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isolde.errors import InputError, MalformedHistory, UsageError
from isolde.formats import decode, encode, read, write
from isolde.history import (
    Append,
    CompareAndSet,
    History,
    Key,
    Operation,
    Read,
    Scalar,
    Scan,
    Sql,
    Status,
    Transaction,
    Value,
    VersionChain,
    Write,
)

# --- Histories of every kind ------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    [
        "x",
        "y",
        "1",
        "-7",
        "007",
        "+1",
        "true",
        "null",
        "_",
        "initial",
        "versions",
        "a b",
        "é",
        '"',
        "\\",
        "\n",
        "\r\n",
        "\x00",
    ]
)
INTEGERS = st.integers(-3, 3) | st.integers(-(10**40), 10**40) | st.sampled_from([10**18 - 1, 10**18, 2**63, -(2**63)])
DECIMALS = st.decimals(-1000, 1000, allow_nan=False, places=3) | st.sampled_from(
    [Decimal("1E-400"), Decimal("1.5E+300"), Decimal("0.1"), Decimal("-1E+60")]
)


def canonical(number: Decimal) -> int | Decimal:
    """Numbers are one value however they are spelled: the reader gives integers as such."""
    return int(number) if number == number.to_integral_value() else number


KEYS: st.SearchStrategy[Key] = TEXTS | INTEGERS
SCALARS: st.SearchStrategy[Scalar] = st.none() | st.booleans() | INTEGERS | TEXTS | DECIMALS.map(canonical)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | INTEGERS | TEXTS | DECIMALS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
TIMES = st.none() | st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-5, 5)
KNOWN = {"id", "session", "status", "start", "end", "ops", "serial", "level"}
HEADER = {"isolde", "version", "initial", "meta"}


def extras(known: set[str]) -> st.SearchStrategy[dict[str, Any]]:
    reserved = known | HEADER | {"versions"}
    return st.dictionaries(TEXTS.filter(lambda name: name not in reserved), JSON, max_size=2)


@st.composite
def compare_and_sets(draw: st.DrawFn) -> CompareAndSet:
    key, expected, new, applied = draw(st.tuples(KEYS, SCALARS, SCALARS, st.booleans()))
    current: tuple[()] | tuple[Scalar] = ()
    if not applied and draw(st.booleans()):
        shown = draw(SCALARS.filter(lambda value: json_token(value) != json_token(expected)))
        current = (shown,)
    return CompareAndSet(key, expected, new, applied, current)


def json_token(value: Scalar) -> object:
    return (type(value) is bool, value)


REGISTERS: st.SearchStrategy[Operation] = (
    st.builds(Read, KEYS, SCALARS) | st.builds(Write, KEYS, SCALARS) | compare_and_sets()
)
LISTS: st.SearchStrategy[Operation] = st.builds(
    Read, KEYS, st.none() | st.lists(SCALARS, max_size=3).map(tuple)
) | st.builds(Append, KEYS, SCALARS)
ROWS = st.none() | st.lists(JSON, max_size=2)
STATEMENTS: st.SearchStrategy[Operation] = st.builds(
    lambda sql, params, rows, count: Sql({"sql": sql, "params": params, "rows": rows, "count": count}),
    TEXTS,
    st.lists(JSON, max_size=2),
    ROWS,
    st.none() | st.integers(0, 5),
) | st.builds(lambda asked, rows: Scan({"scan": asked, "rows": rows}), st.dictionaries(TEXTS, JSON, max_size=2), ROWS)
SPACES: dict[str, st.SearchStrategy[Operation]] = {"registers": REGISTERS, "lists": LISTS, "statements": STATEMENTS}


@st.composite
def histories(draw: st.DrawFn, *, space: str, sayable: bool) -> History:
    """A history of one key space; ``sayable``: only what the short notation can say, grouped by session."""
    ids = draw(st.lists(TEXTS | INTEGERS, max_size=5, unique=True))
    sessions = sorted(draw(st.lists(KEYS, min_size=len(ids), max_size=len(ids))), key=repr)
    serials = draw(st.lists(INTEGERS | DECIMALS.map(canonical), min_size=len(ids), max_size=len(ids), unique=True))
    transactions = []
    for name, session, serial in zip(ids, sessions, serials, strict=True):
        start, end = draw(TIMES), draw(TIMES)
        if start is not None and end is not None and end < start:
            start, end = end, start
        transaction = Transaction(
            name, session, tuple(draw(st.lists(SPACES[space], max_size=4))), draw(st.sampled_from(Status)), start, end
        )
        if not sayable:
            transaction = Transaction(
                *(transaction.id, transaction.session, transaction.ops, transaction.status, start, end),
                serial=draw(st.sampled_from([None, serial])),
                level=draw(st.none() | TEXTS),
                extra=draw(extras(KNOWN)),
            )
        transactions.append(transaction)
    values: st.SearchStrategy[Value] = st.lists(SCALARS, max_size=2).map(tuple) if space == "lists" else SCALARS
    initial = {} if space == "statements" else draw(st.dictionaries(KEYS, values, max_size=3))
    chains = [] if space == "statements" else draw(st.lists(st.tuples(KEYS, st.lists(SCALARS, max_size=3)), max_size=2))
    versions = tuple(VersionChain(key, tuple(chain)) for key, chain in chains)
    if sayable:
        return History(tuple(transactions), initial, versions=versions)
    return History(tuple(transactions), initial, draw(st.none() | JSON), versions, draw(extras(HEADER)))


def typed(value: Any) -> Any:
    """Something that tells ``1`` from ``True``, which Python's ``==`` does not, and looks at content alone."""
    if isinstance(value, dict):
        return {typed(key): typed(content) for key, content in value.items()}
    if isinstance(value, list | tuple):
        return tuple(typed(element) for element in value)
    if hasattr(value, "__dataclass_fields__"):
        return (type(value).__name__, *(typed(getattr(value, name)) for name in value.__dataclass_fields__))
    return (type(value) is bool, value)


def through(history: History, path: Path) -> History:
    """Written and read: the helper that touches the API."""
    columns = encode(history)
    write(columns, str(path))
    again = read(str(path))
    if path.suffix != ".txt":
        assert again.to_jsonl() == columns.to_jsonl(), "the core read something else than it wrote"
    return decode(again)


QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet"])
def test_a_history_is_read_back_as_it_was_written(suffix: str, space: str, tmp_path: Path) -> None:
    @QUICK
    @given(histories(space=space, sayable=False))
    def law(history: History) -> None:
        assert typed(through(history, tmp_path / f"h{suffix}")) == typed(history)

    law()


@pytest.mark.parametrize("space", SPACES)
def test_what_the_notation_can_say_is_read_back_as_it_was_written(space: str, tmp_path: Path) -> None:
    @QUICK
    @given(histories(space=space, sayable=True))
    def law(history: History) -> None:
        assert typed(through(history, tmp_path / "h.txt")) == typed(history)

    law()


# Found while these tests were written; each is the smallest history of its kind.
T = Transaction
HARD_ONES = {
    "an integer key with an initial value": History((T(0, 1, (Read(0, 0),)),), {0: 0}),
    "a string key that spells another, integer key": History((T(0, 1, (Read(1, 5),)),), {"1": 5}),
    "a string key of other digits": History((T(0, 1, (Read(3, 5),)),), {"٣": 5}),
    "a string key with leading zeros": History((T(0, 1, (Read(7, 5),)),), {"007": 5}),
    "both spellings": History((T(0, 1, (Read(1, 5), Read("1", 6))),), {"1": 6, 1: 5}),
    "a long integer key": History((T(0, 1, (Read(10**20, 5),)),), {10**20: 5}),
    "names of 60 digits": History((T(10**59 + 1, 10**59 + 3, (Read(10**59 + 7, 5),)),)),
    "a statement with a decimal": History((T(0, 1, (Sql({"sql": "a", "params": [Decimal("1.5")]}),)),)),
    "a session called true": History((T(0, "true", ()),)),
    "a session called initial": History((T("t", "initial", (Write("x", 1),)),)),
    "a session called versions": History((T("t", "versions", (Write("x", 1),)),)),
    "a session with a negative number": History((T(0, -1, ()),)),
    "a transaction called by another's position": History((T(1, "s", ()), T(0, "s", ()))),
    "a decimal that Python spells with an exponent": History((T(0, 1, (Write("x", Decimal("1E-30")),)),)),
    "the largest times": History((T(0, 1, (), start=-(2**63) + 1, end=2**63 - 1),)),
    "nothing": History(()),
    "no operations": History((T(0, 1, ()),)),
}


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".txt"])
@pytest.mark.parametrize("name", HARD_ONES)
def test_a_hard_history_is_read_back_as_it_was_written(name: str, suffix: str, tmp_path: Path) -> None:
    assert typed(through(HARD_ONES[name], tmp_path / f"h{suffix}")) == typed(HARD_ONES[name])


# --- Files ------------------------------------------------------------------------------------------------------------

FILE_ERRORS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no such file": (lambda d: read(str(d / "none")), "none: No such file or directory"),
    "a directory": (lambda d: read(str(d)), ": Is a directory"),
    "no directory to write into": (lambda d: write(encode(History(())), str(d / "n" / "h.jsonl")), "n/h.jsonl: No such file or directory"),
    "notation into no directory": (lambda d: write(encode(History(())), str(d / "n" / "h.txt")), "n/h.txt: No such file or directory"),
    "Parquet into no directory": (lambda d: write(encode(History(())), str(d / "n" / "h.parquet")), "n/h.parquet: No such file or directory"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILE_ERRORS)
def test_what_the_system_refuses_is_told_with_the_files_name(name: str, tmp_path: Path) -> None:
    work, message = FILE_ERRORS[name]
    with pytest.raises(InputError) as raised:
        work(tmp_path)
    assert str(raised.value) == f"{tmp_path}{'' if message.startswith(':') else '/'}{message}"


def test_a_suffix_that_names_no_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the suffix names no format; use one of \.jsonl, \.json, \.txt, \.parquet, "):
        write(encode(History(())), str(tmp_path / "h.csv"))


@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_compressed_data_that_breaks_off_is_refused(compression: str, tmp_path: Path) -> None:
    path = tmp_path / f"h.jsonl{compression}"
    write(encode(History(tuple(Transaction(i, i % 7, (Write("x", i * i),)) for i in range(5000)))), str(path))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(
        MalformedHistory, match=r"the compressed data breaks off or is damaged here .*; expected a complete file"
    ):
        read(str(path))


@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_compressed_data_that_was_changed_is_never_read_as_something_else(compression: str, tmp_path: Path) -> None:
    path = tmp_path / f"h.jsonl{compression}"
    write(encode(History(tuple(Transaction(i, i % 7, (Write("x", i * i),)) for i in range(200)))), str(path))
    good, text = path.read_bytes(), read(str(path)).to_jsonl()
    for at in range(12, len(good), max(1, len(good) // 300)):
        changed = bytearray(good)
        changed[at] ^= 0x10
        path.write_bytes(changed)
        try:
            assert read(str(path)).to_jsonl() == text, f"byte {at}"
        except InputError:
            continue
