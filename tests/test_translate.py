"""An application's statements for another database: what cannot be said there is refused."""

from __future__ import annotations

import pytest

from isolde.databases.translate import Translator
from isolde.errors import OutsideFragment
from isolde.semantics.concrete import Store
from isolde.tx import Dialect
from isolde.tx.sql import schema, statement

TABLES = schema(
    "CREATE TABLE one (id INT PRIMARY KEY, v INT); CREATE TABLE two (id INT PRIMARY KEY, v INT UNIQUE)",
    Dialect.POSTGRESQL,
)
UPSERT = "INSERT INTO {} VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET v = 3"


def test_an_upsert_goes_to_mysql_where_its_key_is_the_only_one() -> None:
    mysql = Translator(TABLES, Dialect.MYSQL, "x_")
    text = "INSERT INTO x_one VALUES (1, 2) ON DUPLICATE KEY UPDATE v = 3"
    assert mysql.ready(UPSERT.format("one"), Dialect.POSTGRESQL).text == text
    with pytest.raises(OutsideFragment, match="an upsert by one of several keys of two in MySQL"):
        mysql.ready(UPSERT.format("two"), Dialect.POSTGRESQL)
    assert Translator(TABLES, Dialect.SQLITE, "").ready(UPSERT.format("two"), Dialect.POSTGRESQL).text


def test_the_columns_that_come_back_are_known_before_it_is_sent() -> None:
    translator = Translator(TABLES, Dialect.SQLITE, "x_")
    ready = translator.ready("SELECT two.*, one.v AS w FROM one, two WHERE one.id = :i", Dialect.POSTGRESQL)
    assert ready.columns == ("id", "v", "w")
    assert ready.parameters == ("i",)
    assert not ready.changes


def test_a_text_means_what_the_dialect_says_that_it_is_in() -> None:
    translator = Translator(TABLES, Dialect.SQLITE, "")
    text = "SELECT v || 1 AS x FROM one"
    assert translator.ready(text, Dialect.POSTGRESQL).text == "SELECT v || 1 AS x FROM one AS one"
    assert translator.ready(text, Dialect.MYSQL).text == "SELECT v OR 1 AS x FROM one AS one"


def test_postgresql_is_told_what_a_parameter_is_where_all_types_are_taken() -> None:
    translator = Translator(TABLES, Dialect.POSTGRESQL, "")
    for written, sent in (
        ("SELECT CONCAT(:a, 'x') AS c", "SELECT CONCAT(COALESCE($1, NULL), 'x') AS c"),
        ("SELECT id FROM one WHERE :a IS NULL", "SELECT id FROM one AS one WHERE COALESCE($1, NULL) IS NULL"),
        ("SELECT COUNT(:a) AS n FROM one", "SELECT COUNT(COALESCE($1, NULL)) AS n FROM one AS one"),
        ("SELECT id FROM one WHERE :a IS TRUE", "SELECT id FROM one AS one WHERE $1 IS TRUE"),
    ):
        assert translator.ready(written, Dialect.POSTGRESQL).text == sent


def test_columns_have_the_same_names_on_the_store_and_on_a_database() -> None:
    store = Store(TABLES, Dialect.POSTGRESQL)
    for text in (
        "SELECT COUNT(*), SUM(v) FROM one",
        "SELECT v, v + 1, id AS k, MAX(v) FROM one GROUP BY id, v",
        "SELECT q.*, one.* FROM (SELECT id AS a, COUNT(*) FROM two GROUP BY id) AS q JOIN one ON one.id = q.a",
        "INSERT INTO one VALUES (1, 2) RETURNING *",
    ):
        ready = Translator(TABLES, Dialect.SQLITE, "").ready(text, Dialect.POSTGRESQL)
        result = store.copy().transaction().run(statement(text, Dialect.POSTGRESQL))
        assert ready.columns == result.columns
    assert ready.columns == ("id", "v")
