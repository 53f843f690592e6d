"""SQL inside of procedures: statements with INTO, expressions, the rows that a statement found or changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from isolde.errors import OutsideFragment
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import (
    Binary,
    BinaryOperation,
    Case,
    Expression,
    Is,
    Literal,
    Name,
    Parameter,
    Truth,
    Unary,
    UnaryOperation,
    When,
)
from isolde.tx.place import Place
from isolde.tx.procedures import (
    Abort,
    Assign,
    CallProcedure,
    Cursor,
    Draw,
    Fetch,
    If,
    Local,
    Pick,
    Return,
    Run,
    Step,
)
from isolde.tx.queries import Select
from isolde.tx.rewrite import rewritten
from isolde.tx.schema import BOOLEAN, Schema, Type
from isolde.tx.sql.endings import Endings
from isolde.tx.sql.names import Names
from isolde.tx.sql.statements import read_expression, read_statement
from isolde.tx.sql.stream import Stream
from isolde.tx.sql.text import Kind, Text, Token
from isolde.tx.statements import Statement

_Node = TypeVar("_Node")

FOUND = "found"
ROWS = "row_count__"
"""As long as ``ROW_COUNT()``, in whose place it is read."""
RESULT = "result__"
"""What a function returns, in the type that it is declared to have."""


@dataclass(frozen=True)
class Signature:
    """What a call must know: how many values go in, which arguments come back (MySQL's and PostgreSQL's OUT)."""

    name: str
    inputs: tuple[Local, ...]
    outputs: tuple[str, ...]
    order: tuple[tuple[str, bool, bool], ...]
    """Name, whether it goes in, whether it comes out."""
    returns: Type | None = None
    """The type of a function; ``None`` for a procedure, and for a function whose values are its outputs."""
    misses: bool = False
    """Whether a row may be missing in it that no handler of its own is told of: in MySQL its caller's handler is."""
    swallows: bool = False
    """Whether a handler of MySQL rolls back and lets the caller go on, in what would be another transaction."""


@dataclass
class Target:
    """A loop, or a block with a label: where a jump may go to. ``counts``: a FOR, which sets FOUND when it is left."""

    label: str | None
    loop: bool
    counts: bool = False
    used: bool = False
    cursor: str | None = None
    """The one that a FOR goes through, which is open in its body."""
    variable: str | None = None
    """The number that a FOR counts."""


@dataclass
class Embedded:
    """The body of one procedure being read: its text, its names, and what SQL in it says."""

    stream: Stream
    signatures: dict[str, Signature]
    signature: Signature
    locals: list[Local] = field(default_factory=list)
    cursors: list[Cursor] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    outermost: str | None = None
    handler: tuple[Step, ...] | None = None
    handled_in: int = -1
    """The block that the handler is declared in, by how many are around it."""
    depth: int = 0
    plain: bool = False
    """Whether this is the plain form, which has ``new_id()`` and elements of lists."""
    columns_first: bool = False
    """Whether PostgreSQL was told to take a name for a column that is a variable, too."""
    blocks: int = 0
    """How many blocks inside of the outermost one are around."""
    schema: Schema = field(default_factory=Schema.of)
    names: Names = field(default_factory=Names)
    cursor_names: Names = field(default_factory=Names)
    records: set[str] = field(default_factory=set)
    bare: set[str] = field(default_factory=set)
    """The records that have no columns before they are assigned to."""
    """Variables that hold rows."""
    required: set[str] = field(default_factory=set)
    """Variables that may not be null."""
    touched: set[str] = field(default_factory=set)
    """Those of them that the step being read assigns to."""
    constants: set[str] = field(default_factory=set)
    before: list[Step] = field(default_factory=list)
    """What has to be taken before the step that is being read."""
    endings: Endings = field(default_factory=Endings)
    taken: set[str] = field(default_factory=set)
    """The variables of ``before``, in all steps."""

    def __post_init__(self) -> None:
        if self.dialect is Dialect.POSTGRESQL:
            self.names.scopes[0].label = self.signature.name
        for name, _, _ in self.signature.order:
            self.names.declare(name)
        if self.mentions_found():
            self.locals.append(Local(FOUND, BOOLEAN, Literal(False)))
        if self.signature.returns is not None:
            self.locals.append(Local(RESULT, self.signature.returns))

    @property
    def found(self) -> str:
        """What a fetch tells: PostgreSQL's FOUND, elsewhere a variable that no text can name."""
        return FOUND if self.dialect is Dialect.POSTGRESQL else "found__"

    @property
    def dialect(self) -> Dialect:
        return self.stream.dialect

    @property
    def variables(self) -> frozenset[str]:
        if self.dialect is not Dialect.MYSQL:
            return frozenset()
        return self.names.visible

    def expression(self, text: Text) -> Expression:
        return self.resolved(read_expression(self.counted(self.lifted(text)), self.dialect, self.variables))

    def statement(self, text: Text) -> Statement:
        self.drawn_once(text)
        return self.resolved(read_statement(self.lifted(text), self.dialect, self.variables))

    def resolved(self, node: _Node) -> _Node:
        """The node with the variables that its names mean."""
        if self.dialect is Dialect.POSTGRESQL and not self.plain and not self.columns_first:
            visible = self.names.visible

            def contest(part: Any) -> Any:
                plain = isinstance(part, Name) and part.table is None and part.name in visible
                return replace(part, contested=part.name) if plain else part

            node = rewritten(node, contest)
        return self.names.resolved(node, self.dialect)

    def query(self, text: Text) -> Select:
        self.lifts_nothing(text, "the query of a cursor")
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
        return text if whole is text.whole else replace(text, whole=whole)

    # -- new_id() and :list[index], which no statement holds

    def lifted(self, text: Text) -> Text:
        """Ids and elements of lists as variables, which ``before`` fills: a database is only ever sent values."""
        if not self.plain:
            return text
        stream, whole = Stream(text, self.dialect), text.whole
        known: dict[str, str] = {}
        while not stream.ended:
            start, place = stream.position, stream.place()
            if (width := self.lifts(stream)) == 0:
                stream.at += 1
                continue
            tokens = stream.tokens[stream.at : stream.at + width]
            stream.at += width
            end = tokens[-1].end
            variable = known.get(text.content[start:end]) or self.unused(text, start)
            if tokens[0].kind is not Kind.PARAMETER:
                self.before.append(Draw(variable, place))
            elif text.content[start:end] not in known:
                index = self.expression(text.slice(tokens[2].start, tokens[-2].end))
                self.before.append(Pick(variable, tokens[0].value, index, place))
                known[text.content[start:end]] = variable
            first, last = text.offset + start, text.offset + end
            whole = whole[:first] + f":{variable}".ljust(last - first) + whole[last:]
        return text if whole is text.whole else replace(text, whole=whole)

    def lifts(self, stream: Stream) -> int:
        """How many tokens ``new_id()`` or ``:list[index]`` has here; 0 if there is none."""
        if stream.sees("NEW_ID", "(", ")") and "new_id" not in self.signatures:
            return 3
        first, second = stream.peek(), stream.peek(1)
        indexed = second is not None and second.symbol("[") and first is not None and first.end == second.start
        if not (indexed and first is not None and first.kind is Kind.PARAMETER):
            return 0
        depth, ahead = 1, 2
        while depth and (token := stream.peek(ahead)) is not None:
            depth += token.symbol("[") - token.symbol("]")
            ahead += 1
        if depth or ahead == 3:
            stream.at += 2
            stream.fail("an index and ']'")
        return ahead

    def unused(self, text: Text, position: int) -> str:
        """A name that is as short as the shortest element, so that places stay."""
        used = {token.value for token in self.stream.tokens} | self.taken
        name = next((name for number in range(1, 1000) if (name := f"_{number}") not in used), None)
        if name is None:
            raise text.refuse(position, "so many elements and ids in a procedure", "use several procedures")
        self.taken.add(name)
        return name

    def drawn_once(self, text: Text) -> None:
        """Refuses ``new_id()`` where a statement might mean one id or one a row."""
        stream = Stream(text, self.dialect)
        unclear = not stream.sees("INSERT|REPLACE")
        unclear = unclear or any(token.word("SELECT", "CONFLICT", "DUPLICATE") for token in stream.tokens)
        while self.plain and unclear and not stream.ended:
            if self.lifts(stream) and stream.sees("NEW_ID"):
                raise stream.refuse("new_id() that is not a value of INSERT", "assign it first: :id := new_id();")
            stream.at += 1

    def lifts_nothing(self, text: Text, where: str) -> None:
        """Refuses what has to be taken before a step, where it would have to be taken again."""
        stream = Stream(text, self.dialect)
        while self.plain and not stream.ended:
            if self.lifts(stream):
                raise stream.refuse(f"new_id() or an element of a list in {where}", "assign it to a variable first")
            stream.at += 1

    def variable(self) -> str:
        token = self.stream.next()
        if token.kind not in {Kind.WORD, Kind.QUOTED, Kind.PARAMETER} or not token.value:
            self.stream.at -= 1
            if token.symbol("@"):
                raise self.stream.refuse("a session variable", "declare a variable")
            self.stream.fail("a variable")
        variable = self.names.variable(token.value)
        if self.stream.sees("["):
            raise self.stream.refuse("an element of a list as a target", "use a variable of its own")
        if self.stream.sees("."):
            raise self.stream.refuse("a part of a variable as a target", "use a variable of its own")
        if any(target.variable == variable for target in self.targets) and self.dialect is Dialect.MYSQL:
            raise self.stream.refuse("an assignment to the variable of a FOR", "use WHILE")
        if variable in self.constants:
            raise self.stream.malformed(f"an assignment to the constant '{token.value}'", "a variable")
        self.touched |= {variable} & self.required
        return variable

    def present(self, variables: set[str], place: Place) -> list[Step]:
        """What a variable that may not be null does after it was assigned to."""
        return [
            If(
                ((Is(Parameter(name, place), Truth.NULL), (Abort(Literal(f"{name} may not be null"), place),)),),
                (),
                place,
            )
            for name in sorted(variables)
        ]

    def variable_list(self) -> tuple[str, ...]:
        names = [self.variable()]
        while self.stream.accept(","):
            names.append(self.variable())
        return tuple(names)

    def rest(self) -> Text:
        return self.stream.until(";", optional=True)

    def finish(self) -> None:
        if not self.stream.ended:
            self.stream.expect(";")

    def outputs(self) -> tuple[Expression, ...]:
        return tuple(self.reference(name) for name in self.signature.outputs)

    def reference(self, name: str, place: Place | None = None) -> Expression:
        return Parameter(name, place) if name in self.variables else Name(name, None, place)

    def end(self, place: Place) -> Step:
        """What the end of the body does: a function has to return before."""
        if self.signature.returns is not None:
            return Abort(Literal("a function that ends without RETURN"), place)
        return Return(self.outputs(), place)

    def assign(self, variable: str, text: Text, steps: list[Step], place: Place) -> None:
        if called := self.called(text):
            steps.append(self.function_call(*called, (variable,), place))
            return
        stream = Stream(text, self.dialect)
        if any(token.word("ROW_COUNT") for token in stream.tokens):
            self.count(ROWS, steps)
        value = self.expression(text)
        # Of several assignments in one SET, a later one sees what those before it did.
        steps += [*self.before, Assign(variable, value, place)]
        self.before = []

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
        for part in parts:
            if any(
                token.symbol("=") and token.end < len(part.content) and part.content[token.end] == ">"
                for token in Stream(part, self.dialect).tokens
            ):
                raise part.refuse(0, "an argument by its name", "give all of them in order")
        self.unheard(self.signatures[name], place)
        rest = self.signatures[name].inputs[len(parts) :]
        given = [self.expression(part) for part in parts]
        return CallProcedure(
            name, (*given, *(local.default for local in rest if local.default is not None)), into, place
        )

    def unheard(self, called: Signature, place: Place) -> None:
        """Refuses a call after which MySQL goes on in a way that is not the callee's matter alone."""
        if called.swallows:
            what = f"a call of {called.name}, whose handler rolls back and goes on here"
            raise OutsideFragment(str(place), what, "RESIGNAL in the handler")
        if self.handler is not None and called.misses:
            what = f"a call of {called.name}, which leaves a missing row to the handler here"
            raise OutsideFragment(str(place), what, "give it a handler for NOT FOUND of its own")

    def count(self, variable: str, steps: list[Step]) -> None:
        """The number of rows of the statement before."""
        last = steps[-1] if steps else None
        if isinstance(last, Assign) and last.variable == FOUND and len(steps) > 1 and isinstance(steps[-2], Run):
            if variable != ROWS:
                steps.append(Assign(variable, Name(ROWS, None, last.place), last.place))
            return
        if isinstance(last, Fetch) and self.dialect is Dialect.POSTGRESQL and variable != ROWS:
            found = last.found or self.names.hidden("fetched")
            steps[-1] = replace(last, found=found)
            one = Case(None, (When(Parameter(found, last.place), Literal(1)),), Literal(0))
            steps.append(Assign(variable, one, last.place))
            return
        if not isinstance(last, Run) or last.count not in {None, variable}:
            raise self.stream.refuse("ROW_COUNT of no statement right before it", "ask right after the change")
        steps[-1] = replace(last, count=variable)

    def handled(self, steps: list[Step], place: Place) -> None:
        """What MySQL's NOT FOUND handler does after a fetch."""
        if self.handler is not None:
            steps.append(If(((self.missing(place), self.handler),), (), place))

    def missing(self, place: Place) -> Expression:
        return UnaryOperation(Unary.NOT, Parameter(self.found, place), place)

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
            self.found_one(steps, place)
            return
        statement = self.statement(blanked(text, begin - start, end - start))
        asked = self.found if self.handler is not None or self.mentions_found() else None
        keep = self.dialect is Dialect.MYSQL
        single = strict or keep or not isinstance(statement, Select)
        row = len(variables) == 1 and variables[0] in self.records
        steps.append(Fetch(statement, variables, strict, place, asked, row, keep, single))
        self.handled(steps, place)

    def found_one(self, steps: list[Step], place: Place) -> None:
        """A function that is called by a query gives one row."""
        if self.mentions_found():
            steps.append(Assign(FOUND, Literal(True, place), place))

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
            around, self.stream = self.stream, inside
            variables = self.variable_list()
            self.stream = around
            return token.start, tokens[inside.at - 1].end, variables, strict
        return None

    def run(self, text: Text, steps: list[Step], place: Place) -> None:
        statement = self.statement(text)
        if not self.mentions_found():
            steps.append(Run(statement, None, place))
            return
        steps.append(Run(statement, ROWS, place))
        more = BinaryOperation(Binary.GREATER, Name(ROWS, None, place), Literal(0, place), place)
        steps.append(Assign(FOUND, more, place))


def blanked(text: Text, start: int, end: int) -> Text:
    """The same text with a part of it as blanks, so that places stay."""
    first, last = text.offset + start, text.offset + end
    blank = "".join("\n" if character == "\n" else " " for character in text.whole[first:last])
    return replace(text, whole=text.whole[:first] + blank + text.whole[last:])
