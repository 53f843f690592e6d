"""The typed core: the table of primitives, the one rule about plans, and generated code that holds no text of a user."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

import isolde.semantics
from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete import Store
from isolde.semantics.concrete.code import Unit
from isolde.semantics.core.primitives import PRIMITIVES, Primitive
from isolde.tx.dialects import Dialect
from isolde.tx.sql import program, schema, statement

PG, MY, LITE = Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLITE
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -3,
    2**31,
    2**63,
    Decimal("1.50"),
    2.5,
    "",
    "ab",
    datetime(2024, 2, 29, 1),
)


def arity(primitive: Primitive) -> int:
    places = [int(name) for _, name, _, _ in Formatter().parse(primitive.template) if name and name.isdigit()]
    return max(places) + 1


def outcomes(primitive: Primitive) -> Iterator[tuple[Any, Any]]:
    """What the function and the inline text make of values, wherever the function takes them."""
    names = [f"x{place}" for place in range(arity(primitive))]
    source = primitive.template.format(*names, f="helper")
    inline = eval(f"lambda {', '.join(names)}: {source}", {"helper": primitive.helper})
    # A text times a large number is a larger text than there is memory for.
    pool = [value for value in VALUES if "*" not in primitive.template or not isinstance(value, str)]
    for values in product(pool, repeat=len(names)):
        if primitive.strict and None in values:
            continue
        try:
            expected = primitive.function(*values)
        except ExecutionError as error:
            with pytest.raises(ExecutionError) as caught:
                inline(*values)
            yield caught.value.kind, error.kind
        except (TypeError, AttributeError, OverflowError, MemoryError, OutsideFragment):
            continue
        else:
            yield inline(*values), expected


@pytest.mark.parametrize("name", [name for name, primitive in PRIMITIVES.items() if primitive.template])
def test_the_inline_text_of_a_primitive_computes_what_its_function_does(name: str) -> None:
    compared = 0
    for found, expected in outcomes(PRIMITIVES[name]):
        assert repr(found) == repr(expected)
        compared += 1
    assert compared


def test_every_error_of_a_primitive_is_a_kind_that_errors_have() -> None:
    kinds = {"division-by-zero", "out-of-range", "conversion", "cardinality", "not-null", "type", "name"}
    for primitive in PRIMITIVES.values():
        assert primitive.errors <= kinds, primitive.name
        assert primitive.errors or not primitive.partial, primitive.name


# Plans

TABLES = "CREATE TABLE t (id INT PRIMARY KEY, x INT, s VARCHAR(10)); CREATE TABLE u (id INT PRIMARY KEY, x INT);"


def filled(dialect: Dialect) -> Store:
    store = Store(schema(TABLES, dialect), dialect)
    store.load("t", [(1, 0, "1"), (2, 5, "b")])
    store.load("u", [(1, 7), (2, 8)])
    return store


def run(text: str, dialect: Dialect = PG) -> Any:
    try:
        result = filled(dialect).transaction().run(statement(text, dialect))
    except ExecutionError as error:
        return error.kind
    except OutsideFragment as refusal:
        return f"refused: {refusal.what}"
    return result.rows


SKIPPED = [
    "SELECT id FROM t WHERE id = 2 AND 10 / x > 1",
    "SELECT id FROM t WHERE x <> 0 AND 10 % x = 0",
    "SELECT id FROM t WHERE id = 2 AND CAST(s AS INT) = 1",
    "SELECT t.id FROM t JOIN u ON u.x = 10 / t.x",
    "SELECT id, 10 / x FROM t ORDER BY id DESC LIMIT 1",
    "SELECT id FROM u WHERE EXISTS (SELECT 1 FROM t WHERE 10 / t.x > 1)",
    "SELECT id FROM u WHERE id IN (SELECT 10 / x FROM t)",
    "SELECT id FROM (SELECT id, 10 / x AS q FROM t) AS d WHERE q > 1",
    "SELECT id FROM t WHERE id = 1 AND x = (SELECT x FROM u)",
    "DELETE FROM t WHERE id = 2 AND 10 / x > 1",
    "UPDATE t SET x = 1 WHERE s = 'b' AND CAST(s AS INT) = 1",
    "SELECT id FROM t GROUP BY id HAVING id = 2 AND 10 / MIN(x) > 1",
]


@pytest.mark.parametrize("text", SKIPPED)
def test_what_can_fail_on_a_row_that_a_plan_may_skip_is_refused(text: str) -> None:
    assert "on a row that a plan may skip" in run(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM t WHERE 10 / x > 1", "division-by-zero"),
        ("SELECT 10 / x FROM t", "division-by-zero"),
        ("SELECT 10 / x FROM t WHERE x <> 0", [(2,)]),
        ("UPDATE t SET x = 10 / x", "division-by-zero"),
        ("SELECT id FROM t WHERE id = 2 AND CASE WHEN x <> 0 THEN 10 / x > 1 END", [(2,)]),
        ("SELECT id FROM t WHERE id = 2 AND x / 5 = 1", [(2,)]),
        ("SELECT id FROM t WHERE id = 2 AND CAST(x AS VARCHAR) = '5'", [(2,)]),
        ("SELECT id FROM t WHERE id = 2 AND x + 2147483647 > 0", "out-of-range"),
        ("SELECT id FROM t WHERE id = 2 AND x < (SELECT x FROM u WHERE id = 1)", [(2,)]),
        ("SELECT id FROM t WHERE id = 2 AND x < (SELECT MAX(x) FROM u)", [(2,)]),
        ("SELECT (SELECT x FROM u)", "cardinality"),
        ("SELECT 1 / 0", "division-by-zero"),
        ("SELECT id FROM t WHERE FALSE AND 1 / 0 = 1", "refused: an expression of constants that fails (division by zero)"),
    ],
)  # fmt: skip
def test_what_every_plan_meets_fails_or_not_by_itself(text: str, expected: Any) -> None:
    assert run(text) == expected


def test_a_query_of_mysql_has_no_such_errors_but_a_change_has() -> None:
    assert run("SELECT id FROM t WHERE id = 1 AND 10 / x > 1", MY) == []
    assert "a division that can fail" in run("DELETE FROM t WHERE id = 1 AND 10 / x > 1", MY)
    assert run("SELECT id FROM t WHERE id = 1 AND 10 / x > 1", LITE) == []


# Generated code

NAMES = ['x=0;print(1)#', 'a b', "it's", 'S', 'v0', 'r1', 'import', '\\n', 'ü', '{0}', 'x"y'.replace('"', '""')]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_no_name_of_a_user_gets_into_generated_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    finish = Unit.finish

    def noting(unit: Unit, entry: str) -> Any:
        written.extend(unit.functions)
        return finish(unit, entry)

    monkeypatch.setattr(Unit, "finish", noting)
    text = f"""
    CREATE TABLE t (id INT PRIMARY KEY, "{name}" INT);
    CREATE PROCEDURE p(k INT) LANGUAGE plpgsql AS $$
    DECLARE "{name} v" INT := 5;
    BEGIN
        INSERT INTO t VALUES (k, "{name} v");
        SELECT "{name}" + 1 INTO "{name} v" FROM t AS "{name} t" WHERE "{name} t".id = k;
        UPDATE t SET "{name}" = "{name} v" WHERE id = k;
    END $$;
    """
    made = program(text, PG)
    store = Store(made.schema, PG)
    store.call(made, "p", [1])
    assert store.state() == {"t": [(1, 6)]}
    assert len(name) < 3 or all(name.replace('""', '"') not in source for source in written)


def test_only_the_dialects_files_ask_for_the_dialect() -> None:
    semantics = Path(isolde.semantics.__file__).parent
    asking = [
        str(file.relative_to(semantics))
        for file in semantics.rglob("*.py")
        if re.search(r"\b(is|is not|==|!=|in) \(?Dialect\.", file.read_text()) and file.parent.name != "dialects"
    ]
    assert asking == []


def test_a_condition_of_constants_that_fails_when_it_is_planned_is_refused() -> None:
    text = "CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN IF 1 / 0 IN (SELECT id FROM t) THEN NULL; END IF; END $$"
    store = Store(schema("CREATE TABLE t (id INT PRIMARY KEY)", PG), PG)
    with pytest.raises(OutsideFragment, match="constants that fails"):
        store.call(program(text, PG), "p")
