"""Connections of PEP 249 that record: they do what the driver's own do, and tell a session of every statement.

Rows are fetched at once, since they are the answer; the program gets them from there. What cannot be recorded (COPY, pipelines)
is refused by name rather than done unseen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from isolde.errors import UsageError
from isolde.recorder.drivers import DriverFacts
from isolde.recorder.recording import Session, answer, statement
from isolde.tx.script import statements_of

_UNSEEN = frozenset(
    {
        "copy",
        "copy_expert",
        "copy_from",
        "copy_to",
        "pipeline",
        "stream",
        "xid",
        "tpc_begin",
        "tpc_prepare",
        "tpc_commit",
    }
    | {"load_extension", "backup", "deserialize", "blobopen", "query", "cursor_factory"}
)


class _Wrapped:
    """Something of the driver's, in ``_raw``: attributes that are not its own are those of the driver's."""

    def __getattr__(self, name: str) -> Any:
        if name in _UNSEEN:
            raise UsageError(f"{name} is not recorded; use a connection that is not wrapped for it")
        return getattr(self._raw, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._raw, name, value)


class RecordedConnection(_Wrapped):
    """A connection."""

    def __init__(self, connection: Any, facts: DriverFacts, session: Session) -> None:
        object.__setattr__(self, "_raw", connection)
        object.__setattr__(self, "_facts", facts)
        object.__setattr__(self, "_session", session)

    def cursor(self, *arguments: Any, **named: Any) -> RecordedCursor:
        """A cursor that records; one that the server keeps (with a name) is refused."""
        if named.get("name") or (arguments and isinstance(arguments[0], str)):
            raise UsageError("cursors with a name, whose rows come later, are not recorded; leave the name out")
        return RecordedCursor(self._raw.cursor(*arguments, **named), self)

    def execute(self, text: Any, parameters: Any = None, **named: Any) -> RecordedCursor:
        """``cursor().execute`` in one call, as psycopg and sqlite3 have it."""
        return self.cursor().execute(text, parameters, **named)

    def executemany(self, text: Any, parameters: Any) -> RecordedCursor:
        """The same for many rows of parameters."""
        return self.cursor().executemany(text, parameters)

    def executescript(self, text: str) -> RecordedCursor:
        """The statements of a script one by one, after a commit, as sqlite3 has it."""
        if self._facts.open(self._raw):
            self.commit()
        cursor = self.cursor()
        for one in statements_of(text, self._facts.dialect):
            cursor.execute(one)
        return cursor

    def commit(self) -> None:
        """Commits; if nobody was told whether that worked, the outcome is unknown."""
        self._end(self._raw.commit)

    def rollback(self) -> None:
        """Takes back."""
        try:
            self._raw.rollback()
        finally:
            self._session.ended("aborted")

    def close(self) -> None:
        """Closes; what was not committed is gone."""
        self._raw.close()
        self._session.ended("aborted")

    def _end(self, commit: Any) -> None:
        failed = bool(self._session.open) and self._facts.dialect.value == "postgresql" and _in_error(self._raw)
        try:
            commit()
        except Exception as error:
            # Refused by the server, in a word that it has for that, or cut off on the way.
            refused = self._facts.word(error) != "other"
            self._session.ended("aborted" if refused else "unknown")
            raise
        self._session.ended("aborted" if failed else "committed")

    @contextmanager
    def transaction(self, *arguments: Any, **named: Any) -> Iterator[Any]:
        """psycopg's block; inside of another transaction it is a savepoint, whose end ends nothing."""
        try:
            with self._raw.transaction(*arguments, **named) as inner:
                yield inner
        except BaseException:
            if not self._facts.open(self._raw):
                self._session.ended("aborted")
            raise
        if not self._facts.open(self._raw):
            self._session.ended("committed")

    def __enter__(self) -> RecordedConnection:
        self._raw.__enter__()
        return self

    def __exit__(self, *raised: Any) -> Any:
        """The driver commits or takes back, and psycopg closes."""
        if self._session.open and self._facts.open(self._raw):
            if raised[0] is None:
                self.commit()
            else:
                self.rollback()
        return self._raw.__exit__(*raised)


def _in_error(connection: Any) -> bool:
    """Whether PostgreSQL's transaction has failed, so that COMMIT takes back."""
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    return status is not None and int(status) == _INERROR


_INERROR = 3


class RecordedCursor(_Wrapped):
    """A cursor; its rows are there already."""

    def __init__(self, cursor: Any, connection: RecordedConnection) -> None:
        object.__setattr__(self, "_raw", cursor)
        object.__setattr__(self, "connection", connection)
        object.__setattr__(self, "_rows", None)

    def execute(self, text: Any, parameters: Any = None, **named: Any) -> RecordedCursor:
        """Runs a statement, fetches what it gives, and records both."""
        given = () if parameters is None else (parameters,)
        self._run(text, parameters, lambda: self._raw.execute(text, *given, **named), fetch=True)
        return self

    def executemany(self, text: Any, parameters: Any, **named: Any) -> RecordedCursor:
        """One statement for each row of parameters; how many rows each changed is not told."""
        rows = list(parameters)
        session, facts = self._parts()
        begun = session.begin()
        texts = [facts.placeholders(_text(text, self._raw), row) for row in rows]
        try:
            self._raw.executemany(text, rows, **named)
        except Exception as error:
            for one in texts[:1]:
                session.ran(statement(*one) | _failure(facts, error), begun)
            self._after(failed=True)
            raise
        for one in texts:
            session.ran(statement(*one) | answer(None, self._raw.rowcount if len(texts) == 1 else None), begun)
        object.__setattr__(self, "_rows", None)
        self._after(failed=False)
        return self

    def callproc(self, name: str, parameters: Sequence[Any] = ()) -> Any:
        """A call of a stored procedure."""
        content = {"call": name, "params": statement("", parameters)["params"]}
        return self._recorded(content, lambda: self._raw.callproc(name, parameters), fetch=True)

    def _run(self, text: Any, parameters: Any, work: Any, *, fetch: bool) -> None:
        _, facts = self._parts()
        self._recorded(statement(*facts.placeholders(_text(text, self._raw), parameters)), work, fetch=fetch)

    def _recorded(self, content: dict[str, Any], work: Any, *, fetch: bool) -> Any:
        session, facts = self._parts()
        begun = session.begin()
        try:
            result = work()
            rows = list(self._raw.fetchall()) if fetch and self._raw.description is not None else None
        except Exception as error:
            session.ran(content | _failure(facts, error), begun)
            self._after(failed=True)
            raise
        object.__setattr__(self, "_rows", None if rows is None else _Rows(rows))
        session.ran(content | answer(None if rows is None else _values(rows), self._raw.rowcount), begun)
        self._after(failed=False, text=str(content.get("sql", "")))
        return result

    def _after(self, *, failed: bool, text: str = "") -> None:
        """Where no transaction is open after a statement, it was one by itself, or ended one."""
        session, facts = self._parts()
        if facts.open(self.connection._raw):
            return
        session.ended("aborted" if failed or _word(text) in ("rollback", "abort") else "committed")

    def _parts(self) -> tuple[Session, DriverFacts]:
        return self.connection._session, self.connection._facts

    def fetchone(self) -> Any:
        """The next row."""
        return self._raw.fetchone() if self._rows is None else self._rows.take(1, one=True)

    def fetchmany(self, size: int | None = None) -> Any:
        """Some rows more."""
        return self._raw.fetchmany() if self._rows is None else self._rows.take(size or self._raw.arraysize)

    def fetchall(self) -> Any:
        """All rows that are left."""
        return self._raw.fetchall() if self._rows is None else self._rows.take(None)

    def __iter__(self) -> Iterator[Any]:
        while (row := self.fetchone()) is not None:
            yield row

    def __next__(self) -> Any:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def __enter__(self) -> RecordedCursor:
        return self

    def __exit__(self, *raised: object) -> None:
        self._raw.close()


class _Rows:
    """Rows that are given one after the other."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows, self._at = rows, 0

    def take(self, count: int | None, *, one: bool = False) -> Any:
        end = len(self._rows) if count is None else min(self._at + count, len(self._rows))
        found, self._at = self._rows[self._at : end], end
        if one:
            return found[0] if found else None
        return found


def _text(text: Any, cursor: Any) -> str:
    """A statement as text; psycopg composes some."""
    if isinstance(text, bytes):
        return text.decode()
    return text if isinstance(text, str) else str(text.as_string(cursor))


def _values(rows: Sequence[Any]) -> list[Sequence[Any]]:
    """Rows as sequences: drivers may give dictionaries."""
    return [tuple(row.values()) if isinstance(row, Mapping) else tuple(row) for row in rows]


def _failure(facts: DriverFacts, error: BaseException) -> dict[str, Any]:
    return {"rows": None, "error": facts.word(error), "message": str(error)}


def _word(text: str) -> str:
    words = text.split(None, 1)
    return words[0].lower().rstrip(";") if words else ""
