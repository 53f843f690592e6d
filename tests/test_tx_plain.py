"""The plain form of programs: lists, fresh ids, heads; the same in every dialect, on the store and on real databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pytest

from differential.databases import Failed, Real, SQLite
from differential.procedures import Interpreter
from differential.test_agreement_with_databases import connected
from isolde.databases.servers import Running
from isolde.errors import ExecutionError, MalformedProgram, OutsideFragment
from isolde.semantics.concrete import Ending, Store
from isolde.semantics.concrete.store import FIRST_NEW_ID
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Name, Parameter
from isolde.tx.place import Place
from isolde.tx.procedures import Assign, Draw, Fetch, ForRange, If, Local, Pick, Program, Run, Step, While
from isolde.tx.render import render
from isolde.tx.sql import program

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, b INT);\n"

PARCELS = """
-- a shop that sends parcels
CREATE TABLE shop (id INT PRIMARY KEY, next_parcel INT NOT NULL);      -- one row
CREATE TABLE ware (id INT PRIMARY KEY, price INT NOT NULL, stock INT NOT NULL);
CREATE TABLE parcel (shop INT, number INT, wares INT, PRIMARY KEY (shop, number));
CREATE TABLE content (id BIGINT PRIMARY KEY, number INT, place INT, ware INT, pieces INT, cost INT);
-- @invariant stocked (nothing is sent that is not there): SELECT id FROM ware WHERE stock < 0

-- @txn send 70            -- each ware of the parcel in its turn
SELECT next_parcel INTO :no FROM shop WHERE id = :shop;         -- a lost update, if nobody watches
UPDATE shop SET next_parcel = :no + 1 WHERE id = :shop;
INSERT INTO parcel VALUES (:shop, :no, :wares);
FOR k IN 1..:wares LOOP
  SELECT price, stock INTO :each, :left FROM ware WHERE id = :ware[k];
  IF :left >= :pieces[k] THEN
    UPDATE ware SET stock = CASE WHEN stock - :pieces[k] < 5 THEN stock - :pieces[k] + 9 ELSE stock - :pieces[k] END
     WHERE id = :ware[k];
    INSERT INTO content VALUES (new_id(), :no, k, :ware[k], :pieces[k], :each * :pieces[k]);
  END IF;
END LOOP;
-- @txn unpack(no, twice[]) 25.5 %
DELETE FROM content WHERE number = :no AND place IN (:twice[1], :twice[1 + 1]);
-- @txn order_again(no)
:copy := new_id();
INSERT INTO content (id, number, place, ware, pieces, cost) VALUES (:copy, :no, 0, 1, 1, 1), (new_id(), -1, 1, 1, 1, 1);
IF :no = 3 THEN ROLLBACK; END IF;
"""
CALLS: list[tuple[str, list[Any]]] = [
    ("send", [1, 3, [1, 2, 1], [3, 4, 2]]),
    ("send", [1, 2, [2, 3], [90, 1]]),
    ("send", [2, 1, [1], [1]]),
    ("order_again", [1]),
    ("order_again", [3]),
    ("order_again", [2]),
    ("unpack", [1, [1, 3]]),
    ("unpack", [0, [1]]),
    ("send", [1, 2, [1], [1]]),
]
ROWS: dict[str, list[tuple[int, ...]]] = {"shop": [(1, 1)], "ware": [(1, 10, 20), (2, 25, 6), (3, 1, 0)]}


@pytest.mark.parametrize("dialect", Dialect)
def test_lists_ids_weights_and_comments_are_read_in_every_dialect(dialect: Dialect) -> None:
    send, unpack, again = program(PARCELS, dialect, "parcels").procedures
    assert send.parameters == (Local("shop"), Local("wares"), Local("ware", many=True), Local("pieces", many=True))
    assert unpack.parameters == (Local("no"), Local("twice", many=True))
    loop = send.body[3]
    assert isinstance(loop, ForRange)
    # Elements are taken just before the statement that needs them; the statement itself holds parameters only.
    pick, fetch = loop.body[:2]
    assert (pick, pick.place) == (Pick("_1", "ware", Name("k")), Place("parcels", 14, 62))
    assert isinstance(fetch, Fetch)
    assert render(fetch.statement, dialect) == "SELECT price, stock FROM ware WHERE id = :_1"
    assert isinstance(loop.body[2], Pick)
    assert isinstance(loop.body[3], If)
    taken = [type(step) for step in loop.body[3].branches[0][1]]
    assert taken == [Pick, Pick, Run, Draw, Pick, Pick, Run]
    assert again.body[:3] == (Draw("_1"), Assign("copy", Parameter("_1")), Draw("_2"))


def run_on(real: Real, whole: Program, name: str, arguments: list[Any], ids: Iterator[int]) -> str:
    """How the procedure ended on the database, statement by statement: an ending, or the kind of an error."""
    procedure = whole.procedure(name)
    assert procedure is not None
    try:
        ending = Interpreter(real, whole, procedure, ids).run(tuple(arguments))[0]
    except Failed as failure:
        real.end(keep=False)
        return failure.kind
    real.end(keep=ending is Ending.RETURNED)
    return ending.value


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def real(request: pytest.FixtureRequest, server: Callable[[str], Running]) -> Iterator[Real]:
    real = SQLite() if request.param == "sqlite" else connected(request.param, server(request.param))
    with closing(real):
        yield real


def test_what_the_store_does_with_lists_and_ids_a_database_does(real: Real) -> None:
    found = program(PARCELS, real.dialect)
    store = Store(found.schema, real.dialect)
    real.reset(found.schema)
    for table, rows in ROWS.items():
        store.load(table, rows)
        for row in rows:
            real.execute(f"INSERT INTO {table} VALUES {row}")
    real.end(keep=True)
    ids = count(FIRST_NEW_ID)
    endings = []
    for name, arguments in CALLS:
        try:
            ending = store.call(found, name, arguments).ending.value
        except ExecutionError as error:
            ending = error.kind
        endings.append(ending)
        assert run_on(real, found, name, arguments, ids) == ending
        for table, held in store.state().items():
            assert sorted(held) == sorted(real.execute(f"SELECT * FROM {table}")[0]), (name, arguments, table)
        real.end(keep=True)
    assert endings.count("returned") >= 6
    assert "aborted" in endings
    drawn = [row[0] for row in store.state()["content"]]
    assert len(drawn) == len(set(drawn)) >= 5


def test_an_id_is_never_drawn_again_even_after_a_rollback() -> None:
    text = f"{TABLE}-- @txn fails\nINSERT INTO t VALUES (new_id(), 1); ROLLBACK;\n-- @txn draws\nINSERT INTO t VALUES (new_id(), 1);"
    found = program(text, Dialect.POSTGRESQL)
    store = Store(found.schema, Dialect.POSTGRESQL)
    store.call(found, "draws")
    store.call(found, "fails")
    twin = store.copy()
    store.call(found, "draws")
    twin.call(found, "draws")
    assert store.state()["t"] == [(FIRST_NEW_ID, 1), (FIRST_NEW_ID + 2, 1)]
    assert twin.same_state(store)


@pytest.mark.parametrize("dialect", Dialect)
def test_an_index_outside_of_the_list_gives_null(dialect: Dialect) -> None:
    text = f"{TABLE}-- @txn p(x, i)\nINSERT INTO t VALUES (1, :x[:i]), (2, :x[:x[1]]), (3, COALESCE(:x[9], 8));"
    found = program(text, dialect)
    for index, expected in ((1, 2), (2, 7), (0, None), (3, None), (-1, None), (None, None)):
        store = Store(found.schema, dialect)
        store.call(found, "p", [[2, 7], index])
        assert store.state()["t"] == [(1, expected), (2, 7), (3, 8)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([3, 1], "x is a list"),
        ([None, 1], "x is a list"),
        ([[1], [2]], "i is no list"),
        ([["a", 2], 1], "of one type"),
    ],
)
def test_a_list_is_given_where_one_is_asked_for(arguments: list[Any], words: str) -> None:
    found = program(f"{TABLE}-- @txn p(x, i)\nINSERT INTO t VALUES (:x[1], :i);", Dialect.POSTGRESQL)
    with pytest.raises(ExecutionError, match=words):
        Store(found.schema, Dialect.POSTGRESQL).call(found, "p", arguments)


def test_elements_in_conditions_are_taken_when_they_are_asked_for() -> None:
    text = f"""{TABLE}-- @txn p(x)
    SET :k = 1, :first = :x[:k];
    REPEAT SET :k = :k + 1; UNTIL :x[:k] IS NULL END REPEAT;
    IF :x[1] = 9 THEN ROLLBACK; ELSIF :x[2] = 8 THEN INSERT INTO t VALUES (:k, :first); END IF;
    FOR n IN :x[1]..:x[2] LOOP INSERT INTO t VALUES (n, :x[n]); END LOOP;
    RETURN :x[3];"""
    found = program(text, Dialect.MYSQL)
    steps: tuple[Step, ...] = found.procedures[0].body
    assert isinstance(steps[3], While)
    store = Store(found.schema, Dialect.MYSQL)
    outcome = store.call(found, "p", [[6, 8, 4]])
    assert outcome.values == (4,)
    assert store.state()["t"] == [(4, 6), (6, None), (7, None), (8, None)]


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize(
    ("body", "named", "column"),
    [
        ("UPDATE t SET b = new_id();", r"new_id\(\) that is not a value of INSERT", 18),
        ("INSERT INTO t SELECT new_id(), b FROM t;", r"new_id\(\) that is not a value of INSERT", 22),
        ("SELECT new_id() INTO :x;", r"new_id\(\) that is not a value of INSERT", 8),
        ("WHILE :x[1] > 0 LOOP DELETE FROM t; END LOOP;", "in the condition of WHILE", 7),
        ("SELECT b INTO :x[1] FROM t;", "an element of a list as a target", 17),
        (":x[1] := 3;", "an element of a list as a target", 3),
        ("DELETE FROM t WHERE id = :x[1] AND b = :x;", "the list :x as a value", 40),
        ("SELECT b INTO :y FROM t; DELETE FROM t WHERE b = :y[1];", "an element of the variable :y", 15),
    ],
)
def test_what_has_no_one_meaning_is_refused_where_it_stands(
    body: str, named: str, column: int, dialect: Dialect
) -> None:
    with pytest.raises(OutsideFragment, match=named) as refusal:
        program(f"{TABLE}-- @txn p\n{body}", dialect)
    assert refusal.value.place == f"sql:3:{column}"
    assert refusal.value.instead


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize(
    "body", ["DELETE FROM t WHERE b = :x[];", "DELETE FROM t WHERE b = :x[1;", "DELETE FROM t WHERE b = :x[1 +];"]
)
def test_an_index_is_an_expression(body: str, dialect: Dialect) -> None:
    with pytest.raises(MalformedProgram):
        program(f"{TABLE}-- @txn p\n{body}", dialect)


def test_a_transaction_may_do_nothing() -> None:
    (nothing,) = program(f"{TABLE}-- @txn idle 5\n-- no statement", Dialect.MYSQL).procedures
    assert (nothing.parameters, nothing.body) == ((), ())


@pytest.mark.parametrize("head", ["", "a(x", "a(x INT)", "a(x, x)", "a(x) twice", "a(x) 10 20", "3", "a b"])
def test_a_head_is_a_name_parameters_and_a_weight(head: str) -> None:
    with pytest.raises(MalformedProgram) as refusal:
        program(f"{TABLE}-- @txn {head}\nDELETE FROM t WHERE id = :x;", Dialect.POSTGRESQL)
    assert refusal.value.place.startswith("sql:2:")


@pytest.mark.parametrize("dialect", [Dialect.POSTGRESQL, Dialect.MYSQL])
def test_stored_procedures_have_neither(dialect: Dialect) -> None:
    begin, end = ("AS $$ BEGIN", "END $$ LANGUAGE plpgsql;") if dialect is Dialect.POSTGRESQL else ("BEGIN", "END")
    for body in ("INSERT INTO t VALUES (new_id(), 1);", "DELETE FROM t WHERE id = :x[1];"):
        with pytest.raises(OutsideFragment, match=r"NEW_ID|a subscript"):
            program(f"{TABLE}CREATE PROCEDURE p(x INT) {begin} {body} {end}", dialect)
