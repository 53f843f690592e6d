"""Queries that MariaDB 10.11 answers wrongly, by its own rules: the store keeps the right answer, and no difference is counted.

Each was seen on the server in two forms that mean the same and that it answers differently.
"""

from __future__ import annotations

from decimal import Decimal

from isolde.semantics.core.values.mysql import text_number
from isolde.tx import expressions as ex
from isolde.tx import queries as qu
from isolde.tx import schema as sc
from isolde.tx import statements as st
from isolde.tx.expressions import Binary
from isolde.tx.walk import parts


def known_bug(statement: st.Statement, schema: sc.Schema) -> str | None:
    """The name of the bug that the statement may meet."""
    if isinstance(statement, st.Insert) and _leftover_id(statement, schema):
        return "a REPLACE takes an id that is given for one that it generated before"
    for part in parts(statement):
        match part:
            case ex.BinaryOperation(operator=Binary.LESS | Binary.LESS_EQUAL | Binary.GREATER | Binary.GREATER_EQUAL):
                # With a INT UNIQUE, MIN(a) WHERE a > 1.5 looks for a > 2; with IGNORE INDEX (a), or MIN(a + 0), it is right.
                extremes = (ex.Aggregation.MIN, ex.Aggregation.MAX)
                if _fraction_for_a_key(part.left, part.right, schema) and any(
                    isinstance(other, ex.Aggregate) and other.aggregation in extremes for other in parts(statement)
                ):
                    return "a fraction is rounded to an integer key"
            case ex.BinaryOperation(operator=Binary.SAME, left=ex.Name(), right=ex.Name()):
                # With v INT UNIQUE, … JOIN … ON x.v = y.v WHERE x.v <=> y.v joins nulls; without the index it does not.
                pair = {part.left, part.right}
                if any(
                    isinstance(other, ex.BinaryOperation)
                    and other.operator is Binary.EQUAL
                    and {other.left, other.right} == pair
                    for other in parts(statement)
                ):
                    return "a join by = and <=> of the same columns joins nulls"
            case ex.BinaryOperation(operator=Binary.SAME):
                # With a INT UNIQUE, a <=> (2 % 0) finds one of the nulls; a <=> NULL finds all.
                for column, other in ((part.left, part.right), (part.right, part.left)):
                    null = isinstance(other, ex.Literal)
                    if isinstance(column, ex.Name) and _key(column, schema) and _constant(other) and not null:
                        return "a computed null finds one row of a unique key"
            case ex.BinaryOperation(operator=Binary.BIT_AND | Binary.BIT_OR | Binary.BIT_XOR):
                if _unsigned_constant(part):
                    return "a constant that is unsigned is taken as signed where it meets a float"
            case ex.BinaryOperation(operator=Binary.EQUAL):
                if _fraction_for_a_key(part.left, part.right, schema):
                    return "a fraction is rounded to an integer key"
            case ex.UnaryOperation(operator=ex.Unary.NEGATE, operand=ex.Literal(value=bool())):
                # SELECT MAX(-TRUE) gives 1, and so does (-TRUE) IN (SELECT 1 …); with -1 both are right.
                return "minus TRUE is kept as TRUE"
            case ex.Cast(type=sc.Type(unsigned=True)):
                if _unsigned_constant(part):
                    return "a constant that is unsigned is taken as signed where it meets a float"
            case ex.InList(items=(item,)):
                if _fraction_for_a_key(part.operand, item, schema):
                    return "a fraction is rounded to an integer key"
            case ex.InQuery():
                first = part.query.items[0]
                if isinstance(first, qu.Item) and _fraction_for_a_key(
                    first.expression, part.operand, schema, any_row=True
                ):
                    return "a fraction is rounded to an integer key"
                # (SELECT MAX(v) FROM t) IN (SELECT k FROM u WHERE k < x.v) may be true as soon as u has rows; with + 0 it is not.
                if isinstance(part.operand, ex.ScalarQuery) and _correlated(part.query):
                    return "a scalar query is in any query that depends on the row"
                # v + 3000000000 NOT IN (SELECT v FROM t) is true with a null in v; without materialization it is null.
                if (
                    not isinstance(part.operand, ex.Name)
                    and not _constant(part.operand)
                    and not _correlated(part.query)
                ):
                    return "a value that no column of the type can hold is in no query, also with nulls"
            case qu.Select(distinct=True):
                # SELECT DISTINCT 5 FROM t LIMIT 1 OFFSET 1 gives a row; DISTINCT leaves one, which the offset passes over.
                items = [item.expression for item in part.items if isinstance(item, qu.Item)]
                if part.offset is not None and all(map(_constant, items)):
                    return "an OFFSET counts the rows before DISTINCT of constants"
                # SELECT DISTINCT w, NULLIF(w, v) AS c … ORDER BY w, NULLIF(w, v) has one row for each w; ORDER BY w, c has all.
                if any(_calls(order.expression, ex.Function.NULLIF) for order in part.order_by):
                    return "DISTINCT ordered by a NULLIF loses rows"
            case _:
                pass
    return None


def _leftover_id(statement: st.Insert, schema: sc.Schema) -> bool:
    """With a UNIQUE and rows (6, 1), (7, 20): REPLACE INTO t (id, a) VALUES (NULL, 20), (6, 5) fails, as 6 is there already.

    As two statements, or in the other order, it replaces both rows.
    """
    generated = next((column.name for column in schema.tables[statement.table].columns if column.generated), None)
    if statement.mode is not st.InsertMode.REPLACE or isinstance(statement.source, qu.Select):
        return False
    if generated not in statement.columns or len(statement.source) < 2:
        return False
    ids = [row[statement.columns.index(generated)] for row in statement.source]
    taken = [isinstance(value, st.Default) or value == ex.Literal(None) for value in ids]
    return any(taken) and not all(taken)


def known_count_bug(statement: st.Statement, schema: sc.Schema) -> str | None:
    """With d DECIMAL(8, 2) DEFAULT 1.50 and a row (3, NULL): INSERT … (3, 7) ON DUPLICATE KEY UPDATE d = NULL counts 1.

    Without the default it counts 0, as it should for a row that stays as it is.
    """
    if not isinstance(statement, st.Insert) or statement.on_conflict is None:
        return None
    defaults = {column.name for column in schema.tables[statement.table].columns if column.default is not None}
    for part in statement.on_conflict.assignments:
        certain = isinstance(part.value, ex.Literal) and part.value.value is not None
        if part.column in defaults and not certain:
            return "a null that stays a null counts as a change"
    return None


def _fraction_for_a_key(left: ex.Expression, right: ex.Expression, schema: sc.Schema, any_row: bool = False) -> bool:
    """With PRIMARY KEY (k, l), k = 1.5 finds the row where k is 2; with IGNORE INDEX (PRIMARY) it finds none."""
    for column, other in ((left, right), (right, left)):
        if (
            isinstance(column, ex.Name)
            and _key(column, schema)
            and (any_row or _constant(other))
            and _fractional(other)
        ):
            return True
    return False


def _key(name: ex.Name, schema: sc.Schema) -> bool:
    """Whether an index has the column. One of a query in FROM may be any."""
    tables = [table for table in schema.tables.values() if any(column.name == name.name for column in table.columns)]
    keys = [
        key
        for table in tables
        for key in (table.primary_key, *table.uniques, *(foreign.columns for foreign in table.foreign_keys))
    ]
    return not tables or any(name.name in key for key in keys)


def _fractional(node: ex.Expression) -> bool:
    if isinstance(node, ex.Literal):
        return not _whole(node.value)
    return any(
        (isinstance(part, ex.Literal) and isinstance(part.value, Decimal | float | str))
        or (isinstance(part, ex.BinaryOperation) and part.operator is Binary.DIVIDE)
        or (isinstance(part, ex.Name) and part.name in ("d", "f", "w", "s", "u"))
        or (isinstance(part, ex.Aggregate) and part.aggregation is ex.Aggregation.AVG)
        for part in parts(node)
    )


def _whole(value: ex.Constant) -> bool:
    if isinstance(value, str):
        value = text_number(value)
    return not isinstance(value, Decimal | float) or value == int(value)


def _correlated(query: qu.Select) -> bool:
    bound = {part.name for part in parts(query) if isinstance(part, qu.TableSource)}
    return any(isinstance(part, ex.Name) and part.table not in bound for part in parts(query))


def _constant(node: ex.Expression) -> bool:
    """Whether it is computed before the first row: it has no columns but those of queries that stand for themselves."""
    queries = [part for part in parts(node) if isinstance(part, qu.Select)]
    inside = [part for query in queries for part in parts(query) if isinstance(part, ex.Name)]
    names = [part for part in parts(node) if isinstance(part, ex.Name)]
    return all(any(name is other for other in inside) for name in names) and not any(map(_correlated, queries))


def _unsigned_constant(node: ex.Expression) -> bool:
    """WHERE CAST(-1 AS UNSIGNED) NOT BETWEEN v AND -0.5e0 leaves out nulls, as if it were -1; in SELECT it is true of them."""
    return _constant(node) and any(isinstance(part, ex.UnaryOperation) for part in parts(node))


def _calls(node: ex.Expression, function: ex.Function) -> bool:
    return any(isinstance(part, ex.Call) and part.function is function for part in parts(node))
