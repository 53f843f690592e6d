"""Literals taken out of a statement's text, so that statements which differ in nothing else have one shape.

``UPDATE t SET a = 5 WHERE id = 7`` is ``UPDATE t SET a = :isolde_1 WHERE id = :isolde_2`` with the values 5 and 7: of a log of
many such statements one is read and compiled. Rows of VALUES that look alike are one row, given many times. Only what stands as
a whole value is taken out: after a comparison or an assignment, and in a row of VALUES. Where a text holds anything else that
this scan does not know for sure (a comment, an escape, a GROUP BY that may repeat a literal), it stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from decimal import Decimal

from isolde.tx.dialects import Dialect

Value = int | Decimal | str


@dataclass(frozen=True, slots=True)
class Shape:
    """A text without its literals, and their values by the names of the parameters that stand for them.

    ``templates``: the parameters of each row of VALUES in the text; ``rows``: which template each row of the statement has, and
    its values. Both are empty where the statement has at most one row.
    """

    text: str
    values: dict[str, Value]
    templates: tuple[tuple[str, ...], ...] = ()
    rows: tuple[tuple[int, tuple[Value, ...]], ...] = ()

    def examples(self) -> list[Value]:
        """The values of the first row of each template, one after the other."""
        first: dict[int, tuple[Value, ...]] = {}
        for place, values in self.rows:
            first.setdefault(place, values)
        return [value for place in range(len(self.templates)) for value in first[place]]


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>'(?:[^'\\]|'')*')
    | (?P<number>\d+(?:\.\d+)?)(?![\w.])
    | (?P<word>[^\W\d][\w$]*)
    | (?P<quoted>"(?:[^"]|"")*"|`[^`]*`)
    | (?P<symbol><=>|<=|>=|<>|!=|==|--|/\*|\|\||::|:[^\W\d]\w*|[-+*/%(),.;=<>?])
    )""",
    re.VERBOSE,
)
_UNKNOWN = frozenset({"--", "/*", "::", "?"})
_REPEATING = frozenset({"GROUP", "DISTINCT", "CASE", "UNION", "WITH", "OVER", "INTERVAL", "DATE", "TIMESTAMP", "TIME"})
_BEFORE = frozenset({"=", "<>", "!=", "<", ">", "<=", ">="})
_AFTER = frozenset({",", ")", ";", ""})
_AFTER_WORDS = frozenset({"AND", "OR", "WHERE", "ORDER", "LIMIT", "RETURNING", "ON", "FOR"})

Token = tuple[str, str, int, int]
"""Kind, text, start and end."""


def shape(text: str, dialect: Dialect, kind: Callable[[Value], Hashable]) -> Shape | None:
    """The shape of a statement, or ``None`` if the text should be read as it is. ``kind``: the type of a literal's value."""
    tokens = _tokens(text, dialect)
    if not tokens:
        return None
    return _Taking(text, tokens, dialect, kind).shape()


def _tokens(text: str, dialect: Dialect) -> list[Token] | None:
    found: list[Token] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            return None
        kind, token = match.lastgroup, match[match.lastgroup]
        start = match.start(kind)
        if kind == "symbol" and token in _UNKNOWN:
            return None
        if kind == "quoted" and token[0] == '"' and dialect is Dialect.MYSQL:
            return None
        if kind == "string" and found and found[-1][0] in ("word", "string") and found[-1][3] == start:
            return None
        if kind == "word" and token.upper() in _REPEATING:
            return None
        found.append((kind, token, start, match.end()))
        at = match.end()
    return found


class _Taking:
    def __init__(self, text: str, tokens: list[Token], dialect: Dialect, kind: Callable[[Value], Hashable]) -> None:
        self.text, self.tokens, self.dialect, self.kind = text, tokens, dialect, kind
        self.values: dict[str, Value] = {}
        queries = sum(kind == "word" and token.upper() == "SELECT" for kind, token, _, _ in tokens)
        # PostgreSQL converts a text that is written there when it reads the statement, wherever it stands.
        self.texts = dialect is not Dialect.POSTGRESQL or queries == (tokens[0][1].upper() == "SELECT")

    def shape(self) -> Shape | None:
        rows = self._first_row()
        if rows is None:
            text = self._taken(0, len(self.tokens))
            return Shape(text, self.values) if self.values else None
        start = rows
        templates: dict[tuple[str, Hashable], int] = {}
        texts: list[str] = []
        names: list[tuple[str, ...]] = []
        found: list[tuple[int, tuple[Value, ...]]] = []
        while True:
            row = self._row(start)
            if row is None:
                return None
            values, bare, end = row
            key = (bare, tuple(map(self.kind, values)))
            place = templates.setdefault(key, len(templates))
            if place == len(texts):
                own = tuple(f"isolde_{place}_{number}" for number in range(len(values)))
                texts.append(bare.format(*(f":{name}" for name in own)))
                names.append(own)
            found.append((place, values))
            if end + 1 < len(self.tokens) and self.tokens[end][1] == "," and self.tokens[end + 1][1] == "(":
                start = end + 1
                continue
            break
        before, after = self._taken(0, rows), self._taken(end, len(self.tokens))
        text = f"{before} {', '.join(texts)} {after}".rstrip()
        if len(found) == 1:
            self.values.update(zip(names[0], found[0][1], strict=True))
            return Shape(text, self.values)
        return Shape(text, self.values, tuple(names), tuple(found))

    def _first_row(self) -> int | None:
        """The token at which the first row of VALUES begins."""
        if self.tokens and self.tokens[0][1].upper() in ("INSERT", "REPLACE"):
            for place, (kind, token, _, _) in enumerate(self.tokens):
                if kind == "word" and token.upper() == "VALUES" and self._text(place + 1) == "(":
                    return place + 1
        return None

    def _row(self, start: int) -> tuple[tuple[Value, ...], str, int] | None:
        """The values of a row, its text with a hole for each, and the token after it."""
        values: list[Value] = []
        parts: list[str] = []
        depth, place, at = 0, start, self.tokens[start][2]
        while place < len(self.tokens):
            kind, token, first, last = self.tokens[place]
            depth += (token == "(") - (token == ")") if kind == "symbol" else 0
            if depth == 1 and self._text(place - 1) in ("(", ",") and self._text(place + 1) in (",", ")"):
                value = self._value(kind, token)
                if value is not None:
                    values.append(value)
                    parts += [_literally(self.text[at:first]), "{}"]
                    at = last
            place += 1
            if depth == 0:
                return tuple(values), "".join([*parts, _literally(self.text[at:last])]), place
        return None

    def _taken(self, start: int, end: int) -> str:
        """The text of these tokens; literals that are compared or assigned are parameters in it."""
        if start >= end:
            return ""
        parts: list[str] = []
        at = self.tokens[start][2]
        for place in range(start, end):
            kind, token, first, last = self.tokens[place]
            after = self._text(place + 1)
            if self._text(place - 1) in _BEFORE and (after in _AFTER or after.upper() in _AFTER_WORDS):
                value = self._value(kind, token)
                if value is not None:
                    name = f"isolde_{len(self.values) + 1}"
                    self.values[name] = value
                    parts += [self.text[at:first], f":{name}"]
                    at = last
        parts.append(self.text[at : self.tokens[end - 1][3]])
        return "".join(parts)

    def _text(self, place: int) -> str:
        return self.tokens[place][1] if 0 <= place < len(self.tokens) else ""

    def _value(self, kind: str, token: str) -> Value | None:
        if kind == "string":
            return token[1:-1].replace("''", "'") if self.texts else None
        if kind != "number":
            return None
        if "." not in token:
            return int(token)
        # MySQL stores the digits of a decimal that is written there in another way than those of one that is given.
        return None if self.dialect is Dialect.MYSQL else Decimal(token)


def _literally(text: str) -> str:
    """A text in which ``format`` finds no hole."""
    return text.replace("{", "{{").replace("}", "}}")
