"""Every exception that a caller may see, one tree. Violations and "undecided" are values, never exceptions."""

from __future__ import annotations

import errno
from dataclasses import dataclass

# Of a statement with a hundred rows, the first tell enough.
_SHOWN = 400
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class IsoldeError(Exception):
    """A question that cannot be asked: wrong usage, unreadable input, a failed outside part."""


class UsageError(IsoldeError):
    """The question itself is wrong: an unknown level, options that exclude each other."""


class InputError(IsoldeError):
    """An input cannot be read or an output cannot be written; the text names the file and the reason."""


@dataclass(eq=False)
class MalformedHistory(InputError):
    """A file is readable but is not a history."""

    file: str
    line: int
    field: str
    found: str
    expected: str
    transactions_before: int

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        if self.field:
            return f'{place}: "{self.field}" is {self.found}; expected {self.expected}'
        return f"{place}: {self.found}; expected {self.expected}"


@dataclass(eq=False)
class MalformedCertificate(InputError):
    """A file is readable but is not a certificate, or does not fit the history that it stands beside."""

    file: str
    line: int
    found: str
    expected: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.found}; expected {self.expected}"


_UNUSABLE = {
    "columns": "the columns of the edges have different lengths",
    "edge": "edge {place} leads to or from a transaction that the history does not have, or to itself",
    "version": "version {inner} of told order {place} is no write of a committed transaction to the key of that order, or is the"
    " initial version and not the first",
    "serial": "place {place} of the serial order holds no transaction of the history, an aborted one, or one that has a place"
    " already",
}


@dataclass(eq=False)
class UnusableEvidence(InputError):
    """Evidence from outside does not fit the history that it is about; places are counted from 0."""

    file: str
    part: str
    place: int
    inner: int

    def __str__(self) -> str:
        return f"{self.file}: {_UNUSABLE[self.part].format(place=self.place, inner=self.inner)}"


class MistakeError(IsoldeError):
    """Isolde contradicted itself: what it found does not stand up to a second look. Never shown as a verdict."""


@dataclass(eq=False)
class MalformedNotation(InputError):
    """A text is not in the short notation."""

    line: int
    column: int
    found: str
    expected: str
    file: str = "notation"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: column {self.column} has {self.found}; expected {self.expected}"


@dataclass(eq=False)
class MalformedSchedule(InputError):
    """A text is no schedule: neither the JSON of one nor a file of PostgreSQL's isolation tester."""

    file: str
    line: int
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.found}; expected {self.expected}"


@dataclass(eq=False)
class MalformedProgram(InputError):
    """A text is no SQL, or no procedure; ``place`` is source, line and column."""

    place: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.place}: {self.found}; expected {self.expected}"


@dataclass(eq=False)
class OutsideFragment(InputError):
    """A program means something that Isolde's language cannot say: refused by name, never approximated."""

    place: str
    what: str
    instead: str = ""

    def __str__(self) -> str:
        hint = f"; {self.instead}" if self.instead else ""
        return f"{self.place}: {self.what} is outside of the transaction language{hint}"


@dataclass(eq=False)
class ExecutionError(IsoldeError):
    """A statement of a program cannot be executed as it stands: a key is taken, a number too large, a divisor zero.

    ``kind`` is one word for programs: ``unique``, ``not-null``, ``foreign-key``, ``check``, ``division-by-zero``,
    ``out-of-range``, ``conversion``, ``cardinality``, ``cursor``, ``name``, ``type``; ``aborted`` for a statement after a failed
    one.
    """

    kind: str
    reason: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.place else self.reason

    @property
    def word(self) -> str:
        """The history format's word for it."""
        if self.kind in {"unique", "foreign-key", "check", "not-null"}:
            return self.kind
        return "arithmetic" if self.kind in {"division-by-zero", "out-of-range"} else "other"

    @property
    def is_mistake(self) -> bool:
        """Whether whoever wrote the statement is to blame, whatever the tables hold."""
        return self.kind in {"name", "type", "cursor"}


class OutsideError(IsoldeError):
    """A database or another outside part failed; the text says which, why, and what to do."""


class FullDisk(OutsideError):
    """The disk takes no more; the text names the file."""


def not_written(text: str, error: OSError) -> IsoldeError:
    """What is raised where a file cannot be written: a full disk is no mistake of whoever asked."""
    return (FullDisk if error.errno in _FULL else InputError)(text)


class DatabaseUnavailable(OutsideError):
    """A database cannot be reached, is not there, or does not let us do what a run needs."""


@dataclass(eq=False)
class StatementFailed(OutsideError):
    """The database calls a statement wrong; ``word`` is the history format's for why, if it has one."""

    statement: str
    reason: str
    word: str = "other"
    code: int = 0
    """The database's number for the error, where the adapter tells it."""

    def __str__(self) -> str:
        shown = self.statement if len(self.statement) <= _SHOWN else self.statement[:_SHOWN] + " …"
        return f"the database refused '{shown}': {self.reason}"


@dataclass(eq=False)
class Aborted(OutsideError):
    """The database ended a transaction: a serialization failure, a deadlock, a duplicate key. A new one may succeed.

    ``word`` is the history format's for why (``deadlock``, say).
    """

    reason: str
    word: str = "other"
    code: int = 0
    """The database's number for the error, where the adapter tells it."""

    def __str__(self) -> str:
        return f"the database aborted the transaction: {self.reason}"


@dataclass(eq=False)
class ConnectionLost(OutsideError):
    """A connection broke or did not answer in time; what was asked last may or may not have happened.

    At ``commit`` the outcome is unknown in any case. Elsewhere it is "not committed", unless ``maybe_applied`` says
    that what was asked takes effect at once: then it is unknown there too.
    """

    reason: str
    maybe_applied: bool = False

    def __str__(self) -> str:
        return f"the connection to the database was lost: {self.reason}"
