"""The model of SQLite against SQLite: random programs of two sessions in random orders, step by step the same."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from isolde.semantics.stores import store_model
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema
from store_agreement import Act, Mismatch, SqliteServer, Stepped, side_by_side
from store_programs import ROWS, TABLES, program

LEVELS = ["deferred", "deferred", "immediate"]
# A statement that failed leaves pages behind that its transaction writes, though nothing in them has changed.
DIFFERENT_MAX = 0.03


def without_locks(act: Act) -> bool:
    """SQLite has no locking queries."""
    texts = (act,) if isinstance(act, str) else act[1:]
    return not any(" for " in text for text in texts)


def sessions(random: Random) -> list[list[tuple[str, list[Act]]]]:
    """Two sessions, since nobody knows which of several that wait comes first."""
    while True:
        made = [
            [(level, [act for act in acts if without_locks(act)]) for level, acts in transactions]
            for transactions in program(random, LEVELS, mysql=False)[:2]
        ]
        if all(acts for transactions in made for _, acts in transactions):
            return made


def different(directory: Path, seeds: range) -> list[str]:
    text = ";\n".join(TABLES)
    tables = schema(text, Dialect.SQLITE)
    found = []
    for seed in seeds:
        random = Random(f"sqlite {seed}")
        server = SqliteServer(str(directory / f"{seed}.db"))
        admin = server.connect()
        admin.execute("pragma journal_mode = wal")
        admin.executescript(text)
        for table, rows in ROWS.items():
            for row in rows:
                admin.execute(f"insert into {table} values {row}".replace("None", "null"))
        admin.close()
        stepped = Stepped(server)
        try:
            side_by_side(store_model("sqlite", tables, ROWS), stepped, sessions(random), random.choice, "begin {level}")
        except Mismatch as mismatch:
            found.append(f"seed {seed}\n{mismatch}")
        finally:
            stepped.close()
    return found


def test_the_model_allows_what_sqlite_does(tmp_path: Path) -> None:
    found = different(tmp_path, range(40))
    assert len(found) <= 1, "\n\n".join(found)


@pytest.mark.long
def test_the_model_allows_what_sqlite_does_in_three_hundred_programs(tmp_path: Path) -> None:
    found = different(tmp_path, range(100, 400))
    assert len(found) <= DIFFERENT_MAX * 300, "\n\n".join(found)
