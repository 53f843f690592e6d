"""Statements of a history, ready to be run on the versions that they saw.

A statement is read, elaborated and compiled once for all that differ only in their values. A *simple* one looks at the rows of
one table one by one: whether a row matches depends on that row alone. An upsert is simple, too: it looks for rows by their keys.
What joins tables, asks queries inside, or cuts its result with LIMIT is not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

from isolde.errors import OutsideFragment
from isolde.semantics.concrete.changes import change_function, rows_after_function
from isolde.semantics.concrete.code import Unit, Writer, tuple_text
from isolde.semantics.concrete.expressions import Body
from isolde.semantics.concrete.queries import Loops, query_function, untested
from isolde.semantics.concrete.store import Store, value_shape
from isolde.semantics.core import primitives
from isolde.semantics.core.catalog import Catalog, TableInfo
from isolde.semantics.core.elaborate_statements import elaborated
from isolde.semantics.core.nodes import Apply, Column, Constant, Expression, Logic, Variable, below, query_of
from isolde.semantics.core.plan import Visit, plan
from isolde.semantics.core.relations import (
    Aggregate,
    Delete,
    Derived,
    Insert,
    Join,
    Output,
    Query,
    Scan,
    Source,
    Statement,
    Update,
    query_parts,
    scans,
)
from isolde.semantics.core.scope import Variables
from isolde.semantics.core.types import Sort, outside
from isolde.semantics.tables.view import Row, TableView, Undo
from isolde.tx.dialects import Dialect
from isolde.tx.schema import Schema
from isolde.tx.sql import statement as read_statement
from isolde.tx.sql.literals import shape
from isolde.tx.statements import InsertMode

What = Literal["query", "update", "delete", "insert"]


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """What all statements that differ only in their values have in common.

    ``run`` gives the answer on a store; of a query whose result has an order, the rows have the keys of the order after their own
    cells. ``found`` gives the numbers and rows that a simple statement matches; ``matches`` whether one row does. ``sources``
    gives the numbers of the rows that a result is made of, ``inner`` the same of queries in FROM. ``reads_rows``: whether rows
    that match are read, or only counted.
    """

    text: str
    what: What
    tables: tuple[int, ...]
    simple: bool
    run: Callable[..., Any]
    width: int
    ordered: bool
    returns: bool
    reads_rows: bool
    found: Callable[..., list[tuple[int, Row]]] | None = None
    matches: Callable[..., Any] | None = None
    sources: Callable[..., list[tuple[int | None, ...]]] | None = None
    source_tables: tuple[int, ...] = ()
    inner: tuple[Form, ...] = ()
    gathers: bool = False
    """Whether rows of the result stand for several rows: aggregates, groups, DISTINCT."""
    upsert: bool = False
    targets: tuple[int, ...] = ()
    given_rows: Callable[..., list[Row]] | None = None
    plain_insert: bool = False
    rekeys: bool = False
    """Whether an UPDATE assigns to a unique key."""
    moves: bool = False
    """Whether an UPDATE assigns to the primary key: it then ends one row and makes another."""
    target: int = -1
    """The table that a change changes."""
    after: Callable[..., list[tuple[int, Row, Row]]] | None = None
    """Of a simple update: from the rows that it matched, their numbers, the rows, and what they become."""
    plain: bool = False
    """Whether all that a statement does follows from the rows of its one table that it matched."""
    columns: frozenset[int] = frozenset()
    """Of a simple statement: the places of the columns that decide whether a row matches."""
    shows: tuple[int, int] | None = None
    """Of a simple query, a cell of its result that is a column of whole numbers as it is, of the primary key if there is one: its
    place in the result and the column's."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One statement of a transaction: its form, and its values in the order of the form's parameters."""

    form: Form
    values: tuple[Any, ...]
    sql: str
    params: tuple[Any, ...]

    @property
    def predicate(self) -> Hashable:
        """Equal for statements that match the same rows of the same versions."""
        return (id(self.form), self.values)


class Statements:
    """Reads the statements of one history. Foreign keys are left out: whether they held is not asked here."""

    def __init__(self, schema: Schema, dialect: Dialect) -> None:
        tables = {name: replace(table, foreign_keys=()) for name, table in schema.tables.items()}
        self.store = Store(replace(schema, tables=tables), dialect, clock=_no_clock)
        self.catalog: Catalog = self.store.catalog
        self.dialect = dialect
        self._forms: dict[Hashable, Form] = {}

    def over(self, tables: Sequence[TableView], log: Undo, *, counts_found: bool = False) -> Store:
        """A store that runs on these views."""
        store = self.store.over(tables, log)
        store.counts_found = counts_found
        return store

    def asked(self, sql: str, params: Sequence[Any]) -> Asked:
        """One statement; ``OutsideFragment`` and ``MalformedProgram`` say why it cannot be read."""
        compiled = self.store.compiled
        values: tuple[Any, ...]
        if params:
            values = given = tuple(params)
            if sent := compiled.rules.sent:
                values = tuple(sent[type(value)](value) if type(value) in sent else value for value in values)
            key: Hashable = (sql, tuple(map(value_shape, values)))
            known = self._forms.get(key)
            if known is not None:
                return Asked(known, values, sql, given)
            text, names, types = sql, tuple(f"p{at}" for at in range(1, len(params) + 1)), compiled.types(values)
        else:
            taken = shape(sql, self.dialect, value_shape)
            if taken is None or taken.templates:
                text, names, values, types = sql, (), (), ()
            else:
                text, names = taken.text, tuple(taken.values)
                literals = [compiled.rules.literal(value) for value in taken.values.values()]
                values, types = tuple(one.value for one in literals), tuple(one.type for one in literals)
            key = (text, types)
        found = self._forms.get(key)
        if found is None:
            node = read_statement(text, self.dialect, strict=False)
            core = elaborated(self.catalog, node, Variables.of(dict(zip(names, types, strict=True))))
            found = self._forms[key] = _Forming(self.catalog, [f"v{slot}" for slot in range(len(names))]).form(
                sql, core
            )
        return Asked(found, values, sql, tuple(params))


def _no_clock() -> NoReturn:
    raise outside("the time of a statement, which a history does not tell,", "give it as a parameter")


class _Forming:
    """Compiles one form; ``arguments`` are the names of its values in the generated code."""

    def __init__(self, catalog: Catalog, arguments: list[str]) -> None:
        self.catalog, self.arguments = catalog, arguments

    def form(self, text: str, core: Statement) -> Form:
        match core:
            case Query():
                return self.query(text, core)
            case Update() | Delete():
                return self.change(text, core)
            case Insert():
                return self.insert(text, core)

    def query(self, text: str, query: Query) -> Form:
        keyed = replace(query, outputs=(*query.outputs, *(Output("", o.key, o.key.type) for o in query.order)))
        run = self._query(keyed)
        whole, inner_tables = _tables(query)
        simple = (
            isinstance(query.source, Scan) and query.limit is None and query.offset is None and not inner_tables
        ) or query.source is None
        aggregates = query.grouping.aggregates if query.grouping is not None else ()
        form = Form(
            text=text,
            what="query",
            tables=tuple(sorted(whole)),
            simple=simple,
            run=run,
            width=len(query.outputs),
            ordered=bool(query.order),
            returns=True,
            reads_rows=not _only_counts(query, aggregates),
            gathers=query.grouping is not None or query.distinct is not None,
        )
        if simple and isinstance(query.source, Scan):
            shows = _shows(query, query.source)
            return replace(form, **self._by_row(query.source, query.where), plain=len(whole) == 1, shows=shows)
        if simple:
            return form
        return replace(form, **self._by_source(query))

    def change(self, text: str, change: Update | Delete) -> Form:
        unit = Unit()
        change_function(unit, self.catalog, change, name="statement", arguments=self.arguments)
        values = [part.value for part in change.sets] if isinstance(change, Update) else []
        inner = set().union(*(_inside(node) for node in (*change.where, *values)), set())
        form = Form(
            text=text,
            what="update" if isinstance(change, Update) else "delete",
            tables=tuple(sorted({change.scan.table.position, *inner})),
            simple=not inner,
            run=unit.finish("statement"),
            width=len(change.returning),
            ordered=False,
            returns=bool(change.returning),
            reads_rows=True,
            target=change.scan.table.position,
        )
        if isinstance(change, Update):
            places = {part.place for part in change.sets}
            uniques = change.scan.table.uniques
            form = replace(
                form,
                rekeys=any(places & set(unique) for unique in uniques),
                moves=bool(change.scan.table.table.primary_key) and bool(places & set(uniques[0])),
            )
        where = change.where
        by_row = self._by_row(change.scan, where)
        if inner:
            by_row.pop("matches")
            by_row.pop("columns")
            return replace(form, **by_row)
        after = None
        if isinstance(change, Update) and not form.rekeys and not form.returns:
            after = self._after(change)
        plain = after is not None or (isinstance(change, Delete) and not form.returns)
        return replace(form, **by_row, after=after, plain=plain)

    def insert(self, text: str, insert: Insert) -> Form:
        unit = Unit()
        change_function(unit, self.catalog, insert, name="statement", arguments=self.arguments)
        cells = [cell for row in insert.rows for cell in row]
        conflict = insert.conflict
        assigned = [part.value for part in conflict.sets] if conflict is not None else []
        where = list(conflict.where) if conflict is not None else []
        inner = set().union(*(_inside(node) for node in (*cells, *assigned, *where)), set())
        if insert.query is not None:
            inner |= _tables(insert.query)[0]
        upsert = conflict is not None or insert.mode is not InsertMode.PLAIN
        targets = conflict.target if conflict is not None else tuple(range(len(insert.table.uniques)))
        form = Form(
            text=text,
            what="insert",
            tables=tuple(sorted({insert.table.position, *inner})),
            simple=not inner,
            run=unit.finish("statement"),
            width=len(insert.returning),
            ordered=False,
            returns=bool(insert.returning),
            reads_rows=True,
            upsert=upsert,
            target=insert.table.position,
            targets=targets,
            plain_insert=not upsert and not inner,
        )
        if not inner and upsert:
            return replace(form, given_rows=self._given_rows(insert))
        if insert.query is not None:
            return replace(form, **self._by_source(insert.query))
        return form

    def _query(self, query: Query) -> Callable[..., Any]:
        unit = Unit()
        query_function(unit, query, name="statement", arguments=self.arguments)
        finished: Callable[..., Any] = unit.finish("statement")
        return finished

    def _by_row(self, scan: Scan, where: tuple[Expression, ...]) -> dict[str, Any]:
        """What finds the rows of one table that match, and what tells it of one row."""
        unit, writer = Unit(), Writer()
        body = Body(unit, query_function)
        (visit,) = plan(scan, where).steps
        assert isinstance(visit, Visit)
        loops = Loops(body, writer)
        writer.line("out = []")
        writer.open(f"for number, r{scan.id} in {_between(scan, visit, where, body) or loops.candidates(visit)}:")
        loops.test(untested(visit))
        loops.test(plan(scan, where).last)
        writer.line(f"out.append((number, r{scan.id}))")
        writer.indent = 1
        writer.line("return out")
        unit.add("found", self.arguments, body.memos, writer.lines)
        row_body = Body(unit, query_function)
        condition = row_body.conditions(where) or "True"
        row = f"r{scan.id}"
        unit.add("matches", [*self.arguments, row], row_body.memos, [f"    return bool({condition})"])
        columns = frozenset(
            part.place for node in where for part in below(node) if isinstance(part, Column) and part.source == scan.id
        )
        finished = unit.finish("found")
        return {
            "found": finished,
            "matches": unit.names["matches"],
            "source_tables": (scan.table.position,),
            "columns": columns,
        }

    def _after(self, change: Update) -> Callable[..., list[tuple[int, Row, Row]]] | None:
        """What tells what rows become; ``None`` where generated ids are given."""
        info = change.scan.table
        if info.generated is not None and any(part.place == info.generated for part in change.sets):
            return None
        unit = Unit()
        rows_after_function(unit, self.catalog, change, name="after", arguments=self.arguments)
        finished: Callable[..., list[tuple[int, Row, Row]]] = unit.finish("after")
        return finished

    def _by_source(self, query: Query) -> dict[str, Any]:
        """What tells the rows that a result is made of: their numbers stand after the last column of their tables."""
        source = None if query.source is None else _with_numbers(query.source)
        leaves = [leaf for leaf in scans(source) if isinstance(leaf, Scan)]
        numbers = tuple(
            Output(
                "",
                Column(leaf.id, len(leaf.table.types) - 1, leaf.table.types[-1], False, True, ""),
                leaf.table.types[-1],
            )
            for leaf in leaves
        )
        gathered = query.grouping is not None or query.distinct is not None
        bare = replace(query, source=source, outputs=numbers, grouping=None, distinct=None)
        if gathered:
            bare = replace(bare, order=(), limit=None, offset=None)
        inner = tuple(
            self.query("", leaf.query)
            for leaf in scans(query.source)
            if isinstance(leaf, Derived) and not leaf.query.correlated
        )
        tables = tuple(leaf.table.position for leaf in leaves)
        return {"sources": self._query(bare), "source_tables": tables, "inner": inner}

    def _given_rows(self, insert: Insert) -> Callable[..., list[Row]]:
        unit, writer = Unit(), Writer()
        body = Body(unit, query_function)
        rows = ", ".join(tuple_text([body.text(cell) for cell in row]) for row in insert.rows)
        writer.line(f"return [{rows}]")
        unit.add("given", self.arguments, body.memos, writer.lines)
        finished: Callable[..., list[Row]] = unit.finish("given")
        return finished


_BOUNDS = {
    primitives.GREATER_EQUAL: (True, False),
    primitives.GREATER: (True, False),
    primitives.LESS_EQUAL: (False, True),
    primitives.LESS: (False, True),
}
"""Whether a comparison of a column with a value is a lower bound of the column, and whether it is an upper one."""


def _between(scan: Scan, visit: Visit, where: tuple[Expression, ...], body: Body) -> str:
    """Python text of the rows whose column of whole numbers lies between bounds that the conditions give; empty without one.

    They are tested by all conditions all the same. Where a condition can fail, every row is looked at: which one fails first
    must not depend on the index.
    """
    if visit.access is None or visit.access.unique is not None or visit.access.columns:
        return ""
    parts = [part for node in where for part in _conjuncts(node)]
    if any(isinstance(one, Apply) and one.primitive.errors for node in where for one in below(node)):
        return ""
    bounds: dict[int, list[str]] = {}
    for part in parts:
        match part:
            case Apply(primitive, (Column(source, place, type_) as column, (Variable() | Constant()) as value)) if (
                primitive in _BOUNDS and source == scan.id and column.stored
            ):
                if type_.sort is Sort.INTEGER and value.type.sort is Sort.INTEGER:
                    text = body.text(value)
                    for at, bound in enumerate(_BOUNDS[primitive]):
                        if bound and bounds.setdefault(place, ["None", "None"])[at] == "None":
                            bounds[place][at] = text
    if not bounds:
        return ""
    place, (low, high) = max(bounds.items(), key=lambda item: 2 - item[1].count("None"))
    return f"S.tables[{scan.table.position}].between({place}, {low}, {high})"


def _conjuncts(node: Expression) -> Iterator[Expression]:
    if isinstance(node, Logic) and not node.decides:
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    else:
        yield node


def _shows(query: Query, scan: Scan) -> tuple[int, int] | None:
    plain = [
        (at, output.value.place)
        for at, output in enumerate(query.outputs)
        if isinstance(output.value, Column) and output.value.source == scan.id and output.value.stored
        if output.value.type.sort is Sort.INTEGER
    ]
    keys = scan.table.uniques[0] if scan.table.table.primary_key else ()
    return min(plain, key=lambda shown: shown[1] not in keys, default=None)


def _only_counts(query: Query, aggregates: Sequence[Aggregate]) -> bool:
    """Whether a result tells how many rows match and nothing of what they hold."""
    grouping = query.grouping
    if grouping is None or grouping.keys or not grouping.whole:
        return False
    return all(aggregate.operand is None for aggregate in aggregates)


def _inside(node: Expression) -> set[int]:
    """The tables of the queries inside of an expression."""
    found: set[int] = set()
    for part in below(node):
        query = query_of(part)
        if query is not None:
            found |= _tables(query)[0]
    return found


def _tables(query: Query) -> tuple[set[int], set[int]]:
    """The tables that a query uses, and those that it uses only in queries inside of it."""
    inner: set[int] = set()
    for part in query_parts(query):
        inner |= _inside(part)
    outer: set[int] = set()
    for leaf in scans(query.source):
        if isinstance(leaf, Scan):
            outer.add(leaf.table.position)
        else:
            inner |= _tables(leaf.query)[0]
    return outer | inner, inner


def _with_numbers(source: Source) -> Source:
    """The same sources, whose tables have one more column: the number of the row."""
    match source:
        case Scan():
            types = source.table.types
            return replace(source, table=replace(source.table, types=(*types, types[0])))
        case Join():
            return replace(source, left=_with_numbers(source.left), right=_with_numbers(source.right))
        case _:
            return source


def upsert_keys(asked: Asked, info: TableInfo, store: Store) -> list[tuple[int, Any]]:
    """The unique keys, by place and value, whose rows an upsert looks for."""
    assert asked.form.given_rows is not None
    rows = asked.form.given_rows(store, *asked.values)
    if info.generated is not None and any(row[info.generated] is None for row in rows):
        raise OutsideFragment(asked.sql, "an upsert with a generated key")
    return [
        (place, key)
        for row in rows
        for place in asked.form.targets
        if (key := info.unique_keys[place](row)) is not None
    ]
