"""One query to one Python function that gives its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from isolde.errors import ExecutionError
from isolde.semantics.concrete.asked import Existence, Need, Needs, always, asks, column_name, existence, needs_of
from isolde.semantics.concrete.cells import FAILURES, Failure, left_open
from isolde.semantics.concrete.compiler import Query, Writer
from isolde.semantics.concrete.doubts import may_fail, reached, refuse_unread, weigh, weigh_cut
from isolde.semantics.concrete.expressions import Frame
from isolde.semantics.concrete.grouping import determined, one_spelling, tuple_text, write_groups
from isolde.semantics.concrete.order import refuse_open_cut
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.sources import Loops, conjuncts, has_aggregate, parts, shallow
from isolde.semantics.concrete.static import Code, Sort
from isolde.semantics.concrete.sweeps import Sweeps
from isolde.semantics.concrete.ties import is_first, loose
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import (
    Aggregate,
    Aggregation,
    Binary,
    BinaryOperation,
    Expression,
    Literal,
    Name,
    Unary,
    UnaryOperation,
)
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
    member: bool = False,
    hurried: bool = False,
) -> Query:
    """``kept``: what it gives is computed with or stored, and keeps the digits that nobody would see.

    ``needs``: when its columns are computed. ``sorted_``: whether ORDER BY has an effect. ``filtered``: there are conditions
    around it that a plan may test inside. ``member``: it stands after IN, where failures take the place of rows.
    ``hurried``: what is around it may not wait for its last row.
    """
    frame = Frame(compiler, parent)
    writer = Writer()
    left = existence(select, compiler.dialect) if exists else Existence(select, needs or always, False)
    needs = left.needs
    asked = asks(left.select, needs)
    around, cut = filtered or hurried, select.limit is not None or select.offset is not None
    filtered = filtered or exists or select.where is not None or isinstance(select.source, Join)

    def needed(source: QuerySource, optional: bool) -> Needs:
        return needs_of(source.query, source.alias, asked, compiler.dialect, optional, filtered)

    sweeps = Sweeps(frame, writer, held=around or exists or cut or _least(select, compiler.dialect))
    loops = Loops(frame, writer, needed, filtered, sweeps, joined=isinstance(select.source, Join))
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
        elif cut:
            writer.line(f"{name} = None")
    writer.line("out = []")
    if select.distinct:
        writer.line("seen = {}")
    if grouped:
        writer.line("groups, seen_keys, spellings = {}, {}, {}")
    computed = (*(output.expression for output in outputs), *orders, select.having, select.group_by)
    weighed = sweeps.held and not stop and (cut or member) and may_fail(computed, compiler.dialect)
    start = writer.indent
    opening = len(writer.lines)
    pool = loops.parted(select.where)
    failing = compiler.dialect is Dialect.POSTGRESQL and may_fail(select, compiler.dialect)
    having = loops.parted(select.having) if failing else []
    if select.group_by:
        # What PostgreSQL can test of a row, it does not wait for the group to test.
        pool += [part for part in having if not any(isinstance(inner, Aggregate | Select) for inner in parts(part))]
    sweeps.gate(pool, [*having, *loops.joining(select.source)], failing)
    if select.source is not None:
        loops.ahead()
        loops.write(select.source, pool)
    loops.filter(pool, final=True)
    passed = writer.indent
    if weighed and not grouped:
        writer.line("placed = None")
        writer.open("try:")
    if grouped:
        early = [output.expression for output in outputs if needs(output.name, output.expression) is Need.ALWAYS]
        passed = write_groups(
            select, [output.expression for output in outputs], early, frame, writer, start, kept, weighed
        )
    cells = [_cell(output, needs(output.name, output.expression), frame, writer, stop, kept) for output in outputs]
    doubtful = sweeps.held and (weighed or bool(sweeps.all) or bool(sweeps.gated))
    _emit(select, cells, outputs, frame, writer, stop, sort, doubtful, weighed)
    if weighed:
        writer.indent = passed
        writer.open(f"except {compiler.namespace.ref(ExecutionError)} as error:")
        failed = f"out.append((placed, ({compiler.namespace.ref(Failure)}(error),)))"
        writer.line(f"doubts.append(error) if placed is None else {failed}")
    writer.indent = start
    if doubtful:
        writer.lines.insert(opening, "    " * start + "doubts, found = [], False")
    if doubtful and not (member and not cut):
        writer.line(
            f"{compiler.namespace.ref(weigh)}(doubts, {_enough(around and not member, stop, cut, grouped, compiler)})"
        )
    sweeps.write(loops)
    for name in frame.unread:
        writer.line(f"{compiler.namespace.ref(refuse_unread)}({name})")
    if stop:
        writer.line("return found" if doubtful else "return False")
    else:
        _finish(select, frame, writer, sort, exists, weighed)
        if doubtful and member and not cut:
            writer.line(f"out += [({compiler.namespace.ref(Failure)}(error),) for error in doubts]")
        writer.line("return bool(out)" if exists else "return out")
    columns = tuple((output.name, cell.code.type) for output, cell in zip(outputs, cells, strict=True))
    call = compiler.function("query_", frame, writer)
    late = frozenset(
        output.name for output, cell in zip(outputs, cells, strict=True) if cell.late or (doubtful and member)
    )
    return Query(call, columns, any(frame.free.values()), late)


def _least(select: Select, dialect: Dialect) -> bool:
    """Whether PostgreSQL may find MIN and MAX by an index, so that it stops at the first row."""
    found = [part for item in select.items for part in shallow(item) if isinstance(part, Aggregate)]
    return (
        dialect is Dialect.POSTGRESQL
        and not select.group_by
        and bool(found)
        and all(
            part.aggregation in (Aggregation.MIN, Aggregation.MAX) and isinstance(part.operand, Name) for part in found
        )
    )


def _enough(around: bool, stop: bool, cut: bool, grouped: bool, compiler: Compiler) -> str:
    """Python text that says whether a plan may have stopped before the rows that are in doubt."""
    if around:
        return "True"
    if stop:
        return "found"
    if cut:
        return f"{compiler.namespace.ref(reached)}(len(out), limit, offset)"
    return "any(groups.values())" if grouped else "bool(out)"


def _check(whole: Select, left: Select, shown: list[Expression], frame: Frame) -> None:
    """Finds the errors of names and types in what EXISTS leaves out."""
    repeated, frame.repeated = frame.repeated, True
    for expression in whole.group_by if not left.group_by else ():
        frame.compile(expression)
        for other in shown:
            determined(other, whole, frame)
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
        if frame.compiler.dialect is Dialect.POSTGRESQL and _signed(expression):
            raise ExecutionError("type", "a number in ORDER BY or GROUP BY must be that of a column")
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


def _signed(expression: Expression) -> bool:
    """Whether it is a number, but no column's."""
    negative = isinstance(expression, UnaryOperation) and expression.operator is Unary.NEGATE
    inner = expression.operand if isinstance(expression, UnaryOperation) and negative else expression
    return isinstance(inner, Literal) and (
        isinstance(inner.value, Decimal | float) or (negative and type(inner.value) is int)
    )


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
    select: Select,
    cells: list[Cell],
    outputs: list[Output],
    frame: Frame,
    writer: Writer,
    stop: bool,
    sort: bool,
    doubtful: bool,
    weighed: bool,
) -> None:
    rules = frame.compiler.rules
    codes = [cell.code for cell in cells]
    if stop:
        # A row after this one may fail, and another plan may come to it first.
        writer.line("found = True" if doubtful else "return True")
        return
    row = tuple_text(cell.text for cell in cells)
    keys: list[str] = []
    for order in select.order_by:
        if select.distinct and not any(order.expression == output.expression for output in outputs):
            if frame.compiler.dialect is Dialect.POSTGRESQL:
                raise ExecutionError("type", "for SELECT DISTINCT, ORDER BY expressions must appear in the result")
            raise outside("SELECT DISTINCT ordered by what is not in the result")
        keys.append(rules.sort_key(frame.compile(order.expression)))
    key = f"({', '.join(keys)},)"
    if weighed and sort and not select.distinct:
        # A row that fails after this has its place, and is cut off or not.
        writer.line(f"placed = {key}")
        key = "placed"
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
            texts = tuple_text(code.text for code in codes if code.type.sort is Sort.TEXT)
            writer.line(f"{frame.compiler.namespace.ref(one_spelling)}(seen.get(same), {texts})")
            writer.open("if same not in seen:")
            writer.line(f"seen[same] = {texts}")
        elif any(loose(code, frame.compiler.dialect) for code in codes):
            writer.open(f"if {frame.compiler.namespace.ref(is_first)}(seen, same, {row}):")
        else:
            writer.open("if same not in seen:")
            writer.line("seen[same] = None")
    writer.line(f"out.append(({key}, {row}))" if sort else f"out.append({row})")


def _finish(select: Select, frame: Frame, writer: Writer, sort: bool, exists: bool, weighed: bool) -> None:
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
    if weighed and sort:
        writer.line(f"{compiler.namespace.ref(weigh_cut)}(out, {offset}, {limit})")
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
