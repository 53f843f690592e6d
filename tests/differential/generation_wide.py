"""More of the language than ``generation`` makes: times, narrow and unsigned integers, long texts, queries within queries.

The schema keeps the first generator's names of tables and keys, so that its expressions are made here, too.
"""

from __future__ import annotations

from decimal import Decimal

from isolde.tx import expressions as ex
from isolde.tx import queries as qu
from isolde.tx import schema as sc
from isolde.tx import statements as st
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary, Function

from .generation import Generator
from .generation_expressions import BOOL, COMPARE, DEC, FLOAT, INT, KINDS, TEXT, TIME, Scope

TIMES = (
    "2024-01-31 10:20:30", "2024-02-29 00:00:00", "2024-02-29", "1999-12-31 23:59:59", "2024-01-31 10:20:30.5",
    "2024-01-31 10:20:30.123456", "2024-01-31 10:20", "2000-01-01 00:00:00.000", "2038-01-19 03:14:08",
)  # fmt: skip
ODD_TIMES = ("2023-02-29", "2024-13-01 00:00:00", "2024-01-31 25:00:00", "", "today?", "2024", "10:20:30")
LONG = ("0123456789", "abcdefghijklmnop", "ab   ", "a%b%c", "_b%", "%")
TINY, SMALL = sc.Type(sc.Kind.INTEGER, bits=8), sc.Type(sc.Kind.INTEGER, bits=16)


class WideGenerator(Generator):
    # Schema

    def make_schema(self) -> sc.Schema:
        pick = self.random.choice
        narrow = pick((TINY, SMALL, sc.Type(sc.Kind.INTEGER, bits=24))) if self.my else SMALL
        whole = sc.Type(sc.Kind.INTEGER, bits=pick((8, 16, 32, 64)), unsigned=True) if self.my else sc.BIGINT
        first = sc.Table(
            "t0",
            (
                sc.Column("id", sc.INTEGER, generated=self.chance(0.4)),
                sc.Column("a", narrow),
                sc.Column(
                    "m", self.time_type(), default=ex.Literal("2024-02-29 00:00:00") if self.chance(0.4) else None
                ),
                sc.Column("d", sc.decimal(*pick(((6, 0), (12, 4), (5, 5), (20, 2)))), default=self.default()),
                sc.Column("s", self.text_type()),
                sc.Column("b", sc.BOOLEAN),
                sc.Column("p", sc.INTEGER),
            ),
            ("id",),
            uniques=pick(((), (("a", "s"),), (("m",),), (("a",),))),
            foreign_keys=(sc.ForeignKey(("p",), "t0", ("id",)),) if self.chance(0.5) else (),
            checks=self.checks(),
        )
        second = sc.Table(
            "t1",
            (
                sc.Column("k", narrow, nullable=False),
                sc.Column("l", sc.INTEGER, nullable=False),
                sc.Column("r", sc.INTEGER),
                sc.Column("f", sc.Type(sc.Kind.FLOAT, bits=self.random.choice((32, None, None)))),
                sc.Column("n", whole, nullable=self.chance(0.5), default=ex.Literal(7) if self.chance(0.6) else None),
                sc.Column("a", sc.INTEGER),
            ),
            ("k", "l"),
            uniques=(("r", "n"),) if self.chance(0.3) else (),
            foreign_keys=tuple(sc.ForeignKey((name,), "t0", ("id",)) for name in ("r", "a") if self.chance(0.4)),
        )
        key = pick((("u",), ("y",), ()))
        third = sc.Table(
            "t2",
            (
                sc.Column("u", sc.Type(sc.Kind.TEXT, length=8), nullable="u" not in key),
                sc.Column("v", narrow if self.chance(0.5) else sc.BIGINT),
                sc.Column("w", sc.decimal(*pick(((10, 3), (4, 1))))),
                sc.Column("y", self.time_type(), nullable="y" not in key),
                sc.Column("z", sc.BOOLEAN),
            ),
            key,
            uniques=(("v", "z"),) if self.chance(0.3) else (),
        )
        return sc.Schema.of(first, second, third)

    def time_type(self) -> sc.Type:
        if self.dialect is Dialect.SQLITE:
            return sc.TIMESTAMP
        return sc.Type(
            sc.Kind.TIMESTAMP, precision=self.random.choice((0, 0, 3, None) if self.my else (None, None, 0, 2))
        )

    def text_type(self) -> sc.Type:
        # MySQL cannot have a TEXT in a key.
        length = self.random.choice((3, 10, 40, 10 if self.my else None))
        return sc.Type(sc.Kind.TEXT, length=length)

    def default(self) -> ex.Expression | None:
        if self.chance(0.5):
            return None
        return ex.BinaryOperation(Binary.DIVIDE, ex.Literal(Decimal("1.50")), ex.Literal(2))

    def checks(self) -> tuple[sc.Check, ...]:
        conditions = [
            ex.BinaryOperation(Binary.LESS, ex.Name("a"), ex.BinaryOperation(Binary.ADD, ex.Name("d"), ex.Literal(50))),
            ex.BinaryOperation(
                Binary.OR,
                ex.BinaryOperation(Binary.GREATER, ex.Name("m"), ex.Literal("2000-01-01")),
                ex.Is(ex.Name("s"), ex.Truth.NULL, True),
            ),
        ]
        return tuple(sc.Check(condition) for condition in conditions if self.chance(0.2))

    # Expressions

    def constant(self, kind: str) -> ex.Expression:
        if kind == TIME:
            if self.chance(0.05):
                return ex.Literal(None)
            return ex.Literal(self.random.choice(ODD_TIMES if self.chance(0.04) else TIMES))
        if kind == TEXT and self.chance(0.1):
            return ex.Literal(self.random.choice((*LONG, *TIMES)))
        if kind == INT and self.chance(0.04):
            return ex.Literal(self.random.choice((127, 128, 255, 256, 32767, 32768, 65535, 65536)))
        return super().constant(kind)

    def expression(self, kind: str, scope: Scope, depth: int = 2) -> ex.Expression:
        if self.chance(self.wild / 3):
            kind = self.random.choice((INT, TEXT, TIME))
        if kind == TIME:
            return self.time(scope, depth)
        if kind == TEXT and depth > 0 and self.chance(0.06):
            return ex.Cast(self.time(scope, depth - 1), sc.Type(sc.Kind.TEXT, length=self.random.choice((None, 10))))
        if kind == INT and depth > 0 and self.chance(0.08):
            return self.bits(scope, depth)
        if depth > 0 and self.chance(0.04):
            return self.limited(kind, scope)
        return super().expression(kind, scope, depth)

    def time(self, scope: Scope, depth: int) -> ex.Expression:
        if depth <= 0 or self.chance(0.5):
            return self.leaf(TIME, scope)
        roll = self.random.random()
        if roll < 0.2:
            return self.case(TIME, scope, depth)
        if roll < 0.4:
            return ex.Call(Function.COALESCE, tuple(self.time(scope, depth - 1) for _ in range(2)))
        if roll < 0.5:
            return ex.Call(Function.NULLIF, (self.time(scope, depth - 1), self.time(scope, 0)))
        if roll < 0.6:
            function = self.random.choice((Function.GREATEST, Function.LEAST))
            return ex.Call(function, tuple(self.time(scope, depth - 1) for _ in range(2)))
        if roll < 0.75:
            return self.scalar(TIME, scope)
        return ex.Cast(self.expression(self.random.choice((TIME, TIME, TEXT)), scope, 0), self.time_type())

    def bits(self, scope: Scope, depth: int) -> ex.Expression:
        if self.chance(0.5):
            operator = self.random.choice((ex.Unary.PLUS, ex.Unary.BIT_NOT))
            if self.pg:
                # It takes no plus before a text, which may be what is made here.
                operator = ex.Unary.BIT_NOT
            return ex.UnaryOperation(operator, self.expression(INT, scope, depth - 1))
        operator_ = self.random.choice((Binary.SHIFT_LEFT, Binary.SHIFT_RIGHT))
        count = ex.Literal(self.random.choice((0, 1, 2, 5, 31, 33, 64)))
        return ex.BinaryOperation(operator_, self.expression(INT, scope, depth - 1), count)

    def cast(self, kind: str, scope: Scope, depth: int) -> ex.Expression:
        if not self.my and kind == INT and self.chance(0.3):
            return ex.Cast(self.expression(INT, scope, depth - 1), self.random.choice((SMALL, sc.INTEGER)))
        if kind == INT and self.chance(0.15):
            return ex.Cast(self.expression(BOOL, scope, depth - 1), sc.INTEGER if self.pg else sc.BIGINT)
        if kind == TEXT and self.chance(0.4):
            source = self.random.choice((TEXT, INT, BOOL if self.pg else DEC))
            return ex.Cast(self.expression(source, scope, depth - 1), sc.Type(sc.Kind.TEXT, length=3))
        if kind == DEC and self.chance(0.3):
            return ex.Cast(self.expression(FLOAT, scope, 0), sc.decimal(*self.random.choice(((5, 1), (20, 6)))))
        return super().cast(kind, scope, depth)

    def condition(self, scope: Scope, depth: int = 2) -> ex.Expression:
        roll = self.random.random()
        if roll < 0.16:
            return self.about_times(scope, depth)
        if roll < 0.19:
            pair = (self.expression(TEXT, scope, 0), self.expression(TEXT, scope, 0))
            return ex.BinaryOperation(Binary.LIKE, *pair)
        if roll < 0.22 and depth > 0:
            truth = self.random.choice((ex.Truth.TRUE, ex.Truth.FALSE, ex.Truth.NULL))
            return ex.Is(self.condition(scope, depth - 1), truth, self.chance(0.6))
        if roll < 0.25 and depth > 0:
            return self.nested(scope)
        if roll < 0.28:
            columns = [ex.Name(column, table) for table, column, kind in scope.columns if kind == BOOL]
            if columns:
                return self.random.choice(columns)
        return super().condition(scope, depth)

    def about_times(self, scope: Scope, depth: int) -> ex.Expression:
        roll, negated = self.random.random(), self.chance(0.3)
        if roll < 0.1:
            operand, low, high = (self.time(scope, depth - 1) for _ in range(3))
            return ex.Between(operand, low, high, negated)
        if roll < 0.2:
            return ex.InList(self.time(scope, depth - 1), tuple(self.time(scope, 0) for _ in range(2)), negated)
        if roll < 0.3:
            return ex.Is(self.time(scope, depth - 1), ex.Truth.NULL, negated)
        if roll < 0.36:
            now = ex.Call(Function.NOW, ())
            return ex.BinaryOperation(self.random.choice(COMPARE), now, self.time(scope, 0))
        if roll < 0.42:
            return ex.BinaryOperation(Binary.SAME, self.time(scope, depth - 1), self.time(scope, 0))
        operator = self.random.choice(COMPARE)
        return ex.BinaryOperation(operator, self.time(scope, depth - 1), self.time(scope, depth - 1))

    def nested(self, scope: Scope) -> ex.Expression:
        """Two queries inside of each other; the inner one may use the columns of both, and of the query around them."""
        tables = self.random.choice(("t0", "t1", "t2")), self.random.choice(("t0", "t1", "t2"))
        outer = Scope(self.scope(("o", tables[0])).columns + scope.columns, scope.variables)
        both = Scope(self.scope(("i", tables[1])).columns + outer.columns, scope.variables)
        equal = ex.BinaryOperation(Binary.EQUAL, self.leaf(INT, both), self.leaf(INT, both))
        where = ex.BinaryOperation(Binary.AND, equal, Generator.condition(self, both, 0))
        inner = qu.Select((qu.Item(ex.Literal(1)),), qu.TableSource(tables[1], "i"), where)
        exists = ex.Exists(inner, self.chance(0.3))
        return ex.Exists(qu.Select((qu.Star(),), qu.TableSource(tables[0], "o"), exists), self.chance(0.3))

    def limited(self, kind: str, scope: Scope) -> ex.Expression:
        """The first or a later value of a column: in the order of the key, or of the column itself."""
        table = self.random.choice(("t0", "t1", "t2"))
        inner = self.scope(("q", table))
        columns = [column for _, column, found in inner.columns if found == kind]
        if not columns or kind == BOOL:
            return self.leaf(kind, scope)
        name = ex.Name(self.random.choice(columns), "q")
        where = Generator.condition(self, Scope(inner.columns + scope.columns, scope.variables), 0)
        key = self.schema.tables[table].primary_key
        shown = (name.name,) if not key or (self.chance(0.4) and not (self.my and kind == TEXT)) else key
        orders = tuple(qu.Order(ex.Name(column, "q"), self.chance(0.5)) for column in shown)
        offset = ex.Literal(1) if self.chance(0.3) else None
        source = qu.TableSource(table, "q")
        query = qu.Select((qu.Item(name),), source, where, (), None, orders, ex.Literal(1), offset)
        if self.chance(0.2) and not self.my:
            found = ex.InQuery(self.expression(kind, scope, 0), query, self.chance(0.3))
            return ex.Case(None, (ex.When(found, self.leaf(kind, scope)),), self.leaf(kind, scope))
        return ex.ScalarQuery(query)

    # Queries

    def kind(self) -> str:
        return self.random.choice((INT, INT, DEC, TEXT, BOOL, FLOAT, TIME, TIME))

    def select(self) -> qu.Select:
        roll = self.random.random()
        if roll < 0.12:
            return self.joined_query()
        if roll < 0.17:
            return self.starred()
        if roll < 0.22:
            return self.using()
        if roll < 0.27 and self.dialect is not Dialect.SQLITE:
            return self.locking()
        if roll < 0.32:
            return self.by_key()
        return super().select()

    def joined_query(self) -> qu.Select:
        """A query in FROM, plain or grouped, joined with a table."""
        table = self.random.choice(("t0", "t1", "t2"))
        inside = self.scope(("x", table))
        columns = self.random.sample(inside.columns, 2)
        where = Generator.condition(self, inside, 0) if self.chance(0.5) else None
        items = [qu.Item(ex.Name(column, "x"), f"y{place}") for place, (_, column, _) in enumerate(columns)]
        kinds = [kind for _, _, kind in columns]
        group: tuple[ex.Expression, ...] = ()
        if self.chance(0.5) and not (self.my and TEXT in kinds):
            group = tuple(item.expression for item in items)
            items.append(qu.Item(ex.Aggregate(ex.Aggregation.COUNT, None), "y2"))
        else:
            items.append(qu.Item(self.expression(INT, inside, 1), "y2"))
        kinds.append(INT)
        query = qu.Select(
            tuple(items), qu.TableSource(table, "x"), where, group, distinct=not group and self.chance(0.1)
        )
        derived = Scope(tuple(("z", f"y{place}", kind) for place, kind in enumerate(kinds)))
        other = self.random.choice(("t0", "t1", "t2"))
        scope = Scope(derived.columns + self.scope(("x0", other)).columns)
        if self.chance(0.7):
            on: ex.Expression | None = ex.BinaryOperation(
                Binary.EQUAL, ex.Name("y2", "z"), self.leaf(INT, self.scope(("x0", other)))
            )
        else:
            on = Generator.condition(self, scope, 0)
        sides: tuple[qu.Source, qu.Source] = qu.QuerySource(query, "z"), qu.TableSource(other, "x0")
        if self.chance(0.5):
            sides = sides[1], sides[0]
        kind = self.random.choice(list(qu.JoinKind))
        shown = tuple(qu.Item(self.expression(self.kind(), scope, 1), f"c{place}") for place in range(2))
        return qu.Select(shown, qu.Join(kind, *sides, on), self.condition(scope, 1) if self.chance(0.5) else None)

    def starred(self) -> qu.Select:
        source, scope = self.source()
        names = sorted({table for table, _, _ in scope.columns})
        items: list[qu.Item | qu.Star] = [qu.Star(self.random.choice(names))]
        items.append(qu.Item(self.expression(self.kind(), scope, 1), "c0"))
        return qu.Select(tuple(items), source, self.condition(scope, 1))

    def using(self) -> qu.Select:
        """The tables have a column name in common: it is written as USING."""
        tables, name = self.random.choice(((("t0", "t1"), "a"), (("t1", "t0"), "a"), (("t2", "t2"), "v")))
        on = ex.BinaryOperation(Binary.EQUAL, ex.Name(name, "x0"), ex.Name(name, "x1"))
        scope = self.scope(("x0", tables[0]), ("x1", tables[1]))
        kind = self.random.choice(list(qu.JoinKind))
        source = qu.Join(kind, qu.TableSource(tables[0], "x0"), qu.TableSource(tables[1], "x1"), on)
        items = (qu.Item(ex.Name(name), "c0"), qu.Item(self.expression(self.kind(), scope, 1), "c1"))
        return qu.Select(items, source, self.condition(scope, 1) if self.chance(0.5) else None)

    def locking(self) -> qu.Select:
        table = self.random.choice(("t0", "t1", "t2"))
        scope = self.scope((table, table))
        return qu.Select(
            (qu.Star(),), qu.TableSource(table), self.condition(scope, 1), lock=self.random.choice(list(qu.Lock))
        )

    def by_key(self) -> qu.Select:
        """In the order of columns with nulls, the key last."""
        table = self.random.choice(("t0", "t1"))
        scope = self.scope(("x", table))
        first = [(column, kind) for _, column, kind in scope.columns if not (self.my and kind == TEXT)]
        column, _ = self.random.choice(first)
        names = (column, *self.schema.tables[table].primary_key)
        orders = tuple(
            qu.Order(
                ex.Name(name, "x"),
                self.chance(0.5),
                self.random.choice((None, True, False)) if not self.my else None,
            )
            for name in dict.fromkeys(names)
        )
        items = tuple(qu.Item(order.expression) for order in orders)
        limit = ex.Literal(self.random.choice((1, 2, 5)))
        return qu.Select(items, qu.TableSource(table, "x"), self.condition(scope, 1), (), None, orders, limit)

    def grouped(self, source: qu.Source, scope: Scope, where: ex.Expression | None) -> qu.Select:
        if self.chance(0.4):
            return super().grouped(source, scope, where)
        keys = [self.group_key(scope) for _ in range(self.random.choice((1, 1, 2)))]
        group = tuple(dict.fromkeys(key for key in keys if not isinstance(key, ex.Literal)))
        items = [qu.Item(key, f"g{place}") for place, key in enumerate(group)]
        items += [qu.Item(self.aggregate(scope), f"h{place}") for place in range(2)]
        having = None
        if self.chance(0.5):
            kind = self.random.choice((INT, DEC, TIME))
            aggregation = self.random.choice((ex.Aggregation.MIN, ex.Aggregation.MAX, ex.Aggregation.COUNT))
            operand = self.leaf(kind, scope)
            compared = self.constant(INT if aggregation is ex.Aggregation.COUNT else kind)
            having = ex.BinaryOperation(self.random.choice(COMPARE), ex.Aggregate(aggregation, operand), compared)
            if self.chance(0.3):
                null = ex.Is(ex.Aggregate(ex.Aggregation.MAX, self.leaf(TIME, scope)), ex.Truth.NULL, True)
                having = ex.BinaryOperation(Binary.OR, having, null)
        orders = tuple(qu.Order(item.expression, self.chance(0.5)) for item in items) if self.chance(0.3) else ()
        return qu.Select(tuple(items), source, where, group, having, orders)

    def group_key(self, scope: Scope) -> ex.Expression:
        kind = self.random.choice((INT, BOOL, TIME, TIME, DEC, TEXT))
        names = [ex.Name(column, table) for table, column, found in scope.columns if found == kind]
        if names and (self.my or self.chance(0.5)):
            return self.random.choice(names)
        found = self.expression(kind, scope, 1)
        columns = any(isinstance(part, ex.Name) for part in (found, *getattr(found, "arguments", ())))
        return found if columns or not names else self.random.choice(names)

    def aggregate(self, scope: Scope) -> ex.Expression:
        if self.chance(0.3):
            aggregation = self.random.choice((ex.Aggregation.MIN, ex.Aggregation.MAX, ex.Aggregation.COUNT))
            return ex.Aggregate(aggregation, self.time(scope, 1), self.chance(0.15))
        return super().aggregate(scope)

    # Changes

    def insert(self) -> st.Insert:
        made = super().insert()
        table = self.schema.tables[made.table]
        if self.chance(0.04):
            return st.Insert(made.table, (), ((),), None, made.returning)
        if self.chance(0.15) and not isinstance(made.source, qu.Select) and made.mode is st.InsertMode.PLAIN:
            rows = tuple(tuple(self.cell(column, table) for column in table.columns) for _ in made.source)
            return st.Insert(made.table, (), rows, made.on_conflict, made.returning)
        return made

    def cell(self, column: sc.Column, table: sc.Table, scope: Scope | None = None) -> ex.Expression | st.Default:
        if column.name == "p" and self.chance(0.8):
            return ex.Literal(self.random.choice((None, None, 1, 2, 3, 4)))
        return super().cell(column, table, scope)

    def plain(self, column: sc.Column) -> ex.Expression:
        if KINDS[column.type.kind] == TIME:
            return ex.Literal(self.random.choice(TIMES))
        return super().plain(column)

    def update(self) -> st.Update:
        made = super().update()
        if not self.chance(0.4):
            return made
        table = self.schema.tables[made.table]
        scope = self.scope(("x", made.table))
        targets = [column for column in table.columns if column.name not in table.primary_key and column.name != "a"]
        target = self.random.choice(targets)
        value = self.cell(target, table, scope)
        return st.Update(
            made.table, (st.Assignment(target.name, value),), self.condition(scope, 1), "x", made.returning
        )

    def delete(self) -> st.Delete:
        made = super().delete()
        # MariaDB 10.11 has no alias there.
        if self.my or not self.chance(0.4):
            return made
        scope = self.scope(("x", made.table))
        where = ex.BinaryOperation(Binary.AND, self.condition(scope, 1), self.condition(scope, 1))
        return st.Delete(made.table, where, "x", made.returning)
