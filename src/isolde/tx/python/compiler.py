"""From the source of a Python function to a procedure of the transaction language.

The subset is small and documented (``docs/language.md``): what is outside of it is refused with the line and with what to write
instead. Comparisons mean what the database means by them, except that ``==`` and ``!=`` are never unknown: in Python, ``None``
equals ``None``.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from isolde.errors import MalformedProgram, OutsideFragment, UsageError
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary, BinaryOperation, Literal, Name, Parameter
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
from isolde.tx.rewrite import rewritten
from isolde.tx.sql import statement
from isolde.tx.statements import Statement


def compiled(function: Callable[..., Any], dialect: Dialect) -> Procedure:
    """What the function means."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise UsageError(f"the source of {function.__name__} cannot be found; define it in a file") from None
    tree = ast.parse(textwrap.dedent("".join(lines)))
    definition = tree.body[0]
    source = inspect.getsourcefile(function) or function.__name__
    indent = len(lines[0]) - len(lines[0].lstrip())
    if not isinstance(definition, ast.FunctionDef):
        raise OutsideFragment(f"{source}:{first}", "this function", "define it with def, not as a lambda and not async")
    return _Compiler(source, first - 1, indent, dialect, function).procedure(definition)


@dataclass(slots=True)
class _Compiler:
    source: str
    line_offset: int
    indent: int
    dialect: Dialect
    function: Callable[..., Any]
    handle: str = ""
    rows: set[str] = field(default_factory=set)
    """Variables that hold one row, or none."""
    tables: set[str] = field(default_factory=set)
    """Variables that hold a list of rows."""
    hoisted: list[Step] = field(default_factory=list)
    """Steps that have to come before the one that is being compiled."""
    fresh: int = 0

    def procedure(self, definition: ast.FunctionDef) -> Procedure:
        arguments = definition.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults or not arguments.args:
            raise self.refusal(
                definition, "these parameters", "write def name(tx, first, second): plain parameters, no defaults"
            )
        self.handle = arguments.args[0].arg
        parameters = tuple(Local(argument.arg) for argument in arguments.args[1:])
        body = definition.body
        if (
            isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
            and isinstance(body[0].value.value, str)
        ):
            body = body[1:]
        return Procedure(definition.name, parameters, self.block(body), place=self.place(definition))

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
            case ast.Pass():
                return None
            case ast.Expr(ast.Call() as call):
                return self.effect(call)
            case ast.Assign([target], value):
                return self.assign(target, value)
            case ast.AnnAssign(target, _, value) if value is not None:
                return self.assign(target, value)
            case ast.AugAssign(ast.Name(name), operator, value):
                changed = ast.BinOp(ast.copy_location(ast.Name(name, ast.Load()), node), operator, value)
                return Assign(name, self.expression(ast.copy_location(changed, node)), place)
            case ast.If(test, body, orelse):
                return self.conditional(node, test, body, orelse)
            case ast.For(target, iterated, body, []):
                return self.loop(node, target, iterated, body)
            case ast.While(test, body, []):
                return While(self.condition_of_loop(test), self.block(body), place=place)
            case ast.Break():
                return Leave(place=place)
            case ast.Continue():
                return Again(place=place)
            case ast.Return(None):
                return Return((), place)
            case ast.Return(ast.Tuple(elements)):
                return Return(tuple(self.expression(element) for element in elements), place)
            case ast.Return(value) if value is not None:
                return Return((self.expression(value),), place)
            case ast.Assert(test, message):
                text = message.value if isinstance(message, ast.Constant) and isinstance(message.value, str) else ""
                return Assert(self.condition(test), text, place)
            case ast.Raise():
                return Abort(Literal(ast.unparse(node)), place)
            case _:
                raise self.refusal(
                    node,
                    f"'{ast.unparse(node).splitlines()[0]}'",
                    "the subset has =, if, for, while, return, assert, raise",
                )

    def conditional(self, node: ast.If, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> If:
        branches = [(self.condition(test), self.block(body))]
        # What a later condition needs is computed only if it is reached, so it stays nested instead of becoming a branch.
        return If(tuple(branches), self.block(orelse), self.place(node))

    def assign(self, target: ast.expr, value: ast.expr) -> Step | None:
        place = self.place(target)
        call = self.database_call(value)
        match target:
            case ast.Name(name):
                self.rows.discard(name)
                self.tables.discard(name)
                if call is None:
                    return self.assign_value(name, value, place)
                method, sql = call
                if method == "one":
                    self.rows.add(name)
                    return Fetch(sql, (name,), row=True, place=place)
                if method == "all":
                    self.tables.add(name)
                    return FetchAll(sql, name, place)
                if method == "value":
                    return Fetch(sql, (name,), place=place)
                return Run(sql, name, place)
            case ast.Tuple(elements) if all(isinstance(element, ast.Name) for element in elements):
                names = tuple(element.id for element in elements if isinstance(element, ast.Name))
                if call is not None and call[0] == "one":
                    # Unpacking None is an error in Python.
                    return Fetch(call[1], names, required=True, place=place)
                if isinstance(value, ast.Tuple) and len(value.elts) == len(names):
                    return self.assign_together(names, value.elts, place)
                if isinstance(value, ast.Call):
                    return self.call_procedure(value, names)
        raise self.refusal(
            target, f"an assignment to '{ast.unparse(target)}'", "assign to one name, or unpack tx.one(…)"
        )

    def assign_value(self, name: str, value: ast.expr, place: Place) -> Step | None:
        if isinstance(value, ast.Call) and self.is_transaction(value.func):
            return self.call_procedure(value, (name,))
        if isinstance(value, ast.Name):
            self.rows |= {name} if value.id in self.rows else set()
            self.tables |= {name} if value.id in self.tables else set()
        return Assign(name, self.expression(value), place)

    def assign_together(self, names: tuple[str, ...], values: list[ast.expr], place: Place) -> Step | None:
        """``a, b = b, a``: all values are taken before the first is assigned."""
        taken = [self.temporary(self.expression(value), place) for value in values]
        self.hoisted += [Assign(name, Name(kept), place) for name, kept in zip(names, taken, strict=True)]
        return None

    def effect(self, call: ast.Call) -> Step:
        found = self.database_call(call)
        if found is not None:
            return Run(found[1], place=self.place(call))
        match call.func:
            case ast.Attribute(ast.Name(handle), "abort") if handle == self.handle:
                reason = self.expression(call.args[0]) if call.args else None
                return Abort(reason, self.place(call))
        if self.is_transaction(call.func):
            return self.call_procedure(call, ())
        raise self.refusal(
            call, f"the call '{ast.unparse(call.func)}'", "call tx.one, tx.all, tx.value, tx.execute or tx.abort"
        )

    def call_procedure(self, call: ast.Call, into: tuple[str, ...]) -> CallProcedure:
        if not self.is_transaction(call.func):
            raise self.refusal(call, f"the call '{ast.unparse(call.func)}'", "only other transactions can be called")
        handle, *arguments = call.args
        if not isinstance(handle, ast.Name) or handle.id != self.handle or call.keywords:
            raise self.refusal(
                call, "this call", f"write {ast.unparse(call.func)}({self.handle}, …) with plain arguments"
            )
        name = ast.unparse(call.func)
        return CallProcedure(name, tuple(self.expression(a) for a in arguments), into, self.place(call))

    def loop(self, node: ast.For, target: ast.expr, iterated: ast.expr, body: list[ast.stmt]) -> Step:
        place = self.place(node)
        match iterated:
            case ast.Call(ast.Name("range"), [*bounds], []) if len(bounds) in (1, 2) and isinstance(target, ast.Name):
                first = self.expression(bounds[0]) if len(bounds) == 2 else Literal(0)
                last = self.expression(ast.copy_location(ast.BinOp(bounds[-1], ast.Sub(), ast.Constant(1)), iterated))
                return ForRange(target.id, first, last, self.block(body), place=place)
        rows: Statement | str
        call = self.database_call(iterated)
        if call is not None and call[0] == "all":
            rows = call[1]
        elif isinstance(iterated, ast.Name) and iterated.id in self.tables:
            rows = iterated.id
        else:
            raise self.refusal(
                iterated, f"a loop over '{ast.unparse(iterated)}'", "loop over tx.all(…), over its result, or range(…)"
            )
        match target:
            case ast.Name(name):
                self.rows.add(name)
                return ForEach((name,), rows, self.block(body), row=True, place=place)
            case ast.Tuple(elements) if all(isinstance(element, ast.Name) for element in elements):
                names = tuple(element.id for element in elements if isinstance(element, ast.Name))
                return ForEach(names, rows, self.block(body), place=place)
        raise self.refusal(target, f"the loop variable '{ast.unparse(target)}'", "use a name, or a tuple of names")

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
        return method, self.with_arguments(node, self.parsed(arguments[0], arguments[0].value), given)

    def parsed(self, node: ast.expr, sql: str) -> Statement:
        """The statement; what is wrong with it is told at the line of the function."""
        place = str(self.place(node))
        try:
            return statement(sql, self.dialect, place)
        except OutsideFragment as error:
            raise OutsideFragment(place, error.what, error.instead) from None
        except MalformedProgram as error:
            raise MalformedProgram(place, error.found, error.expected) from None

    def argument(self, value: ast.expr) -> Parameter | Literal:
        """A value for a parameter of a statement: a variable, or one that is computed just before."""
        if isinstance(value, ast.Name) and value.id not in self.rows | self.tables:
            return Parameter(value.id)
        expression = self.expression(value)
        if isinstance(expression, Literal):
            return expression
        return Parameter(self.temporary(expression, self.place(value)))

    def with_arguments(self, node: ast.expr, sql: Statement, given: dict[str, Parameter | Literal]) -> Statement:
        used: set[str] = set()

        def change(found: Any) -> Any:
            if not isinstance(found, Parameter):
                return found
            if found.name not in given:
                raise self.refusal(node, f"the parameter :{found.name} without a value", f"pass {found.name}=…")
            used.add(found.name)
            return given[found.name]

        bound = rewritten(sql, change)
        unused = sorted(set(given) - used)
        if unused:
            raise self.refusal(node, f"the argument {unused[0]}", f"the SQL has no :{unused[0]}")
        return bound

    def temporary(self, value: Any, place: Place) -> str:
        self.fresh += 1
        name = f"_{self.fresh}"
        self.hoisted.append(Assign(name, value, place))
        return name

    def counted(self, variable: str, place: Place) -> Name:
        """How many rows a variable holds, counted one by one: the language has no length."""
        self.fresh += 1
        count, each = f"_{self.fresh}", f"_{self.fresh}_row"
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
            raise self.refusal(node, f"'{ast.unparse(node)}' inside an expression", "assign it to a variable first")
        self.fresh += 1
        name, place = f"_{self.fresh}", self.place(node)
        method, sql = call
        self.hoisted.append(Fetch(sql, (name,), place=place) if method == "value" else Run(sql, name, place))
        return Name(name)

    def expression(self, node: ast.expr) -> Any:
        return Expressions(self).value(node)

    def condition(self, node: ast.expr) -> Any:
        return Expressions(self).condition(node)

    def condition_of_loop(self, node: ast.expr) -> Any:
        before = len(self.hoisted)
        condition = self.condition(node)
        if len(self.hoisted) > before:
            raise self.refusal(node, "a database call in the condition of a while", "write while True: … if …: break")
        return condition

    def is_transaction(self, function: ast.expr) -> bool:
        from isolde.tx.python.transaction import Transaction

        if not isinstance(function, ast.Name):
            return False
        known = inspect.getclosurevars(self.function)
        found = known.globals.get(function.id, known.nonlocals.get(function.id))
        return isinstance(found, Transaction) or found is self.function

    def place(self, node: ast.AST) -> Place:
        line = getattr(node, "lineno", 1) + self.line_offset
        return Place(self.source, line, getattr(node, "col_offset", 0) + self.indent + 1)

    def refusal(self, node: ast.AST, what: str, instead: str) -> OutsideFragment:
        return OutsideFragment(str(self.place(node)), what, instead)
