"""No name of a user becomes code: whatever things are called, a program does what it does under plain names."""

from __future__ import annotations

import builtins
import random
from typing import Any

import pytest

from isolde.errors import IsoldeError
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.tx.sql import program

CANARY = "isolde_ran_a_name"
RUNS = f"__import__('builtins').__dict__.__setitem__('{CANARY}', 1)"

HOSTILE = (
    "a b",
    f"x=0;{RUNS};y",
    f"x = {RUNS} or 1",
    f"x\n    {RUNS}",
    f"x){RUNS}(",
    f"'+{RUNS}+'",
    f'"+{RUNS}+"',
    f"{{{RUNS}}}",
    "{0}",
    "%s %(x)s",
    "v1",
    "c2",
    "t3",
    "S",
    "rows",
    "row",
    "out",
    "None",
    "lambda",
    "returned__0",
    "returned 0",
    "1",
    "-",
    "a.b",
    "it's",
    "back\\slash",
    "\\",
    "#",
    "é",
    "日本",
    "\N{ZERO WIDTH SPACE}",
    "\N{RIGHT-TO-LEFT OVERRIDE}x",
    "ﬁ",
)
LETTERS = "ab_1 =;:()[]{}'\"`\\\n\t#%,.é日\0"

# One of every kind of name: table, columns, alias, procedures, parameters, variables, row, cursor, label, check, subquery.
ROLES = ("t", "id", "b", "u", "p", "q", "x", "o", "v", "w", "r", "k", "c", "l", "m", "s")

POSTGRESQL = """
CREATE TABLE {t} ({id} INT PRIMARY KEY, {b} INT NOT NULL, CONSTRAINT {m} CHECK ({b} < 1000));
CREATE FUNCTION {q}({x} INT) RETURNS INT AS $$ BEGIN RETURN {x} + 1; END $$ LANGUAGE plpgsql;
CREATE PROCEDURE {p}({x} INT, OUT {o} INT) AS $$
DECLARE {v} INT := 1; {w} INT; {c} CURSOR FOR SELECT {u}.{b} FROM {t} AS {u} ORDER BY {id}; {r} RECORD;
BEGIN
  {v} := {v} + {x};
  OPEN {c}; FETCH {c} INTO {o}; CLOSE {c};
  FOR {r} IN SELECT {id} AS {k} FROM {t} ORDER BY {id} LOOP {o} := {o} + {r}.{k}; END LOOP;
  <<{l}>> LOOP {v} := {v} + 1; EXIT {l} WHEN {v} > 5; END LOOP;
  {w} := {q}({v});
  UPDATE {t} SET {b} = {w} + (SELECT max({s}.{k}) FROM (SELECT {b} AS {k} FROM {t}) AS {s}) WHERE {id} = {x};
  SELECT sum({b}) INTO {w} FROM {t} WHERE {id} IN (SELECT {id} FROM {t} GROUP BY {id} HAVING count(*) = {x});
  {o} := {o} + {w};
END $$ LANGUAGE plpgsql;
"""

MYSQL = """
CREATE TABLE {t} ({id} INT PRIMARY KEY, {b} INT NOT NULL, CONSTRAINT {m} CHECK ({b} < 1000));
CREATE FUNCTION {q}({x} INT) RETURNS INT BEGIN RETURN {x} + 1; END;
CREATE PROCEDURE {p}({x} INT, OUT {o} INT)
BEGIN
  DECLARE {v} INT DEFAULT 1; DECLARE {w} INT;
  DECLARE {c} CURSOR FOR SELECT {u}.{b} FROM {t} AS {u} ORDER BY {id};
  SET {v} = {v} + {x};
  OPEN {c}; FETCH {c} INTO {o}; CLOSE {c};
  {l}: LOOP SET {v} = {v} + 1; IF {v} > 5 THEN LEAVE {l}; END IF; END LOOP;
  SET {w} = {q}({v});
  UPDATE {t} SET {b} = {b} + {w} WHERE {id} = {x};
  SELECT sum({s}.{k}) INTO {w} FROM (SELECT {b} AS {k} FROM {t} WHERE {id} > 0) AS {s};
  SET {o} = {o} + {w};
END;
"""

TEXTS = {Dialect.POSTGRESQL: (POSTGRESQL, '"'), Dialect.MYSQL: (MYSQL, "`")}


def run(dialect: Dialect, names: dict[str, str]) -> Any:
    """What the program gives under these names, or that it is refused."""
    text, quote = TEXTS[dialect]
    quoted = {role: quote + name.replace(quote, quote * 2) + quote for role, name in names.items()}
    try:
        read = program(text.format(**quoted), dialect)
        store = Store(read.schema, dialect)
        store.load(names["t"], [(1, 10), (2, 20)])
        outcome = store.call(read, names["p"], (1,))
    except IsoldeError as error:
        return error
    return outcome.ending, outcome.values, list(store.state().values())


def given_names(rng: random.Random) -> dict[str, str]:
    """A different name for each role; most of them plain, so that what a refusal is about can be told."""
    names = {role: role for role in ROLES}
    for role in rng.sample(ROLES, rng.choice((1, 1, 2, len(ROLES)))):
        drawn = "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 8)))
        name = rng.choice(HOSTILE) if rng.random() < 0.5 else drawn
        if name.lower() not in {other.lower() for other in names.values()}:
            names[role] = name
    return names


@pytest.mark.parametrize("dialect", TEXTS)
def test_a_program_does_under_any_names_what_it_does_under_plain_ones(dialect: Dialect) -> None:
    plain = run(dialect, {role: role for role in ROLES})
    assert not isinstance(plain, IsoldeError), plain
    same = 0
    for seed in range(120):
        names = given_names(random.Random(f"names-{dialect}-{seed}"))
        answer = run(dialect, names)
        assert not hasattr(builtins, CANARY), names
        # A name may be refused, in one clear line, where the reader of SQL does not take it.
        if not isinstance(answer, IsoldeError):
            assert answer == plain, names
            same += 1
    assert same > 100


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("dialect", TEXTS)
def test_a_harmless_name_with_a_space_works_everywhere(dialect: Dialect, role: str) -> None:
    plain = {role: role for role in ROLES}
    assert run(dialect, plain | {role: "a b"}) == run(dialect, plain)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_parameter_of_a_statement_may_be_called_anything(name: str) -> None:
    from isolde.tx.expressions import Parameter
    from isolde.tx.queries import Item, Select
    from isolde.tx.schema import Schema

    for dialect in Dialect:
        transaction = Store(Schema(), dialect).transaction()
        answer = transaction.run(Select((Item(Parameter(name), "a"),)), {name: 7})
        assert [tuple(row) for row in answer.rows] == [(7,)]
        transaction.rollback()
    assert not hasattr(builtins, CANARY)
