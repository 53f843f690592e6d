"""Procedures of the core to Python functions: variables become Python's, steps its statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from isolde.errors import ExecutionError
from isolde.semantics.concrete.changes import change_function
from isolde.semantics.concrete.code import Unit, Writer, tuple_text
from isolde.semantics.concrete.cursors import closed, is_open, opened
from isolde.semantics.concrete.expressions import Body, arguments_of, fail
from isolde.semantics.concrete.outcome import AbortSignal, AssertionSignal
from isolde.semantics.concrete.queries import query_function
from isolde.semantics.core import steps as core
from isolde.semantics.core.catalog import Catalog
from isolde.semantics.core.nodes import Expression, below, query_of
from isolde.semantics.core.relations import Query, Statement
from isolde.semantics.core.steps import Assign, AssignRow, Routine, Step
from isolde.semantics.core.values.python import fitting
from isolde.semantics.core.values.rows import one_at_most


def procedure_function(unit: Unit, catalog: Catalog, routine: Routine, name: str, tells: bool = False) -> None:
    """Adds a function of the procedure's parameters to the unit; it gives the tuple of what is returned. ``tells``: it calls
    ``begins`` of the store before each of its statements, and ``shows`` with the rows that its client gets.
    """
    _Procedure(unit, catalog, routine, tells).write(name)


class _Procedure:
    def __init__(self, unit: Unit, catalog: Catalog, routine: Routine, tells: bool) -> None:
        self.unit, self.catalog, self.routine, self.tells = unit, catalog, routine, tells
        self.writer = Writer()
        self.body = Body(unit, query_function, repeated=True)

    def write(self, name: str) -> None:
        routine, writer = self.routine, self.writer
        parameters = [f"v{slot}" for slot in range(routine.parameters)]
        for slot in range(routine.parameters, routine.slots):
            writer.line(f"v{slot} = None")
        for cursor in range(routine.cursors):
            writer.line(f"c{cursor} = None")
        if routine.procedure.strict:
            for parameter in parameters:
                writer.line(f"{self.unit.ref(fitting)}({parameter})")
        self._assign(routine.converted)
        self._steps(routine.body, 0)
        writer.line("return ()")
        self.unit.add(name, parameters, [], writer.lines)

    def _call(self, statement: Statement) -> str:
        """Python text of the answer of a statement: its rows, or the count and the rows of a change."""
        if isinstance(statement, Query):
            return f"{query_function(self.unit, statement)}({', '.join(['S', *arguments_of(statement)])})"
        variables = [f"v{slot}" for slot in statement.reads_variables]
        return f"{change_function(self.unit, self.catalog, statement)}({', '.join(['S', *variables])})"

    def _rows(self, statement: Statement) -> str:
        return self._call(statement) if isinstance(statement, Query) else f"{self._call(statement)}[1]"

    def _assign(self, assigns: Sequence[Assign | AssignRow | None]) -> None:
        for assign in assigns:
            if isinstance(assign, Assign):
                self.writer.line(f"v{assign.slot} = {self.body.text(assign.value)}")
            elif assign is not None:
                self._assign_row(assign)

    def _assign_row(self, assign: AssignRow) -> None:
        row = f"r{assign.source}"
        if assign.source < 0:
            self.writer.line(f"v{assign.slot} = (None,) * {assign.blank}")
        elif assign.blank is None:
            self.writer.line(f"v{assign.slot} = {row}")
        else:
            self.writer.line(f"v{assign.slot} = (None,) * {assign.blank} if {row} is None else {row}")

    def _steps(self, steps: Sequence[Step], depth: int) -> None:
        """``depth``: how many loops are around."""
        if not steps:
            self.writer.line("pass")
        for step in steps:
            if self.tells and _asks(step):
                self.writer.line("S.begins()")
            self._step(step, depth)

    def _step(self, step: Step, depth: int) -> None:
        writer, unit = self.writer, self.unit
        match step:
            case Assign() | AssignRow():
                self._assign([step])
            case core.Draw():
                writer.line(f"b{step.bound} = S.new_id()")
                self._assign([step.assign])
            case core.Pick():
                index = self.body.text(step.index)
                writer.line(f"b{step.bound} = {unit.ref(element)}(v{step.items}, {index})")
                self._assign([step.assign])
            case core.Run():
                self._run(step)
            case core.Fetch():
                self._fetch(step)
            case core.FetchAll():
                writer.line(f"v{step.slot} = {self._rows(step.statement)}")
            case core.If():
                self._if(step, depth)
            case core.ForEach() | core.ForRange() | core.While():
                self._loop(step, depth)
            case core.Jump():
                self._jump(step, depth)
            case core.OpenCursor():
                cursor, rows = f"c{step.cursor}", self._rows(step.query)
                writer.line(f"{cursor} = {unit.ref(opened)}(S, {step.name!r}, {step.private}, {cursor}, {rows})")
            case core.FetchCursor():
                row = f"r{step.source}"
                writer.line(f"{row} = next({unit.ref(is_open)}({step.name!r}, c{step.cursor}), None)")
                self._found_row(step.source, step.bound, step.found, step.assigns, step.keep)
            case core.CloseCursor():
                cursor = f"c{step.cursor}"
                if step.if_open:
                    writer.open(f"if {cursor} is not None:")
                writer.line(f"{cursor} = {unit.ref(closed)}(S, {step.name!r}, {cursor})")
                writer.indent -= step.if_open
            case core.Call():
                arguments = tuple_text([self.body.text(argument) for argument in step.arguments])
                writer.line("S.step()")
                writer.line(f"rows = S.called({unit.ref(step.program)}, {step.procedure!r}, {arguments})")
                for place, slot in enumerate(step.bound):
                    writer.line(f"b{slot} = rows[{place}] if len(rows) > {place} else None")
                self._assign(step.assigns)
            case core.Return():
                writer.line(f"return {tuple_text([self.body.text(value) for value in step.values])}")
            case core.Abort():
                reason = self.body.text(step.reason) if step.reason is not None else "None"
                writer.line(f"raise {unit.ref(AbortSignal)}({reason})")
            case core.Assert():
                writer.open(f"if not ({self.body.condition(step.condition)}):")
                writer.line(f"raise {unit.ref(AssertionSignal)}({step.message!r})")
                writer.indent -= 1
            case core.NeedRecords():
                for name, slot in step.records:
                    writer.line(f"{unit.ref(need_record)}({name!r}, v{slot})")
            case core.Wrong():
                writer.line(f"{unit.ref(fail)}({step.kind!r}, {step.reason!r}, {step.place!r})")
            case _:
                assert_never(step)

    def _run(self, step: core.Run) -> None:
        writer = self.writer
        writer.line(f"rows = {self._call(step.statement)}")
        if self.tells and self.catalog.rules.calls_answer_queries:
            # The rows of a statement that nobody in the procedure looks at go to the client.
            if isinstance(step.statement, Query):
                writer.line("S.shows(rows)")
            elif step.statement.returning:
                writer.line("S.shows(rows[1])")
        if step.assign is not None:
            writer.line(f"b{step.bound} = {'len(rows)' if isinstance(step.statement, Query) else 'rows[0]'}")
            self._assign([step.assign])

    def _fetch(self, step: core.Fetch) -> None:
        writer, row = self.writer, f"r{step.source}"
        writer.line(f"rows = {self._rows(step.statement)}")
        if step.required:
            writer.open("if not rows:")
            writer.line(f"raise {self.unit.ref(AbortSignal)}('no row')")
            writer.indent -= 1
        if step.single:
            writer.line(f"{self.unit.ref(one_at_most)}(rows)")
        writer.line(f"{row} = rows[0] if rows else None")
        self._found_row(step.source, step.bound, step.found, step.assigns, step.keep)

    def _found_row(
        self,
        source: int,
        bound: int,
        found: Assign | None,
        assigns: tuple[Assign | AssignRow, ...],
        keep: bool,
    ) -> None:
        """A row that may be missing into variables; ``keep``: without a row they stay as they are."""
        writer, row = self.writer, f"r{source}"
        if found is not None:
            writer.line(f"b{bound} = {row} is not None")
            self._assign([found])
        if keep:
            writer.open(f"if {row} is not None:")
        elif any(isinstance(assign, Assign) for assign in assigns):
            writer.open(f"if {row} is None:")
            writer.line(f"{row} = (None,) * {len(assigns)}")
            writer.indent -= 1
        self._assign(assigns)
        writer.indent -= keep

    # Control

    def _if(self, step: core.If, depth: int) -> None:
        writer = self.writer
        for place, (condition, body) in enumerate(step.branches):
            writer.open(f"{'if' if place == 0 else 'elif'} {self.body.condition(condition)}:")
            self._steps(body, depth)
            writer.indent -= 1
        if step.otherwise:
            writer.open("else:")
            self._steps(step.otherwise, depth)
            writer.indent -= 1

    def _loop(self, step: core.ForEach | core.ForRange | core.While, depth: int) -> None:
        writer = self.writer
        writer.line(f"leave{depth} = again{depth} = False")
        match step:
            case core.ForEach():
                rows = f"(v{step.rows} or ())" if isinstance(step.rows, int) else self._rows(step.rows)
                self._assign(step.before)
                writer.open(f"for r{step.source} in {rows}:")
                writer.line("S.step()")
                self._assign(step.assigns)
            case core.ForRange():
                first, last = self.body.text(step.first), self.body.text(step.last)
                writer.open(f"for v{step.slot} in {self.unit.ref(span)}({first}, {last}):")
                writer.line("S.step()")
            case core.While():
                writer.open(f"while {self.body.condition(step.condition)}:")
                writer.line("S.step()")
        self._steps(step.body, depth + 1)
        if self.tells and isinstance(step, core.While) and _asks(step):
            writer.line("S.begins()")
        writer.indent -= 1
        # A jump that meant a loop further out goes on there.
        if depth:
            writer.open(f"if leave{depth - 1}:")
            writer.line("break")
            writer.indent -= 1
            writer.open(f"if again{depth - 1}:")
            writer.line(f"again{depth - 1} = False")
            writer.line("continue")
            writer.indent -= 1

    def _jump(self, step: core.Jump, depth: int) -> None:
        writer, inner = self.writer, depth - 1
        if step.depth == inner:
            writer.line("continue" if step.again else "break")
            return
        # Each loop in between is left; the one outside of it then looks at its flag.
        for place in range(step.depth + 1, inner):
            writer.line(f"leave{place} = True")
        writer.line(f"{'again' if step.again else 'leave'}{step.depth} = True")
        writer.line("break")


def _asks(step: Step) -> bool:
    """Whether a step looks at tables before the steps inside of it do."""
    expressions: Sequence[Expression]
    match step:
        case core.Run() | core.Fetch() | core.FetchAll() | core.OpenCursor():
            return True
        case core.ForEach():
            return not isinstance(step.rows, int)
        case core.If():
            expressions = [condition for condition, _ in step.branches]
        case core.While() | core.Assert():
            expressions = [step.condition]
        case core.ForRange():
            expressions = [step.first, step.last]
        case Assign():
            expressions = [step.value]
        case core.Return():
            expressions = step.values
        case core.Call():
            expressions = step.arguments
        case _:
            return False
    return any(query_of(part) is not None for one in expressions for part in below(one))


def span(first: int | None, last: int | None) -> range:
    if first is None or last is None:
        raise ExecutionError("not-null", "the bounds of a loop must not be null")
    return range(first, last + 1)


def element(rows: Sequence[tuple[object]], index: object) -> object:
    """The one at the index, from 1, in a list that is held as rows of one column."""
    if index is not None and not isinstance(index, int):
        raise ExecutionError("type", f"the index of a list is an integer, not {index!r}")
    return rows[index - 1][0] if index is not None and 1 <= index <= len(rows) else None


def need_record(name: str, row: object) -> None:
    """A statement that names a column of a record which was not assigned to fails as a whole."""
    if row is None:
        raise ExecutionError("name", f"record {name} is not assigned yet")
