"""SQL inside of procedures: statements with INTO, expressions, the rows that a statement found or changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary, BinaryOperation, Expression, Literal, Name, Parameter, Unary, UnaryOperation
from isolde.tx.place import Place
from isolde.tx.procedures import (
    Assign,
    CallProcedure,
    Cursor,
    Fetch,
    If,
    Local,
    Run,
    Step,
)
from isolde.tx.queries import Select
from isolde.tx.sql.statements import read_expression, read_statement
from isolde.tx.sql.stream import Stream
from isolde.tx.sql.text import Kind, Text, Token
from isolde.tx.statements import Statement

FOUND = "found"
ROWS = "row_count__"
"""As long as ``ROW_COUNT()``, in whose place it is read."""


@dataclass(frozen=True)
class Signature:
    """What a call must know: how many values go in, which arguments come back (MySQL's and PostgreSQL's OUT)."""

    name: str
    inputs: tuple[Local, ...]
    outputs: tuple[str, ...]
    order: tuple[tuple[str, bool, bool], ...]
    """Name, whether it goes in, whether it comes out."""


@dataclass
class Embedded:
    """The body of one procedure being read: its text, its names, and what SQL in it says."""

    stream: Stream
    signatures: dict[str, Signature]
    signature: Signature
    locals: list[Local] = field(default_factory=list)
    cursors: list[Cursor] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    outermost: str | None = None
    handler: tuple[Step, ...] | None = None
    depth: int = 0

    @property
    def dialect(self) -> Dialect:
        return self.stream.dialect

    @property
    def variables(self) -> frozenset[str]:
        if self.dialect is not Dialect.MYSQL:
            return frozenset()
        return frozenset(name for name, _, _ in self.signature.order) | {local.name for local in self.locals}

    def expression(self, text: Text) -> Expression:
        return read_expression(self.counted(text), self.dialect, self.variables)

    def statement(self, text: Text) -> Statement:
        return read_statement(text, self.dialect, self.variables)

    def query(self, text: Text) -> Select:
        query = self.statement(text)
        if not isinstance(query, Select):
            raise text.refuse(0, "rows of a change here", "use a query")
        return query

    def counted(self, text: Text) -> Text:
        """``ROW_COUNT()`` as a variable."""
        stream = Stream(text, self.dialect)
        whole = text.whole
        while not stream.ended:
            start = text.offset + stream.position
            if stream.accept("ROW_COUNT", "(", ")"):
                end = text.offset + stream.tokens[stream.at - 1].end
                whole = whole[:start] + ROWS.ljust(end - start)[: end - start] + whole[end:]
            else:
                stream.at += 1
        return text if whole is text.whole else Text(whole, text.source, text.offset, text.end)

    def variable(self) -> str:
        token = self.stream.next()
        if token.kind not in {Kind.WORD, Kind.QUOTED, Kind.PARAMETER} or not token.value:
            self.stream.at -= 1
            if token.symbol("@"):
                raise self.stream.refuse("a session variable", "declare a variable")
            self.stream.fail("a variable")
        return token.value

    def variable_list(self) -> tuple[str, ...]:
        names = [self.variable()]
        while self.stream.accept(","):
            names.append(self.variable())
        if self.stream.sees(".") or self.stream.sees("["):
            raise self.stream.refuse("a part of a variable as a target", "use a variable of its own")
        return tuple(names)

    def rest(self) -> Text:
        return self.stream.until(";", optional=True)

    def outputs(self) -> tuple[Expression, ...]:
        return tuple(self.reference(name) for name in self.signature.outputs)

    def reference(self, name: str, place: Place | None = None) -> Expression:
        return Parameter(name, place) if name in self.variables else Name(name, None, place)

    def assign(self, variable: str, text: Text, steps: list[Step], place: Place) -> None:
        if called := self.called(text):
            steps.append(self.function_call(*called, (variable,), place))
            return
        stream = Stream(text, self.dialect)
        if any(token.word("ROW_COUNT") for token in stream.tokens):
            self.count(ROWS, steps)
        steps.append(Assign(variable, self.expression(text), place))

    def called(self, text: Text) -> tuple[str, list[Text]] | None:
        """A call of a procedure of the program, if that is the whole text."""
        stream = Stream(text, self.dialect)
        stream.accept("SELECT")
        first, second = stream.peek(), stream.peek(1)
        if first is None or second is None or not second.symbol("(") or first.value not in self.signatures:
            return None
        stream.next()
        parts = stream.parenthesis()
        return (first.value, parts) if stream.ended else None

    def function_call(self, name: str, parts: list[Text], into: tuple[str, ...], place: Place) -> CallProcedure:
        return CallProcedure(name, tuple(self.expression(part) for part in parts), into, place)

    def count(self, variable: str, steps: list[Step]) -> None:
        """The number of rows of the statement before."""
        last = steps[-1] if steps else None
        if isinstance(last, Assign) and last.variable == FOUND and len(steps) > 1 and isinstance(steps[-2], Run):
            if variable != ROWS:
                steps.append(Assign(variable, Name(ROWS, None, last.place), last.place))
            return
        if not isinstance(last, Run) or last.count not in {None, variable}:
            raise self.stream.refuse("ROW_COUNT of no statement right before it", "ask right after the change")
        steps[-1] = replace(last, count=variable)

    def handled(self, steps: list[Step], place: Place) -> None:
        """What MySQL's NOT FOUND handler does after a fetch."""
        if self.handler is not None:
            missing = UnaryOperation(Unary.NOT, Parameter(FOUND, place), place)
            steps.append(If(((missing, self.handler),), (), place))

    def sql(self, steps: list[Step], place: Place) -> None:
        """A statement of SQL, with the INTO of a procedure taken out of it."""
        stream = self.stream
        start, first = stream.position, stream.at
        text = self.rest()
        tokens = stream.tokens[first : stream.at]
        into = self.into(tokens)
        if into is None:
            self.run(text, steps, place)
            return
        begin, end, variables, strict = into
        if called := self.called(blanked(text, begin - start, end - start)):
            steps.append(self.function_call(*called, variables, place))
            return
        statement = self.statement(blanked(text, begin - start, end - start))
        asked = FOUND if self.handler is not None or self.mentions_found() else None
        keep = self.dialect is Dialect.MYSQL
        steps.append(Fetch(statement, variables, strict, place, asked, keep=keep))
        self.handled(steps, place)

    def mentions_found(self) -> bool:
        return self.dialect is Dialect.POSTGRESQL and any(token.word("FOUND") for token in self.stream.tokens)

    def into(self, tokens: list[Token]) -> tuple[int, int, tuple[str, ...], bool] | None:
        """Where INTO and its variables stand, if this statement has them."""
        if not tokens or not tokens[0].word("SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "REPLACE"):
            return None
        depth, returning = 0, tokens[0].word("SELECT")
        for index, token in enumerate(tokens):
            depth += token.symbol("(") - token.symbol(")")
            returning = returning or (depth == 0 and token.word("RETURNING"))
            if not (token.word("INTO") and depth == 0 and returning):
                continue
            inside = Stream(self.stream.text, self.dialect)
            inside.tokens, inside.at = tokens, index + 1
            strict = inside.accept("STRICT")
            reader = replace(self, stream=inside)
            variables = reader.variable_list()
            return token.start, tokens[inside.at - 1].end, variables, strict
        return None

    def run(self, text: Text, steps: list[Step], place: Place) -> None:
        statement = self.statement(text)
        if not self.mentions_found():
            steps.append(Run(statement, None, place))
            return
        if isinstance(statement, Select) or statement.returning:
            steps.append(Fetch(statement, ("row__",), False, place, FOUND))
            return
        steps.append(Run(statement, ROWS, place))
        more = BinaryOperation(Binary.GREATER, Name(ROWS, None, place), Literal(0, place), place)
        steps.append(Assign(FOUND, more, place))


def blanked(text: Text, start: int, end: int) -> Text:
    """The same text with a part of it as blanks, so that places stay."""
    first, last = text.offset + start, text.offset + end
    blank = "".join("\n" if character == "\n" else " " for character in text.whole[first:last])
    return Text(text.whole[:first] + blank + text.whole[last:], text.source, text.offset, text.end)
