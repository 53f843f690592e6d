"""Random schemas and expressions: mostly well typed, some deliberately not; many nulls and edges."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from random import Random

from isolde.tx import expressions as ex
from isolde.tx import queries as qu
from isolde.tx import schema as sc
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary, Function

INT, DEC, FLOAT, TEXT, BOOL, TIME = "int", "dec", "float", "text", "bool", "time"
KINDS = {
    sc.Kind.INTEGER: INT,
    sc.Kind.DECIMAL: DEC,
    sc.Kind.FLOAT: FLOAT,
    sc.Kind.TEXT: TEXT,
    sc.Kind.BOOLEAN: BOOL,
    sc.Kind.TIMESTAMP: TIME,
}
INTS = (0, 1, 1, 2, 2, 3, 4, 5, 7, 10, 42, 100)
EDGES = (2**31 - 1, 2**31, 2**15, 2**63 - 1, 10**12)
DECS = tuple(map(Decimal, ("0.00", "0.5", "1.50", "2.25", "3.14", "10.00", "0.05", "99.99", "7.125")))
FLOATS = (0.0, 0.5, 1.5, 2.25, 4.0, 10.75)
TEXTS = ("", "a", "b", "A", "ab", "Ab", "abc", "1", "0", "0.9", "1a", "10", "x%", "a_b", "b ", " 2", "hello")
COMPARE = (
    Binary.EQUAL,
    Binary.EQUAL,
    Binary.NOT_EQUAL,
    Binary.LESS,
    Binary.LESS_EQUAL,
    Binary.GREATER,
    Binary.GREATER_EQUAL,
)


@dataclass(frozen=True)
class Scope:
    """Columns that an expression may use: (table name, column, kind)."""

    columns: tuple[tuple[str, str, str], ...]
    variables: tuple[tuple[str, str], ...] = ()


class ExpressionGenerator:
    def __init__(self, seed: int, dialect: Dialect) -> None:
        self.random = Random(seed)
        self.dialect = dialect
        self.pg = dialect is Dialect.POSTGRESQL
        self.my = dialect is Dialect.MYSQL
        self.wild = 0.04 if self.pg else 0.15
        self.schema = self.make_schema()

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    # Schema

    def make_schema(self) -> sc.Schema:
        first = sc.Table(
            "t0",
            (
                sc.Column("id", sc.INTEGER, generated=self.chance(0.4)),
                sc.Column("a", sc.INTEGER),
                sc.Column("d", sc.decimal(8, 2), default=ex.Literal(Decimal("1.50")) if self.chance(0.5) else None),
                sc.Column("s", sc.Type(sc.Kind.TEXT, length=10)),
                sc.Column("b", sc.BOOLEAN),
            ),
            ("id",),
            uniques=(("a",),) if self.chance(0.5) else (),
            checks=(sc.Check(ex.BinaryOperation(Binary.LESS, ex.Name("a"), ex.Literal(90))),)
            if self.chance(0.4)
            else (),
        )
        foreign = (sc.ForeignKey(("r",), "t0", ("id",)),) if self.chance(0.6) else ()
        second = sc.Table(
            "t1",
            (
                sc.Column("k", sc.INTEGER, nullable=False),
                sc.Column("l", sc.INTEGER, nullable=False),
                sc.Column("r", sc.INTEGER),
                sc.Column("f", sc.FLOAT),
                sc.Column(
                    "n", sc.BIGINT, nullable=self.chance(0.5), default=ex.Literal(7) if self.chance(0.6) else None
                ),
            ),
            ("k", "l"),
            uniques=(("r", "l"),) if self.chance(0.3) else (),
            foreign_keys=foreign,
        )
        key = ("u",) if self.chance(0.5) else ()
        third = sc.Table(
            "t2",
            (
                sc.Column("u", sc.Type(sc.Kind.TEXT, length=8), nullable=not key),
                sc.Column("v", sc.INTEGER),
                sc.Column("w", sc.decimal(10, 3)),
            ),
            key,
            uniques=(("v",),) if self.chance(0.3) else (),
        )
        return sc.Schema.of(first, second, third)

    # Expressions

    def scope(self, *names: tuple[str, str]) -> Scope:
        columns = [
            (alias, column.name, KINDS[column.type.kind])
            for alias, table in names
            for column in self.schema.tables[table].columns
        ]
        return Scope(tuple(columns))

    def constant(self, kind: str) -> ex.Expression:
        if self.chance(0.08):
            return ex.Literal(None)
        pick = self.random.choice
        match kind:
            case "int":
                value = pick(EDGES) if self.chance(0.03) else pick(INTS)
                literal: ex.Expression = ex.Literal(value)
                return ex.UnaryOperation(ex.Unary.NEGATE, literal) if value and self.chance(0.15) else literal
            case "dec":
                literal = ex.Literal(pick(DECS))
                return ex.UnaryOperation(ex.Unary.NEGATE, literal) if self.chance(0.1) else literal
            case "float":
                return ex.Literal(pick(FLOATS))
            case "text":
                return ex.Literal(pick(TEXTS))
            case _:
                return ex.Literal(self.chance(0.5))

    def leaf(self, kind: str, scope: Scope) -> ex.Expression:
        names = [ex.Name(column, table) for table, column, found in scope.columns if found == kind]
        names += [ex.Name(variable) for variable, found in scope.variables if found == kind] * 2
        if names and self.chance(0.7):
            return self.random.choice(names)
        return self.constant(kind)

    def expression(self, kind: str, scope: Scope, depth: int = 2) -> ex.Expression:
        if self.chance(self.wild):
            kind = self.random.choice((INT, DEC, TEXT, BOOL, FLOAT))
        if kind == BOOL:
            return self.condition(scope, depth) if depth > 0 and self.chance(0.6) else self.leaf(kind, scope)
        if depth <= 0 or self.chance(0.35):
            return self.leaf(kind, scope)
        roll = self.random.random()
        if roll < 0.12:
            return self.case(kind, scope, depth)
        if roll < 0.2:
            arguments = tuple(self.expression(kind, scope, depth - 1) for _ in range(self.random.choice((2, 2, 3))))
            return ex.Call(Function.COALESCE, arguments)
        if roll < 0.25:
            pair = (self.expression(kind, scope, depth - 1), self.expression(kind, scope, 0))
            return ex.Call(Function.NULLIF, pair)
        if roll < 0.3 and kind != BOOL:
            function = self.random.choice((Function.GREATEST, Function.LEAST))
            return ex.Call(function, tuple(self.expression(kind, scope, depth - 1) for _ in range(2)))
        if roll < 0.36 and not self.pg:
            branches = tuple(self.expression(kind, scope, depth - 1) for _ in range(2))
            return ex.Call(Function.IF, (self.condition(scope, depth - 1), *branches))
        if roll < 0.42:
            return self.scalar(kind, scope)
        if roll < 0.5:
            return self.cast(kind, scope, depth)
        return self.text(scope, depth) if kind == TEXT else self.number(kind, scope, depth)

    def case(self, kind: str, scope: Scope, depth: int) -> ex.Expression:
        count = self.random.choice((1, 1, 2))
        otherwise = self.expression(kind, scope, depth - 1) if self.chance(0.7) else None
        if self.chance(0.3):
            other = self.random.choice((INT, TEXT))
            whens = tuple(
                ex.When(self.expression(other, scope, 0), self.expression(kind, scope, depth - 1)) for _ in range(count)
            )
            return ex.Case(self.expression(other, scope, depth - 1), whens, otherwise)
        whens = tuple(
            ex.When(self.condition(scope, depth - 1), self.expression(kind, scope, depth - 1)) for _ in range(count)
        )
        return ex.Case(None, whens, otherwise)

    def number(self, kind: str, scope: Scope, depth: int) -> ex.Expression:
        operators = [Binary.ADD, Binary.SUBTRACT, Binary.MULTIPLY]
        if kind != FLOAT:
            operators += [Binary.DIVIDE, Binary.MODULO]
        if kind == INT:
            operators += [Binary.BIT_AND, Binary.BIT_OR]
            if self.my:
                operators += [Binary.INTEGER_DIVIDE, Binary.BIT_XOR]
        roll = self.random.random()
        if roll < 0.2:
            functions = [Function.ABS, Function.SIGN]
            if kind != FLOAT:
                functions.append(Function.ROUND)
            if self.dialect is not Dialect.SQLITE:
                functions += [Function.FLOOR, Function.CEILING]
            function = self.random.choice(functions)
            if function is Function.ROUND and kind == DEC and self.dialect is not Dialect.SQLITE and self.chance(0.5):
                return ex.Call(
                    function, (self.expression(DEC, scope, depth - 1), ex.Literal(self.random.choice((0, 1, 2))))
                )
            return ex.Call(function, (self.expression(kind, scope, depth - 1),))
        if roll < 0.27:
            return ex.UnaryOperation(ex.Unary.NEGATE, self.expression(kind, scope, depth - 1))
        if roll < 0.33 and kind == INT:
            return ex.Call(Function.CHARACTER_LENGTH, (self.expression(TEXT, scope, depth - 1),))
        other = self.random.choice((INT, kind)) if kind == DEC else kind
        return ex.BinaryOperation(
            self.random.choice(operators),
            self.expression(kind, scope, depth - 1),
            self.expression(other, scope, depth - 1),
        )

    def text(self, scope: Scope, depth: int) -> ex.Expression:
        roll = self.random.random()
        if roll < 0.4:
            function = self.random.choice((Function.LOWER, Function.UPPER, Function.TRIM))
            return ex.Call(function, (self.expression(TEXT, scope, depth - 1),))
        if roll < 0.6:
            bounds = tuple(ex.Literal(self.random.choice((1, 1, 2, 3))) for _ in range(self.random.choice((1, 2))))
            return ex.Call(Function.SUBSTRING, (self.expression(TEXT, scope, depth - 1), *bounds))
        if self.dialect is Dialect.SQLITE or (self.pg and self.chance(0.5)):
            kind = TEXT if self.chance(0.7) else INT
            return ex.BinaryOperation(
                Binary.CONCATENATE, self.expression(TEXT, scope, depth - 1), self.expression(kind, scope, depth - 1)
            )
        kinds = (TEXT, INT) if self.chance(0.7) else (TEXT, DEC)
        return ex.Call(Function.CONCAT, tuple(self.expression(kind, scope, depth - 1) for kind in kinds))

    def cast(self, kind: str, scope: Scope, depth: int) -> ex.Expression:
        types = {INT: sc.BIGINT, DEC: sc.decimal(12, 2), TEXT: sc.TEXT, FLOAT: sc.FLOAT}
        if self.my and kind == INT and self.chance(0.2):
            return ex.Cast(self.expression(INT, scope, depth - 1), sc.Type(sc.Kind.INTEGER, bits=64, unsigned=True))
        sources = {INT: (INT, DEC, INT), DEC: (INT, DEC), TEXT: (INT, DEC, TEXT), FLOAT: (INT, FLOAT)}[kind]
        return ex.Cast(self.expression(self.random.choice(sources), scope, depth - 1), types[kind])

    def scalar(self, kind: str, scope: Scope) -> ex.Expression:
        table = self.random.choice(("t0", "t1", "t2"))
        inner = self.scope(("q", table))
        columns = [column for _, column, found in inner.columns if found == kind]
        if not columns:
            return self.leaf(kind, scope)
        name = ex.Name(self.random.choice(columns), "q")
        both = Scope(inner.columns + scope.columns, scope.variables)
        where = self.condition(both, 1) if self.chance(0.6) else None
        item: ex.Expression = name
        if not self.chance(0.12):
            choices = [ex.Aggregation.MIN, ex.Aggregation.MAX] if kind != INT else list(ex.Aggregation)
            if kind == TEXT and self.my:
                return self.leaf(kind, scope)
            if kind == BOOL:
                return self.leaf(kind, scope)
            item = ex.Aggregate(self.random.choice(choices), name)
        return ex.ScalarQuery(qu.Select((qu.Item(item),), qu.TableSource(table, "q"), where))

    def condition(self, scope: Scope, depth: int = 2) -> ex.Expression:
        roll = self.random.random()
        kind = self.random.choice((INT, INT, INT, DEC, TEXT, TEXT, FLOAT))
        negated = self.chance(0.3)
        if depth > 0 and roll < 0.2:
            operators = [Binary.AND, Binary.OR] + ([Binary.XOR] if self.my else [])
            return ex.BinaryOperation(
                self.random.choice(operators), self.condition(scope, depth - 1), self.condition(scope, depth - 1)
            )
        if depth > 0 and roll < 0.26:
            inner = self.condition(scope, depth - 1)
            # MariaDB takes NOT NOT x for x, also where the number itself is asked for.
            return inner if isinstance(inner, ex.UnaryOperation) else ex.UnaryOperation(ex.Unary.NOT, inner)
        if roll < 0.34:
            return ex.Is(self.expression(kind, scope, depth - 1), ex.Truth.NULL, negated)
        if roll < 0.38 and not (self.my and negated):
            return ex.Is(self.condition(scope, depth - 1), self.random.choice((ex.Truth.TRUE, ex.Truth.FALSE)), negated)
        if roll < 0.45:
            parts = [self.expression(kind, scope, depth - 1) for _ in range(3)]
            return ex.Between(parts[0], parts[1], parts[2], negated)
        if roll < 0.55:
            count = self.random.choice((1, 2, 3))
            items = tuple(self.expression(kind, scope, 0) for _ in range(count))
            return ex.InList(self.expression(kind, scope, depth - 1), items, negated)
        if roll < 0.6 and kind == TEXT:
            return ex.BinaryOperation(Binary.LIKE, self.expression(TEXT, scope, depth - 1), self.constant(TEXT))
        if roll < 0.66 and depth > 0:
            return self.subquery(kind, scope, negated)
        if roll < 0.7:
            pair = (self.expression(kind, scope, depth - 1), self.expression(kind, scope, depth - 1))
            return ex.BinaryOperation(Binary.SAME, *pair)
        if roll < 0.74 and not self.pg:
            return self.expression(kind, scope, depth - 1)
        return ex.BinaryOperation(
            self.random.choice(COMPARE),
            self.expression(kind, scope, depth - 1),
            self.expression(kind, scope, depth - 1),
        )

    def subquery(self, kind: str, scope: Scope, negated: bool) -> ex.Expression:
        table = self.random.choice(("t0", "t1", "t2"))
        inner = self.scope(("q", table))
        both = Scope(inner.columns + scope.columns, scope.variables)
        where = self.condition(both, 1) if self.chance(0.7) else None
        if self.chance(0.5):
            return ex.Exists(qu.Select((qu.Item(ex.Literal(1)),), qu.TableSource(table, "q"), where), negated)
        columns = [column for _, column, found in inner.columns if found == kind] or ["id"]
        if columns == ["id"]:
            table, kind = "t0", INT
            where = None
        query = qu.Select((qu.Item(ex.Name(columns[0], "q")),), qu.TableSource(table, "q"), where)
        return ex.InQuery(self.expression(kind, scope, 1), query, negated)
