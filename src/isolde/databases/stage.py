"""A private place in a database where schedules are played, and sessions in it that take any SQL.

A *stage* is a schema, a database or a file of its own, made when it is opened and removed when it is closed: the names in a
schedule's statements mean tables there and nowhere else. ``databases/stages/`` has one file a kind of database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from isolde.databases.contract import Offer
from isolde.history.schedule import Ended, Failure, Row
from isolde.tx.dialects import Dialect


@dataclass(frozen=True, slots=True)
class Answer:
    """What one statement gave; ``ended`` is how the transaction ended, if the statement ended one."""

    sql: str
    rows: tuple[Row, ...] | None = None
    count: int | None = None
    error: Failure | None = None
    sqlstate: str | None = None
    message: str = ""
    ended: Ended | None = None


class StagedSession(Protocol):
    """One connection. Used by one thread at a time; ``cancel`` by any."""

    def run(self, text: str) -> list[Answer]:
        """Sends the statements of a text, up to the first that fails; a failure is an answer.

        Settings of the server are passed over (``isolde.tx.script.is_setting``). ``ConnectionLost`` if nobody answers.
        """

    def restore(self, offer: Offer | None) -> None:
        """Rolls back what is open and makes the session new: of the next transactions the level is the offer's.

        Without an offer it is the database's default.
        """

    def roll_back(self) -> None:
        """Ends the transaction without effect, if one is open."""

    def cancel(self) -> None:
        """Makes a statement return that waits; what it returns means nothing."""

    def close(self) -> None:
        """Gives everything back; never raises."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Whether a session waits for a lock, and for which others of those asked about, by place; ``outside``: for somebody else."""

    waits: bool
    whom: frozenset[int] = frozenset()
    outside: bool = False


class Stage(Protocol):
    """The private place. Used by one thread."""

    dialect: Dialect
    store: str
    """Name and version, as ``postgresql 15.18``."""
    patience_s: float
    """After this, a step that did not return counts as waiting, whatever ``waiting`` says."""
    deadlocks_linger: bool
    """Whether sessions may be seen to wait for each other in a circle for a while, before the database breaks it."""
    settings: Mapping[str, str]
    """Those of the server that change what a level does."""

    def prepare(self, schema: Sequence[str], rows: Mapping[str, Sequence[Row]]) -> None:
        """Makes the tables new; ``StatementFailed`` with the statement that the database refuses."""

    def session(self) -> StagedSession:
        """A new session."""

    def waiting(self, sessions: Sequence[StagedSession], *, whom: bool) -> list[Waiting] | None:
        """Which of these sessions wait for locks; ``None`` if the database does not tell. The idle ones are among them.

        Without ``whom``, the others that are waited for need not be told where that takes time.
        """

    def tables(self) -> dict[str, tuple[Row, ...]]:
        """The committed rows of every table, sorted."""

    def close(self) -> None:
        """Removes the place and everything in it; what cannot be removed is raised as ``DatabaseUnavailable``."""
