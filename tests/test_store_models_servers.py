"""Store models against the real servers: random programs in random orders, step by step the same.

Every step must be one that the model allows: what returned, what failed and how, who waits, who goes on. A program that differs is
counted by its reason; only what ``docs/design/stores.md`` names as an approximation may differ, and rarely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from conftest import Servers
from isolde.semantics.stores import Failed, Model, Returned, store_model
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema
from store_agreement import (
    Choice,
    MariadbServer,
    Mismatch,
    PostgresqlServer,
    Programs,
    Stepped,
    interleavings,
    side_by_side,
)
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
ORDERS_MAX = 8
"""Interleavings of one program in the long test: all of them where there are no more, else so many at random."""
# Purge, which takes deleted rows away some time after their commit, and the order in which a plan goes through rows.
DIFFERENT_MAX = 0.01
"""Of the interleavings."""


def agreed(
    servers: Servers, case: tuple[str, list[str], dict[str, bool], dict[str, str]], seeds: range, orders: int = 1
) -> tuple[Counter[str], list[str]]:
    """How many programs went the same way on both in all the ``orders`` that were played, and those that did not."""
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
            model = store_model(kind, tables, ROWS, model_settings)
            failed: list[str] = []
            for choose in interleavings(made, random, orders):
                counted["interleavings"] += 1
                taken: list[str] = []

                def noting(able: Sequence[str], choose: Choice = choose, taken: list[str] = taken) -> str:
                    taken.append(choose(able))
                    return taken[-1]

                mismatch = played(model, server, admin, made, noting, begin, text)
                # A busy machine may be slow to wake somebody up: what is a difference is there again the next time.
                if mismatch is not None:
                    mismatch = played(model, server, admin, made, repeating(taken), begin, text)
                    counted["played again"] += 1
                if mismatch is not None:
                    failed.append(f"seed {seed}\n{mismatch}")
            counted["different" if failed else "same"] += 1
            counted["different interleavings"] += len(failed)
            different += failed
        admin.close()
        server.close()
    return counted, different


def repeating(taken: Sequence[str]) -> Choice:
    """The same choices once more; where they do not fit any more, whoever comes first."""
    left = list(reversed(taken))

    def choose(able: Sequence[str]) -> str:
        name = left.pop() if left else able[0]
        return name if name in able else able[0]

    return choose


def played(
    model: Model,
    server: PostgresqlServer | MariadbServer,
    admin: Any,
    made: Programs,
    choose: Choice,
    begin: str,
    text: str,
) -> Mismatch | None:
    """How the server differs from the model in one order, if it does."""
    anew(server, admin, text)
    stepped = Stepped(server)
    try:
        side_by_side(model, stepped, made, choose, begin)
    except Mismatch as mismatch:
        return mismatch
    finally:
        for session in stepped.sessions.values():
            if session.busy:
                server.end(admin, session.connection)
        stepped.close()
    return None


def anew(server: PostgresqlServer | MariadbServer, admin: Any, text: str) -> None:
    """The tables with their first rows."""
    for sql in (*(f"drop table if exists {table}" for table in ("k", "c", "t")), *text.split(";")):
        server.run(admin, sql)
    for table, rows in ROWS.items():
        values = ", ".join(str(row).replace("None", "null") for row in rows)
        server.run(admin, f"insert into {table} values {values}")


@pytest.mark.parametrize("case", CASES, ids=_NAMES)
def test_the_model_allows_what_the_server_does(
    servers: Servers, case: tuple[str, list[str], dict[str, bool], dict[str, str]]
) -> None:
    counted, different = agreed(servers, case, range(15))
    assert counted["different"] <= 1, "\n\n".join(different)


def test_a_wait_that_mariadb_ends_by_the_clock_takes_back_the_statement_alone(servers: Servers) -> None:
    """Error 1205: what the transaction did before stays, and so do its locks, as after NOWAIT on the model."""
    rows = {"t": [(1, 10), (2, 20)]}
    table = "create table t (id int primary key, v int not null)"
    before = "update t set v = v + 1 where id = 2"
    with servers.private("mariadb") as running:
        server = MariadbServer(running.url)
        first, second = server.connect(), server.connect()
        for sql in (table, "insert into t values (1, 10), (2, 20)", "begin", "update t set v = 11 where id = 1"):
            server.run(first, sql)
        for sql in ("set innodb_lock_wait_timeout = 1", "begin", before):
            server.run(second, sql)
        with pytest.raises(Exception, match="1205") as waited:
            server.run(second, "update t set v = v + 1")
        assert server.word(waited.value) == ("lock-timeout", False)
        server.run(first, "commit")
        server.run(second, "commit")
        on_server = server.run(first, "select id, v from t order by id")
        for connection in (first, second):
            connection.close()
        server.close()
    model = store_model("mariadb", schema(table, Dialect.MYSQL), rows)
    (state,) = (step.state for step in model.begin(model.initial(), "1", ""))
    (state,) = (step.state for step in model.submit(state, "1", "update t set v = 11 where id = 1"))
    (state,) = (step.state for step in model.begin(state, "2", ""))
    (state,) = (step.state for step in model.submit(state, "2", before))
    (step,) = model.submit(state, "2", "select v from t for update nowait")
    failed = step.result("2")
    assert isinstance(failed, Failed)
    assert (failed.word, failed.ended) == ("lock-timeout", False)
    (state,) = (step.state for step in model.commit(step.state, "1"))
    (state,) = (step.state for step in model.commit(state, "2"))
    assert isinstance(on_server, Returned)
    assert list(on_server.rows) == state.rows()["t"] == [(1, 11), (2, 21)]


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=_NAMES)
def test_the_model_allows_what_the_server_does_in_three_hundred_programs(
    servers: Servers, case: tuple[str, list[str], dict[str, bool], dict[str, str]]
) -> None:
    counted, different = agreed(servers, case, range(100, 400), ORDERS_MAX)
    print(counted, *different, sep="\n\n")
    assert counted["different interleavings"] <= DIFFERENT_MAX * counted["interleavings"], "\n\n".join(different)
