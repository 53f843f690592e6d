"""A real server and its store model, stepped side by side: after every step the model must have a state that did the same."""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import comb
from random import Random
from typing import Any
from urllib.parse import unquote, urlsplit

from isolde.semantics.stores import Ended, Failed, Model, Result, Returned, State, Waits

STATES_MAX = 200
_POSTGRESQL = {"40001": "serialization-failure", "40P01": "deadlock", "55P03": "lock-timeout", "23505": "unique"} | {
    "23503": "foreign-key",
    "23514": "check",
    "23502": "not-null",
    "22012": "arithmetic",
    "22003": "arithmetic",
    "25P02": "transaction-failed",
}
_MARIADB = {
    1213: "deadlock",
    1205: "lock-timeout",
    1020: "serialization-failure",
    1062: "unique",
    1452: "foreign-key",
} | {
    1451: "foreign-key",
    1048: "not-null",
    4025: "check",
    1690: "arithmetic",
}


class PostgresqlServer:
    """``settle_s``: longer than the time after which the server looks for deadlocks."""

    settle_s = 0.06

    def __init__(self, url: str) -> None:
        import psycopg

        self._url = url
        self._watch = psycopg.connect(url, autocommit=True)

    def connect(self) -> Any:
        import psycopg

        return psycopg.connect(self._url, autocommit=True)

    @staticmethod
    def word(error: Exception) -> tuple[str, bool]:
        return _POSTGRESQL.get(getattr(error, "sqlstate", None) or "", f"other: {error}"), False

    def waiting(self, connections: Sequence[Any]) -> list[bool]:
        pids = [connection.info.backend_pid for connection in connections]
        found: dict[int, bool] = dict(
            self._watch.execute(
                "select pid, wait_event_type = 'Lock' from pg_stat_activity where pid = any(%s)", (pids,)
            ).fetchall()
        )
        return [bool(found.get(pid)) for pid in pids]

    def run(self, connection: Any, sql: str) -> Result:
        cursor = connection.execute(sql)
        if cursor.description is not None:
            rows = tuple(map(tuple, cursor.fetchall()))
            return Returned(("?",), rows, len(rows))
        if cursor.statusmessage in ("COMMIT", "ROLLBACK"):
            return Ended(cursor.statusmessage == "COMMIT")
        return Returned((), (), max(cursor.rowcount, 0))

    @staticmethod
    def end(admin: Any, connection: Any) -> None:
        """Takes a session that waits away."""
        admin.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))

    def close(self) -> None:
        self._watch.close()


class MariadbServer:
    """Deadlocks are found at once, so that whoever waits goes on waiting."""

    settle_s = 0.0

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._watch = self.connect()
        self._asked_at = 0.0

    def connect(self) -> Any:
        import pymysql  # type: ignore[import-untyped, unused-ignore]

        return pymysql.connect(
            host=self._parts.hostname,
            port=self._parts.port or 3306,
            user=unquote(self._parts.username or ""),
            password=unquote(self._parts.password or ""),
            database="test",
            autocommit=True,
        )

    @staticmethod
    def word(error: Exception) -> tuple[str, bool]:
        code = error.args[0] if error.args else 0
        return _MARIADB.get(code, f"other: {error}"), code in (1213, 1020)

    def waiting(self, connections: Sequence[Any]) -> list[bool]:
        now = time.monotonic()
        # The server gives its last answer again, and keeps it for longer, if it is asked within a tenth of a second.
        if now - self._asked_at < 0.11:
            return [False] * len(connections)
        self._asked_at = now
        found = self.run(
            self._watch,
            "select trx_mysql_thread_id from information_schema.innodb_trx where trx_state = 'LOCK WAIT'",
        )
        assert isinstance(found, Returned)
        waiting = {row[0] for row in found.rows}
        return [connection.thread_id() in waiting for connection in connections]

    def run(self, connection: Any, sql: str) -> Result:
        with connection.cursor() as cursor:
            count = cursor.execute(sql)
            if cursor.description is not None:
                rows = tuple(map(tuple, cursor.fetchall()))
                return Returned(("?",), rows, len(rows))
        if sql in ("commit", "rollback"):
            return Ended(sql == "commit")
        return Returned((), (), count)

    def end(self, admin: Any, connection: Any) -> None:
        self.run(admin, f"kill {connection.thread_id()}")

    def close(self) -> None:
        self._watch.close()


class SqliteServer:
    """Databases in a file. Who waits asks again every now and then, at most every tenth of a second, and nobody can tell."""

    settle_s = 0.25

    def __init__(self, path: str) -> None:
        self._path = path

    def connect(self) -> Any:
        connection = sqlite3.connect(self._path, timeout=8, isolation_level=None, check_same_thread=False)
        connection.execute("pragma foreign_keys = on")
        return connection

    @staticmethod
    def word(error: Exception) -> tuple[str, bool]:
        words = {"UNIQUE": "unique", "FOREIGN": "foreign-key", "NOT": "not-null", "database": "lock-timeout"}
        return words.get(str(error).partition(" ")[0], f"other: {error}"), False

    @staticmethod
    def waiting(connections: Sequence[Any]) -> list[bool]:
        return [True] * len(connections)

    @staticmethod
    def run(connection: Any, sql: str) -> Result:
        cursor = connection.execute(sql)
        if cursor.description is not None:
            rows = tuple(cursor.fetchall())
            return Returned(("?",), rows, len(rows))
        if sql in ("commit", "rollback"):
            return Ended(sql == "commit")
        return Returned((), (), max(cursor.rowcount, 0))


class Session:
    """A connection and its thread. ``busy``: a statement was sent that has not returned."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.connection = server.connect()
        self._sent: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.results: queue.SimpleQueue[Result] = queue.SimpleQueue()
        self.busy = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def send(self, sql: str) -> None:
        self.busy = True
        self._sent.put(sql)

    def _work(self) -> None:
        while (sql := self._sent.get()) is not None:
            try:
                result = self._server.run(self.connection, sql)
            except Exception as error:
                word, ended = self._server.word(error)
                result = Failed(word, str(error), ended)
            self.results.put(result)

    def got(self) -> Result | None:
        try:
            result = self.results.get_nowait()
        except queue.Empty:
            return None
        self.busy = False
        return result

    def close(self) -> None:
        self._sent.put(None)
        self._thread.join(10)
        with suppress(Exception):
            # It may have been ended from outside.
            self.connection.close()


@dataclass
class Stepped:
    """Sessions on a real server, by name."""

    server: Any
    sessions: dict[str, Session] = field(default_factory=dict)

    def step(self, name: str, sql: str) -> dict[str, Result]:
        """Sends a statement; what sessions got until nobody moves any more. Those that still wait are not in it."""
        if name not in self.sessions:
            self.sessions[name] = Session(self.server)
        self.sessions[name].send(sql)
        got: dict[str, Result] = {}
        quiet_since: float | None = None
        while True:
            moved = False
            for other, session in self.sessions.items():
                if session.busy and (result := session.got()) is not None:
                    got[other] = result
                    moved = True
            busy = [session for session in self.sessions.values() if session.busy]
            if not busy:
                return got
            now = time.monotonic()
            if moved or not all(self.server.waiting([session.connection for session in busy])):
                quiet_since = None
            elif quiet_since is None and self.server.settle_s:
                quiet_since = now
            elif quiet_since is None or now - quiet_since > self.server.settle_s:
                return got
            time.sleep(0.001)

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()


def same(model: Result, server: Result) -> bool:
    match model, server:
        case Returned(), Returned():
            if bool(model.names) != bool(server.names):
                return False
            mine, theirs = list(map(repr, model.rows)), list(map(repr, server.rows))
            if not model.ordered:
                mine, theirs = sorted(mine), sorted(theirs)
            return mine == theirs and (bool(model.names) or model.count == server.count)
        case Failed(), Failed():
            return model.word == server.word
        case Ended(), Ended():
            return model.committed == server.committed
    return False


@dataclass
class Mismatch(Exception):
    """What the server did and the model does not allow."""

    log: list[str]
    server: Mapping[str, Result]
    models: list[Any]

    def __str__(self) -> str:
        lines = [*self.log, f"server: {dict(self.server)}"]
        return "\n".join([*lines, *(f"model:  {entry}" for entry in self.models)])


Act = str | tuple[int, str, str]
"""A statement; or one of two, by whether the session's last value read is at least a number."""


Programs = Sequence[Sequence[tuple[str, Sequence[Act]]]]
"""For each session its transactions: a level, and statements; rolled back if the last of them is ``rollback``."""
Choice = Callable[[Sequence[str]], str]
"""Picks the session that takes the next step, among those that do not wait."""


def interleavings(programs: Programs, random: Random, at_most: int) -> Iterator[Choice]:
    """Every order of the statements where there are no more than ``at_most``, else a random sample of that many.

    Each order must be used to its end before the next one is asked for: which orders are left depends on who had to wait.
    """
    steps = [
        sum(1 + len(statements) + (statements[-1] != "rollback") for _, statements in transactions)
        for transactions in programs
    ]
    orders, placed = 1, 0
    for count in steps:
        placed += count
        orders *= comb(placed, count)
    if orders > at_most:
        for _ in range(at_most):
            yield random.choice
        return
    # The choices of the order before, each with what could have been chosen; the last one that has a successor moves on.
    taken: list[tuple[int, int]] = []
    while True:
        followed = [place for place, _ in taken]
        taken = []

        def choose(able: Sequence[str], followed: list[int] = followed, taken: list[tuple[int, int]] = taken) -> str:
            place = followed[len(taken)] if len(taken) < len(followed) else 0
            place = min(place, len(able) - 1)
            taken.append((place, len(able)))
            return able[place]

        yield choose
        while taken and taken[-1][0] + 1 >= taken[-1][1]:
            taken.pop()
        if not taken:
            return
        taken[-1] = (taken[-1][0] + 1, taken[-1][1])


def side_by_side(model: Model, stepped: Stepped, programs: Programs, choose: Choice, begin: str) -> list[str]:
    """Plays the sessions in the order that ``choose`` picks, on the server and on the model.

    ``begin``: a text with a place for the level. Gives what was done; raises ``Mismatch``.
    """
    names = [f"s{place}" for place in range(len(programs))]
    left: dict[str, list[tuple[str, str | Act]]] = {}
    for name, transactions in zip(names, programs, strict=True):
        acts: list[tuple[str, str | Act]] = []
        for level, statements in transactions:
            acts.append(("begin", level))
            acts += [("act", statement) for statement in statements]
            if statements[-1] != "rollback":
                acts.append(("act", "commit"))
        left[name] = acts
    states: list[State] = [model.initial()]
    last: dict[str, Any] = {}
    waits: set[str] = set()
    log: list[str] = []
    while True:
        able = [name for name in names if left[name] and name not in waits]
        if not able:
            break
        name = choose(able)
        kind, act = left[name].pop(0)
        if kind == "begin":
            sql = begin.format(level=str(act).replace("-", " "))
            for text in sql.split(";"):
                stepped.step(name, text.strip())
            waits = {other for other, session in stepped.sessions.items() if session.busy}
            log.append(f"{name}: begin {act}" + (" (waits)" if name in waits else ""))
            begun = [step for state in states for step in model.begin(state, name, str(act))]
            states = [step.state for step in begun if set(step.state.waiting) == waits]
            if not states:
                raise Mismatch(log, {}, [(step.results, step.state.waiting) for step in begun])
            continue
        if isinstance(act, tuple):
            value = last.get(name)
            act = act[1] if isinstance(value, int) and value >= act[0] else act[2]
        assert isinstance(act, str)
        got = stepped.step(name, act)
        waits = {other for other, session in stepped.sessions.items() if session.busy}
        log.append(f"{name}: {act}" + "".join(f"\n      {other} {_short(result)}" for other, result in got.items()))
        for other, result in got.items():
            if isinstance(result, Returned) and result.rows:
                last[other] = result.rows[0][-1]
            if isinstance(result, Failed) and result.ended:
                # It has no transaction any more: what is left of it is not sent.
                while left[other] and left[other][0][0] != "begin":
                    left[other].pop(0)
        steps = []
        for state in states:
            if act == "commit":
                steps += model.commit(state, name)
            elif act == "rollback":
                steps += model.rollback(state, name)
            else:
                steps += model.submit(state, name, act)
        fitting = {}
        for step in steps:
            results = {other: result for other, result in step.results if not isinstance(result, Waits)}
            if (
                set(results) == set(got)
                and set(step.state.waiting) == waits
                and all(same(results[other], got[other]) for other in got)
            ):
                fitting[step.state.key()] = step.state
        if not fitting:
            raise Mismatch(log, got, [(step.results, step.state.waiting) for step in steps])
        states = list(fitting.values())[:STATES_MAX]
    return log


def _short(result: Result) -> str:
    match result:
        case Returned():
            return str(result.rows if result.names else result.count)
        case Failed():
            return result.word
    return str(result)
