"""What procedures declare: variables, cursors, and handlers.

PL/pgSQL has a section for it, MySQL a statement each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Literal
from isolde.tx.procedures import Abort, Assign, CloseCursor, Cursor, Local, Step
from isolde.tx.schema import Type
from isolde.tx.sql.embedded import Embedded
from isolde.tx.sql.stream import Stream
from isolde.tx.sql.types import read_column_type


class Declarations(Embedded, ABC):
    """What of a block needs no more of it than one step: that of a handler."""

    @abstractmethod
    def step(self, steps: list[Step]) -> None:
        """One more step, after what it needs to have taken before."""

    def declare(self, steps: list[Step]) -> None:
        """MySQL's DECLARE, one a statement."""
        stream = self.stream
        stream.expect("DECLARE")
        if stream.sees("CONTINUE|EXIT|UNDO", "HANDLER"):
            self.handle()
            return
        names = [stream.name()]
        while stream.accept(","):
            names.append(stream.name())
        if stream.sees("CONDITION"):
            raise stream.refuse("a condition of one's own", "use SQLSTATE")
        if stream.accept("CURSOR"):
            stream.expect("FOR")
            query = self.query(self.rest())
            self.cursors.append(Cursor(self.cursor_names.declare(names[0]), query))
            if self.blocks:
                # The end of the block has closed it, whichever way it was left.
                steps.append(CloseCursor(self.cursors[-1].name, if_open=True))
        else:
            self.local(names, steps)
        self.finish()

    def declarations(self, steps: list[Step]) -> None:
        """PL/pgSQL's section between DECLARE and BEGIN."""
        stream = self.stream
        while not stream.sees("BEGIN"):
            if stream.accept("DECLARE"):
                continue
            name = stream.name("a variable or BEGIN")
            if stream.sees("ALIAS"):
                raise stream.refuse("ALIAS", "use the name itself")
            if stream.accept("NO", "SCROLL", "CURSOR") or stream.accept("SCROLL", "CURSOR") or stream.accept("CURSOR"):
                if stream.sees("("):
                    raise stream.refuse("a cursor with parameters", "use variables in its query")
                stream.expect("FOR|IS")
                query = self.query(self.rest())
                self.cursors.append(Cursor(self.cursor_names.declare(name), query))
            elif stream.accept("REFCURSOR"):
                self.cursor_names.declare(name)
            else:
                constant = stream.accept("CONSTANT")
                self.local([name], steps)
                if constant:
                    self.constants.add(self.names.variable(name))
            stream.expect(";")

    def local(self, names: list[str], steps: list[Step]) -> None:
        stream, place = self.stream, self.stream.place()
        first = stream.at
        type_, record = self.type()
        bare = self.dialect is Dialect.POSTGRESQL and stream.tokens[first].word("RECORD")
        required = stream.accept("NOT", "NULL")
        # The default is read first: a name in it that is declared here means the one outside.
        default = None
        if stream.accept("DEFAULT|:=|="):
            text = self.rest()
            self.lifts_nothing(text, "a declaration")
            default = self.expression(text)
        for name in names:
            variable = self.names.declare(name)
            if record:
                self.records.add(variable)
                self.bare |= {variable} if bare else set()
            self.locals.append(Local(variable, type_, None if self.blocks else default, record=bare))
            if self.blocks and (bare or not record):
                steps.append(Assign(variable, default or Literal(None, place), place))
            if required:
                self.required.add(variable)
                steps += self.present({variable}, place)

    def type(self) -> tuple[Type | None, bool]:
        """The type that comes next, and whether it is that of a row; ``None`` for one that no table here tells."""
        stream = self.stream
        first = stream.at
        found = read_type(stream, self.dialect)
        words = stream.tokens[first : stream.at]
        if found is not None:
            return found, False
        if any(word.word("RECORD", "ROWTYPE", "ROW") for word in words):
            return None, True
        path = [word.value for word in words if word.value and not word.word("TYPE", "OF")]
        if len(path) == 1:
            named = self.names.variable(path[0])
            return next(
                (local.type for local in (*self.signature.inputs, *self.locals) if local.name == named), None
            ), False
        table = self.schema.tables.get(path[0])
        return next((c.type for c in table.columns if c.name == path[1]), None) if table else None, False

    def handle(self) -> None:
        """``DECLARE … HANDLER``: NOT FOUND that goes on, or an error that rolls back."""
        stream = self.stream
        goes_on = stream.next().word("CONTINUE")
        stream.expect("HANDLER", "FOR")
        conditions = stream.next().text.upper()
        if conditions == "NOT":
            stream.expect("FOUND")
        elif conditions == "SQLSTATE":
            stream.accept("VALUE")
            conditions = "NOT" if stream.next().value == "02000" else "SQLSTATE"
        if stream.sees(","):
            raise stream.refuse("a handler of several conditions", "use one handler a condition")
        if conditions == "SQLEXCEPTION" and self.blocks:
            raise stream.refuse("a handler for errors of an inner block", "an error ends the transaction; leave it out")
        steps: list[Step] = []
        self.step(steps)
        if conditions == "NOT" and goes_on:
            if self.handled_in == self.blocks:
                raise stream.refuse("a second handler for NOT FOUND", "use one")
            self.handler, self.handled_in = tuple(steps), self.blocks
        elif not (conditions == "SQLEXCEPTION" and steps and all(isinstance(step, Abort) for step in steps)):
            raise stream.refuse("this handler", "CONTINUE … FOR NOT FOUND, or EXIT … FOR SQLEXCEPTION with ROLLBACK")


def read_type(stream: Stream, dialect: Dialect) -> Type | None:
    """A type up to a default or the end; ``None`` for a row or "the type of that column", which the language does not check."""
    start, first = stream.position, stream.at
    while not stream.ended and not stream.sees(";|,|DEFAULT|:=|=|NOT|COLLATE|CHARACTER"):
        if stream.sees("("):
            stream.parenthesis()
        else:
            stream.at += 1
    if stream.at == first:
        stream.fail("a type")
    words = stream.tokens[first : stream.at]
    if words[0].word("RECORD", "ROW", "TYPE") or any(word.word("TYPE", "ROWTYPE") for word in words[1:]):
        return None
    return read_column_type(stream.text.slice(start, words[-1].end), dialect)
