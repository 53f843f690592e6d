"""Queries of the core to Python functions: nested loops, groups, order."""

from __future__ import annotations

from isolde.semantics.concrete.code import Unit, Writer, tuple_text
from isolde.semantics.concrete.expressions import Body, arguments_of
from isolde.semantics.core.arrange import distinct_same, distinct_values, ordered, refuse_open_cut
from isolde.semantics.core.nodes import Column, Expression
from isolde.semantics.core.plan import Outer, Plan, Visit, plan
from isolde.semantics.core.relations import Derived, Grouping, Query, Scan, scans, width
from isolde.semantics.core.values.ties import is_first


def query_function(
    unit: Unit, query: Query, exists: bool = False, name: str = "", arguments: list[str] | None = None
) -> str:
    """Writes a function that gives the rows of a query, or whether there is one; its name."""
    writing = _Query(unit, query, exists)
    name = name or unit.fresh("q")
    writing.write()
    unit.add(name, arguments_of(query) if arguments is None else arguments, writing.body.memos, writing.writer.lines)
    return name


class Loops:
    """The loops over the sources of a query or change, as its plan has them."""

    def __init__(self, body: Body, writer: Writer) -> None:
        self.body, self.writer = body, writer

    def write(self, way: Plan) -> None:
        for step in way.steps:
            self._step(step)
        self.test(way.last)

    def _step(self, step: Visit | Outer) -> None:
        match step:
            case Visit(source=Scan() as scan):
                self.writer.open(f"for _, r{scan.id} in {self.candidates(step)}:")
            case Visit(source=Derived() as derived):
                self.writer.open(f"for r{derived.id} in d{derived.id}:")
            case Outer():
                self._outer(step)
        self.test(untested(step) if isinstance(step, Visit) else step.conditions)

    def _outer(self, step: Outer) -> None:
        """The right side's rows that match, as a list; one row of nulls if there is none."""
        matches, indent = self.body.unit.fresh("t"), self.writer.indent
        self.writer.line(f"{matches} = []")
        self.write(Plan(step.steps, step.on))
        rows = tuple_text([f"r{leaf.id}" for leaf in step.sources])
        self.writer.line(f"{matches}.append({rows})")
        self.writer.indent = indent
        nulls = tuple_text([f"(None,) * {width(leaf)}" for leaf in step.sources])
        self.writer.open(f"for {rows} in {matches} or [{nulls}]:")

    def test(self, conditions: tuple[Expression, ...]) -> None:
        if conditions:
            self.writer.open(f"if {self.body.conditions(conditions)}:")

    def candidates(self, visit: Visit) -> str:
        """Python text of the numbered rows that may match."""
        way = visit.access
        assert isinstance(visit.source, Scan)
        assert way is not None
        table = f"S.tables[{visit.source.table.position}]"
        keys = [self.body.text(key) for key in way.keys]
        key = keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
        if way.unique is not None:
            return f"{table}.by_key({way.unique}, {key})"
        return f"{table}.by_equal({way.columns!r}, {key})" if way.columns else f"{table}.all()"


def untested(visit: Visit) -> tuple[Expression, ...]:
    """The conditions that a row must be tested by: those that it was found by hold already."""
    settled = visit.access.settled if visit.access is not None else ()
    return tuple(condition for condition in visit.conditions if not any(condition is found for found in settled))


class _Query:
    def __init__(self, unit: Unit, query: Query, exists: bool) -> None:
        self.unit, self.query, self.exists = unit, query, exists
        self.writer = Writer()
        self.body = Body(unit, query_function)

    def write(self) -> None:
        query, writer, body = self.query, self.writer, self.body
        cut = query.limit is not None or query.offset is not None
        stops = self.exists and query.grouping is None and query.distinct is None and not cut
        for name, bound in (("limit", query.limit), ("offset", query.offset)):
            if bound is not None:
                writer.line(f"{name} = {body.text(bound)}")
        if not stops:
            writer.line("out = []")
        if query.distinct is not None:
            writer.line("seen = {}")
        if query.grouping is not None:
            writer.line("groups = {}")
            if query.grouping.open:
                writer.line("shown = {}")
        start = writer.indent
        for leaf in scans(query.source):
            if isinstance(leaf, Derived):
                writer.line(f"d{leaf.id} = {body.call(leaf.query)}")
        Loops(body, writer).write(plan(query.source, query.where))
        if query.grouping is not None:
            self._groups(query.grouping, start)
        if stops:
            writer.line("return True")
            writer.indent = start
            writer.line("return False")
            return
        self._emit()
        writer.indent = start
        self._finish()

    # Groups

    def _groups(self, grouping: Grouping, start: int) -> None:
        writer, body, unit = self.writer, self.body, self.unit
        leaves = [f"r{leaf.id}" for leaf in scans(self.query.source)]
        row = tuple_text(leaves)
        writer.line(f"key = {tuple_text([body.text(key) for key in grouping.keys])}")
        if grouping.open:
            writer.line(f"{unit.ref(is_first)}(shown, key, {tuple_text([body.text(key) for key in grouping.open])})")
        writer.line(f"groups.setdefault(key, []).append({row})")
        writer.indent = start
        if grouping.whole:
            writer.line("groups = groups or {(): []}")
        writer.open("for rows in groups.values():")
        for place, leaf in enumerate(scans(self.query.source)):
            writer.line(f"r{leaf.id} = rows[0][{place}] if rows else (None,) * {width(leaf)}")
        target = row if leaves else "_"
        for place, aggregate in enumerate(grouping.aggregates):
            if aggregate.operand is None:
                writer.line(f"a{place} = len(rows)")
                continue
            value = unit.fresh("t")
            operand = body.text(aggregate.operand)
            text = f"[{value} for {target} in rows if ({value} := {operand}) is not None]"
            if aggregate.distinct is not None:
                body.bound[aggregate.slot] = value
                pairs = f"[({body.text(aggregate.distinct)}, {value}) for {target} in rows if ({value} := {operand}) is not None]"
                text = f"{unit.ref(distinct_same if aggregate.equals_differ else distinct_values)}({pairs})"
            writer.line(f"a{place} = {unit.ref(aggregate.function)}({text})")
        if grouping.having:
            writer.open(f"if {body.conditions(grouping.having)}:")

    # Results

    def _emit(self) -> None:
        query, writer, body, unit = self.query, self.writer, self.body, self.unit
        row = self._row()
        if query.distinct is not None:
            writer.line(f"same = {tuple_text([body.text(key) for key in query.distinct.keys])}")
            if query.distinct.open:
                shown = tuple_text([body.text(value) for value in query.distinct.open])
                writer.open(f"if {unit.ref(is_first)}(seen, same, {shown}):")
            else:
                writer.open("if same not in seen:")
                writer.line("seen[same] = None")
        if query.order:
            keys = tuple_text([body.text(order.key) for order in query.order])
            writer.line(f"out.append(({keys}, {row}))")
        else:
            writer.line(f"out.append({row})")

    def _row(self) -> str:
        """The tuple of the outputs; the row itself where they are just its columns in order."""
        outputs = self.query.outputs
        source = self.query.source
        whole = (
            isinstance(source, Scan)
            and len(outputs) == width(source)
            and all(
                isinstance(output.value, Column) and (output.value.source, output.value.place) == (source.id, place)
                for place, output in enumerate(outputs)
            )
        )
        if whole and isinstance(source, Scan):
            return f"r{source.id}"
        return tuple_text([self.body.text(output.value) for output in outputs])

    def _finish(self) -> None:
        query, writer, unit = self.query, self.writer, self.unit
        offset = "offset" if query.offset is not None else "None"
        limit = "limit" if query.limit is not None else "None"
        # Whether there is a row is the same whichever are cut off.
        cut = (offset, limit) != ("None", "None")
        checked = cut and not self.exists
        if query.order:
            specs = tuple((place, order.descending, order.nulls_first) for place, order in enumerate(query.order))
            bounds = f", {offset}, {limit}" if checked else ""
            writer.line(f"out = {unit.ref(ordered)}(out, {specs!r}{bounds})")
        elif checked:
            writer.line(f"{unit.ref(refuse_open_cut)}([((), row) for row in out], {offset}, {limit})")
        if query.offset is not None:
            writer.line("out = out[offset or 0:]")
        if query.limit is not None:
            writer.line("out = out[:limit]")
        writer.line("return bool(out)" if self.exists else "return out")
