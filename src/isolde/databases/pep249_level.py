"""At which level a driver's transactions run: what the server reports, or else what their statements set.

A driver that was never told which level to use runs at the database's default. What is seen then says nothing about the
level that was meant, so a level that is neither reported nor set is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace

from isolde.databases.contract import Offer, Rows
from isolde.databases.pep249_connection import Driver, DriverConnection
from isolde.errors import OutsideError, UsageError
from isolde.levels import Level

# Begins a transaction as the driver's statements have it.
_NO_OFFER = Offer("none", "", Level.READ_UNCOMMITTED)

# What SQL, and those who added to it, call the levels; of several names, the first is the one that is asked for.
NAMES = {
    Level.READ_UNCOMMITTED: ("READ UNCOMMITTED",),
    Level.PL_2: ("READ COMMITTED",),
    Level.READ_COMMITTED: ("READ COMMITTED",),
    Level.REPEATABLE_READ: ("REPEATABLE READ",),
    # PostgreSQL calls it so, and what Oracle and HSQLDB call serializable is no more.
    Level.SNAPSHOT_ISOLATION: ("SNAPSHOT", "REPEATABLE READ", "SERIALIZABLE"),
    Level.SERIALIZABLE: ("SERIALIZABLE",),
    Level.STRICT_SERIALIZABLE: ("SERIALIZABLE",),
}

# Tried in this order. MySQL's first form holds for the next transaction only, and is not reported.
SETTERS = (
    "SET TRANSACTION ISOLATION LEVEL {}",
    "SET SESSION TRANSACTION ISOLATION LEVEL {}",
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {}",
    "SET CURRENT ISOLATION = {}",
)

_JDBC = "getTransactionIsolation()"
_QUESTIONS = (
    _JDBC,
    "SHOW transaction_isolation",
    "SELECT @@transaction_isolation",
    "SELECT @@tx_isolation",
    "VALUES CURRENT ISOLATION",
    "SELECT isolation_level FROM information_schema.sessions WHERE session_id = session_id()",
    "CALL ISOLATION_LEVEL()",
    "SELECT rdb$get_context('SYSTEM', 'ISOLATION_LEVEL') FROM rdb$database",
    "SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID",
)
# A database that answers one of these has one level.
_ONE_LEVEL = ("SELECT sqlite_version()", "SELECT library_version FROM pragma_version()")

# What the questions are answered with: words of SQL, IBM's abbreviations, Firebird's word for locks on tables, and the numbers
# of JDBC and of SQL Server.
_ANSWERS = {
    "DIRTY READ": "READ UNCOMMITTED",
    "UR": "READ UNCOMMITTED",
    "CS": "READ COMMITTED",
    "CURSOR STABILITY": "READ COMMITTED",
    "RS": "REPEATABLE READ",
    "RR": "SERIALIZABLE",
    "CONSISTENCY": "SERIALIZABLE",
}
_OF_JDBC = {1: "READ UNCOMMITTED", 2: "READ COMMITTED", 4: "REPEATABLE READ", 8: "SERIALIZABLE"}
_OF_SQL_SERVER = {
    1: "READ UNCOMMITTED",
    2: "READ COMMITTED",
    3: "REPEATABLE READ",
    4: "SERIALIZABLE",
    5: "SNAPSHOT",
}
_WORDS = tuple(dict.fromkeys(name for names in NAMES.values() for name in names))
_SET = re.compile(
    rf"ISOLATION(?:[\s_]+LEVEL)?(?:\s+TO)?\s*=?\s*['\"]?({'|'.join(word.replace(' ', r'[ _-]') for word in _WORDS)})",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Found:
    """How a level is set, by which question it is asked for, if it can be, and what is said of it."""

    called: str
    question: str | None
    note: str


def levelled(
    driver: Driver, claims: Level, connected: Callable[[Driver], DriverConnection], *, only_level: bool
) -> tuple[Driver, Found]:
    """The driver with transactions at the level that is meant; ``UsageError`` if they cannot be known to be."""
    with closing(connected(driver)) as connection:
        question = next((question for question in _QUESTIONS if _reported(connection, question)), None)
        over_jdbc = connection.jdbc_level() is not None
        alone = only_level or _has_one_level(connection)
    named = named_in([*driver.setup, *driver.begin])
    candidates = [driver]
    if not driver.begin and named is None and not alone:
        candidates += _with_setters(driver, claims, over_jdbc=over_jdbc)
    if question is not None:
        return _that_reports(driver, candidates, question, claims, connected)
    if named is not None:
        if fits(named, claims):
            return driver, Found(named, None, "as it was set; the database does not tell")
        raise _refused(driver, claims, f"the statements of --begin and --setup set {named}")
    if alone:
        called = "; ".join(driver.begin) or "the database's own"
        return driver, Found(called, None, "the only one that the database has")
    for candidate in candidates[1:]:
        with closing(connected(candidate)) as connection:
            if _succeeds(connection, None):
                return candidate, Found("; ".join(candidate.begin), None, "as it was set; the database does not tell")
    raise UsageError(
        f"{driver.name}: the database does not tell at which level its transactions run, and nothing sets one; set it by --begin"
        " or --setup, or say --only-level if the database has no other"
    )


def _that_reports(
    driver: Driver,
    candidates: Sequence[Driver],
    question: str,
    claims: Level,
    connected: Callable[[Driver], DriverConnection],
) -> tuple[Driver, Found]:
    """The first of the candidates whose transactions the database calls what is meant."""
    said = ""
    for candidate in candidates:
        with closing(connected(candidate)) as connection:
            found = _reported(connection, question)
        if found is not None and fits(found, claims):
            return candidate, Found("; ".join(candidate.begin) or found, question, f"the database calls it {found}")
        said = said or found or ""
    raise _refused(driver, claims, f"the database says that they run at {said}")


def _refused(driver: Driver, claims: Level, why: str) -> UsageError:
    return UsageError(
        f"{driver.name}: {claims.value} was asked for, but of the transactions {why}; set the level by --begin or --setup, or ask"
        " for this one by --isolation"
    )


def _with_setters(driver: Driver, claims: Level, *, over_jdbc: bool) -> list[Driver]:
    """The driver with each way to set the level that is known."""
    if claims not in NAMES:
        return []
    name = NAMES[claims][0]
    by_jdbc = [replace(driver, jdbc_level=number) for number, word in _OF_JDBC.items() if word == name and over_jdbc]
    return by_jdbc + [replace(driver, begin=(setter.format(name),)) for setter in SETTERS]


def _succeeds(connection: DriverConnection, question: str | None) -> Rows | None:
    """What a transaction that asks this question gets; ``None`` if the database does not take it."""
    try:
        connection.begin(_NO_OFFER)
        found = Rows([], None) if question is None else connection.execute(question)
        connection.rollback()
    except OutsideError:
        with suppress(OutsideError):
            connection.rollback()
        return None
    return found


def _reported(connection: DriverConnection, question: str) -> str | None:
    """The level, in SQL's words, that a transaction of the connection is said to have."""
    try:
        connection.begin(_NO_OFFER)
        found = asked(connection, question)
        connection.rollback()
    except OutsideError:
        with suppress(OutsideError):
            connection.rollback()
        return None
    return found


def _has_one_level(connection: DriverConnection) -> bool:
    """Whether the database is known to have no other level than the one it runs at."""
    return any((found := _succeeds(connection, question)) is not None and found.rows for question in _ONE_LEVEL)


def asked(connection: DriverConnection, question: str) -> str | None:
    """The level, in SQL's words, that the open transaction is said to have; ``None`` if the answer is no level."""
    if question == _JDBC:
        number = connection.jdbc_level()
        return None if number is None else _OF_JDBC.get(number)
    rows = connection.execute(question).rows
    return _in_words(rows[0][0]) if rows and rows[0] else None


def named_in(statements: Sequence[str]) -> str | None:
    """The level that the last of the statements sets that sets one.

    >>> named_in(["SET x = 1", "begin isolation level repeatable read"]), named_in(["BEGIN"])
    ('REPEATABLE READ', None)
    """
    found = [match for statement in statements for match in _SET.finditer(statement)]
    return _in_words(found[-1][1]) if found else None


def fits(name: str, claims: Level) -> bool:
    """Whether a level of this name may be the one that is meant; for levels that SQL has no name for, any may."""
    return name in NAMES.get(claims, (name,))


def _in_words(answer: object) -> str | None:
    if isinstance(answer, int):
        return _OF_SQL_SERVER.get(answer)
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)
    words = re.sub(r"[\s_-]+", " ", text).strip().upper()
    words = _ANSWERS.get(words, words)
    return words if words in _WORDS else None
