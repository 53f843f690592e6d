"""Engines of SQLAlchemy that record, by its events; the only file that names SQLAlchemy.

Rows are taken from the driver's cursor when a statement has run, and handed to SQLAlchemy as its buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from isolde.recorder.drivers import DriverFacts, facts_of
from isolde.recorder.recording import Recording, Session, answer, statement
from isolde.tx.dialects import Dialect

_KEY = "isolde.session"


def record_engine(engine: Any, recording: Callable[[Any], Recording]) -> None:
    """Listens to everything that the engine's connections do; ``recording`` gives the file for a driver's connection."""
    from sqlalchemy import event

    def session_of(connection: Any) -> tuple[Session, DriverFacts]:
        pooled = connection.connection
        raw = pooled.driver_connection
        facts = facts_of(raw)
        if _KEY not in pooled.info:
            pooled.info[_KEY] = recording(raw).session()
        return pooled.info[_KEY], facts

    @event.listens_for(engine, "before_cursor_execute")
    def before(connection: Any, _cursor: Any, _text: str, _given: Any, context: Any, _many: bool) -> None:
        session, _ = session_of(connection)
        context._isolde_begun = session.begin()

    @event.listens_for(engine, "after_cursor_execute")
    def after(connection: Any, cursor: Any, text: str, given: Any, context: Any, many: bool) -> None:
        session, facts = session_of(connection)
        rows = None
        if cursor.description is not None:
            rows = list(cursor.fetchall())
            _hand_over(context, cursor, rows)
        for one in given if many else [given]:
            gives = answer(rows, None if many and len(given) > 1 else cursor.rowcount)
            session.ran(statement(*facts.placeholders(text, one or None)) | gives, context._isolde_begun)
        if connection.connection.driver_connection is not None and connection._is_autocommit_isolation():
            session.ended("committed")

    @event.listens_for(engine, "handle_error")
    def failed(context: Any) -> None:
        if context.connection is None or context.statement is None:
            return
        session, facts = session_of(context.connection)
        error = context.original_exception
        begun = getattr(context.execution_context, "_isolde_begun", None) or session.begin()
        given = context.parameters or None
        content = statement(*facts.placeholders(context.statement, given if isinstance(given, dict | tuple) else None))
        session.ran(content | {"rows": None, "error": facts.word(error), "message": str(error)}, begun)
        if context.is_disconnect:
            session.ended("aborted")

    @event.listens_for(engine, "commit")
    def committing(connection: Any) -> None:
        # The event comes before the driver's COMMIT: the driver is asked to do it here, so that its outcome is known.
        session, facts = session_of(connection)
        try:
            connection.connection.driver_connection.commit()
        except Exception as error:
            session.ended("aborted" if facts.word(error) != "other" else "unknown")
            raise
        session.ended("committed")

    @event.listens_for(engine, "rollback")
    def rolled_back(connection: Any) -> None:
        session, _ = session_of(connection)
        session.ended("aborted")


def _hand_over(context: Any, cursor: Any, rows: list[Any]) -> None:
    """SQLAlchemy reads these rows instead of the cursor's, which are used up."""
    from sqlalchemy.engine.cursor import FullyBufferedCursorFetchStrategy

    context.cursor_fetch_strategy = FullyBufferedCursorFetchStrategy(cursor, cursor.description, rows)


def texts_of(metadata: Any, dialect: Dialect) -> list[str]:
    """``CREATE TABLE`` texts of SQLAlchemy's tables."""
    from sqlalchemy import create_mock_engine

    texts: list[str] = []
    url = {Dialect.POSTGRESQL: "postgresql://", Dialect.MYSQL: "mysql://", Dialect.SQLITE: "sqlite://"}[dialect]
    engine: Any = create_mock_engine(
        url, lambda one, *_, **__: texts.append(str(one.compile(dialect=engine.dialect)).strip())
    )
    metadata.create_all(engine, checkfirst=False)
    return texts
