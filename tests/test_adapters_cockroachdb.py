"""CockroachDB's order by answers in the shape that its documentation gives: no server of it could be had."""

from __future__ import annotations

from decimal import Decimal

import pytest

from isolde.databases.postgresql import PostgresqlDatabase
from isolde.databases.recoveries.cockroachdb import Change, Heard, begin_recovery, certificate_of, change_of
from isolde.databases.recovery import Account, Ended, Followed, Scope
from isolde.errors import DatabaseUnavailable, UsageError
from isolde.history.certificate import Installed, Sees, VersionSet

# https://www.cockroachlabs.com/docs/stable/changefeed-messages: a key, and a value with the options updated and mvcc_timestamp.
FEED = [
    (b"[1]", b'{"after": {"k": 1, "v": 11}, "mvcc_timestamp": "1659648005570630000.0000000000"}'),
    (b"[0]", b'{"after": {"k": 0, "v": 12}, "mvcc_timestamp": "1659648005570630000.0000000001"}'),
    # At least once: the same change again.
    (b"[1]", b'{"after": {"k": 1, "v": 11}, "mvcc_timestamp": "1659648005570630000.0000000000"}'),
    (b"[1]", b'{"after": null, "mvcc_timestamp": "1659648005570640000.0000000000"}'),
]
FIRST, SECOND, THIRD = (
    Decimal("1659648005570630000"),
    Decimal("1659648005570630000.0000000001"),
    Decimal("1659648005570640000"),
)


def account(name: str, *operations: Heard, at: Decimal | None, ended: Ended = Ended.COMMITTED) -> Account:
    return Account(name, ended, 0, tuple(enumerate(operations)), None if at is None else Heard(at=at))


def test_timestamps_are_read_with_all_of_their_digits() -> None:
    assert [change_of(*line) for line in FEED[:2]] == [Change(1, FIRST, 11), Change(0, SECOND, 12)]
    assert change_of(*FEED[3]) == Change(1, THIRD, None)


def test_the_order_of_commits_is_that_of_versions_and_of_what_is_seen() -> None:
    accounts = [
        account("1.0", Heard(reads=True), Heard(1, 11), at=FIRST),
        account("2.0", Heard(reads=True), Heard(0, 12), at=SECOND),
        account("3.0", Heard(reads=True), at=SECOND),
        # It never heard of its commit, and is known by what it left.
        account("4.0", Heard(reads=True), Heard(1), at=None, ended=Ended.UNKNOWN),
        account("5.0", Heard(1, 99), at=None, ended=Ended.UNKNOWN),
    ]
    told = certificate_of("", [change_of(*line) for line in FEED], accounts)
    assert told.objects == {
        1: Installed((None, ("1.0", 1), ("4.0", 1))),
        0: Installed((None, ("2.0", 1))),
    }
    assert told.serial == ("1.0", "2.0", "3.0", "4.0")
    assert told.reads["2.0", 0] == VersionSet(Sees(2, ("2.0",)))
    assert told.reads["3.0", 0] == VersionSet(Sees(2))


def test_changes_of_others_are_refused() -> None:
    with pytest.raises(DatabaseUnavailable, match="by nobody of this run"):
        certificate_of("", [Change(1, FIRST, 5)], [])


def test_what_is_not_told_is_refused_by_name() -> None:
    database = PostgresqlDatabase.__new__(PostgresqlDatabase)
    database._version = "CockroachDB CCL v24.1.0"
    committed, serializable = database.offers()
    with pytest.raises(UsageError, match="at SERIALIZABLE alone"):
        begin_recovery(database, Scope({"t": Followed(None, ("k",))}), (committed,))
    with pytest.raises(UsageError, match="on workloads of keys"):
        begin_recovery(database, Scope({"t": Followed("data", ("c0",))}), (serializable,))
