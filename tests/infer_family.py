"""Random applications for ``infer``: two or three small transactions over keys, locks, counters, totals, references and loops.

Each application has a theme, that is an invariant and idioms that keep it when transactions run one after the other; locks, guards,
the order of statements and the keys are drawn, so that some assignments of levels keep it, too, and others do not. Some have a
statement in them that has no reason at all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from isolde.workloads.application import Application
from isolde.workloads.applications.files import application_in

_HEAD = '''
from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, must_hold

DDL = """
CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, m INTEGER NOT NULL);
CREATE TABLE b (id INTEGER{key}, a_id INTEGER{null}{reference}, v INTEGER{unknown}{whole});
{more}"""
'''
_GROUPED = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);\n"
_SUM = "(SELECT a_id, SUM(v) AS s FROM b GROUP BY a_id) t"
_COUNT = "(SELECT a_id, COUNT(*) AS c FROM b{} GROUP BY a_id) t"
_INVARIANTS = {
    "not-negative": "SELECT id FROM a WHERE n < 0",
    "together": "SELECT id FROM a WHERE n + m < 0",
    "refers": "SELECT b.id FROM b LEFT JOIN a ON a.id = b.a_id WHERE b.a_id IS NOT NULL AND a.id IS NULL",
    "total": f"SELECT a.id FROM a LEFT JOIN {_SUM} ON t.a_id = a.id WHERE a.n <> COALESCE(t.s, 0)",
    "counted": f"SELECT a.id FROM a LEFT JOIN {_COUNT.format('')} ON t.a_id = a.id WHERE a.m <> COALESCE(t.c, 0)",
    "done": f"SELECT a.id FROM a LEFT JOIN {_COUNT.format(' WHERE v = 1')} ON t.a_id = a.id WHERE a.n <> COALESCE(t.c, 0)",
    "at-most-one": "SELECT a_id FROM b WHERE a_id IS NOT NULL GROUP BY a_id HAVING COUNT(*) > 1",
    "numbered": "SELECT b.id FROM b JOIN a ON a.id = b.a_id WHERE b.id >= a.m",
    "bounded": "SELECT id FROM b WHERE v < 0 OR v > 3",
    "joined": "SELECT t.id FROM t LEFT JOIN (SELECT a.m, SUM(b.v) AS s FROM a JOIN b ON b.a_id = a.id WHERE b.v > 0 GROUP BY a.m) g"
    " ON g.m = t.id WHERE t.n <> COALESCE(g.s, 0)",
}
_OTHERWISE = {
    # The same, said with a query inside.
    "refers": "SELECT id FROM b WHERE a_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM a WHERE a.id = b.a_id)",
    "numbered": "SELECT id FROM b WHERE EXISTS (SELECT 1 FROM a WHERE a.id = b.a_id AND a.m <= b.id)",
}
_POPULATE = """
def _draw(random, scale):
    ids = [random.randint(1, 4) for _ in range(random.randint(0, 2))]
    return {"k": random.randint(1, 2), "j": random.randint(1, 2), "x": random.randint(1, 2), "i": random.randint(1, 4), "ids": ids}


def _populate(random, scale):
    one = NAME in ("at-most-one", "numbered")
    rows = {i: (random.randint(1, 2), random.randint(0, 1 if NAME == "done" else 2)) for i in range(1, 4) if random.random() < 0.4}
    if one:
        rows = {i: row for i, row in rows.items() if row[0] not in [rows[j][0] for j in rows if j < i]}
    if NAME == "joined":
        given = {k: random.randint(1, 2) for k in (1, 2)}
        rows = {i: (k, v) for i, (k, v) in rows.items()}
        yield from (("a", (k, 0, m)) for k, m in given.items())
        yield from (("t", (m, sum(v for k, v in rows.values() if given[k] == m and v > 0))) for m in (1, 2))
        yield from (("b", (i, k, v)) for i, (k, v) in rows.items())
        return
    for k in (1, 2):
        mine = [v for a, v in rows.values() if a == k]
        n = {"total": sum(mine), "done": mine.count(1)}.get(NAME, random.randint(0, 3))
        m = {"counted": len(mine), "numbered": max([i + 1 for i, (a, _) in rows.items() if a == k], default=1)}.get(NAME, random.randint(0, 2))
        if mine or random.random() < 0.8:
            yield "a", (k, n, m)
    nulls = "v INTEGER)" in DDL
    yield from (("b", (i, a, None if nulls and random.random() < 0.3 else v)) for i, (a, v) in rows.items())


"""


class _Drawn:
    """Pieces of transactions, drawn from a seed."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._next = 0

    def lock(self) -> str:
        return self.random.choice(("", "", " FOR UPDATE", " FOR UPDATE", " FOR SHARE"))

    def name(self) -> str:
        self._next += 1
        return f"r{self._next}"

    def either(self, *texts: str) -> str:
        return self.random.choice(texts)

    def in_any_order(self, *texts: str) -> str:
        return "\n".join(self.random.sample(texts, len(texts)))

    def parent(self, key: str = "k") -> str:
        """Asks for the row of ``a``, and gives up where there is none."""
        row = self.name()
        return self.either(
            f'{row} = tx.one("SELECT n, m FROM a WHERE id = :q{self.lock()}", q={key})\nif {row} is None:\n    return',
            f'{row} = tx.value("SELECT COUNT(*) FROM a WHERE id = :q", q={key})\nif {row} == 0:\n    return',
            f'{row} = tx.execute("UPDATE a SET m = m WHERE id = :q", q={key})\nif {row} == 0:\n    tx.abort("none")',
        )

    def locked(self) -> str:
        """A lock for its own sake, or nothing."""
        return self.either(
            "", "", f'{self.name()} = tx.one("SELECT id FROM a WHERE id = :k{self.lock()}", k=k)',
            f'{self.name()} = tx.all("SELECT id FROM b WHERE a_id = :k ORDER BY id{self.lock()}", k=k)',
        )  # fmt: skip

    def add(self, column: str, amount: str, key: str = "k") -> str:
        """Adds to a column of ``a``, in place or by reading it first."""
        row = self.name()
        return self.either(
            f'tx.execute("UPDATE a SET {column} = {column} + :y WHERE id = :q", y={amount}, q={key})',
            f'{row} = tx.one("SELECT {column} FROM a WHERE id = :q{self.lock()}", q={key})\nif {row} is None:\n    tx.abort("none")\n'
            f'tx.execute("UPDATE a SET {column} = :y WHERE id = :q", y={row}.{column} + {amount}, q={key})',
        )

    def child(self, then: Callable[[str], str]) -> str:
        """Asks for a row of ``b``."""
        row = self.name()
        return (
            f'{row} = tx.one("SELECT a_id, v FROM b WHERE id = :i{self.lock()}", i=i)\n'
            f"if {row} is None or {row}.a_id is None:\n    return\n" + then(row)
        )

    def noise(self) -> str:
        return self.either(
            'tx.execute("UPDATE a SET n = n + :x WHERE id = :k", x=x, k=k)',
            'tx.execute("DELETE FROM b WHERE id = :i", i=i)',
            'tx.execute("INSERT INTO b (id, a_id, v) VALUES (:i, :k, :x)", i=i, k=k, x=x)',
            'tx.execute("UPDATE b SET v = v + :x WHERE id = :i", i=i, x=x)',
            'tx.execute("DELETE FROM a WHERE id = :k", k=k)',
            'tx.execute("INSERT INTO a (id, n, m) VALUES (:k, 0, 0)", k=k)',
        )

    def again(self) -> str:
        """A row goes and comes again as it was."""
        return self.child(
            lambda row: (
                'tx.execute("DELETE FROM b WHERE id = :i", i=i)\n'
                f'tx.execute("INSERT INTO b (id, a_id, v) VALUES (:i, :q, :y)", i=i, q={row}.a_id, y={row}.v)'
            )
        )


_INSERT = 'tx.execute("INSERT INTO b (id, a_id, v) VALUES (:i, :k, :y)", i=i, k=k, y={})'
_DELETE = 'tx.execute("DELETE FROM b WHERE id = :i", i=i)'


def _inside(body: str) -> str:
    return "\n".join(f"    {line}" for line in body.split("\n"))


def _refers(d: _Drawn) -> str:
    row = d.name()
    return d.either(
        f"{d.parent()}\n{_INSERT.format('x')}",
        f"{d.parent()}\nfor one in ids:\n"
        + _inside('tx.execute("INSERT INTO b (id, a_id, v) VALUES (:o, :k, :x)", o=one, k=k, x=x)'),
        f'{d.locked()}\n{row} = tx.value("SELECT COUNT(*) FROM b WHERE a_id = :k", k=k)\nif {row} > 0:\n    return\n'
        'tx.execute("DELETE FROM a WHERE id = :k", k=k)',
        f'{d.locked()}\nfor {row} in tx.all("SELECT id FROM b WHERE a_id = :k ORDER BY id{d.lock()}", k=k):\n'
        f'    tx.execute("DELETE FROM b WHERE id = :o", o={row}.id)\ntx.execute("DELETE FROM a WHERE id = :k", k=k)',
        f'{d.locked()}\ntx.execute("DELETE FROM b WHERE a_id = :k", k=k)\ntx.execute("DELETE FROM a WHERE id = :k", k=k)',
        f'{d.parent("j")}\ntx.execute("UPDATE b SET a_id = :j WHERE id = :i", j=j, i=i)',
        f'{d.parent("j")}\ntx.execute("UPDATE b SET a_id = :j WHERE a_id = :k", j=j, k=k)',
        'tx.execute("INSERT INTO a (id, n, m) VALUES (:k, 0, 0)", k=k)',
        d.again(),
    )  # fmt: skip


def _total(d: _Drawn) -> str:
    row, total = d.name(), d.name()
    return d.either(
        f"{d.parent()}\n" + d.in_any_order(_INSERT.format("x"), d.add("n", "x")),
        d.child(lambda row: d.in_any_order(_DELETE, d.add("n", f"(0 - {row}.v)", f"{row}.a_id"))),
        d.child(lambda row: d.in_any_order('tx.execute("UPDATE b SET v = v + :x WHERE id = :i", x=x, i=i)', d.add("n", "x", f"{row}.a_id"))),
        d.child(lambda row: d.in_any_order(f'tx.execute("UPDATE b SET v = :y WHERE id = :i", y={row}.v + x, i=i)', d.add("n", "x", f"{row}.a_id"))),
        f'{d.locked()}\n{row} = tx.value("SELECT COALESCE(SUM(v), 0) FROM b WHERE a_id = :k", k=k)\n'
        f'tx.execute("UPDATE a SET n = :y WHERE id = :k", y={row}, k=k)',
        f'{d.locked()}\ntx.execute("UPDATE b SET v = 0 WHERE a_id = :k", k=k)\ntx.execute("UPDATE a SET n = 0 WHERE id = :k", k=k)',
        f'{d.locked()}\nfor {row} in tx.all("SELECT id, v FROM b WHERE a_id = :k ORDER BY id{d.lock()}", k=k):\n'
        f'    tx.execute("UPDATE a SET n = n - :y WHERE id = :k", y={row}.v, k=k)\n'
        f'    tx.execute("DELETE FROM b WHERE id = :o", o={row}.id)',
        f'{d.locked()}\n{total} = 0\nfor {row} in tx.all("SELECT id, v FROM b WHERE a_id = :k ORDER BY id{d.lock()}", k=k):\n'
        f'    {total} = {total} + {row}.v\ntx.execute("UPDATE a SET n = :y WHERE id = :k", y={total}, k=k)',
        f"{d.parent()}\nfor one in ids:\n"
        + _inside('tx.execute("INSERT INTO b (id, a_id, v) VALUES (:o, :k, :x)", o=one, k=k, x=x)\n'
                  'tx.execute("UPDATE a SET n = n + :x WHERE id = :k", x=x, k=k)'),
        d.again(),
    )  # fmt: skip


def _counted(d: _Drawn) -> str:
    row = d.name()
    return d.either(
        f"{d.parent()}\n" + d.in_any_order(_INSERT.format("x"), d.add("m", "1")),
        d.child(lambda row: d.in_any_order(_DELETE, d.add("m", "(0 - 1)", f"{row}.a_id"))),
        f'{row} = tx.one("SELECT a_id FROM b WHERE id = :i{d.lock()}", i=i)\nif {row} is None or {row}.a_id is None:\n    return\n'
        f'gone = tx.execute("DELETE FROM b WHERE id = :i", i=i)\nif gone == 1:\n    tx.execute("UPDATE a SET m = m - 1 WHERE id = :q", q={row}.a_id)',
        f"{d.parent()}\nfor one in ids:\n"
        + _inside('tx.execute("INSERT INTO b (id, a_id, v) VALUES (:o, :k, :x)", o=one, k=k, x=x)')
        + '\ntx.execute("UPDATE a SET m = m + :y WHERE id = :k", y=len(ids), k=k)',
        d.child(lambda row: f'{d.parent("j")}\ntx.execute("UPDATE b SET a_id = :j WHERE id = :i", j=j, i=i)\n'
                + d.in_any_order(d.add("m", "1", "j"), d.add("m", "(0 - 1)", f"{row}.a_id"))),
        f'{d.locked()}\ntx.execute("DELETE FROM b WHERE a_id = :k", k=k)\ntx.execute("UPDATE a SET m = 0 WHERE id = :k", k=k)',
        d.again(),
    )  # fmt: skip


def _done(d: _Drawn) -> str:
    row = d.name()
    return d.either(
        d.child(lambda row: f'did = tx.execute("UPDATE b SET v = 1 WHERE id = :i AND v = 0", i=i)\nif did == 1:\n'
                f'    tx.execute("UPDATE a SET n = n + 1 WHERE id = :q", q={row}.a_id)'),
        d.child(lambda row: f"if {row}.v != 0:\n    return\n" + d.in_any_order('tx.execute("UPDATE b SET v = 1 WHERE id = :i", i=i)', d.add("n", "1", f"{row}.a_id"))),
        d.child(lambda row: f"if {row}.v != 1:\n    return\n" + d.in_any_order('tx.execute("UPDATE b SET v = 0 WHERE id = :i", i=i)', d.add("n", "(0 - 1)", f"{row}.a_id"))),
        f"{d.parent()}\n{_INSERT.format('0')}",
        f'{d.locked()}\nfor {row} in tx.all("SELECT id FROM b WHERE a_id = :k AND v = 0 ORDER BY id{d.lock()}", k=k):\n'
        f'    if tx.execute("UPDATE b SET v = 1 WHERE id = :o AND v = 0", o={row}.id) == 1:\n'
        '        tx.execute("UPDATE a SET n = n + 1 WHERE id = :k", k=k)',
        f'{row} = tx.one("SELECT id FROM b WHERE a_id = :k AND v = 0 ORDER BY id LIMIT 1{d.lock()}", k=k)\nif {row} is None:\n    return\n'
        + d.in_any_order(f'tx.execute("UPDATE b SET v = 1 WHERE id = :o", o={row}.id)', 'tx.execute("UPDATE a SET n = n + 1 WHERE id = :k", k=k)'),
        d.again(),
    )  # fmt: skip


def _not_negative(d: _Drawn, column: str = "n") -> str:
    row = d.name()
    enough = {"n": f"{row}.n < x", "m": f"{row}.n + {row}.m < x"}[column]
    taking = d.either("n", "m") if column == "m" else "n"
    return d.either(
        f'{row} = tx.one("SELECT n, m FROM a WHERE id = :k{d.lock()}", k=k)\nif {row} is None or {enough}:\n    return\n'
        f'tx.execute("UPDATE a SET {taking} = {taking} - :x WHERE id = :k", x=x, k=k)',
        f'{row} = tx.one("SELECT n, m FROM a WHERE id = :k{d.lock()}", k=k)\nif {row} is None or {enough}:\n    return\n'
        f'tx.execute("UPDATE a SET {taking} = :y WHERE id = :k", y={row}.{taking} - x, k=k)',
        f'tx.execute("UPDATE a SET n = n - :x WHERE id = :k AND {"n" if column == "n" else "n + m"} >= :x", x=x, k=k)',
        f'tx.execute("UPDATE a SET n = n + :x WHERE id = :k", x=x, k=k)\n{row} = tx.one("SELECT n, m FROM a WHERE id = :k", k=k)\n'
        f'if {row} is not None and {row}.n > 3 and {row}.m >= 0:\n    tx.execute("UPDATE a SET n = n - 1 WHERE id = :k", k=k)',
        f'{row} = tx.one("SELECT n, m FROM a WHERE id = :k{d.lock()}", k=k)\nif {row} is None or {enough} or {row}.n < x:\n    return\n'
        'if k != j:\n    tx.execute("UPDATE a SET n = n - :x WHERE id = :k", x=x, k=k)\n    tx.execute("UPDATE a SET n = n + :x WHERE id = :j", x=x, j=j)',
        f'for one in ids:\n    {row} = tx.one("SELECT n, m FROM a WHERE id = :o{d.lock()}", o=one)\n'
        f'    if {row} is not None and {row}.n >= 1:\n        tx.execute("UPDATE a SET n = n - 1 WHERE id = :o", o=one)',
        'tx.execute("DELETE FROM a WHERE id = :k", k=k)',
        'tx.execute("INSERT INTO a (id, n, m) VALUES (:k, :x, 0) ON CONFLICT (id) DO UPDATE SET n = a.n + excluded.n", k=k, x=x)',
        'tx.execute("INSERT INTO a (id, n, m) VALUES (:k, :x, 0) ON CONFLICT (id) DO NOTHING", k=k, x=x)',
    )  # fmt: skip


def _at_most_one(d: _Drawn) -> str:
    row = d.name()
    return d.either(
        f'{d.parent()}\n{row} = tx.value("SELECT COUNT(*) FROM b WHERE a_id = :k", k=k)\nif {row} == 0:\n    {_INSERT.format("x")}',
        f'{d.locked()}\n{row} = tx.one("SELECT id FROM b WHERE a_id = :k ORDER BY id LIMIT 1{d.lock()}", k=k)\nif {row} is None:\n    {_INSERT.format("x")}',
        f'{d.locked()}\ntx.execute("DELETE FROM b WHERE a_id = :k", k=k)\n{_INSERT.format("x")}',
        f'{d.locked()}\n{row} = tx.value("SELECT COUNT(*) FROM b WHERE a_id = :j", j=j)\nif {row} == 0:\n'
        '    tx.execute("UPDATE b SET a_id = :j WHERE id = :i", j=j, i=i)',
        _DELETE,
        d.again(),
    )  # fmt: skip


def _numbered(d: _Drawn) -> str:
    row = d.name()
    insert = f'tx.execute("INSERT INTO b (id, a_id, v) VALUES (:o, :k, :x)", o={row}.m, k=k, x=x)'
    read = f'{row} = tx.one("SELECT m FROM a WHERE id = :k{d.lock()}", k=k)\nif {row} is None:\n    return\n'
    return d.either(
        read + d.in_any_order(insert, 'tx.execute("UPDATE a SET m = m + 1 WHERE id = :k", k=k)'),
        read + d.in_any_order(insert, f'tx.execute("UPDATE a SET m = :y WHERE id = :k", y={row}.m + 1, k=k)'),
        'tx.execute("UPDATE a SET m = m + 1 WHERE id = :k", k=k)\n'
        f'{row} = tx.one("SELECT m FROM a WHERE id = :k", k=k)\nif {row} is None:\n    return\n'
        f'tx.execute("INSERT INTO b (id, a_id, v) VALUES (:o, :k, :x)", o={row}.m - 1, k=k, x=x)',
        f'{d.parent()}\nfor number in range(1, x + 1):\n    {row} = tx.one("SELECT m FROM a WHERE id = :k{d.lock()}", k=k)\n'
        f'    if {row} is not None:\n        tx.execute("UPDATE a SET m = m + 1 WHERE id = :k", k=k)\n        {insert}',
        _DELETE,
        d.again(),
    )  # fmt: skip


def _bounded(d: _Drawn) -> str:
    row = d.name()
    return d.either(
        f'{row} = tx.one("SELECT v FROM b WHERE id = :i{d.lock()}", i=i)\nif {row} is None:\n    return\n'
        f"if {row}.v + x <= 3:\n"
        + _inside(d.either('tx.execute("UPDATE b SET v = v + :x WHERE id = :i", x=x, i=i)',
                           f'tx.execute("UPDATE b SET v = :y WHERE id = :i", y={row}.v + x, i=i)'))
        + '\nelse:\n    tx.execute("UPDATE b SET v = 0 WHERE id = :i", i=i)',
        'tx.execute("UPDATE b SET v = v - 1 WHERE a_id = :k AND v > 0", k=k)',
        f'for {row} in tx.all("SELECT id, v FROM b WHERE a_id = :k ORDER BY id{d.lock()}", k=k):\n    if {row}.v < 3:\n'
        f'        tx.execute("UPDATE b SET v = v + 1 WHERE id = :o", o={row}.id)',
        'for one in ids:\n    tx.execute("UPDATE b SET v = v - 1 WHERE id = :o AND v >= 1", o=one)',
        _INSERT.format("1"),
        _DELETE,
        d.again(),
    )  # fmt: skip


def _joined(d: _Drawn) -> str:
    row, other = d.name(), d.name()
    parent = f'{row} = tx.one("SELECT m FROM a WHERE id = :k{d.lock()}", k=k)\nif {row} is None:\n    return\n'
    add = f'tx.execute("UPDATE t SET n = n + :y WHERE id = :g", y=x, g={row}.m)'
    child = f'{row} = tx.one("SELECT a_id, v FROM b WHERE id = :i{d.lock()}", i=i)\nif {row} is None or {row}.v <= 0:\n    return\n'
    child += (
        f'{other} = tx.one("SELECT m FROM a WHERE id = :q{d.lock()}", q={row}.a_id)\nif {other} is None:\n    return\n'
    )
    take = f'tx.execute("UPDATE t SET n = n - :y WHERE id = :g", y={row}.v, g={other}.m)'
    total = (
        f'{other} = tx.value("SELECT SUM(v) FROM b WHERE a_id = :k AND v > 0", k=k)\nif {other} is None:\n    return\n'
    )
    moved = (
        f'tx.execute("UPDATE t SET n = n - :y WHERE id = :g", y={other}, g={row}.m)\n'
        f'tx.execute("UPDATE t SET n = n + :y WHERE id = :j", y={other}, j=j)\ntx.execute("UPDATE a SET m = :j WHERE id = :k", j=j, k=k)'
    )
    emptied = f'tx.execute("UPDATE b SET v = 0 WHERE a_id = :k", k=k)\ntx.execute("UPDATE t SET n = n - :y WHERE id = :g", y={other}, g={row}.m)'
    return d.either(
        parent + d.in_any_order(_INSERT.format("x"), add),
        parent + d.in_any_order(_INSERT.format("0"), 'tx.execute("UPDATE a SET n = n + 1 WHERE id = :k", k=k)'),
        parent + f"for one in ids:\n    {_INSERT.format('0').replace('i=i', 'i=one')}",
        child + d.in_any_order(_DELETE, take),
        child + d.in_any_order('tx.execute("UPDATE b SET v = 0 WHERE id = :i", i=i)', take),
        parent + total + moved,
        parent + total + emptied,
        parent + total + emptied.replace("UPDATE b SET v = 0", "DELETE FROM b"),
        parent
        + f'if tx.execute("UPDATE b SET v = v + :x WHERE id = :i AND a_id = :k AND v > 0", x=x, i=i, k=k) == 1:\n    {add}',
    )


_THEMES: dict[str, Callable[[_Drawn], str]] = {
    "not-negative": _not_negative,
    "together": lambda d: _not_negative(d, "m"),
    "refers": _refers,
    "total": _total,
    "counted": _counted,
    "done": _done,
    "at-most-one": _at_most_one,
    "numbered": _numbered,
    "bounded": _bounded,
    "joined": _joined,
}


WIDE = 100_000
"""Seeds from here on are of applications whose tables have other keys, or none, and of aggregates over two tables."""


def random_text(seed: int) -> str:
    """The text of an application by its seed."""
    random = Random(seed)
    wide = seed >= WIDE
    theme = random.choice(("joined", "joined", *_THEMES) if wide else list(_THEMES)[:-1])
    drawn = _Drawn(random)
    key = random.choice((*(" PRIMARY KEY",) * 6, "", " NOT NULL UNIQUE"))
    if wide:
        key = random.choice((" PRIMARY KEY", "", "", " NOT NULL", " NOT NULL UNIQUE", "whole"))
    whole = ", PRIMARY KEY (a_id, id)" if key == "whole" else ""
    text = _HEAD.format(
        key=" NOT NULL" if whole else key,
        whole=whole,
        more=_GROUPED if theme == "joined" else "",
        null=random.choice((" NOT NULL", " NOT NULL", "")) if not whole and theme != "joined" else " NOT NULL",
        reference=" REFERENCES a (id)" if random.random() < 0.2 else "",
        unknown=" NOT NULL" if theme != "bounded" or random.random() < 0.5 else "",
    )
    names = []
    for number in range(random.choice((2, 2, 3))):
        names.append(f"t{number}")
        body = _THEMES[theme](drawn)
        if random.random() < 0.12:
            body += f"\n{drawn.noise()}"
        text += (
            f"\n\n@transaction\ndef t{number}(tx: Handle, k: int, j: int, x: int, i: int, ids: list[int]) -> None:\n"
        )
        text += "    if x <= 0:\n        return\n"
        text += "\n".join(f"    {line}" for line in body.split("\n") if line) + "\n"
    parts = ", ".join(f"Part({name}, 1, _draw)" for name in names)
    text += _POPULATE.replace("NAME", repr(theme))
    query = _OTHERWISE[theme] if theme in _OTHERWISE and random.random() < 0.4 else _INVARIANTS[theme]
    invariant = f'must_hold("{theme}", "{query}", "")'
    return text + (
        f'\n\nAPPLICATION = Application("random{seed}", "", "", DDL, ({parts},), _populate, {{"rows": 2}}, ({invariant},))\n'
    )


def random_application(seed: int, directory: Path) -> Application:
    """An application by its seed; its file lies in ``directory``."""
    path = directory / f"random_{seed}.py"
    path.write_text(random_text(seed))
    return application_in(str(path))
