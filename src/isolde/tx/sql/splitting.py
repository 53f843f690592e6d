"""A script into its statements."""

from __future__ import annotations

from isolde.tx.dialects import Dialect
from isolde.tx.sql.text import Text, tokens


def split(text: Text, dialect: Dialect) -> list[Text]:
    """The pieces between semicolons that hold any token, each without its semicolon."""
    pieces: list[Text] = []
    first: int | None = None
    for token in tokens(text, dialect):
        if token.symbol(";"):
            if first is not None:
                pieces.append(text.slice(first, token.start))
            first = None
        elif first is None:
            first = token.start
    if first is not None:
        pieces.append(text.slice(first, len(text.content)))
    return pieces
