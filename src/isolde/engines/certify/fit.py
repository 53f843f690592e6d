"""A certificate fitted to its history: transactions by position, and everything that names what is not there refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from isolde.errors import MalformedCertificate
from isolde.formats.certificates import PlacedCertificate, object_name
from isolde.history import Append, CompareAndSet, History, Key, Sql, Status, TxnId, Write
from isolde.history.certificate import ObjectId, RowId, VersionId
from isolde.history.json_text import json_text

Place = tuple[int, int]
"""A transaction by its position in the history, and the place of one of its operations."""
_NOBODY: frozenset[int] = frozenset()
Rows = Callable[[RowId], bool]
"""Whether a table and a key of its width are there."""


@dataclass(frozen=True, slots=True)
class Order:
    """The versions of an object, oldest first, without the initial one."""

    versions: tuple[Place, ...]
    partial: bool
    from_initial: bool
    """Whether the initial version stands before them."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one operation could see (:class:`~isolde.history.certificate.VersionSet`); ``first`` is ``None`` without ``sees``."""

    first: int | None
    without: frozenset[int]
    also: tuple[int, ...]
    told: Mapping[ObjectId, Place | None]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A certificate whose transactions are positions. ``effective``: those that count as committed."""

    objects: Mapping[ObjectId, Order]
    commits: tuple[int, ...]
    reads: Mapping[Place, Seen]
    serial: tuple[int, ...] | None
    effective: frozenset[int]
    source: str


def fitted(history: History, placed: PlacedCertificate, known_row: Rows | None) -> Fitted:
    """``known_row`` says which rows there can be; ``None``: the history is about keys."""
    return _Fitting(history, placed, known_row).whole()


class _Fitting:
    def __init__(self, history: History, placed: PlacedCertificate, known_row: Rows | None) -> None:
        self.history, self.placed, self.known_row = history, placed, known_row
        self.positions: dict[TxnId, int] = {t.id: at for at, t in enumerate(history.transactions)}
        self.keys: set[Key] = set(history.initial)
        if known_row is None:
            self.keys |= {op.key for t in history.transactions for op in t.ops if hasattr(op, "key")}
        self.line = 0
        self.prefixes: dict[int, Seen] = {}
        self.writing: dict[Place, bool] = {}
        """Of statements that were named as writers, whether they can be."""

    def whole(self) -> Fitted:
        told, lines = self.placed.certificate, self.placed.lines
        objects: dict[ObjectId, Order] = {}
        for thing, installed in told.objects.items():
            self.line = lines.objects.get(thing, 0)
            self.known(thing)
            versions = tuple([self.installed(thing, one) for one in installed.versions if one is not None])
            objects[thing] = Order(versions, installed.partial, None in installed.versions[:1])
        self.line = lines.commits
        commits = self.named(told.commits)
        reads: dict[Place, Seen] = {}
        for place, seen in told.reads.items():
            self.line = lines.reads.get(place, 0)
            sees = seen.sees
            if sees is not None and not sees.without and not sees.also and not seen.versions:
                reads[self.operation(place)] = self.prefix(sees.first)
                continue
            reads[self.operation(place)] = Seen(
                None if sees is None else sees.first,
                frozenset(self.named(sees.without)) if sees is not None else _NOBODY,
                self.named(sees.also) if sees is not None else (),
                {
                    self.known(thing): None if one is None else self.written(thing, one)
                    for thing, one in (seen.versions or {}).items()
                },
            )
        self.line = lines.serial
        serial = None if told.serial is None else self.named(told.serial)
        status = [t.status for t in self.history.transactions]
        listed = {*commits, *(serial or ()), *(txn for order in objects.values() for txn, _ in order.versions)}
        effective = frozenset(
            at for at, one in enumerate(status) if one is Status.COMMITTED or (one is Status.UNKNOWN and at in listed)
        )
        if serial is not None:
            self.whole_serial(serial, effective)
        return Fitted(objects, commits, reads, serial, effective, told.source)

    def prefix(self, first: int) -> Seen:
        """What is seen of a prefix of ``commits``: most operations see one, and those of a transaction often the same."""
        known = self.prefixes.get(first)
        if known is None:
            known = self.prefixes[first] = Seen(first, _NOBODY, (), {})
        return known

    def known(self, thing: ObjectId) -> ObjectId:
        if isinstance(thing, RowId):
            if self.known_row is None:
                raise self.wrong(f"{_shown(thing)} is a row of a table, and the history has none", "one of its keys")
            if not self.known_row(thing):
                raise self.wrong(f"{_shown(thing)} names no row of a table of the history", "[table, [primary key...]]")
        elif self.known_row is not None:
            raise self.wrong(f"{_shown(thing)} is a key, and the history is about tables", "[table, [primary key...]]")
        elif thing not in self.keys:
            raise self.wrong(f"{_shown(thing)} is no key of the history", "a key that it uses")
        return thing

    def installed(self, thing: ObjectId, version: VersionId) -> Place:
        place = self.written(thing, version)
        if self.history.transactions[place[0]].status is Status.ABORTED:
            raise self.wrong(
                f"{_shown(thing)} has a version of {_shown(version[0])}, which was aborted", "committed transactions"
            )
        return place

    def written(self, thing: ObjectId, version: VersionId) -> Place:
        """A version by position; its operation must be able to write the object."""
        place = self.operation(version)
        if isinstance(thing, RowId):
            known = self.writing.get(place)
            fits = self.writes_rows(place) if known is None else known
        else:
            op = self.history.transactions[place[0]].ops[place[1]]
            fits = (
                isinstance(op, Write | Append) or (isinstance(op, CompareAndSet) and op.applied)
            ) and op.key == thing
        if not fits:
            raise self.wrong(f"operation {_shown(list(version))} writes no {_shown(thing)}", "an operation that does")
        return place

    def writes_rows(self, place: Place) -> bool:
        op = self.history.transactions[place[0]].ops[place[1]]
        writes = (
            isinstance(op, Sql)
            and op.content.get("error") is None
            and not str(op.content.get("sql", "call")).lstrip().lower().startswith("select")
        )
        self.writing[place] = writes
        return writes

    def operation(self, version: VersionId) -> Place:
        name, place = version
        found = self.positions.get(name)
        at = self.named((name,))[0] if found is None else found
        if place >= len(self.history.transactions[at].ops):
            raise self.wrong(
                f"{_shown(name)} has no operation {place}", f"one of its {len(self.history.transactions[at].ops)}"
            )
        return at, place

    def named(self, names: Iterable[TxnId]) -> tuple[int, ...]:
        found = []
        for name in names:
            at = self.positions.get(name)
            if at is None:
                raise self.wrong(f"{_shown(name)} is no transaction of the history", "one that it has")
            found.append(at)
        return tuple(found)

    def whole_serial(self, serial: tuple[int, ...], effective: frozenset[int]) -> None:
        ids = [t.id for t in self.history.transactions]
        missing = sorted(effective.difference(serial))
        if missing:
            raise self.wrong(f'{_shown(ids[missing[0]])} is missing from "serial"', "every committed transaction")
        extra = [at for at in serial if at not in effective]
        if extra:
            raise self.wrong(f'{_shown(ids[extra[0]])} in "serial" was not committed', "only committed transactions")

    def wrong(self, found: str, expected: str) -> MalformedCertificate:
        return MalformedCertificate(self.placed.file, self.line, found, expected)


def _shown(thing: object) -> str:
    text = json_text(object_name(thing)) if isinstance(thing, RowId) else json_text(thing)
    return text if len(text) <= 60 else text[:60] + "…"
