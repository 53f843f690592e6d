"""Sources to nested loops: rows by key where a condition gives one, else all; conditions as early as their rows are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, assert_never

from isolde.errors import ExecutionError
from isolde.semantics.concrete.bindings import Binding
from isolde.semantics.concrete.catalog import TableInfo
from isolde.semantics.concrete.cells import read_cell
from isolde.semantics.concrete.compiler import Query, Writer
from isolde.semantics.concrete.expressions import Frame
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.static import TEXT, Code, Sort, Static
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Aggregate, Binary, BinaryOperation, Cast, Expression, Name
from isolde.tx.queries import Item, Join, JoinKind, QuerySource, Select, Source, TableSource

if TYPE_CHECKING:
    from isolde.semantics.concrete.asked import Needs
    from isolde.semantics.concrete.sweeps import Sweeps


def conjuncts(expression: Expression | None) -> list[Expression]:
    if expression is None:
        return []
    if isinstance(expression, BinaryOperation) and expression.operator is Binary.AND:
        return conjuncts(expression.left) + conjuncts(expression.right)
    return [expression]


def parts(node: Any) -> Iterator[Any]:
    """All nodes below, the node included."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, tuple):
            waiting.extend(reversed(node))
        else:
            waiting.extend([getattr(node, name) for name in _fields(node.__class__)])


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """The last one first."""
    return tuple(part.name for part in reversed(fields(kind))) if is_dataclass(kind) else ()


def _refuse_open_digits(query: Select) -> None:
    """MariaDB keeps all digits of a quotient if it merges the query into the one around it, and those that are shown if not."""
    items = [item.expression for item in query.items if isinstance(item, Item)]
    merged = not (query.group_by or query.distinct or query.limit or any(map(has_aggregate, items)))
    for expression in items:
        quotient = not isinstance(expression, Cast) and any(
            isinstance(part, BinaryOperation) and part.operator is Binary.DIVIDE for part in parts(expression)
        )
        if merged and quotient:
            raise outside("a quotient out of a query in FROM in MySQL", "cast it to DECIMAL")


def settled(type_: Static, dialect: Dialect) -> Static:
    """The type of a column of a query in FROM: in PostgreSQL a literal without a type becomes a text there."""
    return TEXT if dialect is Dialect.POSTGRESQL and type_.sort in (Sort.UNKNOWN, Sort.NULL) else type_


def has_aggregate(expression: Expression) -> bool:
    """An aggregate of this query, not of one inside."""
    return any(isinstance(part, Aggregate) for part in shallow(expression))


def shallow(node: Any) -> Iterator[Any]:
    yield node
    if isinstance(node, Select):
        return
    if isinstance(node, tuple):
        for part in node:
            yield from shallow(part)
    elif is_dataclass(node):
        for part in fields(node):
            yield from shallow(getattr(node, part.name))


def _unconditional(source: Source | None) -> Source | None:
    if not isinstance(source, Join) or source.kind is not JoinKind.INNER:
        return source
    left, right = _unconditional(source.left), _unconditional(source.right)
    return source if left is None or right is None else replace(source, left=left, right=right, on=None)


def table_binding(name: str, variable: str, info: TableInfo) -> Binding:
    columns = {
        column.name: (place, info.types[place], info.solid[place]) for place, column in enumerate(info.table.columns)
    }
    return Binding(name, variable, columns, info)


class Loops:
    """Writes the loops of one query. ``bindings`` of the frame are declared first, ``bound`` says which have a row by now."""

    def __init__(
        self,
        frame: Frame,
        writer: Writer,
        needs: Callable[[QuerySource, bool], Needs] | None = None,
        filtered: bool = False,
        sweeps: Sweeps | None = None,
        joined: bool = False,
    ) -> None:
        self.joined = joined
        self.filtered = filtered
        self.sweeps = sweeps
        self.tested: list[Expression] = []
        self.frame = frame
        self.writer = writer
        self.needs = needs
        self.bound: set[str] = set()
        self.declared: dict[int, Binding] = {}
        self.calls: dict[str, str] = {}
        self.failing: set[str] = set()
        self.sources: dict[str, tuple[QuerySource, bool]] = {}

    def declare(self, source: Source, optional: bool = False) -> None:
        """Names and columns of all sources, before any condition is read."""
        compiler = self.frame.compiler
        match source:
            case TableSource():
                info = compiler.catalog.table(source.table)
                binding = table_binding(source.name, compiler.namespace.fresh("r"), info)
            case QuerySource():
                if compiler.dialect is Dialect.MYSQL:
                    _refuse_open_digits(source.query)
                query = self._query(source, optional)
                for name in self._free_of(query.call):
                    self.frame.free.setdefault(name, name.startswith("r"))
                columns = {
                    name: (place, settled(type_, compiler.dialect), False)
                    for place, (name, type_) in enumerate(query.columns)
                }
                if len(columns) < len(query.columns):
                    raise ExecutionError("name", f"{source.alias} has two columns of one name")
                binding = Binding(source.alias, compiler.namespace.fresh("r"), columns, late=query.late)
                binding.reader = compiler.namespace.ref(read_cell)
                self.calls[binding.variable] = query.call
                self.sources[binding.variable] = (source, optional)
                if self.sweeps is not None and self.sweeps.may_fail(source.query):
                    self.failing.add(binding.variable)
            case Join():
                self.declare(source.left, optional)
                self.declare(source.right, optional or source.kind is JoinKind.LEFT)
                return
            case _:
                assert_never(source)
        if any(other.name == binding.name for other in self.frame.bindings):
            raise ExecutionError("name", f"table name {binding.name} is specified more than once")
        binding.optional = optional
        self.declared[id(source)] = binding
        self.frame.bindings.append(binding)

    def _query(self, source: QuerySource, optional: bool) -> Query:
        compiler, query = self.frame.compiler, source.query
        needs = self.needs(source, optional) if self.needs is not None else None
        # MariaDB sorts it only to cut it.
        arranged = compiler.dialect is not Dialect.MYSQL or query.limit is not None or query.offset is not None
        filtered = self.filtered and query.limit is None and query.offset is None
        hurried = self.joined or (self.sweeps is not None and self.sweeps.held)
        if compiler.dialect is Dialect.MYSQL and (query.limit is not None or query.offset is not None):
            # MariaDB stores its rows before it looks at the first.
            hurried = self.joined
        compiled = compiler.query(
            query, self.frame.parent, needs=needs, sorted_=arranged, filtered=filtered, hurried=hurried
        )
        if compiled.correlated and compiler.dialect is Dialect.MYSQL:
            raise outside("a query in FROM with columns of a query around it, in MySQL", "MariaDB does not find them")
        return compiled

    @staticmethod
    def _free_of(call: str) -> list[str]:
        return [name for name in call[call.index("(") + 1 : -1].split(", ") if name != "S"]

    def ahead(self) -> None:
        """Runs queries that may fail even if no row before them asks: some plan does."""
        for variable, call in self.calls.items():
            if variable in self.failing:
                rows = self.frame.compiler.namespace.fresh("rows")
                self.writer.line(f"{rows} = {call}")
                self.calls[variable] = rows

    def without_conditions(self, variable: str) -> str:
        """The rows of a query in FROM before its own conditions: those around it may be tested first."""
        source, optional = self.sources[variable]
        query = source.query
        if query.limit is not None or query.offset is not None or self.frame.compiler.dialect is not Dialect.POSTGRESQL:
            return self.calls[variable]
        bare = replace(query, source=_unconditional(query.source), where=None, having=None)
        return self._query(replace(source, query=bare), optional).call

    def write(self, source: Source, pool: list[Expression]) -> None:
        """Loops over the source; conditions of the pool are tested and taken out of it once their rows are bound."""
        match source:
            case TableSource():
                binding = self.declared[id(source)]
                self.writer.open(f"for {binding.variable} in {self.candidates(binding, pool)}:")
                self.bound.add(binding.variable)
            case QuerySource():
                binding = self.declared[id(source)]
                self.writer.open(f"for {binding.variable} in {self.calls[binding.variable]}:")
                self.bound.add(binding.variable)
            case Join():
                if source.kind is JoinKind.INNER:
                    pool.extend(self.parted(source.on))
                    self.write(source.left, pool)
                    self.write(source.right, pool)
                else:
                    self.write(source.left, pool)
                    self._outer(source)
            case _:
                assert_never(source)
        self.filter(pool)

    def _outer(self, join: Join) -> None:
        """The right side's rows that match, as a list; one row of nulls if there is none."""
        matches, indent = self.frame.compiler.namespace.fresh("m"), self.writer.indent
        self.writer.line(f"{matches} = []")
        before = set(self.bound)
        on = self.parted(join.on)
        tested, self.tested = self.tested, []
        inside = [binding for binding in self.frame.bindings if self._under(join.right, binding)]
        # Inside of the join the right side's rows are there; only after it they may be missing.
        hidden = [binding.optional for binding in inside]
        self.write(join.right, on)
        self.filter(on, final=True, outer=True)
        self.tested = tested
        variables = [binding.variable for binding in self.frame.bindings if binding.variable in self.bound - before]
        inner = ", ".join(variables) + ("," if len(variables) == 1 else "")
        self.writer.line(f"{matches}.append(({inner}))")
        self.writer.indent = indent
        nulls = ", ".join(
            f"(None,) * {len(binding.columns)}" for binding in self.frame.bindings if binding.variable in variables
        )
        self.writer.open(f"for {inner} in {matches} or [({nulls},)]:")
        for binding, optional in zip(inside, hidden, strict=True):
            binding.optional = optional

    def _under(self, source: Source, binding: Binding) -> bool:
        if isinstance(source, Join):
            return self._under(source.left, binding) or self._under(source.right, binding)
        return self.declared[id(source)] is binding

    def parted(self, condition: Expression | None) -> list[Expression]:
        return conjuncts(condition) if self.sweeps is None else self.sweeps.parted(condition)

    def joining(self, source: Source | None) -> list[Expression]:
        """The conditions of inner joins."""
        if not isinstance(source, Join):
            return []
        if source.kind is not JoinKind.INNER:
            return self.joining(source.left)
        return [*self.joining(source.left), *self.joining(source.right), *self.parted(source.on)]

    def filter(self, pool: list[Expression], final: bool = False, outer: bool = False) -> None:
        """Tests the conditions whose rows are all bound; those that may fail when all others hold."""
        sweeps = self.sweeps
        doubtful = [condition for condition in pool if sweeps is not None and sweeps.may_fail(condition)]
        ready = [condition for condition in pool if condition not in doubtful and (final or self.ready(condition))]
        self.tested.extend(ready)
        self.test(ready)
        pool[:] = [condition for condition in pool if condition not in ready and not (final and condition in doubtful)]
        if sweeps is not None and doubtful and final:
            sweeps.settle(doubtful, self.tested, outer)

    def test(self, conditions: list[Expression]) -> None:
        if conditions:
            self.writer.open(f"if {' and '.join(self.frame.condition(condition) for condition in conditions)}:")

    def ready(self, expression: Expression) -> bool:
        """Whether all rows it may need are bound. A query inside may need any of them."""
        if all(binding.variable in self.bound for binding in self.frame.bindings):
            return True
        for part in parts(expression):
            if isinstance(part, Select):
                return False
            if isinstance(part, Name) and not self._available(part):
                return False
        return True

    def _available(self, name: Name) -> bool:
        return all(
            binding.variable in self.bound
            for binding in self.frame.bindings
            if (name.table is None or binding.name == name.table) and name.name in binding.columns
        )

    # Keys

    def candidates(self, binding: Binding, pool: list[Expression], numbers: bool = False) -> str:
        """Python text of the rows that may match: by a unique key, by an equality index, or all."""
        info = binding.table
        assert info is not None
        data = f"S.tables[{info.position}]"
        probes = self._probes(binding, pool)
        for place, unique in enumerate(info.uniques):
            if all(column in probes for column in unique):
                helper = "number_of" if numbers else "row_of"
                return f"{data}.{helper}({place}, {self._key(unique, probes)})"
        if probes:
            columns = tuple(sorted(probes))
            helper = "numbers_equal" if numbers else "rows_equal"
            return f"{data}.{helper}({columns!r}, {self._key(columns, probes)}, S.catalog)"
        return f"list({data}.rows.items())" if numbers else f"{data}.rows.values()"

    def _key(self, columns: tuple[int, ...], probes: dict[int, str]) -> str:
        keys = [probes[column] for column in columns]
        return keys[0] if len(keys) == 1 else f"({', '.join(keys)})"

    def _probes(self, binding: Binding, pool: list[Expression]) -> dict[int, str]:
        """Columns of the binding that a condition sets equal to something known before its row.

        The condition is tested again on the row: a key only finds candidates.
        """
        found: dict[int, str] = {}
        assert binding.table is not None
        for condition in pool:
            if not isinstance(condition, BinaryOperation) or condition.operator is not Binary.EQUAL:
                continue
            if self.sweeps is not None and self.sweeps.may_fail(condition):
                continue
            for column, other in ((condition.left, condition.right), (condition.right, condition.left)):
                if not isinstance(column, Name) or not self.ready(other):
                    continue
                if (column.table is not None and column.table != binding.name) or column.name not in binding.columns:
                    continue
                place, type_, _ = binding.columns[column.name]
                if place in found or self.frame.resolve(column).text != f"{binding.variable}[{place}]":
                    continue
                key = self._probe(type_, other)
                if key is not None:
                    found[place] = key
                    break
        return found

    def _probe(self, type_: Any, other: Expression) -> str | None:
        code: Code = self.frame.compile(other)
        try:
            return self.frame.compiler.rules.probe(type_, code)
        except ExecutionError:
            return None
