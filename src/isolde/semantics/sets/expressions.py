"""Expressions of the core as terms. SQL's three truth values are a term and its nullness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from isolde.semantics.core.nodes import (
    Aggregated,
    Apply,
    Bind,
    Bound,
    Choose,
    Clock,
    Coalesce,
    Column,
    Constant,
    Exists,
    Expression,
    Fail,
    Field,
    Logic,
    Member,
    NextId,
    Scalar,
    Variable,
)
from isolde.semantics.core.types import Sort, ValueType
from isolde.semantics.sets.state import Book
from isolde.semantics.sets.values import (
    NULL,
    RowsValue,
    RowValue,
    Symbol,
    Value,
    constant_value,
    may_be_of_length,
    merged,
    outside,
    same,
    sort_of,
)
from isolde.smt import terms as smt
from isolde.smt.terms import Term


@dataclass(slots=True)
class Environment:
    """The rows, variables and values that an expression may name."""

    rows: dict[int, tuple[Value, ...]] = field(default_factory=dict)
    variables: dict[int, Symbol] = field(default_factory=dict)
    bound: dict[int, Value] = field(default_factory=dict)
    aggregates: Sequence[Value] = ()

    def copy(self) -> Environment:
        return Environment(dict(self.rows), dict(self.variables), dict(self.bound), self.aggregates)


_ARITHMETIC: dict[str, Callable[..., Term]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "negate": lambda value: -value,
}
_ORDER: dict[str, Callable[..., Term]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
TEXT_COMPARED = "mysql text compared"
"""The primitive that gives what a collation compares."""
_EQUAL, _DIFFERENT = frozenset({"=", "=="}), frozenset({"distinct", "!=", "<>"})
_UNCHANGED = (
    " to int32",
    " to int64",
    " to int16",
    "integer to decimal",
    "mysql stored integer",
    "mysql decimal as it is shown",
    "postgresql limit",
    "integer of 8 bits",
    "integer of 16 bits",
    "integer of 24 bits",
    "integer of 32 bits",
    "integer of 64 bits",
    "mysql stored varchar(n)",
    TEXT_COMPARED,
)
"""Conversions that keep a whole number, or a text, or fail; a transaction that fails commits nothing. Texts that are compared
without regard to case and the like are one number.
"""
_FITTED = "postgresql varchar(n), stored"
_TEXTS = frozenset({Sort.TEXT, Sort.UNKNOWN, Sort.ANY})
_UNORDERED = frozenset({Sort.TEXT, Sort.UNKNOWN, Sort.FLOAT, Sort.ANY})

Asked = Callable[[Exists | Member | Scalar, Environment], Value]


class Reader:
    """Reads expressions. ``asked`` answers queries inside of them; without it they are outside."""

    def __init__(self, book: Book, asked: Asked | None = None) -> None:
        self.book, self.asked = book, asked
        self._unless: list[Term] = []

    def holds(self, conditions: Sequence[Expression], env: Environment) -> Term:
        return smt.every(self.value(condition, env).true for condition in conditions)

    def value(self, node: Expression, env: Environment) -> Value:
        match node:
            case Constant(value):
                return constant_value(value, self.book.names.folds_texts)
            case Column(source, place):
                return env.rows[source][place]
            case Variable():
                return self._scalar(env.variables.get(node.slot, NULL))
            case Field(variable, place):
                row = env.variables.get(variable.slot, NULL)
                return row.values[place].unless(row.found) if isinstance(row, RowValue) else NULL
            case Bind():
                env.bound[node.slot] = self.value(node.value, env)
                return self.value(node.body, env)
            case Bound(slot):
                return env.bound[slot]
            case Aggregated(place):
                return env.aggregates[place]
            case Apply():
                return self._apply(node, env)
            case Logic():
                return self._logic(node, env)
            case Choose():
                return self._choose(node, env)
            case Coalesce(arguments):
                return self._coalesce(arguments, env)
            case Exists() | Member() | Scalar():
                if self.asked is None:
                    raise outside("a query inside of an expression")
                return self.asked(node, env)
            case Clock() | NextId():
                return Value(self.book.fresh("moment"))
            case Fail():
                self.require(smt.FALSE)
                return NULL

    def require(self, term: Term) -> None:
        """What must hold, or the transaction ends in an error and commits nothing."""
        self.book.fact(smt.either(*self._unless, term))

    def unknown(self, kind: ValueType, *, nonnull: bool = False) -> Value:
        null = smt.FALSE if nonnull else self.book.fresh("null", "boolean")
        return Value(self.book.fresh("value", sort_of(kind)), null)

    @staticmethod
    def _scalar(symbol: Symbol) -> Value:
        if isinstance(symbol, RowValue):
            return Value(None, smt.no(symbol.found))
        if isinstance(symbol, RowsValue):
            return Value(None)
        return symbol

    def _choose(self, node: Choose, env: Environment) -> Value:
        before = len(self._unless)
        found: list[tuple[Term, Value]] = []
        for condition, result in node.cases:
            chosen = self.value(condition, env).true
            self._unless.append(smt.no(chosen))
            found.append((chosen, self.value(result, env)))
            self._unless[-1] = chosen
        value = self.value(node.otherwise, env)
        del self._unless[before:]
        for chosen, given in reversed(found):
            value = merged(chosen, given, value)
        return value

    def _coalesce(self, arguments: Sequence[Expression], env: Environment) -> Value:
        found = self.value(arguments[0], env)
        for argument in arguments[1:]:
            if isinstance(argument, Fail):
                self.require(smt.no(found.null))
                return Value(found.term)
            self._unless.append(smt.no(found.null))
            found = merged(found.null, self.value(argument, env), found)
            self._unless.pop()
        return found

    def _logic(self, node: Logic, env: Environment) -> Value:
        left = self.value(node.left, env)
        decided = smt.both(smt.no(left.null), left.known if node.decides else smt.no(left.known))
        self._unless.append(decided)
        right = self.value(node.right, env)
        self._unless.pop()
        join = smt.either if node.decides else smt.both
        true = join(left.true, right.true)
        other = smt.both(smt.no(right.null), right.known if node.decides else smt.no(right.known))
        null = smt.both(smt.either(left.null, right.null), smt.no(decided), smt.no(other))
        return Value(true, null)

    def _apply(self, node: Apply, env: Environment) -> Value:
        name, operation = node.primitive.name, node.primitive.smt
        values = [self.value(argument, env) for argument in node.arguments]
        match name:
            case "is null":
                return Value(values[0].null)
            case "is not null":
                return Value(smt.no(values[0].null))
            case "is true" | "is not true" | "is false" | "is not false":
                wanted = values[0].known if name.endswith("true") else smt.no(values[0].known)
                held = smt.both(smt.no(values[0].null), wanted)
                return Value(smt.no(held) if "not" in name else held)
            case "is not distinct from":
                alike = same(*values)
                return Value(self._exactly(alike) if self._compared_exactly(node) else alike)
        if name.startswith("python "):
            operation = name.removeprefix("python ")
            for value in values:
                self.require(smt.no(value.null))
        elif not node.primitive.strict:
            return self.unknown(node.type)
        null = smt.some(value.null for value in values)
        term = self._term(name, operation, node, values)
        if term is not None and operation in _EQUAL | _DIFFERENT and self._compared_exactly(node):
            different = operation in _DIFFERENT
            exact = self._exactly(smt.no(term) if different else term)
            term = smt.no(exact) if different else exact
        if term is None:
            found = self.unknown(node.type, nonnull=node.nonnull)
            return Value(found.term, smt.either(null, found.null))
        return Value(term, null)

    def _compared_exactly(self, node: Apply) -> bool:
        """Whether texts are compared as they are (in Python), where what stands for them is what the database takes for equal."""
        if not self.book.names.folds_texts or not any(one.type.sort in _TEXTS for one in node.arguments):
            return False
        return not any(isinstance(one, Apply) and one.primitive.name == TEXT_COMPARED for one in node.arguments)

    def _exactly(self, alike: Term) -> Term:
        """That two texts are the same, of which only ``alike`` is known: then the database takes them for equal."""
        found = self.book.fresh("same text", "boolean")
        self.book.fact(smt.implies(found, alike))
        return found

    def _term(self, name: str, operation: str, node: Apply, values: Sequence[Value]) -> Term:
        kinds = {argument.type.sort for argument in node.arguments}
        if Sort.FLOAT in kinds and (len(kinds) > 1 or operation in _ARITHMETIC):
            # Floats are rounded.
            return None
        if operation in _ARITHMETIC and all(value.term is not None for value in values):
            return _ARITHMETIC[operation](*(value.term for value in values))
        if operation in _ORDER and not any(argument.type.sort in _UNORDERED for argument in node.arguments):
            return _ORDER[operation](*(value.known for value in values))
        match operation:
            case "=" | "==":
                return smt.equal(values[0].known, values[1].known)
            case "distinct" | "!=" | "<>":
                return smt.no(smt.equal(values[0].known, values[1].known))
            case "not":
                return smt.no(values[0].known)
            case "xor":
                return smt.no(smt.equal(values[0].known, values[1].known))
        if name.endswith(_UNCHANGED) and values[0].term is not None and _same_sort(node):
            whole = smt.is_integer(values[0].term) or node.type.sort is Sort.BOOLEAN
            return values[0].term if whole else None
        if name == _FITTED:
            return self._fitted(values[0].known, node)
        return None

    def _fitted(self, text: Term, node: Apply) -> Term:
        """A text as a column of PostgreSQL stores it: what is too long and ends in spaces is cut to the column's length."""
        given, length = node.arguments[:2]
        if not isinstance(length, Constant):
            return None
        if isinstance(given, Constant) and len(given.value) <= length.value:
            return text
        cut = self.book.fresh("cut")
        self.book.fact(may_be_of_length(cut, length.value))
        return smt.choose(self.book.fresh("fits", "boolean"), text, cut)


def _same_sort(node: Apply) -> bool:
    numbers = {Sort.INTEGER, Sort.DECIMAL}
    given, made = node.arguments[0].type.sort, node.type.sort
    return given is made or {given, made} <= numbers


def evaluated(book: Book, nodes: Sequence[Expression], env: Environment, asked: Asked | None = None) -> list[Value]:
    reader = Reader(book, asked)
    return [reader.value(node, env) for node in nodes]


__all__ = ["Asked", "Environment", "Reader", "evaluated"]
