"""From the source of a Python function to a procedure of the transaction language.

The subset is small and documented (``docs/language.md``): what is outside of it is refused with the line and with what to write
instead. The procedure is ``strict``: its own expressions mean what Python means by them, its statements what the database does.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from isolde.errors import OutsideFragment
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary, BinaryOperation, Is, Literal, Name, Parameter, Truth
from isolde.tx.place import Place
from isolde.tx.procedures import (
    Abort,
    Again,
    Assert,
    Assign,
    CallProcedure,
    Fetch,
    FetchAll,
    ForEach,
    ForRange,
    If,
    Leave,
    Local,
    Procedure,
    Return,
    Run,
    Step,
    While,
)
from isolde.tx.python.expressions import Expressions
from isolde.tx.python.functions import TransactionFunction
from isolde.tx.python.hints import outside_statement
from isolde.tx.python.lists import list_uses, lists_of
from isolde.tx.python.names import Holds, Known, assigned_in, is_builtin, joined, kinds, outer, seen
from isolde.tx.python.source import Source, returned, source_of
from isolde.tx.python.statements import read_at, with_arguments
from isolde.tx.queries import Select, Star
from isolde.tx.statements import Statement


def compiled(function: Callable[..., Any], dialect: Dialect) -> Procedure:
    """What the function means."""
    source = source_of(function)
    return _Compiler(source, dialect, function).procedure(source.definition)


@dataclass(slots=True)
class _Compiler:
    source: Source
    dialect: Dialect
    function: Callable[..., Any]
    handle: str = ""
    names: frozenset[str] = frozenset()
    """All names of the function's own."""
    rows: set[str] = field(default_factory=set)
    """Variables that hold one row, or none."""
    tables: set[str] = field(default_factory=set)
    """Variables that hold a list: of rows, or one that the caller gave."""
    lists: dict[str, int | None] = field(default_factory=dict)
    """Parameters that are lists, and how many values an element has; ``None`` where no loop looks into one."""
    known: Known | None = None
    """What is known here; ``None`` where nobody gets."""
    breaks: list[list[Known | None]] = field(default_factory=list)
    """For each loop around: what was known where it was left."""
    hoisted: list[Step] = field(default_factory=list)
    """Steps that have to come before the one that is being compiled."""
    fresh: int = 0

    def procedure(self, definition: ast.FunctionDef) -> Procedure:
        arguments = definition.args
        unusual = arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults
        if unusual or arguments.posonlyargs or not arguments.args:
            raise self.refusal(
                definition, "this list of parameters", "write def name(tx, first, second): plain ones, no defaults"
            )
        self.handle = arguments.args[0].arg
        if self.handle in {"self", "cls"}:
            raise self.refusal(definition, "a method", "define a function whose first parameter is the handle")
        parameters = [argument.arg for argument in arguments.args[1:]]
        self.names = assigned_in(definition.body) | set(parameters)
        self.kinds(definition, parameters)
        self.known = Known(frozenset(parameters), frozenset())
        body = definition.body
        if (
            isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
            and isinstance(body[0].value.value, str)
        ):
            body = body[1:]
        steps, place = self.block(body), self.place(definition)
        declared = tuple(
            Local(name, many=True, width=self.lists[name]) if name in self.lists else Local(name) for name in parameters
        )
        return Procedure(definition.name, declared, steps, place=place, strict=True)

    def kinds(self, definition: ast.FunctionDef, parameters: list[str]) -> None:
        """Each name holds one kind of thing, and a list one kind of elements."""
        for node, name, width in list_uses(self.function, definition):
            known = self.lists.setdefault(name, width)
            if known is None:
                self.lists[name] = width
            elif width is not None and width != known:
                what = f"'{name}' for a list of {_elements(known)} and for one of {_elements(width)}"
                raise self.refusal(node, what, "loop over it with as many names everywhere")
        held = {name: Holds.LIST if name in self.lists else Holds.VALUE for name in parameters}
        for target, name, kind in kinds(definition, self.handle, self.lists):
            if name == self.handle:
                raise self.refusal(target, f"an assignment to the handle '{name}'", "use another name")
            if held.setdefault(name, kind) is not kind:
                what = f"'{name}' for {held[name].value} and for {kind.value}"
                raise self.refusal(target, what, "use two names")
        self.rows = {name for name, kind in held.items() if kind is Holds.ROW}
        self.tables = {name for name, kind in held.items() if kind in (Holds.ROWS, Holds.LIST)}

    def block(self, statements: list[ast.stmt]) -> tuple[Step, ...]:
        return tuple(step for node in statements for step in self.steps(node))

    def steps(self, node: ast.stmt) -> list[Step]:
        """The steps of one Python statement, with what its expressions need before them."""
        outer, self.hoisted = self.hoisted, []
        step = self.step(node)
        steps = self.hoisted + ([] if step is None else [step])
        self.hoisted = outer
        return steps

    def step(self, node: ast.stmt) -> Step | None:
        place = self.place(node)
        match node:
            case ast.Pass() | ast.AnnAssign(ast.Name(), _, None):
                return None
            case ast.Expr(ast.Call() as call):
                return self.effect(call)
            case ast.Assign([ast.Name() | ast.Tuple() as target], value):
                return self.assign(target, value)
            case ast.AnnAssign(ast.Name() as target, _, value) if value is not None:
                return self.assign(target, value)
            case ast.AugAssign(ast.Name(name), operator, value):
                changed = ast.BinOp(ast.copy_location(ast.Name(name, ast.Load()), node), operator, value)
                return Assign(name, self.expression(ast.copy_location(changed, node)), place)
            case ast.If(test, body, orelse):
                return self.conditional(node, test, body, orelse)
            case ast.For(target, iterated, body, []):
                return self.loop(node, target, iterated, body)
            case ast.While(test, body, []):
                return self.while_loop(test, body, place)
            case ast.Break() | ast.Continue():
                if isinstance(node, ast.Break):
                    self.breaks[-1].append(self.known)
                self.known = None
                return Leave(place=place) if isinstance(node, ast.Break) else Again(place=place)
            case ast.Return(value):
                return self.result(value, place)
            case ast.Assert(test, message):
                text = message.value if isinstance(message, ast.Constant) and isinstance(message.value, str) else ""
                step = Assert(self.condition(test), text, place)
                self.see(seen(test, self.rows)[0])
                return step
            case ast.Raise():
                self.known = None
                return Abort(Literal(ast.unparse(node)), place)
            case _:
                raise self.refusal(node, *outside_statement(node))

    def result(self, value: ast.expr | None, place: Place) -> Return:
        if value is None:
            values: tuple[Any, ...] = ()
        elif isinstance(value, ast.Tuple):
            values = tuple(self.expression(element) for element in value.elts)
        else:
            values = (self.expression(value),)
        self.known = None
        return Return(values, place)

    def see(self, rows: frozenset[str]) -> None:
        if self.known is not None:
            self.known = self.known.seeing(rows)

    def conditional(self, node: ast.If, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> If:
        condition = self.condition(test)
        before, (true, false) = self.known, seen(test, self.rows)
        self.see(true)
        branch = self.block(body)
        after, self.known = self.known, before
        self.see(false)
        # What a later condition needs is computed only if it is reached, so it stays nested instead of becoming a branch.
        otherwise = self.block(orelse)
        self.known = joined([after, self.known])
        return If(((condition, branch),), otherwise, self.place(node))

    def while_loop(self, test: ast.expr, body: list[ast.stmt], place: Place) -> While:
        forever = isinstance(test, ast.Constant) and test.value is True
        self.enter(body)
        condition = self.condition_of_loop(test)
        before, (true, false) = self.known, seen(test, self.rows)
        self.see(true)
        steps = self.block(body)
        self.known = before
        self.see(false)
        self.known = joined([*self.breaks.pop(), None if forever else self.known])
        return While(condition, steps, place=place)

    def enter(self, body: list[ast.stmt], *targets: str) -> None:
        """A loop begins: what its body assigns to may be anything in the next round."""
        if self.known is not None:
            self.known = self.known.forgetting(assigned_in(body) | set(targets))
        self.breaks.append([])

    def assign(self, target: ast.Name | ast.Tuple, value: ast.expr) -> Step | None:
        step, names = self.assignment(target, value)
        if self.known is not None:
            self.known = self.known.having(*names)
        return step

    def assignment(self, target: ast.Name | ast.Tuple, value: ast.expr) -> tuple[Step | None, tuple[str, ...]]:
        place = self.place(target)
        call = self.database_call(value)
        match target:
            case ast.Name(name):
                if call is None:
                    if isinstance(value, ast.Call) and self.called(value.func) is not None:
                        return self.call_procedure(value, (name,)), (name,)
                    return Assign(name, self.expression(value), place), (name,)
                method, sql = call
                if method == "one":
                    return Fetch(sql, (name,), row=True, single=True, place=place), (name,)
                if method == "all":
                    return FetchAll(sql, name, place), (name,)
                if method == "value":
                    return Fetch(sql, (name,), single=True, place=place), (name,)
                return Run(sql, name, place), (name,)
            case ast.Tuple(elements) if all(isinstance(element, ast.Name) for element in elements):
                names = self.distinct(target)
                if call is not None and call[0] == "one":
                    # Unpacking None is an error in Python.
                    self.fits(value, call[1], len(names))
                    return Fetch(call[1], names, required=True, single=True, place=place), names
                if isinstance(value, ast.Tuple) and len(value.elts) == len(names):
                    return self.assign_together(names, value.elts, place), names
                if isinstance(value, ast.Call) and self.called(value.func) is not None:
                    return self.call_procedure(value, names), names
        raise self.refusal(
            target, f"an assignment to '{ast.unparse(target)}'", "assign to one name, or unpack tx.one(…)"
        )

    def distinct(self, target: ast.Tuple) -> tuple[str, ...]:
        names = tuple(element.id for element in target.elts if isinstance(element, ast.Name))
        if len(set(names)) < len(names):
            raise self.refusal(target, f"an assignment to '{ast.unparse(target)}'", "name each variable once")
        return names

    def fits(self, node: ast.expr, sql: Statement, wanted: int) -> None:
        """Refuses another number of columns, where it can be told."""
        items = sql.items if isinstance(sql, Select) else sql.returning
        if len(items) != wanted and not any(isinstance(item, Star) for item in items):
            raise self.refusal(node, f"{len(items)} columns for {wanted} names", "use as many names as columns")

    def assign_together(self, names: tuple[str, ...], values: list[ast.expr], place: Place) -> Step | None:
        """``a, b = b, a``: all values are taken before the first is assigned."""
        taken = [self.temporary(self.expression(value), place) for value in values]
        self.hoisted += [Assign(name, Name(kept), place) for name, kept in zip(names, taken, strict=True)]
        return None

    def effect(self, call: ast.Call) -> Step:
        found = self.database_call(call)
        if found is not None and found[0] in ("one", "value"):
            # Nobody looks at the row, but a second one is an error all the same.
            return Fetch(found[1], (self.unused(),), row=True, single=True, place=self.place(call))
        if found is not None:
            return Run(found[1], place=self.place(call))
        match call.func:
            case ast.Attribute(ast.Name(handle), "abort") if handle == self.handle:
                given = [*call.args, *(word.value for word in call.keywords)]
                reason = self.expression(given[0]) if given else None
                self.known = None
                return Abort(reason, self.place(call))
        if self.called(call.func) is not None:
            return self.call_procedure(call, None)
        raise self.refusal(
            call, f"the call '{ast.unparse(call.func)}'", "call tx.one, tx.all, tx.value, tx.execute or tx.abort"
        )

    def call_procedure(self, call: ast.Call, into: tuple[str, ...] | None) -> CallProcedure:
        called = self.called(call.func)
        assert called is not None
        written = ast.unparse(call.func)
        handle = call.args[0] if call.args else None
        starred = any(isinstance(argument, ast.Starred) for argument in call.args)
        if not isinstance(handle, ast.Name) or handle.id != self.handle or call.keywords or starred:
            raise self.refusal(call, "this call", f"write {written}({self.handle}, …) with plain arguments")
        wanted, given = len(inspect.signature(called.function).parameters), len(call.args)
        if given != wanted:
            raise self.refusal(call, f"a call of {written} with {given} arguments", f"it takes {wanted}")
        values = returned(called.function)
        if into is not None and (values - {0, 1} if len(into) == 1 else values != {len(into)}):
            counts = " or ".join(map(str, sorted(values)))
            what = f"{counts} values of {written} for {len(into)} names"
            raise self.refusal(call, what, "use as many names as it returns values")
        lists = lists_of(called)
        arguments = tuple(
            self.list_argument(argument, written) if place in lists else self.expression(argument)
            for place, argument in enumerate(call.args[1:])
        )
        return CallProcedure(called.name, arguments, into or (), self.place(call))

    def list_argument(self, argument: ast.expr, called: str) -> Name:
        """A list for another transaction: one that the caller gave, as it is."""
        if not isinstance(argument, ast.Name) or argument.id not in self.lists:
            what = f"'{ast.unparse(argument)}' for a parameter of {called} that is a list"
            raise self.refusal(argument, what, "give it a parameter that is a list")
        return Name(argument.id, place=self.place(argument))

    def loop(self, node: ast.For, target: ast.expr, iterated: ast.expr, body: list[ast.stmt]) -> Step:
        place = self.place(node)
        match iterated:
            case ast.Call(ast.Name("range"), [*bounds], []) if len(bounds) in (1, 2) and isinstance(target, ast.Name):
                self.builtin(iterated, "range")
                first = self.expression(bounds[0]) if len(bounds) == 2 else Literal(0)
                last = self.expression(ast.copy_location(ast.BinOp(bounds[-1], ast.Sub(), ast.Constant(1)), iterated))
                return ForRange(target.id, first, last, self.rounds(body, target.id), place=place)
        rows: Statement | str
        listed = isinstance(iterated, ast.Name) and iterated.id in self.lists
        call = self.database_call(iterated)
        if call is not None and call[0] == "all":
            rows = call[1]
        elif isinstance(iterated, ast.Name) and iterated.id in self.tables:
            self.usable(iterated)
            rows = iterated.id
        else:
            raise self.refusal(
                iterated,
                f"a loop over '{ast.unparse(iterated)}'",
                "loop over tx.all(…), its result, a parameter that is a list, range(stop) or range(start, stop)",
            )
        match target:
            case ast.Name(name):
                return ForEach((name,), rows, self.rounds(body, name), row=not listed, place=place)
            case ast.Tuple(elements) if all(isinstance(element, ast.Name) for element in elements):
                names = self.distinct(target)
                if call is not None:
                    self.fits(iterated, call[1], len(names))
                elif len(names) == 1:
                    what = "elements of a list" if listed else "rows of a variable"
                    instead = f"loop with a name: for {names[0]} in {rows}"
                    raise self.refusal(target, f"{what} in a tuple of one name", instead)
                return ForEach(names, rows, self.rounds(body, *names), place=place)
        raise self.refusal(target, f"the loop variable '{ast.unparse(target)}'", "use a name, or a tuple of names")

    def rounds(self, body: list[ast.stmt], *targets: str) -> tuple[Step, ...]:
        self.enter(body, *targets)
        before = self.known
        if self.known is not None:
            self.known = self.known.having(*targets).seeing(frozenset(targets) & self.rows)
        steps = self.block(body)
        self.known = joined([*self.breaks.pop(), before])
        return steps

    def database_call(self, node: ast.expr) -> tuple[str, Statement] | None:
        """The method and the statement of ``tx.method("…", name=value)``; ``None`` if it is no such call."""
        match node:
            case ast.Call(
                ast.Attribute(ast.Name(handle), "one" | "all" | "value" | "execute" as method), arguments, keywords
            ):
                if handle != self.handle:
                    return None
            case _:
                return None
        if len(arguments) != 1 or not isinstance(arguments[0], ast.Constant) or not isinstance(arguments[0].value, str):
            raise self.refusal(
                node, "SQL that is put together", f'write {self.handle}.{method}("…", name=value) with one literal text'
            )
        given = {}
        for keyword in keywords:
            if keyword.arg is None:
                raise self.refusal(node, "** in a call of the database", "name each parameter")
            given[keyword.arg] = self.argument(keyword.value)
        text = read_at(arguments[0].value, self.dialect, self.place(arguments[0]))
        sql, missing, unused = with_arguments(text, given)
        if missing:
            raise self.refusal(node, f"the parameter :{missing[0]} without a value", f"pass {missing[0]}=…")
        if unused:
            raise self.refusal(node, f"the argument {unused[0]}", f"the SQL has no :{unused[0]}")
        if method != "execute" and not isinstance(sql, Select) and not sql.returning:
            raise self.refusal(
                node, f"{self.handle}.{method} of a statement without rows", f"use {self.handle}.execute"
            )
        if method == "value":
            self.fits(node, sql, 1)
            if isinstance((sql.items if isinstance(sql, Select) else sql.returning)[0], Star):
                raise self.refusal(node, f"{self.handle}.value of '*'", "name the one column")
        return method, sql

    def argument(self, value: ast.expr) -> Parameter | Literal:
        """A value for a parameter of a statement: a variable, or one that is computed just before."""
        if isinstance(value, ast.Name) and value.id not in self.rows | self.tables:
            self.usable(value)
            return Parameter(value.id)
        expression = self.expression(value)
        if isinstance(expression, Literal):
            return expression
        return Parameter(self.temporary(expression, self.place(value)))

    def temporary(self, value: Any, place: Place) -> str:
        name = self.unused()
        self.hoisted.append(Assign(name, value, place))
        return name

    def unused(self) -> str:
        while True:
            self.fresh += 1
            if f"_{self.fresh}" not in self.names:
                return f"_{self.fresh}"

    def counted(self, variable: str, place: Place) -> Name:
        """How many rows or elements a variable holds, counted one by one: the language has no length."""
        count, each = self.unused(), self.unused()
        one_more = Assign(count, BinaryOperation(Binary.ADD, Name(count), Literal(1)), place)
        self.hoisted += [
            Assign(count, Literal(0), place),
            ForEach((each,), variable, (one_more,), row=True, place=place),
        ]
        return Name(count)

    def fetched(self, node: ast.expr) -> Name:
        """A call of the database inside an expression: its value is taken before."""
        call = self.database_call(node)
        if call is None or call[0] not in ("value", "execute"):
            instead = "assign it to a variable first" if call is not None else "compute it in a statement"
            raise self.refusal(node, f"'{ast.unparse(node)}' inside an expression", instead)
        name, place = self.unused(), self.place(node)
        method, sql = call
        one = Fetch(sql, (name,), single=True, place=place)
        self.hoisted.append(one if method == "value" else Run(sql, name, place))
        return Name(name)

    def expression(self, node: ast.expr) -> Any:
        return Expressions(self).value(node)

    def condition(self, node: ast.expr) -> Any:
        return Expressions(self).condition(node)

    def condition_of_loop(self, node: ast.expr) -> Any:
        before = len(self.hoisted)
        condition = self.condition(node)
        if len(self.hoisted) > before:
            what = "a call, a count or a row that may be missing in the condition of a while"
            raise self.refusal(node, what, "write while True: … if …: break")
        return condition

    def called(self, function: ast.expr) -> TransactionFunction | None:
        """The transaction that is called, if it is one."""
        if not isinstance(function, ast.Name) or function.id in self.names:
            return None
        found = outer(self.function, function.id)
        return found if isinstance(found, TransactionFunction) else None

    def usable(self, node: ast.Name) -> None:
        """Refuses a name that is none of the function's own, or that may have no value yet."""
        if node.id not in self.names:
            what = f"'{node.id}', which is not the function's own,"
            raise self.refusal(node, what, "give the value as a parameter")
        if self.known is not None and node.id not in self.known.assigned:
            raise self.refusal(node, f"'{node.id}' where it may have no value", "assign something to it before")

    def builtin(self, node: ast.expr, name: str) -> None:
        if name in self.names or not is_builtin(self.function, name):
            raise self.refusal(node, f"the call '{name}', which is not Python's own,", "use another name for yours")

    def there(self, node: ast.expr, row: str, guarded: bool) -> None:
        """Python raises an error for a column of a row that is missing: the transaction ends there."""
        if self.known is None or row in self.known.present:
            return
        if guarded:
            what = f"'{ast.unparse(node)}' of a row that may be missing"
            raise self.refusal(node, what, f"test it before: if {row} is None: …")
        place = self.place(node)
        missing = Is(Name(row, place=place), Truth.NULL, place=place)
        self.hoisted.append(If(((missing, (Abort(Literal("no row"), place),)),), (), place))
        self.see(frozenset({row}))

    def place(self, node: ast.AST) -> Place:
        line = getattr(node, "lineno", 1) + self.source.offset
        return Place(self.source.file, line, getattr(node, "col_offset", 0) + 1)

    def refusal(self, node: ast.AST, what: str, instead: str) -> OutsideFragment:
        return OutsideFragment(str(self.place(node)), what, instead)


def _elements(width: int) -> str:
    return "values" if width == 1 else f"tuples of {width}"
