"""Tokens, one after the other, for the procedural layer."""

from __future__ import annotations

from typing import NoReturn

from isolde.errors import MalformedProgram, OutsideFragment
from isolde.tx.dialects import Dialect
from isolde.tx.place import Place
from isolde.tx.sql.text import Kind, Text, Token, tokens

# "again:LOOP" is a label and a word, not a parameter called LOOP.
_LABELLED = {"LOOP", "WHILE", "REPEAT", "BEGIN", "FOR"}


class Stream:
    def __init__(self, text: Text, dialect: Dialect) -> None:
        self.text = text
        self.dialect = dialect
        self.tokens: list[Token] = []
        for token in tokens(text, dialect, indexed=True):
            if token.kind is Kind.PARAMETER and token.text.startswith(":") and token.value.upper() in _LABELLED:
                word = token.value
                self.tokens.append(Token(Kind.SYMBOL, ":", token.start, token.start + 1))
                self.tokens.append(Token(Kind.WORD, word, token.start + 1, token.end, word.lower()))
            else:
                self.tokens.append(token)
        self.at = 0

    @property
    def ended(self) -> bool:
        return self.at >= len(self.tokens)

    @property
    def position(self) -> int:
        return self.tokens[self.at].start if not self.ended else len(self.text.content)

    def place(self) -> Place:
        return self.text.place(self.position)

    def peek(self, ahead: int = 0) -> Token | None:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else None

    def next(self) -> Token:
        token = self.peek()
        if token is None:
            self.fail("more")
        self.at += 1
        return token

    def sees(self, *words: str) -> bool:
        """Whether these words come next, in this order; a ``|`` separates alternatives."""
        for ahead, word in enumerate(words):
            token = self.peek(ahead)
            if token is None or not (token.word(*word.split("|")) or token.symbol(*word.split("|"))):
                return False
        return True

    def accept(self, *words: str) -> bool:
        if not self.sees(*words):
            return False
        self.at += len(words)
        return True

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            self.fail(" ".join(words))

    def name(self, expected: str = "a name") -> str:
        token = self.next()
        if token.kind not in {Kind.WORD, Kind.QUOTED}:
            self.at -= 1
            self.fail(expected)
        return token.value

    def fail(self, expected: str) -> NoReturn:
        token = self.peek()
        raise self.text.malformed(self.position, f"'{token.text}'" if token else "the end of the text", expected)

    def refuse(self, what: str, instead: str = "") -> OutsideFragment:
        return self.text.refuse(self.position, what, instead)

    def malformed(self, found: str, expected: str) -> MalformedProgram:
        return self.text.malformed(self.position, found, expected)

    def until(self, *words: str, optional: bool = False) -> Text:
        """The text up to one of these words outside of parentheses and CASE, which is not taken."""
        start, first = self.position, self.at
        depth = cases = 0
        while (token := self.peek()) is not None:
            if depth == 0 and cases == 0 and (token.word(*words) or token.symbol(*words)):
                break
            if token.symbol(";"):
                self.fail(" or ".join(words))
            depth += token.symbol("(") - token.symbol(")")
            cases += token.word("CASE")
            cases -= token.word("END") and cases > 0
            self.at += 1
        if self.ended and not optional:
            self.fail(" or ".join(words))
        if self.at == first:
            self.fail("an expression")
        return self.text.slice(start, self.tokens[self.at - 1].end)

    def parenthesis(self) -> list[Text]:
        """The parts between commas of a parenthesis that comes next."""
        self.expect("(")
        parts: list[Text] = []
        start, depth = self.at, 0
        while True:
            token = self.next()
            closing = token.symbol(")") and depth == 0
            if (token.symbol(",") and depth == 0) or closing:
                if self.at - 1 > start:
                    parts.append(self.text.slice(self.tokens[start].start, self.tokens[self.at - 2].end))
                elif not closing or parts:
                    self.at -= 1
                    self.fail("an item")
                start = self.at
            if closing:
                return parts
            depth += token.symbol("(") - token.symbol(")")

    def variable_or_fail(self) -> str:
        """The one variable that this text is."""
        token = self.next()
        if token.kind not in {Kind.WORD, Kind.QUOTED, Kind.PARAMETER} or not token.value or not self.ended:
            self.at = 0
            self.fail("a variable")
        return token.value
