"""Why a statement failed, in one word of the history format, from what databases say: SQLSTATE, error numbers, or their text.

serialization-failure, deadlock, lock-timeout, unique, foreign-key, check, not-null, arithmetic, transaction-failed, other.
"""

from __future__ import annotations

import re

OTHER = "other"

# https://www.postgresql.org/docs/current/errcodes-appendix.html; class 22 beyond these is about types, not numbers.
_STATES = {
    "40P01": "deadlock",
    "55P03": "lock-timeout",
    "23505": "unique",
    "23P01": "unique",
    "23503": "foreign-key",
    "23001": "foreign-key",
    "23514": "check",
    "23502": "not-null",
    "22012": "arithmetic",
    "22003": "arithmetic",
    "2201E": "arithmetic",
    "2201F": "arithmetic",
    "25P02": "transaction-failed",
}
# MySQL's and MariaDB's. 1205: waited too long; 3572: not to be had at once (NOWAIT, as MySQL says it). 1020 is what
# innodb_snapshot_isolation answers; 3101 a conflict between nodes; 8002 and on are of TiDB, which finds conflicts at COMMIT.
_NUMBERS = {
    1213: "deadlock",
    1205: "lock-timeout",
    3572: "lock-timeout",
    1020: "serialization-failure",
    3101: "serialization-failure",
    **dict.fromkeys((8002, 8022, 8028, 9007), "serialization-failure"),
    **dict.fromkeys((1062, 1169, 1586), "unique"),
    **dict.fromkeys((1216, 1217, 1451, 1452, 1761, 1762), "foreign-key"),
    3819: "check",
    4025: "check",
    **dict.fromkeys((1048, 1263, 1364), "not-null"),
    1365: "arithmetic",
    1264: "arithmetic",
    1690: "arithmetic",
}
# SQLite's extended result codes (https://www.sqlite.org/rescode.html); the low byte of all that are busy or locked is 5 or 6.
_SQLITE = {2067: "unique", 1555: "unique", 2579: "unique", 787: "foreign-key", 275: "check", 1299: "not-null"}
_SQLITE_LOCKED = (5, 6)
# In this order: a text on a unique key may speak of a conflict, too.
_WORDS = (
    ("deadlock", r"deadlock"),
    ("foreign-key", r"foreign key"),
    ("not-null", r"not.null"),
    ("unique", r"unique|duplicate|primary key"),
    ("check", r"\bcheck\b"),
    ("serialization-failure", r"serializ|conflict|record has changed|snapshot|concurrent|restart transaction"),
    ("lock-timeout", r"\block|busy"),
    ("arithmetic", r"division by zero|out of range|overflow"),
)


def of_sqlstate(state: str) -> str:
    """The word of an SQLSTATE.

    >>> of_sqlstate("40001"), of_sqlstate("23505"), of_sqlstate("42601")
    ('serialization-failure', 'unique', 'other')
    """
    return _STATES.get(state, "serialization-failure" if state.startswith("40") else OTHER)


def of_mysql(number: int) -> str:
    """The word of an error number of MySQL or MariaDB."""
    return _NUMBERS.get(number, OTHER)


def of_sqlite(code: int) -> str:
    """The word of an extended result code of SQLite."""
    return "lock-timeout" if code & 0xFF in _SQLITE_LOCKED else _SQLITE.get(code, OTHER)


def of_text(reason: str) -> str:
    """The word that a text suggests, where there is nothing else.

    >>> of_text("Transaction conflict on update!"), of_text("Duplicate key violates unique constraint")
    ('serialization-failure', 'unique')
    """
    return next((word for word, pattern in _WORDS if re.search(pattern, reason, re.IGNORECASE)), OTHER)
