"""Steps of random stored procedures that hold no others, and the names that they see."""

from __future__ import annotations

from dataclasses import dataclass, replace

from isolde.tx import expressions as ex
from isolde.tx import queries as qu
from isolde.tx import statements as st
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary

from .generation_expressions import BOOL, DEC, INT, KINDS, TEXT, Scope
from .procedures import Procedures
from .rendering import Text

TYPES = {
    INT: ("INT", "BIGINT", "INT"),
    DEC: ("DECIMAL(8, 2)", "NUMERIC(10, 3)"),
    TEXT: ("VARCHAR(10)", "VARCHAR(40)"),
    BOOL: ("BOOLEAN",),
}
ENOUGH = {
    True: (
        "RAISE EXCEPTION 'enough: %', v1;",
        "RAISE EXCEPTION USING MESSAGE = 'enough';",
    ),
    False: (
        "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'enough';",
        "SIGNAL SQLSTATE VALUE '45001';",
    ),
}
POOL = (("v1", INT), ("v2", INT), ("v3", DEC), ("s1", TEXT), ("b1", BOOL))
AVG, SUM = ex.Aggregation.AVG, ex.Aggregation.SUM


@dataclass(frozen=True)
class Variable:
    """``columns`` are those of a row. ``counts``: a loop depends on it, nothing else is assigned to it."""

    name: str
    kind: str
    settable: bool = True
    columns: tuple[tuple[str, str], ...] = ()
    counts: bool = False
    type: str = ""


@dataclass(frozen=True)
class Routine:
    """A text, and what one must know to call it."""

    name: str
    text: str
    function: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: tuple[str, ...]
    """Of the first two inputs."""


@dataclass(frozen=True)
class Around:
    """Where a step stands: the loops and blocks around it, from outside in. ``True``: a loop."""

    labels: tuple[tuple[str, bool], ...] = ()
    function: bool = False

    def inside(self, label: str, loop: bool) -> Around:
        return replace(self, labels=(*self.labels, (label, loop)))


Lines = list[str]


class Steps(Procedures):
    """Texts of single steps, over the generator's schema."""

    def __init__(self, seed: int, dialect: Dialect) -> None:
        super().__init__(seed, dialect)
        self.text_of = Text(dialect)
        self.scopes: list[list[Variable]] = []
        self.counters: list[str] = []
        self.called: Routine | None = None
        self.handled = False
        self.found = False
        self.fetching = False

    def type(self, kind: str) -> str:
        return self.random.choice(TYPES[kind])

    # Names

    def visible(self) -> list[Variable]:
        names: dict[str, Variable] = {}
        for scope in self.scopes:
            for variable in scope:
                names[variable.name] = variable
        return list(names.values())

    def around(self, *tables: tuple[str, str]) -> Scope:
        """Columns of tables under their aliases, of rows in variables, and the variables."""
        columns = self.scope(*tables).columns
        rows = [variable for variable in self.visible() if variable.columns]
        columns += tuple((row.name, column, kind) for row in rows for column, kind in row.columns)
        plain = tuple((variable.name, variable.kind) for variable in self.visible() if not variable.columns)
        return Scope(columns, plain)

    def target(self, kind: str | None = None) -> Variable | None:
        found = [
            variable
            for variable in self.visible()
            if variable.settable and not variable.counts and not variable.columns and kind in (None, variable.kind)
        ]
        return self.random.choice(found) if found else None

    def show(self, expression: ex.Expression) -> str:
        return self.text_of.expression(expression)

    def value(self, kind: str, depth: int = 2) -> str:
        return self.show(self.expression(kind, self.around(), depth))

    def test(self) -> str:
        if self.found and self.chance(0.3):
            return self.random.choice(("FOUND", "NOT FOUND", "(FOUND AND v1 > 1)"))
        return self.show(self.condition(self.around(), 1))

    def counter(self) -> str:
        name = f"w{len(self.counters) + 1}"
        self.counters.append(name)
        return name

    def label(self) -> str:
        self.labels += 1
        return f"l{self.labels}"

    # Queries

    def rows_text(self, columns: tuple[str, ...]) -> str:
        query = self.text_of.select(self.rows_query())
        return query.replace("SELECT x.k AS k, x.r AS r", "SELECT " + ", ".join(f"x.{c} AS {c}" for c in columns), 1)

    def number(self, kind: str, scope: Scope, depth: int) -> ex.Expression:
        """In PostgreSQL an integer that stays one: a wrong type is an error there only when it is reached."""
        if not self.pg or kind != INT:
            return super().number(kind, scope, depth)
        operators = (Binary.ADD, Binary.SUBTRACT, Binary.MULTIPLY, Binary.DIVIDE, Binary.MODULO, Binary.BIT_AND)
        sides = (self.expression(kind, scope, depth - 1), self.expression(kind, scope, depth - 1))
        return ex.BinaryOperation(self.random.choice(operators), *sides)

    def scalar(self, kind: str, scope: Scope) -> ex.Expression:
        while True:
            found = super().scalar(kind, scope)
            item = found.query.items[0] if isinstance(found, ex.ScalarQuery) else None
            expression = item.expression if isinstance(item, qu.Item) else None
            sums = isinstance(expression, ex.Aggregate) and expression.aggregation in (AVG, SUM)
            if not (sums and self.pg and kind == INT):
                return found

    def names(self, rows: tuple[str, ...] = ()) -> Scope:
        del rows
        return self.around()

    # Steps

    def assignment(self) -> Lines:
        variable = self.target()
        if variable is None:
            return []
        kind = variable.kind
        if self.chance(0.15):
            texts = (INT, DEC) if self.pg else (INT,)
            kind = self.random.choice({INT: (DEC, TEXT), DEC: (INT,), TEXT: texts, BOOL: (BOOL,)}[variable.kind])
        if self.pg:
            if self.found and variable.kind == BOOL and self.chance(0.3):
                return [f"{variable.name} := FOUND;"]
            return [f"{variable.name} {self.random.choice((':=', '='))} {self.value(kind)};"]
        if self.chance(0.2) and (other := self.target()) is not None:
            return [f"SET {variable.name} = {self.value(kind)}, {other.name} = {self.value(other.kind)};"]
        return [f"SET {variable.name} {self.random.choice((':=', '='))} {self.value(kind)};"]

    def fetch_text(self) -> Lines:
        roll = self.random.random()
        first, second = self.target(INT), self.target(DEC)
        if first is None or second is None:
            return []
        scope = self.around(("x", "t0"))
        key = f"x.id = {self.value(INT, 0)}"
        if roll < 0.3:
            function = self.random.choice(("MIN", "MAX", "COUNT"))
            where = self.show(self.condition(scope, 1))
            return self.into(f"SELECT {function}(x.a)", f"FROM t0 AS x WHERE {where}", first.name)
        if roll < 0.55:
            strict = "STRICT " if self.pg and self.chance(0.15) else ""
            lines = self.into("SELECT x.a, x.d", f"FROM t0 AS x WHERE {key}", f"{strict}{first.name}, {second.name}")
            if self.pg and self.chance(0.2):
                lines.append(f"GET DIAGNOSTICS {first.name} = ROW_COUNT;")
            return lines
        if roll < 0.7:
            many = f"FROM t0 AS x WHERE {self.show(self.condition(scope, 1))}"
            if self.pg:
                strict = "STRICT " if self.chance(0.3) else ""
                return self.into("SELECT x.a", f"{many} ORDER BY x.id", f"{strict}{first.name}")
            limit = " ORDER BY x.id LIMIT 1" if self.chance(0.7) else ""
            return self.into("SELECT x.a", many + limit, first.name)
        if roll < 0.8 and self.pg:
            lines = self.into("SELECT *", f"FROM t0 AS x WHERE {key}", "r2")
            row = tuple((column.name, KINDS[column.type.kind]) for column in self.schema.tables["t0"].columns)
            self.scopes.append([Variable("r2", "row", False, row)])
            lines += self.assignment()
            self.scopes.pop()
            return lines
        if roll < 0.9 and self.pg:
            return [f"PERFORM 1 FROM t0 AS x WHERE {key};"]
        return self.into("SELECT " + self.value(INT), "", first.name)

    def into(self, head: str, tail: str, names: str) -> Lines:
        if self.chance(0.3) and "ORDER" not in tail and tail:
            return [f"{head} {tail} INTO {names};"]
        return [f"{head} INTO {names} {tail};"]

    def change(self) -> st.Statement:
        """Nulls in keys are left to a few: a procedure should come to its end now and then."""
        found = super().change()
        if not isinstance(found, st.Insert) or isinstance(found.source, qu.Select) or self.chance(0.15):
            return found
        row = list(found.source[0])
        for place in (0, 1, 4):
            cell = row[place]
            assert not isinstance(cell, st.Default)
            row[place] = ex.Call(ex.Function.COALESCE, (cell, ex.Literal(self.random.randrange(20))))
        return replace(found, source=(tuple(row),))

    def change_text(self) -> Lines:
        text = self.text_of.statement(self.change())
        variable = self.target(INT)
        if variable is None or self.chance(0.5):
            lines = [f"{text};"]
            if self.found and self.chance(0.4):
                lines.append(f"IF {self.random.choice(('FOUND', 'NOT FOUND'))} THEN {self.one_line()} END IF;")
            return lines
        if not self.pg:
            if self.chance(0.3):
                return [f"{text};", f"IF ROW_COUNT() = {self.random.choice((0, 1))} THEN {self.one_line()} END IF;"]
            return [f"{text};", f"SET {variable.name} = ROW_COUNT();"]
        if self.chance(0.5):
            return [f"{text};", f"GET DIAGNOSTICS {variable.name} = ROW_COUNT;"]
        column = "k" if " t1" in text[:14] else "a"
        return [f"{text} RETURNING {column} INTO {variable.name};"]

    def one_line(self) -> str:
        return " ".join(self.assignment()) or "SELECT 1 INTO v1;"

    def call_text(self) -> Lines:
        called = self.called
        first, second = self.target(INT), self.target(TEXT)
        if called is None or first is None or second is None:
            return self.assignment()
        if called.function:
            call = self.call()
            if not self.pg:
                return [f"SET {first.name} = {call};"]
            return [
                self.random.choice(
                    (f"{first.name} := {call};", f"PERFORM {call};", f"SELECT {call} INTO {first.name};")
                )
            ]
        outs = f"{first.name}, {second.name}"
        if self.pg and (first.type != "BIGINT" or not second.type):
            return self.assignment()
        return [f"CALL {self.call(outs)};"]

    def call(self, *outs: str) -> str:
        assert self.called is not None
        inputs = [self.value(kind, 0) for kind in self.called.inputs[:2]]
        if self.pg:
            inputs = [f"CAST({value} AS {type_})" for value, type_ in zip(inputs, self.called.types, strict=True)]
        return f"q({', '.join([*inputs, *outs])})"

    def ending(self, around: Around) -> Lines:
        roll = self.random.random()
        if roll < 0.2:
            abort = (
                "RAISE EXCEPTION 'enough: %', v1;"
                if self.pg
                else "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'enough';"
            )
            return [f"IF {self.test()} THEN", abort, "END IF;"]
        if roll < 0.3 and self.pg:
            return [f"ASSERT ({self.test()}) IS NOT FALSE, 'holds';"]
        if roll < 0.4 and self.pg:
            return [self.random.choice(("NULL;", "RAISE NOTICE 'so far %', v1;"))]
        if roll < 0.6 and (self.pg or around.function):
            returned = f"RETURN {self.value(INT)};" if around.function else "RETURN;"
            return [f"IF {self.test()} THEN {returned} END IF;"]
        return self.jump(around)

    def jump(self, around: Around) -> Lines:
        loops = [label for label, loop in around.labels if loop]
        again = bool(loops) and self.chance(0.4)
        labels = [label for label, loop in around.labels if label and (loop or not again)]
        if not labels and not loops:
            return self.assignment()
        label = self.random.choice(labels) if labels else ""
        if self.pg:
            word = "CONTINUE" if again else "EXIT"
            name = "" if loops and (not label or self.chance(0.5)) else f" {label}"
            return [
                f"{word}{name} WHEN {self.test()};"
                if self.chance(0.8)
                else f"IF {self.test()} THEN {word}{name}; END IF;"
            ]
        return [f"IF {self.test()} THEN {'ITERATE' if again else 'LEAVE'} {label}; END IF;"]
