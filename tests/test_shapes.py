"""Shapes of the private table: keys stay apart, one statement writes several columns, and histories are decided as ever."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from isolde.databases import Kind, Table, adapter_named
from isolde.databases.contract import RowConnection
from isolde.databases.keyvalue import tables_to_drop
from isolde.databases.servers import Running
from isolde.databases.shapes import SHAPES, Places, Shape, WriteForm
from isolde.databases.sqlite import SqliteConnection
from isolde.errors import UsageError
from running import isolde, ran

FEW = ("--transactions", "150", "--keys", str(2 * len(SHAPES)))


@pytest.mark.parametrize("shapes", [(Shape(),), (Shape(columns=3),), SHAPES, (Shape(columns=2), Shape(columns=3))])
def test_every_key_has_a_place_of_its_own(shapes: tuple[Shape, ...]) -> None:
    places = Places(shapes)
    found = {places.of(key) for key in range(200)}
    assert len(found) == 200
    for key in range(200):
        for mate in places.row_mates(key):
            assert places.of(mate)[:2] == places.of(key)[:2]
            assert key in places.row_mates(mate)
    assert all(place.row < places.rows(place.table, 200) for place in found)


def test_one_statement_writes_several_columns(tmp_path: Path) -> None:
    sent: list[str] = []

    class Listening(SqliteConnection):
        def _change(self, text: str, parameters: tuple[object, ...]) -> int:
            sent.append(text)
            return super()._change(text, parameters)

    adapter = adapter_named("sqlite")
    database = adapter.open(f"sqlite:{tmp_path / 'one.db'}")
    database.connect = lambda table: Listening(str(tmp_path / "one.db"), table)  # type: ignore[method-assign]
    table = Table("t", Kind.REGISTERS, 9, (Shape(columns=3, key_updates=True),))
    database.create(table)
    connection = database.connect(table)
    connection.begin(database.offers()[-1])
    cast(RowConnection, connection).write_row({3: 7, 5: 8})
    connection.commit()
    assert sent == ["UPDATE t SET id = ?, v0 = ?, v2 = ? WHERE k = ?"]
    connection.close()
    with sqlite3.connect(tmp_path / "one.db") as rows:
        assert rows.execute("SELECT * FROM t WHERE k = 1").fetchall() == [(1_000_000_007, 1, 7, 0, 8)]


def test_runs_move_plans_into_one_row(tmp_path: Path) -> None:
    result = ran(tmp_path / "run", "sqlite:", "--columns", "3", "--transactions", "300", "--keys", "30")
    assert result.status == 0, result.error
    places = Places((Shape(columns=3),))
    shared = [
        transaction
        for transaction in result.history.transactions
        if len(keys := {op.key for op in transaction.ops}) > 1  # type: ignore[union-attr]
        and len({places.of(key)[:2] for key in keys if isinstance(key, int)}) == 1
    ]
    assert len(shared) > 30


@pytest.mark.parametrize(
    ("workload", "deletes"),
    [("mini", "0"), ("mini", "0.3"), ("general", "0"), ("general", "0.3"), ("append", "0"), ("cas", "0")],
)
def test_all_shapes_at_once(tmp_path: Path, workload: str, deletes: str) -> None:
    words = ("--shapes", "all", "--workload", workload, "--deletes", deletes)
    result = ran(tmp_path / "run", "sqlite:", *words, *FEW)
    assert (result.status, set(result.verdicts)) == (0, {"satisfied"}), result.error
    assert result.run["shapes"] == [str(shape) for shape in SHAPES]
    assert [str(SHAPES[0]), str(SHAPES[3])] == ["plain", "columns 2, index"]


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
@pytest.mark.parametrize("workload", ["mini", "append"])
def test_all_shapes_on_servers(tmp_path: Path, server: Callable[[str], Running], kind: str, workload: str) -> None:
    url = server(kind).url
    for isolation in ("read-committed", "repeatable-read", "serializable"):
        words = (url, "--isolation", isolation, "--shapes", "all", "--workload", workload, *FEW)
        result = ran(tmp_path / isolation, *words)
        assert (result.status, set(result.verdicts)) == (0, {"satisfied"}), (isolation, result.out, result.error)


def test_tables_that_refer_to_others_are_dropped_first() -> None:
    table = Table("t", Kind.REGISTERS, 4, (Shape(), Shape(foreign_key=True)))
    assert tables_to_drop(table) == ["t_0", "t_1_c", "t_1"]


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(UsageError, match="delete-insert"):
        Shape(columns=2, writes=WriteForm.DELETE_INSERT)
    for words, reason in (
        (("--shapes", "all", "--index"), "goes through all of them"),
        (("--list-column", "--workload", "append"), "text columns already"),
        (("--index", "--certify"), "does not go with shapes"),
        (("--index", "--workload", "bank"), "has tables"),
    ):
        status, _, error = isolde("run", "sqlite:", *words)
        assert status == 2
        assert reason in error
