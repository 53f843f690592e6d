"""Text and its tokens: what the procedural layer is read from, and what a statement is prepared from.

The scanner knows where strings, quoted names, comments and parameters begin and end in each dialect; grammar is not its matter.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from isolde.errors import MalformedProgram, OutsideFragment
from isolde.tx.dialects import Dialect
from isolde.tx.place import Place


@dataclass(frozen=True)
class Text:
    """A piece of a named source; ``offset`` is where it begins in ``whole``.

    ``lead`` is how many of its characters nobody wrote: they are there to be parsed, and have no place. ``strict``: what the
    dialect's database does not read is no SQL here either; else the text is taken for one that some server has accepted.
    """

    whole: str
    source: str = "sql"
    offset: int = 0
    end: int | None = None
    lead: int = 0
    strict: bool = True

    @cached_property
    def content(self) -> str:
        return self.whole[self.offset : self.end]

    @cached_property
    def _lines(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.whole))]

    def place(self, position: int) -> Place:
        """The place of an offset into ``content``."""
        at = min(self.offset + max(position - self.lead, 0), len(self.whole))
        line = bisect_right(self._lines, at)
        return Place(self.source, line, at - self._lines[line - 1] + 1)

    def slice(self, start: int, end: int) -> Text:
        piece = replace(self, offset=self.offset + start, end=self.offset + end, lead=0)
        piece.__dict__["_lines"] = self._lines
        return piece

    def surrounded(self, before: str, after: str = "") -> Text:
        """The same text between others, with places as they were."""
        whole = f"{self.whole[: self.offset]}{before}{self.content}{after}"
        piece = replace(self, whole=whole, end=None, lead=len(before))
        piece.__dict__["_lines"] = self._lines
        return piece

    def refuse(self, position: int, what: str, instead: str = "") -> OutsideFragment:
        return OutsideFragment(str(self.place(position)), what, instead)

    def malformed(self, position: int, found: str, expected: str) -> MalformedProgram:
        return MalformedProgram(str(self.place(position)), found, expected)


class Kind(StrEnum):
    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    PARAMETER = "parameter"
    DOLLAR = "dollar-quoted text"
    SYMBOL = "symbol"


@dataclass(frozen=True, slots=True)
class Token:
    """``value`` is the text without quotes: a folded name, a decoded string, the name of a parameter ("" for ``?``)."""

    kind: Kind
    text: str
    start: int
    end: int
    value: str = field(default="")

    def word(self, *words: str) -> bool:
        return self.kind is Kind.WORD and self.text.upper() in words

    def symbol(self, *symbols: str) -> bool:
        return self.kind is Kind.SYMBOL and self.text in symbols


_WORD = re.compile(r"[^\W\d][\w$]*")
_NUMBER = re.compile(r"\d+\.\d+(?:[eE][+-]?\d+)?|\d+(?:[eE][+-]?\d+)|\d+\.(?![.\w])|\.\d+(?:[eE][+-]?\d+)?|\d+")
_DOLLAR = re.compile(r"\$(?:[^\W\d]\w*)?\$")
_FORMAT = re.compile(r"%\(([^\W\d]\w*)\)s\b|%s\b")
_SYMBOLS = re.compile(r"<=>|\.\.|::|:=|<<|>>|<=|>=|<>|!=|==|\|\||&&|->>|->|[^\s]")
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_PLAIN_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def fold(name: str, dialect: Dialect, *, quoted: bool) -> str:
    """A name as the dialect compares it: PostgreSQL keeps quoted names, all else is compared without case."""
    return name if quoted and dialect is Dialect.POSTGRESQL else name.lower()


def tokens(text: Text, dialect: Dialect, *, indexed: bool = False) -> tuple[Token, ...]:
    """All tokens without comments. A string or comment that does not end is malformed.

    ``indexed``: ``:x[k]`` is an element of a list; SQLite alone would take it for a value called k.
    """
    return tuple(_Scanner(text, dialect, indexed).run())


class _Scanner:
    def __init__(self, text: Text, dialect: Dialect, indexed: bool) -> None:
        self.text = text
        self.content = text.content
        self.dialect = dialect
        self.indexed = indexed
        self.at = 0
        self.found: list[Token] = []

    def run(self) -> list[Token]:
        while self.at < len(self.content):
            if self.content[self.at].isspace():
                self.at += 1
            elif not self.comment():
                self.found.append(self.token())
        return self.found

    def comment(self) -> bool:
        content, at, mysql = self.content, self.at, self.dialect is Dialect.MYSQL
        # MySQL wants a space after "--": "5--2" is 7 there.
        dashes = content.startswith("--", at) and (not mysql or at + 2 >= len(content) or content[at + 2].isspace())
        if dashes or (mysql and content[at] == "#"):
            end = content.find("\n", at)
            self.at = len(content) if end < 0 else end
            return True
        if not content.startswith("/*", at):
            return False
        if mysql and content.startswith(("/*!", "/*M!"), at):
            raise self.text.refuse(at, "a comment that MySQL executes", "write its content plainly")
        depth = 0
        for match in re.finditer(r"/\*|\*/", content[at:]):
            nested = self.dialect is Dialect.POSTGRESQL or depth == 0
            depth += (1 if nested else 0) if match.group() == "/*" else -1
            if depth == 0:
                self.at = at + match.end()
                return True
        raise self.text.malformed(at, "a comment that does not end", "'*/'")

    def token(self) -> Token:
        content, at = self.content, self.at
        character = content[at]
        if character == "'" or (character == '"' and self.dialect is Dialect.MYSQL):
            return self.string(at, at, backslashes=self.dialect is Dialect.MYSQL)
        if character in "eE" and self.dialect is Dialect.POSTGRESQL and content.startswith("'", at + 1):
            return self.string(at, at + 1, backslashes=True)
        if character in '"`' or (character == "[" and self.dialect is Dialect.SQLITE and not self.index()):
            return self.quoted()
        if character in ":@$?%" and (mark := self.parameter()):
            return mark
        if match := _WORD.match(content, at):
            return self.take(Kind.WORD, match.end(), fold(match.group(), self.dialect, quoted=False))
        if match := _NUMBER.match(content, at):
            return self.take(Kind.NUMBER, match.end(), match.group())
        match = _SYMBOLS.match(content, at)
        return self.take(Kind.SYMBOL, match.end() if match else at + 1)

    def index(self) -> bool:
        """Whether a bracket here stands right behind a parameter."""
        before = self.found[-1] if self.found else None
        return self.indexed and before is not None and before.kind is Kind.PARAMETER and before.end == self.at

    def take(self, kind: Kind, end: int, value: str = "") -> Token:
        token = Token(kind, self.content[self.at : end], self.at, end, value)
        self.at = end
        return token

    def quoted(self) -> Token:
        at = self.at
        closing = {"[": "]"}.get(self.content[at], self.content[at])
        end = at + 1
        while (end := self.content.find(closing, end)) >= 0 and self.content.startswith(closing * 2, end):
            end += 2
        if end < 0:
            raise self.text.malformed(at, "a quoted name that does not end", closing)
        name = self.content[at + 1 : end].replace(closing * 2, closing)
        return self.take(Kind.QUOTED, end + 1, fold(name, self.dialect, quoted=True))

    def string(self, start: int, opening: int, *, backslashes: bool) -> Token:
        content, quote = self.content, self.content[opening]
        escapes = _ESCAPES if self.dialect is Dialect.MYSQL else _PLAIN_ESCAPES
        parts: list[str] = []
        at = opening + 1
        while at < len(content):
            if content[at] == "\\" and backslashes and at + 1 < len(content):
                if content[at + 1] in "xuU01234567" and self.dialect is Dialect.POSTGRESQL:
                    raise self.text.refuse(at, "a numeric escape in a string", "write the character itself")
                parts.append(escapes.get(content[at + 1], content[at + 1]))
                at += 2
            elif content[at] != quote:
                parts.append(content[at])
                at += 1
            elif content.startswith(quote, at + 1):
                parts.append(quote)
                at += 2
            else:
                self.at = start
                return self.take(Kind.STRING, at + 1, "".join(parts))
        raise self.text.malformed(start, "a string that does not end", quote)

    def parameter(self) -> Token | None:
        content, at = self.content, self.at
        character, word = content[at], _WORD.match(content, at + 1)
        if character == "?":
            number = re.compile(r"\d*").match(content, at + 1)
            digits = number.group() if number else ""
            return self.take(Kind.PARAMETER, at + 1 + len(digits), f"p{digits}" if digits else "")
        if character == "$":
            if self.dialect is Dialect.POSTGRESQL and (tag := _DOLLAR.match(content, at)):
                end = content.find(tag.group(), tag.end())
                if end < 0:
                    raise self.text.malformed(at, "a dollar-quoted text that does not end", tag.group())
                return self.take(Kind.DOLLAR, end + len(tag.group()), content[tag.end() : end])
            if number := re.compile(r"\d+").match(content, at + 1):
                return self.take(Kind.PARAMETER, number.end(), f"p{number.group()}")
            return self.take(Kind.PARAMETER, word.end(), word.group()) if word else None
        if character == "%":
            operand = self.found and (self.found[-1].kind is not Kind.SYMBOL or self.found[-1].text == ")")
            keyword = self.found and self.found[-1].kind is Kind.WORD and self.found[-1].text.upper() in BEFORE_OPERANDS
            match = _FORMAT.match(content, at)
            if match and (not operand or keyword):
                return self.take(Kind.PARAMETER, match.end(), match.group(1) or "")
            return None
        if character == "@":
            if self.dialect is Dialect.SQLITE and word:
                return self.take(Kind.PARAMETER, word.end(), word.group())
            return None
        if word and not content.startswith("::", at):
            return self.take(Kind.PARAMETER, word.end(), word.group())
        return None


BEFORE_OPERANDS = frozenset(
    [
        "SELECT",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "XOR",
        "IN",
        "LIKE",
        "BETWEEN",
        "THEN",
        "WHEN",
        "ELSE",
        "CASE",
        "ON",
        "SET",
        "VALUES",
        "VALUE",
        "LIMIT",
        "OFFSET",
        "BY",
        "HAVING",
        "RETURNING",
        "DISTINCT",
        "DIV",
        "MOD",
        "IS",
        "FROM",
        "IF",
        "RETURN",
        "DEFAULT",
    ]
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement as sqlglot reads it, and the way back to the text that was written.

    Parameters are renamed to ``:m0``, ``:m1`` …, because a dialect's own marks are not all known to sqlglot (``$1`` is a column
    in its SQLite) and because names may be keywords (``:from``). Strings with PostgreSQL's ``E`` are carried the same way.
    """

    text: Text
    sql: str
    marks: tuple[Token, ...]
    names: tuple[str, ...]
    strings: dict[int, Token]
    replaces: bool
    tokens: tuple[Token, ...]
    first: int
    """Where the first token stands, in the text that was written."""
    moves: tuple[tuple[int, int, int], ...]
    """``(new start, old start, length)`` of the pieces, in order."""

    def opens(self, position: int) -> bool:
        """Whether a parenthesis of grouping stands before this token, with nothing but prefixes between them."""
        index = next((i for i, token in enumerate(self.tokens) if token.start >= position), 0) - 1
        while index >= 0 and (self.tokens[index].word("NOT") or self.tokens[index].symbol("-", "~", "!", "+")):
            index -= 1
        if index < 0 or not self.tokens[index].symbol("("):
            return False
        before = self.tokens[index - 1] if index else None
        return before is None or before.kind is not Kind.WORD or before.text.upper() in BEFORE_OPERANDS

    def original(self, position: int) -> int:
        index = bisect_right(self.moves, position, key=lambda move: move[0]) - 1
        if index < 0:
            return 0
        new, old, length = self.moves[index]
        return old + min(position - new, max(length - 1, 0))


_SHARE_MODE = ("LOCK", "IN", "SHARE", "MODE")


def prepare(text: Text, dialect: Dialect) -> Prepared:
    found = tokens(text, dialect)
    content = text.content
    pieces: list[str] = []
    moves: list[tuple[int, int, int]] = []
    length = 0

    def add(piece: str, old: int, size: int) -> None:
        nonlocal length
        moves.append((length, old, size))
        pieces.append(piece)
        length += len(piece)

    marks: list[Token] = []
    names: list[str] = []
    at = 0
    positional = 0
    replaces = bool(found) and found[0].word("REPLACE") and dialect is not Dialect.POSTGRESQL
    index = 0
    while index < len(found):
        token, size = found[index], 1
        new: str | None = None
        if token.kind is Kind.PARAMETER or (token.kind is Kind.STRING and token.text[0] in "eE"):
            new = f" :m{len(marks)} "
            positional += token.kind is Kind.PARAMETER and not token.value
            marks.append(token)
            names.append(token.value or f"p{positional}")
        elif index == 0 and replaces:
            new = "INSERT"
        elif token.word("LOCK") and tuple(t.text.upper() for t in found[index : index + 4]) == _SHARE_MODE:
            new, size = "FOR SHARE", 4
        if new is not None:
            end = found[index + size - 1].end
            add(content[at : token.start], at, token.start - at)
            add(new, token.start, end - token.start)
            at = end
        index += size
    add(content[at:], at, len(content) - at)
    strings = {token.start: token for token in found if token.kind is Kind.STRING}
    return Prepared(
        text,
        "".join(pieces),
        tuple(marks),
        tuple(names),
        strings,
        replaces,
        found,
        found[0].start if found else 0,
        tuple(moves),
    )
