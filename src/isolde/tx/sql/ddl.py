"""Tables: ``CREATE TABLE`` and ``CREATE INDEX``; options of engines say nothing about meaning."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from isolde.errors import MalformedProgram
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Expression
from isolde.tx.place import Place
from isolde.tx.schema import Check, Column, ForeignKey, Index, Kind, Schema, Table
from isolde.tx.sql import expressions, queries
from isolde.tx.sql.splitting import split
from isolde.tx.sql.text import Text, tokens
from isolde.tx.sql.trees import Plus, Reading, trees
from isolde.tx.sql.types import column_type, is_serial

_IGNORED_PROPERTIES = (
    exp.EngineProperty,
    exp.CharacterSetProperty,
    exp.AutoIncrementProperty,
    exp.CollateProperty,
    exp.SchemaCommentProperty,
    exp.RowFormatProperty,
)
_IGNORED_CONSTRAINTS = (exp.CommentColumnConstraint, exp.CharacterSetColumnConstraint)
_PLAIN_DEFAULTS = (exp.Literal, exp.Null, exp.Boolean, exp.CurrentTimestamp, exp.Column, exp.Paren)
# What may follow a CHECK of a column in MySQL.
_LAST = (exp.CheckColumnConstraint, exp.Reference)
_HARMLESS_OPTIONS = ("NO ACTION", "RESTRICT", "NOT DEFERRABLE", "INITIALLY IMMEDIATE", "MATCH SIMPLE")


def read_schema(text: Text, dialect: Dialect) -> Schema:
    return schema_of(split(text, dialect), dialect)


def schema_of(pieces: list[Text], dialect: Dialect) -> Schema:
    """The tables that these statements make, in order."""
    tables: dict[str, Table] = {}
    for piece in pieces:
        parsed, reading = trees(piece, dialect, queries.subquery)
        for node in parsed:
            _create(node, tables, reading)
    return Schema.of(*(_resolved(table, tables) for table in tables.values()))


def _create(node: exp.Expr, tables: dict[str, Table], reading: Reading) -> None:
    if not isinstance(node, exp.Create):
        if isinstance(node, exp.Alias | exp.Column | exp.Literal | exp.Binary):
            raise reading.malformed(node, "text that is no statement", "CREATE TABLE")
        if isinstance(node, exp.Select | exp.Insert | exp.Update | exp.Delete):
            raise reading.refuse(node, "a statement among tables", "put it into a procedure")
        reading.outside(node)
    kind = str(node.args.get("kind") or "").upper()
    if kind == "INDEX":
        _index(node, tables, reading)
        return
    if kind != "TABLE":
        raise reading.refuse(node, f"CREATE {kind}")
    reading.only(node, "this", "kind", "exists", "properties")
    properties = node.args.get("properties")
    for option in properties.expressions if properties is not None else ():
        if isinstance(option, _IGNORED_PROPERTIES) and reading.dialect is not Dialect.MYSQL:
            raise reading.malformed(node, "an option of a table that only MySQL has", "')' at the end")
        if not isinstance(option, _IGNORED_PROPERTIES):
            raise reading.refuse(
                node, f"the option {type(option).__name__.removesuffix('Property').upper()} of a table"
            )
    if not isinstance(node.this, exp.Schema):
        raise reading.malformed(node, "CREATE TABLE without columns", "(column type, …)")
    name, _ = queries.table(node.this.this, reading)
    if name in tables:
        raise reading.malformed(node, f"table '{name}' for the second time", "another name")
    tables[name] = _Reader(name, reading).read(node.this)


@dataclass
class _Reader:
    """One table being read: its columns and constraints as they come."""

    name: str
    reading: Reading
    columns: list[Column] = field(default_factory=list)
    primary_key: tuple[str, ...] = ()
    uniques: list[tuple[str, ...]] = field(default_factory=list)
    foreign_keys: list[ForeignKey] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    integers: set[str] = field(default_factory=set)
    indexed: bool = False
    indexes: list[Index] = field(default_factory=list)
    place: Place | None = None

    def read(self, node: exp.Schema) -> Table:
        self.place = self.reading.place(node)
        for part in node.expressions:
            if isinstance(part, exp.ColumnDef):
                self.column(part)
            else:
                self.constraint(part, None)
        known = {column.name for column in self.columns}
        for columns in (self.primary_key, *self.uniques, *(key.columns for key in self.foreign_keys)):
            if missing := set(columns) - known:
                raise self.reading.malformed(
                    node, f"a key of the unknown column '{min(missing)}'", "a column of the table"
                )
        keys = {*self.primary_key[:1], *(key[0] for key in self.uniques)}
        if self.reading.dialect is Dialect.MYSQL and not self.indexed:
            for column in self.columns:
                if column.generated and column.name not in keys:
                    raise self.reading.malformed(node, "AUTO_INCREMENT of a column that is no key", "PRIMARY KEY")
        return Table(
            self.name,
            tuple(self.finished(column) for column in self.columns),
            self.primary_key,
            tuple(self.uniques),
            tuple(self.foreign_keys),
            tuple(self.checks),
            tuple(self.indexes),
            self.place,
        )

    def finished(self, column: Column) -> Column:
        if column.name not in self.primary_key:
            return column
        if self.reading.dialect is not Dialect.SQLITE:
            return replace(column, nullable=False)
        # Only a key of the one type INTEGER is SQLite's row id. Any other key may be null there.
        if self.primary_key == (column.name,) and column.name in self.integers:
            return replace(column, nullable=False, generated=True)
        return column

    def column(self, node: exp.ColumnDef) -> None:
        reading = self.reading
        reading.only(node, "this", "kind", "constraints")
        name = reading.name(node.this)
        if any(column.name == name for column in self.columns):
            raise reading.malformed(node, f"column '{name}' for the second time", "another name")
        kind = node.args.get("kind")
        if not isinstance(kind, exp.DataType):
            raise reading.refuse(node, "a column without a type", "give it one")
        serial = is_serial(kind)
        if serial and reading.dialect is not Dialect.POSTGRESQL:
            raise reading.refuse(node, "SERIAL", "use AUTO_INCREMENT")
        type_ = column_type(kind, reading)
        if type_.kind is Kind.INTEGER and reading.dialect is Dialect.SQLITE and self.says_integer(node):
            self.integers.add(name)
        self.columns.append(Column(name, type_, not serial, None, serial, reading.place(node)))
        checked = False
        for constraint in node.args.get("constraints") or ():
            reading.only(constraint, "kind", "this")
            kind = constraint.args["kind"]
            if checked and reading.dialect is Dialect.MYSQL and not isinstance(kind, _LAST):
                raise reading.malformed(constraint, "a constraint after CHECK", "CHECK at the end of the column")
            checked = checked or isinstance(kind, exp.CheckColumnConstraint)
            self.constraint(constraint.args["kind"], name, constraint.args.get("this"))

    def says_integer(self, node: exp.ColumnDef) -> bool:
        text = self.reading.prepared.text
        following = [token for token in tokens(text, Dialect.SQLITE) if token.start > self.reading.start(node)]
        return bool(following) and following[0].word("INTEGER")

    def constraint(self, node: exp.Expr, column: str | None, label: Any = None) -> None:
        reading = self.reading
        match node:
            case exp.Constraint():
                reading.only(node, "this", "expressions")
                for part in node.expressions:
                    self.constraint(part, column, node.this)
            case exp.PrimaryKeyColumnConstraint() if column:
                self.parameters(node, "include")
                self.key((column,), node)
            case exp.PrimaryKey():
                self.parameters(node, "expressions", "include", "this")
                self.key(self.names(node.expressions), node)
            case exp.UniqueColumnConstraint():
                self.parameters(node, "this", "include", "index_type")
                target = node.args.get("this")
                columns = self.names(target.expressions) if isinstance(target, exp.Schema) else (column,)
                if not all(columns) or not columns:
                    raise reading.malformed(node, "UNIQUE without columns", "UNIQUE (column, …)")
                self.uniques.append(tuple(name for name in columns if name))
            case exp.NotNullColumnConstraint() if column:
                reading.only(node, "allow_null")
                self.change(column, nullable=bool(node.args.get("allow_null")))
            case exp.DefaultColumnConstraint() if column:
                reading.only(node, "this")
                self.default(column, node)
            case exp.CheckColumnConstraint():
                reading.only(node, "this")
                self.checks.append(
                    Check(expressions.expression(node.this, reading), reading.name(label) if label else None)
                )
            case exp.AutoIncrementColumnConstraint() if column:
                reading.only(node)
                self.numbered(column, node)
                self.change(column, generated=True, nullable=False)
            case exp.GeneratedAsIdentityColumnConstraint() if column:
                if node.args.get("expression") is not None:
                    raise reading.refuse(node, "a computed column", "compute it in the statements")
                reading.only(node, "this")
                self.change(column, generated=True, nullable=False)
            case exp.Reference() if column:
                self.foreign((column,), node)
            case exp.ForeignKey():
                reading.only(node, "expressions", "reference", "options", "delete", "update", "this")
                self.harmless(node)
                self.foreign(self.names(node.expressions), node.args["reference"])
            case exp.Identifier() | exp.Column():
                raise reading.refuse(node, "a column without a type", "give it one")
            case exp.IndexColumnConstraint():
                self.indexed = True
                self.indexes += _whole_columns(node.expressions, node.this, reading)
            case exp.ComputedColumnConstraint():
                raise reading.refuse(node, "a computed column", "compute it in the statements")
            case exp.OnUpdateColumnConstraint():
                raise reading.refuse(node, "ON UPDATE of a column", "assign it in the statements")
            case exp.CollateColumnConstraint():
                raise reading.refuse(node, "COLLATE", "use the database's own order")
            case _ if isinstance(node, _IGNORED_CONSTRAINTS):
                pass
            case _:
                raise reading.refuse(
                    node, f"the constraint {type(node).__name__.removesuffix('ColumnConstraint').upper()}"
                )

    def parameters(self, node: exp.Expr, *known: str) -> None:
        self.reading.only(node, *known)
        include = node.args.get("include")
        if isinstance(include, exp.Expr):
            self.reading.only(include)

    def names(self, nodes: list[Any]) -> tuple[str, ...]:
        names = []
        for node in nodes:
            inner = node.this if isinstance(node, exp.Ordered) else node
            if not isinstance(inner, exp.Column | exp.Identifier):
                raise self.reading.refuse(node, "a key of an expression or of a part of a column", "use whole columns")
            names.append(self.reading.name(inner))
        return tuple(names)

    def key(self, columns: tuple[str, ...], node: exp.Expr) -> None:
        if self.primary_key:
            raise self.reading.malformed(node, "a second primary key", "UNIQUE")
        self.primary_key = columns

    def change(self, column: str, **changes: Any) -> None:
        last = self.columns[-1]
        assert last.name == column
        self.columns[-1] = replace(last, **changes)

    def numbered(self, column: str, node: exp.Expr) -> None:
        """SQLite's AUTOINCREMENT stands behind INTEGER PRIMARY KEY; AUTO_INCREMENT is part of a type's name there."""
        if self.reading.dialect is not Dialect.SQLITE:
            return
        if any(token.word("AUTO_INCREMENT", "IDENTITY") for token in self.reading.prepared.tokens):
            instead = "use INTEGER PRIMARY KEY, which numbers itself"
            raise self.reading.refuse(node, "AUTO_INCREMENT or IDENTITY, a part of a type's name in SQLite,", instead)
        if self.primary_key != (column,) or column not in self.integers:
            raise self.reading.malformed(node, "AUTOINCREMENT", "INTEGER PRIMARY KEY AUTOINCREMENT")

    def default(self, column: str, node: exp.Expr) -> None:
        given, dialect = node.this, self.reading.dialect
        if isinstance(given.unnest(), exp.Subquery | exp.Select):
            raise self.reading.malformed(node, "a query as a DEFAULT", "a value")
        if isinstance(given, exp.Column) and dialect is Dialect.POSTGRESQL:
            raise self.reading.malformed(node, "a column as a DEFAULT", "a value")
        bare = given.this if isinstance(given, exp.Neg | Plus) else given
        plain = isinstance(bare, _PLAIN_DEFAULTS) if dialect is Dialect.SQLITE else not isinstance(bare, exp.Binary)
        if not plain and dialect is not Dialect.POSTGRESQL:
            raise self.reading.malformed(node, "an expression as a DEFAULT", "parentheses around it")
        value: Expression = expressions.expression(node.this, self.reading)
        self.change(column, default=value)

    def foreign(self, columns: tuple[str, ...], node: exp.Expr) -> None:
        self.reading.only(node, "this", "expressions", "options")
        self.harmless(node)
        target = node.this
        references: tuple[str, ...] = ()
        if isinstance(target, exp.Schema):
            references = self.names(target.expressions)
            target = target.this
        name, _ = queries.table(target, self.reading)
        self.foreign_keys.append(ForeignKey(columns, name, references))

    def harmless(self, node: exp.Expr) -> None:
        options = [str(option).upper() for option in node.args.get("options") or ()]
        options += [
            f"ON {word.upper()} {node.args[word]}".upper() for word in ("delete", "update") if node.args.get(word)
        ]
        for option in options:
            if not option.endswith(_HARMLESS_OPTIONS):
                raise self.reading.refuse(
                    node, f"{option} of a foreign key", "delete or update the rows in the procedure"
                )


def _index(node: exp.Create, tables: dict[str, Table], reading: Reading) -> None:
    if not node.args.get("unique"):
        _plain_index(node, tables, reading)
        return
    reading.only(node, "this", "kind", "unique", "exists", "concurrently")
    index = node.this
    reading.only(index, "this", "table", "params")
    parameters = index.args.get("params")
    if parameters is None:
        raise reading.malformed(node, "an index without columns", "(column, …)")
    if parameters.args.get("where") is not None:
        raise reading.refuse(node, "a unique index of some rows", "use a whole key")
    reading.only(parameters, "columns", "using")
    name, _ = queries.table(index.args["table"], reading)
    table = tables.get(name)
    if table is None:
        raise reading.malformed(node, f"an index of the unknown table '{name}'", "a table made before")
    columns = _Reader(name, reading).names(parameters.args.get("columns") or [])
    if missing := set(columns) - {column.name for column in table.columns}:
        raise reading.malformed(node, f"a key of the unknown column '{min(missing)}'", "a column of the table")
    tables[name] = replace(table, uniques=(*table.uniques, columns))


def _plain_index(node: exp.Create, tables: dict[str, Table], reading: Reading) -> None:
    """Kept if it is one of whole columns of a known table; any other is left out, since no answer depends on it."""
    index = node.this
    parameters = index.args.get("params")
    if parameters is None or parameters.args.get("where") is not None or index.args.get("table") is None:
        return
    name, _ = queries.table(index.args["table"], reading)
    table = tables.get(name)
    if table is None:
        return
    known = {column.name for column in table.columns}
    found = _whole_columns(parameters.args.get("columns") or [], index.this, reading)
    made = [one for one in found if set(one.columns) <= known]
    tables[name] = replace(table, indexes=(*table.indexes, *made))


def _whole_columns(parts: list[exp.Expr], label: exp.Expr | None, reading: Reading) -> list[Index]:
    """The index of these parts, if all of them are columns as they are."""
    columns = [part.this if isinstance(part, exp.Ordered) else part for part in parts]
    if not columns or not all(isinstance(column, exp.Column | exp.Identifier) for column in columns):
        return []
    return [Index(tuple(map(reading.name, columns)), None if label is None else reading.name(label))]


def _resolved(table: Table, tables: dict[str, Table]) -> Table:
    """Foreign keys that name no columns refer to the primary key."""
    keys = []
    for key in table.foreign_keys:
        target = tables.get(key.table)
        if target is None:
            raise MalformedProgram(
                str(table.place), f"a foreign key to the unknown table '{key.table}'", "a table of the schema"
            )
        keys.append(replace(key, references=key.references or target.primary_key))
    return replace(table, foreign_keys=tuple(keys))
