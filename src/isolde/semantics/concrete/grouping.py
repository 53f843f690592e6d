"""GROUP BY and aggregates: rows are collected by key, then there is one round a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.concrete.bindings import Binding
from isolde.semantics.concrete.compiler import Writer
from isolde.semantics.concrete.doubts import may_fail, split
from isolde.semantics.concrete.expressions import Frame
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.sources import parts, shallow
from isolde.semantics.concrete.static import Code, Sort
from isolde.semantics.concrete.sweeps import Sweeps
from isolde.semantics.concrete.ties import is_first, loose
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Aggregate, Aggregation, Expression, Name
from isolde.tx.queries import Select


def write_groups(
    select: Select,
    outputs: list[Expression],
    early: list[Expression],
    frame: Frame,
    writer: Writer,
    start: int,
    kept: bool,
    weighed: bool,
) -> int:
    """Collects rows by key, then goes on with one round a group, in which names mean the group's first row.

    ``early``: what is shown for sure; aggregates in it are computed before HAVING. ``weighed``: a round is a ``try``; the
    indentation of it is given back.
    """
    compiler, rules = frame.compiler, frame.compiler.rules
    variables = [binding.variable for binding in frame.bindings]
    row = f"({', '.join(variables)},)" if variables else "()"
    codes = [frame.compile(expression) for expression in select.group_by]
    writer.line(f"key = {tuple_text(rules.key(code) for code in codes)}")
    if any(loose(code, compiler.dialect) for code in codes):
        writer.line(f"{compiler.namespace.ref(is_first)}(seen_keys, key, key)")
    if compiler.dialect is Dialect.MYSQL:
        shown = [part for output in outputs for part in parts(output)]
        texts = [
            code.text
            for expression, code in zip(select.group_by, codes, strict=True)
            if code.type.sort is Sort.TEXT and expression in shown
        ]
        if texts:
            spelled = f"spellings.setdefault(key, {tuple_text(texts)})"
            writer.line(f"{compiler.namespace.ref(one_spelling)}({spelled}, {tuple_text(texts)})")
    writer.line(f"groups.setdefault(key, []).append({row})")
    writer.indent = start
    if not select.group_by:
        writer.line("groups = groups or {(): []}")
    writer.open("for rows in groups.values():")
    round_ = writer.indent
    if weighed:
        writer.line("placed = None")
        writer.open("try:")
    for place, binding in enumerate(frame.bindings):
        nulls = f"(None,) * {len(binding.columns)}"
        writer.line(f"{binding.variable} = rows[0][{place}] if rows else {nulls}")
    asked = outputs + [order.expression for order in select.order_by]
    if select.having is not None:
        asked.append(select.having)
    for expression in asked:
        determined(expression, select, frame)
    target = row if variables else "_"

    def aggregated(node: Aggregate) -> Code:
        if node.operand is None:
            return Code("len(rows)", rules.aggregate(Aggregation.COUNT, rules.literal(1))[1], solid=True)
        outer, frame.aggregated = frame.aggregated, None
        operand = frame.compile(node.operand)
        adding = node.aggregation in (Aggregation.SUM, Aggregation.AVG)
        if compiler.dialect is Dialect.MYSQL and node.distinct and adding and operand.type.sort is Sort.TEXT:
            # MariaDB adds up different numbers; but different texts where the column is a key.
            raise outside(f"{node.aggregation.value.upper()} of DISTINCT texts in MySQL", "add 0 to them")
        function, type_, operand = rules.aggregate(node.aggregation, operand)
        if select.group_by or node.distinct:
            alone = all(node not in parts(output) or node == output for output in outputs)
            function = rules.in_groups(function, type_, operand, alone and not kept)
        frame.aggregated = outer
        value = compiler.namespace.fresh("t")
        text = f"[{value} for {target} in rows if ({value} := {operand.text}) is not None]"
        if node.distinct:
            key = rules.key(Code(value, operand.type))
            pairs = f"[({key}, {value}) for {target} in rows if ({value} := {operand.text}) is not None]"
            # A count is the same whichever of equal values are taken.
            strict = node.aggregation is not Aggregation.COUNT and loose(operand, compiler.dialect)
            text = f"{compiler.namespace.ref(distinct_same if strict else distinct)}({pairs})"
        return Code(f"{compiler.namespace.ref(function)}({text})", type_, solid=function is len)

    def computed(node: Aggregate) -> Code:
        return found[node] if node in found else aggregated(node)

    found: dict[Aggregate, Code] = {}
    if select.having is not None:
        _write_having(select, early, frame, writer, aggregated, found)
    frame.aggregated = computed
    return round_


def _write_having(
    select: Select,
    early: list[Expression],
    frame: Frame,
    writer: Writer,
    aggregated: Callable[[Aggregate], Code],
    found: dict[Aggregate, Code],
) -> None:
    """Databases add up all aggregates while they group; HAVING comes after that."""
    compiler = frame.compiler
    assert select.having is not None
    asked = (select.having, *early, *(order.expression for order in select.order_by))
    frame.aggregated = aggregated
    for node in (part for expression in asked for part in shallow(expression)):
        if isinstance(node, Aggregate) and node not in found and may_fail(node, compiler.dialect):
            code = aggregated(node)
            name = compiler.namespace.fresh("t")
            writer.line(f"{name} = {code.text}")
            found[node] = replace(code, text=name)
    frame.aggregated = lambda node: found[node] if node in found else aggregated(node)
    conditions = split(select.having, compiler.dialect)
    if len(conditions) > 1 and any(may_fail(condition, compiler.dialect) for condition in conditions):
        Sweeps(frame, writer).settle_groups(conditions)
    else:
        writer.open(f"if {frame.condition(select.having, 'HAVING')}:")


def tuple_text(texts: Iterable[str]) -> str:
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


def determined(expression: Expression, select: Select, frame: Frame) -> None:
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
            determined(part, select, frame)


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
