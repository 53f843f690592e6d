"""What a name stands for: the one place that resolves columns and variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.core.nodes import Aggregated, Column, Constant, Expression, Field, Variable
from isolde.semantics.core.relations import Aggregate, Scan, table_column
from isolde.semantics.core.types import Sort, ValueType
from isolde.tx import expressions as tx
from isolde.tx.expressions import Name


@dataclass(slots=True)
class Named:
    """A source of rows under its name: its columns by theirs. ``used``: the places of those that something names."""

    name: str
    id: int
    columns: Mapping[str, Expression]
    scan: Scan | None = None
    used: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Aggregates:
    """The aggregates of a grouped query, as they are met. ``by_keys``: it has a GROUP BY."""

    by_keys: bool
    found: list[Aggregate] = field(default_factory=list)
    known: dict[tx.Aggregate, Aggregated] = field(default_factory=dict)


@dataclass(slots=True)
class Variables:
    """Variables of a procedure, or parameters of a statement: their numbers and types. ``nonnull``: those that hold no null."""

    types: dict[str, ValueType]
    slots: dict[str, int]
    nonnull: frozenset[str] = frozenset()

    @staticmethod
    def of(types: Mapping[str, ValueType], nonnull: frozenset[str] = frozenset()) -> Variables:
        return Variables(dict(types), {name: slot for slot, name in enumerate(types)}, nonnull)

    def slot(self, name: str) -> int:
        return self.slots.setdefault(name, len(self.slots))

    def variable(self, name: str) -> Variable:
        return Variable(self.slot(name), self.types[name], name, name in self.nonnull)


@dataclass(slots=True)
class Scope:
    """The names that one query, change or procedure can use. Each query inside has a scope of its own, with this as parent.

    ``reads_rows`` and ``reads_variables`` are what it uses of those around it. ``aggregates``: where a grouped query
    collects its aggregates; ``None`` where none may stand.
    """

    parent: Scope | None = None
    sources: list[Named] = field(default_factory=list)
    variables: Variables | None = None
    reads_rows: dict[int, None] = field(default_factory=dict)
    reads_variables: dict[int, None] = field(default_factory=dict)
    aggregates: Aggregates | None = None
    strict: bool = False
    inner_table_hides_outer: bool = False

    def inside(self) -> Scope:
        return Scope(self, inner_table_hides_outer=self.inner_table_hides_outer)

    def add_table(self, name: str, scan: Scan, optional: bool = False) -> Named:
        """``optional``: its rows may be missing, on the right side of a LEFT JOIN."""
        known = scan.table.scanned
        columns = known.get((scan.id, optional))
        if columns is None:
            columns = known[scan.id, optional] = {
                column: table_column(scan, place, False if optional else None)
                for column, place in scan.table.columns.items()
            }
        return self.add(Named(name, scan.id, columns, scan))

    def add(self, named: Named) -> Named:
        for other in self.sources:
            if other.name == named.name:
                raise ExecutionError("name", f"table name {named.name} is specified more than once")
        self.sources.append(named)
        return named

    # Resolving

    def own_column(self, name: Name) -> Expression | None:
        """The column of this scope's own sources that the name means."""
        table, found, column = name.table, None, None
        for source in self.sources:
            if (table is None or source.name == table) and name.name in source.columns:
                if found is not None:
                    raise ExecutionError("name", f"column {name.name} is ambiguous", str(name.place or ""))
                found, column = source, source.columns[name.name]
        if found is not None and isinstance(column, Column):
            found.used.add(column.place)
        return column

    def resolve(self, name: Name) -> Expression:
        if name.contested is not None:
            self._refuse_ambiguous(name)
        crossed: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            column = scope.own_column(name)
            if column is not None:
                if isinstance(column, Column):
                    for inner in crossed:
                        inner.reads_rows[column.source] = None
                elif crossed:
                    # MySQL's assignments see those before them.
                    what = f"a query over {name.name}, which the same UPDATE has assigned before,"
                    raise OutsideFragment(
                        str(name.place or "statement"), what, "assign it last, or in a statement of its own"
                    )
                return column
            hides = self.inner_table_hides_outer and name.table is not None
            if hides and any(source.name == name.table for source in scope.sources):
                break
            if scope.variables is not None and (variable := _variable(scope.variables, name)) is not None:
                self._note(variable, [*crossed, scope])
                return variable
            crossed.append(scope)
            scope = scope.parent
        shown = f"{name.table}.{name.name}" if name.table else name.name
        raise ExecutionError("name", f"there is no column or variable {shown}", str(name.place or ""))

    def _refuse_ambiguous(self, name: Name) -> None:
        """PostgreSQL calls a name that is a variable and a column ambiguous when it comes to it."""
        scope: Scope | None = self
        while scope is not None:
            if any(name.contested in source.columns for source in scope.sources):
                what = f"the name '{name.contested}', which is a variable and a column"
                raise OutsideFragment(str(name.place), what, "write the table before the column")
            scope = scope.parent

    def parameter(self, name: str) -> Variable:
        crossed: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            crossed.append(scope)
            if scope.variables is not None and name in scope.variables.types:
                variable = scope.variables.variable(name)
                self._note(variable, crossed)
                return variable
            scope = scope.parent
        raise ExecutionError("name", f"there is no value for parameter :{name}")

    @staticmethod
    def _note(variable: Expression, scopes: list[Scope]) -> None:
        if isinstance(variable, Constant):
            return
        slot = variable.variable.slot if isinstance(variable, Field) else variable.slot  # type: ignore[union-attr]
        for scope in scopes:
            scope.reads_variables[slot] = None

    def stars(self, table: str | None) -> Iterator[Name]:
        """The columns that ``*`` or ``table.*`` means."""
        found = [source for source in self.sources if table is None or source.name == table]
        if not found:
            raise ExecutionError("name", f"there is no table {table} for its columns" if table else "* without tables")
        for source in found:
            yield from (Name(column, source.name) for column in source.columns)


def _variable(variables: Variables, name: Name) -> Expression | None:
    row = name.table or name.name
    type_ = variables.types.get(row)
    if type_ is None:
        return None
    if name.table is None:
        return variables.variable(row)
    if type_.sort is Sort.NULL:
        # A row that no step has given columns to yet.
        return Constant(None, type_)
    if type_.sort is not Sort.ROW:
        return None
    names = [column for column, _ in type_.columns]
    if name.name not in names:
        raise ExecutionError("name", f"row {row} has no column {name.name}", str(name.place or ""))
    place = names.index(name.name)
    return Field(variables.variable(row), place, type_.columns[place][1])
