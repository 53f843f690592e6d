"""The words of a statement without what its strings, numbers and parameters say: what tells the forms of SQL apart."""

from __future__ import annotations

import re

from isolde.tx.sql.text import Kind, Token


def skeleton(tokens: tuple[Token, ...]) -> str:
    """The words of a statement, with one blank behind each token: ``SELECT A FROM T LIMIT 0 ``."""
    return "".join(f"{_shape(token)} " for token in tokens)


def first_token(words: str, match: re.Match[str]) -> int:
    """The first of the tokens that a pattern matches in a skeleton, by its number."""
    blank = match.group().startswith(" ")
    return words.count(" ", 0, match.start() + blank)


def _shape(token: Token) -> str:
    match token.kind:
        case Kind.WORD:
            return token.text.upper()
        case Kind.STRING | Kind.DOLLAR:
            return "'s'"
        case Kind.QUOTED:
            return "q"
        case Kind.NUMBER:
            return "0"
        case Kind.PARAMETER:
            return "?"
        case _:
            return token.text
