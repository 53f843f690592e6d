"""The typed core: steps of procedures. Variables are numbered; what is assigned to one is converted to its type already."""

from __future__ import annotations

from isolde.semantics.core.immutable import node
from isolde.semantics.core.nodes import Expression
from isolde.semantics.core.relations import Statement
from isolde.semantics.core.types import ValueType
from isolde.tx.procedures import Procedure, Program


@node(frozen=True, slots=True)
class Assign:
    slot: int
    value: Expression


@node(frozen=True, slots=True)
class AssignRow:
    """The row that ``source`` is at, whole. ``blank``: without a row the variable gets a row of so many nulls, not null."""

    slot: int
    source: int
    blank: int | None


@node(frozen=True, slots=True)
class Draw:
    """An id that was never drawn before goes into ``bound``, then ``assign`` is done."""

    bound: int
    assign: Assign


@node(frozen=True, slots=True)
class Pick:
    """The element at ``index``, from 1, of a list; null outside of it. It goes into ``bound``, then ``assign`` is done."""

    items: int
    index: Expression
    bound: int
    assign: Assign


@node(frozen=True, slots=True)
class Run:
    """A statement; the number of its rows goes into ``bound``, then ``assign`` is done."""

    statement: Statement
    bound: int
    assign: Assign | None


@node(frozen=True, slots=True)
class Fetch:
    """The first row of a statement, bound to ``source``; a row of nulls without one. ``found``: gets whether there was one.

    ``required``: without a row the transaction is aborted. ``single``: a second row is an error. ``keep``: without a row
    nothing is assigned.
    """

    statement: Statement
    source: int
    bound: int
    found: Assign | None
    assigns: tuple[Assign | AssignRow, ...]
    required: bool
    single: bool
    keep: bool


@node(frozen=True, slots=True)
class FetchAll:
    statement: Statement
    slot: int


@node(frozen=True, slots=True)
class If:
    branches: tuple[tuple[Expression, tuple[Step, ...]], ...]
    otherwise: tuple[Step, ...]


@node(frozen=True, slots=True)
class ForEach:
    """``rows``: a statement, or the number of a variable that holds rows. ``before``: done once, ``assigns`` for each row."""

    rows: Statement | int
    source: int
    before: tuple[AssignRow, ...]
    assigns: tuple[Assign | AssignRow, ...]
    body: tuple[Step, ...]


@node(frozen=True, slots=True)
class ForRange:
    slot: int
    first: Expression
    last: Expression
    body: tuple[Step, ...]


@node(frozen=True, slots=True)
class While:
    condition: Expression
    body: tuple[Step, ...]


@node(frozen=True, slots=True)
class Jump:
    """Leaves the loop at this depth (from 0, the outermost), or goes on with its next round (``again``)."""

    depth: int
    again: bool


@node(frozen=True, slots=True)
class OpenCursor:
    """``name`` is what the transaction knows the cursor by; a ``private`` one is the procedure's own."""

    cursor: int
    name: str
    private: bool
    query: Statement


@node(frozen=True, slots=True)
class FetchCursor:
    cursor: int
    name: str
    source: int
    bound: int
    found: Assign
    assigns: tuple[Assign | AssignRow, ...]
    keep: bool


@node(frozen=True, slots=True)
class CloseCursor:
    cursor: int
    name: str
    if_open: bool


@node(frozen=True, slots=True)
class Call:
    """``assigns``: what it returns goes into ``bound`` values, by place, then they are done."""

    program: Program
    procedure: str
    arguments: tuple[Expression, ...]
    bound: tuple[int, ...]
    assigns: tuple[Assign, ...]


@node(frozen=True, slots=True)
class Return:
    values: tuple[Expression, ...]


@node(frozen=True, slots=True)
class Abort:
    reason: Expression | None


@node(frozen=True, slots=True)
class Assert:
    condition: Expression
    message: str


@node(frozen=True, slots=True)
class NeedRecords:
    """Fails where one of these records was not assigned to yet: names and numbers of variables."""

    records: tuple[tuple[str, int], ...]


@node(frozen=True, slots=True)
class Wrong:
    """A step that is wrong by its names or types: a database says so when it is reached, and not before."""

    kind: str
    reason: str
    place: str


Step = (
    Assign
    | AssignRow
    | Draw
    | Pick
    | Run
    | Fetch
    | FetchAll
    | If
    | ForEach
    | ForRange
    | While
    | Jump
    | OpenCursor
    | FetchCursor
    | CloseCursor
    | Call
    | Return
    | Abort
    | Assert
    | NeedRecords
    | Wrong
)


@node(frozen=True, slots=True)
class Routine:
    """A procedure for arguments of given types. ``slots``: how many variables it has; ``parameters`` are the first of them.

    ``converted``: parameters of a declared type, converted to it. ``results``: the types of what it returns, by place.
    """

    procedure: Procedure
    parameters: int
    slots: int
    cursors: int
    converted: tuple[Assign, ...]
    body: tuple[Step, ...]
    results: tuple[ValueType, ...]
