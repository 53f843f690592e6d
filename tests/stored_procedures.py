"""Stored procedures, each for one thing that is easily read wrong, and what they give: on the store, and on real servers.

All have the table ``t`` with the rows (1, 10), (2, 20), (3, null), and are called with 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isolde.tx.dialects import Dialect

PG, MY = Dialect.POSTGRESQL, Dialect.MYSQL
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, b INT);\n"
ROWS = ((1, 10), (2, 20), (3, None))


@dataclass(frozen=True)
class Case:
    """``gives`` are the values of a call, or how else it ended: a kind of error, or "aborted"."""

    about: str
    dialect: Dialect
    body: str
    gives: Any
    declared: str = ""
    before: str = ""
    function: str = ""

    @property
    def head(self) -> str:
        out = "" if self.function else ", OUT o INT"
        what = f"FUNCTION p(x INT) RETURNS {self.function}" if self.function else f"PROCEDURE p(x INT{out})"
        return f"CREATE {what}"

    @property
    def text(self) -> str:
        if self.dialect is MY:
            return f"{self.head} BEGIN {self.declared} {self.body} END"
        return f"{self.head} AS $$ {self.declared} BEGIN {self.body} END $$ LANGUAGE plpgsql"


CASES = [
    Case("a variable of an inner block hides the one outside", PG, "DECLARE o INT := 5; BEGIN o := o + 1; END; o := v;", 1, "DECLARE v INT := x;"),
    Case("a variable of an inner block hides the one outside", MY, "SET o = 1; BEGIN DECLARE o INT DEFAULT 5; SET o = 6; END;", 1),
    Case("a default sees the variable that it hides", PG, "o := 7; DECLARE o INT := o; BEGIN v := o; END; o := v;", 7, "DECLARE v INT;"),
    Case("a default sees the variable that it hides", MY, "SET o = 7; BEGIN DECLARE o INT DEFAULT o; SET v = o; END; SET o = v;", 7, "DECLARE v INT;"),
    Case("an inner block begins anew", PG, "FOR i IN 1..3 LOOP DECLARE n INT := 0; m INT; BEGIN n := n + 1; o := n + COALESCE(m, 0); m := 9; END; END LOOP;", 1),
    Case("an inner block begins anew", MY, "WHILE x < 4 DO BEGIN DECLARE n INT DEFAULT 0; DECLARE m INT; SET n = n + 1, o = n + COALESCE(m, 0), m = 9, x = x + 1; END; END WHILE;", 1),
    Case("a declaration hides the parameter", PG, "o := x;", 6, "DECLARE x INT := x + 5;"),
    Case("a block's label names its variables", PG, "<<deep>> DECLARE x INT := 2; BEGIN o := p.x * 10 + deep.x; END;", 12),
    Case("the variable of FOR is its own", PG, "o := 7; FOR o IN 1..3 LOOP NULL; END LOOP;", 7),
    Case("the variable of FOR is its own", MY, "SET o = 7; FOR o IN 1..3 DO SET x = o; END FOR;", 7),
    Case("FOR counts down", PG, "o := 0; FOR i IN REVERSE 5..x BY 2 LOOP CONTINUE WHEN i = 3; o := o * 10 + i; END LOOP;", 51),
    Case("FOR counts down", MY, "SET o = 0; FOR i IN REVERSE 1..3 DO SET o = o * 10 + i; END FOR;", 321),
    Case("bounds of FOR are integers", PG, "o := 0; FOR i IN 0.6..2.4 LOOP o := o * 10 + i; END LOOP;", 12),
    Case("a null bound of FOR is an error", PG, "FOR i IN 1..o LOOP NULL; END LOOP;", "not-null"),
    Case("the variable of FOR is 32 bits wide", PG, "FOR i IN 1..2 LOOP PERFORM i + 2147483646; END LOOP;", "out-of-range"),
    Case("FOUND is false at first", PG, "IF NOT FOUND THEN o := 1; END IF;", 1),
    Case("FOR sets FOUND when it ends", PG, "FOR i IN 1..2 LOOP UPDATE t SET b = 1 WHERE id = 9; END LOOP; IF FOUND THEN o := 1; END IF;", 1),
    Case("FOR without a round sets FOUND", PG, "PERFORM 1 FROM t; FOR i IN 2..1 LOOP NULL; END LOOP; IF NOT FOUND THEN o := 1; END IF;", 1),
    Case("a jump out of FOR sets FOUND", PG, "<<a>> LOOP FOR i IN 1..2 LOOP UPDATE t SET b = 1 WHERE id = 9; EXIT a; END LOOP; END LOOP; IF FOUND THEN o := 1; END IF;", 1),
    Case("PERFORM of different rows sets FOUND", PG, "PERFORM id, b FROM t; PERFORM 'a' FROM t WHERE id = 9; IF NOT FOUND THEN o := 1; END IF;", 1),
    Case("a function's value has its type", PG, "RETURN 2.6;", 3, function="INT"),
    Case("a function's value has its type", MY, "RETURN 2.6;", 3, function="INT"),
    Case("a function's value has no length", PG, "RETURN 'abcdef';", "abcdef", function="VARCHAR(3)"),
    Case("a function's value has a length", MY, "RETURN 'abcdef';", "out-of-range", function="VARCHAR(3)"),
    Case("a function has to return", PG, "IF x > 5 THEN RETURN 1; END IF;", "aborted", function="INT"),
    Case("a function has to return", MY, "IF x > 5 THEN RETURN 1; END IF;", "aborted", function="INT"),
    Case("the type of a column", PG, "v := 2.6; o := v * 10;", 30, "DECLARE v t.b%TYPE;"),
    Case("the type of a variable", PG, "v := 2.6; o := v * 10;", 30, "DECLARE v x%TYPE;"),
    Case("the type of a column", MY, "SET v = 2.6, o = v * 10;", 30, "DECLARE v TYPE OF t.b;"),
    Case("a row of one column", PG, "FOR r IN SELECT id FROM t ORDER BY id LOOP o := r.id; END LOOP;", 3, "DECLARE r RECORD;"),
    Case("a row of one column", MY, "FOR r IN (SELECT id FROM t ORDER BY id) DO SET o = r.id; END FOR;", 3),
    Case("a row of a cursor", PG, "FOR r IN c LOOP o := r.id; END LOOP;", 3, "DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id;"),
    Case("a row of a cursor", MY, "FOR r IN c DO SET o = r.id; END FOR;", 3, "DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id;"),
    Case("a record is used for rows of two shapes", PG, "FOR r IN SELECT id FROM t LOOP o := r.id; END LOOP; FOR r IN SELECT b AS c, id FROM t WHERE id = 1 LOOP o := r.c; END LOOP;", 10, "DECLARE r RECORD;"),
    Case("a target of FOR is null without a row", PG, "o := 7; FOR o IN SELECT id FROM t WHERE id = o + 9 LOOP NULL; END LOOP;", None),
    Case("a record has no columns before it is assigned to", PG, "o := r.b;", "name", "DECLARE r RECORD;"),
    Case("a record has no columns where nobody looks at them", PG, "IF FALSE AND r.b = 1 THEN o := 1; END IF;", "name", "DECLARE r RECORD;"),
    Case("a record has no columns in a branch that is not taken", PG, "o := CASE WHEN FALSE THEN r.b ELSE 3 END;", "name", "DECLARE r RECORD;"),
    Case("a record has no columns in a statement without rows", PG, "UPDATE t SET b = r.b WHERE id = 99;", "name", "DECLARE r RECORD;"),
    Case("a record has no columns in a bound", PG, "FOR i IN 1..r.b LOOP NULL; END LOOP;", "name", "DECLARE r RECORD;"),
    Case("a record has no columns in a query of FOR", PG, "FOR k IN SELECT id FROM t WHERE b = r.b LOOP NULL; END LOOP;", "name", "DECLARE r RECORD; k INT;"),
    Case("a record has no columns in a later condition", PG, "IF x = 1 THEN o := 5; ELSIF r.b = 1 THEN o := 6; END IF;", 5, "DECLARE r RECORD;"),
    Case("a record that is set to null has no columns", PG, "SELECT * INTO r FROM t WHERE id = 1; r := NULL; o := r.b;", "name", "DECLARE r RECORD;"),
    Case("a record of an inner block begins anew", PG, "FOR i IN 1..2 LOOP DECLARE r RECORD; BEGIN IF i = 1 THEN SELECT * INTO r FROM t WHERE id = 1; ELSE o := r.b; END IF; END; END LOOP;", "name"),
    Case("a record that is assigned in a branch only", PG, "IF x = 2 THEN SELECT * INTO r FROM t WHERE id = 1; END IF; o := r.b;", "name", "DECLARE r RECORD;"),
    Case("a record without a row has null columns", PG, "SELECT * INTO r FROM t WHERE id = 9; o := COALESCE(r.b, 4);", 4, "DECLARE r RECORD;"),
    Case("a record after a loop without a row has null columns", PG, "FOR r IN SELECT * FROM t WHERE id = 9 LOOP NULL; END LOOP; o := COALESCE(r.b, 4);", 4, "DECLARE r RECORD;"),
    Case("a record after a loop has the last row", PG, "FOR r IN SELECT * FROM t WHERE id = 1 LOOP NULL; END LOOP; o := COALESCE(r.b, 4);", 10, "DECLARE r RECORD;"),
    Case("a record after a fetch without a row has null columns", PG, "OPEN c; FETCH c INTO r; o := COALESCE(r.b, 4);", 4, "DECLARE r RECORD; c CURSOR FOR SELECT * FROM t WHERE id = 9;"),
    Case("a record that is not assigned is null", PG, "IF r IS NULL THEN o := 1; END IF; IF r IS NOT NULL THEN o := 2; END IF;", 1, "DECLARE r RECORD;"),
    Case("a record of nulls is null", PG, "SELECT * INTO r FROM t WHERE id = 9; IF r IS NULL THEN o := 1; END IF;", 1, "DECLARE r RECORD;"),
    Case("a record with a null is neither", PG, "SELECT id, NULL AS n INTO r FROM t WHERE id = 1; IF r IS NULL OR r IS NOT NULL THEN o := 1; END IF;", None, "DECLARE r RECORD;"),
    Case("a row type has null columns at first", PG, "o := COALESCE(r.b, 4);", 4, "DECLARE r t%ROWTYPE;"),
    Case("a row that is not there is null", PG, "SELECT * INTO r FROM t WHERE id = 9; o := COALESCE(r.b, 4);", 4, "DECLARE r t%ROWTYPE;"),
    Case("SELECT INTO takes the first of several rows", PG, "SELECT id INTO o FROM t ORDER BY id DESC;", 3),
    Case("SELECT INTO of several rows is an error", MY, "SELECT id INTO o FROM t;", "cardinality"),
    Case("SELECT INTO STRICT of several rows is an error", PG, "SELECT id INTO STRICT o FROM t;", "cardinality"),
    Case("SELECT INTO STRICT of no row is an error", PG, "SELECT id INTO STRICT o FROM t WHERE id = 9;", "aborted"),
    Case("RETURNING INTO of several rows is an error", PG, "UPDATE t SET b = 1 RETURNING id INTO o;", "cardinality"),
    Case("SELECT INTO without a row keeps the variable", MY, "SET o = 4; SELECT id INTO o FROM t WHERE id = 9;", 4),
    Case("a fetch after the last row is an error without a handler", MY, "OPEN c; FETCH c INTO o; FETCH c INTO o;", "aborted", "DECLARE c CURSOR FOR SELECT id FROM t WHERE id = 1;"),
    Case("a fetch after the last row gives null", PG, "OPEN c; FETCH c INTO o; FETCH c INTO o;", None, "DECLARE c CURSOR FOR SELECT id FROM t WHERE id = 1;"),
    Case("a variable may be called found", MY, "SET found = 0; SELECT id INTO o FROM t WHERE id = 1; SET o = found;", 0, "DECLARE found INT; DECLARE CONTINUE HANDLER FOR NOT FOUND SET found = 0;"),
    Case("a handler belongs to its block", MY, "SET o = 0; BEGIN DECLARE CONTINUE HANDLER FOR NOT FOUND SET o = o + 10; SELECT id INTO x FROM t WHERE id = 9; END; SELECT id INTO x FROM t WHERE id = 9;", 10),
    Case("a handler hides the one outside", MY, "SET o = 0; BEGIN DECLARE CONTINUE HANDLER FOR NOT FOUND SET o = o + 10; SELECT id INTO x FROM t WHERE id = 9; END; SELECT id INTO x FROM t WHERE id = 9;", 11, "DECLARE CONTINUE HANDLER FOR NOT FOUND SET o = o + 1;"),
    Case("a cursor that is open cannot be opened", PG, "OPEN c; OPEN c;", "cursor", "DECLARE c CURSOR FOR SELECT id FROM t;"),
    Case("a cursor that is open cannot be opened", MY, "OPEN c; OPEN c;", "cursor", "DECLARE c CURSOR FOR SELECT id FROM t;"),
    Case("the cursor of a FOR is open in its body", PG, "FOR r IN c LOOP OPEN c; END LOOP;", "cursor", "DECLARE c CURSOR FOR SELECT id FROM t;"),
    Case("the cursor of a FOR is open in its body", MY, "FOR r IN c DO OPEN c; END FOR;", "cursor", "DECLARE c CURSOR FOR SELECT id FROM t;"),
    Case("a jump closes the cursor of a FOR", PG, "<<a>> LOOP FOR r IN c LOOP EXIT a; END LOOP; END LOOP; OPEN c; o := 1;", 1, "DECLARE c CURSOR FOR SELECT id FROM t;"),
    Case("RETURN closes the cursor of a FOR", PG, "o := q(); o := q();", 1, "", "CREATE FUNCTION q() RETURNS INT AS $$ DECLARE c CURSOR FOR SELECT id FROM t; BEGIN FOR r IN c LOOP RETURN 1; END LOOP; RETURN 2; END $$ LANGUAGE plpgsql"),
    Case("the end of a block closes its cursor", MY, "SET o = 0; WHILE o < 3 DO BEGIN DECLARE c CURSOR FOR SELECT id FROM t; OPEN c; SET o = o + 1; END; END WHILE;", 3),
    Case("an argument with a default", PG, "o := q();", 5, "", "CREATE FUNCTION q(y INT DEFAULT 5) RETURNS INT AS $$ BEGIN RETURN y; END $$ LANGUAGE plpgsql"),
    Case("a cursor that is closed cannot be read", PG, "FETCH c INTO o;", "cursor", "DECLARE c CURSOR FOR SELECT id FROM t;"),
    Case("a cursor that is closed cannot be read", MY, "FETCH c INTO o;", "cursor", "DECLARE c CURSOR FOR SELECT id FROM t;"),
    Case("a cursor is open until the transaction ends", PG, "o := q(); o := q();", "cursor", "", "CREATE FUNCTION q() RETURNS INT AS $$ DECLARE c CURSOR FOR SELECT id FROM t; BEGIN OPEN c; RETURN 1; END $$ LANGUAGE plpgsql"),
    Case("a cursor without a query is the procedure's own", PG, "o := q(); o := q();", 1, "", "CREATE FUNCTION q() RETURNS INT AS $$ DECLARE c REFCURSOR; BEGIN OPEN c FOR SELECT id FROM t; RETURN 1; END $$ LANGUAGE plpgsql"),
    Case("a block is left by its label", PG, "LOOP <<a>> BEGIN o := 1; EXIT a WHEN x = 1; o := 2; END a; EXIT; END LOOP;", 1),
    Case("a block is left by its label", MY, "a: BEGIN SET o = 1; IF x = 1 THEN LEAVE a; END IF; SET o = 2; END a;", 1),
    Case("an unnamed jump means the loop, not the block", PG, "LOOP o := COALESCE(o, 0) + 1; <<a>> BEGIN CONTINUE WHEN o < 3; EXIT a WHEN o = 3; EXIT; END; END LOOP;", 4),
    Case("CASE has lists", PG, "CASE x WHEN 5, 1 THEN o := 1; ELSE o := 2; END CASE;", 1),
    Case("a case that is not found is an error", MY, "CASE x WHEN 5 THEN SET o = 1; END CASE;", "aborted"),
    Case("a variable that may not be null", PG, "v := o;", "aborted", "DECLARE v INT NOT NULL := 1;"),
    Case("the rows of a statement, asked by IF", MY, "UPDATE t SET b = 5 WHERE id = 9; IF ROW_COUNT() = 0 THEN SET o = 1; END IF;", 1),
    Case("the rows of SELECT INTO", PG, "SELECT id INTO x FROM t ORDER BY id; GET DIAGNOSTICS o = ROW_COUNT;", 1),
    Case("IF as a function inside of CASE", MY, "SET o = CASE WHEN x = 1 THEN IF(x = 1, 4, 5) WHEN x = 2 THEN 6 END;", 4),
    Case("a text for a number, by way of its characters", PG, "v := '12'; o := v;", 12, "DECLARE v VARCHAR(5);"),
    Case("an assignment divides by zero", MY, "SET o = 1 / 0;", "division-by-zero"),
    Case("an argument that comes back has the variable's type", MY, "CALL q(v); SET o = v * 10;", 30, "DECLARE v INT;", "CREATE PROCEDURE q(OUT y DECIMAL(4, 1)) BEGIN SET y = 2.6; END"),
    Case("a function of the program gives the variable's type", PG, "v := q(); o := v * 10;", 30, "DECLARE v INT;", "CREATE FUNCTION q() RETURNS NUMERIC AS $$ BEGIN RETURN 2.6; END $$ LANGUAGE plpgsql"),
    Case("RETURN of a call", PG, "RETURN q();", 3, "", "CREATE FUNCTION q() RETURNS NUMERIC AS $$ BEGIN RETURN 2.6; END $$ LANGUAGE plpgsql", "INT"),
]  # fmt: skip
