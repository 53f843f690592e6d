"""Small transactions whose safety hangs on what a value, a limit or a statement's answer can be: none of them may be called safe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from isolde.campaigns.infer import Inference, InferOptions
from isolde.workloads.applications.files import application_in

_TEXT = '''
from decimal import Decimal

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, must_hold

DDL = """
CREATE TABLE a (id INTEGER PRIMARY KEY, n {type} NOT NULL, m INTEGER NOT NULL);
CREATE TABLE b (id INTEGER PRIMARY KEY, a_id INTEGER NOT NULL, v DECIMAL(10, 2) NOT NULL);
"""


@transaction
def t(tx: Handle, k: int, x: {argument}) -> None:
{body}


@transaction
def changes(tx: Handle, k: int) -> None:
    tx.execute("UPDATE a SET n = n + 1 WHERE id = :k", k=k)


@transaction
def deletes(tx: Handle, k: int) -> None:
    tx.execute("DELETE FROM b WHERE id = :k", k=k)


@transaction
def goes(tx: Handle, k: int) -> None:
    if tx.execute("UPDATE a SET n = 0 WHERE id = :k", k=k) == 1:
        tx.execute("DELETE FROM b WHERE id = :k", k=k)


def draw(random, scale):
    return {{"k": random.randint(1, 2), "x": {drawn}}}


def draw_key(random, scale):
    return {{"k": random.randint(1, 2)}}


def rows(random, scale):
    for k in (1, 2):
        yield "a", (k, {n}, 0)
        yield "b", (k, k, Decimal("0.5"))


APPLICATION = Application(
    "values", "", "", DDL, (Part(t, 1, draw), Part({other}, 1, draw_key)), rows, {{"rows": 2}},
    (must_hold("kept", "SELECT id FROM a WHERE m < 0", ""), must_hold("there", "SELECT id FROM b WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.id = b.id)", ""),
     must_hold("known", "SELECT id FROM a WHERE {known}", "")),
)
'''
_BREAKS = 'tx.execute("UPDATE a SET m = -1 WHERE id = :k", k=k)'


@dataclass(frozen=True)
class _Case:
    """``body`` breaks ``kept`` where the values are what somebody took them not to be."""

    body: str
    stores: tuple[str, ...] = ("postgresql", "mariadb")
    level: str = "read-committed"
    type: str = "INTEGER"
    argument: str = "int"
    drawn: str = "random.randint(1, 2)"
    n: str = "1"
    other: str = "changes"
    known: str = "m = 7"


def _if(condition: str, *before: str) -> str:
    return "\n".join((*before, f"if {condition}:", f"    {_BREAKS}"))


_LOCKED = 'r = tx.one("SELECT n FROM a WHERE id = :k AND EXISTS (SELECT 1 FROM b WHERE b.id = a.id) FOR UPDATE", k=k)'
_SETS = 'tx.execute("UPDATE a SET n = 1 WHERE id = :k", k=k)'
_UNKNOWN = "n = 1 AND NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id)"
_BETWEEN = "s is not None and s > 0 and s < 1"
_CASES = {
    "a decimal argument is no whole number": _Case(
        _if("x > 0 and x < 1"), argument="Decimal", drawn='Decimal("0.5")'
    ),
    "nor is a column of NUMERIC": _Case(
        'tx.execute("UPDATE a SET n = n - 1, m = CASE WHEN n < 1 THEN -1 ELSE 0 END WHERE id = :k AND n > 0", k=k)',
        ("postgresql",), type="NUMERIC", n='Decimal("0.5")',
    ),
    "nor a sum of decimals": _Case(_if(_BETWEEN, 's = tx.value("SELECT SUM(v) FROM b WHERE a_id = :k", k=k)')),
    "nor the smallest of them": _Case(_if(_BETWEEN, 's = tx.value("SELECT MIN(v) FROM b WHERE a_id = :k", k=k)')),
    "nor a sum that is not followed": _Case(_if(_BETWEEN, 's = tx.value("SELECT SUM(v) FROM b WHERE a_id >= :k", k=k)')),
    "nor an average": _Case(
        _if(_BETWEEN, 's = tx.value("SELECT AVG(n) FROM a WHERE id >= :k", k=k)'), n="random.randint(0, 1)"
    ),
    "nor what a loop adds up": _Case(
        _if("s > 0 and s < 1", "s = 0", 'for r in tx.all("SELECT v FROM b WHERE a_id = :k", k=k):', "    s = s + r.v")
    ),
    "nor a quotient": _Case(_if(_BETWEEN, 's = tx.value("SELECT n / 2.0 FROM a WHERE id = :k", k=k)')),
    "a row that is locked may be skipped": _Case(
        _if("r is None", 'b = tx.one("SELECT v FROM b WHERE id = :k", k=k)', "if b is None:", "    return",
            'r = tx.one("SELECT n FROM a WHERE id = :k FOR UPDATE SKIP LOCKED", k=k)')
    ),
    "a limit may be none": _Case(
        _if("r is None", 'r = tx.one("SELECT n FROM a WHERE id = :k LIMIT 0", k=k)')
    ),
    "an aggregate may be passed over": _Case(
        _if("r is None", 'r = tx.one("SELECT COUNT(*) AS c FROM a WHERE id = :k OFFSET 1", k=k)')
    ),
    "what an update leaves as it is stays old in the snapshot": _Case(
        _if("s is not None and s.n != x",
            'r = tx.one("SELECT n FROM a WHERE id = :k", k=k)',
            'tx.execute("UPDATE a SET n = :x WHERE id = :k", x=x, k=k)',
            's = tx.one("SELECT n FROM a WHERE id = :k", k=k)'),
        ("mariadb",), "repeatable-read",
    ),
    "so does what an upsert leaves": _Case(
        _if("r is not None and s is not None and s.n != x",
            'r = tx.one("SELECT n FROM a WHERE id = :k", k=k)',
            'tx.execute("INSERT INTO a (id, n, m) VALUES (:k, :x, 0) ON CONFLICT (id) DO UPDATE SET n = excluded.n", x=x, k=k)',
            's = tx.one("SELECT n FROM a WHERE id = :k", k=k)'),
        ("mariadb",), "repeatable-read",
    ),
    "a changed row counts twice": _Case(
        _if("c == 2",
            'c = tx.execute("INSERT INTO a (id, n, m) VALUES (:k, 1, 0) ON CONFLICT (id) DO UPDATE SET n = a.n + 1", k=k)'),
        ("mariadb",),
    ),
    "a query in an upsert reads before the row is waited for": _Case(
        'tx.execute("INSERT INTO a (id, n, m) VALUES (:k, 0, 0) ON CONFLICT (id) DO UPDATE'
        ' SET n = CASE WHEN EXISTS (SELECT 1 FROM b WHERE b.id = :k) THEN 1 ELSE 0 END", k=k)',
        n="0", other="goes", known=_UNKNOWN,
    ),
    "nor does a query in a locking read wait": _Case(
        f"{_LOCKED}\nif r is not None:\n    {_SETS}", ("postgresql",), n="0", other="goes", known=_UNKNOWN
    ),
    "InnoDB answers it from the snapshot": _Case(
        f'q = tx.one("SELECT v FROM b WHERE id = :x", x=x)\n{_LOCKED}\nif r is not None:\n    {_SETS}',
        ("mariadb",), "repeatable-read", n="0", other="goes", known=_UNKNOWN,
    ),
    "one in an update is asked before the row is waited for": _Case(
        'tx.execute("UPDATE a SET n = 1 WHERE id = :k AND EXISTS (SELECT 1 FROM b WHERE b.id = a.id)", k=k)',
        n="0", other="goes", known=_UNKNOWN,
    ),
    "spaces at the end are cut": _Case(
        _if("s is not None and s.n != x",
            'tx.execute("UPDATE a SET n = :x WHERE id = :k", x=x, k=k)', 's = tx.one("SELECT n FROM a WHERE id = :k", k=k)'),
        ("postgresql",), type="VARCHAR(2)", argument="str", drawn='"a  "', n='"a"', other="deletes",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "store"), [(name, store) for name, case in _CASES.items() for store in case.stores])
def test_it_is_not_called_safe(tmp_path: Path, name: str, store: str) -> None:
    case = _CASES[name]
    path = tmp_path / "values.py"
    body = "\n".join(f"    {line}" for line in case.body.split("\n"))
    given = {one: getattr(case, one) for one in ("type", "argument", "drawn", "n", "other", "known")}
    path.write_text(_TEXT.format(body=body, **given))
    inference = Inference(application_in(str(path)), InferOptions(store, candidates=(case.level,)))
    if any(one.refused for one in inference.problem.transactions.values()):
        return
    prover = inference.kept_alone()
    every = {"kept", "there", "known"} <= set(inference.kept)
    assert not every or not prover.attempt(dict.fromkeys(inference.writers, case.level)).proved
