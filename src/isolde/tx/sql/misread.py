"""Texts that sqlglot reads in another way than the database does, or not at all: refused by name, whoever wrote them."""

from __future__ import annotations

import re
from itertools import pairwise

from isolde.errors import OutsideFragment
from isolde.tx.dialects import Dialect
from isolde.tx.sql.skeleton import first_token, skeleton
from isolde.tx.sql.text import BEFORE_OPERANDS, Kind, Text, Token

# What a database takes and sqlglot cannot read: refused by name, if that is why a text could not be read.
_UNREAD = (
    (r"CURRENT OF ", "WHERE CURRENT OF a cursor", "fetch the key, and name it in WHERE"),
    (r"USING \( [^()]* \) AS ", "an alias of a join", "write the condition with ON"),
    (r"OVERRIDING (?:SYSTEM|USER) VALUE ", "OVERRIDING", "leave the column out"),
    (r"^INSERT (?:LOW_PRIORITY|HIGH_PRIORITY|DELAYED) ", "a priority of INSERT", "leave it out"),
    (r"^UPDATE OR |^UPDATE IGNORE |^DELETE IGNORE ", "a change that passes over errors", "choose the rows in WHERE"),
    (r"^INSERT INTO \S+ \( [^()]*\w \. \w", "a column with its table", "name the column alone"),
    (r"ON CONFLICT .* ON CONFLICT ", "several ON CONFLICT", "use one"),
    (r" ON CONFLICT (?:ROLLBACK|ABORT|FAIL|IGNORE|REPLACE) ", "ON CONFLICT of a constraint", "say it in the statements"),
    (r"GROUP BY .*(?:ASC|DESC) ", "an order of GROUP BY", "use ORDER BY"),
    (r"INTO (?:OUTFILE|DUMPFILE) ", "SELECT … INTO a file", "leave it out"),
    (r"NOT DEFERRABLE ", "NOT DEFERRABLE", "leave it out: it is so anyway"),
    (r"NULLS (?:NOT )?DISTINCT ", "NULLS DISTINCT of a key", "leave it out: it is so anyway"),
    (r"(?:KEY|UNIQUE) (?:\w+ )?\( .*(?:ASC|DESC|AUTOINCREMENT) ", "an order of a key", "name the columns alone"),
    (r" USING (?:BTREE|HASH) ", "USING of an index", "leave it out"),
    (r" KEY [,)] ", "KEY for PRIMARY KEY", "write PRIMARY KEY"),
    (r"NATIONAL |NCHAR VARYING |LONG VARCHAR ", "a type of national or long texts", "use VARCHAR"),
    (r"SIGNED INT(?:EGER)? ", "a type of two words", "use SIGNED or UNSIGNED in MySQL, INTEGER in SQLite"),
    (r"FLOAT UNSIGNED ", "an unsigned float", "use a CHECK"),
    (r"(?:INT|BIG|LONG|DATETIME) (?:SIGNED|ZEROFILL|INT|TEXT|WITHOUT) ", "a type of several words", "use one word"),
    (r"INT3 |MIDDLEINT ", "this name of a type", "use MEDIUMINT"),
)  # fmt: skip


# Functions that are called without parentheses, which sqlglot takes for columns.
VALUES = {
    Dialect.POSTGRESQL: frozenset({"current_role", "system_user", "user"}),
    Dialect.MYSQL: frozenset({"current_role", "utc_date", "utc_time", "utc_timestamp"}),
    Dialect.SQLITE: frozenset[str](),
}


def refuse_misread(text: Text, found: tuple[Token, ...], dialect: Dialect) -> None:
    for one, two in pairwise(found):
        if (one.symbol(",") and two.symbol(",", ")", ";")) or (one.symbol("(") and two.symbol(",")):
            # sqlglot reads over a comma too many.
            raise text.malformed(two.start, f"'{two.text}'", "an item between commas")
        if one.kind is Kind.STRING and two.kind is Kind.STRING:
            raise text.refuse(two.start, "a string written in two parts", "write it as one")
        if one.kind is Kind.NUMBER and two.kind is Kind.WORD and one.end == two.start:
            # A number and its alias to sqlglot; in PostgreSQL 16, 0x1F and 1_000 are numbers.
            raise text.refuse(
                one.start, f"the number '{one.text}{two.text}'", "write a decimal number, and AS before a name"
            )
        if dialect is Dialect.MYSQL and one.word("SELECT") and two.word("UNIQUE"):
            raise text.refuse(two.start, "SELECT UNIQUE", "use SELECT DISTINCT")
        if dialect is Dialect.MYSQL and one.word("ISNULL", "NOTNULL") and not two.symbol("("):
            _refuse_test(text, one)
        if dialect is Dialect.POSTGRESQL and one.symbol("!"):
            raise text.refuse(one.start, f"the operator '!{two.text}'", "use NOT, or NOT LIKE")
    if found and found[-1].symbol(","):
        raise text.malformed(found[-1].start, "','", "an item after the comma")
    if found and dialect is Dialect.MYSQL and found[-1].word("ISNULL", "NOTNULL"):
        _refuse_test(text, found[-1])


def _refuse_test(text: Text, token: Token) -> None:
    """A name in MySQL, so that "a ISNULL" is a with another name; sqlglot takes it for a test."""
    raise text.refuse(token.start, f"the word {token.text.upper()} here", "use IS NULL, IS NOT NULL")


def unread(text: Text, found: tuple[Token, ...]) -> OutsideFragment | None:
    """The refusal of a form that sqlglot cannot read, though a database can."""
    words = skeleton(found)
    for pattern, what, instead in _UNREAD:
        if match := re.search(pattern, words):
            return text.refuse(found[first_token(words, match)].start, what, instead)
    return None


def ends_operand(token: Token | None) -> bool:
    """Whether a value ends with this token."""
    if token is None or token.kind is Kind.SYMBOL:
        return token is not None and token.text in {")", "]"}
    return not (token.kind is Kind.WORD and token.text.upper() in {*BEFORE_OPERANDS, "ALL", "DISTINCTROW"})
