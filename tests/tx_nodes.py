"""Random nodes of the transaction language, as texts of a dialect can say them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from isolde.tx.dialects import Dialect
from isolde.tx.expressions import (
    Aggregate,
    Aggregation,
    Between,
    Binary,
    BinaryOperation,
    Call,
    Case,
    Cast,
    Constant,
    Exists,
    Expression,
    Function,
    InList,
    InQuery,
    Is,
    Literal,
    Name,
    Parameter,
    ScalarQuery,
    Truth,
    Unary,
    UnaryOperation,
    When,
)
from isolde.tx.queries import Item, Join, JoinKind, Lock, Order, QuerySource, Select, Source, Star, TableSource
from isolde.tx.schema import BIGINT, FLOAT, TEXT, Type, decimal
from isolde.tx.statements import Assignment, Default, Delete, Insert, InsertMode, OnConflict, Statement, Update

NAMES = st.sampled_from(
    ["a", "b", "c", "id", "x1", "order", "key", "group", "user", "value", "end", "date", "a b", "left", "desc"]
)
TABLES = st.sampled_from(["t", "u", "orders", "order", "table", "select"])

# What is written in another way when it is rendered: each has a test of its own.
TRANSLATED = {
    Dialect.POSTGRESQL: {Binary.XOR, Binary.INTEGER_DIVIDE},
    Dialect.MYSQL: {Binary.CONCATENATE},
    Dialect.SQLITE: {Binary.XOR, Binary.BIT_XOR, Binary.INTEGER_DIVIDE},
}
ARITY = {
    Function.ABS: (1, 1),
    Function.CEILING: (1, 1),
    Function.CHARACTER_LENGTH: (1, 1),
    Function.COALESCE: (2, 3),
    Function.CONCAT: (2, 3),
    Function.FLOOR: (1, 1),
    Function.GREATEST: (2, 3),
    Function.IF: (3, 3),
    Function.LEAST: (2, 3),
    Function.LOWER: (1, 1),
    Function.NOW: (0, 0),
    Function.NULLIF: (2, 2),
    Function.ROUND: (1, 2),
    Function.SIGN: (1, 1),
    Function.SUBSTRING: (2, 3),
    Function.TRIM: (1, 1),
    Function.UPPER: (1, 1),
}


def literals(dialect: Dialect) -> SearchStrategy[Literal]:
    decimals = st.decimals(-1000, 1000, places=2, allow_nan=False).filter(lambda value: value != 0)
    texts = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=6)
    values: list[SearchStrategy[Constant]] = [
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63),
        decimals,
        texts,
        st.sampled_from(["it's", "\\", "%s", '"', "--", ":x"]),
    ]
    if dialect is not Dialect.POSTGRESQL:
        values.append(st.floats(allow_nan=False, allow_infinity=False, min_value=1e-20, max_value=1e20))
    return st.builds(Literal, st.one_of(*values))


def _same(left: Expression, right: Expression) -> Expression:
    # SQLite's "x IS NULL" and "x IS TRUE" are questions of their own.
    plain = (
        Literal(0) if isinstance(right, Literal) and (right.value is None or isinstance(right.value, bool)) else right
    )
    return BinaryOperation(Binary.SAME, left, plain)


def expressions(dialect: Dialect, *, queries: bool = True) -> SearchStrategy[Expression]:
    operators = [op for op in Binary if op not in TRANSLATED[dialect] and op is not Binary.SAME]
    functions = [f for f in Function if not (f is Function.IF and dialect is Dialect.POSTGRESQL)]
    types = [BIGINT, TEXT, decimal(8, 2), FLOAT]
    if dialect is Dialect.MYSQL:
        types.append(Type(BIGINT.kind, bits=64, unsigned=True))

    def deeper(inner: SearchStrategy[Expression]) -> SearchStrategy[Expression]:
        lists = st.lists(inner, min_size=1, max_size=3).map(tuple)
        whens = st.lists(st.builds(When, inner, inner), min_size=1, max_size=2).map(tuple)
        calls = st.sampled_from(functions).flatmap(
            lambda f: st.lists(inner, min_size=ARITY[f][0], max_size=ARITY[f][1]).map(lambda a: Call(f, tuple(a)))
        )
        choices: list[SearchStrategy[Expression]] = [
            st.builds(BinaryOperation, st.sampled_from(operators), inner, inner),
            st.builds(_same, inner, inner),
            st.builds(UnaryOperation, st.sampled_from([Unary.NEGATE, Unary.NOT, Unary.BIT_NOT]), inner),
            st.builds(Is, inner, st.sampled_from(Truth), st.booleans()),
            st.builds(Between, inner, inner, inner, st.booleans()),
            st.builds(InList, inner, lists.filter(lambda items: not isinstance(items[0], ScalarQuery)), st.booleans()),
            st.builds(Case, st.none() | inner, whens, st.none() | inner),
            calls,
            st.builds(Cast, inner, st.sampled_from(types)),
        ]
        if queries:
            query = st.builds(Select, lists.map(lambda items: tuple(map(Item, items))), TABLES.map(TableSource), inner)
            choices += [
                st.builds(Exists, query, st.booleans()),
                st.builds(ScalarQuery, query),
                st.builds(InQuery, inner, query, st.booleans()),
            ]
        return st.one_of(*choices)

    names = st.builds(Name, NAMES, st.none() | TABLES)
    leaves = st.one_of(literals(dialect), names, st.builds(Parameter, st.sampled_from(["p", "from", "select_", "x"])))
    return st.recursive(leaves, deeper, max_leaves=6)


def selects(dialect: Dialect) -> SearchStrategy[Select]:
    inner = expressions(dialect)
    aggregates = st.builds(Aggregate, st.sampled_from(Aggregation), inner, st.booleans())
    items = st.one_of(
        st.builds(Item, inner, st.none() | NAMES),
        st.builds(Item, aggregates | st.just(Aggregate(Aggregation.COUNT, None)), NAMES),
        st.builds(Star, st.none() | TABLES),
    )
    tables = st.builds(TableSource, TABLES, st.none() | NAMES)
    one_row = st.builds(Select, st.just((Item(Literal(1), "n"),)), tables, st.none() | inner)

    def joined(sources: SearchStrategy[Source]) -> SearchStrategy[Source]:
        return st.one_of(
            st.builds(Join, st.just(JoinKind.INNER), sources, sources, st.none() | inner),
            st.builds(Join, st.just(JoinKind.LEFT), sources, sources, inner),
        )

    sources = st.recursive(tables | st.builds(QuerySource, one_row, NAMES), joined, max_leaves=3)
    # Nulls where the dialect has them anyway are not said twice, constants are positions, and a plain name may be an alias.
    keys = inner.filter(lambda e: not isinstance(e, Literal | Name))
    usual = st.none()

    def orders(key: Expression, descending: bool, other: bool) -> Order:
        first = (not descending) if dialect is Dialect.POSTGRESQL else descending
        return Order(key, descending, first if other and dialect is not Dialect.MYSQL else None)

    def starred(listed: tuple[Item | Star, ...]) -> bool:
        """MySQL has a plain star in the first place only."""
        late = any(isinstance(item, Star) and item.table is None for item in listed[1:])
        return dialect is not Dialect.MYSQL or not late

    limits = st.none() | st.builds(Literal, st.integers(0, 100)) | st.builds(Parameter, st.just("n"))
    lock = usual if dialect is Dialect.SQLITE else usual | st.sampled_from(Lock)
    base = st.builds(
        Select,
        st.lists(items, min_size=1, max_size=3).map(tuple).filter(starred),
        sources,
        st.none() | inner,
        st.lists(keys, max_size=2).map(tuple),
        st.none() | aggregates,
        st.lists(st.builds(orders, keys, st.booleans(), st.booleans()), max_size=2).map(tuple),
        limits,
        st.none(),
        st.booleans(),
        lock,
    )
    offset = st.builds(Literal, st.integers(0, 100))
    paged = st.builds(lambda s, o: replace(s, offset=o if s.limit is not None else None), base, offset)
    return st.one_of(base, paged)


def statements(dialect: Dialect) -> SearchStrategy[Statement]:
    inner = expressions(dialect)
    value = inner if dialect is Dialect.SQLITE else inner | st.builds(Default)
    assignments = st.lists(st.builds(Assignment, NAMES, value), min_size=1, max_size=3).map(tuple)
    returning = st.one_of(
        st.just(()),
        st.lists(st.builds(Item, inner, st.none() | NAMES), min_size=1, max_size=2).map(tuple),
        st.just((Star(),)),
    )
    none = st.just(())
    update = st.builds(
        Update,
        TABLES,
        assignments,
        st.none() | inner,
        st.none() | NAMES,
        none if dialect is Dialect.MYSQL else returning,
    )
    delete = st.builds(Delete, TABLES, st.none() | inner, st.none() | NAMES, returning).filter(
        lambda node: dialect is not Dialect.MYSQL or node.alias is None or not node.returning
    )
    return st.one_of(selects(dialect), _inserts(dialect, inner, value, returning), update, delete)


def _inserts(
    dialect: Dialect,
    inner: SearchStrategy[Expression],
    value: SearchStrategy[Expression | Default],
    returning: SearchStrategy[tuple[Item | Star, ...]],
) -> SearchStrategy[Statement]:
    excluded = inner | st.builds(Name, NAMES, st.just("excluded"))
    sets = st.lists(st.builds(Assignment, NAMES, excluded), min_size=1, max_size=2).map(tuple)
    keys = st.lists(NAMES, min_size=1, max_size=2).map(tuple)
    conflict: SearchStrategy[OnConflict] = (
        st.builds(OnConflict, st.just(()), sets)
        if dialect is Dialect.MYSQL
        else st.builds(OnConflict, keys, sets, st.none() | inner)
        | st.builds(OnConflict, keys | st.just(()), st.just(()))
    )
    rows = st.lists(st.lists(value, min_size=2, max_size=2).map(tuple), min_size=1, max_size=2).map(tuple)
    query = st.builds(Select, st.just((Star(),)), TABLES.map(TableSource), inner)
    columns = st.just(()) | st.just(("a", "order"))
    modes = st.just(InsertMode.PLAIN) if dialect is Dialect.POSTGRESQL else st.sampled_from(InsertMode)
    plain = st.builds(Insert, TABLES, columns, rows | query, st.none() | conflict, returning)
    other = st.builds(Insert, TABLES, columns, rows, st.none(), returning, modes)
    defaults = st.builds(Insert, TABLES, st.just(()), st.just(((),)), st.none(), returning, modes)
    return plain | other | defaults
