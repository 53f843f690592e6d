"""Queries: from sqlglot's ``Select`` to ours."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary, BinaryOperation, Expression, Literal, Name
from isolde.tx.queries import (
    Item,
    Join,
    JoinKind,
    Lock,
    Order,
    Patience,
    QuerySource,
    Select,
    Source,
    Star,
    TableSource,
)
from isolde.tx.sql import expressions
from isolde.tx.sql.skeleton import skeleton
from isolde.tx.sql.trees import Reading

_CLAUSES = (
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "distinct",
    "locks",
)


def subquery(node: Any, reading: Reading) -> Select:
    """The select in parentheses; a parenthesis with clauses of its own is refused."""
    while isinstance(node, exp.Subquery | exp.Paren):
        reading.only(node, "this")
        node = node.this
    if not isinstance(node, exp.Expr):
        raise reading.prepared.text.malformed(0, "an empty subquery", "SELECT")
    return select(node, reading)


def select(node: exp.Expr, reading: Reading) -> Select:
    if not isinstance(node, exp.Select):
        reading.outside(node)
    reading.only(node, *_CLAUSES)
    reading.merged = (*reading.merged, {})
    source = _from(node, reading)
    items = tuple(item(one, reading) for one in node.expressions)
    if not items:
        if reading.dialect is Dialect.POSTGRESQL:
            raise reading.refuse(node, "SELECT without columns", "select a constant")
        raise reading.malformed(node, "SELECT without columns", "a column, or '*'")
    if reading.dialect is Dialect.MYSQL and any(isinstance(one, Star) and one.table is None for one in items[1:]):
        raise reading.malformed(node, "'*' after a column", "'*' first, or a table before it")
    if any(isinstance(one, Star) and one.table is None for one in items) and reading.merged[-1]:
        raise reading.refuse(node, "'*' over a join with USING", "name the columns")
    limit, offset = _limit(node, reading)
    group = node.args.get("group")
    if group is not None:
        reading.only(group, "expressions")
        if not group.expressions:
            raise reading.malformed(node, "GROUP BY without columns", "a column")
    query = Select(
        items,
        source,
        where(node, reading),
        tuple(_ordinal(one, items, reading) for one in group.expressions) if group is not None else (),
        _having(node, reading),
        tuple(_order(one, items, reading) for one in _orders(node, reading)),
        limit,
        offset,
        _distinct(node, reading),
        *_lock(node, reading),
        reading.place(node),
    )
    reading.merged = reading.merged[:-1]
    return query


def item(node: exp.Expr, reading: Reading) -> Item | Star:
    """A column of a result, or a star."""
    if isinstance(node, exp.Star):
        reading.only(node)
        return Star(None, reading.place(node))
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        reading.only(node, "this", "table")
        reading.only(node.this)
        return Star(reading.name(node.args["table"]), reading.place(node))
    if isinstance(node, exp.Alias):
        reading.only(node, "this", "alias")
        alias = node.args["alias"]
        named = reading.name(alias, label=True)
        return Item(expressions.expression(node.this, reading), named)
    return Item(expressions.expression(node, reading))


def where(node: exp.Expr, reading: Reading) -> Expression | None:
    clause = node.args.get("where")
    if clause is None:
        return None
    reading.only(clause, "this")
    return expressions.expression(clause.this, reading)


def table(node: Any, reading: Reading) -> tuple[str, str | None]:
    """A plain table and its alias."""
    if not isinstance(node, exp.Table):
        reading.outside(node)
    reading.only(node, "this", "alias", "joins")
    if not isinstance(node.this, exp.Identifier):
        if isinstance(node.this, exp.Func):
            raise reading.refuse(node.this, "a function in place of a table", "use a table or a query")
        reading.outside(node.this)
    word = str(node.this.this)
    if word.lower() in _MODIFIERS and node.args.get("alias"):
        raise reading.refuse(node, f"the modifier {word.upper()}", "leave it out")
    return reading.name(node.this), _alias(node, reading)


# sqlglot takes them for a table with an alias.
_MODIFIERS = {"only", "low_priority", "quick", "delayed", "high_priority", "ignore"}


def _alias(node: exp.Expr, reading: Reading) -> str | None:
    alias = node.args.get("alias")
    if alias is None:
        return None
    if alias.args.get("columns"):
        raise reading.refuse(node, "an alias with names for columns", "name the columns in the query")
    reading.only(alias, "this")
    return reading.name(alias.this)


def _from(node: exp.Expr, reading: Reading) -> Source | None:
    clause = node.args.get("from_")
    if clause is None:
        return None
    reading.only(clause, "this")
    return _joined(_source(clause.this, reading), node.args.get("joins") or (), reading)


def _source(node: exp.Expr, reading: Reading) -> Source:
    place = reading.place(node)
    if isinstance(node, exp.Subquery):
        if isinstance(node.this, exp.Table | exp.Subquery) and not node.args.get("alias"):
            reading.only(node, "this", "joins")
            _grouped(node.this, reading)
            return _joined(_source(node.this, reading), node.args.get("joins") or (), reading)
        reading.only(node, "this", "alias", "joins")
        alias = _alias(node, reading)
        if alias is None:
            raise reading.refuse(node, "a query in FROM without an alias", "give it one")
        outer = reading.merged
        derived = QuerySource(select(node.this, reading), alias, place)
        reading.merged = outer
        return _joined(derived, node.args.get("joins") or (), reading)
    name, alias = table(node, reading)
    return _joined(TableSource(name, alias, place), node.args.get("joins") or (), reading)


def _grouped(node: exp.Expr, reading: Reading) -> None:
    """Parentheses are for joins alone in PostgreSQL, and not for those by a comma."""
    joins = node.args.get("joins") or ()
    joined = bool(joins) and not any(join.meta.get("comma") for join in joins)
    if reading.dialect is Dialect.POSTGRESQL and isinstance(node, exp.Table) and not joined:
        raise reading.malformed(node, "a table in parentheses", "no parentheses, or JOIN in them")


def _joined(left: Source, joins: Any, reading: Reading) -> Source:
    for node in joins:
        left = _join(left, node, reading)
    return left


def _join(left: Source, node: exp.Expr, reading: Reading) -> Join:
    side, kind, method = (str(node.args.get(name) or "").upper() for name in ("side", "kind", "method"))
    if method:
        raise reading.refuse(node, f"{method} JOIN", "write the condition with ON")
    if side in {"RIGHT", "FULL"} or kind not in {"", "INNER", "OUTER", "CROSS"}:
        instead = "swap the tables and use LEFT JOIN" if side == "RIGHT" else ""
        raise reading.refuse(node, f"{side or kind} JOIN".replace("JOIN JOIN", "JOIN"), instead)
    reading.only(node, "this", "side", "kind", "on", "using")
    _well_joined(node, side, kind, reading)
    right = _source(node.this, reading)
    condition = expressions.expression(node.args["on"], reading) if node.args.get("on") is not None else None
    if node.args.get("using"):
        condition = _using(left, right, node, reading)
    if side == "LEFT" and condition is None:
        raise reading.malformed(node, "LEFT JOIN without a condition", "ON …")
    return Join(JoinKind.LEFT if side == "LEFT" else JoinKind.INNER, left, right, condition, reading.place(node))


def _well_joined(node: exp.Expr, side: str, kind: str, reading: Reading) -> None:
    """What sqlglot lets pass: each database wants or does not want a condition after its joins."""
    words = " ".join(part for part in (side, kind, "JOIN") if part)
    dialect, conditional = reading.dialect, node.args.get("on") is not None or "using" in node.args
    if (kind == "OUTER" and not side) or (kind in {"INNER", "CROSS"} and side):
        raise reading.malformed(node, words, "JOIN or LEFT JOIN")
    if dialect is Dialect.POSTGRESQL and kind == "CROSS" and conditional:
        raise reading.malformed(node, "CROSS JOIN with a condition", "JOIN … ON …")
    if dialect is Dialect.POSTGRESQL and kind != "CROSS" and not conditional and not node.meta.get("comma"):
        raise reading.malformed(node, f"{words} without a condition", "ON …, or CROSS JOIN")
    if dialect is Dialect.SQLITE and isinstance(node.this, exp.Table) and node.this.args.get("joins"):
        raise reading.malformed(node, "a join inside of a join", "parentheses around the inner one")
    if "using" in node.args and not re.search(r"USING \( (?!\) )", skeleton(reading.prepared.tokens)):
        raise reading.malformed(node, "USING without columns in parentheses", "USING (column, …)")


def _using(left: Source, right: Source, node: exp.Expr, reading: Reading) -> Expression:
    """``USING (c)`` as ``left.c = right.c``; from here on a plain ``c`` is the left one, as SQL says for these joins."""
    condition: Expression | None = None
    merged = reading.merged[-1]
    for identifier in node.args["using"]:
        column = reading.name(identifier)
        place = reading.place(identifier)
        owner = merged.get(column) or (None if isinstance(left, Join) else _known_as(left))
        if owner is None or isinstance(right, Join):
            raise reading.refuse(identifier, "USING over several tables", "write the condition with ON")
        equal = BinaryOperation(Binary.EQUAL, Name(column, owner, place), Name(column, _known_as(right), place), place)
        condition = equal if condition is None else BinaryOperation(Binary.AND, condition, equal, place)
        merged[column] = owner
    assert condition is not None
    return condition


def _known_as(source: TableSource | QuerySource) -> str:
    return source.name if isinstance(source, TableSource) else source.alias


def _ordinal(node: exp.Expr, items: tuple[Item | Star, ...], reading: Reading) -> Expression:
    """A number in ORDER BY or GROUP BY is the column of the result at that position."""
    if not (isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit()):
        return expressions.expression(node, reading)
    position = int(str(node.this))
    if not 1 <= position <= len(items):
        raise reading.malformed(node, f"position {position}", f"a position between 1 and {len(items)}")
    if any(isinstance(one, Star) for one in items[:position]):
        raise reading.refuse(node, "a position after '*'", "name the column")
    chosen = items[position - 1]
    assert isinstance(chosen, Item)
    if isinstance(chosen.expression, Literal):
        raise reading.refuse(node, "a position of a constant", "leave it out")
    return chosen.expression


def _orders(node: exp.Expr, reading: Reading) -> list[exp.Expr]:
    clause = node.args.get("order")
    if clause is None:
        return []
    reading.only(clause, "expressions")
    return list(clause.expressions)


def _order(node: exp.Expr, items: tuple[Item | Star, ...], reading: Reading) -> Order:
    reading.only(node, "this", "desc", "nulls_first")
    expression = _ordinal(node.this, items, reading)
    if isinstance(expression, Name) and expression.table is None:
        # A plain name in ORDER BY is a column of the result before it is one of a table, in all three dialects.
        aliases = [one for one in items if isinstance(one, Item) and one.alias == expression.name]
        if len(aliases) == 1 and not isinstance(aliases[0].expression, Literal):
            expression = aliases[0].expression
    descending = bool(node.args.get("desc"))
    first = bool(node.args.get("nulls_first"))
    # sqlglot fills in what the dialect does: nulls are largest in PostgreSQL, smallest in MySQL and SQLite.
    usual = descending if reading.dialect is Dialect.POSTGRESQL else not descending
    return Order(expression, descending, None if first == usual else first)


def _having(node: exp.Expr, reading: Reading) -> Expression | None:
    clause = node.args.get("having")
    if clause is None:
        return None
    reading.only(clause, "this")
    return expressions.expression(clause.this, reading)


def _distinct(node: exp.Expr, reading: Reading) -> bool:
    clause = node.args.get("distinct")
    if clause is None:
        return False
    if clause.args.get("on") is not None:
        raise reading.refuse(clause, "DISTINCT ON", "group by these columns")
    reading.only(clause)
    return True


def _limit(node: exp.Expr, reading: Reading) -> tuple[Expression | None, Expression | None]:
    clause, offset = node.args.get("limit"), node.args.get("offset")
    limit: Expression | None = None
    _bounded(node, reading)
    if isinstance(clause, exp.Fetch):
        options = clause.args.get("limit_options")
        if options is not None:
            reading.only(options, "rows")
        reading.only(clause, "direction", "count", "limit_options")
        limit = expressions.expression(clause.args["count"], reading) if clause.args.get("count") else Literal(1)
    elif clause is not None:
        reading.only(clause, "expression")
        everything = isinstance(clause.expression, exp.Var) and clause.expression.name.upper() == "ALL"
        limit = None if everything else expressions.expression(clause.expression, reading)
    if offset is None:
        return limit, None
    reading.only(offset, "expression")
    return limit, expressions.expression(offset.expression, reading)


_FETCH = re.compile(r"FETCH (?:FIRST|NEXT) (?:\( .* \) |(?!ROW)\S+ )?ROWS? (?:ONLY|WITH TIES) ")
_OFFSET = re.compile(r"OFFSET (?:\S+|\( .* \)) ROWS? ")


def _bounded(node: exp.Expr, reading: Reading) -> None:
    """Whether the dialect has LIMIT, OFFSET and FETCH as they are written."""
    clause, offset, dialect = node.args.get("limit"), node.args.get("offset"), reading.dialect
    words = skeleton(reading.prepared.tokens)
    if isinstance(clause, exp.Fetch):
        if dialect is Dialect.SQLITE:
            raise reading.malformed(node, "FETCH", "LIMIT")
        if not _FETCH.search(words):
            raise reading.malformed(node, "FETCH", "FETCH FIRST count ROWS ONLY")
    if offset is not None and not isinstance(clause, exp.Limit):
        if dialect is Dialect.SQLITE:
            raise reading.malformed(node, "OFFSET without LIMIT", "LIMIT -1 OFFSET")
        if dialect is Dialect.MYSQL and not _OFFSET.search(words):
            raise reading.malformed(node, "OFFSET without LIMIT", "OFFSET count ROWS")
    if dialect is Dialect.MYSQL:
        for bound in (clause, offset):
            value = bound.args.get("expression") if bound is not None else None
            whole = isinstance(value, exp.Literal) and str(value.this).isdigit() and not value.is_string
            if value is not None and not whole and not isinstance(value, exp.Placeholder | exp.Column):
                raise reading.malformed(value, "a bound of LIMIT that is no number", "a number or a parameter")


def _lock(node: exp.Expr, reading: Reading) -> tuple[Lock | None, Patience]:
    locks = node.args.get("locks") or []
    if not locks:
        return None, Patience.WAIT
    lock = locks[0]
    if len(locks) > 1 or lock.args.get("expressions"):
        raise reading.refuse(lock, "a lock of some tables (FOR … OF)", "lock all rows, or use two queries")
    wait, key = lock.args.get("wait"), bool(lock.args.get("key"))
    if wait is not None and not isinstance(wait, bool):
        raise reading.refuse(lock, "a lock that waits for some seconds", "use NOWAIT, or wait as long as it takes")
    if key and reading.dialect is not Dialect.POSTGRESQL:
        raise reading.refuse(lock, "FOR KEY SHARE or FOR NO KEY UPDATE", "use FOR SHARE or FOR UPDATE")
    reading.only(lock, "update", "key", "wait")
    patience = Patience.WAIT if wait is None else Patience.NOWAIT if wait else Patience.SKIP_LOCKED
    if lock.args.get("update"):
        return Lock.NO_KEY_UPDATE if key else Lock.UPDATE, patience
    return Lock.KEY_SHARE if key else Lock.SHARE, patience
