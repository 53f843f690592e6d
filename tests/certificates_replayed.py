"""A certificate against its history, operation by operation, by other means than the engine: a second opinion on recovery.

Statements are run on a SQLite of our own, on the rows of their version sets, and have to give the rows and the count that the
database gave. What they write are the rows of the versions that they made. All that a statement sees was committed before its own
transaction was, so that going through the transactions in the order of commits meets no version before its row is known.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from isolde.formats import decode, read
from isolde.formats.certificates import read_certificate, sidecar
from isolde.history import History, Read, Sql, Status, Transaction, TxnId
from isolde.history.certificate import Certificate, ObjectId, RowId, Sees, VersionId

Row = tuple[Any, ...]
Rows = dict[RowId, Row | None]
_UPSERT = "ON CONFLICT (c0) DO UPDATE SET"


def recovered(path: Path) -> tuple[History, Certificate]:
    """The history of a run, and the certificate beside it."""
    found = sidecar(str(path))
    assert found is not None
    return decode(read(str(path))), read_certificate(found).certificate


def is_seen(name: TxnId, sees: Sees, place: dict[TxnId, int]) -> bool:
    return name in sees.also or (place[name] < sees.first and name not in sees.without)


def unexplained_reads(path: Path) -> tuple[int, list[VersionId]]:
    """How many reads of registers the certificate speaks of, and those that saw another value than it says."""
    history, told = recovered(path)
    known = {transaction.id: transaction for transaction in history.transactions}
    place = {name: at for at, name in enumerate(told.commits)}
    wrong = []
    reads = 0
    for (name, at), seen in told.reads.items():
        op = known[name].ops[at]
        if not isinstance(op, Read) or seen.sees is None:
            continue
        reads += 1
        own = [_left(before) for before in known[name].ops[:at] if _writes(before, op.key)]
        value = 0
        for version in told.objects[op.key].versions if op.key in told.objects else ():
            if version is not None and is_seen(version[0], seen.sees, place):
                value = _left(known[version[0]].ops[version[1]])
        if op.value != (own[-1] if own else value):
            wrong.append((name, at))
    return reads, wrong


def _writes(op: Any, key: object) -> bool:
    return not isinstance(op, Read) and op.key == key and getattr(op, "applied", True)


def _left(op: Any) -> Any:
    return op.new if hasattr(op, "new") else op.value


class Replay:
    """``wrong`` are operations whose answers their version sets do not give; ``looked_again`` counts overridden versions.

    ``only_last``: of the versions that one transaction makes of a row, the last is all that is told.
    """

    def __init__(self, path: Path, *, only_last: bool = False) -> None:
        self._only_last = only_last
        self.history, self.certificate = recovered(path)
        self._schema: list[str] = list(self.history.extra["schema"])
        self._names = [_name_of(text) for text in self._schema if text.startswith("CREATE TABLE")]
        self._keys = {name: self._key_of(name) for name in self._names}
        self._initial: Rows = {
            RowId(name, tuple(row[place] for place in self._keys[name])): tuple(row)
            for name, rows in self.history.extra["rows"].items()
            for row in rows
        }
        self._rows: dict[VersionId, Rows] = {}
        self.place = {name: place for place, name in enumerate(self.certificate.commits)}
        self.wrong: list[tuple[VersionId, object, object]] = []
        self.replayed = self.looked_again = 0
        for transaction in self._in_order():
            own: Rows = {}
            for place, op in enumerate(transaction.ops):
                assert isinstance(op, Sql)
                self._operation((transaction.id, place), dict(op.content), own)

    def _key_of(self, name: str) -> list[int]:
        with sqlite3.connect(":memory:") as db:
            for text in self._schema:
                db.execute(text)
            return [column[0] for column in db.execute(f'PRAGMA table_info("{name}")') if column[5]]

    def _in_order(self) -> list[Transaction]:
        known = {transaction.id: transaction for transaction in self.history.transactions}
        committed = [t for t in self.history.transactions if t.status is Status.COMMITTED and t.id not in self.place]
        return [*(known[name] for name in self.certificate.commits), *committed]

    def _version_set(self, at: VersionId, own: Rows) -> Rows | None:
        told = self.certificate.reads.get(at)
        if told is None or told.sees is None:
            return None
        rows = dict(self._initial)
        for thing, installed in self.certificate.objects.items():
            assert isinstance(thing, RowId)
            for version in installed.versions:
                if version is not None and is_seen(version[0], told.sees, self.place):
                    rows[thing] = self._rows[version].get(thing)
        for thing, newer in (told.versions or {}).items():
            assert isinstance(thing, RowId)
            self.looked_again += 1
            rows[thing] = self._initial.get(thing) if newer is None else self._rows[newer].get(thing)
        return rows | own

    def answer_with(self, transaction: Transaction, at: int, thing: ObjectId, version: VersionId | None) -> list[Row]:
        """The rows that a query gives if its version set holds another version of one object."""
        own: Rows = {}
        for earlier in range(at):
            own |= self._rows.get((transaction.id, earlier), {})
        rows = self._version_set((transaction.id, at), own)
        op = transaction.ops[at]
        assert rows is not None
        assert isinstance(op, Sql)
        assert isinstance(thing, RowId)
        rows[thing] = self._initial.get(thing) if version is None else self._rows[version].get(thing)
        return self._run(dict(op.content), rows)[2]

    def _operation(self, at: VersionId, op: dict[str, Any], own: Rows) -> None:
        rows = self._version_set(at, own)
        if rows is None:
            return
        before, after, answer, count = self._run(op, rows)
        self.replayed += 1
        if op["rows"] is not None and Counter(map(tuple, op["rows"])) != Counter(answer):
            self.wrong.append((at, answer, op["rows"]))
        # MySQL counts a row that an upsert changed twice.
        if op["rows"] is None and op["count"] != count and "ON DUPLICATE KEY" not in op["sql"]:
            self.wrong.append((at, count, op["count"]))
        things = before.keys() | after.keys()
        changed = {thing: after.get(thing) for thing in things if before.get(thing) != after.get(thing)}
        self._rows[at] = changed
        own |= changed
        made = {thing for thing, installed in self.certificate.objects.items() if at in installed.versions}
        if not made <= set(changed) or (made != set(changed) and not self._only_last):
            self.wrong.append((at, changed, made))

    def _run(self, op: dict[str, Any], rows: Rows) -> tuple[Rows, Rows, list[Row], int]:
        db = sqlite3.connect(":memory:")
        for text in self._schema:
            db.execute(text)
        before = {thing: row for thing, row in rows.items() if row is not None}
        for thing, row in before.items():
            db.execute(f'INSERT INTO "{thing.table}" VALUES ({", ".join("?" * len(row))})', row)
        text = re.sub(r"\$(\d+)", r"?\1", op["sql"]).removesuffix(" FOR UPDATE").replace("%s", "?")
        text = re.sub(r"VALUES\((\w+)\)", r"excluded.\1", text).replace("ON DUPLICATE KEY UPDATE", _UPSERT)
        cursor = db.execute(text, op["params"])
        answer = [tuple(row) for row in cursor.fetchall()] if op["rows"] is not None else []
        after: Rows = {
            RowId(name, tuple(row[place] for place in self._keys[name])): tuple(row)
            for name in self._names
            for row in db.execute(f'SELECT * FROM "{name}"')
        }
        db.close()
        return dict(before), after, answer, cursor.rowcount


def _name_of(text: str) -> str:
    found = re.match(r"CREATE TABLE (\S+)", text)
    assert found is not None
    return re.sub(r'["`]', "", found[1])
