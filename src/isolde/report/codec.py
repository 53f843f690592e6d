"""Reports as JSON, in both directions: ``read(write(report)) == report``.

The data classes of ``isolde.findings`` say what there is; this file says only how data is spelled:

- a data class is an object of its fields; those that have their default value are left out;
- a member of a union of data classes names itself: ``{"is": "Anomaly", …}``;
- transactions and histories are spelled as in the history format, and are read with the same care;
- what no report can be made of is refused, with the place where it stands.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from decimal import Decimal
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, ForwardRef, Literal, Union, get_args, get_origin, get_type_hints

from isolde._core import Columns
from isolde.errors import InputError, MalformedHistory
from isolde.findings import Datum, Evidence, Fact, Question, Report, Subject, Under
from isolde.findings.model import Case
from isolde.formats.jsonl import history_lines, history_of, transaction_line
from isolde.history import History, Transaction
from isolde.history.json_text import DECODER, json_text

FORMAT, VERSION = "report", 1
_TAG = "is"
_NAMED = frozenset(
    member
    for union in (Question, Evidence, Fact, Subject, Under, get_type_hints(Case)["outcome"])
    for member in get_args(union)
    if dataclasses.is_dataclass(member)
)


def write(report: Report) -> str:
    """The report as one JSON document on one line."""
    return json_text({"isolde": FORMAT, "version": VERSION, **_spelled(report)})


def read(text: str, name: str = "report") -> Report:
    """The report that :func:`write` wrote; ``name`` is what errors call it."""
    try:
        content = DECODER.decode(text)
    except ValueError as error:
        raise InputError(f"{name}: no JSON: {error}") from None
    if not isinstance(content, dict) or content.get("isolde") != FORMAT:
        if isinstance(content, dict) and "results" in content:
            raise InputError(
                f"{name}: no report, but what --json prints, which leaves out transactions; use --report FILE"
            )
        raise InputError(f'{name}: no report; expected an object that begins with {{"isolde": "{FORMAT}"')
    if content.get("version") != VERSION:
        raise InputError(f"{name}: version {content.get('version')} of reports; this Isolde reads version {VERSION}")
    try:
        report: Report = _object(content, Report, name)
    except _Unlike as error:
        raise InputError(f"{error.place}: {error.wrong}") from None
    return report


class _Unlike(Exception):
    """Something is not what it should be."""

    def __init__(self, place: str, wrong: str) -> None:
        super().__init__(place, wrong)
        self.place, self.wrong = place, wrong


def _spelled(value: Any) -> Any:
    match value:
        case Transaction():
            return transaction_line(value)
        case History():
            return history_lines(value)
        case Enum():
            return value.value
        case tuple():
            return [_spelled(part) for part in value]
        case _ if dataclasses.is_dataclass(value):
            content = {_TAG: type(value).__name__} if type(value) in _NAMED else {}
            for field in dataclasses.fields(value):
                part = getattr(value, field.name)
                if (
                    field.default is dataclasses.MISSING
                    or part != field.default
                    or type(part) is not type(field.default)
                ):
                    content[field.name] = _spelled(part)
            return content
        case _:
            return value


def _parsed(raw: Any, hint: Any, place: str) -> Any:
    """The value of a type that ``raw`` spells."""
    if isinstance(hint, ForwardRef):
        # The one type that is made of itself; Python leaves its name standing.
        hint = Datum
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is History:
        return _history(raw, place)
    if origin in (Union, UnionType):
        return _one_of(raw, arguments, place)
    if origin is Literal:
        return _expected(raw in arguments, raw, raw, f"one of {', '.join(map(repr, arguments))}", place)
    if origin is tuple:
        return _tuple(raw, arguments, place)
    if isinstance(hint, type) and issubclass(hint, Enum):
        values = {member.value: member for member in hint}
        known = isinstance(raw, str) and raw in values
        return _expected(known, raw, values.get(raw) if known else None, f"one of {', '.join(values)}", place)
    if dataclasses.is_dataclass(hint):
        return _object(raw, hint, place)
    if hint is float:
        is_number = type(raw) in (int, Decimal) and math.isfinite(raw)
        return _expected(is_number, raw, float(raw) if is_number else None, "a number", place)
    return _expected(type(raw) is hint, raw, raw, _WORDS.get(hint, str(hint)), place)


_WORDS = {
    int: "an integer",
    str: "a text",
    bool: "true or false",
    NoneType: "null",
    Decimal: "a number",
}


def _expected(fits: bool, raw: Any, value: Any, what: str, place: str) -> Any:
    if not fits:
        raise _Unlike(place, f"{json_text(raw)[:60]} stands where {what} is expected")
    return value


def _one_of(raw: Any, members: Sequence[Any], place: str) -> Any:
    """A member of a union: a data class that names itself, or whichever its JSON fits."""
    if isinstance(raw, dict):
        by_name = {m.__name__: m for m in members if isinstance(m, type) and dataclasses.is_dataclass(m)}
        if len(by_name) == 1 and _TAG not in raw:
            (member,) = by_name.values()
            return _object(raw, member, place)
        name = str(raw.get(_TAG))
        known = name in by_name
        member = _expected(known, name, by_name[str(name)] if known else None, f"one of {', '.join(by_name)}", place)
        return _object(raw, member, place)
    for member in members:
        if isinstance(raw, list) and get_origin(member) is tuple:
            return _tuple(raw, get_args(member), place)
        if isinstance(raw, list) and member is History:
            return _history(raw, place)
        if type(raw) is member or (raw is None and member in (None, NoneType)):
            return raw
    if float in members and type(raw) in (int, Decimal):
        return _parsed(raw, float, place)
    words = (_WORDS.get(member) or getattr(member, "__name__", str(member)) for member in members)
    return _expected(False, raw, None, " or ".join(words), place)


def _tuple(raw: Any, parts: Sequence[Any], place: str) -> tuple[Any, ...]:
    _expected(isinstance(raw, list), raw, None, "a list", place)
    if parts == (Transaction, ...):
        return _transactions(raw, place)
    if len(parts) == 2 and parts[1] is Ellipsis:
        return tuple(_parsed(part, parts[0], f"{place}[{number}]") for number, part in enumerate(raw))
    _expected(len(raw) == len(parts), raw, None, f"a list of {len(parts)}", place)
    return tuple(
        _parsed(part, hint, f"{place}[{number}]") for number, (part, hint) in enumerate(zip(raw, parts, strict=True))
    )


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _object(raw: Any, kind: Any, place: str) -> Any:
    """A data class by its fields; what it does not know is left aside."""
    _expected(isinstance(raw, dict), raw, None, "an object", place)
    hints, content = _hints(kind), {}
    for field in dataclasses.fields(kind):
        if field.name in raw:
            content[field.name] = _parsed(raw[field.name], hints[field.name], f"{place}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise _Unlike(place, f'"{field.name}" is missing')
    return kind(**content)


def _transactions(raw: list[Any], place: str) -> tuple[Transaction, ...]:
    return _well_formed([{"isolde": "history", "version": 1}, *raw], place).transactions


def _history(raw: Any, place: str) -> History:
    _expected(isinstance(raw, list), raw, None, "the lines of a history", place)
    return _well_formed(raw, place)


def _well_formed(lines: list[Any], place: str) -> History:
    """The core reads the lines, too, and says what is wrong with them."""
    text = "\n".join(map(json_text, lines)).encode()
    try:
        Columns.from_jsonl(text, place)
    except MalformedHistory as error:
        raise _Unlike(place, str(error).removeprefix(f"{place}:")) from None
    try:
        return history_of(lines)
    except KeyError as error:
        raise _Unlike(place, f"a transaction has no {error}") from None
