"""An application's statements for another database: what cannot be said there is refused."""

from __future__ import annotations

import pytest

from isolde.errors import OutsideFragment
from isolde.tx import Dialect
from isolde.tx.sql import schema
from isolde.tx.translate import Translator

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
