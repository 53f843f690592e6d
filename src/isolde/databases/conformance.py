"""The contract of adapters as checks against a real database: what every adapter passes, ours and others'.

    from isolde.databases import conformance

    def test_my_adapter():
        conformance.run(MY_ADAPTER, "mine://localhost/test")

``CHECKS`` can also be run one by one (``applicable`` says which fit an adapter), so that each is a test of its own.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, cast

from isolde.databases.contract import (
    Adapter,
    Connection,
    Database,
    Feature,
    Kind,
    Offer,
    SqlConnection,
    Table,
)
from isolde.databases.shapes import PLAIN, Places, Shape
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, IsoldeError, OutsideError, StatementFailed
from isolde.levels import Level, implies

_KEYS = 8
_BIG = 2**53 + 1


class NotConforming(AssertionError):
    """An adapter does not keep the contract; the text says where."""


@dataclass(frozen=True, slots=True)
class Subject:
    """An open database under test."""

    adapter: Adapter
    database: Database

    @property
    def strongest(self) -> Offer:
        return self.database.offers()[-1]

    @contextmanager
    def table(self, kind: Kind = Kind.REGISTERS, shapes: tuple[Shape, ...] = (PLAIN,)) -> Iterator[Table]:
        table = Table(f"isolde_conformance_{secrets.token_hex(6)}", kind, _KEYS * len(shapes), shapes)
        self.database.create(table)
        try:
            yield table
        finally:
            self.database.drop(table)

    @contextmanager
    def connection(self, table: Table) -> Iterator[Connection]:
        connection = self.database.connect(table)
        try:
            yield connection
        finally:
            connection.close()

    def transact(self, connection: Connection, *steps: Callable[[Connection], Any]) -> list[Any]:
        """One transaction at the strongest level, again if the database aborts it."""
        for _ in range(100):
            try:
                connection.begin(self.strongest)
                results = [step(connection) for step in steps]
                connection.commit()
            except Aborted:
                connection.rollback()
            else:
                return results
        raise NotConforming("a hundred transactions in a row were aborted with nobody else there")

    def read(self, connection: Connection, *keys: int) -> list[Any]:
        return [json.loads(raw) for raw in self.transact(connection, *[_reading(key) for key in keys])]


def _reading(key: int) -> Callable[[Connection], bytes]:
    return lambda connection: connection.read(key)


def _writing(key: int, value: int) -> Callable[[Connection], None]:
    return lambda connection: connection.write(key, value)


def _appending(key: int, element: int) -> Callable[[Connection], None]:
    return lambda connection: connection.append(key, element)


def _equal(found: object, expected: object, what: str) -> None:
    if found != expected or type(found) is not type(expected):
        raise NotConforming(f"{what}: found {found!r}, expected {expected!r}")


def _fails(action: Callable[[], Any], kind: type[IsoldeError], what: str) -> IsoldeError:
    try:
        action()
    except kind as error:
        return error
    except IsoldeError as error:
        raise NotConforming(f"{what}: raised {type(error).__name__} ({error}), expected {kind.__name__}") from error
    raise NotConforming(f"{what}: nothing was raised, expected {kind.__name__}")


def says_what_it_is(subject: Subject) -> None:
    if not subject.database.version().strip():
        raise NotConforming("version() is empty")
    names = [offer.name for offer in subject.database.offers()]
    if not names or len(set(names)) != len(names):
        raise NotConforming(f"levels must be there and differ: {names}")
    if {ability.feature for ability in subject.adapter.abilities} != set(Feature):
        raise NotConforming("abilities must say something about every feature")
    if not all(ability.how.strip() for ability in subject.adapter.abilities):
        raise NotConforming("an ability, and the lack of one, needs a reason")


def registers_start_at_zero(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        _equal(subject.read(connection, *range(_KEYS)), [0] * _KEYS, "the first values")
        _equal(subject.read(connection, _KEYS), [None], "a key that was never written")


def lists_start_empty(subject: Subject) -> None:
    with subject.table(Kind.LISTS) as table, subject.connection(table) as connection:
        _equal(subject.read(connection, 0, _KEYS), [[], []], "the first lists, there and absent")


def what_is_there_is_not_touched(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        subject.transact(connection, _writing(0, 5))
        _fails(lambda: subject.database.create(table), DatabaseUnavailable, "making a table that is there")
        _equal(subject.read(connection, 0), [5], "a table after somebody tried to make it again")


def a_commit_is_seen_by_others(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        subject.transact(one, _writing(3, _BIG), _writing(_KEYS + 1, 7))
        _equal(subject.read(two, 3, _KEYS + 1), [_BIG, 7], "what another session committed")


def a_transaction_reads_its_own_writes(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        seen = subject.transact(connection, _reading(1), _writing(1, 11), _reading(1), _writing(1, 12), _reading(1))
        _equal([json.loads(raw) for raw in seen if raw is not None], [0, 11, 12], "own writes")


def a_rollback_leaves_nothing(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        connection.begin(subject.strongest)
        connection.write(0, 9)
        connection.write(_KEYS + 2, 9)
        connection.rollback()
        connection.rollback()
        _equal(subject.read(connection, 0, _KEYS + 2), [0, None], "after a rollback")


def keys_go_and_come_back(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        found, _ = subject.transact(connection, lambda c: c.delete(2), lambda c: c.delete(_KEYS + 3))
        _equal(found, True, "whether the delete of a key that is there is a write")
        _equal(subject.read(connection, 2), [None], "a deleted key")
        seen = subject.transact(
            connection, lambda c: c.insert(2, 21), _reading(2), lambda c: c.delete(2), _reading(2), _writing(2, 22)
        )
        _equal([json.loads(raw) for raw in seen if isinstance(raw, bytes)], [21, None], "inserted and deleted again")
        _equal(subject.read(connection, 2), [22], "written after its deletion")


def an_insert_of_what_is_there_aborts(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:

        def insert_twice() -> None:
            connection.begin(subject.strongest)
            connection.insert(0, 1)
            connection.commit()

        _fails(insert_twice, Aborted, "an insert of a key that is there")
        connection.rollback()
        _equal(subject.read(connection, 0), [0], "after a refused insert")


def a_commit_after_a_refusal_tells_what_became_of_it(subject: Subject) -> None:
    """Some databases answer COMMIT with success after a refused statement, and roll back; others go on."""
    with subject.table() as table, subject.connection(table) as connection:
        connection.begin(subject.strongest)
        connection.write(1, 5)
        try:
            connection.insert(0, 1)
        except Aborted:
            refused = True
        else:
            refused = False
        try:
            connection.commit()
        except Aborted:
            connection.rollback()
            expected = 0
        else:
            expected = 5
        _equal(refused or expected == 0, True, "whether an insert of a key that is there was refused")
        _equal(subject.read(connection, 0, 1), [0, expected], "what a commit after a refused statement told")


def lists_grow_at_their_end(subject: Subject) -> None:
    with subject.table(Kind.LISTS) as table, subject.connection(table) as connection:
        for element in (3, 1, 2):
            subject.transact(connection, _appending(0, element), _appending(_KEYS, element))
        _equal(subject.read(connection, 0, _KEYS), [[3, 1, 2], [3, 1, 2]], "appended elements")
        connection.begin(subject.strongest)
        connection.append(0, 4)
        _equal(json.loads(connection.read(0)), [3, 1, 2, 4], "a list with an own element")
        connection.rollback()
        _equal(subject.read(connection, 0), [[3, 1, 2]], "a list after a rollback")


def a_swap_compares(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        done, refused = subject.transact(
            connection, lambda c: c.compare_and_set(0, 0, 5), lambda c: c.compare_and_set(1, 4, 6)
        )
        _equal((done.applied, refused.applied), (True, False), "compare-and-set of what was there, and of what was not")
        if refused.current is not None:
            _equal(json.loads(refused.current), 0, "the value that a failed compare-and-set showed")
        _equal(subject.read(connection, 0, 1), [5, 0], "after compare-and-sets")


def an_insert_if_not_exists_compares(subject: Subject) -> None:
    """A compare-and-set that expects nothing inserts what is absent, and shows what is there."""
    with subject.table() as table, subject.connection(table) as connection:
        absent = table.keys + 1
        [swap] = subject.transact(connection, methodcaller("compare_and_set", absent, None, 5))
        _equal(swap.applied, True, "an insert-if-not-exists of an absent key")
        [again] = subject.transact(connection, methodcaller("compare_and_set", absent, None, 6))
        _equal((again.applied, again.current), (False, b"5"), "an insert-if-not-exists of a key that is there")
        _equal(subject.read(connection, absent), [5], "what was inserted")


def every_shape_of_table_keeps_values(subject: Subject) -> None:
    """Keys live in tables of every shape, and are written in every form; those that share a row stay apart."""
    shapes = subject.adapter.shapes
    places = Places(shapes)
    with subject.table(shapes=shapes) as table, subject.connection(table) as connection:
        expected = {key: key + 1 for key in range(table.keys)}
        subject.transact(connection, *[_writing(key, value) for key, value in expected.items()])
        for key, shape in enumerate(shapes):
            values = {one: 1000 + one for one in (key, *places.row_mates(key))}
            if len(values) > 1:
                subject.transact(connection, methodcaller("write_row", values))
                expected |= values
            [swap] = subject.transact(connection, methodcaller("compare_and_set", key, expected[key], 2000 + key))
            _equal(swap.applied, True, f"a compare-and-set of what is there ({shape})")
            expected[key] = 2000 + key
        _equal(subject.read(connection, *expected), list(expected.values()), "what was written")


def keys_go_and_come_back_in_every_shape(subject: Subject) -> None:
    """A key is deleted and inserted again while the others of its row stay."""
    shapes = subject.adapter.shapes
    with subject.table(shapes=shapes) as table, subject.connection(table) as connection:
        for key, shape in enumerate(shapes):
            steps = (methodcaller("delete", key), _reading(key), methodcaller("delete", key))
            _equal(subject.transact(connection, *steps), [True, b"null", False], f"a delete, and another one ({shape})")
            subject.transact(connection, methodcaller("insert", key, key + 7))
            mates = Places(shapes).row_mates(key)
            found = subject.read(connection, key, *mates)
            _equal(found, [key + 7, *[0] * len(mates)], f"what was inserted, and what is beside it ({shape})")


def lists_grow_in_every_shape(subject: Subject) -> None:
    shapes = subject.adapter.shapes
    with subject.table(Kind.LISTS, shapes) as table, subject.connection(table) as connection:
        for key, shape in enumerate(shapes):
            elements = [10 * key + 101, 10 * key + 206]
            for element in elements:
                subject.transact(connection, _appending(key, element))
            _equal(subject.read(connection, key), [elements], f"a list ({shape})")


def every_level_can_be_had(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        for number, offer in enumerate(subject.database.offers(), 1):
            connection.begin(offer)
            connection.read(0)
            connection.write(0, number)
            connection.commit()
            _equal(subject.read(connection, 0), [number], f"after a transaction at {offer.name}")


def commits_count(subject: Subject) -> None:
    """Increments by several sessions at once: where updates cannot be lost, what commit said is what is there.

    An adapter that takes a silent rollback for a commit, or an abort for a commit, fails here.
    """
    offers = [offer for offer in subject.database.offers() if _forbids_lost_updates(offer.claims)]
    for offer in offers:
        with subject.table() as table:
            committed = increments(subject, table, offer, sessions=4, each=15)
            with subject.connection(table) as connection:
                (total,) = subject.read(connection, 0)
        _equal(total, committed, f"increments at {offer.name} against commits")


def _forbids_lost_updates(level: Level) -> bool:
    return implies(level, Level.SNAPSHOT_ISOLATION) or implies(level, Level.REPEATABLE_READ)


def increments(subject: Subject, table: Table, offer: Offer, *, sessions: int, each: int) -> int:
    """How many increments of key 0 were committed, of those that sessions tried at once."""
    counts = [0] * sessions
    failures: list[BaseException] = []

    def session(number: int) -> None:
        try:
            with subject.connection(table) as connection:
                for _ in range(each):
                    try:
                        connection.begin(offer)
                        value = json.loads(connection.read(0))
                        connection.write(0, value + 1)
                        connection.commit()
                        counts[number] += 1
                    except Aborted:
                        connection.rollback()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=session, args=(number,)) for number in range(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    if not sum(counts):
        raise NotConforming(f"of {sessions * each} increments at {offer.name} none was committed")
    return sum(counts)


def a_broken_connection_says_so(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        one.begin(subject.strongest)
        one.write(0, 1)
        one.abandon()

        def go_on() -> None:
            one.read(0)
            one.commit()

        try:
            go_on()
        except (ConnectionLost, Aborted):
            # Whoever goes on all the same hears it again, in our words and not in the driver's.
            for again in (lambda: one.read(0), one.rollback, lambda: one.begin(subject.strongest)):
                with suppress(OutsideError):
                    again()
            one.close()
            _equal(subject.read(two, 0), [0], "after a connection broke inside a transaction")
        else:
            # An embedded database has no connection to lose: it may go on as if nothing had happened.
            _equal(subject.read(two, 0), [1], "after a commit")


def nothing_stays_behind(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        subject.transact(connection, _writing(0, 5), _writing(_KEYS + 4, 5))
    subject.database.create(table)
    try:
        with subject.connection(table) as connection:
            _equal(subject.read(connection, 0, _KEYS + 4), [0, None], "a table made anew under an old name")
    finally:
        subject.database.drop(table)


def sql_answers_with_rows_and_counts(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        sql = cast(SqlConnection, connection)
        sql.begin(subject.strongest)
        rows = sql.execute(f"SELECT k, v FROM {table.name} WHERE k < 2 ORDER BY k")
        _equal([tuple(row) for row in rows.rows or []], [(0, 0), (1, 0)], "rows of a query")
        changed = sql.execute(f"UPDATE {table.name} SET v = 4 WHERE k >= 6")
        _equal((changed.rows, changed.count), (None, 2), "rows and count of an update")
        sql.commit()
        _equal(subject.read(connection, 5, 6, 7), [0, 4, 4], "after an update of a range")


def a_wrong_statement_is_named(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        sql = cast(SqlConnection, connection)
        sql.begin(subject.strongest)
        wrong = f"SELECT nothing_of_this_name FROM {table.name}"
        error = _fails(lambda: sql.execute(wrong), StatementFailed, "a wrong statement")
        _equal(cast(StatementFailed, error).statement, wrong, "the statement that the error names")
        sql.rollback()
        _equal(subject.read(connection, 0), [0], "after a wrong statement and a rollback")


@dataclass(frozen=True, slots=True)
class Check:
    """One check, and the abilities without which it means nothing."""

    run: Callable[[Subject], None]
    needs: tuple[Feature, ...] = ()

    @property
    def name(self) -> str:
        return self.run.__name__


CHECKS = (
    Check(says_what_it_is),
    Check(registers_start_at_zero),
    Check(lists_start_empty, (Feature.LISTS,)),
    Check(what_is_there_is_not_touched),
    Check(a_commit_is_seen_by_others),
    Check(a_transaction_reads_its_own_writes, (Feature.TRANSACTIONS,)),
    Check(a_rollback_leaves_nothing, (Feature.TRANSACTIONS,)),
    Check(keys_go_and_come_back, (Feature.TRANSACTIONS, Feature.DELETES)),
    Check(an_insert_of_what_is_there_aborts, (Feature.DELETES,)),
    Check(a_commit_after_a_refusal_tells_what_became_of_it, (Feature.TRANSACTIONS, Feature.DELETES)),
    Check(lists_grow_at_their_end, (Feature.LISTS,)),
    Check(a_swap_compares, (Feature.COMPARE_AND_SET,)),
    Check(an_insert_if_not_exists_compares, (Feature.COMPARE_AND_SET,)),
    Check(every_shape_of_table_keeps_values, (Feature.SQL,)),
    Check(keys_go_and_come_back_in_every_shape, (Feature.SQL, Feature.DELETES)),
    Check(lists_grow_in_every_shape, (Feature.SQL, Feature.LISTS)),
    Check(every_level_can_be_had),
    Check(commits_count, (Feature.TRANSACTIONS,)),
    Check(a_broken_connection_says_so),
    Check(nothing_stays_behind),
    Check(sql_answers_with_rows_and_counts, (Feature.SQL,)),
    Check(a_wrong_statement_is_named, (Feature.SQL,)),
)


def applicable(adapter: Adapter) -> tuple[Check, ...]:
    """The checks that fit what the adapter says it can do."""
    return tuple(check for check in CHECKS if all(adapter.able(feature).able for feature in check.needs))


def run(adapter: Adapter, url: str) -> None:
    """Opens the database and runs every check that fits; raises ``NotConforming`` at the first that fails."""
    database = adapter.open(url)
    try:
        for check in applicable(adapter):
            try:
                check.run(Subject(adapter, database))
            except NotConforming as error:
                raise NotConforming(f"{adapter.name}: {check.name}: {error}") from error
    finally:
        database.close()
