"""Procedures: transactions as programs. Statements of a database, and what holds them together."""

from __future__ import annotations

from dataclasses import dataclass, field

from isolde.tx.expressions import Expression
from isolde.tx.place import Place
from isolde.tx.queries import Select
from isolde.tx.schema import Schema, Type
from isolde.tx.statements import Statement


@dataclass(frozen=True, slots=True)
class Run:
    """A statement whose rows nobody looks at. ``count`` names the variable that gets the number of rows."""

    statement: Statement
    count: str | None = None
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Fetch:
    """The first row of a query, or of a change that returns rows, into variables: all null if there is none.

    One variable and several columns, or ``row``: the variable is a row, whose columns are ``variable.column``; without a row it
    is null. ``required`` aborts the transaction where there is no row. ``found`` names the variable that gets whether there
    was one. ``keep``: without a row the variables stay as they are (MySQL's ``SELECT … INTO``). ``single``: a second row is an
    error.
    """

    statement: Statement
    into: tuple[str, ...]
    required: bool = False
    place: Place | None = field(default=None, compare=False)
    found: str | None = None
    row: bool = False
    keep: bool = False
    single: bool = False


@dataclass(frozen=True, slots=True)
class FetchAll:
    """All rows into one variable: a list, for ``ForEach`` and for counting."""

    statement: Statement
    into: str
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Assign:
    variable: str
    value: Expression
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Draw:
    """The variable gets an id that was never drawn before, by this or by any other transaction, even one that failed."""

    variable: str
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Pick:
    """The variable gets the element at ``index``, from 1, of a list that the caller gave; null outside of the list.

    Null and no error, as PostgreSQL's arrays have it: so an element may be picked before it is known whether it is needed.
    """

    variable: str
    items: str
    index: Expression
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class If:
    """The first condition that is true; unknown is not."""

    branches: tuple[tuple[Expression, tuple[Step, ...]], ...]
    otherwise: tuple[Step, ...] = ()
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ForEach:
    """The body for each row. ``rows`` is a query, read whole before the first round, or a variable that holds rows or a list.

    One variable and several columns, or ``row``: the variable is a row.
    """

    variables: tuple[str, ...]
    rows: Statement | str
    body: tuple[Step, ...]
    label: str | None = None
    place: Place | None = field(default=None, compare=False)
    row: bool = False


@dataclass(frozen=True, slots=True)
class ForRange:
    """The body for each integer from ``first`` to ``last``, both included."""

    variable: str
    first: Expression
    last: Expression
    body: tuple[Step, ...]
    label: str | None = None
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class While:
    condition: Expression
    body: tuple[Step, ...]
    label: str | None = None
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Leave:
    """Ends the loop of this label, or the innermost one."""

    label: str | None = None
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Again:
    """Goes on with the next round of the loop of this label, or of the innermost one."""

    label: str | None = None
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A cursor and its query; the query is run when it is opened.

    ``private``: another procedure's cursor of this name is another one, also in PostgreSQL (a REFCURSOR).
    """

    name: str
    query: Select
    private: bool = False


@dataclass(frozen=True, slots=True)
class OpenCursor:
    name: str
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class FetchCursor:
    """The next row into variables; ``found`` gets whether there was one.

    Without a row the variables are null in PostgreSQL, and stay as they are elsewhere.
    """

    name: str
    into: tuple[str, ...]
    found: str
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """``if_open``: nothing is wrong with one that is closed already."""

    name: str
    place: Place | None = field(default=None, compare=False)
    if_open: bool = False


@dataclass(frozen=True, slots=True)
class CallProcedure:
    """Another procedure of the program, in the same transaction; ``into`` gets what it returns."""

    procedure: str
    arguments: tuple[Expression, ...]
    into: tuple[str, ...] = ()
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Return:
    values: tuple[Expression, ...] = ()
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Abort:
    """Ends the transaction without effect, because the program wants it so."""

    reason: Expression | None = None
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Assert:
    """What the program relies on. False or unknown is a failed assertion."""

    condition: Expression
    message: str = ""
    place: Place | None = field(default=None, compare=False)


Step = (
    Run
    | Fetch
    | FetchAll
    | Assign
    | Draw
    | Pick
    | If
    | ForEach
    | ForRange
    | While
    | Leave
    | Again
    | OpenCursor
    | FetchCursor
    | CloseCursor
    | CallProcedure
    | Return
    | Abort
    | Assert
)


@dataclass(frozen=True, slots=True)
class Local:
    """A variable with its type and first value. ``many``: a parameter that is a list, for ``Pick`` and ``ForEach``.

    ``width``: how many values an element of the list has: 1 for a plain value, more for a tuple, ``None`` where no step looks
    into an element. ``record``: PL/pgSQL's RECORD, which has no columns, not even null ones, until a row or the lack of one is
    put into it.
    """

    name: str
    type: Type | None = None
    default: Expression | None = None
    many: bool = False
    record: bool = False
    width: int | None = 1


@dataclass(frozen=True, slots=True)
class Procedure:
    """One transaction. Variables need not be declared: one that is assigned to is there, null at first.

    ``strict``: its own expressions are Python's, whatever the database makes of nulls, of large integers and of texts. Arithmetic
    and order of a null, and an integer that does not fit into 64 bits, are errors, which end it without effect.
    """

    name: str
    parameters: tuple[Local, ...]
    body: tuple[Step, ...]
    locals: tuple[Local, ...] = ()
    cursors: tuple[Cursor, ...] = ()
    place: Place | None = field(default=None, compare=False)
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Invariant:
    """What must always hold: the query returns no row. Each row that it returns is a violation."""

    name: str
    violations: Select
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """An application: its tables, its transactions, and what must always hold."""

    schema: Schema
    procedures: tuple[Procedure, ...]
    invariants: tuple[Invariant, ...] = ()

    def procedure(self, name: str) -> Procedure | None:
        return next((procedure for procedure in self.procedures if procedure.name == name), None)
