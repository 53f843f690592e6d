"""Loops that write, as proofs read them: transactions of which a careless reading would prove too much, and some that are safe."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolde.engines.infer.candidates import candidates
from isolde.engines.infer.obligations import Obligations
from isolde.engines.infer.problem import Problem
from isolde.engines.infer.prove import Prover
from isolde.levels.specifications import CANDIDATES, specification
from isolde.workloads.applications.files import application_in

RC, RR, SER = CANDIDATES

_TEXT = '''
from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, must_hold

DDL = """
CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, total INTEGER NOT NULL);
CREATE TABLE b (a_id INTEGER NOT NULL, id INTEGER NOT NULL, v INTEGER NOT NULL, PRIMARY KEY (a_id, id));
"""


@transaction
def work(tx: Handle, k: int, m: int, ids: list[int]) -> None:
{body}


APPLICATION = Application(
    "loops", "", "", DDL, (Part(work, 1, lambda random, scale: {{"k": 1, "m": 1, "ids": [1]}}),),
    lambda random, scale: iter([("a", (1, 1, 0))]), {{"rows": 1}}, (must_hold("holds", "{invariant}", ""),),
)
'''

NOT_NEGATIVE = "SELECT id FROM a WHERE n < 0"
COUNTED = (
    "SELECT a.id FROM a LEFT JOIN (SELECT a_id, COUNT(*) AS c FROM b GROUP BY a_id) t ON t.a_id = a.id"
    " WHERE a.total <> COALESCE(t.c, 0)"
)
SMALL = "SELECT id FROM b WHERE id > 10"
SAME = "SELECT id FROM b WHERE v <> 7"


def _prover(directory: Path, invariant: str, body: str, database: str = "postgresql") -> Prover:
    indented = "\n".join("    " + line for line in body.strip("\n").splitlines())
    path = directory / "loops.py"
    path.write_text(_TEXT.format(body=indented, invariant=invariant))
    problem = Problem(application_in(str(path)), (), (), database)
    assert not problem.uncarried
    assert not any(one.refused for one in problem.transactions.values()), problem.transactions["work"].refused
    levels = {level: specification(database, level) for level in CANDIDATES}
    listed = {one.name: one for one in candidates(problem)}
    return Prover(Obligations(problem, listed, problem.conditions), levels, problem.transactions)


_WRONG_ALONE = {
    "a list may name a row twice": (
        NOT_NEGATIVE,
        """
for i in ids:
    row = tx.one("SELECT n FROM a WHERE id = :i", i=k)
    if row is not None and row.n > 0:
        tx.execute("UPDATE a SET n = n - :m WHERE id = :i", m=m, i=i)
""",
    ),
    "what is read before the loop is old in its later rounds": (
        NOT_NEGATIVE,
        """
row = tx.one("SELECT n FROM a WHERE id = :k", k=k)
if row is None or row.n < 1:
    return
for i in ids:
    tx.execute("UPDATE a SET n = n - 1 WHERE id = :k", k=k)
""",
    ),
    "a number that an earlier round raised": (
        SMALL,
        """
row = tx.one("SELECT n FROM a WHERE id = :k", k=k)
if row is None or row.n > 10:
    return
for i in ids:
    now = tx.one("SELECT n FROM a WHERE id = :k", k=k)
    if now is None:
        tx.abort("gone")
    tx.execute("INSERT INTO b (a_id, id, v) VALUES (:k, :i, 7)", k=k, i=now.n)
    tx.execute("UPDATE a SET n = n + 1 WHERE id = :k", k=k)
""",
    ),
    "not every round that counts inserts": (
        COUNTED,
        """
number = 0
for i in ids:
    number = number + 1
    if i > m:
        tx.execute("INSERT INTO b (a_id, id, v) VALUES (:k, :i, 7)", k=k, i=number)
tx.execute("UPDATE a SET total = total + :number WHERE id = :k", number=number, k=k)
""",
    ),
    "a loop that is left counts less": (
        COUNTED,
        """
number = 0
for i in ids:
    number = number + 1
    if i > m:
        break
    tx.execute("INSERT INTO b (a_id, id, v) VALUES (:k, :i, 7)", k=k, i=number)
tx.execute("UPDATE a SET total = total + :number WHERE id = :k", number=number, k=k)
""",
    ),
    "a round that goes on early does not count": (
        COUNTED,
        """
number = 0
for i in ids:
    tx.execute("INSERT INTO b (a_id, id, v) VALUES (:k, :i, 7)", k=k, i=i)
    if i > m:
        continue
    number = number + 1
tx.execute("UPDATE a SET total = total + :number WHERE id = :k", number=number, k=k)
""",
    ),
    "a counter that is set anew": (
        COUNTED,
        """
number = 0
for i in ids:
    number = number + 1
    tx.execute("INSERT INTO b (a_id, id, v) VALUES (:k, :i, 7)", k=k, i=i)
    if i > m:
        number = 0
tx.execute("UPDATE a SET total = total + :number WHERE id = :k", number=number, k=k)
""",
    ),
    "an insert that may change a row instead": (
        COUNTED,
        """
number = 0
for i in ids:
    number = number + 1
    tx.execute(
        "INSERT INTO b (a_id, id, v) VALUES (:k, :i, 7) ON CONFLICT (a_id, id) DO UPDATE SET v = 7", k=k, i=i
    )
tx.execute("UPDATE a SET total = total + :number WHERE id = :k", number=number, k=k)
""",
    ),
    "an upsert of another round changes the row": (
        SAME,
        """
for i in ids:
    tx.execute(
        "INSERT INTO b (a_id, id, v) VALUES (:k, :i, 7) ON CONFLICT (a_id, id) DO UPDATE SET v = v + 1", k=k, i=i
    )
""",
    ),
    "the last number of a range is one of it": (
        SMALL,
        """
for i in range(1, m):
    if m < 13:
        tx.execute("INSERT INTO b (a_id, id, v) VALUES (:k, :i, 7)", k=k, i=i)
""",
    ),
    "a round sees what the one before it wrote": (
        SAME,
        """
for i in range(1, 3):
    row = tx.one("SELECT v FROM b WHERE a_id = :k AND id = :i", k=k, i=i)
    if row is None:
        tx.execute("INSERT INTO b (a_id, id, v) VALUES (:k, :i, 7)", k=k, i=i + 1)
    else:
        tx.execute("UPDATE b SET v = 8 WHERE a_id = :k AND id = :i", k=k, i=i)
""",
    ),
}


@pytest.mark.parametrize("name", _WRONG_ALONE)
def test_a_loop_that_breaks_an_invariant_alone_is_not_proved(name: str, tmp_path: Path) -> None:
    assert _prover(tmp_path, *_WRONG_ALONE[name]).serially("work")


_TAKE_ONE_OF_EACH = """
rows = tx.all("SELECT id, n FROM a WHERE n > 0")
for row in rows:
    tx.execute("UPDATE a SET n = n - 1 WHERE id = :i", i=row.id)
"""
_TAKE_IF_STILL_THERE = """
rows = tx.all("SELECT id FROM a WHERE n > 0")
for row in rows:
    tx.execute("UPDATE a SET n = n - 1 WHERE id = :i AND n > 0", i=row.id)
"""
_ONE_FOR_EACH = """
number = 0
for i in ids:
    number = number + 1
    tx.execute("INSERT INTO b (a_id, id, v) VALUES (:k, :i, 7)", k=k, i=i)
tx.execute("UPDATE a SET total = total + :number WHERE id = :k", number=number, k=k)
"""


@pytest.mark.parametrize(
    ("invariant", "body", "database", "proved"),
    [
        (NOT_NEGATIVE, _TAKE_ONE_OF_EACH, "postgresql", {RR, SER}),
        (NOT_NEGATIVE, _TAKE_ONE_OF_EACH, "mariadb", {SER}),
        (NOT_NEGATIVE, _TAKE_IF_STILL_THERE, "postgresql", {RC, RR, SER}),
        (NOT_NEGATIVE, _TAKE_IF_STILL_THERE, "mariadb", {RC, RR, SER}),
        (COUNTED, _ONE_FOR_EACH, "postgresql", {RC, RR, SER}),
        (COUNTED, _ONE_FOR_EACH, "mariadb", {RC, RR, SER}),
    ],
)
def test_loops_over_rows_and_lists_get_their_levels(
    invariant: str, body: str, database: str, proved: set[str], tmp_path: Path
) -> None:
    prover = _prover(tmp_path, invariant, body, database)
    assert prover.serially("work") == []
    assert prover.can_commit("work")
    assert {level for level in CANDIDATES if prover.attempt({"work": level}).proved} == proved
