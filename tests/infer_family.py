"""Random applications for ``infer``: two or three small transactions over keys, locks, counters, totals and references."""

from __future__ import annotations

from pathlib import Path
from random import Random

from isolde.workloads.application import Application
from isolde.workloads.applications.files import application_in

_HEAD = '''
from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, must_hold

DDL = """
CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, m INTEGER NOT NULL);
CREATE TABLE b (id INTEGER{key}, a_id INTEGER NOT NULL, v INTEGER NOT NULL);
"""
'''
_STEPS = (
    'tx.execute("UPDATE a SET n = n + :x WHERE id = :k", x=x, k=k)',
    'tx.execute("UPDATE a SET m = m - :x WHERE id = :k", x=x, k=k)',
    'tx.execute("INSERT INTO b (id, a_id, v) VALUES (:i, :k, :x)", i=i, k=k, x=x)',
    'tx.execute("DELETE FROM b WHERE id = :i", i=i)',
    'tx.execute("DELETE FROM a WHERE id = :k", k=k)',
    'tx.execute("UPDATE b SET v = v + :x WHERE id = :i", i=i, x=x)',
)
_GUARDS = (
    ('row{0} = tx.one("SELECT n, m FROM a WHERE id = :k{1}", k=k)\n    if row{0} is None:\n        return', True),
    (
        'row{0} = tx.one("SELECT n, m FROM a WHERE id = :k{1}", k=k)\n    if row{0} is None or row{0}.n < x:\n        return',
        True,
    ),
    ('many{0} = tx.value("SELECT COUNT(*) FROM b WHERE a_id = :k", k=k)\n    if many{0} > 0:\n        return', False),
    ('row{0} = tx.one("SELECT a_id, v FROM b WHERE id = :i{1}", i=i)\n    if row{0} is None:\n        return', True),
)
_WRITE_BACK = (
    'old = tx.one("SELECT n, m FROM a WHERE id = :k{1}", k=k)\n    if old is None:\n        return\n'
    '    tx.execute("UPDATE a SET n = :y WHERE id = :k", y=old.n + x, k=k)',
)
_INVARIANTS = (
    'must_hold("not-negative", "SELECT id FROM a WHERE n < 0", "")',
    'must_hold("refers", "SELECT b.id FROM b LEFT JOIN a ON a.id = b.a_id WHERE a.id IS NULL", "")',
    'must_hold("total", "SELECT a.id FROM a LEFT JOIN (SELECT a_id, SUM(v) AS s FROM b GROUP BY a_id) t ON t.a_id = a.id'
    ' WHERE a.n <> COALESCE(t.s, 0)", "")',
    'must_hold("counted", "SELECT a.id FROM a LEFT JOIN (SELECT a_id, COUNT(*) AS c FROM b GROUP BY a_id) t'
    ' ON t.a_id = a.id WHERE a.m <> COALESCE(t.c, 0)", "")',
    'must_hold("at-most-one", "SELECT a_id FROM b GROUP BY a_id HAVING COUNT(*) > 1", "")',
)
_TAIL = """
def _draw(random, scale):
    return {"k": random.randint(1, 2), "x": random.randint(1, 2), "i": random.randint(1, 3)}


def _populate(random, scale):
    rows = [(1, 0, 0), (2, 0, 0)]
    yield from (("a", row) for row in rows[: scale["rows"]])


APPLICATION = Application("random", "", "", DDL, PARTS, _populate, {"rows": 2}, INVARIANTS)
"""


def random_application(seed: int, directory: Path) -> Application:
    """An application by its seed; its file lies in ``directory``."""
    random = Random(seed)
    text = _HEAD.format(key=random.choice((" PRIMARY KEY", "", " NOT NULL UNIQUE")))
    names = []
    for number in range(random.choice((2, 2, 3))):
        name = f"t{number}"
        names.append(name)
        body = []
        for place in range(random.randint(0, 2)):
            guard, lockable = random.choice(_GUARDS)
            lock = random.choice(("", "", " FOR UPDATE")) if lockable else ""
            body.append(guard.format(place, lock))
        if random.random() < 0.3:
            body.append(_WRITE_BACK[0].format(0, random.choice(("", " FOR UPDATE"))))
        body += random.sample(_STEPS, random.randint(1, 2))
        lines = "\n    ".join(body)
        text += f"\n\n@transaction\ndef {name}(tx: Handle, k: int, x: int, i: int) -> None:\n"
        text += f"    if x <= 0:\n        return\n    {lines}\n"
    parts = ", ".join(f"Part({name}, 1, _draw)" for name in names)
    text += _TAIL.replace("PARTS", f"({parts},)").replace(
        "INVARIANTS", f"({', '.join(random.sample(_INVARIANTS, random.randint(1, 2)))},)"
    )
    path = directory / f"random_{seed}.py"
    path.write_text(text)
    return application_in(str(path))
