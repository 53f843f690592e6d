"""A connection to PostgreSQL whose statements also return the snapshot that they were carried out in.

    SELECT pg_current_snapshot(), …, q.* FROM (SELECT) s LEFT JOIN (SELECT 1, r.* FROM (…the query…) r) q ON true

gives a row even where the query finds none. A change goes into a WITH, beside the query for the rows that it finds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from isolde.databases.contract import Offer, Rows, Swap, Table
from isolde.databases.postgresql import PostgresqlConnection, rows_of, sent_value, type_of
from isolde.databases.recovery import Lookup
from isolde.history.certificate import ObjectId, RowId

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

_LOOKS_AGAIN = ("read-uncommitted", "read-committed")
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
_LOCKS = re.compile(r"\bFOR (?:UPDATE|NO KEY UPDATE|SHARE|KEY SHARE)\b", re.IGNORECASE)
_RETURNING = re.compile(r"\bRETURNING\b", re.IGNORECASE)
_MARK = re.compile(r"\$(\d+)")
# Columns that come before those of the statement: snapshot, transaction id, rows changed, keys found, whether there is a row.
_BEFORE = 5


@dataclass(frozen=True, slots=True)
class Heard:
    """What was heard of one operation, or of the commit.

    ``changed`` counts rows; ``reads``: it has a version set; ``looks_again``: it may have looked at newer versions of the
    rows that it ``found``, which are ``None`` if they were not asked for.
    """

    snapshot: bytes
    xid: int | None = None
    changed: int = 0
    reads: bool = False
    looks_again: bool = False
    found: tuple[ObjectId, ...] | None = None
    inserts: bool = False
    """It met the newest rows of the keys that it wrote, whatever its snapshot shows."""


@lru_cache(maxsize=4096)
def _asked(text: str, found: str | None, parameters: int) -> str:
    """The statement with what is to be heard around it."""
    plain = _QUOTED.sub("''", text)
    if plain.lstrip().upper().startswith("SELECT"):
        keys = f"(SELECT json_agg(f) FROM ({_renumbered(found, parameters)}) f)" if found else "NULL::json"
        return (
            f"SELECT pg_current_snapshot()::text, NULL::text, NULL::bigint, {keys}::text, q.* FROM (SELECT) s "
            f"LEFT JOIN (SELECT 1, r.* FROM ({text}) r) q ON true"
        )
    returning = _RETURNING.search(plain) is not None
    keys = f", f AS ({_renumbered(found, parameters)})" if found else ""
    found_keys = "(SELECT json_agg(f) FROM f)::text" if found else "NULL::text"
    rows = "SELECT 1, c.* FROM c" if returning else "SELECT 1 WHERE false"
    return (
        f"WITH c AS ({text}{'' if returning else ' RETURNING 1'}){keys}, n AS (SELECT count(*) AS n FROM c) "
        f"SELECT pg_current_snapshot()::text, CASE WHEN n.n > 0 THEN pg_current_xact_id()::text END, n.n, {found_keys}, q.* "
        f"FROM n LEFT JOIN ({rows}) q ON true"
    )


def _renumbered(found: str, parameters: int) -> str:
    """The query for the rows found, its parameters after those of the statement."""
    return _MARK.sub(lambda mark: f"${int(mark[1]) + parameters}", found)


class ListeningPostgresql(PostgresqlConnection):
    """Hears the snapshot of every statement, and of changes the transaction and the number of rows."""

    def __init__(self, connection: PGconn, refused: type[Exception], table: Table) -> None:
        super().__init__(connection, refused, table)
        self._heard: Heard | None = None
        self._looks_again = self._looked_again = False
        self._swap = f"SELECT k FROM {table.name} WHERE k = $1 AND v = $2"

    def heard(self) -> Heard | None:
        heard, self._heard = self._heard, None
        return heard

    def begin(self, offer: Offer) -> None:
        self._heard, self._looked_again = None, False
        self._looks_again = offer.name in _LOOKS_AGAIN
        super().begin(offer)

    def commit(self) -> None:
        at_the_end = None
        if self._looked_again:
            at_the_end = self._plain("SELECT pg_current_snapshot()::text").get_value(0, 0)
        super().commit()
        self._heard = None if at_the_end is None else Heard(at_the_end)

    # Keys

    def _fetch(self, text: str, parameters: tuple[Any, ...]) -> object:
        result = self._run(_asked(text, None, len(parameters)), parameters)
        self._heard = _said(result, reads=True)
        return None if result.get_value(0, _BEFORE - 1) is None else result.get_value(0, _BEFORE)

    def _change(self, text: str, parameters: tuple[Any, ...]) -> int:
        return self._changed(self._run(_asked(text, None, len(parameters)), parameters))

    def _changed(self, result: PGresult, *, reads: bool = False, key: int | None = None) -> int:
        self._heard = heard = _said(result, reads=reads, looks_again=reads and self._looks_again)
        if heard.looks_again:
            self._looked_again = True
            found = () if result.get_value(0, _BEFORE - 2) is None or key is None else (key,)
            self._heard = replace(heard, found=found)
        return heard.changed

    def compare_and_set(self, key: int, expected: int | None, new: int) -> Swap:
        if expected is None:
            # A read and an insert, each heard as what it is.
            return self._insert_if_absent(key, new)
        text = self._texts.swap
        if not self._looks_again:
            return Swap(self._changed(self._run(_asked(text, None, 3), (new, key, expected)), reads=True) > 0)
        asked = _asked(text, self._swap, 3)
        return Swap(self._changed(self._run(asked, (new, key, expected, key, expected)), reads=True, key=key) > 0)

    # SQL

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        return self.execute_found(statement, parameters, None)

    def execute_found(self, statement: str, parameters: Sequence[Any], lookup: Lookup | None) -> Rows:
        changes, locks, inserts = _kind(statement)
        looks_again = self._looks_again and (changes or locks)
        if not looks_again or lookup is None:
            text, values = _asked(statement, None, len(parameters)), list(parameters)
        else:
            text = _asked(statement, lookup.text or None, len(parameters))
            values = [*parameters, *lookup.parameters]
        types = [type_of(value) for value in values]
        result = self._ask(
            statement, self._connection.exec_params, text.encode(), [sent_value(value) for value in values], types
        )
        self._looked_again |= looks_again
        said = replace(_said(result, reads=True, looks_again=looks_again), inserts=inserts)
        if looks_again and lookup is not None:
            said = replace(said, found=_found(result, lookup.table))
        self._heard = said
        return _answered(result, said.changed, changes=changes)


@lru_cache(maxsize=4096)
def _kind(statement: str) -> tuple[bool, bool, bool]:
    """Whether the statement changes rows, whether it locks some, and whether it inserts."""
    plain = _QUOTED.sub("''", statement).lstrip().upper()
    return not plain.startswith("SELECT"), _LOCKS.search(plain) is not None, plain.startswith("INSERT")


def _said(result: PGresult, *, reads: bool, looks_again: bool = False) -> Heard:
    xid, changed = result.get_value(0, 1), result.get_value(0, 2)
    return Heard(
        result.get_value(0, 0) or b"",
        None if xid is None else int(xid),
        0 if changed is None else int(changed),
        reads,
        looks_again,
    )


def _found(result: PGresult, table: str) -> tuple[ObjectId, ...]:
    """The keys of the rows that the statement found."""
    raw = result.get_value(0, 3)
    return () if raw is None else tuple(RowId(table, tuple(row.values())) for row in json.loads(raw))


def _answered(result: PGresult, changed: int, *, changes: bool) -> Rows:
    """What the statement itself returned: the columns after ours, of the rows that are there."""
    there = result.get_value(0, _BEFORE - 1) is not None
    if result.nfields == _BEFORE:
        return Rows(None if changes else [()] * (result.ntuples if there else 0), changed)
    rows = [row[_BEFORE:] for row in rows_of(result).rows or []] if there else []
    return Rows(rows, changed if changes else len(rows))
