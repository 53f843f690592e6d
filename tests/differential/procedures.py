"""Random procedures, and a small interpreter that runs them on a real database.

The interpreter decides nothing about SQL: each statement, and each expression of control flow, is evaluated by the database,
with variables put in as literals of their type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import count
from typing import Any, assert_never

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete import Ending, Store
from isolde.tx import expressions as ex
from isolde.tx import procedures as pr
from isolde.tx import queries as qu
from isolde.tx import schema as sc
from isolde.tx import statements as st
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary

from .agreement import CONSTRAINTS, Tally, filled, shown, state_difference
from .databases import Failed, Real
from .generation import Generator
from .generation_expressions import INT, Scope
from .rendering import Text

VARIABLES = ("v1", "v2", "v3", "p1", "p2")


class Procedures(Generator):
    """Procedures over the generator's schema; all variables are integers."""

    def __init__(self, seed: int, dialect: Dialect) -> None:
        super().__init__(seed, dialect)
        self.wild = 0.0
        self.labels = 0
        self.calls = True

    def local(self, name: str) -> pr.Local:
        return pr.Local(name, None if self.dialect is Dialect.SQLITE else sc.BIGINT)

    def procedures(self) -> tuple[pr.Procedure, pr.Procedure]:
        """A procedure, and a smaller one that it may call."""
        self.calls = False
        called = self.procedure("q", 2, 3)
        self.calls = True
        # One that ends without a RETURN gives nulls.
        if self.chance(0.3):
            called = replace(called, body=called.body[:-1])
        return self.procedure("p", 3, 4), called

    def procedure(self, name: str, depth: int, count: int) -> pr.Procedure:
        cursor = pr.Cursor("c", self.rows_query())
        body = (*self.steps(depth, count, []), pr.Return((ex.Name("v1"), ex.Name("v2"))))
        defaults = tuple(
            replace(self.local(name), default=ex.Literal(place)) for place, name in enumerate(("v1", "v2", "v3"))
        )
        found = pr.Local("found", None if self.dialect is Dialect.SQLITE else sc.BOOLEAN)
        return pr.Procedure(name, (self.local("p1"), self.local("p2")), body, (*defaults, found), (cursor,))

    def names(self, rows: tuple[str, ...] = ()) -> Scope:
        del rows
        return Scope((), tuple((name, INT) for name in VARIABLES))

    def whole(self, scope: Scope, depth: int = 1) -> ex.Expression:
        """An integer that stays one: no quotient, which is a decimal in MySQL."""
        if depth == 0 or self.chance(0.4):
            return self.leaf(INT, scope)
        operator = self.random.choice((Binary.ADD, Binary.SUBTRACT, Binary.ADD, Binary.MULTIPLY))
        return ex.BinaryOperation(operator, self.whole(scope, depth - 1), self.whole(scope, depth - 1))

    def subquery(self, kind: str, scope: Scope, negated: bool) -> ex.Expression:
        return super().subquery(kind, self.seen(scope), negated)

    def scalar(self, kind: str, scope: Scope) -> ex.Expression:
        return super().scalar(kind, self.seen(scope))

    def seen(self, scope: Scope) -> Scope:
        """Without what PostgreSQL hides inside of a subquery: a wrong name is an error there only when it is reached."""
        return Scope(tuple(column for column in scope.columns if not (self.pg and column[0] == "q")), scope.variables)

    def rows_query(self) -> qu.Select:
        scope = self.scope(("x", "t1"))
        both = Scope(scope.columns, self.names().variables)
        items = (qu.Item(ex.Name("k", "x"), "k"), qu.Item(ex.Name("r", "x"), "r"))
        order = (qu.Order(ex.Name("k", "x")), qu.Order(ex.Name("l", "x")))
        return qu.Select(items, qu.TableSource("t1", "x"), self.condition(both, 1), (), None, order)

    def change(self) -> st.Statement:
        roll = self.random.random()
        scope = self.names()
        if roll < 0.4:
            values = (self.whole(scope), self.whole(scope, 0), ex.Literal(None), ex.Literal(0.5), self.whole(scope))
            return st.Insert("t1", ("k", "l", "r", "f", "n"), (values,))
        table = self.random.choice(("t0", "t1"))
        own = self.scope((table, table))
        both = Scope(own.columns, scope.variables)
        column = "a" if table == "t0" else "n"
        where = ex.BinaryOperation(Binary.EQUAL, ex.Name("id" if table == "t0" else "k"), self.whole(scope, 0))
        if roll < 0.85:
            return st.Update(
                table,
                (st.Assignment(column, self.whole(both)),),
                where if self.chance(0.7) else self.condition(both, 1),
            )
        return st.Delete("t1", ex.BinaryOperation(Binary.EQUAL, ex.Name("k"), self.whole(scope, 0)))

    def steps(self, depth: int, count: int, loops: list[str]) -> tuple[pr.Step, ...]:
        return tuple(self.step(depth, loops) for _ in range(self.random.randrange(1, count + 1)))

    def step(self, depth: int, loops: list[str]) -> pr.Step:
        scope = self.names()
        target = self.random.choice(("v1", "v2", "v3"))
        roll = self.random.random()
        if depth > 0 and roll < 0.45:
            return self.block(depth, loops, scope)
        if roll < 0.6:
            return pr.Assign(target, self.whole(scope, 2))
        if roll < 0.72:
            return self.fetch(target)
        if self.calls and roll < 0.77:
            into = self.random.choice(((), ("v1",), ("v2", "v3")))
            return pr.CallProcedure("q", (self.whole(scope), self.whole(scope)), into)
        if roll < 0.92:
            count = target if self.chance(0.4) else None
            return pr.Run(self.change(), count)
        if loops and roll < 0.97:
            label = self.random.choice(loops) if self.chance(0.6) else None
            return pr.Leave(label) if self.chance(0.5) else pr.Again(label)
        if roll < 0.985:
            return pr.Assert(ex.Is(self.condition(scope, 1), ex.Truth.FALSE, True), "holds")
        return pr.If(((self.condition(scope, 1), (pr.Abort(ex.Literal("enough")),)),))

    def fetch(self, target: str) -> pr.Step:
        inner = self.scope(("x", "t0"))
        both = Scope(inner.columns, self.names().variables)
        if self.chance(0.5):
            item = ex.Aggregate(
                self.random.choice((ex.Aggregation.MIN, ex.Aggregation.MAX, ex.Aggregation.COUNT)), ex.Name("a", "x")
            )
            return pr.Fetch(qu.Select((qu.Item(item),), qu.TableSource("t0", "x"), self.condition(both, 1)), (target,))
        where = ex.BinaryOperation(Binary.EQUAL, ex.Name("id", "x"), self.whole(self.names(), 0))
        query = qu.Select((qu.Item(ex.Name("a", "x")),), qu.TableSource("t0", "x"), where)
        return pr.Fetch(query, (target,), required=self.chance(0.1))

    def block(self, depth: int, loops: list[str], scope: Scope) -> pr.Step:
        roll = self.random.random()
        if roll < 0.4:
            branches = tuple(
                (self.condition(scope, 1), self.steps(depth - 1, 2, loops))
                for _ in range(self.random.choice((1, 1, 2)))
            )
            return pr.If(branches, self.steps(depth - 1, 2, loops) if self.chance(0.5) else ())
        self.labels += 1
        label = f"l{self.labels}"
        row, rows = f"r{self.labels}", f"h{self.labels}"
        body = self.steps(depth - 1, 3, [*loops, label])
        if roll < 0.52:
            take = pr.Assign("v3", ex.Name("k", row))
            return pr.ForEach((row,), self.rows_query(), (take, *body), label)
        if roll < 0.6:
            # Rows are those of the moment at which they were fetched, whatever is changed before they are looked at.
            take = pr.Assign("v3", ex.Name("r", row))
            each = pr.ForEach((row,), rows, (take, *body), label)
            return self.together(pr.FetchAll(self.rows_query(), rows), pr.Run(self.change()), each, each)
        if roll < 0.75:
            return pr.ForRange(f"i{self.labels}", ex.Literal(1), ex.Literal(self.random.choice((0, 2, 3))), body, label)
        if roll < 0.9 or depth < 3:
            counter = f"w{self.labels}"
            test = ex.BinaryOperation(
                Binary.LESS, ex.Call(ex.Function.COALESCE, (ex.Name(counter), ex.Literal(0))), ex.Literal(3)
            )
            step = pr.Assign(
                counter,
                ex.BinaryOperation(
                    Binary.ADD, ex.Call(ex.Function.COALESCE, (ex.Name(counter), ex.Literal(0))), ex.Literal(1)
                ),
            )
            return pr.While(test, (step, *body), label)
        fetch = pr.FetchCursor("c", ("v1", "v2"), "found")
        done = pr.If(((ex.Is(ex.Name("found"), ex.Truth.TRUE, True), (pr.Leave(label),)),))
        loop = pr.While(ex.Literal(True), (fetch, done, *body), label)
        return self.together(pr.OpenCursor("c"), loop, pr.CloseCursor("c"))

    @staticmethod
    def together(*steps: pr.Step) -> pr.Step:
        return pr.If(((ex.Literal(True), steps),))


class Jump(Exception):
    def __init__(self, step: pr.Leave | pr.Again) -> None:
        self.step = step


class Ended(Exception):
    def __init__(self, ending: Ending, values: tuple[Any, ...] = ()) -> None:
        self.ending, self.values = ending, values


class Interpreter:
    """Runs one procedure of a program on a real database."""

    def __init__(
        self, real: Real, program: pr.Program, procedure: pr.Procedure, new_ids: Iterator[int] | None = None
    ) -> None:
        self.new_ids = new_ids or count(1)
        self.real, self.program, self.procedure, self.text = real, program, procedure, Text(real.dialect)
        self.variables: dict[str, Any] = {}
        self.held: dict[str, list[tuple[Any, ...]]] = {}
        self.cursors: dict[str, Any] = {}
        self.booleans = {"found"}

    def run(self, arguments: tuple[Any, ...]) -> tuple[Ending, tuple[Any, ...]]:
        for local, value in zip(self.procedure.parameters, arguments, strict=True):
            self.variables[local.name] = value
        try:
            for local in self.procedure.locals:
                self.variables[local.name] = None if local.default is None else self.value(local.default)
            self.steps(self.procedure.body)
        except Ended as ended:
            return ended.ending, ended.values
        return Ending.RETURNED, ()

    def literal(self, value: Any, boolean: bool = False) -> ex.Expression:
        if self.real.dialect is Dialect.SQLITE or (value is not None and self.real.dialect is Dialect.MYSQL):
            return ex.Literal(value)
        return ex.Cast(ex.Literal(value), sc.BOOLEAN if boolean else sc.BIGINT)

    def bound(self, node: Any) -> Any:
        """The node with variables replaced by their values."""
        if isinstance(node, ex.Parameter):
            return self.literal(self.variables[node.name])
        if isinstance(node, ex.Name):
            if node.table is None and node.name in self.variables:
                return self.literal(self.variables[node.name], node.name in self.booleans)
            if node.table in self.variables:
                return self.literal(self.variables[node.table][node.name])
            if node.table is None and node.name.startswith("w"):
                return self.literal(None)
            return node
        if isinstance(node, tuple):
            return tuple(self.bound(part) for part in node)
        if is_dataclass(node) and not isinstance(node, type):
            return type(node)(**{part.name: self.bound(getattr(node, part.name)) for part in fields(node)})
        return node

    def value(self, expression: ex.Expression) -> Any:
        return self.query(qu.Select((qu.Item(expression),)))[0][0]

    def query(self, statement: st.Statement) -> list[tuple[Any, ...]]:
        return self.real.execute(self.text.statement(self.bound(statement)))[0]

    def holds(self, condition: ex.Expression) -> bool:
        case = ex.Case(None, (ex.When(condition, ex.Literal(1)),), ex.Literal(0))
        return bool(self.value(case))

    def steps(self, steps: tuple[pr.Step, ...]) -> None:
        for step in steps:
            self.step(step)

    def step(self, step: pr.Step) -> None:
        match step:
            case pr.Run():
                _, count = self.real.execute(self.text.statement(self.bound(step.statement)))
                if step.count is not None:
                    self.variables[step.count] = count
            case pr.Fetch():
                rows = self.query(step.statement)
                if not rows and step.required:
                    raise Ended(Ending.ABORTED)
                self.spread(step.into, rows[0] if rows else None)
            case pr.Assign():
                self.variables[step.variable] = self.value(step.value)
            case pr.Draw():
                self.variables[step.variable] = next(self.new_ids)
            case pr.Pick():
                items, index = self.variables[step.items], self.value(step.index)
                inside = index is not None and 0 < index <= len(items)
                self.variables[step.variable] = items[index - 1] if inside else None
            case pr.If():
                for condition, body in step.branches:
                    if self.holds(condition):
                        self.steps(body)
                        break
                else:
                    self.steps(step.otherwise)
            case pr.ForEach():
                for row in self.held[step.rows] if isinstance(step.rows, str) else self.query(step.rows):
                    self.variables[step.variables[0]] = dict(zip(("k", "r"), row, strict=True))
                    if self.round(step.body, step.label):
                        break
            case pr.ForRange():
                for number in range(self.value(step.first), self.value(step.last) + 1):
                    self.variables[step.variable] = number
                    if self.round(step.body, step.label):
                        break
            case pr.While():
                while self.holds(step.condition):
                    if self.round(step.body, step.label):
                        break
            case pr.Leave() | pr.Again():
                raise Jump(step)
            case pr.OpenCursor():
                self.cursors[step.name] = iter(self.query(self.procedure.cursors[0].query))
            case pr.FetchCursor():
                found: Any = next(self.cursors[step.name], None)
                self.variables[step.found] = found is not None
                if found is not None or self.real.dialect is Dialect.POSTGRESQL:
                    self.spread(step.into, found)
            case pr.CloseCursor():
                self.cursors.pop(step.name)
            case pr.Return():
                raise Ended(Ending.RETURNED, tuple(self.value(value) for value in step.values))
            case pr.Abort():
                raise Ended(Ending.ABORTED)
            case pr.Assert():
                if not self.holds(step.condition):
                    raise Ended(Ending.ASSERTION_FAILED)
            case pr.FetchAll():
                self.held[step.into] = self.query(step.statement)
            case pr.CallProcedure():
                self.call(step)
            case _:
                assert_never(step)

    def call(self, step: pr.CallProcedure) -> None:
        called = self.program.procedure(step.procedure)
        assert called is not None
        arguments = tuple(self.value(argument) for argument in step.arguments)
        ending, values = Interpreter(self.real, self.program, called, self.new_ids).run(arguments)
        if ending is not Ending.RETURNED:
            raise Ended(ending)
        for place, variable in enumerate(step.into):
            self.variables[variable] = values[place] if place < len(values) else None

    def round(self, body: tuple[pr.Step, ...], label: str | None) -> bool:
        """One round of a loop; whether it is over."""
        try:
            self.steps(body)
        except Jump as jump:
            if jump.step.label not in (None, label):
                raise
            return isinstance(jump.step, pr.Leave)
        return False

    def spread(self, into: tuple[str, ...], row: tuple[Any, ...] | None) -> None:
        for place, variable in enumerate(into):
            self.variables[variable] = None if row is None else row[place]


def run_procedures(seed: int, real: Real, count: int, tally: Tally) -> None:
    """Procedures one after the other on one schema, the tables compared after each."""
    generator = Procedures(seed, real.dialect)
    real.reset(generator.schema)
    store = Store(generator.schema, real.dialect)
    if not filled(seed, generator, store, real, tally):
        return
    for _ in range(count):
        program = pr.Program(generator.schema, generator.procedures())
        arguments = (generator.random.randrange(10), generator.random.choice((None, 1, 5)))
        difference = compare_procedure(program, arguments, store, real, tally)
        if difference is None:
            difference = state_difference(store, real) or None
        if difference is not None:
            tally.differences.append(f"seed {seed}: {program.procedures} {arguments}\n    {difference}")
            return


def compare_procedure(
    program: pr.Program, arguments: tuple[Any, ...], store: Store, real: Real, tally: Tally
) -> str | None:
    before = store.copy()
    ours: Any
    try:
        outcome = store.call(program, "p", arguments)
        ours = (outcome.ending, tuple(shown(value) for value in outcome.values))
    except OutsideFragment as refusal:
        store.tables = before.tables
        tally.refused[refusal.what.split("'")[0][:60]] += 1
        return None
    except ExecutionError as error:
        ours = error
    expected: Any
    try:
        ending, values = Interpreter(real, program, program.procedures[0]).run(arguments)
        expected = (ending, tuple(shown(value) for value in values))
        real.end(keep=ending is Ending.RETURNED)
    except Failed as failure:
        expected = failure
        real.end(keep=False)
    if isinstance(ours, ExecutionError) and isinstance(expected, Failed):
        if ours.kind != expected.kind and not {ours.kind, expected.kind} <= CONSTRAINTS:
            return f"error kinds: {ours.kind} ({ours}), real {expected.kind} ({expected.reason})"
    elif isinstance(ours, ExecutionError) or isinstance(expected, Failed):
        return f"store {ours!r}, real {expected!r}"
    elif ours != expected:
        return f"store {ours}, real {expected}"
    tally.procedures += 1
    return None
