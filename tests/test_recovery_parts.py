"""What databases' own logs and snapshots say, put together: against plain definitions, and on recorded lines."""

from __future__ import annotations

import random

import pytest

from isolde.databases.recoveries import etcd, mariadb, postgresql
from isolde.databases.recoveries.binlog import Columns, Group, Reader
from isolde.databases.recoveries.decoding import Committed, Decoder, Written, widened
from isolde.databases.recoveries.listening_postgresql import Heard
from isolde.databases.recoveries.snapshots import Commits, Snapshot
from isolde.databases.recovery import Account, Ended, Followed
from isolde.errors import DatabaseUnavailable
from isolde.history.certificate import Installed, RowId, Sees, VersionSet


@pytest.mark.parametrize("seed", range(200))
def test_what_a_snapshot_shows_is_told_transaction_by_transaction(seed: int) -> None:
    chance = random.Random(seed)
    xids = chance.sample(range(100, 140), 20)
    commits = Commits([(xid, f"t{xid}") for xid in xids])
    for _ in range(20):
        xmax = chance.randint(100, 141)
        under_way = frozenset(chance.sample(range(100, xmax), min(xmax - 100, chance.randint(0, 6))))
        snapshot = Snapshot(min(under_way, default=xmax), xmax, under_way)
        own = chance.choice([None, *xids])
        sees = commits.sees(snapshot, own)
        told = {f"t{xid}" for xid in xids[: sees.first]} - set(sees.without) | set(sees.also)
        assert told == {f"t{xid}" for xid in xids if snapshot.shows(xid) and xid != own}


def test_ids_of_32_bits_are_widened_across_their_end() -> None:
    now = 3 * 2**32 + 10
    assert [widened(xid, now) for xid in (10, 2**32 - 1, 0)] == [now, 3 * 2**32 - 1, 3 * 2**32]


LOG = [
    "BEGIN 7",
    "table public.\"p_Order\": INSERT: \"No\"[integer]:1 name[character varying]:'O''Hara: [x]:1' v[bigint]:null",
    "table public.other: INSERT: id[integer]:1",
    'table public."p_Order": UPDATE: old-key: "No"[integer]:1 name[character varying]:\'a\' new-tuple: '
    "\"No\"[integer]:2 name[character varying]:'a' v[bigint]:5",
    "COMMIT 7",
    "BEGIN 8",
    "table public.other: INSERT: id[integer]:2",
    "COMMIT 8",
    "BEGIN 9",
    'table public."p_Order": DELETE: "No"[integer]:2 name[character varying]:\'a\'',
    "COMMIT 9",
]


def test_rows_of_the_log_are_known_by_their_primary_keys() -> None:
    decoder = Decoder({"p_Order": Followed("Order", ("No", "name"))})
    # In parts, as the server gives them.
    found = [one for start in range(0, len(LOG), 4) for one in decoder.transactions(LOG[start : start + 4])]
    first, moved = RowId("Order", (1, "O'Hara: [x]:1")), RowId("Order", (2, "a"))
    assert found == [
        Committed(7, (Written(first), Written(moved, moved_from=RowId("Order", (1, "a"))))),
        Committed(9, (Written(moved, dead=True),)),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("table public.t: INSERT: id[uuid]:'x'", "of type uuid"),
        ("table public.t: TRUNCATE: (no-flags)", "truncated"),
    ],
)
def test_what_a_certificate_cannot_say_is_refused(line: str, reason: str) -> None:
    with pytest.raises(DatabaseUnavailable, match=reason):
        list(Decoder({"t": Followed("t", ("id",))}).transactions(["BEGIN 1", line, "COMMIT 1"]))


def _account(name: str, *heard: Heard, commit: Heard | None = None) -> Account:
    return Account(name, Ended.COMMITTED, 0, tuple(enumerate(heard)), commit)


def test_rows_that_no_statement_accounts_for_are_refused() -> None:
    account = _account("a", Heard(b"5:5:", 5, 1))
    row = Written(RowId("t", (1,)))
    with pytest.raises(DatabaseUnavailable, match="triggers, cascades and undone savepoints"):
        postgresql.certificate_of("", [(5, Committed(5, (row, row)))], [account])
    with pytest.raises(DatabaseUnavailable, match="none of this run"):
        postgresql.certificate_of("", [(6, Committed(6, (row,)))], [account])


def test_a_row_that_was_looked_at_again_is_told_in_its_newer_version() -> None:
    """T6 waits for T5, whose change its snapshot does not show, and changes what T5 left."""
    thing = RowId("t", (1,))
    first = _account("five", Heard(b"5:5:", 5, 1, reads=True))
    second = _account("six", Heard(b"5:7:5", 6, 1, reads=True, looks_again=True, found=(thing,)), commit=Heard(b"6:7:"))
    log = [(5, Committed(5, (Written(thing),))), (6, Committed(6, (Written(thing),)))]
    told = postgresql.certificate_of("", log, [first, second])
    assert told.objects == {thing: Installed((None, ("five", 0), ("six", 0)))}
    assert told.reads["six", 0] == VersionSet(Sees(0), {thing: ("five", 0)})


def test_a_row_that_was_deleted_meanwhile_is_told_dead_although_another_came_after_it() -> None:
    thing = RowId("t", (1,))
    waits = Heard(b"5:8:5,6", None, 0, reads=True, looks_again=True, found=(thing,))
    accounts = [
        _account("delete", Heard(b"5:5:", 5, 1)),
        _account("insert", Heard(b"6:6:", 6, 1)),
        _account("update", waits, commit=Heard(b"8:8:")),
    ]
    log = [(5, Committed(5, (Written(thing, dead=True),))), (6, Committed(6, (Written(thing),)))]
    told = postgresql.certificate_of("", log, accounts)
    assert told.reads["update", 0] == VersionSet(Sees(0), {thing: ("delete", 0)})


def test_an_insert_over_a_row_that_was_deleted_meanwhile_met_the_delete_at_every_level() -> None:
    thing = RowId("t", (1,))
    accounts = [
        _account("delete", Heard(b"5:5:", 5, 1)),
        _account("upsert", Heard(b"5:7:5", 6, 1, reads=True, inserts=True)),
    ]
    log = [(5, Committed(5, (Written(thing, dead=True),))), (6, Committed(6, (Written(thing),)))]
    told = postgresql.certificate_of("", log, accounts)
    assert told.reads["upsert", 0] == VersionSet(Sees(0), {thing: ("delete", 0)})


BINLOG = rb"""#261118 11:29:04 server id 1  end_log_pos 541 CRC32 0x10edeb59 	GTID 0-1-2 trans
START TRANSACTION
#261118 11:29:04 server id 1  end_log_pos 635 CRC32 0x896d56af 	Annotate_rows:
#Q> /*isolde:3:1*/ insert into t values (1,-2,
#Q> 'x')
#261118 11:29:04 server id 1  end_log_pos 683 CRC32 0x385fa2c2 	Table_map: `test`.`t` mapped to number 18
### INSERT INTO `test`.`t`
### SET
###   @1=1
###   @2=-2 (4294967294)
###   @3='it's \x0a'
### INSERT INTO `other`.`t`
### SET
###   @1=9
#261118 11:29:04 server id 1  end_log_pos 963 CRC32 0x9b4422be 	Xid = 18
COMMIT/*!*/;
#261118 11:29:04 server id 1  end_log_pos 1005 CRC32 0xb814cdde 	GTID 0-1-3 trans
#261118 11:29:04 server id 1  end_log_pos 1069 CRC32 0x35e4f82f 	Annotate_rows:
#Q> /*isolde:4:7*/ update t set k = 5
### UPDATE `test`.`t`
### WHERE
###   @2=-2 (4294967294)
###   @3='it's \x0a'
### SET
###   @2=5
###   @3='it's \x0a'
#261118 11:29:04 server id 1  end_log_pos 1359 CRC32 0xc58896e3 	Xid = 30
"""


def test_rows_of_the_binary_log_are_known_by_their_keys_and_by_the_statement_that_wrote_them() -> None:
    reader = Reader({"t": Columns("t", (2, 3))}, "test", "log.000001")
    before, after = RowId("t", (-2, "it's \n")), RowId("t", (5, "it's \n"))
    found = [(group.number, group.written) for group in reader.groups(BINLOG.splitlines(keepends=True))]
    assert found == [(2, (((3, 1), (before,)),)), (3, (((4, 7), (before, after)),))]


def test_what_mariadb_shows_is_told_by_connections() -> None:
    """Connection 1 is at its statement 4, of which 2 was seen; connection 2 at 1, which was."""
    accounts = [
        Account("a", Ended.COMMITTED, 0, ((0, mariadb.Heard(((1, 2),))),)),
        Account("b", Ended.COMMITTED, 1, ((0, mariadb.Heard(((1, 4),))),)),
        Account("c", Ended.COMMITTED, 2, ((0, mariadb.Heard(((2, 1),))),)),
        Account("reader", Ended.COMMITTED, 3, ((0, mariadb.Heard(shown=((1, 2), (2, 1)))),)),
    ]
    order = [("a", (1, 2)), ("b", (1, 4)), ("c", (2, 1))]
    groups = [Group(number, ("log", number), ((tag, (RowId("t", (1,)),)),)) for number, (_, tag) in enumerate(order)]
    told = mariadb.certificate_of("", groups, accounts)
    assert told.commits == ("a", "b", "c")
    assert told.reads == {("reader", 0): VersionSet(Sees(1, (), ("c",)))}
    assert told.serial is None


def test_etcd_says_what_became_of_a_transaction_whose_client_never_heard() -> None:
    wrote = etcd.Heard(None, None, 3, b"17")
    lost = Account("lost", Ended.UNKNOWN, 0, ((0, wrote),))
    read = Account("read", Ended.COMMITTED, 1, ((0, etcd.Heard(9, 3)),))
    told = etcd.certificate_of("", {8: {3: b"17"}}, [lost, read], serial=True)
    assert told.objects == {3: Installed((None, ("lost", 0)))}
    assert told.serial == ("lost", "read")
    nothing = etcd.certificate_of("", {}, [lost, read], serial=True)
    assert (list(nothing.objects), nothing.serial) == ([], ("read",))


def test_an_id_that_a_killed_server_gave_twice_is_that_of_the_transaction_that_was_committed() -> None:
    heard = Heard(snapshot=b"5:5:", xid=7, changed=1)
    accounts = [
        Account("1.0", Ended.ABORTED, 0, ((0, heard),)),
        Account("2.0", Ended.UNKNOWN, 1, ((0, heard),)),
        Account("3.0", Ended.COMMITTED, 2, ((0, heard),)),
    ]
    told = postgresql.certificate_of("", [(7, Committed(7, (Written(1),)))], accounts)
    assert told.objects[1].versions == (None, ("3.0", 0))
