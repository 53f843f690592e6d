"""Strictness: forms of statements that one database has and another has not.

sqlglot reads what any of them takes, so that a text which a person wrote would be fine here and a syntax error of the database
that it is for. A text that a server has accepted need not be looked at: nothing here changes what is read. A form is told by its
words (``skeleton``). What a tree tells better (a join without a condition) is told where the tree is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest

from isolde.tx.dialects import Dialect
from isolde.tx.sql.misread import ends_operand
from isolde.tx.sql.skeleton import first_token, skeleton
from isolde.tx.sql.text import Kind, Text, Token

_PG, _MY, _LITE = Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLITE


@dataclass(frozen=True, slots=True)
class _Form:
    """A form, as a pattern of the skeleton, and what to write instead in each of the dialects that do not have it."""

    pattern: re.Pattern[str]
    instead: dict[Dialect, str]


def _form(pattern: str, instead: str = "", **own: str) -> _Form:
    """``instead`` is for all dialects; ``pg``, ``my`` and ``lite`` for one of them alone."""
    named = {_PG: own.get("pg"), _MY: own.get("my"), _LITE: own.get("lite")}
    return _Form(re.compile(pattern), {dialect: text for dialect in Dialect if (text := named[dialect] or instead)})


_VERB = r"^(?:INSERT|REPLACE)(?: OR \w+| IGNORE)?"
_TABLE = rf"{_VERB}(?: INTO)? (?!INTO )\S+"
_INTO = rf"{_TABLE}(?: \( [^()]* \))?"
_ONE_WRITER = "no lock: SQLite has one writer at a time"

_FORMS = (
    # Queries.
    _form(r"^FROM ", "SELECT … FROM"),
    _form(r"^\( ", lite="a query without parentheses around it"),
    _form(r", FROM ", "an item between ',' and FROM"),
    _form(r"IS (?:NOT )?DISTINCT FROM ", my="'a <=> b', or 'NOT a <=> b'"),
    _form(r"NULLS (?:FIRST|LAST) ", my="an order by 'a IS NULL' before"),
    _form(r"GROUP BY DISTINCT ", my="the columns alone", lite="the columns alone"),
    _form(r"LIMIT ALL ", my="no LIMIT", lite="no LIMIT; LIMIT -1 before OFFSET"),
    _form(r"LIMIT (?:(?!OFFSET|FETCH|FOR|ON|RETURNING)[^(), ]+ |\( [^()]* \) )+, ", pg="LIMIT count OFFSET start"),
    _form(r"OFFSET \S+ (?:ROWS? )?LIMIT ", my="LIMIT before OFFSET", lite="LIMIT before OFFSET"),
    _form(r"LIMIT \S+ OFFSET \S+ ROWS? ", my="no ROWS after OFFSET", lite="no ROWS after OFFSET"),
    _form(r"FETCH (?:FIRST|NEXT) [^()]*?ONLY OFFSET ", my="OFFSET before FETCH"),
    _form(r"LOCK IN SHARE MODE ", pg="FOR SHARE", lite=_ONE_WRITER),
    _form(r"FOR SHARE ", my="LOCK IN SHARE MODE"),
    _form(r"FOR (?:NO KEY )?UPDATE |FOR (?:KEY )?SHARE ", lite=_ONE_WRITER),
    _form(r"(?:FOR UPDATE|SHARE MODE) (?:LIMIT|OFFSET|FETCH|ORDER) ", my="the lock at the end"),
    _form(r"END CASE ", my="END", lite="END"),
    _form(r"SELECT UNIQUE ", pg="SELECT DISTINCT", lite="SELECT DISTINCT"),
    _form(r"ORDER BY ALL ", "the columns"),
    _form(r" ANY JOIN ", pg="JOIN"),
    _form(r" AS 's' ", pg='AS "name"'),
    _form(r"(?:FROM|JOIN) \S+ AS 's' ", my="AS `name`"),
    _form(r"NOT INDEXED ", pg="the table alone", my="the table alone"),
    _form(r"(?:FROM|JOIN|UPDATE) \S+ \* (?:$|[,)] |SET |WHERE |ORDER |GROUP |LIMIT |RETURNING |JOIN )",
          my="the table alone", lite="the table alone"),
    _form(r"TRIM \( FROM ", my="TRIM(text)"),
    _form(r"SUBSTRING \( (?:(?! FROM )[^()])+ FOR ", my="SUBSTRING(text, 1, length)"),
    # Rows that are inserted.
    _form(r"^REPLACE ", pg="INSERT … ON CONFLICT (key) DO UPDATE SET"),
    _form(r"^REPLACE (?:OR|IGNORE) ", "REPLACE INTO"),
    _form(r"^INSERT OR ", pg="INSERT … ON CONFLICT DO NOTHING, or (key) DO UPDATE SET", my="INSERT IGNORE, or REPLACE"),
    _form(r"^INSERT IGNORE ", pg="INSERT … ON CONFLICT DO NOTHING", lite="INSERT OR IGNORE"),
    _form(rf"{_VERB} (?!INTO |OR |IGNORE |OVERWRITE |\w+ INTO )", pg="INSERT INTO", lite="INTO before the table"),
    _form(r"(?:INTO|FROM|^UPDATE) TABLE ", "the table's name alone"),
    _form(rf"{_TABLE} SET ", pg="(column, …) VALUES (value, …)", lite="(column, …) VALUES (value, …)"),
    _form(rf"{_INTO} VALUE \( ", pg="VALUES", lite="VALUES"),
    _form(rf"{_INTO} VALUES? (?!\( )", "VALUES (value, …)"),
    _form(rf"{_TABLE} \( \) ", pg="the table's name alone", lite="the table's name alone"),
    _form(rf"{_INTO} VALUES \( \) ", pg="DEFAULT VALUES", lite="DEFAULT VALUES"),
    _form(r" \) DEFAULT VALUES ", "no columns before DEFAULT VALUES"),
    _form(rf"{_INTO} DEFAULT VALUES ", my="VALUES ()"),
    _form(r"DEFAULT VALUES ON ", lite="VALUES before ON CONFLICT"),
    _form(rf"{_INTO} RETURNING ", "RETURNING at the end"),
    _form(rf"{_INTO} \( SELECT ", lite="the query without parentheses"),
    _form(rf"{_INTO} TABLE ", my="SELECT * FROM", lite="SELECT * FROM"),
    _form(r"^(?:INSERT|REPLACE) .*ON CONFLICT (?:\( [^()]* \) )?(?!DO |\( |ON |WHERE )",
          pg="DO NOTHING or DO UPDATE SET", lite="DO NOTHING or DO UPDATE SET"),
    _form(r"DO UPDATE (?!SET )", pg="DO UPDATE SET", lite="DO UPDATE SET"),
    _form(r"ON DUPLICATE KEY (?:(?!UPDATE )|UPDATE SET )", my="ON DUPLICATE KEY UPDATE column = value"),
    _form(r"^REPLACE .*ON DUPLICATE KEY ", my="INSERT … ON DUPLICATE KEY UPDATE"),
    # Rows that are changed.
    _form(r"^UPDATE \S+ (?!AS |SET |OR |\S+ \S+ SET |NOT |INDEXED |, )\S+ SET ", lite="AS before the alias"),
    _form(r"^DELETE FROM \S+ (?!AS |WHERE |ORDER |LIMIT |RETURNING |USING |NOT |INDEXED |, |\. |$)",
          lite="AS before the alias"),
    _form(r"^DELETE FROM \S+ (?:AS )?(?!AS |WHERE |ORDER |LIMIT |RETURNING |USING |FOR |, |\. |PARTITION )\S+ (?!USING )",
          my="DELETE alias FROM table AS alias"),
    _form(r"^DELETE (?!FROM )", pg="DELETE FROM", lite="DELETE FROM"),
    _form(r"^DELETE (?!FROM ).* RETURNING ", my="DELETE FROM … RETURNING, without an alias"),
    # Tables.
    _form(r"^CREATE TABLE (?:IF NOT EXISTS )?\S+ \( \) ", my="(column type, …)", lite="(column type, …)"),
    _form(r"^CREATE TABLE .* AUTO_INCREMENT ", pg="GENERATED BY DEFAULT AS IDENTITY"),
    _form(r"^CREATE TABLE .* AUTOINCREMENT ", pg="GENERATED BY DEFAULT AS IDENTITY", my="AUTO_INCREMENT"),
    _form(r"KEY AUTO_INCREMENT ", lite="INTEGER PRIMARY KEY, which numbers itself"),
    _form(r" IDENTITY (?<! AS IDENTITY )(?=[,)(]|PRIMARY|NOT|UNIQUE)",
          pg="GENERATED BY DEFAULT AS IDENTITY", my="AUTO_INCREMENT"),
    _form(r"GENERATED AS IDENTITY ", pg="GENERATED BY DEFAULT AS IDENTITY"),
    _form(r" AS IDENTITY ", my="AUTO_INCREMENT", lite="INTEGER PRIMARY KEY, which numbers itself"),
    _form(r"^CREATE TABLE .*PRIMARY KEY ASC ", pg="PRIMARY KEY", my="PRIMARY KEY"),
    _form(r"^CREATE TABLE .* (?:UNIQUE (?:KEY|INDEX)|UNIQUE (?!CHECK|DEFAULT)\w+ \() ",
          pg="UNIQUE (column, …)", lite="UNIQUE (column, …)"),
    _form(r"^CREATE TABLE .* (?:CHARACTER SET|CHARSET) ", pg="no character set", lite="no character set"),
    _form(r"^CREATE TABLE .* COMMENT (?:= )?'s' ", pg="no COMMENT"),
    _form(r"^CREATE TABLE .* FOREIGN KEY REFERENCES ", "REFERENCES"),
    _form(r"^CREATE TABLE .* CONSTRAINT \S+ (?:NOT|NULL|DEFAULT) ", my="no name for it"),
    _form(r"^CREATE TABLE .*[\w)] CONSTRAINT \S+ (?:PRIMARY KEY|UNIQUE|CHECK)(?: [,)]| NOT| \( )",
          my="no name for it, or the constraint after the columns"),
    _form(r"INITIALLY IMMEDIATE (?<!DEFERRABLE INITIALLY IMMEDIATE )",
          my="nothing: it is so anyway", lite="nothing: it is so anyway"),
    _form(r"^CREATE TABLE .*REFERENCES \S+ (?!\( |\. )", my="REFERENCES table (column, …)"),
    # Indexes.
    _form(r"^CREATE (?:\w+ )*INDEX .*ON TABLE ", "ON and the table's name"),
    _form(r"^CREATE (?:OR REPLACE )?(?!OR |UNIQUE |INDEX |TEMP|FULLTEXT |SPATIAL )\w+ (?:\w+ )?INDEX ", "CREATE INDEX"),
    _form(r"^CREATE OR REPLACE (?:UNIQUE )?INDEX ", pg="CREATE INDEX", lite="CREATE INDEX"),
    _form(r"^CREATE (?:UNIQUE )?INDEX CONCURRENTLY ", my="CREATE INDEX", lite="CREATE INDEX"),
    _form(r"^CREATE (?:UNIQUE )?INDEX ON ", my="a name for the index", lite="a name for the index"),
    _form(r"^CREATE (?:UNIQUE )?INDEX .*ON \S+ USING ", my="USING after the columns", lite="no USING"),
    _form(r"^CREATE (?:UNIQUE )?INDEX .*NULLS ", lite="the columns alone"),
    _form(r"^CREATE (?:UNIQUE )?INDEX .*\) WHERE ", my="an index of all rows"),
    _form(r"^CREATE (?:UNIQUE )?INDEX .*?ON \S+ \( (?:.*, )?(?:\( |\w+ \( (?!0 \) )|\w+ [-+*/|%])", my="columns"),
    _form(r"^CREATE (?:UNIQUE )?INDEX .*?ON \S+ (?:USING \w+ )?\( (?:.*, )?\w+ [-+*/|%]", pg="((expression))"),
)  # fmt: skip

# So many tokens of a form are shown, from its end.
_SHOWN = 4


def check(text: Text, found: tuple[Token, ...], dialect: Dialect) -> None:
    """``MalformedProgram`` for a text that the dialect's database does not read, though sqlglot does."""
    _spoken(text, found, dialect)
    _not_null(text, found, dialect)
    words = skeleton(found)
    for form in _FORMS:
        instead = form.instead.get(dialect)
        if instead is not None and (match := form.pattern.search(words)):
            end = words.count(" ", 0, match.end())
            first = max(first_token(words, match), end - _SHOWN)
            shown = " ".join(token.text for token in found[first : max(end, first + 1)])
            raise text.malformed(found[first].start, f"'{shown}'", f"{instead} in {dialect}")


_OPERATORS = {
    "==": (_LITE,),
    "<=>": (_MY,),
    "&&": (_MY, _PG),
    "!": (_MY, _PG),
    "::": (_PG,),
}
# MySQL takes a blank behind them for the end of a column's name.
_BEFORE_NAMES = ("TABLE", "EXISTS", "INTO", "INSERT", "IGNORE", "REPLACE", "REFERENCES", "ON", "KEY", "INDEX")
_TIGHT = ("COUNT", "SUM", "MIN", "MAX", "SUBSTRING", "SUBSTR", "TRIM", "NOW", "CAST")


def _spoken(text: Text, found: tuple[Token, ...], dialect: Dialect) -> None:
    """sqlglot takes other databases' operators and literals for the dialect's."""
    literals = ("E", "DATE", "DATETIME", "TIMESTAMP") if dialect is _LITE else ("E", "DATETIME")
    before: Token | None = None
    for one, two in zip_longest(found, found[1:]):
        if one.kind is Kind.SYMBOL and dialect not in _OPERATORS.get(one.text, (dialect,)):
            raise text.malformed(one.start, f"'{one.text}'", f"an operator of {dialect}")
        if one.symbol("~", "!") and ends_operand(before) and dialect is not _PG:
            raise text.malformed(one.start, f"'{one.text}' after a value", f"LIKE or an operator of {dialect}")
        if two is not None and two.kind is Kind.STRING and one.word(*literals):
            raise text.malformed(one.start, f"'{one.text}' before a string", f"a literal of {dialect}")
        if dialect is _MY and one.word(*_TIGHT) and two is not None and two.symbol("(") and two.start > one.end:
            # It is a name after these: CREATE TABLE count (…).
            named = before is not None and (before.symbol(".") or before.word(*_BEFORE_NAMES))
            if not named:
                raise text.malformed(
                    two.start, f"a blank behind {one.text}", f"{one.text}(, without a blank, in {dialect}"
                )
        before = one


def _not_null(text: Text, found: tuple[Token, ...], dialect: Dialect) -> None:
    """SQLite's ``a NOT NULL``. After a column's type it is a constraint, in all dialects."""
    if dialect is _LITE:
        return
    depth = 0
    creates = bool(found) and found[0].word("CREATE")
    for before, one, two in zip(found, found[1:], found[2:], strict=False):
        depth += before.symbol("(") - before.symbol(")")
        tested = one.word("NOT") and two.word("NULL") and not before.word("IS")
        if tested and ends_operand(before) and (not creates or depth > 1):
            raise text.malformed(one.start, "'NOT NULL'", "IS NOT NULL")
