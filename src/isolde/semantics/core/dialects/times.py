"""Dates, times, and times with a zone: what one of them is as another. The zone of every session is UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime

from isolde.semantics.core.dialects.base import Rules, typed
from isolde.semantics.core.nodes import Constant, Expression
from isolde.semantics.core.primitives import primitive
from isolde.semantics.core.types import Sort, ValueType


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)


def _in_utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC)


def _clock(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)


_CONVERTED = {
    (Sort.DATE, Sort.TIMESTAMP): primitive("date to time", _midnight),
    (Sort.DATE, Sort.ZONED): primitive("date to time with zone", lambda day: _in_utc(_midnight(day))),
    (Sort.TIMESTAMP, Sort.DATE): primitive("time to date", datetime.date),
    (Sort.TIMESTAMP, Sort.ZONED): primitive("time to time with zone", _in_utc),
    (Sort.ZONED, Sort.DATE): primitive("time with zone to date", lambda moment: _clock(moment).date()),
    (Sort.ZONED, Sort.TIMESTAMP): primitive("time with zone to time", _clock),
}


def as_time(rules: Rules, node: Expression, type_: ValueType) -> Expression:
    """A date or time as another kind of them; a constant stays one, so that rows are found by it."""
    if node.type.sort is type_.sort:
        return typed(node, type_)
    convert = _CONVERTED[node.type.sort, type_.sort]
    if isinstance(node, Constant) and node.value is not None:
        return Constant(convert.function(node.value), type_)
    return rules.apply(convert, (node,), type_)
