"""Procedures to Python functions: variables become Python's, steps its statements.

Types of variables that nobody declared are found first: each assignment may widen one, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from isolde.errors import ExecutionError
from isolde.semantics.concrete.assigned import assigned
from isolde.semantics.concrete.called import element, fitting, span
from isolde.semantics.concrete.compiler import Compiler, Writer
from isolde.semantics.concrete.cursors import closed, is_open, one_at_most, open_cursor, open_private
from isolde.semantics.concrete.expressions import Frame
from isolde.semantics.concrete.outcome import AbortSignal, AssertionSignal
from isolde.semantics.concrete.records import checked, has_columns, named_by, named_in
from isolde.semantics.concrete.results import declared_result
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.statements import Columns, compile_statement, failure
from isolde.semantics.concrete.static import BIGINT, BOOLEAN, NULL, TEXT, Code, Sort, Static, row_of, rows_of
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Between, Case, Expression, Literal, When
from isolde.tx.procedures import (
    Abort,
    Again,
    Assert,
    Assign,
    CallProcedure,
    CloseCursor,
    Cursor,
    Draw,
    Fetch,
    FetchAll,
    FetchCursor,
    ForEach,
    ForRange,
    If,
    Leave,
    Local,
    OpenCursor,
    Pick,
    Procedure,
    Program,
    Return,
    Run,
    Step,
    While,
)
from isolde.tx.queries import Select
from isolde.tx.schema import Column, Type
from isolde.tx.statements import Statement


class ProcedureCompiler:
    """One procedure for arguments of given types. ``variables`` are joined types of all that is assigned to them."""

    def __init__(
        self,
        compiler: Compiler,
        program: Program,
        procedure: Procedure,
        given: Sequence[Static],
        inside: tuple[str, ...] = (),
        results: dict[tuple[str, tuple[Static, ...]], dict[str, Static]] | None = None,
    ) -> None:
        self.inside = inside or (procedure.name,)
        # A chain of calls would be compiled anew for each call on the way, and again while types grow.
        self.results = {} if results is None else results
        self.compiler = compiler
        self.program = program
        self.procedure = procedure
        self.given = given
        self.variables: dict[str, Static] = {}
        self.declared: dict[str, Type] = {}
        self.cursors: dict[str, Cursor] = {cursor.name: cursor for cursor in procedure.cursors}
        for local, type_ in zip(procedure.parameters, given, strict=True):
            self._declare(local, type_)
        for local in procedure.locals:
            self._declare(local, NULL)
        for name in assigned(procedure.body):
            self.variables.setdefault(name, NULL)
        self.records = {local.name for local in procedure.locals if local.record}
        self.changed = True

    def _declare(self, local: Local, type_: Static) -> None:
        if local.many is not (type_.sort is Sort.ROWS):
            raise ExecutionError("type", f"parameter {local.name} is {'a list' if local.many else 'no list'}")
        if local.type is not None:
            self.declared[local.name] = local.type
            self.variables[local.name] = self.compiler.rules.column(local.type)
        else:
            self.variables[local.name] = type_

    def compile(self, name: str) -> None:
        """Adds ``def name(S, v1, v2)`` to the unit."""
        for _ in range(20):
            self.changed = False
            saved = len(self.compiler.functions)
            writer = self._body()
            if not self.changed:
                break
            del self.compiler.functions[saved:]
        else:
            raise outside(
                f"procedure {self.procedure.name}, whose variables' types do not settle,", "declare their types"
            )
        parameters = [self._held(local.name) for local in self.procedure.parameters]
        start = [f"    {held} = None" for held in map(self._held, self.variables) if held not in parameters]
        start += [f"    {self.compiler.namespace.cursor(cursor)} = None" for cursor in self.cursors]
        for local, type_ in zip(self.procedure.parameters, self.given, strict=True):
            if self.procedure.strict:
                start.append(f"    {self.compiler.namespace.call(fitting, self._held(local.name))}")
            if local.type is not None:
                held = self._held(local.name)
                converted = self.compiler.rules.stored(Code(held, type_), Column(local.name, local.type))
                start.append(f"    {held} = {converted}")
        source = [f"def {name}({', '.join(['S', *parameters])}):", *start, *writer.lines, "    return ()"]
        self.compiler.functions.append("\n".join(source))

    def _held(self, variable: str) -> str:
        return self.compiler.namespace.variable(variable)

    def _body(self) -> Writer:
        frame = Frame(self.compiler, variables=self.variables, repeated=True, strict=self.procedure.strict)
        writer = Writer()
        for local in self.procedure.locals:
            if local.default is not None:
                value = self._value(local.name, local.default, frame)
                writer.line(f"{self._held(local.name)} = {self._assign(local.name, value)}")
        self.steps(self.procedure.body, frame, writer, [])
        return writer

    # Types

    def _type_returned(self, step: CallProcedure, place: int, types: Sequence[Static]) -> Static:
        """What a procedure returns for arguments of these types, found by compiling it aside."""
        procedure = self.program.procedure(step.procedure)
        if procedure is not None and (declared := declared_result(procedure, place)) is not None:
            return self.compiler.rules.column(declared)
        if procedure is None or procedure.name in self.inside:
            raise outside(
                f"what {step.procedure} returns to itself, whose type is not declared,", "declare the variable"
            )
        key = (procedure.name, tuple(types))
        if key not in self.results:
            inside = (*self.inside, procedure.name)
            aside = Compiler(self.compiler.catalog)
            called = ProcedureCompiler(aside, self.program, procedure, types, inside, self.results)
            called.compile("called")
            self.results[key] = called.variables
        return self.results[key].get(_returned(place), NULL)

    def _value(self, variable: str, value: Expression, frame: Frame) -> Code:
        """What a variable is assigned. MySQL is as strict about it as about a change of a column."""
        self.compiler.rules.changing = variable in self.declared
        try:
            return frame.compile(value)
        finally:
            self.compiler.rules.changing = False

    def _assign(self, variable: str, code: Code) -> str:
        """What the variable gets; its type grows if it must."""
        type_ = self.declared.get(variable)
        if type_ is not None:
            return self._converted(code, Column(variable, type_))
        if code.type.sort is Sort.NULL:
            return "None"
        code = self.compiler.rules.value(code)
        self._grow(variable, code.type)
        text = self.compiler.rules.output(code)
        wanted = self.variables[variable]
        if wanted.sort is not code.type.sort and wanted.sort not in (Sort.NULL, Sort.ANY):
            converted, _ = self.compiler.rules.common([Code(text, code.type), Code("None", wanted)], "assignment")
            return converted[0].text
        return text

    def _converted(self, code: Code, column: Column) -> str:
        if self.compiler.dialect is not Dialect.POSTGRESQL:
            return self.compiler.rules.stored(code, column)
        try:
            return self.compiler.rules.stored(code, column)
        except ExecutionError as error:
            # What may not be assigned to a column may be to a variable, through its text.
            if error.kind != "type" or code.type.sort in (Sort.ROW, Sort.ROWS):
                raise
            if code.type.sort is not Sort.TEXT:
                raise outside(f"a {code.type.sort.value} in a variable of another type", "cast it") from None
            return self.compiler.rules.stored(self.compiler.rules.cast(code, column.type), column)

    def _grow(self, variable: str, type_: Static) -> None:
        known = self.variables.get(variable)
        type_ = self.compiler.rules.variable(type_)
        if type_.sort is Sort.UNKNOWN:
            type_ = TEXT
        if known is None or known.sort in (Sort.NULL, Sort.UNKNOWN):
            grown = type_
        elif type_.sort is Sort.NULL or type_ == known:
            return
        elif Sort.ROW in (known.sort, type_.sort) or Sort.ROWS in (known.sort, type_.sort):
            if known.sort is not type_.sort or len(known.columns) != len(type_.columns):
                raise outside(f"variable {variable}, which holds rows of different shapes,", "use two variables")
            grown = type_
        elif self.procedure.strict and (known.sort is Sort.TEXT) is not (type_.sort is Sort.TEXT):
            # MySQL would make texts of the numbers.
            raise outside(f"variable {variable}, which holds texts and other values,", "use two variables")
        else:
            _, grown = self.compiler.rules.common([Code("None", known), Code("None", type_)], f"variable {variable}")
        if grown != known:
            self.variables[variable] = grown
            self.changed = True

    # Steps

    def steps(self, steps: Sequence[Step], frame: Frame, writer: Writer, loops: list[str | None]) -> None:
        if not steps:
            writer.line("pass")
        for step in steps:
            if named := named_by(step, self.records):
                writer.line(f"{self.compiler.namespace.ref(has_columns)}({checked(named, self.compiler.namespace)})")
            start, indent = len(writer.lines), writer.indent
            try:
                self.step(step, frame, writer, loops)
            except ExecutionError as error:
                if isinstance(step, (Leave, Again)):
                    raise
                # Databases look at the names and types of a statement when it is reached, and not before.
                del writer.lines[start:]
                writer.indent = indent
                writer.line(failure(self.compiler, error))

    def _condition(self, condition: Expression, what: str, frame: Frame) -> str:
        text = self._tested(condition, what, frame)
        if named := named_in(condition, self.records):
            return f"({self.compiler.namespace.ref(has_columns)}({checked(named, self.compiler.namespace)}) and {text})"
        return text

    def _tested(self, condition: Expression, what: str, frame: Frame) -> str:
        try:
            if self.compiler.dialect is Dialect.POSTGRESQL:
                sort = frame.compile(condition).type.sort
                if sort not in (Sort.BOOLEAN, Sort.NULL, Sort.UNKNOWN, Sort.ANY):
                    raise outside(f"a condition of {what} that is no condition", "compare it")
            return frame.condition(condition, what)
        except ExecutionError as error:
            return failure(self.compiler, error)

    def step(self, step: Step, frame: Frame, writer: Writer, loops: list[str | None]) -> None:
        match step:
            case Run():
                rows, count, _ = compile_statement(self.compiler, step.statement, frame)
                writer.line(f"rows = {rows}")
                if step.count is not None:
                    number = Code(f"({count or 'rows[0]'})", self._integer(), solid=True)
                    writer.line(f"{self._held(step.count)} = {self._assign(step.count, number)}")
            case Fetch():
                columns = self._rows(_first_only(step, self.compiler.dialect), frame, writer)
                if step.required:
                    writer.open("if not rows:")
                    writer.line(f"raise {self.compiler.namespace.ref(AbortSignal)}('no row')")
                    writer.indent -= 1
                if step.single:
                    writer.line(f"{self.compiler.namespace.ref(one_at_most)}(rows)")
                writer.line("row = rows[0] if rows else None")
                if step.found is not None:
                    told = self._assign(step.found, Code("(row is not None)", BOOLEAN, solid=True))
                    writer.line(f"{self._held(step.found)} = {told}")
                if step.keep:
                    writer.open("if row is not None:")
                self._spread(step.into, columns, "row", frame, writer, step.row)
                writer.indent -= step.keep
            case FetchAll():
                columns = self._rows(step.statement, frame, writer)
                self._grow(step.into, rows_of(columns))
                writer.line(f"{self._held(step.into)} = rows")
            case Assign():
                value = self._value(step.variable, step.value, frame)
                writer.line(f"{self._held(step.variable)} = {self._assign(step.variable, value)}")
            case Draw():
                drawn = self._assign(step.variable, Code("S.new_id()", self._integer()))
                writer.line(f"{self._held(step.variable)} = {drawn}")
            case Pick():
                items = self.variables[step.items]
                index = self._integral(frame, step.index, "the place in a list is an integer")
                text = f"{self.compiler.namespace.ref(element)}({self._held(step.items)}, {index})"
                picked = self._assign(step.variable, Code(text, items.columns[0][1]))
                writer.line(f"{self._held(step.variable)} = {picked}")
            case If():
                self._if(step, frame, writer, loops)
            case ForEach() | ForRange() | While():
                self._loop(step, frame, writer, loops)
            case Leave() | Again():
                self._jump(step, writer, loops)
            case OpenCursor():
                cursor, held = self._cursor(step.name), self.compiler.namespace.cursor(step.name)
                rows, _, _ = compile_statement(self.compiler, cursor.query, frame)
                opened = self.compiler.namespace.ref(open_cursor if not cursor.private else open_private)
                writer.line(f"{held} = {opened}(S, {step.name!r}, {held}, {rows})")
            case FetchCursor():
                self._fetch_cursor(step, frame, writer)
            case CloseCursor():
                self._cursor(step.name)
                held = self.compiler.namespace.cursor(step.name)
                if step.if_open:
                    writer.open(f"if {held} is not None:")
                writer.line(f"{held} = {self.compiler.namespace.ref(closed)}(S, {step.name!r}, {held})")
                writer.indent -= step.if_open
            case CallProcedure():
                self._call(step, frame, writer)
            case Return():
                codes = [frame.compile(value) for value in step.values]
                for place, code in enumerate(codes):
                    self._grow(_returned(place), code.type)
                values = [self.compiler.rules.output(code) for code in codes]
                writer.line(f"return ({', '.join(values)}{',' if values else ''})")
            case Abort():
                reason = self.compiler.rules.output(frame.compile(step.reason)) if step.reason is not None else "None"
                writer.line(f"raise {self.compiler.namespace.ref(AbortSignal)}({reason})")
            case Assert():
                writer.open(f"if not {self._condition(step.condition, 'ASSERT', frame)}:")
                message = (
                    step.message or f"the assertion at {step.place}" if step.place else step.message or "an assertion"
                )
                writer.line(f"raise {self.compiler.namespace.ref(AssertionSignal)}({message!r})")
                writer.indent -= 1
            case _:
                assert_never(step)

    def _integer(self) -> Static:
        return Static(Sort.ANY) if self.compiler.dialect is Dialect.SQLITE else BIGINT

    def _rows(self, statement: Statement, frame: Frame, writer: Writer) -> Columns:
        rows, _, columns = compile_statement(self.compiler, statement, frame)
        writer.line(f"rows = {rows}" if isinstance(statement, Select) else f"rows = {rows}[1]")
        return columns

    def _spread(
        self, into: tuple[str, ...], columns: Columns, row: str, frame: Frame, writer: Writer, whole: bool = False
    ) -> None:
        """A row into variables: each its column, or the ``whole`` row into one."""
        del frame
        if whole:
            self._grow(into[0], row_of(columns))
            found = f"(None,) * {len(columns)} if {row} is None else {row}" if into[0] in self.records else row
            writer.line(f"{self._held(into[0])} = {found}")
            return
        if len(into) == 1 and len(columns) != 1 and into[0] not in self.declared:
            self._grow(into[0], row_of(columns))
            writer.line(f"{self._held(into[0])} = (None,) * {len(columns)} if {row} is None else {row}")
            return
        if len(into) != len(columns):
            if self.compiler.dialect is Dialect.POSTGRESQL:
                raise outside(f"{len(columns)} columns into {len(into)} variables", "name as many")
            raise ExecutionError("type", f"{len(columns)} columns into {len(into)} variables")
        for place, (variable, (_, type_)) in enumerate(zip(into, columns, strict=True)):
            value = self._assign(variable, Code(f"(None if {row} is None else {row}[{place}])", type_))
            writer.line(f"{self._held(variable)} = {value}")

    def _if(self, step: If, frame: Frame, writer: Writer, loops: list[str | None]) -> None:
        for place, (condition, body) in enumerate(step.branches):
            writer.open(f"{'if' if place == 0 else 'elif'} {self._condition(condition, 'IF', frame)}:")
            self.steps(body, frame, writer, loops)
            writer.indent -= 1
        if step.otherwise:
            writer.open("else:")
            self.steps(step.otherwise, frame, writer, loops)
            writer.indent -= 1

    def _loop(self, step: ForEach | ForRange | While, frame: Frame, writer: Writer, loops: list[str | None]) -> None:
        label = step.label or ""
        depth = len(loops)
        writer.line(f"leave_{depth} = again_{depth} = False")
        match step:
            case ForEach():
                row = self.compiler.namespace.fresh("row_")
                if isinstance(step.rows, str):
                    held = self.variables.get(step.rows)
                    if held is None or held.sort is not Sort.ROWS:
                        raise ExecutionError("type", f"{step.rows} holds no rows")
                    columns, rows = held.columns, f"({self._held(step.rows)} or ())"
                else:
                    columns, rows = self._rows(step.rows, frame, writer), "rows"
                if step.row and step.variables[0] in self.records:
                    writer.line(f"{self._held(step.variables[0])} = (None,) * {len(columns)}")
                writer.open(f"for {row} in {rows}:")
                writer.line("S.step()")
                self._spread(step.variables, columns, row, frame, writer, step.row)
            case ForRange():
                first = self._whole(frame, step.variable, step.first)
                last = self._whole(frame, step.variable, step.last)
                if step.variable not in self.declared:
                    self._grow(step.variable, self._integer())
                writer.open(f"for {self._held(step.variable)} in {self.compiler.namespace.ref(span)}({first}, {last}):")
                writer.line("S.step()")
            case While():
                writer.open(f"while {self._condition(step.condition, 'WHILE', frame)}:")
                writer.line("S.step()")
        self.steps(step.body, frame, writer, [*loops, label])
        writer.indent -= 1
        # A jump that meant a loop further out goes on there.
        if depth:
            writer.open(f"if leave_{depth - 1}:")
            writer.line("break")
            writer.indent -= 1
            writer.open(f"if again_{depth - 1}:")
            writer.line(f"again_{depth - 1} = False")
            writer.line("continue")
            writer.indent -= 1

    def _whole(self, frame: Frame, variable: str, expression: Expression) -> str:
        if variable in self.declared:
            return self._assign(variable, self._value(variable, expression, frame))
        return self._integral(frame, expression, "the bounds of a loop are integers")

    def _integral(self, frame: Frame, expression: Expression, rule: str) -> str:
        code = self.compiler.rules.value(frame.compile(expression))
        if code.type.sort not in (Sort.INTEGER, Sort.ANY, Sort.NULL):
            raise ExecutionError("type", rule)
        return code.text

    def _jump(self, step: Leave | Again, writer: Writer, loops: list[str | None]) -> None:
        if not loops:
            raise ExecutionError("name", "there is no loop to leave")
        target = len(loops) - 1
        if step.label is not None:
            found = [place for place, label in enumerate(loops) if label == step.label]
            if not found:
                raise ExecutionError("name", f"there is no loop {step.label} around")
            target = found[-1]
        inner = len(loops) - 1
        if target == inner:
            writer.line("break" if isinstance(step, Leave) else "continue")
            return
        # Each loop in between is left; the one outside of it then looks at its flag.
        for depth in range(target + 1, inner):
            writer.line(f"leave_{depth} = True")
        writer.line(f"{'leave' if isinstance(step, Leave) else 'again'}_{target} = True")
        writer.line("break")

    # Cursors and calls

    def _cursor(self, name: str) -> Cursor:
        if name not in self.cursors:
            raise ExecutionError("name", f"there is no cursor {name}")
        return self.cursors[name]

    def _fetch_cursor(self, step: FetchCursor, frame: Frame, writer: Writer) -> None:
        cursor = self._cursor(step.name)
        _, _, columns = compile_statement(self.compiler, cursor.query, frame)
        held = self.compiler.namespace.cursor(step.name)
        writer.line(f"row = next({self.compiler.namespace.ref(is_open)}({step.name!r}, {held}), None)")
        found = self._assign(step.found, Code("(row is not None)", BOOLEAN, solid=True))
        writer.line(f"{self._held(step.found)} = {found}")
        nulls = self.compiler.dialect is Dialect.POSTGRESQL
        if not nulls:
            writer.open("if row is not None:")
        self._spread(step.into, columns, "row", frame, writer)
        writer.indent -= not nulls

    def _call(self, step: CallProcedure, frame: Frame, writer: Writer) -> None:
        procedure = self.program.procedure(step.procedure)
        if procedure is None:
            raise ExecutionError("name", f"there is no procedure {step.procedure}")
        if len(step.arguments) != len(procedure.parameters):
            raise ExecutionError("type", f"{step.procedure} takes {len(procedure.parameters)} arguments")
        codes = [frame.compile(argument) for argument in step.arguments]
        arguments = ", ".join(self.compiler.rules.output(code) for code in codes)
        name = self.compiler.namespace.ref(step.procedure)
        writer.line("S.step()")
        writer.line(
            f"rows = S.called({self.compiler.namespace.ref(self.program)}, {name}, ({arguments}{',' if codes else ''}))"
        )
        for place, variable in enumerate(step.into):
            type_ = self._type_returned(step, place, [code.type for code in codes])
            given = Code(f"(rows[{place}] if len(rows) > {place} else None)", type_)
            writer.line(f"{self._held(variable)} = {self._assign(variable, given)}")


def _first_only(step: Fetch, dialect: Dialect) -> Statement:
    """Only the first row is asked for, so that it is refused where the order of rows leaves open which one that is."""
    statement = step.statement
    if step.single or not isinstance(statement, Select):
        return statement
    limit: Expression = Literal(1)
    if statement.limit is not None:
        # Whatever else it lets through; a negative one lets everything through in SQLite, and is an error elsewhere.
        least = Literal(0 if dialect is Dialect.SQLITE else -(2**62))
        few = Between(statement.limit, least, Literal(0))
        limit = Case(None, (When(few, statement.limit),), Literal(1))
    return replace(statement, limit=limit)


def _returned(place: int) -> str:
    """The variable that stands for what a procedure returns: it holds nothing, its type is what matters.

    No database lets a null character into a name, so that no variable of a user is called so.
    """
    return f"\0returned {place}"
