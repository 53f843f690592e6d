"""One query to one Python function that gives its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from isolde.errors import ExecutionError
from isolde.semantics.concrete.asked import Existence, Need, Needs, always, asks, column_name, existence, needs_of
from isolde.semantics.concrete.cells import FAILURES, Failure, left_open
from isolde.semantics.concrete.compiler import Query, Writer
from isolde.semantics.concrete.expressions import Binding, Frame
from isolde.semantics.concrete.order import refuse_open_cut
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.sources import Loops, conjuncts, has_aggregate, parts
from isolde.semantics.concrete.static import Code, Sort
from isolde.semantics.concrete.ties import is_first, loose
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Aggregate, Aggregation, Binary, BinaryOperation, Expression, Literal, Name
from isolde.tx.queries import Item, Join, Order, QuerySource, Select, Star

if TYPE_CHECKING:
    from isolde.semantics.concrete.compiler import Compiler


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result: its name and the expression that it is."""

    name: str
    expression: Expression


def compile_query(
    compiler: Compiler,
    select: Select,
    parent: Frame | None,
    exists: bool = False,
    kept: bool = False,
    needs: Needs | None = None,
    sorted_: bool = True,
    filtered: bool = False,
) -> Query:
    """``kept``: what it gives is computed with or stored, and keeps the digits that nobody would see.

    ``needs``: when its columns are computed. ``sorted_``: whether ORDER BY has an effect. ``filtered``: there are conditions
    around it that a plan may test inside.
    """
    frame = Frame(compiler, parent)
    writer = Writer()
    left = existence(select, compiler.dialect) if exists else Existence(select, needs or always, False)
    needs = left.needs
    asked = asks(left.select, needs)
    filtered = filtered or exists or select.where is not None or isinstance(select.source, Join)

    def needed(source: QuerySource, optional: bool) -> Needs:
        return needs_of(source.query, source.alias, asked, compiler.dialect, optional, filtered)

    loops = Loops(frame, writer, needed, filtered)
    if select.source is not None:
        loops.declare(select.source)
    outputs = expanded(select.items, frame)
    select = _aliases(select, outputs, frame)
    orders = [expression.expression for expression in select.order_by]
    shown = [output.expression for output in outputs] + orders + ([select.having] if select.having else [])
    grouped = (
        bool(select.group_by) or select.having is not None or any(has_aggregate(expression) for expression in shown)
    )
    if any(has_aggregate(condition) for condition in (*conjuncts(select.where), *select.group_by)):
        raise ExecutionError("type", "aggregates are not allowed in WHERE and GROUP BY")
    stop = left.stops
    if exists:
        rest = _aliases(left.select, outputs, frame)
        _check(select, rest, shown, frame)
        select, grouped = rest, grouped and not stop
    sort = bool(select.order_by) and sorted_
    for bound, name in ((select.limit, "limit"), (select.offset, "offset")):
        if bound is not None:
            writer.line(f"{name} = {_bound(compiler, frame, bound, name)}")
    writer.line("out = []")
    if select.distinct:
        writer.line("seen = {}")
    if grouped:
        writer.line("groups, seen_keys, spellings = {}, {}, {}")
    start = writer.indent
    pool = conjuncts(select.where)
    if select.source is not None:
        loops.write(select.source, pool)
    loops.filter(pool, final=True)
    if grouped:
        _grouped(select, outputs, frame, writer, start, kept)
    cells = [_cell(output, needs(output.name, output.expression), frame, writer, stop, kept) for output in outputs]
    _emit(select, cells, outputs, frame, writer, stop, sort)
    writer.indent = start
    if stop:
        writer.line("return False")
    else:
        _finish(select, frame, writer, sort, exists)
        writer.line("return bool(out)" if exists else "return out")
    columns = tuple((output.name, cell.code.type) for output, cell in zip(outputs, cells, strict=True))
    call = compiler.function("query_", frame, writer)
    late = frozenset(output.name for output, cell in zip(outputs, cells, strict=True) if cell.late)
    return Query(call, columns, any(frame.free.values()), late)


def _check(whole: Select, left: Select, shown: list[Expression], frame: Frame) -> None:
    """Finds the errors of names and types in what EXISTS leaves out."""
    repeated, frame.repeated = frame.repeated, True
    for expression in whole.group_by if not left.group_by else ():
        frame.compile(expression)
        for other in shown:
            _determined(other, whole, frame)
    for order in whole.order_by if not left.order_by else ():
        if not has_aggregate(order.expression):
            frame.compile(order.expression)
    frame.repeated = repeated


def expanded(items: tuple[Item | Star, ...], frame: Frame) -> list[Output]:
    """Stars become columns."""
    outputs: list[Output] = []
    for item in items:
        if isinstance(item, Item):
            outputs.append(Output(column_name(item), item.expression))
            continue
        found = [binding for binding in frame.bindings if item.table is None or binding.name == item.table]
        if not found:
            raise ExecutionError(
                "name", f"there is no table {item.table} for its columns" if item.table else "* without tables"
            )
        for binding in found:
            outputs.extend(Output(column, Name(column, binding.name)) for column in binding.columns)
    return outputs


def _aliases(select: Select, outputs: list[Output], frame: Frame) -> Select:
    """ORDER BY and GROUP BY may name a column of the result, or give its number."""

    def meant(expression: Expression, own_first: bool) -> Expression:
        if isinstance(expression, Literal) and type(expression.value) is int:
            if not 1 <= expression.value <= len(outputs):
                raise ExecutionError("name", f"there is no column {expression.value} in the result")
            return outputs[expression.value - 1].expression
        if isinstance(expression, Name) and expression.table is None:
            column = any(expression.name in binding.columns for binding in frame.bindings)
            found = list(dict.fromkeys(output.expression for output in outputs if output.name == expression.name))
            if found and (own_first or not column):
                if len(found) > 1:
                    raise ExecutionError("name", f"{expression.name} is ambiguous in the result")
                return found[0]
        return expression

    if frame.compiler.dialect is Dialect.SQLITE and any(
        _zero(expression) and not isinstance(expression, Literal)
        for expression in (*(order.expression for order in select.order_by), *select.group_by)
    ):
        raise outside(
            "ORDER BY or GROUP BY of an AND with 0 in SQLite", "leave it out: it is taken for column number 0"
        )
    order_by = tuple(replace(order, expression=meant(order.expression, True)) for order in select.order_by)
    group_by = tuple(meant(expression, False) for expression in select.group_by)
    return replace(select, order_by=order_by, group_by=group_by)


def _zero(expression: Expression) -> bool:
    """Whether SQLite makes it the literal 0 while it reads the text."""
    if isinstance(expression, Literal):
        return expression.value is False or (type(expression.value) is int and expression.value == 0)
    if isinstance(expression, BinaryOperation) and expression.operator is Binary.AND:
        return _zero(expression.left) or _zero(expression.right)
    return False


def _bound(compiler: Compiler, frame: Frame, bound: Expression, name: str) -> str:
    if any(isinstance(part, Name) and _is_column(part, frame) for part in parts(bound)):
        raise ExecutionError("type", f"{name.upper()} must not use columns")
    code = compiler.rules.value(frame.compile(bound))
    helper = {Dialect.POSTGRESQL: natural, Dialect.MYSQL: mysql_bound, Dialect.SQLITE: sqlite_bound}[compiler.dialect]
    if code.type.sort not in (Sort.INTEGER, Sort.NULL, Sort.ANY):
        raise outside(f"{name.upper()} that is no integer")
    return f"{compiler.namespace.ref(helper)}({code.text})"


def _is_column(name: Name, frame: Frame) -> bool:
    return any(name.name in binding.columns for binding in frame.bindings)


def natural(value: Any) -> int | None:
    if value is not None and value < 0:
        raise ExecutionError("out-of-range", "LIMIT and OFFSET must not be negative")
    return value  # type: ignore[no-any-return]


def mysql_bound(value: Any) -> int | None:
    if value is None:
        raise outside("a LIMIT or OFFSET that is null in MySQL", "give a number")
    return natural(value)


def sqlite_bound(value: Any) -> int | None:
    """A negative limit is none."""
    if isinstance(value, str):
        raise outside("a LIMIT or OFFSET that is a text in SQLite", "give a number")
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        value = int(value)
    if not isinstance(value, int):
        raise ExecutionError("conversion", "datatype mismatch")
    return None if value < 0 else value


# Groups


def _grouped(select: Select, outputs: list[Output], frame: Frame, writer: Writer, start: int, kept: bool) -> None:
    """Collects rows by key, then goes on with one round a group, in which names mean the group's first row."""
    compiler, rules = frame.compiler, frame.compiler.rules
    variables = [binding.variable for binding in frame.bindings]
    row = f"({', '.join(variables)},)" if variables else "()"
    codes = [frame.compile(expression) for expression in select.group_by]
    writer.line(f"key = {_tuple(rules.key(code) for code in codes)}")
    if any(loose(code, compiler.dialect) for code in codes):
        writer.line(f"{compiler.namespace.ref(is_first)}(seen_keys, key, key)")
    if compiler.dialect is Dialect.MYSQL:
        shown = [part for output in outputs for part in parts(output.expression)]
        texts = [
            code.text
            for expression, code in zip(select.group_by, codes, strict=True)
            if code.type.sort is Sort.TEXT and expression in shown
        ]
        if texts:
            spelled = f"spellings.setdefault(key, {_tuple(texts)})"
            writer.line(f"{compiler.namespace.ref(one_spelling)}({spelled}, {_tuple(texts)})")
    writer.line(f"groups.setdefault(key, []).append({row})")
    writer.indent = start
    if not select.group_by:
        writer.line("groups = groups or {(): []}")
    writer.open("for rows in groups.values():")
    for place, binding in enumerate(frame.bindings):
        nulls = f"(None,) * {len(binding.columns)}"
        writer.line(f"{binding.variable} = rows[0][{place}] if rows else {nulls}")
    asked = [output.expression for output in outputs] + [order.expression for order in select.order_by]
    if select.having is not None:
        asked.append(select.having)
    for expression in asked:
        _determined(expression, select, frame)
    target = row if variables else "_"

    def aggregated(node: Aggregate) -> Code:
        if node.operand is None:
            return Code("len(rows)", rules.aggregate(Aggregation.COUNT, rules.literal(1))[1], solid=True)
        frame.aggregated = None
        operand = frame.compile(node.operand)
        adding = node.aggregation in (Aggregation.SUM, Aggregation.AVG)
        if compiler.dialect is Dialect.MYSQL and node.distinct and adding and operand.type.sort is Sort.TEXT:
            # MariaDB adds up different numbers; but different texts where the column is a key.
            raise outside(f"{node.aggregation.value.upper()} of DISTINCT texts in MySQL", "add 0 to them")
        function, type_, operand = rules.aggregate(node.aggregation, operand)
        if select.group_by or node.distinct:
            alone = all(node not in parts(output.expression) or node == output.expression for output in outputs)
            function = rules.in_groups(function, type_, operand, alone and not kept)
        frame.aggregated = aggregated
        value = compiler.namespace.fresh("t")
        text = f"[{value} for {target} in rows if ({value} := {operand.text}) is not None]"
        if node.distinct:
            key = rules.key(Code(value, operand.type))
            pairs = f"[({key}, {value}) for {target} in rows if ({value} := {operand.text}) is not None]"
            # A count is the same whichever of equal values are taken.
            strict = node.aggregation is not Aggregation.COUNT and loose(operand, compiler.dialect)
            text = f"{compiler.namespace.ref(distinct_same if strict else distinct)}({pairs})"
        return Code(f"{compiler.namespace.ref(function)}({text})", type_, solid=function is len)

    frame.aggregated = aggregated
    if select.having is not None:
        writer.open(f"if {frame.condition(select.having, 'HAVING')}:")


def _tuple(texts: Iterable[str]) -> str:
    """Python text of a tuple."""
    return f"({''.join(f'{text}, ' for text in texts)})"


def one_spelling(before: tuple[str | None, ...] | None, now: tuple[str | None, ...]) -> None:
    """MySQL holds 'a' and 'A' equal, and shows the one that its plan comes to first."""
    if before is not None and before != now:
        raise outside(
            f"DISTINCT or GROUP BY of {before} and {now}, which are equal in MySQL,",
            "spell them alike, with LOWER or UPPER",
        )


def distinct(pairs: list[tuple[Any, Any]]) -> list[Any]:
    """The first value of each key."""
    found: dict[Any, Any] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return list(found.values())


def distinct_same(pairs: list[tuple[Any, Any]]) -> list[Any]:
    seen: dict[Any, str] = {}
    return [value for key, value in pairs if is_first(seen, key, value)]


def _determined(expression: Expression, select: Select, frame: Frame) -> None:
    """Refuses what has no one value in a group: a column that is no key of it and stands outside of an aggregate."""
    if expression in select.group_by or isinstance(expression, Aggregate):
        return
    if isinstance(expression, Name):
        binding = _binding(expression, frame)
        if binding is not None and not _keyed(binding, expression, select, frame):
            what = f"column {expression.name}, which is not determined by GROUP BY,"
            if frame.compiler.dialect is Dialect.POSTGRESQL:
                raise ExecutionError("type", f"{what} must appear in GROUP BY or in an aggregate")
            raise outside(what, "add it to GROUP BY, or use MIN")
        return
    for part in _children(expression):
        if isinstance(part, Select):
            inner = [name for name in parts(part) if isinstance(name, Name) and _binding(name, frame) is not None]
            if inner and part.source is None:
                raise outside("a query inside of a grouped query that uses its columns")
            local = _own_columns(part, frame)
            if any((name.table or name.name) not in local for name in inner):
                raise outside("a query inside of a grouped query that uses its columns")
        else:
            _determined(part, select, frame)


def _own_columns(select: Select, frame: Frame) -> set[str]:
    """Names that the inner query surely binds itself."""
    names: set[str] = set()
    for part in parts(select.source):
        table = getattr(part, "table", None)
        info = frame.compiler.catalog.by_name.get(table) if isinstance(table, str) else None
        if info is not None:
            names |= {part.name, *info.columns}
    return names


def _children(expression: Expression) -> list[Any]:
    """Expressions and queries directly below."""
    from dataclasses import fields

    found: list[Any] = []
    waiting: list[Any] = [getattr(expression, part.name) for part in fields(expression)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting.extend(part)
        elif isinstance(part, (*Expression.__args__, Select)):
            found.append(part)
        elif type(part).__name__ == "When":
            waiting.extend((part.condition, part.result))
    return found


def _binding(name: Name, frame: Frame) -> Binding | None:
    return next(
        (
            binding
            for binding in frame.bindings
            if (name.table is None or binding.name == name.table) and name.name in binding.columns
        ),
        None,
    )


def _keyed(binding: Binding, name: Name, select: Select, frame: Frame) -> bool:
    columns = set()
    for expression in select.group_by:
        if isinstance(expression, Name) and _binding(expression, frame) is binding:
            columns.add(expression.name)
    if name.name in columns:
        return True
    key = binding.table.table.primary_key if binding.table is not None else ()
    return bool(key) and columns >= set(key)


# Results


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of the result, and the Python text of it; ``late``: it may be a failure instead."""

    code: Code
    text: str
    late: bool = False


def _cell(output: Output, need: Need, frame: Frame, writer: Writer, stop: bool, kept: bool) -> Cell:
    compiler = frame.compiler
    # What is not computed, or not always, is not computed ahead.
    repeated, frame.repeated = frame.repeated, frame.repeated or need is not Need.ALWAYS
    code = frame.compile(output.expression)
    frame.repeated = repeated
    if need is Need.NEVER:
        return Cell(code, "None")
    text = compiler.rules.value(code).text if kept else compiler.rules.output(code)
    if stop or need is Need.ALWAYS or code.column or code.constant is not None:
        return Cell(code, text)
    value = compiler.namespace.fresh("t")
    writer.open("try:")
    writer.line(f"{value} = {text}")
    writer.indent -= 1
    if need is Need.OPEN:
        writer.open(f"except {compiler.namespace.ref(ExecutionError)} as error:")
        writer.line(f"raise {compiler.namespace.ref(left_open)}(error) from None")
    else:
        writer.open(f"except {compiler.namespace.ref(FAILURES)} as error:")
        writer.line(f"{value} = {compiler.namespace.ref(Failure)}(error)")
    writer.indent -= 1
    return Cell(code, value, late=need is Need.WHEN_READ)


def _emit(
    select: Select, cells: list[Cell], outputs: list[Output], frame: Frame, writer: Writer, stop: bool, sort: bool
) -> None:
    rules = frame.compiler.rules
    codes = [cell.code for cell in cells]
    if stop:
        writer.line("return True")
        return
    row = _tuple(cell.text for cell in cells)
    keys: list[str] = []
    for order in select.order_by:
        if select.distinct and not any(order.expression == output.expression for output in outputs):
            if frame.compiler.dialect is Dialect.POSTGRESQL:
                raise ExecutionError("type", "for SELECT DISTINCT, ORDER BY expressions must appear in the result")
            raise outside("SELECT DISTINCT ordered by what is not in the result")
        keys.append(rules.sort_key(frame.compile(order.expression)))
    if select.distinct:
        if frame.compiler.dialect is Dialect.MYSQL and any(
            code.type.sort is Sort.FLOAT and not code.column for code in codes
        ):
            raise outside(
                "DISTINCT of computed floating-point numbers in MySQL", "they are rounded on the way; cast to DECIMAL"
            )
        same = ", ".join(rules.key(code) for code in codes)
        writer.line(f"same = ({same},)")
        if frame.compiler.dialect is Dialect.MYSQL:
            texts = _tuple(code.text for code in codes if code.type.sort is Sort.TEXT)
            writer.line(f"{frame.compiler.namespace.ref(one_spelling)}(seen.get(same), {texts})")
            writer.open("if same not in seen:")
            writer.line(f"seen[same] = {texts}")
        elif any(loose(code, frame.compiler.dialect) for code in codes):
            writer.open(f"if {frame.compiler.namespace.ref(is_first)}(seen, same, {row}):")
        else:
            writer.open("if same not in seen:")
            writer.line("seen[same] = None")
    writer.line(f"out.append((({', '.join(keys)},), {row}))" if sort else f"out.append({row})")


def _finish(select: Select, frame: Frame, writer: Writer, sort: bool, exists: bool) -> None:
    compiler = frame.compiler
    offset = "offset" if select.offset is not None else "0"
    limit = "limit" if select.limit is not None else "None"
    # Whether there is a row is the same whichever are cut off.
    checked = (offset, limit) != ("0", "None") and not exists
    if sort:
        specs = tuple(
            (place, order.descending, nulls_first(order, compiler)) for place, order in enumerate(select.order_by)
        )
        bounds = f", {offset}, {limit}" if checked else ""
        writer.line(f"out = {compiler.namespace.ref(ordered)}(out, {specs!r}{bounds})")
    elif checked:
        writer.line(f"{compiler.namespace.ref(refuse_open_cut)}([((), row) for row in out], {offset}, {limit})")
    if select.offset is not None:
        writer.line("out = out[offset or 0:]")
    if select.limit is not None:
        writer.line("out = out[:limit]")


def nulls_first(order: Order, compiler: Compiler) -> bool:
    if order.nulls_first is not None:
        if compiler.dialect is Dialect.MYSQL:
            raise outside("NULLS FIRST and NULLS LAST in MySQL", "order by x IS NULL first")
        return order.nulls_first
    return order.descending if compiler.rules.nulls_last_ascending else not order.descending


def ordered(
    rows: list[tuple[tuple[Any, ...], tuple[Any, ...]]],
    specs: tuple[tuple[int, bool, bool], ...],
    offset: int | None = None,
    limit: int | None = None,
) -> list[tuple[Any, ...]]:
    """Sorted by the last key first: sorting is stable."""
    for place, descending, first in reversed(specs):
        rows.sort(key=_sort_key(place, (0, 0) if first is not descending else (2, 0)), reverse=descending)
    refuse_open_cut(rows, offset, limit)
    return [row for _, row in rows]


def _sort_key(
    place: int, null: tuple[int, Any]
) -> Callable[[tuple[tuple[Any, ...], tuple[Any, ...]]], tuple[int, Any]]:
    return lambda entry: null if entry[0][place] is None else (1, entry[0][place])
