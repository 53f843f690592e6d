"""The typed core: expressions in which every name is resolved, every type known and every conversion written out.

All readings of a transaction start from these nodes; none of them asks the SQL text again. Every node has a ``type`` and says
whether its value can be null (``nonnull``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from isolde.semantics.core.immutable import node
from isolde.semantics.core.primitives import Primitive
from isolde.semantics.core.types import BOOLEAN, ValueType

if TYPE_CHECKING:
    from isolde.semantics.core.relations import Query


@node(frozen=True, slots=True)
class Constant:
    """A value that the text of the statement gives."""

    value: Any
    type: ValueType

    @property
    def nonnull(self) -> bool:
        return self.value is not None


@node(frozen=True, slots=True)
class Column:
    """A column, by its place, of the row that ``source`` (a scan or a derived table) is at. ``stored``: as the table holds it."""

    source: int
    place: int
    type: ValueType
    nonnull: bool
    stored: bool
    name: str


@node(frozen=True, slots=True)
class Variable:
    """A parameter of the statement or a variable of the procedure, by its number."""

    slot: int
    type: ValueType
    name: str
    nonnull: bool = False


@node(frozen=True, slots=True)
class Field:
    """A column of a variable that holds a row; null where no row was found for the variable."""

    variable: Variable
    place: int
    type: ValueType
    nonnull: bool = False


@node(frozen=True, slots=True)
class Bind:
    """``value`` is computed once; in ``body`` it is ``Bound`` of the same number."""

    slot: int
    value: Expression
    body: Expression

    @property
    def type(self) -> ValueType:
        return self.body.type

    @property
    def nonnull(self) -> bool:
        return self.body.nonnull


@node(frozen=True, slots=True)
class Bound:
    slot: int
    type: ValueType
    nonnull: bool = False
    stored: bool = False


@node(frozen=True, slots=True)
class Lookup:
    """The rows of ``column``'s source that can satisfy an equation are those whose column has this key."""

    column: Column
    key: Expression


@node(frozen=True, slots=True)
class Apply:
    """A primitive of its operands. ``lookups``: an equation by which rows can be found."""

    primitive: Primitive
    arguments: tuple[Expression, ...]
    type: ValueType
    nonnull: bool = False
    lookups: tuple[Lookup, ...] = ()


@node(frozen=True, slots=True)
class Logic:
    """AND (``decides`` is false) or OR (true): the right side is not computed where the left one decides."""

    decides: bool
    left: Expression
    right: Expression

    @property
    def type(self) -> ValueType:
        return BOOLEAN

    @property
    def nonnull(self) -> bool:
        return self.left.nonnull and self.right.nonnull


@node(frozen=True, slots=True)
class Choose:
    """CASE: the result of the first condition that is true, else ``otherwise``."""

    cases: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    type: ValueType

    @property
    def nonnull(self) -> bool:
        return self.otherwise.nonnull and all(result.nonnull for _, result in self.cases)


@node(frozen=True, slots=True)
class Coalesce:
    """The first argument that is not null; those after it are not computed."""

    arguments: tuple[Expression, ...]
    type: ValueType

    @property
    def nonnull(self) -> bool:
        return self.arguments[-1].nonnull


@node(frozen=True, slots=True)
class Exists:
    query: Query
    type: ValueType
    nonnull: bool = True


@node(frozen=True, slots=True)
class Member:
    """IN with a query: whether ``equal`` is true for a row. The operand is bound to ``slot``, the row's column to ``item``.

    ``lazy``: the operand is not computed where the query has no rows (PostgreSQL).
    """

    slot: int
    operand: Expression
    item: int
    equal: Expression
    query: Query
    lazy: bool
    nonnull: bool = False

    @property
    def type(self) -> ValueType:
        return BOOLEAN


@node(frozen=True, slots=True)
class Scalar:
    """The one column of the one row of a query. ``pick`` gets its rows: what several of them mean is the dialect's to say.

    ``ahead``: the database runs it before it looks at rows (MySQL, for a query that depends on none).
    """

    query: Query
    pick: Primitive
    type: ValueType
    ahead: bool = False
    nonnull: bool = False


@node(frozen=True, slots=True)
class Aggregated:
    """The value of the group's aggregate at this place of ``Grouping.aggregates``."""

    place: int
    type: ValueType
    nonnull: bool = False


@node(frozen=True, slots=True)
class Clock:
    """The time at which the transaction began, in the form of ``shown``."""

    shown: Primitive
    type: ValueType
    nonnull: bool = True


@node(frozen=True, slots=True)
class NextId:
    """A fresh value of a table's generated column."""

    table: int
    type: ValueType
    nonnull: bool = True


@node(frozen=True, slots=True)
class Fail:
    """Ends the statement in this error when it is computed: a column without a default, a statement wrong by its types."""

    kind: str
    reason: str
    type: ValueType
    place: str = ""
    nonnull: bool = True


Expression = (
    Constant
    | Column
    | Variable
    | Field
    | Bind
    | Bound
    | Apply
    | Logic
    | Choose
    | Coalesce
    | Exists
    | Member
    | Scalar
    | Aggregated
    | Clock
    | NextId
    | Fail
)


def is_null(node: Expression) -> bool:
    """Whether it is a NULL that is written there."""
    return type(node) is Constant and node.value is None


def is_stored(node: Expression) -> bool:
    """Whether it is a column as its table holds it: it has no digits that nobody sees."""
    return (type(node) is Column or type(node) is Bound) and node.stored


_OPERANDS: dict[type, Callable[[Any], tuple[Expression, ...]]] = {
    Apply: lambda node: node.arguments,
    Logic: lambda node: (node.left, node.right),
    Choose: lambda node: (*(part for case in node.cases for part in case), node.otherwise),
    Coalesce: lambda node: node.arguments,
    Bind: lambda node: (node.value, node.body),
    Member: lambda node: (node.operand, node.equal),
    Field: lambda node: (node.variable,),
}


def operands(node: Expression) -> tuple[Expression, ...]:
    """The expressions directly below; of a query inside nothing."""
    found = _OPERANDS.get(type(node))
    return () if found is None else found(node)


def below(node: Expression) -> Iterator[Expression]:
    """All expressions below, the node included, queries inside left out."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(operands(found))


def is_constant(node: Expression) -> bool:
    """Whether it is made of constants alone."""
    return all(isinstance(part, (Constant, Apply, Choose, Coalesce, Logic)) for part in below(node))


def converts_parameter(node: Expression) -> bool:
    """Whether a parameter is converted to the type that it is used as: done, and failed, before any row is looked at."""
    return (
        isinstance(node, Apply)
        and node.primitive.partial
        and "conversion" in node.primitive.errors
        and isinstance(node.arguments[0], Variable)
        and all(isinstance(argument, Constant) for argument in node.arguments[1:])
    )


def query_of(node: Expression) -> Query | None:
    return node.query if isinstance(node, (Exists, Member, Scalar)) else None
