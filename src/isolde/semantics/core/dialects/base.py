"""The decisions that a dialect makes while a statement is elaborated. They give core nodes and compute nothing but constants.

What is wrong by its types is an ``ExecutionError`` when the statement is elaborated, as in a database that has types.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar

from isolde.semantics.core import primitives
from isolde.semantics.core.evaluate import constant_value
from isolde.semantics.core.nodes import (
    Apply,
    Bind,
    Bound,
    Column,
    Constant,
    Expression,
    Logic,
    Lookup,
    Member,
    Variable,
    is_constant,
    is_null,
)
from isolde.semantics.core.primitives import Primitive
from isolde.semantics.core.types import ANY, BOOLEAN, NULL, UNTYPED, Sort, ValueType
from isolde.semantics.core.values import numbers, texts
from isolde.tx import expressions as tx
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Aggregation, Binary, Function, Unary
from isolde.tx.queries import Select
from isolde.tx.schema import Column as TableColumn
from isolde.tx.schema import Table, Type

COMPARISONS: dict[Binary, Primitive] = {
    Binary.EQUAL: primitives.EQUAL,
    Binary.NOT_EQUAL: primitives.NOT_EQUAL,
    Binary.LESS: primitives.LESS,
    Binary.LESS_EQUAL: primitives.LESS_EQUAL,
    Binary.GREATER: primitives.GREATER,
    Binary.GREATER_EQUAL: primitives.GREATER_EQUAL,
    Binary.SAME: primitives.SAME,
}


# Arithmetic and functions that PostgreSQL and MySQL share
DECIMAL_ARITHMETIC = {
    Binary.ADD: primitives.primitive("+ decimal", numbers.decimal_sum, smt="+"),
    Binary.SUBTRACT: primitives.primitive("- decimal", numbers.decimal_difference, smt="-"),
    Binary.MULTIPLY: primitives.primitive("* decimal", numbers.decimal_product, smt="*"),
}
FLOAT_ARITHMETIC = {
    operator: primitives.primitive(
        f"{operator.value} float",
        lambda left, right, compute=compute: numbers.finite(compute(left, right)),
        f"{{f}}({{0}} {operator.value} {{1}})",
        helper=numbers.finite,
        errors="out-of-range",
        smt=operator.value,
    )
    for operator, compute in (
        (Binary.ADD, lambda left, right: left + right),
        (Binary.SUBTRACT, lambda left, right: left - right),
        (Binary.MULTIPLY, lambda left, right: left * right),
    )
}
_INTEGER_OPERATIONS: tuple[tuple[str, Callable[..., int], str], ...] = (
    ("+", lambda left, right: left + right, "{0} + {1}"),
    ("-", lambda left, right: left - right, "{0} - {1}"),
    ("*", lambda left, right: left * right, "{0} * {1}"),
    ("negate", lambda value: -value, "-{0}"),
    ("abs", abs, "abs({0})"),
    ("fit", lambda value: value, "{0}"),
)


def integer_operations(dialect: str, bits: int, unsigned: bool = False) -> dict[str, Primitive]:
    """Arithmetic on integers, by its symbol: what it gives must fit into so many bits."""
    fit = numbers.within(bits, unsigned)
    return {
        symbol: primitives.primitive(
            f"{dialect} {symbol} {'unsigned' if unsigned else 'int'}{bits}",
            lambda *values, compute=compute: fit(compute(*values)),
            f"{{f}}({text})",
            helper=fit,
            errors="out-of-range",
            smt=symbol,
        )
        for symbol, compute, text in _INTEGER_OPERATIONS
    }


NEGATED_DECIMAL = primitives.primitive(
    "- decimal (sign)", lambda value: numbers.positive_zero(-value), "{f}(-{0})", helper=numbers.positive_zero
)
NEGATED_FLOAT = primitives.primitive("- float (sign)", lambda value: -value, "(-{0})")


class IdSource(StrEnum):
    """Where the values of a generated column come from."""

    SEQUENCE = "sequence"
    """The column's default is the next value of a sequence (PostgreSQL)."""
    RESERVED = "reserved"
    """A counter of the table, which a statement reserves its ids from and which follows ids that are given (MySQL)."""
    LARGEST = "largest"
    """One more than the largest number of a row (SQLite)."""


TEXT_FUNCTIONS = {
    Function.LOWER: primitives.primitive("lower", texts.lower),
    Function.UPPER: primitives.primitive("upper", texts.upper),
    Function.TRIM: primitives.primitive("trim", texts.trim),
    Function.CHARACTER_LENGTH: primitives.primitive("char_length", len),
}


@dataclass(frozen=True, slots=True)
class AggregateForm:
    """How an aggregate is computed: ``function`` of the operand's values that are not null, and the type that it gives."""

    function: Callable[[list[Any]], Any]
    type: ValueType
    operand: Expression
    nonnull: bool = False


class Rules(ABC):
    """``changing``: the statement changes tables, where MySQL is stricter."""

    dialect: ClassVar[Dialect]
    sent: ClassVar[Mapping[type, Callable[[Any], Any]]] = MappingProxyType({})
    """What becomes of values that are given from outside, by their type, where the database has no such values."""
    nulls_last_ascending: ClassVar[bool] = False
    folds_nulls: ClassVar[bool] = False
    """Whether an operation with a NULL that is written there is null before anything else of it is computed."""
    fails_when_planned: ClassVar[bool] = False
    """Whether an operation of constants that fails ends the statement before any row is looked at."""
    hides_errors: ClassVar[bool] = True
    """Whether a plan that skips a row hides an error that its conditions would end in."""
    inner_table_hides_outer: ClassVar[bool] = False
    """Whether ``t.c`` stops at the innermost table called ``t``, though it has no column ``c``."""
    correlates_derived_tables: ClassVar[bool] = True
    """Whether a query in FROM may use columns of a query around it."""
    member_lazy: ClassVar[bool] = False
    """Whether the operand of IN with an empty query is left alone."""
    scalar_ahead: ClassVar[bool] = False
    """Whether a scalar query that depends on no row is run before rows are looked at."""
    computes_both_bounds: ClassVar[bool] = False
    """Whether both bounds of BETWEEN are computed before either is compared: an error in one is not hidden by the other."""
    assigns_one_by_one: ClassVar[bool] = False
    """Whether an assignment of an UPDATE sees those before it."""
    assigns_through_text: ClassVar[bool] = False
    """Whether a variable takes, through its text, what a column of its type does not take."""
    counts_changed: ClassVar[bool] = False
    """Whether an UPDATE counts only the rows that became different."""
    changes_rows_as_found: ClassVar[bool] = False
    """Whether a change applies to each row when it is found, and queries in it see rows changed before (SQLite; refused)."""
    shows_rows_before: ClassVar[bool] = False
    """Whether a query among the values of an INSERT sees the rows before it (MySQL; refused where it would show)."""
    ids: ClassVar[IdSource]
    checks_references_by_row: ClassVar[bool] = False
    """Whether foreign keys are checked after each row, and not at the end of a statement (MySQL)."""
    counts_replaced: ClassVar[bool] = False
    """Whether a row that REPLACE or ON DUPLICATE KEY UPDATE puts in place of another counts twice (MySQL)."""
    updates_row_once: ClassVar[bool] = False
    """Whether it is an error that ON CONFLICT changes a row which the same INSERT has put there (PostgreSQL)."""
    ignore_bends_values: ClassVar[bool] = False
    """Whether IGNORE makes other values of those that do not fit, and leaves out rows without a parent (MySQL)."""
    needs_defaults: ClassVar[bool] = False
    """Whether a NOT NULL column without a value and without a default is an error before the row is looked at."""
    # Forms that a dialect has or has not
    orders_nulls: ClassVar[bool] = True
    """Whether ORDER BY has NULLS FIRST and NULLS LAST."""
    in_takes_limit: ClassVar[bool] = True
    """Whether the query of IN may have a LIMIT."""
    returns_updated: ClassVar[bool] = True
    """Whether an UPDATE has RETURNING."""
    has_insert_modes: ClassVar[bool] = True
    """Whether an INSERT has IGNORE and REPLACE."""
    has_on_duplicate_key: ClassVar[bool] = False
    """Whether ON DUPLICATE KEY UPDATE stands for ON CONFLICT: no key and no WHERE is written (MySQL)."""
    conflict_update_needs_key: ClassVar[bool] = False
    """Whether ON CONFLICT DO UPDATE must name the columns of a key (PostgreSQL)."""
    fills_last_columns: ClassVar[bool] = False
    """Whether an INSERT that names no columns may give fewer values than there are (PostgreSQL)."""

    # What dialects mean by the same form
    results_are_determined: ClassVar[bool] = False
    """Whether a result that GROUP BY or DISTINCT leaves open is an error (PostgreSQL); others take some row's (refused)."""
    folds_texts: ClassVar[bool] = False
    """Whether texts that differ may be equal, as 'a' and 'A' in MySQL."""
    rounds_distinct_floats: ClassVar[bool] = False
    """Whether computed floats are rounded before DISTINCT compares them (MySQL; refused)."""
    scalar_takes_first: ClassVar[bool] = False
    """Whether the first of several rows is the value of a scalar query; else they are an error."""
    row_is_null_by_columns: ClassVar[bool] = False
    """Whether IS NULL of a row asks for all of its columns (PostgreSQL)."""
    replace_puts_defaults: ClassVar[bool] = False
    """Whether REPLACE puts the default in place of a null that a column does not take (SQLite)."""
    negative_limit_is_none: ClassVar[bool] = False
    """Whether a negative LIMIT lets all rows through; else it is an error."""

    # Transactions and procedures
    errors_end_transactions: ClassVar[bool] = False
    """Whether a transaction in which a statement failed can only be rolled back (PostgreSQL)."""
    calls_answer_queries: ClassVar[bool] = False
    """Whether the rows of a query that a procedure does nothing with are the answer of its call (MySQL)."""
    shares_cursors: ClassVar[bool] = False
    """Whether a cursor's name is known in the whole transaction, and not in its procedure alone (PostgreSQL)."""
    conditions_are_boolean: ClassVar[bool] = False
    """Whether the condition of IF and WHILE must be a boolean (PostgreSQL)."""
    missing_row_clears: ClassVar[bool] = False
    """Whether a FETCH without a row sets its variables to null (PostgreSQL)."""
    pads_variables: ClassVar[bool] = False
    """Whether a row may have more or fewer columns than variables take (PostgreSQL; refused); else that is an error."""
    exists_type: ClassVar[ValueType] = BOOLEAN
    integer_type: ClassVar[ValueType]
    """The type of counts and of loop variables."""

    def __init__(self, changing: bool = False) -> None:
        self.changing = changing

    # Types

    @abstractmethod
    def column(self, type_: Type) -> ValueType: ...

    @abstractmethod
    def given(self, value: Any) -> ValueType:
        """The type of a parameter that has this value."""

    def variable(self, type_: ValueType) -> ValueType:
        """The type of an undeclared variable that a value of this type is assigned to."""
        return type_

    def derived(self, type_: ValueType) -> ValueType:
        """The type of a column of a query in FROM."""
        return type_

    @abstractmethod
    def literal(self, value: Any) -> Constant: ...

    @abstractmethod
    def common(self, nodes: Sequence[Expression], what: str) -> tuple[list[Expression], ValueType]:
        """The operands of ``what`` (a CASE, a COALESCE) converted to the type that they have in common."""

    # Operations

    @abstractmethod
    def unary(self, operator: Unary, operand: Expression) -> Expression: ...

    @abstractmethod
    def binary(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        """Arithmetic, bits, concatenation, LIKE: all but logic and comparison."""

    @abstractmethod
    def compared(self, operator: Binary, left: Expression, right: Expression) -> Expression: ...

    def matching(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        """The comparisons inside of BETWEEN, CASE and a list of several items."""
        return self.compared(operator, left, right)

    def between(self, operand: Expression, low: Expression, high: Expression) -> Expression:
        """``operand`` is computed already."""
        first = self.matching(Binary.GREATER_EQUAL, operand, low)
        return self.logic(Binary.AND, first, self.matching(Binary.LESS_EQUAL, operand, high))

    def list_items(
        self,
        operand: Expression,  # noqa: ARG002
        items: list[Expression],
        plain: list[bool],  # noqa: ARG002
    ) -> list[Expression]:
        """The items of IN as they are compared. ``plain``: which of them use no columns and no queries."""
        return items

    def case_operand(self, operand: Expression) -> Expression:
        return operand

    @abstractmethod
    def truth(self, node: Expression, what: str = "condition") -> Expression:
        """As a boolean of Python, or ``None`` where it is unknown."""

    @abstractmethod
    def call(self, function: Function, arguments: list[Expression]) -> Expression: ...

    @abstractmethod
    def cast(self, node: Expression, type_: Type) -> Expression: ...

    @abstractmethod
    def stored(self, node: Expression, column: TableColumn) -> Expression:
        """What is stored where this is assigned to a column; a null passes."""

    @abstractmethod
    def aggregate(self, aggregation: Aggregation, operand: Expression) -> AggregateForm: ...

    def grouped_aggregate(self, form: AggregateForm) -> AggregateForm:
        """The aggregate with GROUP BY or DISTINCT."""
        return form

    # Keys and order

    keys_are_not_null: ClassVar[bool] = True
    """Whether the columns of a primary key, and generated ones, are NOT NULL."""

    def row_number(self, table: Table) -> int | None:  # noqa: ARG002
        """The place of the column that is the row's own number (SQLite's rowid)."""
        return None

    def stored_row_number(self, node: Expression) -> Expression:
        """What is stored in the column that is the row's own number."""
        return node

    def key_part(self, type_: Type) -> Callable[[Any], Any] | None:  # noqa: ARG002
        """What is equal for values of a column that are held equal; ``None``: the value itself."""
        return None

    @abstractmethod
    def key(self, node: Expression) -> Expression:
        """Equal for values that the dialect holds equal."""

    def sort_key(self, node: Expression) -> Expression:
        return self.key(node)

    @abstractmethod
    def probe(self, column: ValueType, node: Expression) -> Expression | None:
        """The key by which rows whose column equals the value are found, or ``None`` if no key can tell."""

    def equals_differ(self, node: Expression) -> bool:  # noqa: ARG002
        """Whether two of its values may be equal and still differ: in their scale, their sign, or their type."""
        return False

    @abstractmethod
    def bound(self, node: Expression, what: str) -> Expression:
        """The number of rows that LIMIT or OFFSET asks for; null for all."""

    # What a dialect reads in another way than the text suggests

    def check_arranging(self, node: tx.Expression) -> None:
        """Refuses an expression of ORDER BY or GROUP BY that the dialect takes for a column's number."""
        del node

    def check_derived_table(self, select: Select) -> None:
        """Refuses a query in FROM whose digits depend on the plan."""
        del select

    # Values as they are seen

    def output(self, node: Expression) -> Expression:
        """What a client sees."""
        return node

    def value(self, node: Expression) -> Expression:
        """A truth value where a value is asked for: a number, in dialects that have no booleans."""
        return node

    def returned(self, node: Expression) -> Expression:
        """What RETURNING of an INSERT or UPDATE shows."""
        return self.output(node)

    # Shared by dialects

    def null(self) -> Constant:
        return Constant(None, NULL)

    def apply(self, primitive: Primitive, arguments: Sequence[Expression], type_: ValueType) -> Expression:
        """The primitive of the operands; null at once where an operand is a NULL that decides it."""
        if not primitive.strict:
            return Apply(primitive, tuple(arguments), type_, not primitive.nullable)
        nonnull = not primitive.nullable
        for argument in arguments:
            if not argument.nonnull:
                nonnull = False
        if not nonnull and any(map(is_null, arguments)) and (self.folds_nulls or all(map(is_plain, arguments))):
            for argument in arguments:
                if not is_plain(argument) and is_constant(argument):
                    # It is computed when the statement is planned, before anybody sees that the result is null.
                    constant_value(argument)
            return Constant(None, type_)
        return Apply(primitive, tuple(arguments), type_, nonnull)

    def equation(
        self, primitive: Primitive, left: Expression, right: Expression, sides: tuple[Expression, Expression]
    ) -> Expression:
        """A comparison of ``left`` and ``right``; ``sides`` are the two before they were converted, for finding rows."""
        found = self.apply(primitive, (left, right), BOOLEAN)
        if primitive is not primitives.EQUAL or not isinstance(found, Apply):
            return found
        lookups = []
        for column, other in (sides, sides[::-1]):
            if type(column) is Column and column.stored:
                key = self.probe(column.type, other)
                if key is not None:
                    lookups.append(Lookup(column, key))
        return Apply(primitive, found.arguments, BOOLEAN, found.nonnull, tuple(lookups)) if lookups else found

    def logic(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        left, right = self.truth(left, operator.value.upper()), self.truth(right, operator.value.upper())
        if operator is Binary.XOR:
            return self.apply(primitives.XOR, (left, right), BOOLEAN)
        return Logic(operator is Binary.OR, left, right)

    def negation(self, node: Expression) -> Expression:
        return self.apply(primitives.NOT, (self.truth(node, "NOT"),), BOOLEAN)

    def negated_constant(self, node: tx.Expression, operand: Expression) -> Expression | None:  # noqa: ARG002
        """What a minus before a computed constant is, where the dialect makes something of its own of it."""
        return None


def is_plain(node: Expression) -> bool:
    """Whether it is there without computing."""
    return isinstance(node, (Constant, Column, Variable, Bound))


def typed(node: Expression, type_: ValueType) -> Expression:
    """The same value, known to be of another type."""
    if node.type == type_:
        return node
    if isinstance(node, Constant):
        return Constant(node.value, type_)
    if isinstance(node, Variable):
        return Variable(node.slot, type_, node.name, node.nonnull)
    if isinstance(node, (Logic, Bind, Member)):
        return Apply(_AS_IT_IS, (node,), type_, node.nonnull)
    return replace(node, type=type_)


_AS_IT_IS = primitives.primitive("as it is", lambda value: value, "{0}", strict=False, nullable=True)


def all_null(nodes: Sequence[Expression]) -> bool:
    return all(node.type.sort is Sort.NULL for node in nodes)


def untyped(node: Expression) -> bool:
    return node.type.sort in UNTYPED


__all__ = ["ANY", "COMPARISONS", "AggregateForm", "Rules", "all_null", "is_plain", "typed", "untyped"]
