"""What an error of a Python database driver means for a transaction, as far as PEP 249 lets one tell.

PEP 249 names classes of errors but not which of them end a transaction, drivers differ in which class they raise, and
some let errors out that are none of PEP 249's. So the class counts only where it is clear, then the SQLSTATE if the
driver tells it, then the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType

from isolde.databases.error_words import of_sqlstate, of_text
from isolde.errors import Aborted, ConnectionLost, OutsideError, StatementFailed

# Classes of SQLSTATE: the first two signs.
_ABORTED_CLASSES = ("40", "23")
_LOST_CLASSES = ("08",)
_WRONG_CLASSES = ("0A", "22", "26", "34", "3F", "42")
# SQLSTATEs that their class does not tell: a lock that was not to be had, a server that was told to stop.
_ABORTED_STATES = ("55P03", "57014")
_LOST_STATES = ("57P01", "57P02", "57P03")

# As H2 puts it into its messages, with its own number behind it.
_IN_TEXT = re.compile(r"\[([0-9A-Z]{5})-[0-9]+\]")

_LOST = re.compile(
    r"connection|closed|network|socket|broken pipe|gone away|unreachable|shut ?down|server terminated", re.IGNORECASE
)
_ABORTED = re.compile(
    r"deadlock|conflict|serializ|\block|busy|snapshot|concurrent|record has changed|try again|restart transaction",
    re.IGNORECASE,
)
# Said of a statement that inserts; said of one that makes a table, it means something else.
_DUPLICATE = re.compile(r"duplicate|unique|primary key|already exists", re.IGNORECASE)
_INSERTS = re.compile(r"\s*(insert|update|commit)\b", re.IGNORECASE)


def one_line(error: BaseException) -> str:
    """What an error says, or at least what it is."""
    return " ".join(str(error).split()) or type(error).__name__


def translated(module: ModuleType, error: Exception, text: str) -> OutsideError:
    """The error in our terms; ``text`` is the statement that raised it."""
    reason = one_line(error)
    if isinstance(error, OSError):
        return ConnectionLost(reason)
    if not isinstance(error, module.Error):
        return _by_words(text, f"{type(error).__name__}: {reason}", wrong=type(error).__module__ == "builtins")
    state = sqlstate(error)
    word = of_sqlstate(state) if state else of_text(reason)
    if isinstance(error, module.IntegrityError):
        return Aborted(reason, word)
    if state in _ABORTED_STATES or state.startswith(_ABORTED_CLASSES):
        return Aborted(reason, word)
    if state in _LOST_STATES or state.startswith(_LOST_CLASSES):
        return ConnectionLost(reason)
    if state.startswith(_WRONG_CLASSES):
        return StatementFailed(text, reason, word)
    if isinstance(error, module.InterfaceError):
        return ConnectionLost(reason)
    return _by_words(text, reason, wrong=isinstance(error, module.ProgrammingError))


def _by_words(text: str, reason: str, *, wrong: bool) -> OutsideError:
    """What the words say; ``wrong`` if the class of the error speaks for a fault of the statement or the caller."""
    # A loss is looked for first: at a commit, to take one for an abort would be the worse mistake.
    if _LOST.search(reason):
        return ConnectionLost(reason)
    if not wrong and _ABORTED.search(reason):
        return Aborted(reason, of_text(reason))
    if _INSERTS.match(text) and _DUPLICATE.search(reason):
        return Aborted(reason, of_text(reason))
    return StatementFailed(text, reason, of_text(reason))


def sqlstate(error: Exception) -> str:
    """The SQLSTATE of a driver's error, empty if it tells none.

    >>> sqlstate(Exception("40001", "[40001] could not serialize")), sqlstate(Exception("locked"))
    ('40001', '')
    >>> sqlstate(Exception("Unique index or primary key violation [23505-252]"))
    '23505'
    """
    for found in (getattr(error, "sqlstate", None), getattr(error, "pgcode", None), *error.args[:1], *_of_java(error)):
        if isinstance(found, str) and re.fullmatch(r"[0-9A-Z]{5}", found):
            return found
    in_text = _IN_TEXT.search(str(error))
    return in_text[1] if in_text else ""


def _of_java(error: BaseException) -> Iterator[str]:
    """What an exception of Java that a driver over JDBC passes on, or wraps, says itself."""
    for found in (error, error.__cause__, *error.args[:1]):
        state = getattr(found, "getSQLState", None)
        if callable(state):
            yield str(state())
