"""Transaction functions on a real database, through any adapter that speaks SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isolde.databases.contract import Rows, SqlConnection
from isolde.databases.translate import Ready, Translator
from isolde.errors import IsoldeError, UsageError
from isolde.tx.dialects import Dialect
from isolde.tx.python.handle import Answer, Handle


class DatabaseHandle(Handle):
    """What a transaction function is handed; between the connection's ``begin`` and ``commit``, which are the caller's.

    ``spoken`` is the dialect of the function's SQL; the translator knows that of the database. ``failure`` is what the first
    statement that failed raised: the transaction is over then, even if the function caught it and goes on.
    """

    def __init__(self, connection: SqlConnection, translator: Translator, spoken: Dialect) -> None:
        self._connection, self._translator, self._spoken = connection, translator, spoken
        self.failure: IsoldeError | None = None

    def run(self, sql: str, parameters: Mapping[str, Any]) -> Answer:
        if self.failure is not None:
            raise self.failure
        try:
            ready = self._translator.ready(sql, self._spoken)
            for name in ready.parameters:
                if name not in parameters:
                    raise UsageError(f"'{sql}' has no value for :{name}; pass it as {name}=…")
            return self._answered(ready, [parameters[name] for name in ready.parameters])
        except IsoldeError as error:
            self.failure = error
            raise

    def _answered(self, ready: Ready, values: Sequence[Any]) -> Answer:
        answer = self._sent(ready, values)
        rows = answer.rows if ready.columns else None
        return Answer(ready.columns, rows or (), answer.count or 0)

    def _sent(self, ready: Ready, values: Sequence[Any]) -> Rows:
        """What the database answers to one statement."""
        return self._connection.execute(ready.text, values)
