"""The language to the typed core: procedures.

Types of variables that nobody declared are found first: each assignment may widen one, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from isolde.errors import ExecutionError
from isolde.semantics.core import steps as core
from isolde.semantics.core.dialects import Rules
from isolde.semantics.core.elaborate import Elaborator
from isolde.semantics.core.elaborate_expressions import ExpressionElaborator
from isolde.semantics.core.elaborate_statements import Columns, columns_of, elaborate_statement
from isolde.semantics.core.nodes import Apply, Bound, Column, Constant, Expression, Fail, Logic, Variable
from isolde.semantics.core.plan_errors import check_condition
from isolde.semantics.core.primitives import primitive
from isolde.semantics.core.relations import Statement
from isolde.semantics.core.scope import Scope, Variables
from isolde.semantics.core.types import BOOLEAN, NULL, TEXT, Sort, ValueType, outside, row_of, rows_of
from isolde.semantics.core.variables import assigned, declared_result
from isolde.tx import procedures as pr
from isolde.tx import statements as st
from isolde.tx.expressions import Between, Case, Literal, Name, When
from isolde.tx.expressions import Expression as TxExpression
from isolde.tx.queries import Select
from isolde.tx.schema import Column as TableColumn
from isolde.tx.schema import Type
from isolde.tx.walk import parts

Assignment = core.Assign | core.AssignRow


def _has_columns(name: str, row: object) -> bool:
    """Whether a record was assigned to: if not, the condition fails as a whole, even where it would look at no column."""
    if row is None:
        raise ExecutionError("name", f"record {name} is not assigned yet")
    return True


_RECORD_ASSIGNED = primitive("record is assigned", _has_columns, strict=False, errors="name")


@dataclass(slots=True)
class Results:
    """What procedures return for arguments of given types: a chain of calls would be elaborated anew for each call."""

    known: dict[tuple[str, tuple[ValueType, ...]], tuple[ValueType, ...]] = field(default_factory=dict)


def elaborate_procedure(
    elaborator: Elaborator,
    program: pr.Program,
    procedure: pr.Procedure,
    given: Sequence[ValueType],
    inside: tuple[str, ...] = (),
    results: Results | None = None,
) -> core.Routine:
    """The procedure for arguments of these types. ``inside``: the procedures that call it."""
    return _ProcedureElaborator(elaborator, program, procedure, given, inside, results or Results()).routine()


class _ProcedureElaborator:
    def __init__(
        self,
        elaborator: Elaborator,
        program: pr.Program,
        procedure: pr.Procedure,
        given: Sequence[ValueType],
        inside: tuple[str, ...],
        results: Results,
    ) -> None:
        self.elaborator, self.program, self.procedure, self.given = elaborator, program, procedure, given
        self.inside = (*inside, procedure.name)
        self.known_results = results
        self.rules = elaborator.rules(changing=False)
        self.declared: dict[str, Type] = {}
        self.variables = Variables({}, {})
        self.cursors = {cursor.name: cursor for cursor in procedure.cursors}
        self.cursor_numbers = {name: number for number, name in enumerate(self.cursors)}
        self.returned: list[ValueType] = []
        self.records = {local.name for local in procedure.locals if local.record}
        self.changed = True
        for local, type_ in zip(procedure.parameters, given, strict=True):
            self._declare(local, type_)
        for local in procedure.locals:
            self._declare(local, NULL)
        for name in assigned(procedure.body):
            self.variables.slot(name)
            self.variables.types.setdefault(name, NULL)

    def _declare(self, local: pr.Local, type_: ValueType) -> None:
        if local.many is not (type_.sort is Sort.ROWS):
            raise ExecutionError("type", f"parameter {local.name} is {'a list' if local.many else 'no list'}")
        if local.many and local.width is not None and len(type_.columns) != local.width:
            if type_.columns:
                raise ExecutionError("type", f"parameter {local.name} is a list of {local.width} values an element")
            type_ = rows_of(tuple((f"element{place}", NULL) for place in range(local.width)))
        if local.type is not None:
            self.declared[local.name] = local.type
            type_ = self.rules.column(local.type)
        self.variables.slot(local.name)
        self.variables.types[local.name] = type_

    def routine(self) -> core.Routine:
        for _ in range(20):
            self.changed = False
            body = self._body()
            if not self.changed:
                break
        else:
            raise outside(
                f"procedure {self.procedure.name}, whose variables' types do not settle,", "declare their types"
            )
        converted = []
        for local, type_ in zip(self.procedure.parameters, self.given, strict=True):
            if local.type is not None:
                slot = self.variables.slot(local.name)
                value = self.rules.stored(Variable(slot, type_, local.name), TableColumn(local.name, local.type))
                converted.append(core.Assign(slot, value))
        return core.Routine(
            self.procedure,
            len(self.procedure.parameters),
            len(self.variables.slots),
            len(self.cursors),
            tuple(converted),
            body,
            tuple(self.returned),
        )

    def _body(self) -> tuple[core.Step, ...]:
        scope = Scope(
            variables=self.variables,
            strict=self.procedure.strict,
            inner_table_hides_outer=self.rules.inner_table_hides_outer,
        )
        first: list[core.Step] = []
        for local in self.procedure.locals:
            if local.default is not None:
                first.append(self._assign(local.name, self._value(local.name, local.default, scope)))
        return (*first, *self._steps(self.procedure.body, scope, ()))

    # Values

    def _expression(self, node: TxExpression, scope: Scope, rules: Rules | None = None) -> Expression:
        return ExpressionElaborator(self.elaborator, rules or self.rules).expression(node, scope)

    def _value(self, variable: str, value: TxExpression, scope: Scope) -> Expression:
        """What a variable is assigned. MySQL is as strict about it as about a change of a column."""
        return self._expression(value, scope, self.elaborator.rules(changing=variable in self.declared))

    def _assign(self, variable: str, value: Expression) -> core.Assign:
        """The variable's type grows if it must."""
        return core.Assign(self.variables.slot(variable), self._assigned(variable, value))

    def _assigned(self, variable: str, value: Expression) -> Expression:
        type_ = self.declared.get(variable)
        if type_ is not None:
            return self._converted(value, TableColumn(variable, type_))
        if value.type.sort is Sort.NULL:
            return Constant(None, NULL)
        value = self.rules.value(value)
        self._grow(variable, value.type)
        shown = self.rules.output(value)
        wanted = self.variables.types[variable]
        if wanted.sort is not value.type.sort and wanted.sort not in (Sort.NULL, Sort.ANY):
            return self.rules.common([shown, Constant(None, wanted)], "assignment")[0][0]
        return shown

    def _converted(self, value: Expression, column: TableColumn) -> Expression:
        rules = self.elaborator.rules(changing=True)
        try:
            return rules.stored(value, column)
        except ExecutionError as error:
            if not rules.assigns_through_text or error.kind != "type" or value.type.sort in (Sort.ROW, Sort.ROWS):
                raise
            if value.type.sort is not Sort.TEXT:
                raise outside(f"a {value.type.sort.value} in a variable of another type", "cast it") from None
            return rules.stored(rules.cast(value, column.type), column)

    def _grow(self, variable: str, type_: ValueType) -> None:
        known = self.variables.types.get(variable)
        type_ = self.rules.variable(type_)
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
            _, grown = self.rules.common([Constant(None, known), Constant(None, type_)], f"variable {variable}")
        if grown != known:
            self.variables.slot(variable)
            self.variables.types[variable] = grown
            self.changed = True

    # Steps

    def _steps(self, steps: Sequence[pr.Step], scope: Scope, loops: tuple[str, ...]) -> tuple[core.Step, ...]:
        found: list[core.Step] = []
        for step in steps:
            if named := self._records_named(_own_parts(step)):
                found.append(core.NeedRecords(named))
            try:
                found.extend(self._step(step, scope, loops))
            except ExecutionError as error:
                if isinstance(step, (pr.Leave, pr.Again)):
                    raise
                # Databases look at the names and types of a statement when it is reached, and not before.
                found.append(core.Wrong(error.kind, error.reason, error.place))
        return tuple(found)

    def _records_named(self, node: Any) -> tuple[tuple[str, int], ...]:
        """The records whose columns are named in it."""
        if not self.records:
            return ()
        names = {part.table for part in parts(node) if isinstance(part, Name) and part.table in self.records}
        return tuple((name, self.variables.slot(name)) for name in sorted(name for name in names if name is not None))

    def _condition(self, condition: TxExpression, what: str, scope: Scope) -> Expression:
        try:
            tested = ExpressionElaborator(self.elaborator, self.rules).expression(condition, scope)
            conditions = (Sort.BOOLEAN, Sort.NULL, Sort.UNKNOWN, Sort.ANY)
            if self.rules.conditions_are_boolean and tested.type.sort not in conditions:
                raise outside(f"a condition of {what} that is no condition", "compare it")
            tested = self.rules.truth(tested, what)
            if not scope.strict:
                check_condition(tested, self.rules)
        except ExecutionError as error:
            tested = Fail(error.kind, error.reason, BOOLEAN, error.place)
        for name, slot in self._records_named(condition):
            record = (Constant(name, TEXT), Variable(slot, NULL, name))
            tested = Logic(False, Apply(_RECORD_ASSIGNED, record, BOOLEAN, True), tested)
        return tested

    def _statement(self, node: st.Statement, scope: Scope) -> Statement:
        return elaborate_statement(self.elaborator, node, scope)

    def _counted(self, variable: str | None, type_: ValueType) -> tuple[int, core.Assign | None]:
        """A value that the step itself gives, bound to a number, and its assignment to a variable."""
        slot = self.elaborator.fresh()
        return slot, None if variable is None else self._assign(variable, Bound(slot, type_, True))

    def _step(self, step: pr.Step, scope: Scope, loops: tuple[str, ...]) -> list[core.Step]:
        match step:
            case pr.Run():
                statement = self._statement(step.statement, scope)
                bound, assign = self._counted(step.count, self.rules.integer_type)
                return [core.Run(statement, bound, assign)]
            case pr.Fetch():
                return [self._fetch(step, scope)]
            case pr.FetchAll():
                statement = self._statement(step.statement, scope)
                self._grow(step.into, rows_of(columns_of(statement)))
                return [core.FetchAll(statement, self.variables.slot(step.into))]
            case pr.Assign():
                return [self._assign(step.variable, self._value(step.variable, step.value, scope))]
            case pr.Draw():
                bound, assign = self._counted(step.variable, self.rules.integer_type)
                assert assign is not None
                return [core.Draw(bound, assign)]
            case pr.Pick():
                items = self.variables.types[step.items]
                index = self._integral(scope, step.index, "the place in a list is an integer")
                slot = self.elaborator.fresh()
                assign = self._assign(step.variable, Bound(slot, items.columns[0][1]))
                return [core.Pick(self.variables.slot(step.items), index, slot, assign)]
            case pr.If():
                branches = tuple(
                    (self._condition(condition, "IF", scope), self._steps(body, scope, loops))
                    for condition, body in step.branches
                )
                return [core.If(branches, self._steps(step.otherwise, scope, loops))]
            case pr.ForEach() | pr.ForRange() | pr.While():
                return [self._loop(step, scope, loops)]
            case pr.Leave() | pr.Again():
                return [_jump(step, loops)]
            case pr.OpenCursor():
                cursor = self._cursor(step.name)
                query = self._statement(cursor.query, scope)
                private = cursor.private or not self.rules.shares_cursors
                return [core.OpenCursor(self.cursor_numbers[step.name], step.name, private, query)]
            case pr.FetchCursor():
                return [self._fetch_cursor(step, scope)]
            case pr.CloseCursor():
                self._cursor(step.name)
                return [core.CloseCursor(self.cursor_numbers[step.name], step.name, step.if_open)]
            case pr.CallProcedure():
                return [self._call(step, scope)]
            case pr.Return():
                return [self._return(step, scope)]
            case pr.Abort():
                reason = self.rules.output(self._expression(step.reason, scope)) if step.reason is not None else None
                return [core.Abort(reason)]
            case pr.Assert():
                message = (
                    step.message or f"the assertion at {step.place}" if step.place else step.message or "an assertion"
                )
                return [core.Assert(self._condition(step.condition, "ASSERT", scope), message)]
            case _:
                assert_never(step)

    def _fetch(self, step: pr.Fetch, scope: Scope) -> core.Fetch:
        statement = self._statement(_first_only(step, self.rules), scope)
        source = self.elaborator.fresh()
        bound = self.elaborator.fresh()
        found = self._assign(step.found, Bound(bound, BOOLEAN, True)) if step.found is not None else None
        assigns = self._spread(step.into, columns_of(statement), source, step.row)
        return core.Fetch(statement, source, bound, found, assigns, step.required, step.single, step.keep)

    def _spread(
        self, into: tuple[str, ...], columns: Columns, source: int, whole: bool = False
    ) -> tuple[Assignment, ...]:
        """A row into variables: each its column, or the ``whole`` row into one."""
        if whole or (len(into) == 1 and len(columns) != 1 and into[0] not in self.declared):
            self._grow(into[0], row_of(columns))
            blank = None if whole and into[0] not in self.records else len(columns)
            return (core.AssignRow(self.variables.slot(into[0]), source, blank),)
        if len(into) != len(columns):
            if self.rules.pads_variables:
                raise outside(f"{len(columns)} columns into {len(into)} variables", "name as many")
            raise ExecutionError("type", f"{len(columns)} columns into {len(into)} variables")
        return tuple(
            self._assign(variable, Column(source, place, type_, False, False, name))
            for place, (variable, (name, type_)) in enumerate(zip(into, columns, strict=True))
        )

    def _loop(self, step: pr.ForEach | pr.ForRange | pr.While, scope: Scope, loops: tuple[str, ...]) -> core.Step:
        around = (*loops, step.label or "")
        match step:
            case pr.ForEach():
                source = self.elaborator.fresh()
                rows: Statement | int
                if isinstance(step.rows, str):
                    held = self.variables.types.get(step.rows)
                    if held is None or held.sort is not Sort.ROWS:
                        raise ExecutionError("type", f"{step.rows} holds no rows")
                    columns, rows = held.columns, self.variables.slot(step.rows)
                else:
                    rows = self._statement(step.rows, scope)
                    columns = columns_of(rows)
                before: tuple[core.AssignRow, ...] = ()
                if step.row and step.variables[0] in self.records:
                    before = (core.AssignRow(self.variables.slot(step.variables[0]), -1, len(columns)),)
                assigns = self._spread(step.variables, columns, source, step.row)
                return core.ForEach(rows, source, before, assigns, self._steps(step.body, scope, around))
            case pr.ForRange():
                first = self._whole(scope, step.variable, step.first)
                last = self._whole(scope, step.variable, step.last)
                if step.variable not in self.declared:
                    self._grow(step.variable, self.rules.integer_type)
                slot = self.variables.slot(step.variable)
                return core.ForRange(slot, first, last, self._steps(step.body, scope, around))
            case pr.While():
                condition = self._condition(step.condition, "WHILE", scope)
                return core.While(condition, self._steps(step.body, scope, around))

    def _whole(self, scope: Scope, variable: str, expression: TxExpression) -> Expression:
        if variable in self.declared:
            return self._assigned(variable, self._value(variable, expression, scope))
        return self._integral(scope, expression, "the bounds of a loop are integers")

    def _integral(self, scope: Scope, expression: TxExpression, rule: str) -> Expression:
        value = self.rules.value(self._expression(expression, scope))
        if value.type.sort not in (Sort.INTEGER, Sort.ANY, Sort.NULL):
            raise ExecutionError("type", rule)
        return value

    # Cursors, calls, returns

    def _cursor(self, name: str) -> pr.Cursor:
        if name not in self.cursors:
            raise ExecutionError("name", f"there is no cursor {name}")
        return self.cursors[name]

    def _fetch_cursor(self, step: pr.FetchCursor, scope: Scope) -> core.FetchCursor:
        columns = columns_of(self._statement(self._cursor(step.name).query, scope))
        source, bound = self.elaborator.fresh(), self.elaborator.fresh()
        found = self._assign(step.found, Bound(bound, BOOLEAN, True))
        assigns = self._spread(step.into, columns, source)
        keep = not self.rules.missing_row_clears
        return core.FetchCursor(self.cursor_numbers[step.name], step.name, source, bound, found, assigns, keep)

    def _call(self, step: pr.CallProcedure, scope: Scope) -> core.Call:
        procedure = self.program.procedure(step.procedure)
        if procedure is None:
            raise ExecutionError("name", f"there is no procedure {step.procedure}")
        if len(step.arguments) != len(procedure.parameters):
            raise ExecutionError("type", f"{step.procedure} takes {len(procedure.parameters)} arguments")
        values = [self._expression(argument, scope) for argument in step.arguments]
        types = tuple(value.type for value in values)
        slots, assigns = [], []
        for place, variable in enumerate(step.into):
            slot = self.elaborator.fresh()
            slots.append(slot)
            assigns.append(self._assign(variable, Bound(slot, self._type_returned(procedure, place, types))))
        arguments = tuple(self.rules.output(value) for value in values)
        return core.Call(self.program, step.procedure, arguments, tuple(slots), tuple(assigns))

    def _type_returned(self, procedure: pr.Procedure, place: int, types: tuple[ValueType, ...]) -> ValueType:
        """What a procedure returns for arguments of these types, found by elaborating it aside."""
        if (declared := declared_result(procedure, place)) is not None:
            return self.rules.column(declared)
        if procedure.name in self.inside:
            raise outside(
                f"what {procedure.name} returns to itself, whose type is not declared,", "declare the variable"
            )
        key = (procedure.name, types)
        known = self.known_results.known.get(key)
        if known is None:
            aside = Elaborator(self.elaborator.catalog)
            called = elaborate_procedure(aside, self.program, procedure, types, self.inside, self.known_results)
            known = self.known_results.known[key] = called.results
        return known[place] if place < len(known) else NULL

    def _return(self, step: pr.Return, scope: Scope) -> core.Return:
        values = [self._expression(value, scope) for value in step.values]
        for place, value in enumerate(values):
            name = f"the {place + 1}. value that is returned"
            self._grow(name, value.type)
            self.returned.extend([NULL] * (place + 1 - len(self.returned)))
            self.returned[place] = self.variables.types.get(name, NULL)
        return core.Return(tuple(self.rules.output(value) for value in values))


def _own_parts(step: pr.Step) -> Any:
    """What a step names before it begins; a condition is looked at when it is its turn."""
    match step:
        case pr.ForEach():
            return step.rows
        case pr.ForRange():
            return (step.first, step.last)
        case pr.If() | pr.While():
            return ()
        case _:
            return step


def _jump(step: pr.Leave | pr.Again, loops: tuple[str, ...]) -> core.Jump:
    if not loops:
        raise ExecutionError("name", "there is no loop to leave")
    depth = len(loops) - 1
    if step.label is not None:
        found = [place for place, label in enumerate(loops) if label == step.label]
        if not found:
            raise ExecutionError("name", f"there is no loop {step.label} around")
        depth = found[-1]
    return core.Jump(depth, isinstance(step, pr.Again))


def _first_only(step: pr.Fetch, rules: Rules) -> st.Statement:
    """Only the first row is asked for, so that it is refused where the order of rows leaves open which one that is."""
    statement = step.statement
    if step.single or not isinstance(statement, Select):
        return statement
    limit: TxExpression = Literal(1)
    if statement.limit is not None:
        # Whatever else it lets through; a negative one lets everything through in SQLite, and is an error elsewhere.
        least = Literal(0 if rules.negative_limit_is_none else -(2**62))
        few = Between(statement.limit, least, Literal(0))
        limit = Case(None, (When(few, statement.limit),), Literal(1))
    return replace(statement, limit=limit)
