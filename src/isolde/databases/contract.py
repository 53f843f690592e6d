"""What an adapter is: a database that keeps registers or lists under integer keys, and one connection a session.

An *adapter* is a description (what the database is called, which levels it offers and what it calls them, what it
can and cannot do, each with a reason) and one function, ``open``. A *database* makes the private table and hands
out connections. A *connection* runs one transaction at a time, a statement at a time.

Answers are bytes of JSON (``b"17"``, ``b"null"``, ``b"[1,2]"``): what the server sent goes into the history as it
came, and is decoded when it is checked. ``answer`` makes such bytes of what a driver returns.

``isolde.databases.conformance`` is this contract as checks; an adapter exists when they pass on the real server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal, Protocol

from isolde.databases.shapes import PLAIN, SHAPES, Shape
from isolde.levels import Level
from isolde.tx.dialects import Dialect


class Feature(StrEnum):
    """What a workload may need of a database."""

    TRANSACTIONS = "transactions"
    """Interactive: what one statement returns may decide the next."""
    COMPARE_AND_SET = "compare-and-set"
    LISTS = "lists"
    DELETES = "deletes"
    SQL = "sql"
    PREDICATES = "predicates"
    """Reads of all rows that meet a condition."""
    ORDER = "order"
    """The database can tell the order of its versions or transactions."""


@dataclass(frozen=True, slots=True)
class Ability:
    """Whether a database can do something, and how, or why it cannot."""

    feature: Feature
    able: bool
    how: str


@dataclass(frozen=True, slots=True)
class Offer:
    """A level as the database offers it: its name on our command line, its name there, and what that promises."""

    name: str
    called: str
    claims: Level
    note: str = ""
    shared: Level | None = None
    """What it promises where several transactions write one row, if that is less: of lists, and of rows of several columns.

    An append, or an update of one column, may work on a newer row than the reads around it show, and then reads show that one.
    """

    def of(self, kind: Kind, shapes: tuple[Shape, ...] = (PLAIN,)) -> Offer:
        """The same level with what it promises of keys that hold this, in such tables."""
        columns = any(shape.columns > 1 for shape in shapes)
        if self.shared is None or not (columns or kind is Kind.LISTS):
            return self
        what = "lists" if kind is Kind.LISTS else "rows of several columns"
        return replace(self, claims=self.shared, note=f"of {what}; of registers {self.claims.value}: {self.note}")


class Kind(StrEnum):
    """What a key holds."""

    REGISTERS = "registers"
    LISTS = "lists"


@dataclass(frozen=True, slots=True)
class Table:
    """A private place in the database: keys ``0 … keys-1`` exist from the start, holding 0 or the empty list.

    ``shapes``: the tables that it is made of, where the database has tables; each holds its share of the keys.
    """

    name: str
    kind: Kind
    keys: int
    shapes: tuple[Shape, ...] = (PLAIN,)


@dataclass(frozen=True, slots=True)
class Swap:
    """How a compare-and-set ended; ``current`` is the value that a failed one was shown, if it was shown one."""

    applied: bool
    current: bytes | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """What one SQL statement returned: rows (``None`` when it returns none) and the affected rows, if known."""

    rows: list[tuple[Any, ...]] | None
    count: int | None


class Connection(Protocol):
    """One session's connection. Used by one thread at a time; ``cancel`` and ``abandon`` by any.

    Every method may raise ``Aborted`` (the database ended the transaction; the connection is clean again after
    ``rollback``), ``ConnectionLost`` (nothing more can be asked; at ``commit``, and where the error says
    ``maybe_applied``, the outcome is unknown) or ``StatementFailed`` (the statement itself is wrong). A transaction
    that raised is over: the caller calls ``rollback`` and nothing else, unless the connection is lost.
    """

    def begin(self, offer: Offer) -> None:
        """Starts a transaction at this level."""

    def read(self, key: int) -> bytes:
        """The value of the key, ``b"null"`` if it is absent; of a list that is absent, ``b"[]"``."""

    def write(self, key: int, value: int) -> None:
        """Sets the key, whether it is there or not."""

    def insert(self, key: int, value: int) -> None:
        """Adds a key that the caller believes absent; ``Aborted`` if it is there after all."""

    def delete(self, key: int) -> bool:
        """Removes the key; whether that is a write. It is none where the database looked and found nothing.

        Over a snapshot, a delete that finds nothing conflicts with nobody: another session may insert the key
        meanwhile, and both commit. Told as a write, that would be a lost update that never happened; it is a read
        of nothing. A delete that is kept until the commit and removes whatever is there then is a write.
        """

    def append(self, key: int, element: int) -> None:
        """Adds an element to the list's end, in the database; an absent list is an empty one."""

    def compare_and_set(self, key: int, expected: int | None, new: int) -> Swap:
        """Sets the key if it holds ``expected``; ``None``: if it is absent."""

    def commit(self) -> None:
        """Returns only if the database said that the transaction is committed.

        A silent rollback is ``Aborted``; no answer is ``ConnectionLost``.
        """

    def rollback(self) -> None:
        """Ends the transaction without effect; harmless when there is none."""

    def abandon(self) -> None:
        """Breaks the connection off from another thread, so that a statement that never returns does."""

    def close(self) -> None:
        """Gives everything back; never raises."""


class SqlConnection(Connection, Protocol):
    """A connection that also takes SQL of the database's own dialect, inside the same transactions."""

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        """Runs one statement; parameters are marked as the database's dialect says (``Database.placeholder``)."""


class RowConnection(Connection, Protocol):
    """A connection to tables whose rows hold several keys."""

    def write_row(self, values: Mapping[int, int]) -> None:
        """Sets several keys that share a row by one statement."""


class Database(Protocol):
    """One database that answers."""

    def version(self) -> str:
        """Its own name and version, as it tells them."""

    def offers(self) -> tuple[Offer, ...]:
        """The levels of this very server: settings may change what a level promises."""

    def create(self, table: Table) -> None:
        """Makes the private table with its first values; fails if something of that name is there."""

    def connect(self, table: Table) -> Connection:
        """A new connection that works on the table."""

    def drop(self, table: Table) -> None:
        """Removes what ``create`` made."""

    def close(self) -> None:
        """Gives everything back; never raises."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """What is known of a kind of database before one is there. ``offers`` are weakest first."""

    name: str
    schemes: tuple[str, ...]
    example: str
    offers: tuple[Offer, ...]
    abilities: tuple[Ability, ...]
    open: Opener
    dialect: Dialect | None = None
    """Which SQL it speaks, if it speaks one that Isolde can write."""
    counts: Literal["found", "changed"] | None = None
    """What the affected-row count of an UPDATE counts: rows that it found, or that it changed; ``None`` if that is not known."""
    driver: str = ""
    """The module that talks to it; empty if none beyond Python's own is needed."""
    fallback: str = ""
    """A module that does as well if that one is not there."""
    install: str = ""
    """The command that installs the driver."""
    removal: str = "DROP TABLE {table}"
    """What a person types to remove a table that a run could not drop."""
    untested: str = ""
    """What else may answer at such a URL, and was not tested against a live server."""
    shapes: tuple[Shape, ...] = SHAPES
    """What ``--shapes all`` goes through, where there are tables."""
    locks_everything: bool = False
    """Writers lock the whole database, not rows: those of one table wait for those of another."""

    def able(self, feature: Feature) -> Ability:
        """What is said about a feature."""
        return next(ability for ability in self.abilities if ability.feature is feature)


class Opener(Protocol):
    """Finds the database that a URL names, or raises ``DatabaseUnavailable`` with the reason."""

    def __call__(self, url: str) -> Database: ...


def answer(value: object) -> bytes:
    """The JSON of what a driver returned for a register.

    >>> answer(17), answer(b"17"), answer(None), answer("17"), answer(b"x")
    (b'17', b'17', b'null', b'17', b'"x"')
    """
    if value is None:
        return b"null"
    if isinstance(value, int):
        return b"%d" % value
    raw = value if isinstance(value, bytes) else str(value).encode()
    # A column of integers answers in digits. Anything else is wrong there, and goes into the history as it is.
    return raw if raw.isdigit() else json.dumps(raw.decode(errors="replace")).encode()


def list_answer(value: object) -> bytes:
    """The JSON of a list that is kept as text, a comma before each element; absent is empty.

    >>> list_answer(b",1,2"), list_answer(""), list_answer(None), list_answer(",x")
    (b'[1,2]', b'[]', b'[]', b'[",x"]')
    """
    if value is None:
        return b"[]"
    raw = value if isinstance(value, bytes) else str(value).encode()
    if raw.replace(b",", b"").isdigit() or not raw:
        return b"[" + raw[1:] + b"]"
    return b"[" + json.dumps(raw.decode(errors="replace")).encode() + b"]"
