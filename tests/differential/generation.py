"""Random statements over random tables, with many ties.

What a database leaves open is not asked for: LIMIT only with an order by key, no sums of floats that round.
"""

from __future__ import annotations

from isolde.tx import expressions as ex
from isolde.tx import queries as qu
from isolde.tx import schema as sc
from isolde.tx import statements as st
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary
from isolde.tx.walk import parts

from .generation_expressions import BOOL, COMPARE, DEC, FLOAT, INT, KINDS, TEXT, ExpressionGenerator, Scope


class Generator(ExpressionGenerator):
    def source(self) -> tuple[qu.Source, Scope]:
        tables = [self.random.choice(("t0", "t1", "t2")) for _ in range(self.random.choice((1, 1, 1, 2, 2, 3)))]
        named = [(f"x{place}", table) for place, table in enumerate(tables)]
        source: qu.Source = qu.TableSource(tables[0], "x0")
        for place in range(1, len(named)):
            so_far = self.scope(*named[: place + 1])
            left, right = self.scope(*named[:place]), self.scope(named[place])
            kind = qu.JoinKind.LEFT if self.chance(0.4) else qu.JoinKind.INNER
            on: ex.Expression | None
            ints = [ex.Name(column, alias) for alias, column, found in left.columns if found == INT]
            others = [ex.Name(column, alias) for alias, column, found in right.columns if found == INT]
            if self.chance(0.7):
                on = ex.BinaryOperation(Binary.EQUAL, self.random.choice(ints), self.random.choice(others))
                if self.chance(0.3):
                    on = ex.BinaryOperation(Binary.AND, on, self.condition(so_far, 1))
            else:
                on = self.condition(so_far, 1)
            if kind is qu.JoinKind.INNER and self.chance(0.1):
                on = None
            source = qu.Join(kind, source, qu.TableSource(named[place][1], named[place][0]), on)
        return source, self.scope(*named)

    def kind(self) -> str:
        return self.random.choice((INT, INT, DEC, TEXT, BOOL, FLOAT))

    def select(self) -> qu.Select:
        if self.chance(0.12):
            none = Scope(())
            items = tuple(qu.Item(self.expression(self.kind(), none, 3), f"c{place}") for place in range(2))
            return qu.Select(items)
        source, scope = self.source()
        where = self.condition(scope) if self.chance(0.7) else None
        if self.chance(0.3):
            return self.grouped(source, scope, where)
        if self.chance(0.12):
            return qu.Select((qu.Star(),), source, where) if isinstance(source, qu.TableSource) else self.select()
        if self.chance(0.1):
            inner = qu.Select(
                tuple(qu.Item(ex.Name(c, t), f"y{p}") for p, (t, c, _) in enumerate(scope.columns)), source, where
            )
            outer = Scope(tuple(("z", f"y{place}", kind) for place, (_, _, kind) in enumerate(scope.columns)))
            items = tuple(qu.Item(self.expression(self.kind(), outer), f"c{place}") for place in range(2))
            return qu.Select(items, qu.QuerySource(inner, "z"), self.condition(outer) if self.chance(0.5) else None)
        items = tuple(
            qu.Item(self.expression(self.kind(), scope), f"c{place}") for place in range(self.random.choice((1, 2, 3)))
        )
        distinct = self.chance(0.2)
        orders: tuple[qu.Order, ...] = ()
        limit = None
        if self.chance(0.4):
            # Ordered by all that is shown: what is left open are only equal rows.
            varying = [item for item in items if any(isinstance(part, ex.Name) for part in parts(item.expression))]
            orders = tuple(qu.Order(item.expression, self.chance(0.4)) for item in varying)
            if len(varying) == len(items) and self.chance(0.5):
                limit = ex.Literal(self.random.choice((0, 1, 2, 3)))
        offset = ex.Literal(1) if limit is not None and self.chance(0.3) else None
        return qu.Select(items, source, where, (), None, orders, limit, offset, distinct)

    def grouped(self, source: qu.Source, scope: Scope, where: ex.Expression | None) -> qu.Select:
        keys = [ex.Name(column, table) for table, column, kind in scope.columns if kind != TEXT]
        group: tuple[ex.Expression, ...] = ()
        if self.chance(0.7):
            group = tuple(dict.fromkeys(self.random.choice(keys) for _ in range(self.random.choice((1, 1, 2)))))
        items = [qu.Item(key, f"g{place}") for place, key in enumerate(group)]
        for place in range(self.random.choice((1, 2))):
            items.append(qu.Item(self.aggregate(scope), f"h{place}"))
        having = None
        if self.chance(0.3):
            having = ex.BinaryOperation(
                self.random.choice(COMPARE), ex.Aggregate(ex.Aggregation.COUNT, None), self.constant(INT)
            )
        return qu.Select(tuple(items), source, where, group, having)

    def aggregate(self, scope: Scope) -> ex.Expression:
        aggregation = self.random.choice(list(ex.Aggregation))
        if aggregation is ex.Aggregation.COUNT and self.chance(0.4):
            return ex.Aggregate(aggregation, None)
        kinds = [INT, INT, DEC, FLOAT]
        if aggregation in (ex.Aggregation.MIN, ex.Aggregation.MAX, ex.Aggregation.COUNT) and not self.my:
            kinds.append(TEXT)
        operand = self.expression(self.random.choice(kinds), scope, 1)
        node: ex.Expression = ex.Aggregate(aggregation, operand, self.chance(0.15))
        if self.chance(0.15) and aggregation is not ex.Aggregation.MIN:
            node = ex.BinaryOperation(Binary.ADD, node, ex.Literal(1))
        return node

    def cell(self, column: sc.Column, table: sc.Table, scope: Scope | None = None) -> ex.Expression | st.Default:
        kind = KINDS[column.type.kind]
        if self.chance(0.06) and self.dialect is not Dialect.SQLITE:
            return st.Default()
        if column.name in ("id", "k", "l", "a", "r"):
            if self.chance(0.05):
                return ex.Literal(None)
            return ex.Literal(self.random.randrange(1, 8 if column.name != "id" else 14))
        if scope is not None and self.chance(0.5):
            return self.expression(kind, scope, 2)
        del table
        if self.chance(0.15):
            return self.expression(kind, Scope(()), 2)
        return self.constant(kind)

    def insert(self) -> st.Insert:
        table = self.schema.tables[self.random.choice(("t0", "t1", "t2"))]
        columns = [
            column for column in table.columns if self.chance(0.85) or (not column.nullable and self.chance(0.9))
        ]
        columns = columns or [table.columns[0]]
        names = tuple(column.name for column in columns)
        mode, conflict = st.InsertMode.PLAIN, None
        source: tuple[tuple[ex.Expression | st.Default, ...], ...] | qu.Select
        count = self.random.choice((1, 1, 1, 2, 3))
        source = tuple(tuple(self.cell(column, table) for column in columns) for _ in range(count))
        if self.chance(0.12):
            scope = self.scope(("x0", table.name))
            if table.name == "t0" and "id" not in names:
                columns = [table.columns[0], *columns]
                names = tuple(column.name for column in columns)
            items = tuple(qu.Item(self.cell_query(column, scope), f"c{place}") for place, column in enumerate(columns))
            source = qu.Select(items, qu.TableSource(table.name, "x0"), self.condition(scope, 1))
        roll = self.random.random()
        if roll < 0.25:
            conflict = self.conflict(table)
        elif roll < 0.32 and not self.pg:
            mode = st.InsertMode.REPLACE
        elif roll < 0.4 and self.dialect is Dialect.SQLITE:
            mode = st.InsertMode.IGNORE
        elif roll < 0.4 and self.my and not isinstance(source, qu.Select):
            mode = st.InsertMode.IGNORE
            source = tuple(tuple(self.plain(column) for column in columns) for _ in range(count))
        returning: tuple[qu.Item | qu.Star, ...] = ()
        if self.chance(0.2) and not (self.my and (conflict or mode is not st.InsertMode.PLAIN)):
            returning = (qu.Item(ex.Name(table.columns[0].name)), qu.Item(ex.Name(table.columns[1].name)))
        return st.Insert(table.name, names, source, conflict, returning, mode)

    def plain(self, column: sc.Column) -> ex.Expression:
        if KINDS[column.type.kind] == INT:
            return ex.Literal(self.random.randrange(1, 8))
        literal = self.constant(KINDS[column.type.kind])
        null = isinstance(literal, ex.Literal) and literal.value is None
        return ex.Literal("z") if null and not column.nullable else literal

    def cell_query(self, column: sc.Column, scope: Scope) -> ex.Expression:
        kind = KINDS[column.type.kind]
        if column.name in ("id", "k", "a", "v"):
            return ex.BinaryOperation(
                Binary.ADD, ex.Name(column.name, "x0"), ex.Literal(self.random.choice((3, 10, 20)))
            )
        return self.expression(kind, scope, 1)

    def conflict(self, table: sc.Table) -> st.OnConflict:
        keys = ([table.primary_key] if table.primary_key else []) + list(table.uniques)
        columns = self.random.choice(keys) if keys and not self.my else ()
        if (self.chance(0.3) or not keys) and not self.my:
            return st.OnConflict(columns if self.chance(0.7) else (), ())
        target = self.random.choice([column for column in table.columns if column.name not in ("id", "k", "l")])
        kind = KINDS[target.type.kind]
        roll = self.random.random()
        value: ex.Expression
        if roll < 0.4:
            value = ex.Name(target.name, "excluded")
        elif (roll < 0.7 and kind == INT and not self.my) or (kind == INT and self.my):
            value = ex.BinaryOperation(Binary.ADD, ex.Name(target.name, table.name), ex.Name(target.name, "excluded"))
        else:
            value = self.constant(kind)
        where = None
        if not self.my and self.chance(0.3):
            where = ex.BinaryOperation(
                Binary.LESS, ex.Name(table.columns[1].name, table.name), ex.Name(table.columns[1].name, "excluded")
            )
        return st.OnConflict(columns, (st.Assignment(target.name, value),), where)

    def update(self) -> st.Update:
        table = self.schema.tables[self.random.choice(("t0", "t1", "t2"))]
        scope = self.scope((table.name, table.name))
        columns = self.random.sample(table.columns, self.random.choice((1, 1, 2)))
        assignments = []
        for column in columns:
            value: ex.Expression | st.Default = self.cell(column, table, scope)
            if column.name in ("a", "id", "k") and self.chance(0.5):
                value = ex.BinaryOperation(Binary.ADD, ex.Name(column.name), ex.Literal(self.random.choice((1, 2, 30))))
            assignments.append(st.Assignment(column.name, value))
        where = self.condition(scope, 1) if self.chance(0.85) else None
        returning: tuple[qu.Item | qu.Star, ...] = ()
        if self.chance(0.15) and not self.my:
            returning = (qu.Star(),)
        return st.Update(table.name, tuple(assignments), where, None, returning)

    def delete(self) -> st.Delete:
        table = self.random.choice(("t0", "t1", "t2"))
        scope = self.scope((table, table))
        where = self.condition(scope, 1)
        if self.chance(0.5):
            where = ex.BinaryOperation(Binary.AND, where, self.condition(scope, 1))
        return st.Delete(table, where, None, (qu.Star(),) if self.chance(0.15) else ())

    def statement(self) -> st.Statement:
        roll = self.random.random()
        if roll < 0.55:
            return self.select()
        if roll < 0.75:
            return self.insert()
        return self.update() if roll < 0.92 else self.delete()
