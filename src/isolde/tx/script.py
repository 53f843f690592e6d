"""A text with several SQL statements, taken apart without understanding them.

Schedules are sent to databases as they were written, whatever a database's SQL may hold; all that has to be known is where a
statement ends, and of which of a few kinds it is.
"""

from __future__ import annotations

import re
from typing import Literal

from isolde.tx.dialects import Dialect

# A statement's parts: comments, and quoted texts and names, in which a semicolon ends nothing. What is open goes on to the end.
_LINE, _BLOCK = r"(?P<line>--[^\n]*)", r"(?P<block>/\*)"
_PLAIN = r"""'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)"""
_ESCAPED = r"""'(?:[^'\\]|''|\\.)*(?:'|$)|"(?:[^"\\]|""|\\.)*(?:"|$)"""
_DOLLARS = r"(?P<dollar>\$(?:[^\W\d]\w*)?\$).*?(?:(?P=dollar)|$)"
_BACKQUOTED = r"`(?:[^`]|``)*(?:`|$)"
_REST = r"[\w$@]+|."
_PARTS = {
    dialect: re.compile("|".join(parts), re.DOTALL)
    for dialect, parts in {
        Dialect.POSTGRESQL: (_LINE, _BLOCK, r"[eE]'(?:[^'\\]|''|\\.)*(?:'|$)", _PLAIN, _DOLLARS, _REST),
        Dialect.MYSQL: (r"(?P<line>--(?=\s|$)[^\n]*|\#[^\n]*)", _BLOCK, _ESCAPED, _BACKQUOTED, _REST),
        Dialect.SQLITE: (_LINE, _BLOCK, _PLAIN, _BACKQUOTED, r"\[[^\]]*(?:\]|$)", _REST),
    }.items()
}
_COMMENT_EDGE = re.compile(r"/\*|\*/")
# Their bodies hold statements of their own, with semicolons.
_WITH_BODY = re.compile(
    r"create\s+(or\s+replace\s+)?(definer\s*=\s*\S+\s+)?(temp(orary)?\s+)?(procedure|function|trigger|event)\b", re.I
)
_SET = re.compile(r"(set|reset)\b", re.IGNORECASE)
# What SET says of transactions and of a session's own variables is no setting of the server.
_SET_KEPT = re.compile(
    r"set\s+((session\s+|local\s+)?transaction\b|session\s+characteristics\b|constraints\b"
    r"|(session\s+|local\s+|@@session\.|@@)?(default_transaction_isolation|default_transaction_read_only|transaction_isolation"
    r"|transaction_read_only|tx_isolation|autocommit)\b|@(?!@)"
    # A variable of the user's own in PostgreSQL has a dot in its name; in MySQL those of key caches have, which are the server's.
    r"|(session\s+|local\s+)?[a-z_]\w*\.(?!key_)\w+)",
    re.IGNORECASE,
)
_SET_LEVEL = re.compile(
    r"set\s+(?P<scope>session\s+characteristics\s+as\s+|session\s+)?transaction\s+isolation\s+level\b", re.IGNORECASE
)
_BEGIN = re.compile(r"(begin|start\s+transaction)\b", re.IGNORECASE)
_COMMIT = re.compile(r"(commit|end)\b(?!\s+prepared\b)", re.IGNORECASE)
_ROLLBACK = re.compile(r"(rollback|abort)\b(?!\s+((work|transaction)\s+)?(to|prepared)\b)", re.IGNORECASE)
_CHANGE = re.compile(r"(insert|update|delete|replace|merge)\b", re.IGNORECASE)
_PLAIN_WORDS = re.compile(
    r"(select|insert|update|delete|replace|merge|values|begin|start|commit|end|rollback|abort|savepoint|release|set|lock)\b",
    re.IGNORECASE,
)
_SELECT_INTO = re.compile(r"select\b.*\binto\b", re.IGNORECASE | re.DOTALL)
_LEVEL = re.compile(r"isolation\s+level\s+(serializable|repeatable\s+read|read\s+committed|read\s+uncommitted)\b", re.I)


def statements_of(text: str, dialect: Dialect) -> tuple[str, ...]:
    """The statements of a text, without the semicolons between them and without comments around them.

    >>> statements_of("begin; select ';' -- one; two\\n; ;", Dialect.POSTGRESQL)
    ('begin', "select ';'")
    """
    found: list[str] = []
    parts: list[str] = []
    at = 0
    while at < len(text):
        match = _PARTS[dialect].match(text, at)
        assert match is not None
        at = match.end()
        if match["line"]:
            parts.append(" ")
        elif match["block"]:
            at = _comment_end(text, at, nested=dialect is Dialect.POSTGRESQL)
            # In front of a statement it is of no use; inside it may be a hint.
            parts.append(text[match.start() : at] if not _blank(parts) else " ")
        elif match[0] == ";" and not _inside_body("".join(parts).strip(), dialect):
            found.append("".join(parts).strip())
            parts.clear()
        else:
            parts.append(match[0])
    return tuple(statement for statement in (*found, "".join(parts).strip()) if statement)


def _blank(parts: list[str]) -> bool:
    return all(part.isspace() for part in parts)


def _inside_body(beginning: str, dialect: Dialect) -> bool:
    """PostgreSQL quotes bodies; elsewhere a routine's text goes on to the end."""
    return dialect is not Dialect.POSTGRESQL and _WITH_BODY.match(beginning) is not None


def _comment_end(text: str, at: int, *, nested: bool) -> int:
    depth = 1
    for edge in _COMMENT_EDGE.finditer(text, at):
        if edge[0] == "*/":
            depth -= 1
        elif nested:
            depth += 1
        if depth == 0:
            return edge.end()
    return len(text)


def is_setting(statement: str) -> bool:
    """Whether it sets something of the server or its planner, which a schedule means nothing by.

    >>> is_setting("SET enable_seqscan = off"), is_setting("set transaction isolation level serializable")
    (True, False)
    """
    return _SET.match(statement) is not None and _SET_KEPT.match(statement) is None


def sets(statement: str) -> bool:
    """Whether it sets anything at all."""
    return _SET.match(statement) is not None


def begins(statement: str) -> bool:
    """Whether it begins a transaction."""
    return _BEGIN.match(statement) is not None


def commits(statement: str) -> bool:
    """Whether it asks for the transaction's end with effect."""
    return _COMMIT.match(statement) is not None


def rolls_back(statement: str) -> bool:
    """Whether it ends the transaction without effect; going back to a savepoint ends nothing."""
    return _ROLLBACK.match(statement) is not None


def changes(statement: str) -> bool:
    """Whether it is a plain change of rows, of which a database tells how many."""
    return _CHANGE.match(statement) is not None


def sets_level(statement: str) -> Literal["session", "transaction", ""]:
    """Whether it says at which level the session's transactions run from now on, or one transaction alone.

    >>> sets_level("set session transaction isolation level serializable"), sets_level("set enable_seqscan = off")
    ('session', '')
    """
    match = _SET_LEVEL.match(statement)
    return "" if match is None else "session" if match["scope"] else "transaction"


def is_plain(statement: str) -> bool:
    """Whether it certainly defines nothing: a query, a change of rows, the beginning or end of a transaction."""
    return _PLAIN_WORDS.match(statement) is not None and _SELECT_INTO.match(statement) is None


def level_in(statement: str) -> str | None:
    """The isolation level that a statement names.

    >>> level_in("BEGIN ISOLATION LEVEL REPEATABLE  READ")
    'repeatable read'
    """
    match = _LEVEL.search(statement)
    return " ".join(match[1].lower().split()) if match else None
