"""A short notation for histories, for tests, documentation and the corpus.

>>> h = parse("s1: [r(x,0) w(x,1)] [r(x,1)] | s2: [r(x,0) w(x,2)]!abort")
>>> render(h)
's1: [r(x,0) w(x,1)] [r(x,1)] | s2: [r(x,0) w(x,2)]!abort'

Sessions are separated by ``|`` or line ends, ``#`` starts a comment. A transaction may carry, in this order,
a name before its bracket (``t1=[...]``; else it gets its position in the file, counted over the sessions as written), and
``!abort`` or ``!unknown`` and ``@start..end`` after it. The line ``initial: x=0 y=0`` gives initial values, and
``versions: x=[0,1,5]`` a version chain. Operations:

========================  ======================================================
``r(x,1)``                read x, got 1; ``r(x,_)`` got nothing (absent)
``w(x,1)``                write; ``w(x,_)`` deletes
``a(x,1)``, ``r(x,[1])``  append to a list, read a list
``cas(x,1,2)``            compare-and-set, applied; ``cas(x,_,2)`` inserts
``cas(x,1,2)!``           failed; ``cas(x,1,2)!3`` failed and was shown 3
========================  ======================================================

A session called ``initial`` or ``versions`` is put in quotes. Keys and values are integers, decimals, bare words,
``true``, ``false``, ``_`` (null) or JSON strings. Scans and SQL statements are written as their JSON objects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, assert_never

from isolde.errors import MalformedNotation
from isolde.history.json_text import DECODER, json_text
from isolde.history.model import (
    Append,
    CompareAndSet,
    History,
    Key,
    Operation,
    Read,
    Scalar,
    Scan,
    Sql,
    Status,
    Transaction,
    Value,
    VersionChain,
    Write,
)

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_INTEGER = re.compile(r"-?\d+")
_RESERVED = frozenset({"true", "false", "null"})
_STATUS_MARKS = {Status.ABORTED: "!abort", Status.UNKNOWN: "!unknown"}
_KEYWORDS = frozenset({"initial", "versions"})
_DIGITS_MAX = 1000
_EXPONENT_MAX = 9_999
_INT_DIGITS = 18
_TIME_DIGITS_MAX = 20


@dataclass(frozen=True, slots=True)
class Located:
    """A history and the lines of the text that it was read from."""

    history: History
    initial: int
    versions: tuple[int, ...]
    transactions: tuple[int, ...]

    def line_of(self, line: int) -> int:
        """The line of the text that stands on this line of the history's JSON Lines: header, versions, transactions."""
        lines = (self.initial, *self.versions, *self.transactions)
        return lines[line - 1] if 0 < line <= len(lines) else line


def parse(text: str) -> History:
    """The history that ``text`` denotes; :class:`MalformedNotation` says where it does not denote one."""
    return parse_with_lines(text).history


def parse_with_lines(text: str) -> Located:
    """The history that ``text`` denotes, and where each part of it stands."""
    return _Reader(text).located()


def render(history: History, *, separator: str = " | ") -> str:
    """The notation of ``history``; with ``separator="\\n"`` one session a line.

    Reading it back gives the same history if the transactions of the file were grouped by session and carry no
    fields that the notation cannot say (``serial``, ``snapshot``, ``meta`` and unknown fields).
    """
    parts = []
    if history.initial:
        parts.append("initial: " + " ".join(f"{render_value(k)}={render_value(v)}" for k, v in history.initial.items()))
    parts += [f"versions: {render_value(c.key)}={render_value(c.values)}" for c in history.versions]
    sessions: dict[Key, list[Transaction]] = {}
    for transaction in history.transactions:
        sessions.setdefault(transaction.session, []).append(transaction)
    position = 0
    for session, members in sessions.items():
        texts = []
        for transaction in members:
            texts.append(_render_transaction(transaction, position))
            position += 1
        name = json_text(session) if session in _KEYWORDS else render_value(session)
        parts.append(" ".join([f"{name}:", *texts]))
    return separator.join(parts)


def _render_transaction(transaction: Transaction, position: int) -> str:
    name = "" if transaction.id == position else f"{render_value(transaction.id)}="
    ops = " ".join(render_operation(op) for op in transaction.ops)
    mark = _STATUS_MARKS.get(transaction.status, "")
    time = ""
    if transaction.start is not None or transaction.end is not None:
        start = "" if transaction.start is None else transaction.start
        end = "" if transaction.end is None else transaction.end
        time = f"@{start}..{end}"
    return f"{name}[{ops}]{mark}{time}"


def render_operation(op: Operation) -> str:
    """One operation: ``r(x,1)``."""
    match op:
        case Read(key, value):
            return f"r({render_value(key)},{render_value(value)})"
        case Write(key, value):
            return f"w({render_value(key)},{render_value(value)})"
        case Append(key, element):
            return f"a({render_value(key)},{render_value(element)})"
        case CompareAndSet(key, expected, new, applied, current):
            text = f"cas({render_value(key)},{render_value(expected)},{render_value(new)})"
            if applied:
                return text
            return text + "!" + "".join(render_value(value) for value in current)
        case Scan(content) | Sql(content):
            return json_text(content)
        case _:
            assert_never(op)


def render_value(value: Value) -> str:
    """One value: ``1``, ``word``, ``"a string"``, ``_`` for null, ``[1,2]`` for a list."""
    match value:
        case None:
            return "_"
        case bool():
            return "true" if value else "false"
        case tuple():
            return "[" + ",".join(render_value(element) for element in value) + "]"
        case str():
            return value if _WORD.fullmatch(value) and value not in _RESERVED else json_text(value)
        case int() | Decimal():
            return str(value)
        case _:
            assert_never(value)


class _Reader:
    """A cursor over the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._counted = (0, 1)
        self._lines: list[int] = []

    def located(self) -> Located:
        initial: dict[Key, Value] = {}
        versions: list[VersionChain] = []
        transactions: list[Transaction] = []
        initial_line, version_lines = 1, list[int]()
        while True:
            self.skip(separators=True)
            if self.at == len(self.text):
                break
            quoted = self.text.startswith('"', self.at)
            name = self.name("a session's name, such as s1")
            self.expect(":")
            if name == "initial" and not quoted:
                initial_line = self.line()
                initial.update(self.assignments())
            elif name == "versions" and not quoted:
                line = self.line()
                chains = [VersionChain(key, _chain(self, value)) for key, value in self.assignments()]
                versions += chains
                version_lines += [line] * len(chains)
            else:
                self.session(name, transactions)
        seen: set[object] = set()
        for transaction in transactions:
            if transaction.id in seen:
                raise self.error(f"two transactions are called {transaction.id!r}", "a name for each")
            seen.add(transaction.id)
        history = History(tuple(transactions), initial=initial, versions=tuple(versions))
        return Located(history, initial_line, tuple(version_lines), tuple(self._lines))

    def line(self) -> int:
        """The line that the cursor stands on; asked only further on than before."""
        at, line = self._counted
        self._counted = (self.at, line + self.text.count("\n", at, self.at))
        return self._counted[1]

    def assignments(self) -> list[tuple[Key, Value]]:
        values: list[tuple[Key, Value]] = []
        while not self.at_separator():
            key = self.name("a key")
            self.expect("=")
            values.append((key, self.value()))
        return values

    def session(self, session: Key, transactions: list[Transaction]) -> None:
        while not self.at_separator():
            name: Key = len(transactions)
            self._lines.append(self.line())
            if not self.text.startswith("[", self.at):
                name = self.name("a transaction such as [r(x,0) w(x,1)]")
                self.expect("=")
            self.expect("[")
            ops = []
            while not self.take("]"):
                ops.append(self.operation())
            status = Status.COMMITTED
            for marked, mark in _STATUS_MARKS.items():
                if self.take(mark):
                    status = marked
            start, end = self.times()
            transactions.append(Transaction(name, session, tuple(ops), status, start, end))

    def times(self) -> tuple[int | None, int | None]:
        if not self.take("@"):
            return None, None
        start = self.match(_INTEGER)
        self.expect("..")
        end = self.match(_INTEGER)
        if max(len(start or ""), len(end or "")) > _TIME_DIGITS_MAX:
            raise self.error("a time of more than 20 digits", "times within 64 bits")
        return (int(start) if start else None), (int(end) if end else None)

    def operation(self) -> Operation:
        self.skip()
        if self.text.startswith("{", self.at):
            content = self.json()
            return Sql(content) if "sql" in content else Scan(content)
        kind = self.match(_WORD)
        if kind not in ("r", "w", "a", "cas"):
            raise self.error("no operation", "r(key,value), w(key,value), a(key,element) or cas(key,expected,new)")
        self.expect("(")
        key = self.name("a key")
        self.expect(",")
        first = self.value()
        op: Operation
        match kind:
            case "r":
                op = Read(key, first)
            case "w":
                op = Write(key, _scalar(self, first))
            case "a":
                op = Append(key, _scalar(self, first))
            case _:
                self.expect(",")
                return self.compare_and_set(key, _scalar(self, first), _scalar(self, self.value()))
        self.expect(")")
        return op

    def compare_and_set(self, key: Key, expected: Scalar, new: Scalar) -> CompareAndSet:
        self.expect(")")
        if not self.text.startswith("!", self.at):
            return CompareAndSet(key, expected, new, applied=True)
        self.at += 1
        if self.at < len(self.text) and self.text[self.at] not in " ]\n\t":
            return CompareAndSet(key, expected, new, applied=False, current=(_scalar(self, self.value()),))
        return CompareAndSet(key, expected, new, applied=False)

    def name(self, expected: str) -> Key:
        value = self.value(expected)
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise self.error(f"{render_value(value)} is no name", expected)
        return value

    def value(self, expected: str = "a value") -> Value:
        self.skip()
        if self.take("["):
            elements: list[Scalar] = []
            while not self.take("]"):
                if elements:
                    self.expect(",")
                    self.skip()
                if self.text.startswith("[", self.at):
                    raise self.error("a list in a list", "a single value")
                elements.append(_scalar(self, self.value()))
            return tuple(elements)
        if self.text.startswith('"', self.at):
            text = self.json()
            if not isinstance(text, str):
                raise self.error("no string", expected)
            return text
        if number := self.match(_NUMBER):
            if len(number) > _DIGITS_MAX:
                raise self.error("a number of more than 1,000 digits", "a shorter one")
            if _INTEGER.fullmatch(number):
                return int(number)
            return self.decimal(number)
        if self.take("_"):
            return None
        word = self.match(_WORD)
        if not word:
            raise self.error(None, expected)
        return {"true": True, "false": False, "null": None}.get(word, word)

    def decimal(self, text: str) -> int | Decimal:
        try:
            value = Decimal(text)
        except InvalidOperation:
            raise self.error("a number out of range", "an exponent within 9,999") from None
        if value and abs(value.adjusted()) > _EXPONENT_MAX:
            raise self.error("a number out of range", "an exponent within 9,999")
        return int(value) if value.adjusted() < _INT_DIGITS and value == value.to_integral_value() else value

    def json(self) -> Any:
        try:
            content, self.at = DECODER.raw_decode(self.text, self.at)
            json_text(content).encode()
        except (ValueError, RecursionError) as error:
            raise self.error("not JSON", "a JSON string or object") from error
        return content

    def at_separator(self) -> bool:
        self.skip()
        return self.at == len(self.text) or self.text[self.at] in "|\n"

    def skip(self, *, separators: bool = False) -> None:
        blank = " \t\r" + ("|\n" if separators else "")
        while self.at < len(self.text):
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text[self.at] in blank:
                self.at += 1
            else:
                return

    def match(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found.group()

    def take(self, token: str) -> bool:
        self.skip()
        if not self.text.startswith(token, self.at):
            return False
        self.at += len(token)
        return True

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise self.error(None, repr(token))

    def error(self, found: str | None, expected: str) -> MalformedNotation:
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - (self.text.rfind("\n", 0, self.at) + 1) + 1
        if found is None:
            rest = self.text[self.at : self.at + 20].split("\n")[0]
            found = f"{rest!r}" if rest else "the end of the line"
        return MalformedNotation(line=line, column=column, found=found, expected=expected)


def _scalar(reader: _Reader, value: Value) -> Scalar:
    if isinstance(value, tuple):
        raise reader.error(f"the list {render_value(value)}", "a single value")
    return value


def _chain(reader: _Reader, value: Value) -> tuple[Scalar, ...]:
    if not isinstance(value, tuple):
        raise reader.error(render_value(value), "a list of versions such as [0,1,5]")
    return value
