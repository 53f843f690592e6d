"""The language to the typed core: INSERT, UPDATE, DELETE."""

from __future__ import annotations

from isolde.errors import ExecutionError
from isolde.semantics.core import relations as core
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.dialects import IdSource
from isolde.semantics.core.elaborate import Elaborator, expanded
from isolde.semantics.core.elaborate_expressions import ExpressionElaborator
from isolde.semantics.core.nodes import (
    Bound,
    Coalesce,
    Column,
    Constant,
    Expression,
    Fail,
    NextId,
    is_constant,
    is_null,
)
from isolde.semantics.core.relations import OnConflict, Output, RowChecks, Scan, Set
from isolde.semantics.core.scope import Named, Scope
from isolde.semantics.core.types import ANY, NULL, outside
from isolde.tx import statements as st
from isolde.tx.expressions import Literal, Name, Parameter
from isolde.tx.queries import Item, Select, Star, TableSource
from isolde.tx.schema import Column as TableColumn
from isolde.tx.statements import Assignment, Default, InsertMode
from isolde.tx.walk import parts


class ChangeElaborator:
    """Changes of one table."""

    def __init__(self, elaborator: Elaborator, parent: Scope) -> None:
        self.elaborator = elaborator
        self.catalog = elaborator.catalog
        self.rules = elaborator.rules(changing=True)
        self.expressions = ExpressionElaborator(elaborator, self.rules)
        self.scope = parent.inside()

    def statement(self, change: st.Change) -> core.Change:
        match change:
            case st.Update():
                return self._update(change)
            case st.Delete():
                return self._delete(change)
            case st.Insert():
                return self._insert(change)

    # UPDATE and DELETE

    def _update(self, update: st.Update) -> core.Update:
        info = self.catalog.table(update.table)
        scan = Scan(self.elaborator.fresh(), info)
        named = self.scope.add_table(update.alias or update.table, scan)
        where = self.expressions.conjuncts(update.where, self.scope)
        places = [info.column(assignment.column) for assignment in update.assignments]
        one_by_one = self.rules.assigns_one_by_one
        if len(set(places)) < len(places) and not one_by_one:
            raise ExecutionError("name", "a column is assigned twice")
        # MariaDB runs an UPDATE that also reads the table as one of several tables, which computes all values first.
        one_by_one = one_by_one and len(places) > 1 and not _reads(update, update.table)
        sets = self._sets(named, info, update.assignments, one_by_one)
        if update.returning and not self.rules.returns_updated:
            raise outside("UPDATE … RETURNING in MySQL", "read the row after the update")
        returning = self._returning(update.returning, scan, update.alias or update.table, deleted=False)
        self._refuse_own_changes(update)
        return core.Update(scan, where, sets, returning, tuple(self.scope.reads_variables))

    def _delete(self, delete: st.Delete) -> core.Delete:
        scan = Scan(self.elaborator.fresh(), self.catalog.table(delete.table))
        self.scope.add_table(delete.alias or delete.table, scan)
        where = self.expressions.conjuncts(delete.where, self.scope)
        returning = self._returning(delete.returning, scan, delete.alias or delete.table, deleted=True)
        self._refuse_own_changes(delete)
        return core.Delete(scan, where, returning, tuple(self.scope.reads_variables))

    def _refuse_own_changes(self, change: st.Update | st.Delete) -> None:
        if self.rules.changes_rows_as_found and _reads(change, change.table):
            raise outside(
                "a change in SQLite with a query over the table that it changes",
                "read first: the query may see the rows that were changed before, in the order of the plan",
            )

    def _sets(
        self, named: Named, info: TableInfo, assignments: tuple[Assignment, ...], one_by_one: bool
    ) -> tuple[Set, ...]:
        """``one_by_one``: an assignment sees what those before it assigned."""
        columns = named.columns
        sets: list[Set] = []
        for assignment in assignments:
            place = info.column(assignment.column)
            value = self._assigned(info, assignment)
            slot = None
            if one_by_one and len(assignments) > 1:
                slot = self.elaborator.fresh()
                # It may be null now, until the row is checked.
                named.columns = {**named.columns, assignment.column: Bound(slot, info.types[place], False, True)}
            sets.append(Set(place, value, slot))
        named.columns = columns
        return tuple(sets)

    def _assigned(self, info: TableInfo, assignment: Assignment) -> Expression:
        column = info.table.columns[info.column(assignment.column)]
        if isinstance(assignment.value, Default):
            if column.generated and self.rules.ids is IdSource.RESERVED:
                raise outside("UPDATE of a generated id to DEFAULT in MySQL")
            return self._default(info, column)
        value = self.rules.stored(self.expressions.expression(assignment.value, self.scope), column)
        return self.rules.stored_row_number(value) if info.column(column.name) == info.rowid else value

    def _default(self, info: TableInfo, column: TableColumn, when_inserted: bool = False) -> Expression:
        """``when_inserted``: a column without a default is an error when the row is made, not when the statement is read."""
        place = info.column(column.name)
        if column.generated and self.rules.ids is IdSource.SEQUENCE:
            return NextId(info.position, info.types[place])
        if place == info.rowid:
            # SQLite makes up the number of a row, whatever default its column has.
            return Constant(None, NULL)
        if column.default is None:
            if self.rules.needs_defaults and info.nonnull[place] and not column.generated:
                reason = f"{info.table.name}.{column.name} has no default value"
                if when_inserted:
                    return Fail("not-null", reason, info.types[place])
                raise ExecutionError("not-null", reason)
            return Constant(None, NULL)
        return self.rules.stored(self.expressions.expression(column.default, Scope()), column)

    def _returning(self, items: tuple[Item | Star, ...], scan: Scan, name: str, deleted: bool) -> tuple[Output, ...]:
        if not items:
            return ()
        if _reads(items, scan.table.table.name):
            raise outside("RETURNING with a query over the changed table", "query it before or after the change")
        scope = self.scope.parent.inside() if self.scope.parent is not None else Scope()
        scope.add_table(name, scan)
        outputs = []
        for shown, expression in expanded(items, scope):
            value = self.expressions.expression(expression, scope)
            seen = self.rules.output(value) if deleted else self.rules.returned(value)
            outputs.append(Output(shown, seen, value.type))
        self.scope.reads_variables.update(scope.reads_variables)
        return tuple(outputs)

    # INSERT

    def _insert(self, insert: st.Insert) -> core.Insert:
        info = self.catalog.table(insert.table)
        self._refuse_modes(insert, info)
        names = insert.columns or self._first_columns(insert, info)
        places = [info.column(name) for name in names]
        if len(set(places)) < len(places):
            raise ExecutionError("name", "a column is named twice in INSERT")
        if self.rules.has_on_duplicate_key and insert.on_conflict is not None:
            _refuse_odd_update(insert, info, names)
        defaults = {
            place: self._default(info, column) for place, column in enumerate(info.table.columns) if place not in places
        }
        query, source, rows = None, self.elaborator.fresh(), []
        if isinstance(insert.source, Select):
            query = self.elaborator.query(insert.source, self.scope, self.rules, kept=True)
            if len(query.outputs) != len(places):
                raise ExecutionError("type", "INSERT has not as many values as columns")
            cells = dict(defaults)
            for place, (position, output) in zip(places, enumerate(query.outputs), strict=True):
                value: Expression = Column(source, position, output.type, False, False, output.name)
                if self.rules.fails_when_planned and is_constant(output.value):
                    value = output.value
                cells[place] = self._cell(info, insert, place, value)
            rows.append(_in_order(cells))
        else:
            rows = self._rows(insert, info, places, defaults)
        scan = Scan(self.elaborator.fresh(), info)
        conflict = self._conflict(insert, info)
        return core.Insert(
            table=info,
            rows=tuple(rows),
            query=query,
            source=source,
            mode=insert.mode,
            conflict=conflict,
            scan=scan,
            returning=self._returning(insert.returning, scan, insert.table, deleted=False),
            supplied=info.generated is not None and info.generated in places,
            ordered=not isinstance(insert.source, Select) or self._ordered(insert.source),
            queries=_has_queries(insert.source),
            reads_variables=tuple(self.scope.reads_variables),
        )

    def _rows(
        self, insert: st.Insert, info: TableInfo, places: list[int], defaults: dict[int, Expression]
    ) -> list[tuple[Expression, ...]]:
        assert not isinstance(insert.source, Select)
        rows = []
        for values in insert.source:
            if len(values) != len(places):
                raise ExecutionError("type", "INSERT has not as many values as columns")
            cells = dict(defaults)
            for place, value in zip(places, values, strict=True):
                if isinstance(value, Default):
                    cells[place] = self._default(info, info.table.columns[place], when_inserted=True)
                else:
                    cells[place] = self._cell(info, insert, place, self.expressions.expression(value, self.scope))
            rows.append(_in_order(cells))
        if len(rows) > 1 and _has_queries(insert.source):
            self._refuse_rereading(insert, info, rows)
        return rows

    def _refuse_rereading(self, insert: st.Insert, info: TableInfo, rows: list[tuple[Expression, ...]]) -> None:
        if self.rules.shows_rows_before and _reads(insert.source, insert.table):
            raise outside("an INSERT of several rows whose values read the table", "MariaDB shows them the rows before")
        drawn = any(isinstance(cell, NextId) for row in rows for cell in row)
        if drawn and info.generated is not None:
            # A query among the values sees the table as it was before the statement, but ids are taken row by row.
            raise outside(
                "an INSERT of several rows with generated ids whose values are read by queries", "insert row by row"
            )

    def _refuse_modes(self, insert: st.Insert, info: TableInfo) -> None:
        mode = insert.mode.value.upper()
        if insert.mode is InsertMode.PLAIN:
            return
        if not self.rules.has_insert_modes:
            raise ExecutionError("type", f"PostgreSQL has no {mode}")
        if insert.on_conflict is not None:
            raise outside(f"{mode} with ON CONFLICT", "use one of the two: they hold for different keys")
        if insert.mode is not InsertMode.IGNORE or not self.rules.ignore_bends_values:
            return
        for place, column in enumerate(info.table.columns):
            given = column.name in insert.columns or column.default is not None or column.generated
            if insert.columns and info.nonnull[place] and not given:
                raise outside("INSERT IGNORE without a value for a NOT NULL column in MySQL", "give a value")
        if isinstance(insert.source, Select):
            raise outside("INSERT IGNORE … SELECT in MySQL", "IGNORE also bends values to the columns' types")

    def _first_columns(self, insert: st.Insert, info: TableInfo) -> tuple[str, ...]:
        """The columns of an INSERT that names none: none for DEFAULT VALUES, in PostgreSQL as many as there are values."""
        columns = tuple(column.name for column in info.table.columns)
        if isinstance(insert.source, Select):
            return columns
        sizes = {len(row) for row in insert.source}
        if sizes == {0}:
            return ()
        return columns[: max(sizes)] if self.rules.fills_last_columns else columns

    def _cell(self, info: TableInfo, insert: st.Insert, place: int, value: Expression) -> Expression:
        """What is stored. SQLite's REPLACE puts the default in place of a null that a column does not take."""
        column = info.table.columns[place]
        stored = self.rules.stored(value, column)
        if insert.mode is not InsertMode.REPLACE or not self.rules.replace_puts_defaults or column.nullable:
            return stored
        instead = self._default(info, column)
        return stored if is_null(instead) else Coalesce((stored, instead), ANY)

    def _conflict(self, insert: st.Insert, info: TableInfo) -> OnConflict | None:
        conflict = insert.on_conflict
        if conflict is None:
            return None
        old, new = Scan(self.elaborator.fresh(), info), Scan(self.elaborator.fresh(), info)
        target = self._target(info, conflict)
        if not conflict.assignments:
            return OnConflict(target, old.id, new.id, (), (), False)
        if self.rules.has_on_duplicate_key and conflict.where is not None:
            raise ExecutionError("type", "ON DUPLICATE KEY UPDATE has no WHERE")
        if self.rules.conflict_update_needs_key and not conflict.columns:
            raise ExecutionError("type", "ON CONFLICT DO UPDATE needs the columns of a key")
        # A plain name is the row's own; what was to be inserted is only ever excluded.c.
        around = self.scope.inside()
        around.add_table("excluded", new)
        inside = around.inside()
        named = inside.add_table(info.table.name, old)
        own, self.scope = self.scope, inside
        try:
            where = self.expressions.conjuncts(conflict.where, inside)
            sets = self._sets(named, info, conflict.assignments, self.rules.assigns_one_by_one)
        finally:
            self.scope = own
        self.scope.reads_variables.update(inside.reads_variables)
        return OnConflict(target, old.id, new.id, sets, where, _reads(conflict, info.table.name))

    @staticmethod
    def _target(info: TableInfo, conflict: st.OnConflict) -> tuple[int, ...]:
        """The unique keys that ON CONFLICT looks at, by position."""
        if not conflict.columns:
            return tuple(range(len(info.uniques)))
        wanted = {info.column(name) for name in conflict.columns}
        found = tuple(place for place, unique in enumerate(info.uniques) if set(unique) == wanted)
        if not found:
            raise ExecutionError("name", f"{info.table.name} has no unique key ({', '.join(conflict.columns)})")
        return found

    def _ordered(self, select: Select) -> bool:
        """Whether ORDER BY leaves no two different rows in an open order: it names all that is selected, all that is grouped
        by, or a key of the one table that is read.
        """
        named = [order.expression for order in select.order_by]
        if select.group_by:
            return set(select.group_by) <= set(named)
        # In MySQL different texts may be equal, and a plain name in a procedure may be a variable: neither orders anything.
        exact = not self.rules.folds_texts
        if exact and all(
            isinstance(item, Item) and (isinstance(item.expression, Literal) or item.expression in named)
            for item in select.items
        ):
            return True
        if not isinstance(select.source, TableSource):
            return False
        info = self.catalog.table(select.source.table)
        names = {name.name for name in named if isinstance(name, Name) and (exact or name.table is not None)}
        keys = [unique for unique in info.uniques if all(info.nonnull[place] for place in unique)]
        return any(names >= {info.table.columns[place].name for place in key} for key in keys)


def row_checks(elaborator: Elaborator, info: TableInfo, places: tuple[int, ...]) -> RowChecks | None:
    """What must hold of a new row whose columns at these places were set; ``None`` if nothing must."""
    nonnull = [place for place in places if info.nonnull[place] and place != info.rowid]
    if not nonnull and not info.table.checks:
        return None
    rules = elaborator.rules(changing=True)
    scope = Scope()
    scan = Scan(elaborator.fresh(), info)
    scope.add_table(info.table.name, scan)
    expressions = ExpressionElaborator(elaborator, rules)
    checks = tuple(
        (
            rules.truth(expressions.expression(check.condition, scope), "CHECK"),
            f"a row of {info.table.name} breaks check {check.name or ''}".rstrip(),
        )
        for check in info.table.checks
    )
    named = tuple((place, f"{info.table.name}.{info.table.columns[place].name} must not be null") for place in nonnull)
    return RowChecks(scan.id, named, checks)


def _in_order(cells: dict[int, Expression]) -> tuple[Expression, ...]:
    return tuple(cells[place] for place in range(len(cells)))


def _has_queries(source: Select | tuple[tuple[object, ...], ...]) -> bool:
    """Whether a value that is written out has a query in it."""
    if isinstance(source, Select):
        return False
    values = (value for row in source for value in row if not isinstance(value, (Literal, Parameter)))
    return any(isinstance(part, Select) for value in values for part in parts(value))


def _reads(node: object, table: str) -> bool:
    """Whether a query in it reads the table."""
    return any(isinstance(part, TableSource) and part.table == table for part in parts(node))


def _refuse_odd_update(insert: st.Insert, info: TableInfo, names: tuple[str, ...]) -> None:
    assert insert.on_conflict is not None
    for assignment in insert.on_conflict.assignments:
        if assignment.column not in names and info.nonnull[info.column(assignment.column)]:
            raise outside("ON DUPLICATE KEY UPDATE of a NOT NULL column that the INSERT does not name", "name it")
    if isinstance(insert.source, Select) and _reads(insert.source, info.table.name):
        raise outside("INSERT … SELECT … ON DUPLICATE KEY UPDATE from the table itself", "select into variables first")
