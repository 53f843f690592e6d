"""A schema of PostgreSQL in which schedules are played. The server itself tells who waits for whom."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from isolde.databases.contract import Database, Kind, Offer, Table
from isolde.databases.error_words import of_sqlstate
from isolde.databases.postgresql import PostgresqlConnection, PostgresqlDatabase, Told
from isolde.databases.stage import Answer, Stage, StagedSession, Waiting
from isolde.databases.stages.tables import Prepared, in_order_of_creation
from isolde.databases.waiting import FILL_S, LOCK_S
from isolde.errors import ConnectionLost, DatabaseUnavailable, OutsideError, StatementFailed
from isolde.history.model import Scalar
from isolde.history.schedule import Ended, Failure, Row, sorted_rows, values_of
from isolde.tx.dialects import Dialect
from isolde.tx.script import changes, commits, is_setting, rolls_back, statements_of

_NOT_IN_A_TRANSACTION = "25001"
_CHANGES = (b"INSERT", b"UPDATE", b"DELETE", b"MERGE")
# Long enough for a statement that computes for a while; what waits for a lock is told by the server long before.
_PATIENCE_S = 20.0
_DEADLOCK_MS = 20
# A transaction that asks to be DEFERRABLE waits for others without a lock.
_WAITING = (
    "SELECT pg_blocking_pids(p) || pg_safe_snapshot_blocking_pids(p)"
    " FROM unnest('{%s}'::int[]) WITH ORDINALITY AS u(p, n) ORDER BY n"
)
_TABLES = (
    "SELECT relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relkind IN ('r', 'p')"
    " AND NOT relispartition ORDER BY relname"
)


class PostgresqlSession:
    def __init__(self, connection: PostgresqlConnection, before: str, plain: Prepared) -> None:
        self._connection, self._before, self._plain = connection, before, plain
        self.pid = connection.backend

    def run(self, text: str) -> list[Answer]:
        statements = statements_of(text, Dialect.POSTGRESQL)
        kept = [statement for statement in statements if not is_setting(statement)]
        if not kept:
            return []
        self._plain.look(kept)
        was_open = self._connection.in_transaction
        # Sent as one message, as a terminal would: outside of a transaction it is one of its own.
        told = self._connection.script(text if len(kept) == len(statements) else ";\n".join(kept))
        # A rule may make several answers of one statement.
        places = [min(place, len(kept) - 1) for place in range(len(told))]
        answers = [_answer(kept[place], one) for place, one in zip(places, told, strict=True)]
        if answers and not (was_open or len(kept) > 1):
            # COMMIT with nothing open ends nothing.
            answers[-1] = replace(answers[-1], ended=None)
        elif answers and was_open and not self._connection.in_transaction and answers[-1].ended is None:
            answers[-1] = replace(answers[-1], ended=Ended.ROLLED_BACK)
        return answers

    def restore(self, offer: Offer | None) -> None:
        self.roll_back()
        level = f"; SET default_transaction_isolation = '{offer.called.lower()}'" if offer else ""
        _refuse(self._connection.script(self._before + level), self._before)

    def roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.script("ROLLBACK")

    def cancel(self) -> None:
        self._connection.cancel()

    def close(self) -> None:
        self._connection.close()


def _answer(statement: str, told: Told) -> Answer:
    if told.sqlstate:
        failure = Failure(of_sqlstate(told.sqlstate))
        return Answer(statement, error=failure, sqlstate=told.sqlstate, message=told.reason)
    rows = None if told.rows.rows is None else values_of(told.rows.rows)
    count = told.rows.count if told.tag.startswith(_CHANGES) else None
    ended = None
    if told.tag == b"COMMIT":
        ended = Ended.COMMITTED
    elif told.tag == b"ROLLBACK" and (commits(statement) or rolls_back(statement)):
        ended = Ended.ROLLED_BACK
    return Answer(statement, rows, count, ended=ended)


class PostgresqlStage:
    dialect = Dialect.POSTGRESQL
    patience_s = _PATIENCE_S
    deadlocks_linger = True
    settings: Mapping[str, str] = MappingProxyType({})

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database
        self.store = "postgresql " + re.sub(r"^\D*([\w.]*).*", r"\1", database.version())
        self._schema = f"isolde_{secrets.token_hex(6)}"
        self._administrator = self._connect()
        self._pids: set[int] = set()
        self._plain = Prepared()
        # Everything that a session may have set is undone, and the server need not wait for its disk: nothing here is to last.
        self._before = (
            f"RESET ALL; DEALLOCATE ALL; DISCARD TEMP; SELECT pg_advisory_unlock_all(); SET search_path = {self._schema};"
            " SET synchronous_commit = off; SET TIME ZONE 'UTC'"
        )
        try:
            self._ask(f"CREATE SCHEMA {self._schema}")
            if self._takes(f"SET deadlock_timeout = {_DEADLOCK_MS}"):
                self._before += f"; SET deadlock_timeout = {_DEADLOCK_MS}"
            self._ask(self._before)
        except StatementFailed as error:
            self._administrator.close()
            raise DatabaseUnavailable(f"no private schema could be made for schedules: {error.reason}") from None

    def prepare(self, schema: Sequence[str], rows: Mapping[str, Sequence[Row]]) -> None:
        inserts = [_insert(table, some) for table, some in in_order_of_creation(schema, rows)]
        prepared = (tuple(schema), tuple(inserts))
        if self._plain.same(prepared):
            # To empty the tables takes a fifth of the time; like new ones, they hold nothing of the rows before.
            names = ", ".join(_quoted(name) for name in self._names())
            again = [f"TRUNCATE {names} RESTART IDENTITY CASCADE"] if names else []
            again += [text for text in (*schema, *inserts) if changes(text)]
            _refuse(self._script(";\n".join(again)), *again)
            return
        self._plain.forget()
        texts = [
            f"DROP SCHEMA {self._schema} CASCADE",
            f"CREATE SCHEMA {self._schema}",
            *(text for text in schema if not is_setting(text)),
            *inserts,
        ]
        told = self._script(";\n".join(texts))
        if told and told[-1].sqlstate == _NOT_IN_A_TRANSACTION:
            for text in texts:
                self._ask(text)
        else:
            _refuse(told, *texts)
        self._plain.made(prepared)

    def session(self) -> StagedSession:
        connection = self._connect()
        session = PostgresqlSession(connection, self._before, self._plain)
        self._pids.add(session.pid)
        session.restore(None)
        return session

    def waiting(self, sessions: Sequence[StagedSession], *, whom: bool) -> list[Waiting]:  # noqa: ARG002
        pids = [session.pid for session in sessions if isinstance(session, PostgresqlSession)]
        rows = self._ask(_WAITING % ",".join(map(str, pids)))
        places = {pid: place for place, pid in enumerate(pids)}
        found = []
        for (told,) in rows:
            blocking = [int(pid) for pid in str(told).strip("{}").split(",") if pid]
            ours = frozenset(places[pid] for pid in blocking if pid in places)
            found.append(Waiting(bool(blocking), ours, any(pid not in self._pids for pid in blocking)))
        return found

    def tables(self) -> dict[str, tuple[Row, ...]]:
        names = self._names()
        if not names:
            return {}
        told = self._script(";".join(f"SELECT * FROM {self._schema}.{_quoted(name)}" for name in names))
        _refuse(told, *names)
        return {name: sorted_rows(values_of(one.rows.rows or [])) for name, one in zip(names, told, strict=True)}

    def _names(self) -> list[str]:
        if self._plain.tables is None:
            names = [str(name) for (name,) in self._ask(_TABLES.format(schema=self._schema))]
            self._plain.tables = names
        return self._plain.tables

    def close(self) -> None:
        try:
            try:
                self._drop()
            except ConnectionLost:
                self._administrator.close()
                self._administrator = self._connect()
                self._drop()
        except OutsideError as error:
            raise DatabaseUnavailable(
                f"the schema {self._schema} could not be dropped: {error}; drop it with: DROP SCHEMA {self._schema} CASCADE"
            ) from None
        finally:
            self._administrator.close()

    def _drop(self) -> None:
        with suppress(StatementFailed):
            self._ask(f"SET lock_timeout = '{LOCK_S:g}s'")
        self._ask(f"DROP SCHEMA {self._schema} CASCADE")

    def _connect(self) -> PostgresqlConnection:
        return self._database.connect(Table("", Kind.REGISTERS, 0))

    def _script(self, text: str) -> list[Told]:
        return self._administrator.script(text, FILL_S)

    def _ask(self, text: str) -> list[tuple[Any, ...]]:
        told = self._script(text)
        _refuse(told, text)
        return told[-1].rows.rows or []

    def _takes(self, text: str) -> bool:
        return not any(one.sqlstate for one in self._script(text))


def _refuse(told: list[Told], *texts: str) -> None:
    if told and told[-1].sqlstate:
        raise StatementFailed(texts[min(len(told), len(texts)) - 1], told[-1].reason)


def _insert(table: str, rows: Sequence[Row]) -> str:
    # Names are folded as the statements of the schedule fold them.
    name = table if re.fullmatch(r"[^\W\d]\w*", table) else _quoted(table)
    values = ", ".join("(" + ", ".join(map(_literal, row)) + ")" for row in rows)
    return f"INSERT INTO {name} VALUES {values}"


def _literal(value: Scalar) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int():
            return str(value)
        case Decimal():
            return format(value, "f")
        case str():
            return "'" + value.replace("'", "''") + "'" if "\\" not in value else _escaped(value)


def _escaped(value: str) -> str:
    return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def open_stage(database: Database) -> Stage:
    assert isinstance(database, PostgresqlDatabase)
    return PostgresqlStage(database)
