"""Transaction functions on a real database, through any adapter that speaks SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isolde.databases.contract import SqlConnection
from isolde.tx.dialects import Dialect
from isolde.tx.python.handle import Answer, Handle
from isolde.tx.translate import Ready, Translator


class DatabaseHandle(Handle):
    """What a transaction function is handed; between the connection's ``begin`` and ``commit``, which are the caller's.

    ``spoken`` is the dialect of the function's SQL; the translator knows that of the database.
    """

    def __init__(self, connection: SqlConnection, translator: Translator, spoken: Dialect) -> None:
        self._connection, self._translator, self._spoken = connection, translator, spoken

    def run(self, sql: str, parameters: Mapping[str, Any]) -> Answer:
        ready = self._translator.ready(sql, self._spoken)
        return self._answered(ready, [parameters[name] for name in ready.parameters])

    def _answered(self, ready: Ready, values: Sequence[Any]) -> Answer:
        answer = self._connection.execute(ready.text, values)
        rows = answer.rows if ready.columns else None
        return Answer(ready.columns, rows or (), answer.count or 0)
