"""INSERT, UPDATE and DELETE to Python functions: which rows, what they become; ``constraints`` then applies them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete import constraints
from isolde.semantics.concrete.bindings import Binding
from isolde.semantics.concrete.catalog import TableInfo
from isolde.semantics.concrete.compiler import Compiler, Writer
from isolde.semantics.concrete.doubts import refuse_unread
from isolde.semantics.concrete.expressions import Frame
from isolde.semantics.concrete.order import Late, late, refuse_open_draws, refuse_seen_changes, unordered
from isolde.semantics.concrete.queries import expanded
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.sources import Loops, parts, table_binding
from isolde.semantics.concrete.sqlite import returned_real, stored_rowid
from isolde.semantics.concrete.static import Affinity, Code, Static
from isolde.semantics.concrete.sweeps import Sweeps
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Expression
from isolde.tx.queries import Item, Select, Star, TableSource
from isolde.tx.schema import Column
from isolde.tx.statements import Assignment, Default, Delete, Insert, InsertMode, OnConflict, Update


@dataclass(frozen=True, slots=True)
class Changed:
    """A call that gives the number of rows and the rows that are returned."""

    call: str
    columns: tuple[tuple[str, Static], ...]


def compile_update(compiler: Compiler, update: Update, parent: Frame) -> Changed:
    info = compiler.catalog.table(update.table)
    frame, writer = Frame(compiler, parent), Writer()
    binding = table_binding(update.alias or update.table, compiler.namespace.fresh("r"), info)
    frame.bindings.append(binding)
    seen = _late(frame, update)
    loops = _matches(frame, writer, binding, update.where, seen.conditions)
    places = [info.column(assignment.column) for assignment in update.assignments]
    if len(set(places)) < len(places) and compiler.dialect is not Dialect.MYSQL:
        raise ExecutionError("name", "a column is assigned twice")
    # MariaDB runs an UPDATE that also reads the table as one of several tables, which computes all values first.
    reading = any(isinstance(part, TableSource) and part.table == update.table for part in parts(update))
    together = reading or compiler.dialect is not Dialect.MYSQL
    new = _assigned(frame, writer, binding, info, update.assignments, together)
    writer.line(f"hits.append((number, {binding.variable}, {new}))")
    _swept(frame, writer, loops)
    drawn = f"S.next_id({info.position})"
    if drawn in new:
        writer.line(f"{compiler.namespace.ref(refuse_open_draws)}(S.writable({info.position}), hits)")
    if seen.conditions or seen.values:
        writer.line(f"{compiler.namespace.ref(refuse_seen_changes)}(hits, near)")
    keys = {place for unique in info.uniques for place in unique}
    helper = "rekey" if keys & set(places) else "replace"
    checked = constraints.Checks.of(compiler, info, tuple(places))
    name = compiler.namespace.ref(checked)
    function = constraints.updated_keys if helper == "rekey" else constraints.updated
    writer.line(f"count = {compiler.namespace.ref(function)}(S, {info.position}, hits, {name})")
    rows = "[hit[2] for hit in hits]"
    changed = _returning(compiler, "update_", frame, writer, binding, update.returning, rows)
    return _half_way(compiler, info, changed) if info.generated in places else changed


def _half_way(compiler: Compiler, info: TableInfo, changed: Changed) -> Changed:
    """MySQL's counter of ids follows a statement row by row: if it fails, it came as far as the plan has it."""
    if compiler.dialect is not Dialect.MYSQL or info.generated is None:
        return changed
    helper = compiler.namespace.ref(constraints.half_way)
    return replace(changed, call=f"{helper}(S, {info.position}, lambda: {changed.call})")


def compile_delete(compiler: Compiler, delete: Delete, parent: Frame) -> Changed:
    info = compiler.catalog.table(delete.table)
    frame, writer = Frame(compiler, parent), Writer()
    binding = table_binding(delete.alias or delete.table, compiler.namespace.fresh("r"), info)
    frame.bindings.append(binding)
    seen = _late(frame, delete)
    loops = _matches(frame, writer, binding, delete.where, seen.conditions)
    writer.line(f"hits.append((number, {binding.variable}))")
    _swept(frame, writer, loops)
    if seen.conditions:
        writer.line(f"{compiler.namespace.ref(refuse_seen_changes)}(hits, near)")
    writer.line(f"count = {compiler.namespace.ref(constraints.deleted)}(S, {info.position}, hits)")
    return _returning(compiler, "delete_", frame, writer, binding, delete.returning, "[hit[1] for hit in hits]")


def _late(frame: Frame, change: Update | Delete) -> Late:
    if frame.compiler.dialect is not Dialect.SQLITE:
        return Late()
    return late(change, lambda query: frame.compiler.query(query, frame).correlated)


def _matches(
    frame: Frame, writer: Writer, binding: Binding, where: Expression | None, last: tuple[Expression, ...] = ()
) -> Loops:
    """Opens a loop over the rows that are to be changed; ``near`` are those for which all conditions but the last ones hold."""
    sweeps = Sweeps(frame, writer)
    loops = Loops(frame, writer, sweeps=sweeps)
    writer.line("hits, near = [], []")
    pool = [condition for condition in loops.parted(where) if condition not in last]
    sweeps.gate(pool)
    writer.open(f"for number, {binding.variable} in {loops.candidates(binding, pool, numbers=True)}:")
    loops.bound.add(binding.variable)
    loops.filter(pool, final=True)
    if last:
        writer.line("near.append(number)")
        loops.filter(list(last), final=True)
    return loops


def _swept(frame: Frame, writer: Writer, loops: Loops) -> None:
    """After the loop: what fails on other rows."""
    assert loops.sweeps is not None
    writer.indent = 1
    loops.sweeps.write(loops)
    for name in frame.unread:
        writer.line(f"{frame.compiler.namespace.ref(refuse_unread)}({name})")


def _assigned(
    frame: Frame,
    writer: Writer,
    binding: Binding,
    info: TableInfo,
    assignments: tuple[Assignment, ...],
    together: bool,
) -> str:
    """Python text of the new row. ``together``: no assignment sees another; in MySQL each sees those before it."""
    variable = binding.variable
    if together:
        new = {info.column(assignment.column): _value(frame, info, assignment) for assignment in assignments}
        cells = [new.get(place, f"{variable}[{place}]") for place in range(len(info.types))]
        return f"({', '.join(cells)},)"
    if len(assignments) == 1:
        place = info.column(assignments[0].column)
        value = _value(frame, info, assignments[0])
        cells = [value if place == other else f"{variable}[{other}]" for other in range(len(info.types))]
        return f"({', '.join(cells)},)"
    copy = frame.compiler.namespace.fresh("n")
    writer.line(f"{copy} = list({variable})")
    columns = dict(binding.columns)
    binding.variable = copy
    for assignment in assignments:
        place = info.column(assignment.column)
        writer.line(f"{copy}[{place}] = {_value(frame, info, assignment)}")
        # It may be null now, until the row is checked.
        binding.columns[assignment.column] = (place, info.types[place], False)
    binding.variable, binding.columns = variable, columns
    return f"tuple({copy})"


def _value(frame: Frame, info: TableInfo, assignment: Assignment) -> str:
    column = info.table.columns[info.column(assignment.column)]
    if isinstance(assignment.value, Default):
        if column.generated and frame.compiler.dialect is Dialect.MYSQL:
            raise outside("UPDATE of a generated id to DEFAULT in MySQL")
        return default(frame.compiler, info, column)
    value = frame.compiler.rules.stored(frame.compile(assignment.value), column)
    return frame.compiler.namespace.call(stored_rowid, value) if info.column(column.name) == info.rowid else value


def no_default(reason: str) -> None:
    raise ExecutionError("not-null", reason)


def default(compiler: Compiler, info: TableInfo, column: Column, late: bool = False) -> str:
    if column.generated and compiler.dialect is Dialect.POSTGRESQL:
        return f"S.next_id({info.position})"
    if info.column(column.name) == info.rowid:
        # SQLite makes up the number of a row, whatever default its column has.
        return "None"
    if column.default is None:
        place = info.column(column.name)
        if compiler.dialect is Dialect.MYSQL and info.solid[place] and not column.generated:
            reason = f"{info.table.name}.{column.name} has no default value"
            if late:
                return f"{compiler.namespace.ref(no_default)}({reason!r})"
            raise ExecutionError("not-null", reason)
        return "None"
    return compiler.rules.stored(Frame(compiler).compile(column.default), column)


def _returning(
    compiler: Compiler,
    stem: str,
    frame: Frame,
    writer: Writer,
    binding: Binding,
    items: tuple[Item | Star, ...],
    rows: str,
) -> Changed:
    if not items:
        writer.line("return count, []")
        return Changed(compiler.function(stem, frame, writer), ())
    if compiler.dialect is Dialect.MYSQL and stem == "update_":
        raise outside("UPDATE … RETURNING in MySQL", "read the row after the update")
    if binding.table is not None and binding.table.table.name in _tables(items):
        raise outside("RETURNING with a query over the changed table", "query it before or after the change")
    frame.bindings = [binding]
    outputs = expanded(items, frame)
    codes = [frame.compile(output.expression) for output in outputs]
    values = ", ".join(_shown(compiler, stem, code) for code in codes)
    writer.line("out = []")
    writer.open(f"for {binding.variable} in {rows}:")
    writer.line(f"out.append(({values},))")
    writer.indent = 1
    writer.line("return count, out")
    columns = tuple((output.name, code.type) for output, code in zip(outputs, codes, strict=True))
    return Changed(compiler.function(stem, frame, writer), columns)


def _shown(compiler: Compiler, stem: str, code: Code) -> str:
    """SQLite's RETURNING shows what it stores: a whole number in a REAL column as an integer."""
    text = compiler.rules.output(code)
    if code.type.affinity is Affinity.REAL and code.column and stem != "delete_":
        return compiler.namespace.call(returned_real, text)
    return text


# INSERT


def compile_insert(compiler: Compiler, insert: Insert, parent: Frame) -> Changed:
    info = compiler.catalog.table(insert.table)
    if insert.mode is not InsertMode.PLAIN and compiler.dialect is Dialect.POSTGRESQL:
        raise ExecutionError("type", f"PostgreSQL has no {insert.mode.value.upper()}")
    if insert.mode is InsertMode.IGNORE and compiler.dialect is Dialect.MYSQL:
        _refuse_bending(insert, info)
    if insert.mode is not InsertMode.PLAIN and insert.on_conflict is not None:
        raise outside(
            f"{insert.mode.value.upper()} with ON CONFLICT", "use one of the two: they hold for different keys"
        )
    names = insert.columns or _first_columns(compiler, insert, info)
    places = [info.column(name) for name in names]
    if len(set(places)) < len(places):
        raise ExecutionError("name", "a column is named twice in INSERT")
    frame, writer = Frame(compiler, parent), Writer()
    if compiler.dialect is Dialect.MYSQL and insert.on_conflict is not None:
        _refuse_odd_update(insert, info, names)
    source, size = _rows(compiler, frame, info, insert, places, writer)
    conflict, arguments = _conflict(compiler, frame, info, insert.on_conflict)
    assigned = {info.column(part.column) for part in insert.on_conflict.assignments} if insert.on_conflict else set()
    plan = constraints.InsertPlan(
        position=info.position,
        checks=constraints.Checks.of(compiler, info, tuple(range(len(info.types)))),
        mode=insert.mode,
        conflict=insert.on_conflict is not None,
        target=_target(info, insert.on_conflict),
        updating=insert.on_conflict is not None and bool(insert.on_conflict.assignments),
        known=None if isinstance(insert.source, Select) else len(insert.source),
        supplied=info.generated is not None and info.generated in places,
        unordered=isinstance(insert.source, Select) and unordered(insert.source, compiler.catalog),
        rekeys=any(assigned & set(unique) for unique in info.uniques),
        rereads=insert.table in _tables(insert.on_conflict),
    )
    name = compiler.namespace.ref(plan)
    helper = compiler.namespace.ref(constraints.inserted)
    bends = insert.mode is InsertMode.IGNORE and compiler.dialect is Dialect.MYSQL
    if bends:
        writer.open("try:")
    writer.line(f"count, rows = {helper}(S, {name}, {size}, {source}, {conflict}, ({arguments}))")
    if bends:
        writer.indent -= 1
        writer.open(f"except {compiler.namespace.ref(ExecutionError)} as error:")
        writer.line(f"raise {compiler.namespace.ref(bent)}(error) from None")
        writer.indent -= 1
    binding = table_binding(insert.table, compiler.namespace.fresh("r"), info)
    changed = _returning(compiler, "insert_", frame, writer, binding, insert.returning, "rows")
    several = (
        plan.known is not None and plan.known > 1 and any(isinstance(part, Select) for part in parts(insert.source))
    )
    return _half_way(compiler, info, changed) if several else changed


def _first_columns(compiler: Compiler, insert: Insert, info: TableInfo) -> tuple[str, ...]:
    """The columns of an INSERT that names none: none for DEFAULT VALUES, in PostgreSQL as many as there are values."""
    columns = tuple(column.name for column in info.table.columns)
    if isinstance(insert.source, Select):
        return columns
    sizes = {len(row) for row in insert.source}
    if sizes == {0}:
        return ()
    return columns[: max(sizes)] if compiler.dialect is Dialect.POSTGRESQL else columns


def _refuse_bending(insert: Insert, info: TableInfo) -> None:
    if insert.columns:
        for place, column in enumerate(info.table.columns):
            given = column.name in insert.columns or column.default is not None or column.generated
            if info.solid[place] and not given:
                raise outside("INSERT IGNORE without a value for a NOT NULL column in MySQL", "give a value")
    if isinstance(insert.source, Select):
        raise outside("INSERT IGNORE … SELECT in MySQL", "IGNORE also bends values to the columns' types")


def bent(error: ExecutionError) -> ExecutionError | OutsideFragment:
    """IGNORE makes a warning of the error, and another value of the one that does not fit."""
    if error.kind not in {"conversion", "out-of-range", "division-by-zero", "cardinality"}:
        return error
    return outside(f"INSERT IGNORE of a value that does not fit ({error}) in MySQL", "give values that fit")


def _refuse_odd_update(insert: Insert, info: TableInfo, names: tuple[str, ...]) -> None:
    assert insert.on_conflict is not None
    for assignment in insert.on_conflict.assignments:
        if assignment.column not in names and info.solid[info.column(assignment.column)]:
            raise outside("ON DUPLICATE KEY UPDATE of a NOT NULL column that the INSERT does not name", "name it")
    if isinstance(insert.source, Select) and info.table.name in _tables(insert.source):
        raise outside("INSERT … SELECT … ON DUPLICATE KEY UPDATE from the table itself", "select into variables first")


def _rows(
    compiler: Compiler, frame: Frame, info: TableInfo, insert: Insert, places: list[int], writer: Writer
) -> tuple[str, str]:
    """Python text of the rows, one after the other, and of their number."""
    columns = info.table.columns
    defaults = {place: default(compiler, info, column) for place, column in enumerate(columns) if place not in places}
    if isinstance(insert.source, Select):
        query = compiler.query(insert.source, frame, kept=True)
        if len(query.columns) != len(places):
            raise ExecutionError("type", "INSERT has not as many values as columns")
        row = compiler.namespace.fresh("r")
        cells = dict(defaults)
        for place, (position, (_, type_)) in zip(places, enumerate(query.columns), strict=True):
            cells[place] = _cell(compiler, info, insert, columns[place], Code(f"{row}[{position}]", type_))
        rows = compiler.namespace.fresh("rows")
        fetched = _half_way(compiler, info, Changed(query.call, query.columns))
        writer.line(f"{rows} = {fetched.call}")
        return f"(({', '.join(cells[place] for place in range(len(columns)))},) for {row} in {rows})", f"len({rows})"
    inner = Writer()
    for values in insert.source:
        if len(values) != len(places):
            raise ExecutionError("type", "INSERT has not as many values as columns")
        cells = dict(defaults)
        for place, value in zip(places, values, strict=True):
            column = columns[place]
            if isinstance(value, Default):
                cells[place] = default(compiler, info, column, late=True)
            else:
                cells[place] = _cell(compiler, info, insert, column, frame.compile(value))
        inner.lines.append(f"({', '.join(cells[place] for place in range(len(columns)))},)")
    size = str(len(inner.lines))
    if len(inner.lines) == 1:
        return f"({inner.lines[0]},)", size
    # One at a time: an error in the second row comes after what the first row brings about.
    body = Writer()
    for line in inner.lines:
        body.line(f"yield {line}")
    made = Frame(compiler, frame)
    made.free = dict(frame.free)
    made.memos = list(frame.memos)
    call = compiler.function("values_", made, body)
    if compiler.dialect is Dialect.MYSQL and insert.table in _tables(insert.source):
        raise outside("an INSERT of several rows whose values read the table", "MariaDB shows them the rows before")
    # MySQL's queries cannot see the rows before, as they read other tables.
    if compiler.dialect is Dialect.MYSQL or not any(isinstance(part, Select) for part in parts(insert.source)):
        return call, size
    # A query among the values sees the table as it was before the statement, but ids are taken row by row.
    if (
        info.generated is not None
        and compiler.dialect is Dialect.POSTGRESQL
        and f"S.next_id({info.position})" in " ".join(inner.lines)
    ):
        raise outside(
            "an INSERT of several rows with generated ids whose values are read by queries", "insert row by row"
        )
    return f"list({call})", size


def _tables(node: object) -> set[str]:
    """The tables that queries in it read."""
    return {part.table for part in parts(node) if isinstance(part, TableSource)}


def _cell(compiler: Compiler, info: TableInfo, insert: Insert, column: Column, value: Code) -> str:
    """What is stored. SQLite's REPLACE puts the default in place of a null that a column does not take."""
    text = compiler.rules.stored(value, column)
    if insert.mode is not InsertMode.REPLACE or compiler.dialect is not Dialect.SQLITE or column.nullable:
        return text
    instead = default(compiler, info, column)
    if instead == "None":
        return text
    name = compiler.namespace.fresh("t")
    return f"({name} if ({name} := {text}) is not None else {instead})"


def _target(info: TableInfo, conflict: OnConflict | None) -> tuple[int, ...]:
    """The unique keys that ON CONFLICT looks at, by position."""
    if conflict is None or not conflict.columns:
        return tuple(range(len(info.uniques)))
    wanted = {info.column(name) for name in conflict.columns}
    found = tuple(place for place, unique in enumerate(info.uniques) if set(unique) == wanted)
    if not found:
        raise ExecutionError("name", f"{info.table.name} has no unique key ({', '.join(conflict.columns)})")
    return found


def _conflict(compiler: Compiler, frame: Frame, info: TableInfo, conflict: OnConflict | None) -> tuple[str, str]:
    """A function from the row that is there, and the one that was to be inserted, to the new one; ``None`` leaves it."""
    if conflict is None or not conflict.assignments:
        return "None", ""
    if compiler.dialect is Dialect.MYSQL and conflict.where is not None:
        raise ExecutionError("type", "ON DUPLICATE KEY UPDATE has no WHERE")
    if compiler.dialect is Dialect.POSTGRESQL and not conflict.columns:
        raise ExecutionError("type", "ON CONFLICT DO UPDATE needs the columns of a key")
    inner, writer = Frame(compiler, frame), Writer()
    row = table_binding(info.table.name, "r_old", info)
    # A plain name is the row's own; what was to be inserted is only ever excluded.c.
    new = Binding("excluded", "r_new", dict(row.columns), info)
    inner.bindings = [row]
    outer = Frame(compiler, frame)
    outer.bindings = [new]
    inner.parent = outer
    if conflict.where is not None:
        writer.open(f"if not {inner.condition(conflict.where)}:")
        writer.line("return None")
        writer.indent = 1
    together = compiler.dialect is not Dialect.MYSQL
    cells = _assigned(inner, writer, row, info, conflict.assignments, together)
    writer.line(f"return {cells}")
    free = [name for name in {**inner.free, **outer.free} if name not in ("r_old", "r_new")]
    for name in free:
        frame.free.setdefault(name, name.startswith("r"))
    name = compiler.namespace.fresh("conflict_")
    memos = [f"    {memo}" for memo in inner.memos]
    header = f"def {name}(S, r_old, r_new{''.join(', ' + variable for variable in free)}):"
    compiler.functions.append("\n".join([header, *memos, *writer.lines]))
    return name, "".join(f"{variable}, " for variable in free)
