"""Control flow of procedures: cases, blocks, FOR, and jumps.

A block whose label is left, and a FOR that goes down or in larger steps, are loops of the language: the nodes stay few.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

from isolde.tx.dialects import Dialect
from isolde.tx.expressions import (
    Binary,
    BinaryOperation,
    Cast,
    Expression,
    Is,
    Literal,
    Parameter,
    Truth,
    Unary,
    UnaryOperation,
)
from isolde.tx.place import Place
from isolde.tx.procedures import (
    Abort,
    Again,
    Assign,
    CloseCursor,
    Cursor,
    ForEach,
    ForRange,
    If,
    Leave,
    Local,
    OpenCursor,
    Step,
    While,
)
from isolde.tx.schema import BIGINT, BOOLEAN, INTEGER, TEXT
from isolde.tx.sql.embedded import FOUND, Embedded, Target
from isolde.tx.sql.stream import Stream
from isolde.tx.sql.text import Text, Token


class Control(Embedded, ABC):
    """What of a block needs no more of it than its steps."""

    @abstractmethod
    def steps(self, *ends: str) -> tuple[Step, ...]:
        """The steps up to one of these words, or to the end."""

    def body(self, word: str, label: str | None) -> tuple[Step, ...]:
        steps = self.steps("END")
        self.stream.expect("END", word)
        self.trailing(label)
        return steps

    def trailing(self, label: str | None) -> None:
        token = self.stream.peek()
        if label is not None and token is not None and token.value == label:
            self.stream.next()

    def case(self, place: Place) -> If:
        stream = self.stream
        stream.expect("CASE")
        operand = None if stream.sees("WHEN") else self.stream.until("WHEN")
        found: list[tuple[Expression, tuple[Step, ...]]] = []
        while stream.accept("WHEN"):
            conditions = [self.chosen(operand, text) for text in listed(stream.until("THEN"), self.dialect)]
            condition = conditions[0]
            for other in conditions[1:]:
                condition = BinaryOperation(Binary.OR, condition, other, condition.place)
            stream.expect("THEN")
            found.append((condition, self.steps("WHEN", "ELSE", "END")))
        if not found:
            stream.fail("WHEN")
        # Without an ELSE, a case that is not found is an error in both dialects, which ends the transaction.
        otherwise: tuple[Step, ...] = (Abort(Literal("case not found"), place),)
        if stream.accept("ELSE"):
            otherwise = self.steps("END")
        stream.expect("END", "CASE")
        return If(tuple(found), otherwise, place)

    def chosen(self, operand: Text | None, text: Text) -> Expression:
        condition = self.expression(text)
        if operand is None:
            return condition
        value = self.expression(operand)
        if self.dialect is Dialect.POSTGRESQL and isinstance(value, Literal) and isinstance(value.value, str | None):
            # The operand is put into a variable, and what has no type is a text there.
            value = Cast(value, TEXT, value.place)
        return BinaryOperation(Binary.EQUAL, value, condition, condition.place)

    def enclosed(self, label: str | None, steps: Sequence[Step], target: Target, place: Place) -> tuple[Step, ...]:
        """The steps of a block with a label, so that a jump can leave them."""
        if not target.used:
            return tuple(steps)
        return (While(Literal(True, place), (*steps, Leave(label, place)), label, place),)

    # -- FOR

    def for_loop(self, target: Target, steps: list[Step], place: Place) -> None:
        stream = self.stream
        written = [stream.next().value]
        while stream.accept(","):
            written.append(stream.next().value)
        if not all(written):
            stream.fail("a variable")
        stream.expect("IN")
        down = stream.accept("REVERSE")
        text = stream.until("LOOP", "DO")
        stream.expect("LOOP|DO")
        emptied = self.emptied(written, text, stream.at)
        self.names.open(target.label)
        target.counts = self.mentions_found()
        looped = self.names.hidden("looped") if target.counts or emptied else ""
        if looped:
            self.locals.append(Local(looped, BOOLEAN))
            steps.append(Assign(looped, Literal(False, place), place))
        mark = (Assign(looped, Literal(True, place), place),) if looped else ()
        if (dots := places(text, self.dialect, "..")) and not text.content.lstrip().upper().startswith("SELECT"):
            if len(written) > 1 or len(dots) > 1:
                raise text.malformed(dots[-1], "'..'", "one variable and two bounds")
            self.range_loop(written[0], text, dots[0], down, mark, target, steps, place)
        elif down:
            raise text.refuse(0, "rows in reverse", "use ORDER BY … DESC")
        else:
            self.rows_loop(tuple(written), text, mark, target, steps, place)
            if emptied:
                nulls = tuple(Assign(name, Literal(None, place), place) for name in emptied)
                none = UnaryOperation(Unary.NOT, Parameter(looped, place), place)
                steps.append(If(((none, nulls),), (), place))
        self.names.close()
        if target.counts:
            steps.append(Assign(FOUND, Parameter(looped, place), place))

    def emptied(self, written: list[str], text: Text, start: int) -> tuple[str, ...]:
        """Targets of PostgreSQL's FOR over rows that are looked at elsewhere: they are null after a loop without a row."""
        if (
            self.dialect is not Dialect.POSTGRESQL
            or self.plain
            or places(text, self.dialect, "..")
            or self.cursor_of(text)
        ):
            return ()
        given = {name for name, _, _ in self.signature.order}
        tokens = self.stream.tokens
        seen = [token.value for token in (*tokens[:start], *tokens[loop_end(tokens, start) :])]
        # Its name before IN and in its declaration are two.
        used = [name for name in written if name in given or seen.count(name) > 2]
        variables = () if self.private(written, start) else tuple(self.names.variable(name) for name in used)
        # A loop without a row gives a record null columns, not none.
        return tuple(name for name in variables if name not in self.bare)

    def private(self, written: list[str], start: int) -> bool:
        """Whether a row of PostgreSQL's FOR is named in such loops only, beside each other: each may have a row of its own."""
        if len(written) != 1 or self.names.variable(written[0]) not in self.records or self.plain:
            return False
        tokens, name = self.stream.tokens, written[0]
        spans = []
        for at, token in enumerate(tokens[:-2]):
            if token.word("FOR") and tokens[at + 1].value == name and tokens[at + 2].word("IN"):
                opening = next((i for i in range(at, len(tokens)) if tokens[i].word("LOOP")), len(tokens))
                spans.append((at, loop_end(tokens, opening + 1)))
        around = [first for first, last in spans if first < start <= last]
        outside = [
            at for at, token in enumerate(tokens) if token.value == name and not any(f <= at < t for f, t in spans)
        ]
        return len(spans) > 1 and len(around) == 1 and len(outside) == 1

    def rows_loop(
        self,
        written: tuple[str, ...],
        text: Text,
        mark: tuple[Step, ...],
        target: Target,
        steps: list[Step],
        place: Place,
    ) -> None:
        cursor = self.cursor_of(text)
        rows = cursor.query if cursor is not None else self.statement(text)
        # MariaDB's FOR, and PostgreSQL's over a cursor, declare the row themselves.
        mysql = self.dialect is Dialect.MYSQL and (cursor is not None or text.content.lstrip().startswith("("))
        if cursor is not None:
            target.cursor = cursor.name
            steps.append(OpenCursor(cursor.name, place))
        own = mysql or (cursor is not None and self.dialect is Dialect.POSTGRESQL)
        if len(written) == 1 and (own or self.private(list(written), self.stream.at)):
            variables: tuple[str, ...] = (self.names.declare(written[0]),)
            self.records.add(variables[0])
        else:
            variables = tuple(self.names.variable(name) for name in written)
        if self.required.intersection(variables):
            raise text.refuse(0, "rows into a variable that may not be null", "leave NOT NULL out")
        row = len(variables) == 1 and variables[0] in self.records
        body = self.body("LOOP|FOR", target.label)
        steps.append(ForEach(variables, rows, (*mark, *body), target.label, place, row))
        if cursor is not None:
            steps.append(CloseCursor(cursor.name, place, if_open=True))

    def cursor_of(self, text: Text) -> Cursor | None:
        known = self.cursor_names.variable(text.content.strip().lower())
        return next((cursor for cursor in self.cursors if cursor.name == known), None)

    def range_loop(
        self,
        written: str,
        text: Text,
        dots: int,
        down: bool,
        mark: tuple[Step, ...],
        target: Target,
        steps: list[Step],
        place: Place,
    ) -> None:
        by = places(text, self.dialect, "BY")
        end = by[0] if by else len(text.content)
        if not text.content[:dots].strip() or not text.content[dots + 2 : end].strip():
            raise text.malformed(dots, "'..'", "a number on both sides")
        first, last = self.expression(text.slice(0, dots)), self.expression(text.slice(dots + 2, end))
        step = self.expression(text.slice(end + 2, len(text.content))) if by else Literal(1, place)
        if down and self.dialect is Dialect.MYSQL:
            first, last = last, first
        variable = written if self.plain else self.names.declare(written)
        target.variable = None if self.plain else variable
        if not self.plain:
            self.locals.append(Local(variable, INTEGER if self.dialect is Dialect.POSTGRESQL else BIGINT))
        if not down and not by:
            body = self.body("LOOP|FOR", target.label)
            steps.append(ForRange(variable, first, last, (*mark, *body), target.label, place))
            return
        names = {what: self.names.hidden(what) for what in ("next", "last", "by")}
        self.locals += [Local(name, None if self.plain else BIGINT) for name in names.values()]
        upcoming, bound, width = (Parameter(name, place) for name in names.values())
        for name, value in zip(names.values(), (first, last, step), strict=True):
            steps.append(Assign(name, value, place))
        wrong: Expression = BinaryOperation(Binary.LESS_EQUAL, width, Literal(0, place), place)
        for part in (upcoming, bound, width):
            wrong = BinaryOperation(Binary.OR, wrong, Is(part, Truth.NULL, False, place), place)
        steps.append(If(((wrong, (Abort(Literal("the bounds of a loop"), place),)),), (), place))
        goes_on = BinaryOperation(Binary.GREATER_EQUAL if down else Binary.LESS_EQUAL, upcoming, bound, place)
        moved = BinaryOperation(Binary.SUBTRACT if down else Binary.ADD, upcoming, width, place)
        advance = (Assign(variable, upcoming, place), Assign(names["next"], moved, place))
        body = self.body("LOOP|FOR", target.label)
        steps.append(While(goes_on, (*advance, *mark, *body), target.label, place))

    # -- jumps

    def jump(self, word: str, steps: list[Step], place: Place) -> None:
        stream = self.stream
        stream.next()
        label = None if stream.ended or stream.sees(";|WHEN") else stream.name("a label")
        taken = (*self.passed(label), self.jumped(word, label, place))
        if stream.accept("WHEN"):
            taken = (If(((self.expression(self.rest()), taken),), (), place),)
        steps += taken

    def jumped(self, word: str, label: str | None, place: Place) -> Step:
        leaves = word in {"EXIT", "LEAVE"}
        target = self.target(label)
        if target is None:
            if label is None:
                raise self.stream.malformed(f"{word} outside of a loop", "a loop around it")
            if label != self.outermost or not leaves:
                raise self.stream.malformed(f"the label '{label}'", "a label of a loop around it")
            return self.end(place)
        if not leaves and not target.loop:
            raise self.stream.malformed(f"the label '{label}'", "a label of a loop around it")
        target.used = True
        if label is None and target is not self.targets[-1]:
            # A block in between may have become a loop, which an unnamed jump would mean.
            target.label = target.label or self.names.hidden("loop")
            label = target.label
        return Leave(label, place) if leaves else Again(label, place)

    def target(self, label: str | None) -> Target | None:
        matching = (t for t in reversed(self.targets) if (t.loop if label is None else t.label == label))
        return next(matching, None)

    def passed(self, label: str | None) -> tuple[Step, ...]:
        """What each FOR does that a jump passes on its way out: it sets FOUND, for it has had a round, and closes its cursor."""
        target = self.target(label)
        places = [place for place, one in enumerate(self.targets) if one is target]
        inner = self.targets[places[0] + 1 :] if places else self.targets
        found = (Assign(FOUND, Literal(True)),) if any(passed.counts for passed in inner) else ()
        return (*found, *closing(inner))


def closing(targets: Sequence[Target]) -> tuple[Step, ...]:
    return tuple(CloseCursor(target.cursor, if_open=True) for target in targets if target.cursor is not None)


def loop_end(tokens: Sequence[Token], start: int) -> int:
    """Where the loop ends whose body begins at ``start``."""
    depth = 1
    for at in range(start, len(tokens)):
        if tokens[at].word("LOOP"):
            depth += -1 if tokens[at - 1].word("END") else 1
        if depth == 0:
            return at + 1
    return len(tokens)


def places(text: Text, dialect: Dialect, word: str) -> list[int]:
    """Where a word or symbol stands outside of parentheses."""
    found, depth = [], 0
    for token in Stream(text, dialect).tokens:
        depth += token.symbol("(") - token.symbol(")")
        if depth == 0 and (token.symbol(word) or token.word(word)):
            found.append(token.start)
    return found


def listed(text: Text, dialect: Dialect) -> list[Text]:
    """The parts between commas."""
    cuts = [-1, *places(text, dialect, ","), len(text.content)]
    return [text.slice(start + 1, end) for start, end in pairwise(cuts)]
