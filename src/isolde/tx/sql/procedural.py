"""The procedural layer: PL/pgSQL, MySQL's and MariaDB's stored procedures, and a plain form with ``:variables``.

sqlglot stops at these; this is a parser of ours for what holds statements together. Every SQL statement inside goes to sqlglot,
with its place kept.

A block is read into steps. What differs between the dialects is said once, here: MySQL's variables hide columns (a name of a
variable becomes a ``Parameter``), PostgreSQL's ``FOUND`` and MySQL's ``NOT FOUND`` handlers become the ``found`` of a fetch,
``LEAVE`` of the outermost block is a return.
"""

from __future__ import annotations

from dataclasses import replace

from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Expression, Literal, Parameter
from isolde.tx.place import Place
from isolde.tx.procedures import (
    Abort,
    Assert,
    Assign,
    CallProcedure,
    CloseCursor,
    Cursor,
    FetchCursor,
    If,
    Leave,
    OpenCursor,
    Return,
    Step,
    While,
)
from isolde.tx.sql.control import Control, closing
from isolde.tx.sql.declarations import Declarations
from isolde.tx.sql.embedded import RESULT, ROWS, Signature, Target
from isolde.tx.sql.stream import Stream
from isolde.tx.sql.text import Kind, Text, Token


class Block(Control, Declarations):
    """The steps of one procedure being read."""

    def steps(self, *ends: str) -> tuple[Step, ...]:
        """Steps up to one of the words in ``ends``, which is not taken."""
        steps: list[Step] = []
        self.depth += 1
        if self.depth > 100:
            raise self.stream.refuse("so deeply nested blocks", "call another procedure")
        while not self.stream.ended and not any(self.stream.sees(end) for end in ends):
            if not self.stream.accept(";"):
                place = self.stream.place()
                self.touched = set()
                self.step(steps)
                steps += self.present(self.touched, place)
                self.touched = set()
        self.depth -= 1
        return tuple(steps)

    def step(self, steps: list[Step]) -> None:
        """One more step, after what it needs to have taken before."""
        outer, self.before = self.before, []
        at = len(steps)
        self.read_step(steps)
        steps[at:at] = self.before
        self.before = outer

    def read_step(self, steps: list[Step]) -> None:
        stream, place = self.stream, self.stream.place()
        label = self.label()
        token = stream.peek()
        word = token.text.upper() if token is not None and token.kind is Kind.WORD else ""
        following = stream.peek(1)
        part = stream.peek(3)
        if following is not None and following.symbol(".") and part is not None and part.symbol(":=", "="):
            self.variable()
        if following is not None and token is not None and following.symbol(":=", "=") and word not in {"SET"}:
            variable = self.variable()
            stream.next()
            self.assign(variable, self.rest(), steps, place)
            self.finish()
            return
        if self.plain and token is not None and token.kind is Kind.PARAMETER:
            self.variable()
            stream.fail("':='")
        match word:
            case "LOOP" | "WHILE" | "FOR" | "REPEAT":
                self.loop(label, steps, place)
            case "BEGIN" if not stream.sees("BEGIN", ";|TRANSACTION|WORK"):
                self.nested(label, steps, place)
            case "DECLARE" if self.dialect is Dialect.POSTGRESQL and not self.plain:
                self.nested(label, steps, place)
            case _ if label is not None:
                stream.fail("a loop or BEGIN after a label")
            case "IF":
                steps.append(self.branches(steps, place))
            case "CASE":
                steps.append(self.case(place))
            case "DECLARE":
                self.declare(steps)
            case "EXIT" | "LEAVE" | "CONTINUE" | "ITERATE":
                self.jump(word, steps, place)
            case "RETURN":
                stream.next()
                if stream.sees("QUERY|NEXT"):
                    raise stream.refuse("RETURN QUERY and RETURN NEXT", "select the rows in the caller")
                self.returned(steps, place)
            case "OPEN" | "FETCH" | "CLOSE" | "MOVE":
                self.cursor(word, steps, place)
            case "SET":
                self.set(steps, place)
            case "PERFORM" | "CALL":
                self.call(word, steps, place)
            case "GET":
                self.diagnostics(steps)
            case "RAISE" | "SIGNAL" | "RESIGNAL" | "ASSERT":
                self.complaint(word, steps, place)
            case "START" | "BEGIN" | "COMMIT" | "ROLLBACK" | "END":
                self.transaction(word, steps, place)
            case "NULL" if stream.sees("NULL", ";"):
                stream.next()
            case "EXCEPTION":
                raise stream.refuse("EXCEPTION of a block", "an error ends the transaction; leave it out")
            case "EXECUTE" | "PREPARE":
                raise stream.refuse("SQL made at run time", "write the statement")
            case "FOREACH":
                raise stream.refuse("FOREACH over an array", "loop over a query")
            case _:
                self.sql(steps, place)
        if word not in {"LOOP", "WHILE", "FOR", "REPEAT", "IF", "CASE", "BEGIN", "DECLARE"} or stream.sees(";"):
            self.finish()

    def returned(self, steps: list[Step], place: Place) -> None:
        if self.stream.ended or self.stream.sees(";"):
            steps += [*closing(self.targets), Return(self.outputs(), place)]
        elif self.signature.returns is None:
            steps.append(Return((self.expression(self.rest()),), place))
        else:
            self.assign(RESULT, self.rest(), steps, place)
            steps += closing(self.targets)
            steps.append(Return((Parameter(RESULT, place),), place))

    def label(self) -> str | None:
        stream = self.stream
        if stream.accept("<<"):
            label = stream.name("a label")
            stream.expect(">>")
            return label
        following = stream.peek(1)
        first = stream.peek()
        if (
            first is not None
            and first.kind in {Kind.WORD, Kind.QUOTED}
            and following is not None
            and following.symbol(":")
        ):
            stream.at += 2
            return first.value
        return None

    # -- control

    def branches(self, before: list[Step], place: Place) -> If:
        stream = self.stream
        stream.expect("IF")
        if stream.sees("ROW_COUNT", "(", ")"):
            self.count(ROWS, before)
        found: list[tuple[Expression, tuple[Step, ...]]] = []
        otherwise: tuple[Step, ...] = ()
        while True:
            condition = self.condition("THEN", counted=not found)
            stream.expect("THEN")
            found.append((condition, self.steps("ELSIF", "ELSEIF", "ELSE", "END")))
            if not stream.accept("ELSIF|ELSEIF"):
                break
        if stream.accept("ELSE"):
            otherwise = self.steps("END")
        stream.expect("END", "IF")
        return If(tuple(found), otherwise, place)

    def condition(self, *ends: str, counted: bool = False) -> Expression:
        """``counted``: ROW_COUNT() may come first in it, and has been taken from the statement before."""
        text = self.stream.until(*ends)
        tokens = Stream(text, self.dialect).tokens
        if any(token.word("ROW_COUNT") for token in (tokens[1:] if counted else tokens)):
            raise text.refuse(0, "ROW_COUNT() in a condition", "assign it to a variable right after the statement")
        return self.expression(text)

    def nested(self, label: str | None, steps: list[Step], place: Place) -> None:
        """A block inside of another: its variables begin anew each time that it is entered."""
        stream, handler = self.stream, (self.handler, self.handled_in)
        self.names.open(label)
        self.cursor_names.open()
        self.blocks += 1
        target = Target(label, loop=False)
        if label is not None:
            self.targets.append(target)
        inside: list[Step] = []
        if self.dialect is Dialect.POSTGRESQL and stream.accept("DECLARE"):
            self.declarations(inside)
        stream.expect("BEGIN")
        inside += self.steps("END", "EXCEPTION")
        if stream.sees("EXCEPTION"):
            raise stream.refuse("EXCEPTION of a block", "an error ends the transaction; leave it out")
        stream.expect("END")
        self.trailing(label)
        if label is not None:
            self.targets.pop()
        self.blocks -= 1
        self.cursor_names.close()
        self.names.close()
        self.handler, self.handled_in = handler
        steps += self.enclosed(label, inside, target, place)

    def loop(self, label: str | None, steps: list[Step], place: Place) -> None:
        stream = self.stream
        word = stream.next().text.upper()
        target = Target(label, loop=True)
        self.targets.append(target)
        if word == "LOOP":
            steps.append(While(Literal(True, place), self.body("LOOP", label), target.label, place))
        elif word == "REPEAT":
            body = self.steps("UNTIL")
            stream.expect("UNTIL")
            done = self.condition("END")
            stream.expect("END", "REPEAT")
            self.trailing(label)
            last = If(((done, (Leave(label, place),)),), (), place)
            steps.append(While(Literal(True, place), (*body, *self.before, last), target.label, place))
            self.before = []
        elif word == "WHILE":
            at = stream.at
            self.lifts_nothing(stream.until("LOOP", "DO"), "the condition of WHILE")
            stream.at = at
            condition = self.condition("LOOP", "DO")
            stream.expect("LOOP|DO")
            steps.append(While(condition, self.body("LOOP|WHILE", label), target.label, place))
        else:
            self.for_loop(target, steps, place)
        self.targets.pop()

    # -- what a database does

    def set(self, steps: list[Step], place: Place) -> None:
        stream = self.stream
        stream.expect("SET")
        if stream.sees("TRANSACTION|SESSION|GLOBAL|LOCAL|AUTOCOMMIT|NAMES"):
            raise stream.refuse("a setting of the session", "levels are chosen where the procedure is run")
        while True:
            variable = self.variable()
            if not stream.accept("=|:="):
                stream.fail("'='")
            self.assign(variable, stream.until(",", ";", optional=True), steps, place)
            if not stream.accept(","):
                return

    def diagnostics(self, steps: list[Step]) -> None:
        stream = self.stream
        stream.expect("GET")
        stream.accept("CURRENT")
        stream.expect("DIAGNOSTICS")
        variable = self.variable()
        stream.expect("=|:=")
        if not stream.accept("ROW_COUNT"):
            raise stream.refuse("diagnostics other than ROW_COUNT")
        if stream.sees(","):
            raise stream.refuse("several diagnostics at once", "ask for one")
        self.count(variable, steps)

    def call(self, word: str, steps: list[Step], place: Place) -> None:
        stream = self.stream
        stream.expect(word)
        start = stream.position
        text = self.rest()
        called = self.called(text)
        if word == "PERFORM" and called is None:
            # PERFORM is SELECT without the word.
            end = text.offset + len(text.content)
            opening = text.offset - len("PERFORM ") if text.offset >= len("PERFORM ") else text.offset
            whole = text.whole[:opening] + "SELECT".ljust(text.offset - opening) + text.whole[text.offset :]
            self.run(replace(text, whole=whole, offset=opening, end=end), steps, place)
            return
        if called is None:
            raise stream.text.refuse(
                start, f"the call of {text.content.split('(')[0].strip()}", "the program must define it"
            )
        name, parts = called
        steps.append(self.procedure_call(self.signatures[name], parts, text, place))
        if word == "PERFORM":
            self.found_one(steps, place)

    def procedure_call(self, signature: Signature, parts: list[Text], text: Text, place: Place) -> CallProcedure:
        if len(parts) == len(signature.inputs) and not signature.outputs:
            return self.function_call(signature.name, parts, (), place)
        if len(parts) != len(signature.order):
            raise text.malformed(0, f"{len(parts)} arguments", f"{len(signature.order)} arguments")
        self.unheard(signature, place)
        inputs: list[Expression] = []
        into: list[str] = []
        for part, (_, goes_in, comes_out) in zip(parts, signature.order, strict=True):
            if goes_in:
                inputs.append(self.expression(part))
            if comes_out:
                into.append(self.names.variable(Stream(part, self.dialect).variable_or_fail()))
                self.touched |= {into[-1]} & self.required
        return CallProcedure(signature.name, tuple(inputs), tuple(into), place)

    def complaint(self, word: str, steps: list[Step], place: Place) -> None:
        stream = self.stream
        stream.expect(word)
        if word == "ASSERT":
            condition = self.expression(stream.until(",", ";", optional=True))
            message = ""
            if stream.accept(","):
                said = self.expression(self.rest())
                message = str(said.value) if isinstance(said, Literal) else ""
            steps.append(Assert(condition, message, place))
            return
        if word == "RAISE" and stream.accept("NOTICE|INFO|WARNING|LOG|DEBUG"):
            self.rest()
            return
        reason: Token | None = None
        while not stream.ended and not stream.sees(";"):
            token = stream.next()
            state = stream.tokens[stream.at - 2].word("SQLSTATE", "VALUE")
            if word == "SIGNAL" and state and token.value[:2] in {"00", "01", "02"}:
                raise stream.refuse("SIGNAL of a warning", "use a SQLSTATE that is an error: '45000'")
            if token.kind is Kind.STRING and reason is None and not state:
                reason = token
        steps.append(Abort(Literal(reason.value, place) if reason else None, place))

    def transaction(self, word: str, steps: list[Step], place: Place) -> None:
        """Begin and end of the transaction, which the procedure is anyway."""
        stream = self.stream
        start = stream.at
        text = self.rest().content.upper().split()
        if word in {"COMMIT", "ROLLBACK"} and len(text) > 1 and text[1] not in {"WORK", "TRANSACTION"}:
            stream.at = start
            what = f"{word} TO a savepoint" if text[1] == "TO" else f"{' '.join(text[:3])}"
            raise stream.refuse(what, f"a procedure is one transaction; write {word}")
        if word == "ROLLBACK":
            abort = Abort(None, place)
            # The plain form is ours: a ROLLBACK there is the end of it.
            steps.append(abort if self.plain else self.endings.rollback(abort))
        elif word == "COMMIT":
            steps.append(self.endings.commit(Assign("commit__", Literal(True, place), place)))
        elif word == "END":
            stream.fail("a statement")
        elif any(not isinstance(step, Assign) for step in steps) or self.depth > 1:
            raise stream.refuse("a transaction's begin inside of a procedure", "use one procedure a transaction")

    def cursor(self, word: str, steps: list[Step], place: Place) -> None:
        stream = self.stream
        stream.expect(word)
        if word == "MOVE":
            raise stream.refuse("MOVE of a cursor", "fetch the rows")
        if word == "FETCH":
            if stream.sees("FIRST|LAST|PRIOR|ABSOLUTE|RELATIVE|BACKWARD"):
                raise stream.refuse("a cursor that goes back", "open it again")
            stream.accept("NEXT") or stream.accept("FORWARD")
            stream.accept("FROM") or stream.accept("IN")
        name = self.cursor_names.variable(stream.name("a cursor"))
        if word == "OPEN":
            if stream.accept("FOR"):
                if any(cursor.name == name for cursor in self.cursors):
                    raise stream.refuse("a cursor that is opened for two queries", "use two cursors")
                self.cursors.append(Cursor(name, self.query(self.rest()), private=True))
            steps.append(OpenCursor(name, place))
        elif word == "CLOSE":
            steps.append(CloseCursor(name, place))
        if all(cursor.name != name for cursor in self.cursors):
            raise stream.malformed(f"the cursor '{name}'", "a cursor that is declared")
        if word == "FETCH":
            stream.expect("INTO")
            steps.append(FetchCursor(name, self.variable_list(), self.found, place))
            if self.dialect is Dialect.MYSQL and self.handler is None:
                steps.append(If(((self.missing(place), (Abort(Literal("no more rows"), place),)),), (), place))
            self.handled(steps, place)
