"""Values as a solver sees them: a term, and whether it is null.

Texts, times and floats are numbers that can only be compared for equality (times also by order): which number stands for which
text is never asked. What cannot be said in terms is a value that nothing is known of, which is sound for proofs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Protocol

from isolde.errors import OutsideFragment
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.types import TIMES, Sort, ValueType
from isolde.smt import terms as smt
from isolde.smt.terms import Term


def outside(what: str) -> OutsideFragment:
    """Something that this reading cannot carry, by name."""
    return OutsideFragment("infer", what, "")


@dataclass(frozen=True, slots=True)
class Value:
    """``term`` is ``None`` for a value of which only nullness is known."""

    term: Term
    null: Term = smt.FALSE

    @property
    def true(self) -> Term:
        """That it is true: not false, and not null."""
        return smt.both(self.known, smt.no(self.null))

    @property
    def known(self) -> Term:
        if self.term is None:
            raise outside("a column of an outer join whose row is not found by a key")
        return self.term

    def unless(self, matched: Term) -> Value:
        """Null where there is no row."""
        return Value(self.term, smt.either(self.null, smt.no(matched)))


NULL = Value(smt.number(0), smt.TRUE)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: whether it is there, and its values."""

    there: Term
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class RowValue:
    """A variable that holds a row, or none."""

    found: Term
    values: tuple[Value, ...]


class Chosen(Protocol):
    """One of the rows that a query gave, by the key of a row of ``table``; no two of them have the same."""

    @property
    def table(self) -> TableInfo: ...

    def found(self, book: Any, key: tuple[Term, ...]) -> tuple[Term, tuple[Value, ...]]:
        """That the row of this key is one of them, and what it gives."""
        ...

    @property
    def all_of_them(self) -> bool:
        """Whether every row that matches is one of them."""
        ...


@dataclass(frozen=True, slots=True)
class RowsValue:
    """A variable that holds rows of which nothing but their number is known. ``chosen``: how to look at one of them."""

    count: Term
    types: tuple[ValueType, ...]
    chosen: Chosen | None = None


Symbol = Value | RowValue | RowsValue
ORDERED = frozenset({Sort.INTEGER, Sort.DECIMAL, *TIMES})
"""What stands for values of these is in the order that the values are in."""


def merged(condition: Term, yes: Value, otherwise: Value) -> Value:
    null = smt.choose(condition, yes.null, otherwise.null)
    if smt.is_true(yes.null) or smt.is_true(otherwise.null):
        # A null has no sort of its own.
        return Value((otherwise if smt.is_true(yes.null) else yes).term, null)
    if yes.term is None or otherwise.term is None:
        return Value(None, null)
    return Value(smt.choose(condition, yes.term, otherwise.term), null)


def same(left: Value, right: Value) -> Term:
    """Equal, or both null."""
    for one, other in ((left, right), (right, left)):
        if smt.is_true(one.null):
            return other.null
    equal = smt.equal(left.known, right.known)
    return smt.either(smt.both(left.null, right.null), smt.both(smt.no(left.null), smt.no(right.null), equal))


def same_row(left: Row, right: Row) -> Term:
    """Both are absent, or both are there with the same values."""
    values = smt.every(same(one, other) for one, other in zip(left.values, right.values, strict=True))
    return smt.both(smt.equal(left.there, right.there), smt.implies(left.there, values))


def column_sort(info: TableInfo, place: int) -> smt.Sort:
    """The sort of a column's terms: decimals without digits after the point are whole numbers."""
    if info.types[place].sort is Sort.DECIMAL and info.table.columns[place].type.scale == 0:
        return "integer"
    return sort_of(info.types[place])


def sort_of(kind: ValueType) -> smt.Sort:
    """The sort of the terms of values of a type. PostgreSQL does not say of its decimals whether they are whole."""
    match kind.sort:
        case Sort.BOOLEAN:
            return "boolean"
        case Sort.DECIMAL | Sort.FLOAT:
            return "real"
        case _:
            return "integer"


def key_places(info: TableInfo) -> tuple[int, ...] | None:
    """The columns by which rows are named; ``None``: rows have numbers of their own.

    They have where there is no primary key, or where it has a number in it that may not be whole.
    """
    places = info.uniques[0] if info.table.primary_key else None
    if places is None or any(column_sort(info, place) != "integer" for place in places):
        return None
    return places


def key_size(info: TableInfo) -> int:
    places = key_places(info)
    return 1 if places is None else len(places)


_BAND = 100
"""Constants of one length are in one band of negative numbers of so many bits."""


def may_be_of_length(text: Term, length: int) -> Term:
    """What is known of a text that is so long: if it is a constant, it is one of that length; no other text is negative."""
    band = smt.number(-(length + 1 << _BAND)), smt.number(-(length + 2 << _BAND))
    return smt.either(text >= 0, smt.both(text <= band[0], text > band[1]))


_PLAIN = re.compile(r"[A-Za-z0-9_]*")


def constant_value(value: Any, folds_texts: bool = False) -> Value:
    """A constant of a statement. ``folds_texts``: texts that differ in case are equal, and perhaps others that are not plain."""
    match value:
        case None:
            return NULL
        case bool():
            return Value(smt.truth(value))
        case int():
            return Value(smt.number(value))
        case str() if folds_texts and not _PLAIN.fullmatch(value):
            # Which other texts it equals depends on the collation.
            return Value(smt.constant(f"text {value.encode().hex()}"))
        case str():
            value = value.lower() if folds_texts else value
            # Equal texts have equal numbers; that two texts never share one is as likely as SHA-256 is good.
            digest = int.from_bytes(hashlib.sha256(value.encode()).digest()[:12], "big")
            return Value(smt.number(-digest - (len(value) + 1 << _BAND)))
        case datetime():
            since = value - datetime(1970, 1, 1, tzinfo=value.tzinfo)
            return Value(smt.number(since // timedelta(microseconds=1)))
        case date():
            return Value(smt.number(value.toordinal()))
        case _:
            if value == int(value):
                return Value(smt.number(int(value)))
            return Value(smt.rational(str(value)))


def naming(value: Value) -> Term:
    """What names a row by its key, or a group: a whole number, or what stands for a text or a time."""
    if not smt.is_integer(value.known):
        raise outside("a key or a group by a number that may not be whole, or by a truth value")
    return value.known


def terms_of(values: Sequence[Value]) -> tuple[Term, ...]:
    return tuple(naming(value) for value in values)
