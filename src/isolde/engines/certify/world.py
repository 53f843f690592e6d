"""What a history of SQL tables and its certificate are about: the objects, who installed what in which order, who saw what."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from isolde.engines.certify.fit import Fitted, Place, Seen, fitted
from isolde.engines.certify.sentences import row_name
from isolde.engines.certify.statements import Asked, Statements
from isolde.errors import ExecutionError, InputError, MalformedCertificate, MalformedProgram, OutsideFragment
from isolde.formats.certificates import PlacedCertificate
from isolde.formats.tables import SqlHistory, value_of_kind
from isolde.history import History, Sql
from isolde.history.certificate import RowId
from isolde.semantics.core.catalog import Catalog
from isolde.semantics.tables.view import Row
from isolde.tx.dialects import Dialect

_KEYS: dict[str, tuple[type, ...]] = {"integer": (int, Decimal), "text": (str,)}
"""What the values of a primary key are in JSON, where only one sort of value is meant."""
INITIAL = -1
"""The place of the initial version before those that were installed."""


class Undecidable(Exception):
    """The certificate leaves something open that every level hangs on; the text says what."""


class Objects:
    """The rows of all tables by number, those included that are only inserted later. A number is a row's for good."""

    def __init__(self, catalog: Catalog, rows: Mapping[str, Sequence[Row]], dialect: Dialect) -> None:
        self.catalog, self.dialect = catalog, dialect
        self._numbers: list[dict[object, int]] = [{} for _ in catalog.tables]
        self.table: list[int] = []
        self.name: list[RowId] = []
        self.initial: list[Row | None] = []
        for name, content in rows.items():
            position = catalog.table(name).position
            for row in content:
                self.initial[self.number(position, row)] = row

    def number(self, position: int, row: Row) -> int:
        """The number of the row with this row's primary key."""
        info = self.catalog.tables[position]
        if not info.table.primary_key:
            raise Undecidable(f"the table {info.table.name} has no primary key, so that its rows have no names")
        key = info.unique_keys[0](row)
        found = self._numbers[position].get(key)
        if found is None:
            found = self._numbers[position][key] = len(self.table)
            self.table.append(position)
            self.name.append(RowId(info.table.name, tuple(row[place] for place in info.uniques[0])))
            self.initial.append(None)
        return found

    def named(self, thing: RowId) -> int:
        """The number of the object of this name; ``ValueError`` if it names none."""
        info = self.catalog.by_name.get(thing.table)
        if info is None or not info.table.primary_key or len(info.uniques[0]) != len(thing.key):
            raise ValueError(thing)
        row: list[object] = [None] * len(info.types)
        for place, value in zip(info.uniques[0], thing.key, strict=True):
            kind = info.table.columns[place].type.kind.value
            try:
                row[place] = value_of_kind(value, kind)
            except ArithmeticError as error:
                raise ValueError(thing) from error
            # SQLite keeps any value in a column of any type.
            typed = _KEYS.get(kind) if self.dialect is not Dialect.SQLITE else None
            if row[place] is None or (typed is not None and not isinstance(row[place], typed)):
                raise ValueError(thing)
        return self.number(info.position, tuple(row))


@dataclass(slots=True)
class Line:
    """The versions of one object that were installed, oldest first: the last of each transaction.

    ``at`` is the place of a transaction's version among them, ``every`` all versions that the certificate names, in its order,
    and ``listed`` the same as a set. ``ranks`` are
    the writers' places in ``commits`` where these only rise, so that they can be searched; else ``None``.
    ``last`` is, by transaction, the last of its operations that the certificate names.
    ``again`` are pairs of transactions of which the first wrote before and after the second, and whether by the same operation.
    """

    versions: list[Place]
    at: dict[int, int]
    every: tuple[Place, ...]
    listed: frozenset[Place]
    complete: bool
    ranks: list[int] | None
    again: list[tuple[int, int, bool]]
    last: dict[int, int]


class World:
    """The history, its certificate, and what follows from both without running a statement."""

    def __init__(self, history: History, sql: SqlHistory, placed: PlacedCertificate) -> None:
        self.history = history
        self.sql = sql
        self.statements = Statements(sql.schema, sql.dialect)
        self.catalog = self.statements.catalog
        self.objects = Objects(self.catalog, {name: sql.known_rows(name) for name in sql.rows}, sql.dialect)
        self.fitted: Fitted = fitted(history, placed, self._known_row)
        taken = {t.id for t in sql.transactions}
        self.effective = frozenset(at for at in self.fitted.effective if history.transactions[at].id in taken)
        self.rank = {txn: at for at, txn in enumerate(self.fitted.commits)}
        self.commits = self.fitted.commits
        self.reads: Mapping[Place, Seen] = self.fitted.reads
        self.told: dict[Place, dict[int, Place | None]] = {
            place: {self.objects.named(thing): one for thing, one in seen.told.items() if isinstance(thing, RowId)}
            for place, seen in self.reads.items()
            if seen.told
        }
        self.lines: dict[int, Line] = {}
        self.installed_by: dict[int, list[int]] = {}
        self.listed_at: dict[Place, list[int]] = {}
        """By operation, the objects of which the certificate names a version of it."""
        for thing, order in self.fitted.objects.items():
            assert isinstance(thing, RowId)
            number = self.objects.named(thing)
            if number in self.lines:
                raise MalformedCertificate(
                    placed.file,
                    placed.lines.objects.get(thing, 0),
                    f"a second line for {row_name(thing)}",
                    "one at most",
                )
            self._add_line(number, order.versions, order.partial)
        self.asked: dict[Place, Asked] = {}
        self.unread = ""
        """Why a statement that counts cannot be run: only the orders of versions are known then."""
        for at, transaction in enumerate(history.transactions):
            if transaction.id in taken:
                for index, op in enumerate(transaction.ops):
                    self._read(at, index, op)

    def _known_row(self, thing: RowId) -> bool:
        try:
            self.objects.named(thing)
        except ValueError:
            return False
        return True

    def _add_line(self, number: int, versions: Sequence[Place], partial: bool) -> None:
        last = {txn: at for at, (txn, _) in enumerate(versions)}
        kept = [version for at, version in enumerate(versions) if last[version[0]] == at]
        again = []
        for at, (txn, _) in enumerate(versions):
            if at + 1 < len(versions) and versions[at + 1][0] != txn and last[txn] != at:
                again.append((txn, versions[at + 1][0], versions[at] in versions[at + 1 :]))
        ranks = [self.rank.get(txn, len(self.commits)) for txn, _ in kept]
        rising = all(a < b for a, b in pairwise(ranks))
        places = {txn: at for at, (txn, _) in enumerate(kept)}
        latest: dict[int, int] = {}
        for txn, index in versions:
            latest[txn] = max(index, latest.get(txn, index))
        searched = ranks if rising else None
        self.lines[number] = Line(
            kept, places, tuple(versions), frozenset(versions), not partial, searched, again, latest
        )
        for txn in places:
            self.installed_by.setdefault(txn, []).append(number)
        for version in dict.fromkeys(versions):
            self.listed_at.setdefault(version, []).append(number)

    def _read(self, at: int, index: int, op: object) -> None:
        if not isinstance(op, Sql):
            self.unread = self.unread or "scans and operations on keys have no meaning in a history of SQL tables"
            return
        content = op.content
        if "error" in content and content["error"] is not None:
            return
        name = self.history.transactions[at].id
        if "sql" not in content:
            if at in self.effective:
                self.unread = self.unread or (
                    f"operation {index} of {name} calls a procedure, whose statements are not recorded"
                )
            return
        try:
            self.asked[at, index] = self.statements.asked(content["sql"], content.get("params") or ())
        except (ExecutionError, OutsideFragment) as error:
            # The first: it fails whatever the rows are, by its types.
            if at in self.effective:
                self.unread = self.unread or f"operation {index} of {name}: {error}"
        except MalformedProgram as error:
            raise InputError(f"operation {index} of {name}: {error}") from None

    def with_orders(self, orders: Mapping[int, Sequence[Place]], effective: frozenset[int]) -> World:
        """The same with these orders of some rows, which are whole, and these transactions taking effect."""
        other = copy(self)
        other.effective = effective
        other.lines, other.installed_by, other.listed_at = {}, {}, {}
        for number, line in self.lines.items():
            other._add_line(number, orders.get(number, line.every), number not in orders and not line.complete)
        return other

    # Who saw what

    def visible(self, place: Place, number: int) -> int:
        """Of an object, the place of the version that others installed and an operation with ``sees`` selects."""
        line = self.lines.get(number)
        if line is None:
            return INITIAL
        seen = self.reads[place]
        first = seen.first or 0
        own = place[0]
        if line.ranks is not None:
            at = bisect_left(line.ranks, first) - 1
            while at >= 0 and (line.versions[at][0] in seen.without or line.versions[at][0] == own):
                at -= 1
            for txn in seen.also:
                found = line.at.get(txn)
                if found is not None and found > at and txn != own:
                    at = found
            return at
        for at in range(len(line.versions) - 1, -1, -1):
            txn = line.versions[at][0]
            if txn != own and self.sees(place, txn):
                return at
        return INITIAL

    def sees(self, place: Place, txn: int) -> bool:
        """Whether an operation with ``sees`` could see a transaction."""
        seen = self.reads[place]
        if txn in seen.also:
            return True
        return self.rank.get(txn, len(self.commits)) < (seen.first or 0) and txn not in seen.without

    def may_have_written(self, place: Place, asked: Asked) -> list[int]:
        """The objects that a statement without a version set may have written: a version of it is listed, or only a later one of
        its transaction."""
        found = list(self.listed_at.get(place, ()))
        if asked.form.what != "query":
            found += [
                number
                for number in self.installed_by.get(place[0], ())
                if self.objects.table[number] == asked.form.target
                and self.lines[number].last[place[0]] > place[1]
                and number not in found
            ]
        return found

    def version(self, number: int, at: int) -> Place | None:
        """The version at a place of an object's line."""
        return None if at == INITIAL else self.lines[number].versions[at]

    def before(self, number: int, txn: int) -> int | None:
        """The place before that of a transaction's version; ``None`` if it installed none."""
        line = self.lines.get(number)
        found = None if line is None else line.at.get(txn)
        return None if found is None else found - 1
