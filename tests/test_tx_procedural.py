"""Procedures: PL/pgSQL, MySQL's, and the plain form."""

from __future__ import annotations

import pytest

from isolde.errors import MalformedProgram, OutsideFragment
from isolde.semantics.concrete import Ending, Store
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Parameter
from isolde.tx.place import Place
from isolde.tx.procedures import (
    Abort,
    Again,
    Assert,
    Assign,
    CallProcedure,
    CloseCursor,
    Fetch,
    FetchCursor,
    ForEach,
    ForRange,
    If,
    Leave,
    OpenCursor,
    Procedure,
    Program,
    Return,
    Run,
    Step,
    While,
)
from isolde.tx.render import render
from isolde.tx.schema import INTEGER
from isolde.tx.sql import program
from isolde.tx.statements import Statement

PG, MY = Dialect.POSTGRESQL, Dialect.MYSQL
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, b INT);\n"


def outline(steps: tuple[Step, ...]) -> list[str]:
    """Steps as lines: one a step, blocks indented."""
    lines: list[str] = []
    for step in steps:
        lines += _outline(step)
    return lines


def sql(node: Statement | str) -> str:
    return node if isinstance(node, str) else render(node, PG)


def _block(head: str, body: tuple[Step, ...]) -> list[str]:
    return [head, *(f"  {line}" for line in outline(body))]


def _outline(step: Step) -> list[str]:
    match step:
        case Run(statement, count):
            return [sql(statement) + (f" -> #{count}" if count else "")]
        case Fetch(statement, into, required, _, found):
            tail = ("!" if required else "") + (f" ? {found}" if found else "")
            return [f"{sql(statement)} -> {', '.join(into)}{tail}"]
        case Assign(variable, value):
            return [f"{variable} := {render(value, PG)}"]
        case If(branches, otherwise):
            lines = []
            for condition, body in branches:
                lines += _block(f"if {render(condition, PG)}", body)
            return lines + (_block("else", otherwise) if otherwise else [])
        case ForEach(variables, rows, body, label):
            return _block(f"{label or ''}: for {', '.join(variables)} in {sql(rows)}", body)
        case ForRange(variable, first, last, body):
            return _block(f"for {variable} in {render(first, PG)}..{render(last, PG)}", body)
        case While(condition, body, label):
            return _block(f"{label or ''}: while {render(condition, PG)}", body)
        case Leave(label):
            return [f"leave {label or ''}".rstrip()]
        case Again(label):
            return [f"again {label or ''}".rstrip()]
        case OpenCursor(name):
            return [f"open {name}"]
        case CloseCursor(name):
            return [f"close {name}"]
        case FetchCursor(name, into, found):
            return [f"fetch {name} -> {', '.join(into)} ? {found}"]
        case CallProcedure(name, arguments, into):
            return [f"call {name}({', '.join(render(a, PG) for a in arguments)}) -> {', '.join(into)}"]
        case Return(values):
            return [f"return {', '.join(render(value, PG) for value in values)}".rstrip()]
        case Abort(reason):
            return [f"abort {render(reason, PG) if reason else ''}".rstrip()]
        case Assert(condition, message):
            return [f"assert {render(condition, PG)} {message}".rstrip()]
        case _:
            raise AssertionError(step)


def body(text: str, dialect: Dialect, declarations: str = "") -> list[str]:
    if dialect is PG:
        whole = f"{TABLE}CREATE PROCEDURE p(x INT) AS $$ {declarations} BEGIN {text} END $$ LANGUAGE plpgsql;"
    else:
        whole = f"{TABLE}CREATE PROCEDURE p(IN x INT) BEGIN {declarations} {text} END"
    return outline(program(whole, dialect).procedures[0].body)


BODIES = [
    (PG, "DECLARE n INT := 1;", "n := n + x; n = 2; NULL;", ["n := n + x", "n := 2"]),
    (PG, "DECLARE n INT;", "SELECT b INTO STRICT n FROM t WHERE id = x;", ["SELECT b FROM t WHERE id = x -> n!"]),
    (
        PG,
        "DECLARE n INT;",
        "INSERT INTO t VALUES (1) RETURNING id INTO n;",
        ["INSERT INTO t VALUES (1) RETURNING id -> n"],
    ),
    (
        PG,
        "DECLARE n INT;",
        "UPDATE t SET b = 1; GET DIAGNOSTICS n = ROW_COUNT;",
        ["UPDATE t SET b = 1 -> #n"],
    ),
    (
        PG,
        "",
        "UPDATE t SET b = 1; IF NOT FOUND THEN RETURN; END IF;",
        ["UPDATE t SET b = 1 -> #row_count__", "found := row_count__ > 0", "if NOT found", "  return"],
    ),
    (
        PG,
        "DECLARE n INT;",
        "SELECT b INTO n FROM t; IF FOUND THEN NULL; END IF;",
        ["SELECT b FROM t -> n ? found", "if found"],
    ),
    (
        PG,
        "",
        "IF x > 1 THEN DELETE FROM t; ELSIF x = CASE WHEN x = 2 THEN 1 ELSE 0 END THEN RETURN; ELSE ROLLBACK; END IF;",
        ["if x > 1", "  DELETE FROM t", "if x = CASE WHEN x = 2 THEN 1 ELSE 0 END", "  return", "else", "  abort"],
    ),
    (PG, "", "CASE x WHEN 1 THEN DELETE FROM t; ELSE NULL; END CASE;", ["if x = 1", "  DELETE FROM t"]),
    (PG, "", "CASE WHEN x = 1 THEN NULL; END CASE;", ["if x = 1", "else", "  abort 'case not found'"]),
    (
        PG,
        "DECLARE r RECORD;",
        "<<l>> FOR r IN SELECT id, b FROM t LOOP CONTINUE l WHEN r.b IS NULL; UPDATE t SET b = r.b WHERE id = r.id; END LOOP l;",
        [
            "l: for r in SELECT id, b FROM t",
            "  if r.b IS NULL",
            "    again l",
            "  UPDATE t SET b = r.b WHERE id = r.id",
        ],
    ),
    (PG, "", "FOR i IN 1..x + 1 LOOP EXIT; END LOOP;", ["for i in 1..x + 1", "  leave"]),
    (PG, "", "WHILE x > 0 LOOP x := x - 1; END LOOP;", [": while x > 0", "  x := x - 1"]),
    (
        PG,
        "DECLARE c CURSOR FOR SELECT id FROM t; k INT;",
        "OPEN c; LOOP FETCH c INTO k; EXIT WHEN NOT FOUND; END LOOP; CLOSE c;",
        ["open c", ": while TRUE", "  fetch c -> k ? found", "  if NOT found", "    leave", "close c"],
    ),
    (PG, "", "PERFORM p(x + 1); CALL p(2);", ["call p(x + 1) -> ", "call p(2) -> "]),
    (PG, "", "PERFORM 1 FROM t WHERE id = x FOR UPDATE;", ["SELECT 1 FROM t WHERE id = x FOR UPDATE"]),
    (
        PG,
        "",
        "RAISE NOTICE 'x %', x; ASSERT x > 0, 'positive'; RAISE EXCEPTION 'too poor: %', x;",
        ["assert x > 0 positive", "abort 'too poor: %'"],
    ),
    (
        MY,
        "DECLARE a, n INT DEFAULT 0;",
        "START TRANSACTION; SET a = 1, n = IF(a > 1, 2, 3); UPDATE t SET b = x WHERE id = x; SET n = ROW_COUNT(); COMMIT;",
        [
            "a := 1",
            "n := CASE WHEN :a > 1 THEN 2 ELSE 3 END",
            "UPDATE t SET b = :x WHERE id = :x -> #row_count__",
            "n := row_count__",
        ],
    ),
    (
        MY,
        "DECLARE done INT DEFAULT FALSE; DECLARE y INT; DECLARE c CURSOR FOR SELECT id FROM t;"
        " DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = TRUE;"
        " DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;",
        "OPEN c; l: LOOP FETCH c INTO y; IF done THEN LEAVE l; END IF; ITERATE l; END LOOP; CLOSE c;",
        [
            "open c",
            "l: while TRUE",
            "  fetch c -> y ? found__",
            "  if NOT :found__",
            "    done := TRUE",
            "  if :done",
            "    leave l",
            "  again l",
            "close c",
        ],
    ),
    (
        MY,
        "",
        "REPEAT SET x = x - 1; UNTIL x <= 0 END REPEAT; WHILE x < 3 DO SET x = x + 1; END WHILE;",
        [": while TRUE", "  x := :x - 1", "  if :x <= 0", "    leave", ": while :x < 3", "  x := :x + 1"],
    ),
    (
        MY,
        "",
        "IF x < 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'poor'; ELSEIF x = 1 THEN DELETE FROM t; END IF;",
        ["if :x < 0", "  abort 'poor'", "if :x = 1", "  DELETE FROM t"],
    ),
]


@pytest.mark.parametrize(("dialect", "declarations", "text", "expected"), BODIES)
def test_a_body_is_its_steps(dialect: Dialect, declarations: str, text: str, expected: list[str]) -> None:
    assert body(text, dialect, declarations) == expected


# Each in PL/pgSQL, in MySQL's procedures and in the plain form: text, steps of the plain form, or what is refused.
ENDINGS = [
    ("DELETE FROM t; COMMIT;", ["DELETE FROM t"]),
    ("DELETE FROM t; COMMIT WORK; RETURN;", ["DELETE FROM t", "return"]),
    ("IF 1 = 1 THEN DELETE FROM t; COMMIT; ELSE ROLLBACK; END IF;", ["if 1 = 1", "  DELETE FROM t", "else", "  abort"]),
    ("IF 1 = 1 THEN COMMIT; RETURN; END IF; DELETE FROM t;", ["if 1 = 1", "  return", "DELETE FROM t"]),
    ("DELETE FROM t; ROLLBACK;", ["DELETE FROM t", "abort"]),
    ("IF 1 = 1 THEN ROLLBACK; RETURN; END IF; DELETE FROM t;", ["if 1 = 1", "  abort", "  return", "DELETE FROM t"]),
    ("DELETE FROM t; COMMIT; DELETE FROM t;", "a statement after COMMIT"),
    ("COMMIT; SELECT b FROM t;", "a statement after COMMIT"),
    ("IF 1 = 1 THEN COMMIT; END IF; DELETE FROM t;", "a statement after COMMIT"),
    ("COMMIT; IF 1 = 1 THEN DELETE FROM t; END IF;", "a statement after COMMIT"),
    ("COMMIT; IF 1 = 1 THEN ROLLBACK; END IF;", "a statement after COMMIT"),
    ("COMMIT; COMMIT;", ["", ""]),
    ("WHILE 1 = 1 {do} DELETE FROM t; COMMIT; END {while};", "COMMIT inside of a loop"),
    ("WHILE 1 = 1 {do} COMMIT; RETURN; END {while};", [": while 1 = 1", "  return"]),
    ("ROLLBACK TO SAVEPOINT a;", "ROLLBACK TO a savepoint"),
    ("COMMIT AND CHAIN;", "COMMIT AND CHAIN"),
    ("ROLLBACK AND CHAIN;", "ROLLBACK AND CHAIN"),
    ("DELETE FROM t; START TRANSACTION;", "a transaction's begin inside of a procedure"),
]


@pytest.mark.parametrize("form", ["postgresql", "mysql", "plain"])
@pytest.mark.parametrize(("text", "expected"), ENDINGS)
def test_a_procedure_is_one_transaction_in_every_form(form: str, text: str, expected: list[str] | str) -> None:
    dialect = MY if form == "mysql" else PG
    words = {"do": "DO", "while": "WHILE"} if form == "mysql" else {"do": "LOOP", "while": "LOOP"}
    text = text.format(**words)

    def steps() -> list[str]:
        if form == "plain":
            return outline(program(f"{TABLE}-- @txn p\n{text}", PG).procedures[0].body)
        return body(text, dialect)

    if isinstance(expected, str):
        with pytest.raises(OutsideFragment, match=expected) as refusal:
            steps()
        assert refusal.value.instead
    else:
        assert steps() == [line for line in expected if line]


@pytest.mark.parametrize("text", ["ROLLBACK; DELETE FROM t;", "IF 1 = 1 THEN ROLLBACK; END IF; DELETE FROM t;"])
def test_a_database_goes_on_after_rollback_and_the_plain_form_does_not(text: str) -> None:
    for dialect in (PG, MY):
        with pytest.raises(OutsideFragment, match="a statement after ROLLBACK"):
            body(text, dialect)
    assert "abort" in " ".join(outline(program(f"{TABLE}-- @txn p\n{text}", PG).procedures[0].body))


REFUSED = [
    (PG, "EXCEPTION WHEN OTHERS THEN NULL;", "EXCEPTION"),
    (PG, "EXECUTE 'SELECT 1';", "run time"),
    (PG, "RETURN QUERY SELECT 1;", "RETURN QUERY"),
    (PG, "FOREACH i IN ARRAY a LOOP NULL; END LOOP;", "FOREACH"),
    (PG, "FOR r IN REVERSE SELECT id FROM t LOOP NULL; END LOOP;", "reverse"),
    (PG, "r.b := 1;", "part of a variable"),
    (PG, "UPDATE t SET b = 1; GET DIAGNOSTICS x = ROW_COUNT, x = ROW_COUNT;", "several diagnostics"),
    (PG, "CALL p(x => 1);", "by its name"),
    (MY, "SET x.b = 1;", "part of a variable"),
    (MY, "FOR i IN 1..3 DO SET i = 2; END FOR;", "variable of a FOR"),
    (MY, "SIGNAL SQLSTATE '01000';", "warning"),
    (MY, "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK; DELETE FROM t; END;", "inner block"),
    (PG, "OPEN c FOR SELECT id FROM t; OPEN c FOR SELECT b FROM t;", "two queries"),
    (PG, "DELETE FROM t; COMMIT; DELETE FROM t;", "after COMMIT"),
    (PG, "SAVEPOINT s;", "SAVEPOINT"),
    (PG, "GET DIAGNOSTICS x = ROW_COUNT;", "ROW_COUNT"),
    (PG, "CALL unknown(1);", "unknown"),
    (MY, "SET @x = 1;", "session variable"),
    (MY, "SELECT b INTO @x FROM t;", "session variable"),
    (MY, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;", "setting"),
    (MY, "DECLARE EXIT HANDLER FOR NOT FOUND SET x = 1;", "handler"),
    (MY, "PREPARE s FROM 'x';", "run time"),
]


@pytest.mark.parametrize(("dialect", "text", "named"), REFUSED)
def test_what_is_outside_is_refused_by_name(dialect: Dialect, text: str, named: str) -> None:
    with pytest.raises(OutsideFragment, match=named) as refusal:
        body(text, dialect)
    assert refusal.value.place.startswith("sql:2:")


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (PG, "IF x THEN"),
        (PG, "IF x DELETE FROM t; END IF;"),
        (PG, "EXIT;"),
        (PG, "LOOP NULL; END IF;"),
        (PG, "CLOSE nothing;"),
        (PG, "x :=;"),
        (MY, "LEAVE l;"),
        (MY, "CASE x END CASE;"),
    ],
)
def test_what_is_no_procedure_is_malformed(dialect: Dialect, text: str) -> None:
    with pytest.raises(MalformedProgram):
        body(text, dialect)


MYSQL = """
CREATE TABLE t (id INT PRIMARY KEY, b INT) ENGINE=InnoDB;
DELIMITER //
CREATE DEFINER=`root`@`localhost` PROCEDURE Withdraw(IN src INT, amt DECIMAL(10, 2), OUT ok INT)
    COMMENT 'takes money'
proc: BEGIN
    DECLARE y INT;
    SET ok = 0;
    SELECT b INTO y FROM t WHERE id = src FOR UPDATE;
    IF y < amt THEN LEAVE proc; END IF;
    CALL book(src, y);
    SET ok = 1;
END proc//
CREATE PROCEDURE book(a INT, INOUT z INT) UPDATE t SET b = z WHERE id = a//
DELIMITER ;
"""


def test_procedures_of_mysql_have_outputs_labels_and_calls() -> None:
    found = program(MYSQL, MY)
    withdraw = found.procedure("withdraw")
    assert isinstance(withdraw, Procedure)
    assert [local.name for local in withdraw.parameters] == ["src", "amt"]
    assert [local.name for local in withdraw.locals] == ["ok", "y"]
    assert outline(withdraw.body) == [
        "ok := 0",
        "SELECT b FROM t WHERE id = :src FOR UPDATE -> y",
        "if :y < :amt",
        "  return :ok",
        "call book(:src, :y) -> y",
        "ok := 1",
        "return :ok",
    ]
    assert withdraw.place == Place("sql", 4, 1)
    assert withdraw.body[1].place == Place("sql", 9, 5)


PLAIN = """
CREATE TABLE accounts (id INT PRIMARY KEY, balance DECIMAL(12, 2) NOT NULL);
-- @invariant positive (nobody owes): SELECT id FROM accounts WHERE balance < 0
-- @txn Withdraw 20      -- its weight
SELECT balance INTO :b FROM accounts WHERE id = :src;
IF :b >= :amt THEN UPDATE accounts SET balance = balance - :amt WHERE id = :src; END IF;
-- @txn orders(n, c)
FOR k IN 1..:n LOOP
  INSERT INTO accounts VALUES (k, :c);
END LOOP;
"""


@pytest.mark.parametrize("dialect", Dialect)
def test_the_plain_form_is_the_same_in_every_dialect(dialect: Dialect) -> None:
    found = program(PLAIN, dialect)
    withdraw, orders = found.procedures
    assert [local.name for local in withdraw.parameters] == ["src", "amt"]
    assert outline(withdraw.body) == [
        "SELECT balance FROM accounts WHERE id = :src -> b",
        "if :b >= :amt",
        "  UPDATE accounts SET balance = balance - :amt WHERE id = :src",
    ]
    assert [local.name for local in orders.parameters] == ["n", "c"]
    assert outline(orders.body) == ["for k in 1..:n", "  INSERT INTO accounts VALUES (k, :c)"]
    assert [(one.name, one.meaning) for one in found.invariants] == [("positive", "nobody owes")]


def test_variables_of_mysql_hide_columns() -> None:
    mysql = program(f"{TABLE}CREATE PROCEDURE p(b INT) BEGIN UPDATE t SET b = b; END", MY)
    assert _assigned(mysql) == Parameter("b")


AMBIGUOUS = [
    ("UPDATE t SET b = b;", True),
    ("UPDATE t SET b = p.b;", False),
    ("INSERT INTO t VALUES (1, b);", False),
    ("INSERT INTO t VALUES (1, (SELECT MAX(b) FROM t));", True),
    ("INSERT INTO t VALUES (1, b) ON CONFLICT (id) DO UPDATE SET b = b + 1;", True),
    ("DELETE FROM t WHERE t.b = 1 RETURNING b INTO b;", True),
    ("PERFORM 1 FROM (SELECT id AS b FROM t) AS s WHERE b = 1;", True),
    ("PERFORM 1 FROM (SELECT * FROM t) AS s WHERE b = 1;", True),
    ("PERFORM 1 FROM (SELECT id FROM t) AS s WHERE b = 1;", False),
]


@pytest.mark.parametrize(("text", "refused"), AMBIGUOUS)
def test_a_name_that_is_a_variable_and_a_column_is_ambiguous_in_postgresql(text: str, refused: bool) -> None:
    whole = "{}CREATE PROCEDURE p(b INT) AS $$ {} BEGIN {} END $$ LANGUAGE plpgsql;"
    for option, ambiguous in (("", refused), ("#variable_conflict use_column", False)):
        found = program(whole.format(TABLE, option, text), PG)
        if ambiguous:
            with pytest.raises(OutsideFragment, match="'b', which is a variable and a column"):
                Store(found.schema, PG).call(found, "p", [1])
        else:
            assert Store(found.schema, PG).call(found, "p", [1]).ending is Ending.RETURNED


def _assigned(found: Program) -> object:
    run = found.procedures[0].body[0]
    assert isinstance(run, Run)
    return run.statement.assignments[0].value  # type: ignore[union-attr]


def test_a_function_returns_and_has_defaults() -> None:
    text = f"""{TABLE}CREATE OR REPLACE FUNCTION f(x INT, y NUMERIC(8, 2) DEFAULT 1.5) RETURNS INT LANGUAGE plpgsql AS $body$
    DECLARE z t.id%TYPE; BEGIN z := g(x); RETURN z + 1; END; $body$;
    CREATE FUNCTION g(x INT) RETURNS INT AS $$ BEGIN RETURN x; END $$ LANGUAGE plpgsql;"""
    f, g = program(text, PG).procedures
    assert repr(f.parameters[1].default).startswith("Literal(value=Decimal('1.5')")
    assert outline(f.body) == ["call g(x) -> z", "result__ := z + 1", "return :result__"]
    assert outline(g.body) == ["result__ := x", "return :result__"]
    assert [local.type for local in f.locals] == [INTEGER, INTEGER]


def test_names_are_unique() -> None:
    with pytest.raises(MalformedProgram, match="twice"):
        program("-- @txn a\nDELETE FROM t;\n-- @txn a\nDELETE FROM t;", PG)


@pytest.mark.parametrize("how", ["STRICT", "RETURNS NULL ON NULL INPUT"])
def test_a_function_that_is_not_called_for_a_null_is_refused(how: str) -> None:
    with pytest.raises(OutsideFragment, match="not called for a null"):
        program(f"CREATE FUNCTION f(x INT) RETURNS INT {how} AS $$ BEGIN RETURN 1; END $$ LANGUAGE plpgsql;", PG)


def test_a_constant_is_not_assigned_to() -> None:
    with pytest.raises(MalformedProgram, match="constant 'n'"):
        body("n := 2;", PG, "DECLARE n CONSTANT INT := 1;")


MISSING = [
    ("SELECT id INTO y FROM t WHERE id = 9;", True),
    ("DECLARE c CURSOR FOR SELECT id FROM t; OPEN c; FETCH c INTO y;", True),
    ("CALL r(y);", True),
    ("SELECT MAX(id) INTO y FROM t;", False),
    ("SELECT 1 INTO y;", False),
    ("DECLARE CONTINUE HANDLER FOR NOT FOUND SET y = 0; SELECT id INTO y FROM t WHERE id = 9;", False),
]


@pytest.mark.parametrize(("text", "refused"), MISSING)
def test_a_row_that_is_missing_in_a_called_procedure_is_not_left_to_the_caller(text: str, refused: bool) -> None:
    whole = f"""{TABLE}CREATE PROCEDURE p(x INT) BEGIN DECLARE CONTINUE HANDLER FOR NOT FOUND SET x = 1; CALL q(x); END;
    CREATE PROCEDURE q(OUT y INT) BEGIN {text} END;
    CREATE PROCEDURE r(OUT y INT) BEGIN SELECT id INTO y FROM t WHERE id = 9; END;"""
    if refused:
        with pytest.raises(OutsideFragment, match="a call of q"):
            program(whole, MY)
    else:
        assert program(whole, MY).procedures


@pytest.mark.parametrize(("handler", "refused"), [("ROLLBACK", True), ("BEGIN ROLLBACK; RESIGNAL; END", False)])
def test_a_called_procedure_that_rolls_back_and_goes_on_is_refused(handler: str, refused: bool) -> None:
    whole = f"""{TABLE}CREATE PROCEDURE p(x INT) BEGIN CALL q(); DELETE FROM t; END;
    CREATE PROCEDURE q() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION {handler}; INSERT INTO t VALUES (1, 1); END;"""
    if refused:
        with pytest.raises(OutsideFragment, match="a call of q"):
            program(whole, MY)
    else:
        assert program(whole, MY).procedures
