"""sqlglot's trees: parsed, watched, and left behind. Nothing of sqlglot is seen outside of this package.

Two habits of sqlglot would make a program mean something else, and are met here: it drops what it does not know into ``Command``
nodes or aliases (``SAVEPOINT x``), and it has more arguments on a node than anybody translates. ``Reading.only`` refuses every
argument that is set and was not named.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

from isolde.errors import MalformedProgram, OutsideFragment
from isolde.tx.dialects import Dialect
from isolde.tx.place import Place
from isolde.tx.queries import Select
from isolde.tx.sql import misread, spelling
from isolde.tx.sql.reserved import RESERVED
from isolde.tx.sql.text import Prepared, Text, Token, fold, prepare

_DIALECTS = {Dialect.POSTGRESQL: "postgres", Dialect.MYSQL: "mysql", Dialect.SQLITE: "sqlite"}
_AGGREGATES = ("AVG", "COUNT", "MAX", "MIN", "SUM")
# Casts in one database, and something else or nothing in the others.
_FOREIGN = {"CEIL", "FLOOR", "SAFE_CAST", "TRY_CAST"}


class Plus(exp.Unary):
    """A plus before a value. sqlglot drops it; but ``+ '1'`` is a number in PostgreSQL, and ``+a`` has no affinity in SQLite."""


class _Noting(Parser):
    """Notes what sqlglot's trees do not tell: the words of a type, a join by a comma, a string in place of a name."""

    def _parse_types(self, *args: Any, **options: Any) -> exp.Expr | None:
        first = self._index
        found = super()._parse_types(*args, **options)
        if isinstance(found, exp.DataType):
            found.meta["words"] = tuple(token.text.upper() for token in self._tokens[first : self._index])
        return found

    def _parse_join(self, *args: Any, **options: Any) -> exp.Join | None:
        comma = self._curr is not None and self._curr.token_type == TokenType.COMMA
        found = super()._parse_join(*args, **options)
        if found is not None:
            found.meta["comma"] = comma
        return found

    def _parse_string_as_identifier(self) -> exp.Identifier | None:
        found = super()._parse_string_as_identifier()
        if found is not None:
            found.meta["string"] = True
        return found


@cache
def _parser(dialect: Dialect) -> tuple[type[Parser], sqlglot.Dialect]:
    """sqlglot's, which knows the names of aggregates only: other calls are kept as they are written, for ``functions.py``."""
    spoken = sqlglot.Dialect.get_or_raise(_DIALECTS[dialect])
    base = spoken.parser_class
    left_out = {
        Dialect.POSTGRESQL: {"CONVERT"},
        Dialect.MYSQL: set[str](),
        Dialect.SQLITE: {"CONVERT", "SUBSTRING", "TRIM"},
    }[dialect]
    own: dict[str, Any] = {
        "FUNCTIONS": {name: base.FUNCTIONS[name] for name in _AGGREGATES},
        "FUNCTION_PARSERS": {
            name: read for name, read in base.FUNCTION_PARSERS.items() if name not in _FOREIGN | left_out
        },
    }
    if dialect is not Dialect.MYSQL:
        # MySQL's own parser drops it.
        plus = {TokenType.PLUS: lambda self: self.expression(Plus(this=self._parse_unary()))}
        own["UNARY_PARSERS"] = base.UNARY_PARSERS | plus
    made: type[Parser] = type(base.__name__, (_Noting, base), own)
    return made, spoken


_NAMES: dict[str, tuple[str, str]] = {
    "With": ("a common table expression (WITH)", "write the query in place of its name, or use two statements"),
    "Window": ("a window function", "group in a subquery, or compute it in the procedure"),
    "Union": ("UNION", "use two queries"),
    "Except": ("EXCEPT", "use NOT EXISTS"),
    "Intersect": ("INTERSECT", "use EXISTS"),
    "Filter": ("FILTER of an aggregate", "put a CASE into the aggregate"),
    "Lateral": ("LATERAL", "use a subquery in the select list"),
    "RegexpLike": ("a regular expression", "use LIKE"),
    "RegexpILike": ("a regular expression", "use LIKE"),
    "ILike": ("ILIKE", "compare LOWER(…) with LIKE"),
    "Glob": ("GLOB", "use LIKE"),
    "Match": ("MATCH", "use LIKE"),
    "SimilarTo": ("SIMILAR TO", "use LIKE"),
    "Escape": ("LIKE … ESCAPE", "use a pattern without an escape"),
    "Array": ("an array", "use a table"),
    "ArrayOverlaps": ("an operator of arrays (&&)", "use a table"),
    "Bracket": ("a subscript", "use a table"),
    "JSONExtract": ("JSON", "use columns"),
    "JSONExtractScalar": ("JSON", "use columns"),
    "JSONBExtract": ("JSON", "use columns"),
    "JSONBExtractScalar": ("JSON", "use columns"),
    "JSONBContains": ("JSON", "use columns"),
    "Any": ("ANY", "use IN or EXISTS"),
    "All": ("ALL with a query", "use NOT EXISTS"),
    "Tuple": ("a row of several values", "compare column by column"),
    "Interval": ("an interval", "give the time as a parameter"),
    "Collate": ("COLLATE", ""),
    "Pow": ("a power", "multiply"),
    "TryCast": ("TRY_CAST", "use CAST"),
    "HexString": ("a hexadecimal string", "write a decimal number"),
    "BitString": ("a bit string", "write a number"),
    "ByteString": ("a byte string", ""),
    "National": ("a national string (N'…')", "leave the N out"),
    "UnicodeString": ("a string with U&", "write the characters themselves"),
    "RawString": ("a dollar-quoted string", "use quotes"),
    "CurrentDate": ("CURRENT_DATE", "give the date as a parameter"),
    "CurrentTime": ("CURRENT_TIME", "give the time as a parameter"),
    "GroupConcat": ("GROUP_CONCAT", "loop over the rows"),
    "Merge": ("MERGE", "use INSERT … ON CONFLICT, or two statements"),
    "TruncateTable": ("TRUNCATE", "use DELETE without WHERE"),
    "Values": ("VALUES as a query", "use SELECT"),
    "Into": ("SELECT … INTO outside of a procedure", "write a procedure"),
    "Transaction": ("a transaction's begin", "a procedure is one transaction; leave it out"),
    "Commit": ("COMMIT", "a procedure is one transaction; leave it out"),
    "Rollback": ("ROLLBACK", "only a procedure can abort"),
    "Drop": ("DROP", "say what there is, not what there was"),
    "Alter": ("ALTER", "put it into CREATE TABLE"),
    "Set": ("SET", ""),
    "Parameter": ("a session variable", "declare a variable"),
    "SessionParameter": ("a system variable", "give it as a parameter"),
    "Rollup": ("ROLLUP", "use several queries"),
    "Cube": ("CUBE", "use several queries"),
    "GroupingSets": ("GROUPING SETS", "use several queries"),
    "TableSample": ("TABLESAMPLE", ""),
    "Extract": ("EXTRACT", "compute it in the application"),
}

_ARGUMENTS: dict[str, tuple[str, str]] = {
    "with_": _NAMES["With"],
    "sample": ("TABLESAMPLE", ""),
    "windows": ("WINDOW", "group in a subquery"),
    "qualify": ("QUALIFY", "filter in a query around it"),
    "into": _NAMES["Into"],
    "hint": ("a hint", "leave it out"),
    "hints": ("an index hint", "leave it out"),
    "indexed": ("INDEXED BY", "leave it out"),
    "operation_modifiers": ("a modifier of SELECT", "leave it out"),
    "only": ("ONLY", "leave it out"),
    "partition": ("PARTITION", "leave it out"),
    "laterals": ("LATERAL", "use a subquery in the select list"),
    "db": ("a name with a schema", "leave the schema out"),
    "catalog": ("a name with a catalog", "leave the catalog out"),
    "tables": ("DELETE of several tables", "use one statement a table, with EXISTS"),
    "using": ("DELETE … USING", "use EXISTS or IN in WHERE"),
    "order": ("ORDER BY here", ""),
    "limit": ("LIMIT here", "choose the rows in WHERE"),
    "symmetric": ("BETWEEN SYMMETRIC", "order the bounds with LEAST and GREATEST"),
    "rollup": _NAMES["Rollup"],
    "cube": _NAMES["Cube"],
    "grouping_sets": _NAMES["GroupingSets"],
    "totals": ("WITH TOTALS", ""),
}


@contextmanager
def _quietly() -> Iterator[None]:
    """sqlglot logs a warning where it falls back to a ``Command``; the refusal says it better."""
    logger = logging.getLogger("sqlglot")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


Subquery = Callable[[Any, "Reading"], Select]
"""Reads a query that stands inside of an expression."""


class Reading:
    """One statement being read: its dialect, and the way from a node to its place."""

    def __init__(self, prepared: Prepared, dialect: Dialect, subquery: Subquery) -> None:
        self.prepared = prepared
        self._subquery = subquery
        self.dialect = dialect
        self.merged: tuple[dict[str, str], ...] = ({},)
        self.variables: frozenset[str] = frozenset()
        self._starts: dict[int, int] = {}

    def subquery(self, node: Any) -> Select:
        """The query inside of an expression. Who reads queries is told by the caller: queries hold expressions themselves."""
        return self._subquery(node, self)

    def start(self, node: exp.Expr) -> int:
        """Where a node's first token with a known position stands, in the text that was written."""
        known = self._starts.get(id(node))
        if known is None:
            positions = [n.meta["start"] for n in node.walk() if "start" in n.meta]
            marks = [n for n in node.find_all(exp.Placeholder) if "start" not in n.meta]
            positions += [self.prepared.sql.find(f" :{mark.name} ") for mark in marks]
            known = self.prepared.original(min(positions)) if positions else self._around(node)
            self._starts[id(node)] = known
        return known

    def _around(self, node: exp.Expr) -> int:
        return self.start(node.parent) if node.parent is not None else self.prepared.first

    def beginning(self) -> Place:
        """The place of the statement."""
        return self.at(self.prepared.first)

    def place(self, node: exp.Expr) -> Place:
        return self.at(self.start(node))

    def at(self, position: int) -> Place:
        return self.prepared.text.place(position)

    def before(self, node: exp.Expr) -> Token:
        """The token before the one that a node begins with."""
        at = self.start(node)
        return max((token for token in self.prepared.tokens if token.start < at), key=lambda token: token.start)

    def refuse(self, node: exp.Expr, what: str, instead: str = "") -> OutsideFragment:
        return OutsideFragment(str(self.place(node)), what, instead)

    def malformed(self, node: exp.Expr, found: str, expected: str) -> MalformedProgram:
        return MalformedProgram(str(self.place(node)), found, expected)

    def outside(self, node: exp.Expr) -> NoReturn:
        """Refuses a node by its name."""
        if isinstance(node, exp.Command):
            raise OutsideFragment(str(self.beginning()), f"the statement {str(node.this).upper()}")
        if isinstance(node, exp.Anonymous):
            raise self.refuse(node, f"the function {str(node.this).upper()}")
        name = type(node).__name__
        if name in _NAMES:
            raise self.refuse(node, *_NAMES[name])
        if isinstance(node, exp.Func):
            raise self.refuse(node, f"the function {node.sql_name()}")
        raise self.refuse(node, f"'{name}' of SQL")

    def only(self, node: exp.Expr, *known: str) -> None:
        """Refuses every argument of ``node`` that is set and not ``known``: nothing is dropped silently."""
        for name, value in node.args.items():
            if name in known or value is None or value is False or value == [] or value == "":
                continue
            if isinstance(value, exp.Expr) and type(value).__name__ in _NAMES:
                self.outside(value)
            if isinstance(value, list) and isinstance(value[0], exp.Expr) and type(value[0]).__name__ in _NAMES:
                self.outside(value[0])
            at = value if isinstance(value, exp.Expr) else node
            if isinstance(value, list) and isinstance(value[0], exp.Expr):
                at = value[0]
            what, instead = _ARGUMENTS.get(name, (f"'{name.strip('_')}' of {type(node).__name__}", ""))
            raise self.refuse(at, what, instead)

    def name(self, node: Any, *, label: bool = False) -> str:
        """A folded name of an identifier.

        ``label``: of a column of a result, for which MySQL takes a string, as SQLite does for all, and PostgreSQL any word.
        """
        if isinstance(node, exp.Column):
            self.only(node, "this")
            node = node.this
        if not isinstance(node, exp.Identifier):
            self.outside(node)
        mysql = self.dialect is Dialect.MYSQL
        quote = "`" if mysql else '"'
        free = node.args.get("quoted") or (label and self.dialect is Dialect.POSTGRESQL)
        if self.prepared.text.strict and not free and str(node.this).lower() in RESERVED[self.dialect]:
            word = f"the word {str(node.this).upper()} as a name"
            raise self.malformed(node, word, f"{quote}{node.this}{quote}, or another name")
        if node.meta.get("string") and not (self.dialect is Dialect.SQLITE or (label and mysql)):
            raise self.malformed(node, f"a string ('{node.this}') in place of a name", f"{quote}{node.this}{quote}")
        return fold(str(node.this), self.dialect, quoted=bool(node.args.get("quoted")))

    def mark(self, node: exp.Placeholder) -> tuple[Token, str]:
        """The parameter behind one of our marks, and its name."""
        text = str(node.this.name if isinstance(node.this, exp.Expr) else node.this)
        if not (text.startswith("m") and text[1:].isdigit() and int(text[1:]) < len(self.prepared.marks)):
            raise self.malformed(node, "a mark", "a parameter")
        return self.prepared.marks[int(text[1:])], self.prepared.names[int(text[1:])]


def trees(text: Text, dialect: Dialect, subquery: Subquery) -> tuple[list[exp.Expr], Reading]:
    """The trees of all statements in ``text``; ``MalformedProgram`` if it is no SQL. ``subquery`` reads queries in them."""
    prepared = prepare(text, dialect)
    misread.refuse_misread(text, prepared.tokens, dialect)
    if text.strict:
        spelling.check(text, prepared.tokens, dialect)
    try:
        with _quietly():
            parser, spoken = _parser(dialect)
            parsed = parser(dialect=spoken).parse(spoken.tokenize(prepared.sql), prepared.sql)
    except RecursionError:
        raise text.refuse(0, "an expression that is nested so deeply", "use several statements") from None
    except ParseError as error:
        raise misread.unread(text, prepared.tokens) or _parse_error(error, prepared) from None
    except SqlglotError as error:
        raise text.malformed(0, str(error).splitlines()[0], "SQL") from None
    except Exception as error:
        # What sqlglot does with text that is no SQL is not promised: it may fail in any way.
        raise text.malformed(0, f"text that cannot be parsed ({type(error).__name__})", "SQL") from None
    return [tree for tree in parsed if tree is not None and not isinstance(tree, exp.Semicolon)], Reading(
        prepared, dialect, subquery
    )


def _parse_error(error: ParseError, prepared: Prepared) -> MalformedProgram | OutsideFragment:
    """A text that a server has accepted is SQL, though sqlglot cannot read it."""
    details: dict[str, Any] = dict(error.errors[0]) if error.errors else {}
    highlight = str(details.get("highlight") or "")
    line, column = int(details.get("line") or 1), int(details.get("col") or 1)
    lines = prepared.sql.split("\n")
    start = sum(len(part) + 1 for part in lines[: line - 1]) + max(column - max(len(highlight), 1), 0)
    position = prepared.original(min(start, max(len(prepared.sql) - 1, 0)))
    description = str(details.get("description") or "").split("<")[0].strip().rstrip(".")
    found = f"'{highlight}'" if highlight.strip() else "the end of the statement"
    if not prepared.text.strict:
        return prepared.text.refuse(position, f"SQL in which {found} stands here")
    return prepared.text.malformed(position, f"{found} ({description})" if description else found, "SQL")
