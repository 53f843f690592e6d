"""Stored procedures and functions: their heads, and where their bodies are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from isolde.tx.dialects import Dialect
from isolde.tx.place import Place
from isolde.tx.procedures import Local, Procedure, Return, Step
from isolde.tx.schema import Schema, Type
from isolde.tx.sql.declarations import read_type
from isolde.tx.sql.embedded import Signature
from isolde.tx.sql.procedural import Block
from isolde.tx.sql.statements import read_expression
from isolde.tx.sql.stream import Stream
from isolde.tx.sql.text import Kind, Text, Token
from isolde.tx.sql.types import read_column_type


@dataclass(frozen=True)
class Routine:
    """A head that was read; ``body`` is still text, because it may call routines that come later."""

    signature: Signature
    outs: tuple[Local, ...]
    body: Text
    place: Place


def begins_routine(stream: Stream) -> bool:
    """Whether ``CREATE [OR REPLACE] [DEFINER = …] PROCEDURE|FUNCTION`` comes next."""
    if not stream.sees("CREATE"):
        return False
    for ahead in range(1, 12):
        token = stream.peek(ahead)
        if token is None or token.symbol(";", "("):
            return False
        if token.word("PROCEDURE", "FUNCTION"):
            return True
    return False


def read_routine(stream: Stream) -> Routine:
    place = stream.place()
    while not stream.accept("PROCEDURE|FUNCTION"):
        stream.next()
    stream.accept("IF", "NOT", "EXISTS")
    name = stream.name("the procedure's name")
    if stream.sees("."):
        raise stream.refuse("a name with a schema", "leave the schema out")
    signature, outs = _signature(name, stream.parenthesis(), stream.dialect)
    returns = _returns(stream)
    body = _dollar_body(stream) if stream.dialect is Dialect.POSTGRESQL else _plain_body(stream)
    return Routine(replace(signature, returns=None if outs else returns), outs, body, place)


def _returns(stream: Stream) -> Type | None:
    """The type after RETURNS, if it comes next and is one of a value."""
    postgresql = stream.dialect is Dialect.POSTGRESQL
    if not stream.sees("RETURNS") or (postgresql and stream.sees("RETURNS", "TABLE|SETOF|TRIGGER|VOID|RECORD")):
        return None
    stream.expect("RETURNS")
    first = stream.at
    while (token := stream.peek()) is not None and not (
        token.kind in {Kind.DOLLAR, Kind.STRING} or token.word(*_AFTER_TYPE) or token.symbol(";")
    ):
        following = stream.peek(1)
        if following is not None and following.symbol(":"):
            break
        stream.next()
    if stream.at == first:
        stream.fail("a type")
    found = read_column_type(
        stream.text.slice(stream.tokens[first].start, stream.tokens[stream.at - 1].end), stream.dialect
    )
    while stream.sees("CHARSET|CHARACTER|SET|COLLATE"):
        stream.at += 2
    return _sizeless(found) if postgresql else found


def _sizeless(type_: Type | None) -> Type | None:
    """PostgreSQL forgets how long or precise a parameter or a result is declared to be."""
    return replace(type_, length=None, precision=None, scale=None) if type_ is not None else None


def _signature(name: str, parts: list[Text], dialect: Dialect) -> tuple[Signature, tuple[Local, ...]]:
    inputs: list[Local] = []
    outs: list[Local] = []
    outputs: list[str] = []
    order: list[tuple[str, bool, bool]] = []
    for part in parts:
        stream = Stream(part, dialect)
        mode = "IN"
        for word in ("INOUT", "OUT", "IN", "VARIADIC"):
            if (
                stream.sees(word)
                and len(stream.tokens) > 2
                and stream.peek(1)
                and stream.tokens[1].kind is not Kind.SYMBOL
            ):
                mode = word
                stream.next()
                break
        if mode == "VARIADIC":
            raise part.refuse(0, "VARIADIC", "use a fixed number of parameters")
        if stream.peek(1) is None:
            raise part.refuse(0, "a parameter without a name", "give it one")
        parameter = stream.name("a parameter")
        type_ = read_type(stream, dialect)
        default = read_expression(stream.until(";", optional=True), dialect) if stream.accept("DEFAULT|=|:=") else None
        if not stream.ended:
            stream.fail("the end of the parameter")
        local = Local(parameter, _sizeless(type_) if dialect is Dialect.POSTGRESQL else type_, default)
        order.append((parameter, mode != "OUT", mode != "IN"))
        if mode != "OUT":
            inputs.append(local)
        else:
            outs.append(local)
        if mode != "IN":
            outputs.append(parameter)
    return Signature(name, tuple(inputs), tuple(outputs), tuple(order)), tuple(outs)


def _dollar_body(stream: Stream) -> Text:
    language, body = "", None
    while not stream.ended and not stream.sees(";"):
        if stream.accept("LANGUAGE"):
            token = stream.next()
            language = (token.value or token.text).lower()
            continue
        if stream.sees("RETURNS", "TABLE|SETOF|TRIGGER"):
            raise stream.refuse("a function that returns rows, and a trigger", "return values")
        if stream.sees("BEGIN", "ATOMIC"):
            raise stream.refuse("BEGIN ATOMIC", "write the body in $$, in plpgsql")
        if stream.sees("STRICT") or stream.sees("RETURNS", "NULL"):
            raise stream.refuse("a function that is not called for a null", "test for the null in its body")
        token = stream.next()
        if token.kind in {Kind.DOLLAR, Kind.STRING}:
            body = token
    if body is None:
        stream.fail("AS $$ … $$")
    if language != "plpgsql":
        raise stream.refuse(f"a procedure in the language '{language or 'sql'}'", "use LANGUAGE plpgsql")
    return _inside(body, stream)


def _inside(token: Token, stream: Stream) -> Text:
    if token.kind is Kind.STRING:
        raise stream.text.refuse(token.start, "a body in quotes", "write it in $$")
    quote = (len(token.text) - len(token.value)) // 2
    return stream.text.slice(token.start + quote, token.end - quote)


_CHARACTERISTICS = {
    "NOT",
    "DETERMINISTIC",
    "READS",
    "MODIFIES",
    "SQL",
    "DATA",
    "CONTAINS",
    "NO",
    "LANGUAGE",
    "SECURITY",
    "INVOKER",
}
_AFTER_TYPE = {
    *_CHARACTERISTICS,
    *("AS", "BEGIN", "RETURN", "DEFINER", "COMMENT", "CHARSET", "CHARACTER", "COLLATE"),
    *("RETURNS", "IMMUTABLE", "STABLE", "VOLATILE", "STRICT", "CALLED", "PARALLEL", "COST", "WINDOW", "LEAKPROOF"),
}
_OPENERS = {"IF", "CASE", "LOOP", "WHILE", "REPEAT", "FOR", "BEGIN"}


def _plain_body(stream: Stream) -> Text:
    """The text of a body that begins with BEGIN, up to its END; or of a single statement."""
    while (token := stream.peek()) is not None and (
        token.word(*_CHARACTERISTICS, "DEFINER", "COMMENT") or token.kind is Kind.STRING
    ):
        stream.next()
    start = stream.position
    labelled = stream.peek(1) is not None and stream.tokens[stream.at + 1].symbol(":")
    opening = stream.peek(2 if labelled else 0)
    if opening is None or not opening.word("BEGIN"):
        return stream.until(";", optional=True)
    stream.at += 3 if labelled else 1
    depth = 1
    while True:
        token = stream.next()
        if token.word("END"):
            depth -= 1
            if depth == 0:
                end = token.end
                if labelled and not stream.ended and not stream.sees(";"):
                    end = stream.next().end
                return stream.text.slice(start, end)
            following = stream.peek()
            if following is not None and following.word(*_OPENERS):
                stream.next()
        elif token.word(*_OPENERS) and _opens(token, stream):
            depth += 1


def _opens(token: Token, stream: Stream) -> bool:
    """IF(…), REPEAT(…) and ``FOR UPDATE`` are no blocks: a word that opens one stands where a statement or expression begins."""
    before, after = stream.tokens[stream.at - 2], stream.peek()
    if token.word("CASE"):
        return True
    begins = before.symbol(";", ":") or before.word(
        "BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT", "FOUND", "SQLEXCEPTION"
    )
    if token.word("LOOP", "REPEAT", "BEGIN"):
        return begins or (before.kind is Kind.STRING and token.word("BEGIN"))
    return begins and after is not None and (not token.word("IF") or _has_then(stream))


def _has_then(stream: Stream) -> bool:
    """An IF statement has its THEN before a semicolon; a function IF(…) has commas, even where a THEN of a CASE comes later."""
    ahead, depth, first = 0, 0, stream.sees("(")
    while (token := stream.peek(ahead)) is not None and not token.symbol(";"):
        depth += token.symbol("(") - token.symbol(")")
        first = first and (depth > 0 or ahead == 0)
        if first and depth == 1 and token.symbol(","):
            return False
        if token.word("THEN"):
            return True
        ahead += 1
    return False


def signatures_of(routines: list[Routine], dialect: Dialect) -> dict[str, Signature]:
    """What calls must know. Whether a routine may miss a row is read off its text, before any body is."""
    found = {routine.signature.name: routine.signature for routine in routines}
    if dialect is not Dialect.MYSQL:
        return found
    words = {routine.signature.name: Stream(routine.body, dialect).tokens for routine in routines}
    missing = {name for name, tokens in words.items() if _misses(tokens)}
    for _ in routines:
        missing |= {
            name
            for name, tokens in words.items()
            if not _hears(tokens) and any(token.kind is Kind.WORD and token.value in missing for token in tokens)
        }
    swallowing = {
        name
        for name, tokens in words.items()
        if any(token.word("SQLEXCEPTION") for token in tokens) and not any(token.word("RESIGNAL") for token in tokens)
    }
    return {
        name: replace(signature, misses=name in missing, swallows=name in swallowing)
        for name, signature in found.items()
    }


def _hears(tokens: list[Token]) -> bool:
    """Whether there is a handler for NOT FOUND."""
    return any(
        token.word("HANDLER") and (tokens[at + 3].word("FOUND") or tokens[at + 3].value == "02000")
        for at, token in enumerate(tokens[:-4])
    )


def _misses(tokens: list[Token]) -> bool:
    """Whether a FETCH, or a SELECT INTO that is no aggregate of all rows, may find none without being heard."""
    if _hears(tokens):
        return False
    start = 0
    for at, token in enumerate(tokens):
        if token.word("FETCH"):
            return True
        if token.symbol(";") or token.word("BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT"):
            start = at + 1
        if token.word("INTO") and tokens[start].word("SELECT"):
            end = next((i for i in range(at, len(tokens)) if tokens[i].symbol(";")), len(tokens))
            whole = tokens[start:end]
            total = whole[1].word("COUNT", "SUM", "MIN", "MAX", "AVG") and not any(t.word("GROUP") for t in whole)
            if not total and any(part.word("FROM") for part in whole):
                return True
    return False


def read_body(routine: Routine, signatures: dict[str, Signature], schema: Schema, dialect: Dialect) -> Procedure:
    block = Block(Stream(routine.body, dialect), signatures, routine.signature, schema=schema)
    block.locals.extend(routine.outs)
    stream = block.stream
    if stream.accept("#", "VARIABLE_CONFLICT"):
        if stream.sees("USE_VARIABLE"):
            raise stream.refuse("variables that hide columns", "write the table before the column")
        block.columns_first = stream.next().word("USE_COLUMN")
    block.outermost = block.label()
    block.names.open(block.outermost)
    first: list[Step] = []
    if dialect is Dialect.POSTGRESQL:
        if stream.accept("DECLARE"):
            block.declarations(first)
        if not stream.sees("BEGIN"):
            stream.fail("BEGIN")
    steps: tuple[Step, ...]
    if stream.accept("BEGIN"):
        steps = (*first, *block.steps("END", "EXCEPTION"))
        if stream.sees("EXCEPTION"):
            raise stream.refuse("EXCEPTION of a block", "an error ends the transaction; leave it out")
        stream.expect("END")
        if not stream.ended and not stream.sees(";"):
            stream.name("a label")
        stream.accept(";")
    else:
        steps = block.steps()
    if not stream.ended:
        stream.fail("the end of the procedure")
    steps = block.endings.resolved(steps)
    signature = routine.signature
    if (signature.outputs or signature.returns) and not (steps and isinstance(steps[-1], Return)):
        steps = (*steps, block.end(routine.place))
    return Procedure(signature.name, signature.inputs, steps, tuple(block.locals), tuple(block.cursors), routine.place)
