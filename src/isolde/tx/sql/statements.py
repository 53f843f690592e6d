"""Statements: select, insert, update, delete; nothing else is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Expression
from isolde.tx.queries import Item, Select, Star
from isolde.tx.sql import expressions, queries
from isolde.tx.sql.text import Text
from isolde.tx.sql.trees import Reading, trees
from isolde.tx.statements import Assignment, Default, Delete, Insert, InsertMode, OnConflict, Statement, Update


def read_statement(text: Text, dialect: Dialect, variables: frozenset[str] = frozenset()) -> Statement:
    """The one statement of ``text``. A plain name among ``variables`` is that variable, even where a column has it, too."""
    parsed, reading = trees(text, dialect, queries.subquery)
    reading.variables = variables
    if len(parsed) != 1:
        raise text.malformed(0, f"{len(parsed)} statements" if parsed else "no statement", "one statement")
    return convert(parsed[0], reading)


def read_expression(text: Text, dialect: Dialect, variables: frozenset[str] = frozenset()) -> Expression:
    """The one expression of ``text``, as it may stand after SELECT."""
    # Alone, a text like "x y" or "close" would be a statement to sqlglot.
    parsed, reading = trees(text.surrounded("SELECT "), dialect, queries.subquery)
    reading.variables = variables
    node = parsed[0] if len(parsed) == 1 else None
    if not isinstance(node, exp.Select) or {name for name, value in node.args.items() if value} != {"expressions"}:
        raise text.malformed(0, f"'{text.content.strip()[:40]}'", "an expression")
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Alias):
        raise text.malformed(0, f"'{text.content.strip()[:40]}'", "one expression")
    return expressions.expression(node.expressions[0], reading)


def convert(node: exp.Expr, reading: Reading) -> Statement:
    """sqlglot takes many texts for statements that are none (``SAVEPOINT x`` is an alias): only these four are."""
    while isinstance(node, exp.Subquery):
        reading.only(node, "this")
        node = node.this
    match node:
        case exp.Select():
            if reading.prepared.text.content.lstrip().upper().startswith("TABLE"):
                raise reading.refuse(node, "TABLE as a statement", "use SELECT * FROM")
            return replace(queries.select(node, reading), place=reading.beginning())
        case exp.Insert():
            return _insert(node, reading)
        case exp.Update():
            return _update(node, reading)
        case exp.Delete():
            return _delete(node, reading)
        case exp.Alias() | exp.Column() | exp.Literal() | exp.Binary() | exp.Unary() | exp.Identifier():
            first = reading.prepared.text.content.split()
            what = first[0].upper() if first else "nothing"
            text = reading.prepared.text
            if what in _KNOWN:
                raise text.refuse(reading.prepared.first, f"the statement {what}", _INSTEAD.get(what, ""))
            raise text.malformed(reading.prepared.first, f"'{what}'", "SELECT, INSERT, UPDATE or DELETE")
        case _:
            return reading.outside(node)


_INSTEAD = {
    "SAVEPOINT": "a transaction is done or not, as a whole: leave it out",
    "RELEASE": "a transaction is done or not, as a whole: leave it out",
    "LOCK": "use SELECT … FOR UPDATE",
    "CALL": "call procedures in procedures",
}
_KNOWN = {
    "SAVEPOINT",
    "RELEASE",
    "CLOSE",
    "OPEN",
    "FETCH",
    "DECLARE",
    "PREPARE",
    "EXECUTE",
    "CALL",
    "LOCK",
    "UNLOCK",
    "DO",
    "NOTIFY",
}


def _insert(node: exp.Insert, reading: Reading) -> Insert:
    reading.only(node, "this", "expression", "default", "conflict", "returning", "ignore", "alternative")
    target: exp.Expr = node.this
    columns: tuple[str, ...] = ()
    if isinstance(target, exp.Schema):
        reading.only(target, "this", "expressions")
        columns = tuple(reading.name(column) for column in target.expressions)
        target = target.this
    table, alias = queries.table(target, reading)
    if alias is not None or target.args.get("joins"):
        raise reading.refuse(target, "an alias of the table of an INSERT", "use the table's name")
    conflict = node.args.get("conflict")
    if conflict is not None and reading.dialect is Dialect.SQLITE:
        _ended(node.args.get("expression"), reading)
    return Insert(
        table,
        columns,
        _rows(node, reading),
        _conflict(node.args.get("conflict"), table, reading),
        _returning(node, reading),
        _mode(node, reading),
        reading.beginning(),
    )


def _ended(source: exp.Expr | None, reading: Reading) -> None:
    """SQLite takes ON CONFLICT after a table of a query for the condition of a join."""
    if not isinstance(source, exp.Select) or source.args.get("from_") is None:
        return
    last = (source.args.get("joins") or [None])[-1]
    joined = last is not None and (last.args.get("on") is not None or last.args.get("using"))
    if not joined and not any(source.args.get(name) for name in ("where", "group", "having", "order", "limit")):
        raise reading.malformed(source, "ON CONFLICT right after a table", "WHERE TRUE before it")


def _mode(node: exp.Insert, reading: Reading) -> InsertMode:
    alternative = str(node.args.get("alternative") or "").upper()
    if alternative not in {"", "ABORT", "REPLACE", "IGNORE"}:
        raise reading.refuse(node, f"INSERT OR {alternative}", "use INSERT OR IGNORE or OR REPLACE")
    if reading.prepared.replaces or alternative == "REPLACE":
        return InsertMode.REPLACE
    return InsertMode.IGNORE if node.args.get("ignore") or alternative == "IGNORE" else InsertMode.PLAIN


def _rows(node: exp.Insert, reading: Reading) -> tuple[tuple[Expression | Default, ...], ...] | Select:
    source = node.args.get("expression")
    if node.args.get("default"):
        return ((),)
    if isinstance(source, exp.Values):
        reading.only(source, "expressions")
        return tuple(_row(row, reading) for row in source.expressions)
    if source is None:
        raise reading.malformed(node, "INSERT without rows", "VALUES or SELECT")
    return queries.subquery(source, reading)


def _row(row: exp.Expr, reading: Reading) -> tuple[Expression | Default, ...]:
    if not isinstance(row, exp.Tuple):
        raise reading.malformed(row, "a row without parentheses", "(value, …)")
    reading.only(row, "expressions")
    return tuple(_value(value, reading) for value in row.expressions)


def _value(node: Any, reading: Reading) -> Expression | Default:
    """A value, or DEFAULT, which sqlglot takes for a variable or a column."""
    if isinstance(node, exp.Var) and node.name.upper() == "DEFAULT":
        return _default(node, reading)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and not node.args.get("table"):
        word = node.this
        if not word.args.get("quoted") and str(word.this).upper() == "DEFAULT":
            return _default(node, reading)
    return expressions.expression(node, reading)


def _default(node: exp.Expr, reading: Reading) -> Default:
    if reading.dialect is Dialect.SQLITE:
        raise reading.malformed(node, "DEFAULT as a value", "the column left out, or its value")
    return Default()


def _assignments(nodes: list[exp.Expr], names: set[str], reading: Reading) -> tuple[Assignment, ...]:
    assignments = []
    for node in nodes:
        if not isinstance(node, exp.EQ):
            raise reading.malformed(node, "an assignment without '='", "column = value")
        target = node.this
        if not isinstance(target, exp.Column):
            instead = "assign column by column" if isinstance(target, exp.Tuple) else ""
            raise reading.refuse(node, "an assignment to something else than a column", instead)
        reading.only(target, "this", "table")
        if target.args.get("table") and reading.dialect is not Dialect.MYSQL:
            raise reading.malformed(target, "an assignment to a column with its table", "the column's name alone")
        if target.args.get("table") and reading.name(target.args["table"]) not in names:
            raise reading.refuse(target, "an assignment to another table", "use one statement a table")
        assignments.append(Assignment(reading.name(target.this), _value(node.expression, reading)))
    if not assignments:
        raise reading.prepared.text.malformed(0, "no assignment", "SET column = value")
    return tuple(assignments)


def _conflict(node: exp.Expr | None, table: str, reading: Reading) -> OnConflict | None:
    if node is None:
        return None
    mysql = reading.dialect is Dialect.MYSQL
    if mysql is not bool(node.args.get("duplicate")):
        found, expected = ("ON CONFLICT", "ON DUPLICATE KEY UPDATE") if mysql else ("ON DUPLICATE KEY", "ON CONFLICT")
        raise reading.malformed(node, found, expected)
    if node.args.get("constraint"):
        raise reading.refuse(node, "ON CONFLICT ON CONSTRAINT", "name the key's columns")
    if node.args.get("index_predicate"):
        raise reading.refuse(node, "ON CONFLICT with a partial index", "name a whole key")
    reading.only(node, "duplicate", "expressions", "action", "conflict_keys", "where")
    columns = []
    for key in node.args.get("conflict_keys") or ():
        if isinstance(key, exp.Ordered):
            reading.only(key, "this", "nulls_first")
        columns.append(reading.name(key.this if isinstance(key, exp.Ordered) else key))
    action = str(node.args.get("action") or "").upper()
    if mysql and node.args.get("where") is not None:
        raise reading.malformed(node, "ON DUPLICATE KEY UPDATE … WHERE", "IF(condition, new, old)")
    if "UPDATE" in action and not columns and reading.dialect is Dialect.POSTGRESQL:
        raise reading.malformed(node, "ON CONFLICT DO UPDATE", "ON CONFLICT (key) DO UPDATE")
    if "UPDATE" not in action:
        return OnConflict(tuple(columns), ())
    return OnConflict(tuple(columns), _assignments(node.expressions, {table}, reading), queries.where(node, reading))


def _returning(node: exp.Expr, reading: Reading) -> tuple[Item | Star, ...]:
    clause = node.args.get("returning")
    if clause is None:
        return ()
    reading.only(clause, "expressions")
    if isinstance(node, exp.Update) and reading.dialect is Dialect.MYSQL:
        raise reading.malformed(clause, "RETURNING of an UPDATE", "a SELECT of its own")
    for one in clause.expressions:
        counted = one.find(exp.Count, exp.Sum, exp.Min, exp.Max, exp.Avg)
        if counted is not None and counted.find_ancestor(exp.Select) is None:
            raise reading.malformed(counted, "an aggregate in RETURNING", "a value of the row")
    items = tuple(queries.item(one, reading) for one in clause.expressions)
    if reading.dialect is Dialect.SQLITE and any(isinstance(one, Star) and one.table for one in items):
        raise reading.malformed(clause, "all columns of a table in RETURNING", "'*'")
    return items


def _update(node: exp.Update, reading: Reading) -> Update:
    if node.args.get("from_") is not None:
        raise reading.refuse(node, "UPDATE … FROM", "use a scalar subquery and EXISTS")
    reading.only(node, "this", "expressions", "where", "returning")
    table, alias = _target(node.this, "UPDATE of several tables", reading)
    assignments = _assignments(node.expressions, {table, alias or table}, reading)
    where = queries.where(node, reading)
    return Update(table, assignments, where, alias, _returning(node, reading), reading.beginning())


def _delete(node: exp.Delete, reading: Reading) -> Delete:
    reading.only(node, "this", "where", "returning", "tables")
    table, alias = _target(node.this, "DELETE of several tables", reading)
    if reading.prepared.tokens[1].word("LOW_PRIORITY", "QUICK") and reading.dialect is Dialect.MYSQL:
        raise reading.refuse(node, f"the modifier {reading.prepared.tokens[1].text.upper()}", "leave it out")
    named = [queries.table(one, reading)[0] for one in node.args.get("tables") or ()]
    if named and named != [alias or table]:
        raise reading.refuse(node, "DELETE of several tables", "use one statement a table, with EXISTS")
    return Delete(table, queries.where(node, reading), alias, _returning(node, reading), reading.beginning())


def _target(node: Any, several: str, reading: Reading) -> tuple[str, str | None]:
    if not isinstance(node, exp.Expr):
        raise reading.prepared.text.malformed(0, "no table", "a table")
    if node.args.get("joins"):
        raise reading.refuse(node, several, "use one statement a table, with EXISTS")
    return queries.table(node, reading)
