"""A database of a MariaDB or MySQL server in which schedules are played. InnoDB itself tells who waits.

``information_schema.innodb_trx`` and ``innodb_lock_waits`` are copies that the server renews at most ten times a second, and
never while somebody reads them more often; ``SHOW ENGINE INNODB STATUS`` tells of this very moment, but not for whom a
transaction waits. So the status is asked for every step, and the tables only if the caller wants to know for whom.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from isolde.databases.contract import Database, Kind, Offer, Table
from isolde.databases.error_words import of_mysql
from isolde.databases.mariadb import MariadbConnection, MariadbDatabase
from isolde.databases.stage import Answer, Stage, StagedSession, Waiting
from isolde.databases.stages.tables import Prepared, in_order_of_creation
from isolde.errors import ConnectionLost, DatabaseUnavailable, OutsideError, StatementFailed, UsageError
from isolde.history.schedule import Ended, Failure, Row, sorted_rows, values_of
from isolde.tx.dialects import Dialect
from isolde.tx.script import begins, changes, commits, is_plain, is_setting, rolls_back, sets, statements_of

# https://mariadb.com/kb/en/mariadb-error-code-reference/; the SQLSTATE of errors and, of the rest, of their words.
_STATES: dict[int | Failure, str] = {
    1213: "40001",
    1364: "HY000",
    1365: "22012",
    **dict.fromkeys((1264, 1690), "22003"),
    **dict.fromkeys((Failure.UNIQUE, Failure.FOREIGN_KEY, Failure.CHECK, Failure.NOT_NULL), "23000"),
    **dict.fromkeys((Failure.SERIALIZATION_FAILURE, Failure.LOCK_TIMEOUT), "HY000"),
}
# After these InnoDB has rolled the whole transaction back, after all others the statement alone.
_ENDS = (1213, 1020, 3101)
_PATIENCE_S = 20.0
# Where the server does not tell who waits.
_BLIND_PATIENCE_S = 0.5
# A wait is to end by another step, not by the clock.
_LOCK_WAIT_S = 3600
# Between a lock that is not to be had and the search for a deadlock there are some instructions: a wait is looked at twice.
_CONFIRM_S = 0.003
# How old the server's own copy of its transactions may be.
_COPY_S = 0.12
_TRANSACTION = re.compile(r"^---TRANSACTION .*?(?=^---|\Z)", re.MULTILINE | re.DOTALL)
_THREAD = re.compile(r"^(?:MariaDB|MySQL) thread id (\d+),", re.MULTILINE)
# What waits for something else than rows says so in the list of processes.
_OTHER_WAITS = ("waiting for table", "waiting for schema", "waiting for stored", "waiting for global", "user lock")


class MariadbSession:
    def __init__(self, connection: MariadbConnection, stage: MariadbStage) -> None:
        self._connection, self._stage = connection, stage
        self.thread = int(stage.one(connection, "SELECT CONNECTION_ID()"))
        self._default = str(stage.one(connection, stage.level_query))
        self._open = self._lost = self._locked = False
        self._level, self._changed, self._uses = self._default, False, -1
        connection.execute(f"SET SESSION innodb_lock_wait_timeout = {_LOCK_WAIT_S}, SESSION time_zone = '+00:00'")

    def run(self, text: str) -> list[Answer]:
        kept = [part for part in statements_of(text, Dialect.MYSQL) if not is_setting(part)]
        self._stage.plain.look(kept)
        self._locked = self._locked or "get_lock" in text.lower()
        self._changed = self._changed or not all(map(is_plain, kept)) or any(map(sets, kept))
        answers: list[Answer] = []
        for statement in kept:
            answers.append(self._one(statement))
            if answers[-1].error is not None:
                break
        return answers

    def _one(self, statement: str) -> Answer:
        try:
            returned = self._connection.execute(statement)
        except ConnectionLost:
            raise
        except OutsideError as error:
            return self._failed(statement, error)
        rows = None if returned.rows is None else values_of(returned.rows)
        # The driver tells of every statement how many rows it met.
        count = returned.count if changes(statement) and not (rows and statement[:6].lower() == "select") else None
        ended = None
        if begins(statement):
            self._open, self._lost = True, False
        elif commits(statement) or rolls_back(statement):
            # After a deadlock COMMIT is accepted, and there is nothing left to commit.
            if self._lost or (self._open and rolls_back(statement)):
                ended = Ended.ROLLED_BACK
            elif self._open:
                ended = Ended.COMMITTED
            self._open = self._lost = False
        return Answer(statement, rows, count, ended=ended)

    def _failed(self, statement: str, error: OutsideError) -> Answer:
        code = getattr(error, "code", None) or 0
        failure = Failure(of_mysql(code))
        state = _STATES.get(code) or _STATES.get(failure)
        ended = None
        if code in _ENDS and self._open:
            self._open, self._lost, ended = False, True, Ended.ROLLED_BACK
        return Answer(
            statement, error=failure, sqlstate=state, message=str(getattr(error, "reason", error)), ended=ended
        )

    def restore(self, offer: Offer | None) -> None:
        self.roll_back()
        if self._uses != self._stage.made:
            self._connection.execute(f"USE {self._stage.name}")
            self._uses = self._stage.made
        level = (offer.called if offer else self._default).replace(" ", "-")
        if self._changed or level != self._level:
            self._connection.execute(f"SET autocommit = 1, SESSION {self._stage.level_variable} = '{level}'")
            self._level, self._changed = level, False

    def roll_back(self) -> None:
        self._connection.execute("ROLLBACK")
        if self._locked:
            self._connection.execute("DO RELEASE_ALL_LOCKS()")
            self._locked = False
        self._open = self._lost = False

    def cancel(self) -> None:
        self._stage.kill_query(self.thread)

    def close(self) -> None:
        self._connection.close()


class MariadbStage:
    dialect = Dialect.MYSQL
    deadlocks_linger = False

    def __init__(self, database: MariadbDatabase) -> None:
        self._database = database
        self.name = f"isolde_{secrets.token_hex(6)}"
        self.plain = Prepared()
        self.made = 0
        self._administrator = self._connect()
        version = database.version()
        self.store = ("mariadb " if "MariaDB" in version else "mysql ") + re.sub(r"^\D*([\d.]*).*", r"\1", version)
        self._copied_at = 0.0
        try:
            self.level_variable = self._variable_name("tx_isolation", "transaction_isolation")
            self.level_query = f"SELECT @@SESSION.{self.level_variable}"
            self.settings: Mapping[str, str] = self._settings()
            self._tells = self._can_tell()
            self.patience_s = _PATIENCE_S if self._tells else _BLIND_PATIENCE_S
            self._ask(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")
            self._ask(f"USE {self.name}")
        except OutsideError as error:
            self._administrator.close()
            reason = getattr(error, "reason", error)
            raise DatabaseUnavailable(
                f"no private database could be made for schedules: {reason}; the user needs the rights CREATE and DROP"
            ) from None

    def prepare(self, schema: Sequence[str], rows: Mapping[str, Sequence[Row]]) -> None:
        filled = in_order_of_creation(schema, rows)
        prepared = (tuple(schema), tuple(f"{table}: {some!r}" for table, some in filled))
        again = self.plain.same(prepared)
        if again:
            self._ask("SET foreign_key_checks = 0")
            for name in self._names():
                self._ask(f"TRUNCATE TABLE {_quoted(name)}")
            self._ask("SET foreign_key_checks = 1")
        else:
            self.plain.forget()
            self._ask(f"DROP DATABASE {self.name}")
            self._ask(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")
            self._ask(f"USE {self.name}")
            self.made += 1
        for text in schema:
            if changes(text) or not (again or is_setting(text)):
                self._ask(text)
        for table, some in filled:
            marks = ", ".join("(" + ", ".join(["%s"] * len(row)) + ")" for row in some)
            self._ask(f"INSERT INTO {_quoted(table)} VALUES {marks}", [value for row in some for value in row])
        if not again:
            self.plain.made(prepared)

    def session(self) -> StagedSession:
        connection = self._connect()
        try:
            session = MariadbSession(connection, self)
            session.restore(None)
        except BaseException:
            connection.close()
            raise
        return session

    def waiting(self, sessions: Sequence[StagedSession], *, whom: bool) -> list[Waiting] | None:
        if not self._tells:
            return None
        threads = [session.thread for session in sessions if isinstance(session, MariadbSession)]
        waits = self._waiting_threads()
        if waits & set(threads):
            time.sleep(_CONFIRM_S)
            waits &= self._waiting_threads()
        others = self._waits_for_other_things(threads) - waits
        edges = self._edges(threads) if whom and waits & set(threads) else {}
        return [Waiting(thread in waits or thread in others, frozenset(edges.get(thread, ()))) for thread in threads]

    def _waiting_threads(self) -> set[int]:
        status = str(self._ask("SHOW ENGINE INNODB STATUS")[0][2])
        found = set()
        for block in _TRANSACTION.findall(status):
            thread = _THREAD.search(block)
            if thread and "\nLOCK WAIT " in block:
                found.add(int(thread[1]))
        return found

    def _waits_for_other_things(self, threads: Sequence[int]) -> set[int]:
        """Those that wait for a table that is being redefined, or for a lock of the user's own."""
        listed = ", ".join(map(str, threads))
        rows = self._ask(f"SELECT id, state FROM information_schema.processlist WHERE id IN ({listed})")
        return {int(thread) for thread, state in rows if state and str(state).lower().startswith(_OTHER_WAITS)}

    def _edges(self, threads: Sequence[int]) -> dict[int, set[int]]:
        """For whom each thread waits, as places in ``threads``."""
        # The copy is renewed only if nobody has looked at it for a while.
        time.sleep(max(0.0, self._copied_at + _COPY_S - time.monotonic()))
        rows = self._ask(
            "SELECT r.trx_mysql_thread_id, b.trx_mysql_thread_id FROM information_schema.innodb_lock_waits w"
            " JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_trx_id"
            " JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id"
            if self.store.startswith("mariadb")
            else "SELECT waiting_pid, blocking_pid FROM sys.innodb_lock_waits"
        )
        self._copied_at = time.monotonic()
        places = {thread: place for place, thread in enumerate(threads)}
        found: dict[int, set[int]] = {}
        for waiter, blocker in rows:
            if int(blocker) in places:
                found.setdefault(int(waiter), set()).add(places[int(blocker)])
        return found

    def tables(self) -> dict[str, tuple[Row, ...]]:
        return {name: sorted_rows(values_of(self._ask(f"SELECT * FROM {_quoted(name)}"))) for name in self._names()}

    def kill_query(self, thread: int) -> None:
        self._ask(f"KILL QUERY {thread}")

    def close(self) -> None:
        try:
            try:
                self._ask(f"DROP DATABASE {self.name}")
            except ConnectionLost:
                self._administrator.close()
                self._administrator = self._connect()
                self._ask(f"DROP DATABASE {self.name}")
        except OutsideError as error:
            raise DatabaseUnavailable(
                f"the database {self.name} could not be dropped: {error}; drop it with: DROP DATABASE {self.name}"
            ) from None
        finally:
            self._administrator.close()

    def one(self, connection: MariadbConnection, query: str) -> Any:
        rows = connection.execute(query).rows
        return rows[0][0] if rows else None

    def _names(self) -> list[str]:
        if self.plain.tables is None:
            rows = self._ask(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
                " AND table_type = 'BASE TABLE' ORDER BY table_name"
            )
            self.plain.tables = [str(name) for (name,) in rows]
        return self.plain.tables

    def _can_tell(self) -> bool:
        """Without the right PROCESS the server says nothing of transactions."""
        try:
            self._waiting_threads()
        except OutsideError:
            return False
        return True

    def _variable_name(self, *names: str) -> str:
        for name in names:
            try:
                self._ask(f"SELECT @@SESSION.{name}")
            except StatementFailed:
                continue
            return name
        raise StatementFailed("SELECT @@SESSION.tx_isolation", "the server has no variable for the isolation level")

    def _settings(self) -> dict[str, str]:
        rows = self._ask(
            "SHOW VARIABLES WHERE variable_name IN ('innodb_snapshot_isolation', 'innodb_rollback_on_timeout')"
        )
        return {str(name): str(value) for name, value in rows}

    def _connect(self) -> MariadbConnection:
        return self._database.connect(Table("", Kind.REGISTERS, 0))

    def _ask(self, text: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._administrator.execute(text, parameters).rows or []


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def open_stage(database: Database) -> Stage:
    assert isinstance(database, MariadbDatabase)
    if database.nodes > 1:
        raise UsageError("a schedule is played on one server, which tells who waits; name one node of the cluster")
    return MariadbStage(database)
