"""Recorded connections do what the driver's own do, and what they write is what happened: judged by ``audit``."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import isolde
from isolde.databases.servers import Running
from isolde.errors import UsageError
from isolde.recorder.parameters import colon_style, percent_style

TABLE = "CREATE TABLE item (id INT PRIMARY KEY, stock INT NOT NULL)"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def shop(place: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(place / "shop.db", timeout=5, check_same_thread=False)
    connection.execute("CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL)")
    connection.execute("INSERT OR IGNORE INTO item VALUES (1, 5), (2, 7)")
    connection.commit()
    return connection


def test_what_sqlite_gave_is_given_on_and_written(tmp_path: Path) -> None:
    connection = isolde.record(shop(tmp_path), tmp_path / "h.jsonl")
    assert connection.execute("SELECT stock FROM item WHERE id = ?", (1,)).fetchone() == (5,)
    with connection:
        connection.execute("UPDATE item SET stock = stock - :n WHERE id = :id", {"n": 1, "id": 1})
        assert list(connection.execute("SELECT * FROM item ORDER BY id")) == [(1, 4), (2, 7)]
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("INSERT INTO item VALUES (1, 5)")
    connection.rollback()
    cursor = connection.cursor()
    cursor.executemany("INSERT INTO item VALUES (?, ?)", [(3, 1), (4, 1)])
    assert cursor.execute("SELECT id FROM item ORDER BY id").fetchmany(3) == [(1,), (2,), (3,)]
    assert cursor.fetchall() == [(4,)]
    connection.close()
    header, *transactions = lines(tmp_path / "h.jsonl")
    assert header["dialect"] == "sqlite"
    assert header["rows"] == {"item": [[1, 5], [2, 7]]}
    assert [one["status"] for one in transactions] == ["committed", "committed", "aborted", "aborted"]
    assert transactions[1]["ops"][0]["sql"] == "UPDATE item SET stock = stock - ? WHERE id = ?"
    assert transactions[1]["ops"][0]["params"] == [1, 1]
    assert transactions[2]["ops"][0]["error"] == "unique"
    report = isolde.audit(str(tmp_path / "h.jsonl"), "strict-ser")
    assert report.satisfied


def test_the_file_is_whole_after_every_transaction(tmp_path: Path) -> None:
    connection = isolde.record(shop(tmp_path), tmp_path / "h.jsonl")
    for number in range(3):
        connection.execute("UPDATE item SET stock = stock + 1")
        connection.commit()
        assert len(lines(tmp_path / "h.jsonl")) == number + 2


def test_what_cannot_be_recorded_is_refused_by_name(tmp_path: Path) -> None:
    connection = isolde.record(shop(tmp_path), tmp_path / "h.jsonl")
    with pytest.raises(UsageError, match="backup is not recorded"):
        connection.backup(sqlite3.connect(":memory:"))
    with pytest.raises(UsageError, match="are not recorded"):
        isolde.record(object(), tmp_path / "i.jsonl")
    opened = shop(tmp_path)
    opened.execute("UPDATE item SET stock = 1")
    with pytest.raises(UsageError, match="a transaction is open"):
        isolde.record(opened, tmp_path / "j.jsonl")


def test_placeholders_inside_of_texts_and_casts_are_none() -> None:
    assert percent_style("SELECT '%s', a::int, %s /* %s */", (1,)) == ("SELECT '%s', a::int, ? /* %s */", [1])
    assert percent_style("SELECT 5 % 2", None) == ("SELECT 5 % 2", [])
    assert percent_style("a = %(b)s OR c = %(b)s", {"b": 2}) == ("a = ? OR c = ?", [2, 2])
    assert colon_style("SELECT ?, '?', ?", (1, 2)) == ("SELECT ?, '?', ?", [1, 2])


def clients(connect: Callable[[], Any], buy: Callable[[Any, Random], None], count: int = 4, rounds: int = 12) -> None:
    """Several threads with a connection each."""

    def work(number: int) -> None:
        connection, random = connect(), Random(number)
        for _ in range(rounds):
            buy(connection, random)
        connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.server
@pytest.mark.parametrize(
    ("level", "model"),
    [("READ COMMITTED", "postgresql:read-committed"), ("REPEATABLE READ", "postgresql:repeatable-read")],
)
def test_threads_on_postgresql_are_recorded_as_its_model_has_it(
    server: Callable[[str], Running], tmp_path: Path, level: str, model: str
) -> None:
    import psycopg

    url, path = server("postgresql").url, tmp_path / "h.jsonl"
    with psycopg.connect(url, autocommit=True) as first:
        first.execute("DROP TABLE IF EXISTS item")
        first.execute(TABLE)
        first.execute("INSERT INTO item VALUES (1, 50), (2, 50)")

    def connect() -> Any:
        raw = psycopg.connect(url)
        raw.isolation_level = psycopg.IsolationLevel[level.replace(" ", "_")]
        return isolde.record(raw, path, schema=TABLE)

    def buy(connection: Any, random: Random) -> None:
        item = random.randint(1, 2)
        try:
            with connection.transaction():
                (stock,) = connection.execute("SELECT stock FROM item WHERE id = %s", (item,)).fetchone()
                connection.execute("UPDATE item SET stock = %(s)s WHERE id = %(i)s", {"s": stock - 1, "i": item})
        except psycopg.errors.SerializationFailure:
            pass

    clients(connect, buy)
    header, *transactions = lines(path)
    assert header["store"].startswith("postgresql 1")
    assert len({one["session"] for one in transactions}) == 4
    assert {op["error"] for one in transactions for op in one["ops"] if "error" in op} <= {"serialization-failure"}
    assert isolde.audit(str(path), model).satisfied
    if level == "REPEATABLE READ":
        assert isolde.audit(str(path), "strict-si").satisfied


@pytest.mark.server
def test_threads_on_mariadb_are_recorded(server: Callable[[str], Running], tmp_path: Path) -> None:
    import pymysql  # type: ignore[import-untyped, unused-ignore]

    at, path = urlsplit(server("mariadb").url), tmp_path / "h.jsonl"
    parts = {"host": at.hostname, "port": at.port, "user": unquote(at.username or ""), "database": "test"}
    parts["password"] = unquote(at.password or "")
    first = pymysql.connect(**parts, autocommit=True)
    with first.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS item")
        cursor.execute(TABLE)
        cursor.execute("INSERT INTO item VALUES (1, 50), (2, 50)")

    def connect() -> Any:
        return isolde.record(pymysql.connect(**parts), path, schema=TABLE)

    def buy(connection: Any, random: Random) -> None:
        item = random.randint(1, 2)
        with connection.cursor() as cursor:
            cursor.execute("SELECT stock FROM item WHERE id = %s FOR UPDATE", (item,))
            (stock,) = cursor.fetchone()
            cursor.execute("UPDATE item SET stock = %s WHERE id = %s", (stock - 1, item))
        connection.commit()

    clients(connect, buy)
    assert isolde.audit(str(path), "strict-ser").satisfied
    assert len(lines(path)) == 1 + 4 * 12


@pytest.mark.parametrize("pooled", [True, False])
def test_an_engine_of_sqlalchemy_is_recorded(tmp_path: Path, pooled: bool) -> None:
    import sqlalchemy
    from sqlalchemy.orm import DeclarativeBase, Session, mapped_column
    from sqlalchemy.pool import NullPool

    class Base(DeclarativeBase):
        pass

    class Item(Base):
        __tablename__ = "item"
        id = mapped_column(sqlalchemy.Integer, primary_key=True)
        stock = mapped_column(sqlalchemy.Integer, nullable=False)

    engine = sqlalchemy.create_engine(
        f"sqlite:///{tmp_path / 'shop.db'}", **({} if pooled else {"poolclass": NullPool})
    )
    Base.metadata.create_all(engine)
    isolde.record(engine, tmp_path / "h.jsonl", schema=Base.metadata)
    with Session(engine) as session:
        session.add_all([Item(id=1, stock=5), Item(id=2, stock=7)])
        session.commit()
    with Session(engine) as session:
        item = session.get_one(Item, 1)
        item.stock -= 1
        session.commit()
    with Session(engine) as session:
        session.add(Item(id=1, stock=9))
        with pytest.raises(sqlalchemy.exc.IntegrityError):
            session.commit()
        session.rollback()
    with Session(engine) as session:
        assert [item.stock for item in session.scalars(sqlalchemy.select(Item).order_by(Item.id))] == [4, 7]
    header, *transactions = lines(tmp_path / "h.jsonl")
    assert header["schema"][0].startswith("CREATE TABLE item")
    assert [one["status"] for one in transactions] == ["committed", "committed", "aborted", "aborted"]
    assert isolde.audit(str(tmp_path / "h.jsonl"), "strict-ser").satisfied
