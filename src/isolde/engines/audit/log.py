"""A log as it is judged: transactions of statements that are compiled (``compiling.py``), each with what was answered."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from isolde.engines.audit.compiling import CREATES, DROPS, Ask, Compiling
from isolde.engines.audit.tables import NamedStore
from isolde.errors import InputError, MalformedProgram, OutsideFragment
from isolde.formats.tables import SqlHistory
from isolde.history import Key, Operation, Sql, Status, Transaction, TxnId
from isolde.tx.schema import Schema
from isolde.tx.sql import schema as read_schema


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A statement that the language cannot say: where it stands, and why."""

    transaction: TxnId
    statement: int
    reason: str


@dataclass(slots=True, eq=False)
class Entry:
    """A transaction that may take part. ``number`` is its place in the log by ``end``; ``maybe``: its outcome is unknown."""

    number: int
    id: TxnId
    session: Key
    asks: tuple[Ask, ...]
    maybe: bool
    start: int | None
    end: int | None
    before: tuple[int, ...] = ()
    """Those just before it in its session, by number: back to one whose outcome is known."""
    turn: int | Decimal = 0
    """Its place in its session."""
    serial: int | Decimal | None = None
    """Where the database says that it comes; only a hint."""
    aborted: bool = False
    """It did not take effect; what it was answered is not judged. Such entries are not in a log, but see ``aborted``."""

    @property
    def tables(self) -> frozenset[str]:
        """Those that it looks at or changes, by name."""
        return frozenset().union(*(ask.form.tables for ask in self.asks))


@dataclass(slots=True)
class Log:
    """What is judged. ``entries`` are in the order of ``end``, those without an end last; aborted transactions are not there."""

    store: NamedStore
    history: SqlHistory
    entries: list[Entry]
    session_order: bool = True
    tables_change: bool = False
    """Whether tables are created or dropped in the log."""
    left_out: list[Unsupported] = field(default_factory=list)
    learned: dict[str, Any] = field(default_factory=dict)
    """What was found out about the log on the way; its beginnings share it."""

    def apart(self) -> Log:
        """The same log on a store of its own, at its beginning."""
        store = NamedStore(self.store.schema, self.store.dialect, self.store.first_tables)
        store.compiled, store.counts_found = self.store.compiled, self.store.counts_found
        found = replace(self, store=store)
        found.begin()
        return found

    def begin(self) -> None:
        """Makes the store's rows those before the first transaction."""
        self.store.clear()
        for table, rows in self.history.rows.items():
            self.store.load_named(table, rows)

    @property
    def numbered(self) -> bool:
        """Whether the database told the place of every committed transaction."""
        return all(entry.serial is not None for entry in self.entries if not entry.maybe)

    @property
    def timed(self) -> bool:
        """Whether every committed transaction has both times."""
        return all(entry.start is not None and entry.end is not None for entry in self.entries if not entry.maybe)


def log_of(history: SqlHistory, *, skip_unsupported: bool = False, session_order: bool = True) -> Log:
    """Compiles a log. What the language cannot say is refused by name, or left out with the rest of its transaction's answer."""
    created = [text for one in history.transactions for op in one.ops if (text := _creation_text(op))]
    schema, there = history.schema, list(history.schema.tables)
    if created:
        schema = _with_created(history, created)
    store = NamedStore(schema, history.dialect, there)
    store.counts_found = history.counts == "found"
    log = Log(store, history, [], session_order)
    log.begin()
    log.tables_change = bool(created) or _drops(history)
    compiling = Compiling(history, store, log.tables_change)
    taking_part = sorted(
        (one for one in history.transactions if one.status is not Status.ABORTED), key=lambda one: _place(one)
    )
    numbers = {one.id: number for number, one in enumerate(taking_part)}
    sessions: dict[Key, list[int]] = {}
    before: dict[TxnId, tuple[int, ...]] = {}
    turns: dict[TxnId, int] = {}
    turns_of: dict[Key, int] = {}
    for one in history.transactions:
        if one.id in numbers:
            earlier = sessions.setdefault(one.session, [])
            turns[one.id] = turn = turns_of.get(one.session, 0)
            turns_of[one.session] = turn + 1
            before[one.id] = tuple(earlier) if session_order else ()
            if one.status is Status.COMMITTED:
                earlier.clear()
            earlier.append(numbers[one.id])
    for number, one in enumerate(taking_part):
        asks = []
        for place, op in enumerate(one.ops):
            try:
                asks.append(compiling.ask(_content(op)))
            except (OutsideFragment, MalformedProgram, InputError) as error:
                left = Unsupported(one.id, place, str(error))
                if not skip_unsupported:
                    raise Refused(left) from None
                log.left_out.append(left)
        log.entries.append(
            Entry(
                number,
                one.id,
                one.session,
                tuple(asks),
                one.status is Status.UNKNOWN,
                one.start,
                one.end,
                before[one.id],
                turns[one.id],
                one.serial,
            )
        )
    return log


def aborted(log: Log) -> list[Entry]:
    """The aborted transactions as entries that may take part, as far as their statements can be run."""
    compiling = Compiling(log.history, log.store, log.tables_change)
    turns: dict[Key, int] = {}
    found: list[Entry] = []
    for one in log.history.transactions:
        turns[one.session] = turns.get(one.session, 0) + (one.status is not Status.ABORTED)
        if one.status is not Status.ABORTED:
            continue
        asks = []
        with suppress(OutsideFragment, MalformedProgram, InputError):
            for op in one.ops:
                asks.append(replace(compiling.ask(_content(op)), free=True))
        number = len(log.entries) + len(found)
        # It comes before those of its session that take part after it.
        turn = turns[one.session] - Decimal("0.5")
        found.append(Entry(number, one.id, one.session, tuple(asks), True, one.start, one.end, (), turn, None, True))
    return found


def _content(op: Operation) -> Any:
    if not isinstance(op, Sql):
        raise InputError("an operation on keys among SQL statements; a history uses one kind of key space")
    return op.content


class Refused(Exception):
    """A statement cannot be judged."""

    def __init__(self, what: Unsupported) -> None:
        super().__init__(what.reason)
        self.what = what


def _place(one: Transaction) -> tuple[int, int]:
    """By ``end``; an unknown outcome's orders nothing, but says about when it was."""
    return (1, 0) if one.end is None else (0, one.end)


def ended_by(history: SqlHistory, last: TxnId) -> int:
    """How many transactions of the log had ended when this one had: aborted ones count, too."""
    in_order = sorted(history.transactions, key=_place)
    return next(place for place, one in enumerate(in_order, 1) if one.id == last)


def _creation_text(op: Operation) -> str:
    """The text of a CREATE TABLE; empty if it is something else."""
    text = op.content.get("sql") if isinstance(op, Sql) else None
    return text if isinstance(text, str) and CREATES.match(text) else ""


def _drops(history: SqlHistory) -> bool:
    return any(
        isinstance(op, Sql) and DROPS.match(str(op.content.get("sql", "")))
        for one in history.transactions
        for op in one.ops
    )


def _with_created(history: SqlHistory, texts: Sequence[str]) -> Schema:
    tables = dict(history.schema.tables)
    for text in texts:
        try:
            made = read_schema(text, history.dialect, "log", strict=False)
        except (OutsideFragment, MalformedProgram):
            # It is refused where it stands.
            continue
        for name, table in made.tables.items():
            if tables.setdefault(name, table) != table:
                raise InputError(f"the log creates the table {name} in two ways; judge its parts one by one")
    return Schema.of(*tables.values())


def relinked(entries: Sequence[Entry]) -> list[Entry]:
    """Some entries of a log, each after those that are left of its session."""
    before: dict[int, tuple[int, ...]] = {}
    earlier: dict[Any, list[int]] = {}
    for entry in sorted(entries, key=lambda entry: entry.turn):
        those = earlier.setdefault(entry.session, [])
        before[entry.number] = tuple(those)
        if not entry.maybe:
            those.clear()
        those.append(entry.number)
    return [replace(entry, before=before[entry.number]) for entry in entries]
