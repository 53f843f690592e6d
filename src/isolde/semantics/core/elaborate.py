"""The language to the typed core: queries. Changes, procedures and expressions have files of their own beside this one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, assert_never

from isolde.errors import ExecutionError
from isolde.semantics.core.catalog import Catalog
from isolde.semantics.core.dialects import Rules, rules_of
from isolde.semantics.core.elaborate_expressions import ExpressionElaborator
from isolde.semantics.core.labels import label
from isolde.semantics.core.nodes import Column, Constant, Expression
from isolde.semantics.core.relations import Derived, Distinct, Grouping, Join, OrderKey, Output, Query, Scan, Source
from isolde.semantics.core.scope import Aggregates, Named, Scope
from isolde.semantics.core.types import Sort, outside
from isolde.tx import expressions as tx
from isolde.tx import queries as qu
from isolde.tx.expressions import Name
from isolde.tx.queries import Item, JoinKind, QuerySource, Select, Star, TableSource
from isolde.tx.walk import has_aggregate, parts


class Elaborator:
    """Elaborates the statements of one unit of code; numbers of rows, values and variables are unique in it."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.dialect = catalog.dialect
        self._next = 0

    def fresh(self) -> int:
        self._next += 1
        return self._next

    def rules(self, changing: bool) -> Rules:
        return rules_of(self.dialect, changing)

    def query(self, select: Select, parent: Scope, rules: Rules, *, kept: bool = False, exists: bool = False) -> Query:
        """``kept``: what it gives is computed with or stored, and keeps the digits that nobody would see.

        ``exists``: only whether there is a row is asked.
        """
        return _QueryElaborator(self, select, parent, rules, kept).query(exists)


class _QueryElaborator:
    def __init__(self, elaborator: Elaborator, select: Select, parent: Scope, rules: Rules, kept: bool) -> None:
        self.elaborator, self.select, self.rules, self.kept = elaborator, select, rules, kept
        self.scope = parent.inside()
        self.expressions = ExpressionElaborator(elaborator, rules)
        self.derived: dict[int, Named] = {}

    def query(self, exists: bool) -> Query:
        scope, rules = self.scope, self.rules
        source = self._declared(self.select.source, False) if self.select.source is not None else None
        items = expanded(self.select.items, scope)
        select = self._without_aliases(self.select, items)
        shown = [expression for _, expression in items]
        orders = [order.expression for order in select.order_by]
        grouped = (
            bool(select.group_by)
            or select.having is not None
            or any(has_aggregate(expression) for expression in (*shown, *orders))
        )
        limit, offset = self._bound(select.limit, "LIMIT"), self._bound(select.offset, "OFFSET")
        if isinstance(source, Join):
            source = self._with_conditions(self.select.source, source)
        where = self.expressions.conjuncts(select.where, scope)
        keys = [self.expressions.expression(expression, scope) for expression in select.group_by]
        having: tuple[Expression, ...] = ()
        if grouped:
            for expression in (*shown, *orders, *([select.having] if select.having is not None else [])):
                self._refuse_undetermined(expression, select)
            scope.aggregates = Aggregates(bool(select.group_by))
            having = self.expressions.conjuncts(select.having, scope, "HAVING")
        values = [self.expressions.expression(expression, scope) for expression in shown]
        outputs = tuple(
            Output(name, rules.value(value) if self.kept else rules.output(value), value.type)
            for (name, _), value in zip(items, values, strict=True)
        )
        distinct = self._distinct(values, select, shown) if select.distinct else None
        order = tuple(self._order_key(order) for order in select.order_by)
        grouping = None
        if grouped:
            assert scope.aggregates is not None
            open_ = tuple(
                key
                for key, expression in zip(keys, select.group_by, strict=True)
                if rules.equals_differ(key)
                and (not rules.folds_texts or any(expression in parts(output) for output in shown))
            )
            grouping = Grouping(
                tuple(map(rules.key, keys)),
                tuple(scope.aggregates.found),
                having,
                not select.group_by,
                open_,
            )
        query = Query(
            outputs=outputs,
            source=self._pruned(source) if self.derived else source,
            where=where,
            grouping=grouping,
            distinct=distinct,
            order=order,
            limit=limit,
            offset=offset,
            lock=select.lock,
            reads_rows=tuple(scope.reads_rows),
            reads_variables=tuple(scope.reads_variables),
            patience=select.patience,
        )
        return _existence(query, select) if exists else query

    # FROM

    def _declared(self, source: qu.Source, optional: bool) -> Source:
        """The names and columns of all sources, before any condition is read."""
        match source:
            case TableSource():
                scan = Scan(self.elaborator.fresh(), self.elaborator.catalog.table(source.table))
                self.scope.add_table(source.name, scan, optional)
                return scan
            case QuerySource():
                return self._declared_query(source)
            case qu.Join():
                left = self._declared(source.left, optional)
                outer = source.kind is JoinKind.LEFT
                return Join(outer, left, self._declared(source.right, optional or outer), ())
            case _:
                assert_never(source)

    def _declared_query(self, source: QuerySource) -> Derived:
        self.rules.check_derived_table(source.query)
        assert self.scope.parent is not None
        query = self.elaborator.query(source.query, self.scope.parent, self.rules)
        if query.correlated and not self.rules.correlates_derived_tables:
            raise outside("a query in FROM with columns of a query around it, in MySQL", "MariaDB does not find them")
        self.scope.reads_rows.update(dict.fromkeys(query.reads_rows))
        self.scope.reads_variables.update(dict.fromkeys(query.reads_variables))
        derived = Derived(self.elaborator.fresh(), query)
        columns: dict[str, Expression] = {
            output.name: Column(derived.id, place, self.rules.derived(output.type), False, False, output.name)
            for place, output in enumerate(query.outputs)
        }
        if len(columns) < len(query.outputs):
            raise ExecutionError("name", f"{source.alias} has two columns of one name")
        self.derived[derived.id] = self.scope.add(Named(source.alias, derived.id, columns))
        return derived

    def _with_conditions(self, node: qu.Source | None, source: Source | None) -> Source | None:
        if not isinstance(node, qu.Join) or not isinstance(source, Join):
            return source
        left, right = self._with_conditions(node.left, source.left), self._with_conditions(node.right, source.right)
        assert left is not None
        assert right is not None
        return Join(source.outer, left, right, self.expressions.conjuncts(node.on, self.scope))

    def _pruned(self, source: Source | None) -> Source | None:
        """Columns of a query in FROM that nobody reads are not computed (projection pruning)."""
        match source:
            case Join():
                left, right = self._pruned(source.left), self._pruned(source.right)
                assert left is not None
                assert right is not None
                return replace(source, left=left, right=right)
            case Derived(id_, query) if query.distinct is None:
                used = self.derived[id_].used
                if all(place in used or _costless(output.value) for place, output in enumerate(query.outputs)):
                    return source
                kept = tuple(
                    output if place in used else replace(output, value=Constant(None, output.type))
                    for place, output in enumerate(query.outputs)
                )
                return replace(source, query=replace(query, outputs=kept))
            case _:
                return source

    # SELECT, GROUP BY, ORDER BY

    def _without_aliases(self, select: Select, items: list[tuple[str, tx.Expression]]) -> Select:
        """ORDER BY and GROUP BY may name a column of the result, or give its number."""
        if not select.order_by and not select.group_by:
            return select
        for expression in (*(order.expression for order in select.order_by), *select.group_by):
            self.rules.check_arranging(expression)
        order_by = tuple(
            qu.Order(self._meant(order.expression, items, True), order.descending, order.nulls_first)
            for order in select.order_by
        )
        group_by = tuple(self._meant(expression, items, False) for expression in select.group_by)
        if order_by == select.order_by and group_by == select.group_by:
            return select
        return replace(select, order_by=order_by, group_by=group_by)

    def _meant(
        self, expression: tx.Expression, items: list[tuple[str, tx.Expression]], own_first: bool
    ) -> tx.Expression:
        if isinstance(expression, tx.Literal) and type(expression.value) is int:
            if not 1 <= expression.value <= len(items):
                raise ExecutionError("name", f"there is no column {expression.value} in the result")
            return items[expression.value - 1][1]
        if isinstance(expression, Name) and expression.table is None:
            column = any(expression.name in source.columns for source in self.scope.sources)
            found = list(dict.fromkeys(shown for name, shown in items if name == expression.name))
            if found and (own_first or not column):
                if len(found) > 1:
                    raise ExecutionError("name", f"{expression.name} is ambiguous in the result")
                return found[0]
        return expression

    def _bound(self, bound: tx.Expression | None, what: str) -> Expression | None:
        if bound is None:
            return None
        for part in parts(bound):
            plain = isinstance(part, Name) and part.contested is None
            if plain and any(part.name in source.columns for source in self.scope.sources):
                raise ExecutionError("type", f"{what} must not use columns")
        # It sees the queries around, and none of the columns of its own.
        outside_ = Scope(self.scope.parent, inner_table_hides_outer=self.scope.inner_table_hides_outer)
        found = self.rules.bound(self.expressions.expression(bound, outside_), what)
        self.scope.reads_rows.update(outside_.reads_rows)
        self.scope.reads_variables.update(outside_.reads_variables)
        return found

    def _order_key(self, order: qu.Order) -> OrderKey:
        nulls_first = order.nulls_first
        if nulls_first is None:
            nulls_first = order.descending if self.rules.nulls_last_ascending else not order.descending
        elif not self.rules.orders_nulls:
            raise outside("NULLS FIRST and NULLS LAST in MySQL", "order by x IS NULL first")
        key = self.rules.sort_key(self.expressions.expression(order.expression, self.scope))
        return OrderKey(key, order.descending, nulls_first)

    def _distinct(self, values: list[Expression], select: Select, shown: list[tx.Expression]) -> Distinct:
        rules = self.rules
        for order in select.order_by:
            if order.expression not in shown:
                if rules.results_are_determined:
                    raise ExecutionError("type", "for SELECT DISTINCT, ORDER BY expressions must appear in the result")
                raise outside("SELECT DISTINCT ordered by what is not in the result")
        for value in values:
            if rules.rounds_distinct_floats and value.type.sort is Sort.FLOAT and not isinstance(value, Column):
                raise outside(
                    "DISTINCT of computed floating-point numbers in MySQL",
                    "they are rounded on the way; cast to DECIMAL",
                )
        return Distinct(tuple(map(rules.key, values)), tuple(filter(rules.equals_differ, values)))

    # Groups

    def _refuse_undetermined(self, expression: tx.Expression, select: Select) -> None:
        """Refuses what has no one value in a group: a column that is no key of it and stands outside of an aggregate."""
        if expression in select.group_by or isinstance(expression, tx.Aggregate):
            return
        if isinstance(expression, Name):
            source = self._source(expression)
            if source is not None and not self._keyed(source, expression, select):
                what = f"column {expression.name}, which is not determined by GROUP BY,"
                if self.rules.results_are_determined:
                    raise ExecutionError("type", f"{what} must appear in GROUP BY or in an aggregate")
                raise outside(what, "add it to GROUP BY, or use MIN")
            return
        for part in _children(expression):
            if isinstance(part, Select):
                self._refuse_grouped_correlation(part)
            else:
                self._refuse_undetermined(part, select)

    def _refuse_grouped_correlation(self, query: Select) -> None:
        names = [part for part in parts(query) if isinstance(part, Name) and self._source(part) is not None]
        own: set[str] = set()
        for part in parts(query.source):
            if isinstance(part, TableSource) and part.table in self.elaborator.catalog.by_name:
                own |= {part.name, *self.elaborator.catalog.by_name[part.table].columns}
        if names and (query.source is None or any((name.table or name.name) not in own for name in names)):
            raise outside("a query inside of a grouped query that uses its columns")

    def _source(self, name: Name) -> Named | None:
        return next(
            (
                source
                for source in self.scope.sources
                if (name.table is None or source.name == name.table) and name.name in source.columns
            ),
            None,
        )

    def _keyed(self, source: Named, name: Name, select: Select) -> bool:
        columns = {
            expression.name
            for expression in select.group_by
            if isinstance(expression, Name) and self._source(expression) is source
        }
        if name.name in columns:
            return True
        key = source.scan.table.table.primary_key if source.scan is not None else ()
        return bool(key) and columns >= set(key)


def expanded(items: Iterable[Item | Star], scope: Scope) -> list[tuple[str, tx.Expression]]:
    """Names and expressions of a result; stars become columns."""
    found: list[tuple[str, tx.Expression]] = []
    for item in items:
        if isinstance(item, Item):
            found.append((label(item), item.expression))
        else:
            found.extend((name.name, name) for name in scope.stars(item.table))
    return found


def _costless(node: Expression) -> bool:
    return isinstance(node, (Column, Constant))


def _children(expression: tx.Expression) -> list[Any]:
    """Expressions and queries directly below."""
    found: list[Any] = []
    waiting: list[Any] = [getattr(expression, part.name) for part in fields(expression)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting.extend(part)
        elif isinstance(part, (*tx.Expression.__args__, Select)):
            found.append(part)
        elif isinstance(part, tx.When):
            waiting.extend((part.condition, part.result))
    return found


def _existence(query: Query, select: Select) -> Query:
    """What is left of a query that is only asked whether it has a row: neither its columns nor their order."""
    computed = query.grouping is not None and (
        query.grouping.whole or bool(query.grouping.having) or bool(query.grouping.aggregates)
    )
    if computed:
        return replace(query, order=())
    cut = query.offset is not None or not _lets_one_through(select.limit)
    if cut and (query.distinct is not None or query.grouping is not None):
        return replace(query, order=())
    limit = query.limit if cut else None
    return replace(query, outputs=(), order=(), distinct=None, grouping=None, limit=limit)


def _lets_one_through(limit: tx.Expression | None) -> bool:
    return limit is None or (isinstance(limit, tx.Literal) and type(limit.value) is int and limit.value > 0)
