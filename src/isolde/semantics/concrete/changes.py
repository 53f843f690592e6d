"""Changes of the core to Python functions: which rows, what they become; ``constraints`` then applies them."""

from __future__ import annotations

from isolde.errors import ExecutionError
from isolde.semantics.concrete.code import Unit, Writer, tuple_text
from isolde.semantics.concrete.expressions import Body
from isolde.semantics.concrete.queries import Loops, query_function, untested
from isolde.semantics.core.catalog import Catalog, TableInfo
from isolde.semantics.core.dialects import IdSource
from isolde.semantics.core.plan import Visit
from isolde.semantics.core.plan import plan as way_of
from isolde.semantics.core.relations import Change, Delete, Insert, OnConflict, Output, RowChecks, Scan, Set, Update
from isolde.semantics.tables import constraints
from isolde.semantics.tables.plans import insert_plan, update_plan
from isolde.tx.statements import InsertMode


def change_function(
    unit: Unit, catalog: Catalog, change: Change, name: str = "", arguments: list[str] | None = None
) -> str:
    """Writes a function that makes a change, and gives the number of rows and the rows that are returned; its name."""
    writing = _Change(unit, catalog)
    match change:
        case Update():
            writing.update(change)
        case Delete():
            writing.delete(change)
        case Insert():
            writing.insert(change)
    name = name or unit.fresh("q")
    own = [f"v{slot}" for slot in change.reads_variables]
    unit.add(name, own if arguments is None else arguments, writing.body.memos, writing.writer.lines)
    return name


def rows_after_function(unit: Unit, catalog: Catalog, change: Update, name: str, arguments: list[str]) -> None:
    """Writes a function that gives, of the numbered rows ``pairs`` that an update matched, what becomes of each."""
    writing = _Change(unit, catalog)
    writing.rows_after(change)
    unit.add(name, [*arguments, "pairs"], writing.body.memos, writing.writer.lines)


class _Change:
    def __init__(self, unit: Unit, catalog: Catalog) -> None:
        self.unit, self.catalog = unit, catalog
        self.rules = catalog.rules
        self.writer = Writer()
        self.body = Body(unit, query_function)

    # UPDATE and DELETE

    def update(self, change: Update) -> None:
        writer = self.writer
        self._matches(change)
        new = assigned_row(self.body, change.scan, change.sets, writer)
        writer.line(f"hits.append((number, r{change.scan.id}, {new}))")
        writer.indent = 1
        plan = update_plan(self.catalog, change, row_check)
        count = f"{self.unit.ref(constraints.updated)}(S, {self.unit.ref(plan)}, hits)"
        self._returning(count, change.returning, change.scan.id, "[hit[2] for hit in hits]")

    def rows_after(self, change: Update) -> None:
        writer, row = self.writer, f"r{change.scan.id}"
        check = update_plan(self.catalog, change, row_check).checks.row
        writer.line("out = []")
        writer.open(f"for number, {row} in pairs:")
        writer.line(f"after = {assigned_row(self.body, change.scan, change.sets, writer)}")
        if check is not None:
            writer.line(f"{self.unit.ref(check)}(after)")
        writer.line(f"out.append((number, {row}, after))")
        writer.indent = 1
        writer.line("return out")

    def delete(self, change: Delete) -> None:
        writer, info, row = self.writer, change.scan.table, f"r{change.scan.id}"
        self._matches(change)
        writer.line(f"hits.append((number, {row}))")
        writer.indent = 1
        count = f"{self.unit.ref(constraints.deleted)}(S, {info.position}, hits)"
        self._returning(count, change.returning, change.scan.id, "[hit[1] for hit in hits]")

    def _matches(self, change: Update | Delete) -> None:
        """Opens a loop over the rows that are to be changed."""
        loops = Loops(self.body, self.writer)
        (visit,) = way_of(change.scan, change.where).steps
        assert isinstance(visit, Visit)
        self.writer.line("hits = []")
        self.writer.open(f"for number, r{change.scan.id} in {loops.candidates(visit)}:")
        loops.test(untested(visit))

    def _returning(self, count: str, outputs: tuple[Output, ...], row: int, rows: str) -> None:
        """``count`` and ``rows`` are texts; the rows are there when the count is known."""
        writer = self.writer
        if not outputs:
            writer.line(f"return {count}, []")
            return
        writer.line(f"count = {count}")
        values = tuple_text([self.body.text(output.value) for output in outputs])
        writer.line("out = []")
        writer.open(f"for r{row} in {rows}:")
        writer.line(f"out.append({values})")
        writer.indent = 1
        writer.line("return count, out")

    # INSERT

    def insert(self, change: Insert) -> None:
        writer, info, unit = self.writer, change.table, self.unit
        rows, size = self._rows(change)
        plan = insert_plan(self.catalog, change, row_check)
        resolve = "None"
        if change.conflict is not None and change.conflict.sets:
            resolve = self._resolve(change.conflict, info)
        if plan.plain and info.generated is None:
            call = f"{unit.ref(constraints.inserted_plainly)}(S, {unit.ref(plan)}, {rows})"
        else:
            call = f"{unit.ref(constraints.inserted)}(S, {unit.ref(plan)}, {size}, {rows}, {resolve})"
        if change.returning:
            writer.line(f"done = {call}")
            call = "done"
        self._returning(f"{call}[0]", change.returning, change.scan.id, "done[1]")

    def _rows(self, change: Insert) -> tuple[str, str]:
        """Python text of the rows, one after the other, and of their number."""
        writer = self.writer
        self.body.hoists = False
        texts = [tuple_text([self.body.text(cell) for cell in row]) for row in change.rows]
        if change.query is not None:
            call, ids = self.body.call(change.query), change.table.generated
            if ids is not None and self.rules.ids is IdSource.RESERVED:
                call = f"{self.unit.ref(constraints.half_way)}(S, {change.table.position}, lambda: {call})"
            writer.line(f"found = {call}")
            return f"({texts[0]} for r{change.source} in found)", "len(found)"
        if change.batch is not None:
            return self._batch(change, texts)
        if len(texts) == 1 and change.mode is not InsertMode.IGNORE:
            return f"({texts[0]},)", "1"
        # One at a time: an error in the second row comes after what the first row brings about.
        name = self.unit.fresh("q")
        variables = [f"v{slot}" for slot in change.reads_variables]
        memos, self.body.memos = self.body.memos, []
        self.unit.add(name, variables, memos, [f"    yield {text}" for text in texts])
        call = f"{name}({', '.join(['S', *variables])})"
        if change.queries and not self.rules.shows_rows_before:
            # A query among the values sees the table as it was before the statement.
            return f"list({call})", str(len(texts))
        return call, str(len(texts))

    def _batch(self, change: Insert, texts: list[str]) -> tuple[str, str]:
        """Rows that are given: each is made by its template."""
        batch = change.batch
        assert batch is not None
        name, rows, writer = self.unit.fresh("q"), f"v{batch.slot}", Writer()
        own = {slot for template in batch.templates for slot in template}
        variables = [f"v{slot}" for slot in change.reads_variables if slot not in own]
        writer.open(f"for template, values in {rows}:")
        for place, (template, text) in enumerate(zip(batch.templates, texts, strict=True)):
            writer.open(f"{'if' if place == 0 else 'elif'} template == {place}:")
            if template:
                writer.line(f"{''.join(f'v{slot}, ' for slot in template)}= values")
            writer.line(f"yield {text}")
            writer.indent -= 1
        memos, self.body.memos = self.body.memos, []
        self.unit.add(name, [*variables, rows], memos, writer.lines)
        call = f"{name}({', '.join(['S', *variables, rows])})"
        # What is written there is converted when the statement is planned, before the first row is inserted.
        return f"list({call})" if self.rules.fails_when_planned else call, f"len({rows})"

    def _resolve(self, conflict: OnConflict, info: TableInfo) -> str:
        """A function from the row that is there, and the one that was to be inserted, to the new one; ``None`` leaves it."""
        name = self.unit.fresh("q")
        writer, body = Writer(2), Body(self.unit, query_function)
        if conflict.where:
            writer.open(f"if not ({body.conditions(conflict.where)}):")
            writer.line("return None")
            writer.indent = 2
        writer.line(f"return {assigned_row(body, Scan(conflict.old, info), conflict.sets, writer)}")
        self.writer.open(f"def {name}(r{conflict.old}, r{conflict.new}):")
        for memo in body.memos:
            self.writer.line(memo)
        self.writer.lines.extend(writer.lines)
        self.writer.indent = 1
        return name


def assigned_row(body: Body, scan: Scan, sets: tuple[Set, ...], writer: Writer | None = None) -> str:
    """Python text of the new row. ``writer``: for assignments that see each other, each of which has a line of its own."""
    width = len(scan.table.types)
    cells = {place: f"r{scan.id}[{place}]" for place in range(width)}
    for assigned in sets:
        text = body.text(assigned.value)
        if assigned.slot is not None and writer is not None:
            writer.line(f"b{assigned.slot} = {text}")
            text = f"b{assigned.slot}"
        cells[assigned.place] = text
    return tuple_text([cells[place] for place in range(width)])


def row_check(checks: RowChecks) -> constraints.RowCheck:
    """A generated function that raises if a row breaks NOT NULL or a check."""
    unit, writer = Unit(), Writer()
    body = Body(unit, query_function)
    failed, row = unit.ref(broken), f"r{checks.source}"
    for place, reason in checks.nonnull:
        writer.open(f"if {row}[{place}] is None:")
        writer.line(f"raise {failed}('not-null', {reason!r})")
        writer.indent -= 1
    # The row is known not to be null where it must not be, only from here on.
    for condition, reason in checks.checks:
        writer.open(f"if {body.text(condition)} is False:")
        writer.line(f"raise {failed}('check', {reason!r})")
        writer.indent -= 1
    unit.functions.append("\n".join([f"def check_row({row}):", *[f"    {memo}" for memo in body.memos], *writer.lines]))
    checked: constraints.RowCheck = unit.finish("check_row")
    return checked


def broken(kind: str, reason: str) -> ExecutionError:
    return ExecutionError(kind, reason)
