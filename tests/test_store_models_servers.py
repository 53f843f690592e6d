"""Store models against the real servers: random programs in random orders, step by step the same.

Every step must be one that the model allows: what returned, what failed and how, who waits, who goes on. A program that differs is
counted by its reason; only what ``docs/design/stores.md`` names as an approximation may differ, and rarely.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from conftest import Servers
from isolde.semantics.stores import store_model
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema
from store_agreement import MariadbServer, Mismatch, PostgresqlServer, Stepped, side_by_side
from store_programs import ROWS, TABLES, program

# With sequential scans alone the server remembers whole tables at SERIALIZABLE, and so does the model.
_SEQUENTIAL = {"enable_indexscan": False, "enable_bitmapscan": False, "enable_indexonlyscan": False}
_MIXED = ["read-committed", "repeatable-read"]
CASES = [
    ("postgresql", ["read-committed"], {}, {}),
    ("postgresql", ["repeatable-read"], {}, {}),
    ("postgresql", ["serializable"], _SEQUENTIAL, {"predicate_locks": "table"}),
    ("postgresql", [*_MIXED, "serializable"], _SEQUENTIAL, {"predicate_locks": "table"}),
    ("mariadb", ["read-uncommitted"], {}, {}),
    ("mariadb", ["read-committed"], {}, {}),
    ("mariadb", ["repeatable-read"], {}, {}),
    ("mariadb", ["repeatable-read"], {"innodb_snapshot_isolation": True}, {"innodb_snapshot_isolation": "on"}),
    ("mariadb", ["serializable"], {}, {}),
    ("mariadb", [*_MIXED, "serializable"], {}, {}),
]
_NAMES = [
    f"{store} {'+'.join(levels)}{' ' + next(iter(server)) if server else ''}" for store, levels, server, _ in CASES
]
# Purge, which takes deleted rows away some time after their commit, and the order in which a plan goes through rows.
DIFFERENT_MAX = 0.03


def agreed(
    servers: Servers, case: tuple[str, list[str], dict[str, bool], dict[str, str]], seeds: range
) -> tuple[Counter[str], list[str]]:
    """How many programs went the same way on both, and those that did not."""
    kind, levels, settings, model_settings = case
    mysql = kind == "mariadb"
    text = ";\n".join(TABLES)
    begin = "begin isolation level {level}"
    if mysql:
        # MariaDB reads REFERENCES behind a column too, but the language does not for MySQL's sake.
        text = text.replace("references t (id), w int not null", ", w int not null, foreign key (p) references t (id)")
        text = text.replace("p int ,", "p int,")
        begin = "set transaction isolation level {level}; begin"
    tables = schema(text, Dialect.MYSQL if mysql else Dialect.POSTGRESQL)
    counted: Counter[str] = Counter()
    different: list[str] = []
    with servers.private(kind, **settings) as running:
        server = (MariadbServer if mysql else PostgresqlServer)(running.url)
        admin = server.connect()
        for seed in seeds:
            random = Random(f"{kind} {levels} {seed}")
            made = program(random, levels, mysql=mysql)
            for sql in (*(f"drop table if exists {table}" for table in ("k", "c", "t")), *text.split(";")):
                server.run(admin, sql)
            for table, rows in ROWS.items():
                for row in rows:
                    server.run(admin, f"insert into {table} values {row}".replace("None", "null"))
            model = store_model(kind, tables, ROWS, model_settings)
            stepped = Stepped(server)
            try:
                side_by_side(model, stepped, made, random, begin)
                counted["same"] += 1
            except Mismatch as mismatch:
                counted["different"] += 1
                different.append(f"seed {seed}\n{mismatch}")
            finally:
                for session in stepped.sessions.values():
                    if session.busy:
                        server.end(admin, session.connection)
                stepped.close()
        admin.close()
        server.close()
    return counted, different


@pytest.mark.parametrize("case", CASES, ids=_NAMES)
def test_the_model_allows_what_the_server_does(
    servers: Servers, case: tuple[str, list[str], dict[str, bool], dict[str, str]]
) -> None:
    counted, different = agreed(servers, case, range(15))
    assert counted["different"] <= 1, "\n\n".join(different)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=_NAMES)
def test_the_model_allows_what_the_server_does_in_three_hundred_programs(
    servers: Servers, case: tuple[str, list[str], dict[str, bool], dict[str, str]]
) -> None:
    counted, different = agreed(servers, case, range(100, 400))
    print(counted)
    assert counted["different"] <= DIFFERENT_MAX * 300, "\n\n".join(different)
