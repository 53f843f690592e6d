"""A whole application in one text: tables, procedures, invariants.

Besides stored procedures there is a plain form: a line ``-- @txn name(a, b)`` begins a transaction that goes on to the next such
line; in it, ``:x`` is a parameter or a variable (``SELECT … INTO :x``), ``:x[i]`` an element of a list that is a parameter,
``new_id()`` an id that was never drawn. ``-- @invariant name: SELECT …`` says what must return no row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from isolde.tx.dialects import Dialect
from isolde.tx.procedures import Invariant, Local, Procedure, Program
from isolde.tx.queries import Select
from isolde.tx.schema import Schema
from isolde.tx.sql.ddl import schema_of
from isolde.tx.sql.embedded import Signature
from isolde.tx.sql.procedural import Block
from isolde.tx.sql.routines import Routine, begins_routine, read_body, read_routine, signatures_of
from isolde.tx.sql.statements import read_statement
from isolde.tx.sql.stream import Stream
from isolde.tx.sql.text import Kind, Text

_MARK = re.compile(r"^[ \t]*--[ \t]*@(txn|invariant)\b[ \t]*(.*)$", re.MULTILINE)
_HEAD = re.compile(r"([^\W\d]\w*)[ \t]*(?:\(([^()]*)\))?[ \t]*(?:\d+(?:\.\d+)?[ \t]*%?)?[ \t]*(?:--.*)?\r?$")
_PARAMETER = re.compile(r"[^\W\d]\w*")
_INVARIANT = re.compile(r"([^\W\d][\w-]*)\s*(?:\(([^)]*)\))?\s*:\s*(?=\S)")
_DELIMITER = re.compile(r"^[ \t]*DELIMITER[ \t]+(\S+)[ \t]*$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class _Section:
    name: str
    parameters: tuple[str, ...] | None
    body: Text


def read_program(text: Text, dialect: Dialect) -> Program:
    plain = Text(_plain_delimiters(text.content), text.source, strict=text.strict)
    sections, invariants, head = _sections(plain, dialect)
    tables, routines = _statements(head, dialect)
    signatures = signatures_of(routines, dialect)
    for section in sections:
        inputs = tuple(Local(name) for name in section.parameters or ())
        order = tuple((local.name, True, False) for local in inputs)
        signatures[section.name] = Signature(section.name, inputs, (), order)
    procedures = [read_body(routine, signatures, tables, dialect) for routine in routines]
    procedures += [_transaction(section, signatures, dialect) for section in sections]
    names = [procedure.name for procedure in procedures]
    for procedure in procedures:
        if names.count(procedure.name) > 1:
            raise plain.malformed(0, f"procedure '{procedure.name}' twice", "one procedure of a name")
    return Program(tables, tuple(procedures), tuple(invariants))


def _plain_delimiters(text: str) -> str:
    """The client's DELIMITER lines as blanks, and what they announce as semicolons; all places stay."""
    pieces: list[str] = []
    at, delimiter = 0, ";"
    for match in [*_DELIMITER.finditer(text), None]:
        end = match.start() if match else len(text)
        part = text[at:end]
        if delimiter != ";":
            closing = re.compile(rf"{re.escape(delimiter)}(?=[ \t]*(?:--[^\n]*)?$)", re.MULTILINE)
            part = closing.sub(";".ljust(len(delimiter)), part)
        pieces.append(part)
        if match:
            pieces.append(" " * (match.end() - match.start()))
            at, delimiter = match.end(), match.group(1)
    return "".join(pieces)


def _sections(text: Text, dialect: Dialect) -> tuple[list[_Section], list[Invariant], Text]:
    """Transactions of the plain form, invariants, and the text before the first transaction."""
    content = text.content
    marks = list(_MARK.finditer(content))
    transactions = [mark for mark in marks if mark.group(1) == "txn"]
    head = text.slice(0, transactions[0].start() if transactions else len(content))
    sections = []
    for index, mark in enumerate(transactions):
        end = transactions[index + 1].start() if index + 1 < len(transactions) else len(content)
        found = _HEAD.match(mark.group(2))
        if found is None:
            expected = "a name, its parameters in parentheses, how often it comes: -- @txn withdraw(id, amount) 20"
            raise text.malformed(mark.start(2), f"'{mark.group(2)[:40]}'", expected)
        names = found.group(2)
        parameters = None if names is None else tuple(_names(text, mark.start(2) + found.start(2), names))
        sections.append(_Section(found.group(1), parameters, text.slice(mark.end(), end)))
    invariants = [_invariant(text, mark, dialect) for mark in marks if mark.group(1) == "invariant"]
    return sections, invariants, head


def _names(text: Text, at: int, listed: str) -> Iterator[str]:
    """The names in a head's list; ``item[]`` says that it is a list of values, as its use does."""
    seen: set[str] = set()
    for part in listed.split(",") if listed.strip() else ():
        name = part.strip().removesuffix("[]")
        if not _PARAMETER.fullmatch(name) or name in seen:
            raise text.malformed(at, f"'{part.strip()}'", "names of parameters, each once, without types")
        seen.add(name)
        yield name


def _invariant(text: Text, mark: re.Match[str], dialect: Dialect) -> Invariant:
    found = _INVARIANT.match(text.content, mark.start(2))
    if found is None or found.end() > mark.end():
        raise text.malformed(mark.start(2), f"'{mark.group(2)[:40]}'", "name: SELECT …")
    query = read_statement(text.slice(found.end(), mark.end()), dialect)
    if not isinstance(query, Select):
        raise text.malformed(found.end(), "a change", "SELECT, which returns no row if the invariant holds")
    return Invariant(found.group(1), query, (found.group(2) or "").strip())


def _statements(text: Text, dialect: Dialect) -> tuple[Schema, list[Routine]]:
    stream = Stream(text, dialect)
    tables: list[Text] = []
    routines: list[Routine] = []
    while not stream.ended:
        if stream.accept(";"):
            continue
        if begins_routine(stream):
            routines.append(read_routine(stream))
        else:
            start = stream.position
            while not stream.ended and not stream.sees(";"):
                stream.next()
            tables.append(text.slice(start, stream.tokens[stream.at - 1].end))
    return schema_of(tables, dialect), routines


def _transaction(section: _Section, signatures: dict[str, Signature], dialect: Dialect) -> Procedure:
    stream = Stream(section.body, dialect)
    block = Block(stream, signatures, signatures[section.name], plain=True)
    place = section.body.place(0)
    steps = block.endings.resolved(block.steps())
    parameters = section.parameters
    if parameters is None:
        parameters = _parameters(stream)
    lists = _lists(stream, parameters)
    inputs = tuple(Local(name, many=name in lists) for name in parameters)
    return Procedure(section.name, inputs, steps, tuple(block.locals), tuple(block.cursors), place)


def _parameters(stream: Stream) -> tuple[str, ...]:
    """What is asked with ``:x`` and never fetched INTO: given by the caller, in the order in which it first appears."""
    assigned: set[str] = set()
    asked: dict[str, None] = {}
    into = False
    for index, token in enumerate(stream.tokens):
        if token.kind is Kind.PARAMETER:
            following = stream.tokens[index + 1] if index + 1 < len(stream.tokens) else None
            if into or (following is not None and following.symbol(":=")):
                assigned.add(token.value)
            else:
                asked.setdefault(token.value)
        into = token.word("INTO") or (into and (token.kind is Kind.PARAMETER or token.symbol(",")))
    return tuple(name for name in asked if name not in assigned)


def _lists(stream: Stream, parameters: tuple[str, ...]) -> set[str]:
    """Parameters with an index, which are lists: all their uses have one."""
    brackets = {token.start for token in stream.tokens if token.symbol("[")}
    uses = [(token, token.end in brackets) for token in stream.tokens if token.kind is Kind.PARAMETER]
    lists = {token.value for token, indexed in uses if indexed}
    for token, indexed in uses:
        if token.value in lists and token.value not in parameters:
            raise stream.text.refuse(token.start, f"an element of the variable :{token.value}", "lists are parameters")
        if token.value in lists and not indexed:
            raise stream.text.refuse(
                token.start, f"the list :{token.value} as a value", f"name an element: :{token.value}[1]"
            )
    return lists
