"""Functions that are outside of the transaction language: the error has the line, and what to write instead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from isolde.errors import OutsideFragment
from isolde.tx.python import Transaction, transaction


@transaction
def divides(_: Any, a: int) -> Any:
    return a / 2


@transaction
def builds_sql(tx: Any, a: str) -> Any:
    tx.execute("UPDATE course SET capacity = " + a)


@transaction
def is_vague(_: Any, a: int) -> Any:
    if a:
        return 1
    return 0


@transaction
def forgets_a_parameter(tx: Any) -> Any:
    tx.execute("DELETE FROM course WHERE id = :course")


@transaction
def passes_too_much(tx: Any, a: int) -> Any:
    tx.execute("DELETE FROM course", a=a)


@transaction
def may_skip(tx: Any, a: int) -> Any:
    if a > 0 and tx.value("SELECT count(*) FROM course") > 0:
        return 1
    return 0


@transaction
def calls_others(_: Any, a: int) -> Any:
    print(a)


@transaction
def uses_a_method(_: Any, a: str) -> Any:
    return a.upper()


@transaction
def takes_a_column_at_once(tx: Any) -> Any:
    return tx.one("SELECT id FROM course").id


@transaction
def has_defaults(_: Any, a: int = 3) -> Any:
    return a


@transaction
def comprehends(tx: Any) -> Any:
    rows = [row.id for row in tx.all("SELECT id FROM course")]
    return len(rows)


@transaction
def uses_a_window(tx: Any) -> Any:
    return tx.value("SELECT rank() OVER (ORDER BY id) FROM course")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (divides, "'a / 2' is outside of the transaction language; Python and SQL disagree about division"),
        (builds_sql, "SQL that is put together"),
        (is_vague, "'a' as a condition is outside of the transaction language; compare it"),
        (
            forgets_a_parameter,
            "the parameter :course without a value is outside of the transaction language; pass course=…",
        ),
        (passes_too_much, "the argument a is outside of the transaction language; the SQL has no :a"),
        (may_skip, "where it may be skipped"),
        (calls_others, "the call 'print'"),
        (
            uses_a_method,
            "'a.upper()' inside an expression is outside of the transaction language; compute it in a statement",
        ),
        (takes_a_column_at_once, "assign the row to a variable, and take its columns from there"),
        (has_defaults, "this list of parameters"),
        (comprehends, "outside of the transaction language"),
        (uses_a_window, "a window function"),
    ],
    ids=lambda value: value.name if isinstance(value, Transaction) else "",
)
def test_what_is_outside_is_refused_with_its_line_and_what_to_write(function: Transaction, words: str) -> None:
    with pytest.raises(OutsideFragment) as caught:
        _ = function.procedure
    text = str(caught.value)
    place = re.match(r"(.*?):(\d+):(\d+): ", text)
    assert place is not None, text
    assert Path(place[1]).name == Path(__file__).name
    lines = Path(__file__).read_text().splitlines()
    start = next(number for number, line in enumerate(lines, 1) if line.startswith(f"def {function.name}("))
    assert start <= int(place[2]) <= start + 3, text
    assert words in text
