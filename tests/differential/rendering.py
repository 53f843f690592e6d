"""SQL text of the nodes that the generator makes. It shares nothing with the product's renderer, so that each checks the other."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import assert_never

from isolde.tx import expressions as ex
from isolde.tx import queries as qu
from isolde.tx import schema as sc
from isolde.tx import statements as st
from isolde.tx.dialects import Dialect

PG, MY, LITE = Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLITE

CASTS = {
    PG: {"boolean": "boolean", "float": "double precision", "text": "text", "timestamp": "timestamp"},
    MY: {"boolean": "SIGNED", "float": "DOUBLE", "text": "CHAR", "timestamp": "DATETIME"},
    LITE: {"boolean": "NUMERIC", "float": "REAL", "text": "TEXT", "timestamp": "NUMERIC"},
}
NAMES = {
    LITE: {"char_length": "length", "greatest": "max", "least": "min", "if": "iif"},
    PG: {},
    MY: {},
}
NULLS = {None: "", True: " NULLS FIRST", False: " NULLS LAST"}


class Text:
    """Renders in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def literal(self, value: ex.Constant) -> str:
        match value:
            case None:
                return "NULL"
            case bool():
                # x IS TRUE asks for truth in SQLite, x IS 1 for equality.
                names = ("0", "1") if self.dialect is LITE else ("FALSE", "TRUE")
                return names[value]
            case int():
                return str(value) if value >= 0 else f"({value})"
            case Decimal():
                shown = format(value, "f")
                return shown if value >= 0 else f"({shown})"
            case float():
                if self.dialect is PG:
                    return f"CAST('{value!r}' AS double precision)"
                # SQLite has no word for a number that is too large.
                return f"{value!r}e0" if self.dialect is MY else f"({value!r})".replace("inf", "9e999")
            case str():
                escaped = value.replace("'", "''")
                if self.dialect is MY:
                    escaped = escaped.replace("\\", "\\\\")
                return f"'{escaped}'"
            case datetime():
                return f"'{value.isoformat(sep=' ')}'"
            case date():
                return f"'{value.isoformat()}'"

    def cast(self, type_: sc.Type) -> str:
        if type_.kind is sc.Kind.INTEGER:
            if self.dialect is MY:
                return "UNSIGNED" if type_.unsigned else "SIGNED"
            return (
                "INTEGER" if self.dialect is LITE else {16: "SMALLINT", 64: "BIGINT"}.get(type_.bits or 32, "INTEGER")
            )
        if type_.kind is sc.Kind.DECIMAL:
            if self.dialect is LITE:
                return "NUMERIC"
            size = f"({type_.precision}, {type_.scale})" if type_.precision else ""
            return ("DECIMAL" if self.dialect is MY else "NUMERIC") + size
        if type_.kind is sc.Kind.TEXT and type_.length:
            return {MY: "CHAR", PG: "varchar", LITE: "TEXT"}[self.dialect] + (
                f"({type_.length})" if self.dialect is not LITE else ""
            )
        if type_.kind is sc.Kind.TIMESTAMP:
            return CASTS[self.dialect]["timestamp"] + self.digits(type_)
        if type_.kind is sc.Kind.FLOAT and type_.bits == 32:
            return "FLOAT" if self.dialect is MY else "REAL"
        return CASTS[self.dialect][type_.kind.value]

    def expression(self, node: ex.Expression) -> str:
        show = self.expression
        match node:
            case ex.Literal():
                return self.literal(node.value)
            case ex.Name():
                return f"{node.table}.{node.name}" if node.table else node.name
            case ex.Parameter():
                raise AssertionError("parameters are replaced by values first")
            case ex.UnaryOperation():
                return f"({node.operator.value} {show(node.operand)})"
            case ex.BinaryOperation():
                return f"({show(node.left)} {self.operator(node.operator)} {show(node.right)})"
            case ex.Is():
                return f"({show(node.operand)} IS {'NOT ' if node.negated else ''}{node.truth.value.upper()})"
            case ex.Between():
                negated = "NOT " if node.negated else ""
                return f"({show(node.operand)} {negated}BETWEEN {show(node.low)} AND {show(node.high)})"
            case ex.InList():
                items = ", ".join(show(item) for item in node.items)
                return f"({show(node.operand)} {'NOT ' if node.negated else ''}IN ({items}))"
            case ex.InQuery():
                return f"({show(node.operand)} {'NOT ' if node.negated else ''}IN ({self.select(node.query)}))"
            case ex.Exists():
                return f"({'NOT ' if node.negated else ''}EXISTS ({self.select(node.query)}))"
            case ex.ScalarQuery():
                return f"({self.select(node.query)})"
            case ex.Case():
                operand = f" {show(node.operand)}" if node.operand is not None else ""
                whens = "".join(f" WHEN {show(when.condition)} THEN {show(when.result)}" for when in node.whens)
                otherwise = f" ELSE {show(node.otherwise)}" if node.otherwise is not None else ""
                return f"(CASE{operand}{whens}{otherwise} END)"
            case ex.Call():
                if node.function is ex.Function.NOW and self.dialect is LITE:
                    return "CURRENT_TIMESTAMP"
                name = NAMES[self.dialect].get(node.function.value, node.function.value)
                return f"{name}({', '.join(show(argument) for argument in node.arguments)})"
            case ex.Cast():
                return f"CAST({show(node.operand)} AS {self.cast(node.type)})"
            case ex.Aggregate():
                inner = "*" if node.operand is None else ("DISTINCT " if node.distinct else "") + show(node.operand)
                return f"{node.aggregation.value}({inner})"
            case _:
                assert_never(node)

    def operator(self, operator: ex.Binary) -> str:
        if operator is ex.Binary.SAME:
            return {PG: "IS NOT DISTINCT FROM", MY: "<=>", LITE: "IS"}[self.dialect]
        if operator is ex.Binary.BIT_XOR and self.dialect is PG:
            return "#"
        return operator.value.upper()

    def source(self, node: qu.Source) -> str:
        match node:
            case qu.TableSource():
                return f"{node.table} AS {node.alias}" if node.alias else node.table
            case qu.QuerySource():
                return f"({self.select(node.query)}) AS {node.alias}"
            case qu.Join():
                if node.on is None:
                    return f"{self.source(node.left)} CROSS JOIN {self.source(node.right)}"
                kind = "LEFT JOIN" if node.kind is qu.JoinKind.LEFT else "INNER JOIN"
                match node.on:
                    case ex.BinaryOperation(ex.Binary.EQUAL, ex.Name("a" | "v" as name, "x0"), ex.Name(other, "x1")):
                        if name == other and isinstance(node.left, qu.TableSource):
                            return f"{self.source(node.left)} {kind} {self.source(node.right)} USING ({name})"
                return f"{self.source(node.left)} {kind} {self.source(node.right)} ON {self.expression(node.on)}"
            case _:
                assert_never(node)

    def items(self, items: tuple[qu.Item | qu.Star, ...]) -> str:
        shown = []
        for item in items:
            if isinstance(item, qu.Star):
                shown.append(f"{item.table}.*" if item.table else "*")
            else:
                shown.append(self.expression(item.expression) + (f" AS {item.alias}" if item.alias else ""))
        return ", ".join(shown)

    def select(self, node: qu.Select) -> str:
        text = f"SELECT {'DISTINCT ' if node.distinct else ''}{self.items(node.items)}"
        if node.source is not None:
            text += f" FROM {self.source(node.source)}"
        if node.where is not None:
            text += f" WHERE {self.expression(node.where)}"
        if node.group_by:
            text += f" GROUP BY {', '.join(self.expression(part) for part in node.group_by)}"
        if node.having is not None:
            text += f" HAVING {self.expression(node.having)}"
        if node.order_by:
            text += " ORDER BY " + ", ".join(
                self.expression(order.expression) + (" DESC" if order.descending else "") + NULLS[order.nulls_first]
                for order in node.order_by
            )
        if node.limit is not None:
            text += f" LIMIT {self.expression(node.limit)}"
        if node.offset is not None:
            text += f" OFFSET {self.expression(node.offset)}"
        if node.lock is not None:
            shared = " LOCK IN SHARE MODE" if self.dialect is MY else " FOR SHARE"
            text += " FOR UPDATE" if node.lock is qu.Lock.UPDATE else shared
        return text

    def statement(self, node: st.Statement) -> str:
        match node:
            case qu.Select():
                return self.select(node)
            case st.Insert():
                return self.insert(node)
            case st.Update():
                text = f"UPDATE {node.table}{_alias(node.alias)} SET {self.assignments(node.assignments)}"
                where = "" if node.where is None else f" WHERE {self.expression(node.where)}"
                return text + where + self.returning(node.returning)
            case st.Delete():
                where = "" if node.where is None else f" WHERE {self.expression(node.where)}"
                return f"DELETE FROM {node.table}{_alias(node.alias)}{where}" + self.returning(node.returning)
            case _:
                assert_never(node)

    def returning(self, items: tuple[qu.Item | qu.Star, ...]) -> str:
        return f" RETURNING {self.items(items)}" if items else ""

    def assignments(self, assignments: tuple[st.Assignment, ...]) -> str:
        return ", ".join(f"{part.column} = {self.value(part.value)}" for part in assignments)

    def value(self, value: ex.Expression | st.Default) -> str:
        return "DEFAULT" if isinstance(value, st.Default) else self.expression(value)

    def insert(self, node: st.Insert) -> str:
        verb = {"insert": "INSERT", "replace": "REPLACE", "insert ignore": "INSERT IGNORE"}[node.mode.value]
        if self.dialect is LITE and node.mode is st.InsertMode.IGNORE:
            verb = "INSERT OR IGNORE"
        columns = f" ({', '.join(node.columns)})" if node.columns else ""
        if isinstance(node.source, qu.Select):
            rows = self.select(node.source)
            if self.dialect is LITE and node.on_conflict is not None and node.source.where is None:
                rows += " WHERE TRUE"
        elif node.source == ((),):
            rows = "() VALUES ()" if self.dialect is MY else "DEFAULT VALUES"
        else:
            rows = "VALUES " + ", ".join(f"({', '.join(self.value(cell) for cell in row)})" for row in node.source)
        text = f"{verb} INTO {node.table}{columns} {rows}"
        if node.on_conflict is not None:
            text += self.conflict(node.on_conflict)
        return text + self.returning(node.returning)

    def conflict(self, node: st.OnConflict) -> str:
        if self.dialect is MY:
            return " ON DUPLICATE KEY UPDATE " + _values(self.assignments(node.assignments))
        target = f" ({', '.join(node.columns)})" if node.columns else ""
        if not node.assignments:
            return f" ON CONFLICT{target} DO NOTHING"
        where = "" if node.where is None else f" WHERE {self.expression(node.where)}"
        return f" ON CONFLICT{target} DO UPDATE SET {self.assignments(node.assignments)}{where}"

    def table(self, table: sc.Table) -> str:
        lines = []
        rowid = self.dialect is LITE and len(table.primary_key) == 1
        for column in table.columns:
            kind = self.column(column.type)
            line = f"{column.name} {kind}"
            if rowid and column.name == table.primary_key[0] and column.type.kind is sc.Kind.INTEGER:
                lines.append(f"{column.name} INTEGER PRIMARY KEY")
                continue
            if column.generated:
                line = f"{column.name} " + {PG: "SERIAL", MY: "INT AUTO_INCREMENT"}[self.dialect]
            if not column.nullable:
                line += " NOT NULL"
            if column.default is not None:
                line += f" DEFAULT ({self.expression(column.default)})"
            lines.append(line)
        if table.primary_key and not (rowid and "INTEGER PRIMARY KEY" in " ".join(lines)):
            lines.append(f"PRIMARY KEY ({', '.join(table.primary_key)})")
        lines += [f"UNIQUE ({', '.join(unique)})" for unique in table.uniques]
        lines += [f"CHECK ({self.expression(check.condition)})" for check in table.checks]
        for key in table.foreign_keys:
            lines.append(f"FOREIGN KEY ({', '.join(key.columns)}) REFERENCES {key.table} ({', '.join(key.references)})")
        return f"CREATE TABLE {table.name} ({', '.join(lines)})"

    def column(self, type_: sc.Type) -> str:
        match type_.kind:
            case sc.Kind.BOOLEAN:
                return "BOOLEAN"
            case sc.Kind.INTEGER:
                name = {8: "TINYINT", 16: "SMALLINT", 24: "MEDIUMINT", 32: "INTEGER", 64: "BIGINT"}[type_.bits or 32]
                return name + (" UNSIGNED" if type_.unsigned else "")
            case sc.Kind.DECIMAL:
                return f"DECIMAL({type_.precision}, {type_.scale})"
            case sc.Kind.FLOAT:
                single = {PG: "REAL", MY: "FLOAT", LITE: "REAL"}
                double = {PG: "DOUBLE PRECISION", MY: "DOUBLE", LITE: "REAL"}
                return (single if type_.bits == 32 else double)[self.dialect]
            case sc.Kind.TEXT:
                return f"VARCHAR({type_.length})" if type_.length else "TEXT"
            case sc.Kind.TIMESTAMP:
                return {PG: "TIMESTAMP", MY: "DATETIME", LITE: "TIMESTAMP"}[self.dialect] + self.digits(type_)
            case sc.Kind.DATE | sc.Kind.ZONED:
                return type_.kind.value

    def digits(self, time: sc.Type) -> str:
        if self.dialect is MY:
            return "" if time.precision == 0 else f"({time.precision or 6})"
        return "" if time.precision is None else f"({time.precision})"


def _alias(name: str | None) -> str:
    return f" AS {name}" if name else ""


def _values(text: str) -> str:
    import re

    return re.sub(r"excluded\.(\w+)", r"VALUES(\1)", text)
