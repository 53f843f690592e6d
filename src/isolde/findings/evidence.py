"""What supports a verdict, beside anomalies of histories (``model.py``). A closed union, like the questions."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from isolde.findings.model import Anomaly, CommitOrder
from isolde.history import History, Key, Scalar, TxnId, Value

Datum = None | bool | int | str | Decimal | tuple["Datum", ...]
"""A value as people read it; what JSON has no word for (a date, say) is its text."""
Row = tuple[Datum, ...]
Rows = tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of one table."""

    table: str
    rows: Rows


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a schedule: what a session does next. ``name`` is what the schedule calls it, if it does."""

    session: str
    does: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What became of a step: its answer in words, the sessions for which it waited, and the committed rows after it.

    ``returned_after`` is the number of the last step that had been sent when it returned: its own if it returned at once,
    ``None`` if it never did. ``tables`` is empty where the step left the committed rows as they were.
    """

    answer: str
    returned_after: int | None
    failed: bool = False
    waits_for: tuple[str, ...] = ()
    tables: tuple[TableRows, ...] = ()


@dataclass(frozen=True, slots=True)
class Schedule:
    """An interleaving that a person can retype into terminals, one a session.

    Over SQL: with the tables and rows to start from and the level of each session, it is the file that ``--schedule`` reads.
    ``outcomes`` has an entry for each step, where it was played.
    """

    steps: tuple[Step, ...]
    schema: tuple[str, ...] = ()
    rows: tuple[TableRows, ...] = ()
    levels: tuple[tuple[str, str], ...] = ()
    outcomes: tuple[StepOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class FailingPrefix:
    """The shortest beginning of a log that nothing explains; its last transaction got an answer that was not possible.

    ``expected`` is what could have been answered, ``None`` if nothing could. ``kind`` is ``isolation`` if a weaker level explains
    the log (``explained_by``), else ``semantic``. ``core`` are transactions that suffice for the contradiction.
    """

    length: int
    transaction: TxnId
    statement: int
    expected: Rows | None
    observed: Rows | None
    kind: Literal["isolation", "semantic"]
    explanation: str
    core: tuple[TxnId, ...] = ()
    explained_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogOrder:
    """An order of a log's transactions that explains every answer; for each transaction, how many are in the state that each
    of its statements read.
    """

    transactions: tuple[TxnId, ...]
    snapshots: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Statements of a log that were not judged because the language cannot say them, a sentence each."""

    statements: tuple[str, ...]


Writers = tuple[tuple[TxnId, str], ...]
"""Transactions, each with what it is called."""


@dataclass(frozen=True, slots=True)
class BrokenInvariant:
    """An invariant, a check or a promise that does not hold, and how that comes about as far as it is known.

    ``state`` holds keys, ``tables`` the rows of tables at the moment that breaks it; ``columns`` and ``rows`` are what its query
    for violations gave, after ``after`` transactions of a run. ``history`` is what the sessions saw, and holds all transactions
    itself: an explored one is in no file. ``confirmed`` says by what means it was seen to happen.
    """

    check: str
    explanation: str
    columns: tuple[str, ...] = ()
    rows: Rows = ()
    after: int | None = None
    history: History | None = None
    schedule: Schedule | None = None
    state: tuple[tuple[Key, Value], ...] | None = None
    tables: tuple[TableRows, ...] = ()
    confirmed: Literal["", "explored", "executed"] = ""
    anomaly: Anomaly | None = None
    """What is wrong with the order of the history's transactions, if anything is."""
    last: tuple[Writers, ...] = ()
    """Of a run, for each of ``rows``: the transactions that wrote last what it shows, as far as the log tells."""


@dataclass(frozen=True, slots=True)
class LostWrite:
    """A write that was committed, and that the database does not have any more: it holds ``found``."""

    key: Key
    transaction: TxnId
    value: Scalar
    found: Value
    sentence: str


@dataclass(frozen=True, slots=True)
class Miscounted:
    """A counter that shows what no increments can have made of it; ``transaction`` read it, or ``None``: its final value."""

    key: int
    low: int
    high: int
    found: int | None
    transaction: TxnId | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Proof:
    """Why something holds of everything that may happen, and what that takes for granted."""

    text: str
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SafeAt:
    """The level at which a transaction is safe, in the database's own words, and what that level is."""

    level: str
    means: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """A level at which a transaction is not safe, and what breaks there. ``above``: it is stronger than one that is safe."""

    level: str
    broken: BrokenInvariant
    above: bool = False


@dataclass(frozen=True, slots=True)
class NotProved:
    """Why a question is undecided: a time-out, say, or something that the input does not tell.

    Where levels are tried one by one, ``level`` is the one that this is about.
    """

    reason: str
    level: str = ""


@dataclass(frozen=True, slots=True)
class ByOracle:
    """By what a history was judged: the database's own order of versions, its serial order, or a search by values.

    ``explainable`` is what the search by values alone says of the same history: whether some order explains it; ``None``: it was
    not asked, or could not tell. ``remark`` says where the two differ, or what a second opinion is.
    """

    oracle: Literal["certificate", "serialization-order", "search"]
    explainable: bool | None = None
    remark: str = ""


Evidence = (
    Anomaly
    | CommitOrder
    | Schedule
    | FailingPrefix
    | LogOrder
    | LeftOut
    | BrokenInvariant
    | LostWrite
    | Miscounted
    | Proof
    | SafeAt
    | Refused
    | NotProved
    | ByOracle
)
"""An anomaly is shown by its cycle, by cases, or by the reads that nothing explains."""
