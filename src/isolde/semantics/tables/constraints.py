"""Changes applied: what the database itself sees to. Not null, checks, unique keys, foreign keys, generated ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.core.catalog import Catalog, Reference
from isolde.semantics.core.dialects import IdSource, Rules
from isolde.semantics.core.relations import Insert
from isolde.semantics.core.types import outside
from isolde.semantics.tables.ids import Ids
from isolde.semantics.tables.view import Row, TableView
from isolde.tx.statements import InsertMode

Hit = tuple[int, Row, Row]
RowCheck = Callable[[Row], None]
Resolve = Callable[[Row, Row], Row | None]
"""What ON CONFLICT makes of a row that is there, for one that was to be inserted; ``None``: it stays."""
Answer = TypeVar("Answer")


class Tables(Protocol):
    """What a change is applied to: the views of all tables, and the rules of their dialect.

    ``counts_found``: an UPDATE counts the rows that it found, also where the dialect counts those that it changed.
    """

    catalog: Catalog
    rules: Rules
    tables: Sequence[TableView]
    counts_found: bool

    def writable(self, position: int) -> TableView: ...


@dataclass(frozen=True, slots=True, eq=False)
class Checks:
    """What must hold of one new row, and the foreign keys that a change of some columns touches."""

    row: RowCheck | None
    outgoing: tuple[Reference, ...]
    incoming: tuple[Reference, ...]


@dataclass(frozen=True, slots=True, eq=False)
class UpdatePlan:
    """``rekeys``: columns of a unique key are set. ``draws``: it gives generated ids. ``moves_ids``: it sets their column."""

    position: int
    checks: Checks
    rekeys: bool
    draws: bool
    moves_ids: bool


@dataclass(frozen=True, slots=True, eq=False)
class InsertPlan:
    """``rekeys``: ON CONFLICT changes columns of a key. ``plain``: no row can be in the way of another, but as an error."""

    change: Insert
    checks: Checks
    rekeys: bool
    plain: bool


# Unique keys


def taken(table: TableView, unique: int, key: Any) -> ExecutionError:
    names = ", ".join(table.info.table.columns[column].name for column in table.info.uniques[unique])
    return ExecutionError("unique", f"{table.info.table.name} has already a row with ({names}) = {key!r}")


def conflicts(table: TableView, row: Row, uniques: Iterable[int]) -> dict[int, Row]:
    """The rows that hold a unique key of this one, in the order of the keys."""
    found: dict[int, Row] = {}
    for place in uniques:
        key = table.info.unique_keys[place](row)
        if key is not None:
            found.update(table.by_key(place, key))
    return found


def add(table: TableView, row: Row) -> int:
    """Inserts a row whose unique keys are free."""
    for place, unique in enumerate(table.info.unique_keys):
        key = unique(row)
        if key is not None and table.by_key(place, key):
            raise taken(table, place, key)
    return table.put(None, row)


# UPDATE and DELETE


def updated(store: Tables, plan: UpdatePlan, hits: list[Hit]) -> int:
    table, checks = store.writable(plan.position), plan.checks
    if plan.draws and len(hits) > 1:
        # Refused, not failed: no ids are used up.
        table.ids.next -= len(hits)
        raise outside(
            "an UPDATE that gives generated ids to several rows", "one statement a row: the order of rows decides"
        )
    try:
        if checks.row is not None:
            for _, _, row in hits:
                checks.row(row)
        if plan.rekeys:
            _check_new_keys(table, hits)
        for number, _, row in hits:
            table.put(number, row, not plan.rekeys)
        if plan.rekeys:
            _rekeyed(store, table, hits)
        if checks.outgoing or checks.incoming:
            _references(store, checks, [hit[2] for hit in hits], [hit[1] for hit in hits])
    except ExecutionError:
        table.ids.uncertain = table.ids.uncertain or plan.moves_ids
        raise
    if store.rules.counts_changed and not store.counts_found:
        return sum(old != new for _, old, new in hits)
    return len(hits)


def _rekeyed(store: Tables, table: TableView, hits: list[Hit]) -> None:
    if len(hits) > 1:
        refuse_open_keys(table, hits)
    place = table.info.generated
    if store.rules.ids is IdSource.RESERVED and place is not None:
        table.ids.next = max(table.ids.next, *(row[place] + 1 for _, _, row in hits), 0)


def half_way(store: Tables, position: int, statement: Callable[[], Answer]) -> Answer:
    """Runs it. MySQL's counter of ids follows a statement row by row: if it fails, it came as far as the plan has it."""
    try:
        return statement()
    except ExecutionError:
        store.writable(position).ids.uncertain = True
        raise


def _check_new_keys(table: TableView, hits: list[Hit]) -> None:
    """No row that stays as it is, and no other changed row, holds a new key."""
    changed = {number for number, _, _ in hits}
    for place, unique in enumerate(table.info.unique_keys):
        seen: set[Any] = set()
        for _, _, row in hits:
            key = unique(row)
            if key is None:
                continue
            if key in seen or any(number not in changed for number, _ in table.by_key(place, key)):
                raise taken(table, place, key)
            seen.add(key)


def refuse_open_keys(table: TableView, hits: list[Hit]) -> None:
    """Databases check keys row by row. Where a row takes a key that another row of the statement gives up, it depends on
    the order whether the statement fails; in a circle it always does.
    """
    for place, unique in enumerate(table.info.unique_keys):
        owners = {key: number for number, old, _ in hits if (key := unique(old)) is not None}
        takes: dict[int, int] = {}
        for number, _, row in hits:
            key = unique(row)
            if key is not None and owners.get(key, number) != number:
                takes[number] = owners[key]
        for start in takes:
            at = takes[start]
            while at in takes and at != start:
                at = takes[at]
                if at == takes.get(at):
                    break
            if at == start:
                raise taken(table, place, "a key that goes round in a circle")
        if takes:
            raise outside(
                f"an UPDATE of {table.info.table.name} in which one row takes the key of another",
                "whether it fails depends on the order of rows",
            )


def deleted(store: Tables, position: int, hits: list[tuple[int, Row]]) -> int:
    table = store.writable(position)
    for number, _ in hits:
        table.put(number, None)
    for reference in store.catalog.references:
        if reference.parent == position:
            _orphans(store, reference, [row for _, row in hits])
            if store.rules.checks_references_by_row and reference.child == position and len(hits) > 1:
                _self_reference(reference, [row for _, row in hits])
    return len(hits)


def _self_reference(reference: Reference, rows: list[Row]) -> None:
    keys = {reference.parent_key(row) for row in rows}
    for row in rows:
        child = reference.child_key(row)
        if child is not None and child in keys and child != reference.parent_key(row):
            raise outside("a DELETE of rows that refer to each other in MySQL", "whether it fails depends on the order")


# Foreign keys: at the end of the statement, in MySQL after each row


def _references(store: Tables, checks: Checks, rows: Iterable[Row], gone: list[Row]) -> None:
    rows = list(rows)
    for reference in checks.outgoing:
        _parents(store, reference, rows)
    for reference in checks.incoming:
        _orphans(store, reference, gone)


def _parents(store: Tables, reference: Reference, rows: list[Row]) -> None:
    parent = store.tables[reference.parent]
    for row in rows:
        key = reference.child_key(row)
        if key is not None and not _there(parent, reference.parent_columns, key):
            name = store.catalog.tables[reference.child].table.name
            raise ExecutionError("foreign-key", f"{name} refers to {key!r}, which is not in {parent.info.table.name}")


def _there(table: TableView, columns: tuple[int, ...], key: Any) -> bool:
    for place, unique in enumerate(table.info.uniques):
        if unique == columns:
            return bool(table.by_key(place, key))
    return bool(table.by_equal(columns, key))


def _incoming(store: Tables, position: int, gone: list[Row]) -> None:
    for reference in store.catalog.references:
        if reference.parent == position:
            _orphans(store, reference, gone)


def _orphans(store: Tables, reference: Reference, gone: list[Row]) -> None:
    """No child refers to a key that is gone. Where each row is checked, one that referred to itself was its own child."""
    parent, child = store.tables[reference.parent], store.tables[reference.child]
    itself = store.rules.checks_references_by_row and reference.parent == reference.child
    for row in gone:
        key = reference.parent_key(row)
        if key is None or _there(parent, reference.parent_columns, key):
            continue
        if child.by_equal(reference.child_columns, key) or (itself and reference.child_key(row) == key):
            raise ExecutionError(
                "foreign-key", f"{child.info.table.name} still refers to {key!r} of {parent.info.table.name}"
            )


# INSERT


def inserted_plainly(store: Tables, plan: InsertPlan, rows: Iterable[Row]) -> tuple[int, list[Row]]:
    """Rows of a table without generated ids, and no ON CONFLICT."""
    table, check, outgoing = store.writable(plan.change.table.position), plan.checks.row, plan.checks.outgoing
    by_row = store.rules.checks_references_by_row
    done = []
    for row in rows:
        if check is not None:
            check(row)
        add(table, row)
        done.append(row)
        if by_row and outgoing:
            _references(store, plan.checks, [row], [])
    if not by_row:
        for reference in outgoing:
            _parents(store, reference, done)
    return len(done), done


def inserted(
    store: Tables, plan: InsertPlan, size: int, rows: Iterable[Row], resolve: Resolve | None
) -> tuple[int, list[Row]]:
    """``size``: how many rows there are to insert."""
    change = plan.change
    table = store.writable(change.table.position)
    counter = table.ids.next
    try:
        return _Insertion(store, plan, size, resolve).run(rows)
    except OutsideFragment:
        # A failed INSERT uses up ids; one that is refused was never run.
        table.ids.next = counter
        raise
    except ExecutionError as error:
        if size > 1 and (change.queries or not change.ordered):
            table.ids.uncertain = True
        if change.mode is InsertMode.IGNORE and store.rules.ignore_bends_values and error.kind in _BENT:
            raise outside(
                f"INSERT IGNORE of a value that does not fit ({error}) in MySQL", "give values that fit"
            ) from None
        raise


_BENT = frozenset({"conversion", "out-of-range", "division-by-zero", "cardinality"})
"""Errors that IGNORE makes warnings of, and other values of those that do not fit."""


class _Insertion:
    """One INSERT on its way: ``done`` are the rows that it gives, ``new`` those that it put by their numbers, ``gone`` those
    that were there before.
    """

    def __init__(self, store: Tables, plan: InsertPlan, size: int, resolve: Resolve | None) -> None:
        self.store, self.plan, self.change, self.resolve = store, plan, plan.change, resolve
        self.rules = store.rules
        self.position = self.change.table.position
        self.table = store.writable(self.position)
        self.alone = self.change.query is None and size == 1
        self.ids = Ids(self.rules.ids, self.table, size if self.change.query is None else None)
        self.done: list[Row] = []
        self.gone: list[Row] = []
        self.new: dict[int, Row] = {}

    def run(self, rows: Iterable[Row]) -> tuple[int, list[Row]]:
        store, plan = self.store, self.plan
        if not self.change.ordered and not (plan.plain and self.table.info.generated is None):
            rows = list(rows)
            self._refuse_open_order(rows)
        count = sum(map(self._row, rows))
        if not self.rules.checks_references_by_row:
            for reference in plan.checks.outgoing:
                _parents(store, reference, list(self.new.values()))
        if self.gone:
            _incoming(store, self.position, self.gone)
        return count, self.done

    def _row(self, given: Row) -> int:
        """Inserts one row, or does what is done in its place; how many rows that counts for."""
        change, ids, check = self.change, self.ids, self.plan.checks.row
        ignoring = change.mode is InsertMode.IGNORE
        # MySQL draws an id for a row that passed its checks, which cannot speak of the id; IGNORE draws for all of several rows.
        first_tested = self.rules.ids is IdSource.RESERVED and (not ignoring or self.alone)
        if first_tested and check is not None:
            check(ids.imagined(given))
        row = ids.filled(given)
        if ignoring and not self._acceptable(row):
            ids.unused()
            return 0
        if check is not None and not first_tested:
            check(row)
        count = 1
        if change.mode is InsertMode.REPLACE:
            count += self._cleared(row)
        elif change.conflict is not None or ignoring:
            every = range(len(self.table.info.uniques))
            there = conflicts(self.table, row, every if change.conflict is None else change.conflict.target)
            if there:
                ids.unused()
                count = self._resolved(there, row)
                if self.done:
                    ids.seen(self.done[-1])
                return count
        try:
            self.new[add(self.table, row)] = row
        except ExecutionError:
            if change.query is not None:
                # MySQL's counter follows the ids of an INSERT … SELECT also where a key is taken.
                ids.seen(row)
            raise
        if self.rules.checks_references_by_row:
            # Before its id is seen: InnoDB's counter does not follow a row that a foreign key forbids.
            _references(self.store, self.plan.checks, [row], [])
        ids.seen(row)
        self.done.append(row)
        return count

    def _cleared(self, row: Row) -> int:
        """REPLACE deletes the rows that hold a key of the new one; how many it counts for them."""
        there = conflicts(self.table, row, range(len(self.table.info.uniques)))
        for number, old in there.items():
            self.gone.append(old)
            self.table.put(number, None)
        if not self.rules.counts_replaced:
            return 0
        if there:
            # It tried to insert the row first.
            self.ids.seen(row)
        # The row is deleted before the new one comes, whose key would do as well.
        _incoming(self.store, self.position, self.gone)
        same = len(there) == 1 and next(iter(there.values())) == row
        return 0 if same and self._in_place(row) else len(there)

    def _in_place(self, row: Row) -> bool:
        """MySQL updates the row that REPLACE finds by the last key of a table without children; one that stays is not counted."""
        info = self.table.info
        first = next(place for place, key in enumerate(info.unique_keys) if key(row) is not None)
        referred = any(reference.parent == info.position for reference in self.store.catalog.references)
        return first == len(info.uniques) - 1 and not referred

    def _refuse_open_order(self, rows: list[Row]) -> None:
        """Of what a query finds in no order: ids are given, and keys are taken, in the order of the plan."""
        plan, info = self.plan, self.table.info
        if len(set(map(repr, rows))) < 2:
            return
        if info.generated is not None:
            drawn = any(map(self.ids.draws, rows))
            if not self.change.supplied if self.rules.ids is IdSource.SEQUENCE else drawn:
                raise order_matters("different rows get generated ids")
        if plan.plain:
            return
        if plan.rekeys:
            raise order_matters("ON CONFLICT changes the key of a row")
        for unique in info.unique_keys:
            keys = [key for row in rows if (key := unique(row)) is not None]
            if len(set(keys)) < len(keys):
                raise order_matters("different rows have one key")

    def _acceptable(self, row: Row) -> bool:
        """IGNORE leaves out rows that a check or a foreign key forbids; MySQL would make a zero of a null."""
        plan, bends = self.plan, self.rules.ignore_bends_values
        try:
            if plan.checks.row is not None:
                plan.checks.row(row)
            for reference in plan.checks.outgoing if bends else ():
                # A row may refer to itself.
                if reference.parent != self.position or reference.child_key(row) != reference.parent_key(row):
                    _parents(self.store, reference, [row])
        except ExecutionError as error:
            if error.kind == "not-null" and bends:
                raise outside("INSERT IGNORE of a null into a NOT NULL column in MySQL", "give a value") from None
            if error.kind == "check" and bends and self.alone:
                # MariaDB leaves it out only where other rows come with it.
                raise
            return False
        return True

    def _resolved(self, there: dict[int, Row], row: Row) -> int:
        """ON CONFLICT DO UPDATE, ON DUPLICATE KEY UPDATE, or nothing."""
        plan, rules, conflict = self.plan, self.rules, self.change.conflict
        if conflict is None or self.resolve is None:
            return 0
        number, old = next(iter(there.items()))
        if len(there) > 1 and rules.counts_replaced:
            raise outside("ON DUPLICATE KEY UPDATE where several rows hold a key", "delete the others first")
        if rules.updates_row_once and number in self.new:
            raise ExecutionError("cardinality", "ON CONFLICT DO UPDATE cannot affect a row a second time")
        if conflict.rereads and self.new:
            # PostgreSQL shows it the table as it was before the statement, SQLite as it was when the query was first asked.
            raise outside(
                "ON CONFLICT with a query over the table, after another row of the INSERT", "insert row by row"
            )
        changed = self.resolve(old, row)
        if changed is None:
            return 0
        if plan.checks.row is not None:
            plan.checks.row(changed)
        _check_new_keys(self.table, [(number, old, changed)])
        self.table.put(number, changed)
        self.new[number] = changed
        self.done.append(changed)
        self.gone.append(old)
        if rules.checks_references_by_row:
            _references(self.store, plan.checks, [changed], [old])
        if rules.counts_replaced:
            return 2 if old != changed else int(self.store.counts_found)
        return 1


def order_matters(what: str) -> OutsideFragment:
    return outside(f"an INSERT … SELECT in which {what}", "order the query by a key: the order of its rows decides")
