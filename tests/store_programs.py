"""Random small SQL programs for store models: three tables, keys of one and of two columns, a foreign key.

Few values, so that transactions meet.
"""

from __future__ import annotations

from random import Random
from typing import Any

from store_agreement import Act

TABLES = (
    "create table t (id int primary key, v int not null, u int unique)",
    "create table c (id int primary key, p int references t (id), w int not null)",
    "create table k (a int, b int, v int not null, primary key (a, b))",
)
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "t": [(1, 10, 1), (2, 20, 2), (3, 30, None)],
    "c": [(1, 1, 5), (2, 2, 5)],
    "k": [(1, 1, 10), (1, 2, 20), (2, 1, 10), (3, 2, 30)],
}
LOCKS = ("for update", "for no key update", "for share", "for key share")


def statement(random: Random, mysql: bool, *, ranges: bool = True) -> str:
    key, other, value = random.randint(1, 5), random.randint(1, 5), random.choice((5, 15, 25, 35))
    locks = ("for update", "lock in share mode") if mysql else LOCKS
    lock = random.choice(locks) + random.choice(("", "", "", " nowait", " skip locked"))
    reads = [
        f"select v from t where id = {key}",
        f"select v from t where id = {key}",
        "select id, v from t",
        "select sum(v) from t",
        f"select id, w from c where p = {key}",
        "select count(*) from c",
        f"select t.v from t join c on c.p = t.id where c.id = {key}",
        f"select v from t where id = {key} {lock}",
        f"select v from t where id = {key} {lock}",
        f"select v from t where u = {other} {lock}",
        f"select b, v from k where a = {key} order by b {lock}",
        f"select sum(v) from k where a = {key}",
    ]
    writes = [
        f"update t set v = v + 1 where id = {key}",
        f"update t set v = v + 1 where id = {key}",
        f"update t set v = {value} where id = {key}",
        f"update t set u = {other} where id = {key}",
        f"update t set v = (select max(w) from c) where id = {key}",
        f"insert into t values ({key}, {value}, null)",
        f"insert into t values ({key}, {value}, {other})",
        f"delete from t where id = {key}",
        f"insert into c values ({key}, {other}, {value})",
        f"update c set p = {other} where id = {key}",
        f"update c set w = w + 1 where id = {key}",
        f"delete from c where id = {key}",
        f"update k set v = v + 1 where a = {key}",
        f"update k set v = v + 1 where a = {key} and b = {other}",
        f"insert into k values ({key}, {other}, {value})",
        f"delete from k where a = {key}",
    ]
    if not mysql:
        writes += [
            f"update t set id = {other} where id = {key}",
            f"update t set v = v + 1 where id = {key} returning v",
            f"insert into t values ({key}, {value}, null) on conflict (id) do nothing",
            f"insert into t values ({key}, {value}, null) on conflict (id) do update set v = t.v + excluded.v",
        ]
    else:
        writes += [f"insert into t values ({key}, {value}, null) on duplicate key update v = v + 1"]
    if ranges:
        reads += [f"select id, v from t where v >= {value} order by id {lock}", f"select id from t where v >= {value}"]
        writes += [
            f"update t set v = v + 10 where v >= {value}",
            f"update t set v = v + 10 where id <= {key}",
            f"delete from t where v < {value}",
            f"delete from c where p = {key}",
            f"update c set w = w + 1 where p = {key}",
        ]
    return random.choice(reads if random.random() < 0.4 else writes)


def program(
    random: Random, levels: list[str], *, mysql: bool, ranges: bool = True
) -> list[list[tuple[str, list[Act]]]]:
    """Two or three sessions of one or two transactions."""
    sessions = []
    for _ in range(random.choice((2, 2, 3))):
        transactions = []
        for _ in range(random.choice((1, 1, 2))):
            acts: list[Act] = []
            for _ in range(random.randint(1, 4)):
                one = statement(random, mysql, ranges=ranges)
                if random.random() < 0.15:
                    acts.append((random.choice((10, 20)), one, statement(random, mysql, ranges=ranges)))
                else:
                    acts.append(one)
            if random.random() < 0.15:
                acts.append("rollback")
            transactions.append((random.choice(levels), acts))
        sessions.append(transactions)
    return sessions
