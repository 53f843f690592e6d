"""Changes applied: what the database itself sees to. Not null, checks, unique keys, foreign keys, generated ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.core.catalog import Catalog, Reference
from isolde.semantics.core.dialects import Rules
from isolde.semantics.core.types import outside
from isolde.semantics.tables.ids import Ids
from isolde.semantics.tables.view import Row, TableView
from isolde.tx.dialects import Dialect
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
    dialect: Dialect
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
    """``rekeys``: columns of a unique key are set. ``draws``: it gives generated ids."""

    position: int
    checks: Checks
    rekeys: bool
    draws: bool


@dataclass(frozen=True, slots=True, eq=False)
class InsertPlan:
    """``target``: the unique keys that ON CONFLICT looks at. ``from_query``: the rows are not written out.
    ``unordered``: they come in no order that a database must keep. ``rekeys``: ON CONFLICT changes columns of a key.
    ``rereads``: it has a query over the table itself.
    """

    position: int
    checks: Checks
    mode: InsertMode
    conflict: bool
    target: tuple[int, ...]
    updating: bool
    from_query: bool
    supplied: bool
    unordered: bool
    rekeys: bool
    rereads: bool


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
    if checks.row is not None:
        for _, _, row in hits:
            checks.row(row)
    if plan.rekeys:
        _check_new_keys(table, hits)
    for number, _, row in hits:
        table.put(number, row, not plan.rekeys)
    if plan.rekeys:
        if len(hits) > 1:
            _order_matters(table, hits)
        if store.dialect is Dialect.MYSQL and table.info.generated is not None:
            place = table.info.generated
            table.ids.next = max(table.ids.next, *(row[place] + 1 for _, _, row in hits), 0)
    if checks.outgoing or checks.incoming:
        _references(store, checks, [hit[2] for hit in hits], [hit[1] for hit in hits])
    if store.rules.counts_changed and not store.counts_found:
        return sum(old != new for _, old, new in hits)
    return len(hits)


def refuse_seen_changes(hits: int, near: int) -> None:
    """``near``: how many rows are changed if the conditions with queries over the table hold for them (SQLite)."""
    if hits and max(hits, near) > 1:
        raise outside(
            "a change of several rows in SQLite with a query over what it changes",
            "read first: the query may see the rows that were changed before, in the order of the plan",
        )


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


def _order_matters(table: TableView, hits: list[Hit]) -> None:
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
            if store.dialect is Dialect.MYSQL and reference.child == position and len(hits) > 1:
                _self_reference(reference, [row for _, row in hits])
    return len(hits)


def _self_reference(reference: Reference, rows: list[Row]) -> None:
    keys = {reference.parent_key(row) for row in rows}
    for row in rows:
        child = reference.child_key(row)
        if child is not None and child in keys and child != reference.parent_key(row):
            raise outside("a DELETE of rows that refer to each other in MySQL", "whether it fails depends on the order")


# Foreign keys: at the end of the statement


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


def _orphans(store: Tables, reference: Reference, gone: list[Row]) -> None:
    """No child refers to a key that is gone. In MySQL, a row that referred to itself was its own child."""
    parent, child = store.tables[reference.parent], store.tables[reference.child]
    itself = store.dialect is Dialect.MYSQL and reference.parent == reference.child
    for row in gone:
        key = reference.parent_key(row)
        if key is None or _there(parent, reference.parent_columns, key):
            continue
        if child.by_equal(reference.child_columns, key) or (itself and reference.child_key(row) == key):
            raise ExecutionError(
                "foreign-key", f"{child.info.table.name} still refers to {key!r} of {parent.info.table.name}"
            )


# INSERT


def inserted(
    store: Tables, plan: InsertPlan, size: int, rows: Iterable[Row], resolve: Resolve | None
) -> tuple[int, list[Row]]:
    """``size``: how many rows there are to insert."""
    if plan.unordered and size > 1:
        return half_way(store, plan.position, lambda: _inserted(store, plan, size, rows, resolve))
    return _inserted(store, plan, size, rows, resolve)


def half_way(store: Tables, position: int, statement: Callable[[], Answer]) -> Answer:
    """Runs it; if it fails, nobody can tell which ids of the table it took."""
    try:
        return statement()
    except ExecutionError:
        store.writable(position).ids.uncertain = True
        raise


def _inserted(
    store: Tables, plan: InsertPlan, size: int, rows: Iterable[Row], resolve: Resolve | None
) -> tuple[int, list[Row]]:
    table = store.writable(plan.position)
    counter = table.ids.next
    try:
        return _several(store, plan, table, size, rows, resolve)
    except OutsideFragment:
        # A failed INSERT uses up ids; one that is refused was never run.
        table.ids.next = counter
        raise


def inserted_plainly(store: Tables, plan: InsertPlan, rows: Iterable[Row]) -> tuple[int, list[Row]]:
    """Rows of a table without generated ids, and no ON CONFLICT."""
    table, check, outgoing = store.writable(plan.position), plan.checks.row, plan.checks.outgoing
    one_by_one = store.dialect is Dialect.MYSQL
    done = []
    for row in rows:
        if check is not None:
            check(row)
        for place, unique in enumerate(table.info.unique_keys):
            key = unique(row)
            if key is not None and table.by_key(place, key):
                raise taken(table, place, key)
        table.put(None, row)
        done.append(row)
        if one_by_one and outgoing:
            _references(store, plan.checks, [row], [])
    if outgoing and not one_by_one:
        for reference in outgoing:
            _parents(store, reference, done)
    return len(done), done


def _several(
    store: Tables, plan: InsertPlan, table: TableView, size: int, rows: Iterable[Row], resolve: Resolve | None
) -> tuple[int, list[Row]]:
    mysql, alone = store.dialect is Dialect.MYSQL, not plan.from_query and size == 1
    if plan.unordered and (plan.conflict or plan.mode is not InsertMode.PLAIN or table.info.generated is not None):
        rows = list(rows)
        _refuse_open_order(store, plan, table, rows)
    reserve = Ids(store.dialect, table, None if plan.from_query else size)
    done: list[Row] = []
    gone: list[Row] = []
    new: dict[int, Row] = {}
    count = 0
    # MySQL draws an id for a row that passed its checks, which cannot speak of the id; IGNORE draws for all of several rows.
    first_tested = mysql and (plan.mode is not InsertMode.IGNORE or alone)
    for given in rows:
        if first_tested and plan.checks.row is not None:
            plan.checks.row(reserve.imagined(given))
        row = reserve.filled(given)
        if plan.mode is InsertMode.IGNORE and not _acceptable(store, plan, row, alone):
            reserve.unused()
            continue
        if plan.checks.row is not None and not first_tested:
            plan.checks.row(row)
        if plan.mode is InsertMode.REPLACE:
            count += _cleared(store, plan, table, row, reserve, gone)
        elif plan.conflict or plan.mode is InsertMode.IGNORE:
            uniques = plan.target if plan.conflict else range(len(table.info.uniques))
            there = conflicts(table, row, uniques)
            if there:
                reserve.unused()
                count += _resolved(store, plan, table, there, row, resolve, new, done, gone)
                if done:
                    reserve.seen(done[-1])
                continue
        try:
            new[add(table, row)] = row
        except ExecutionError:
            if plan.from_query:
                # MySQL's counter follows the ids of an INSERT … SELECT also where a key is taken.
                reserve.seen(row)
            raise
        if mysql:
            # Before its id is seen: InnoDB's counter does not follow a row that a foreign key forbids.
            _references(store, plan.checks, [row], [])
        reserve.seen(row)
        done.append(row)
        count += 1
    if not mysql:
        for reference in plan.checks.outgoing:
            _parents(store, reference, list(new.values()))
    if gone:
        _incoming(store, plan.position, gone)
    return count, done


def _cleared(store: Tables, plan: InsertPlan, table: TableView, row: Row, reserve: Ids, gone: list[Row]) -> int:
    """REPLACE deletes the rows that hold a key of the new one; how many it counts for them."""
    there = conflicts(table, row, range(len(table.info.uniques)))
    for number, old in there.items():
        gone.append(old)
        table.put(number, None)
    if store.dialect is not Dialect.MYSQL:
        return 0
    if there:
        # It tried to insert the row first.
        reserve.seen(row)
    # The row is deleted before the new one comes, whose key would do as well.
    _incoming(store, plan.position, gone)
    same = len(there) == 1 and next(iter(there.values())) == row
    return 0 if same and _in_place(store, table, row) else len(there)


def _in_place(store: Tables, table: TableView, row: Row) -> bool:
    """MySQL updates the row that REPLACE finds by the last key of a table that none refers to, and counts no change of none."""
    first = next(place for place, key in enumerate(table.info.unique_keys) if key(row) is not None)
    referred = any(reference.parent == table.info.position for reference in store.catalog.references)
    return first == len(table.info.uniques) - 1 and not referred


def _refuse_open_order(store: Tables, plan: InsertPlan, table: TableView, rows: list[Row]) -> None:
    """Of what a query finds in no order: ids are given, and keys are taken, in the order of the plan."""
    if len(set(map(repr, rows))) < 2:
        return
    place = table.info.generated
    if place is not None:
        drawn = not plan.supplied
        if store.dialect is not Dialect.POSTGRESQL:
            drawn = any(row[place] is None or (row[place] == 0 and store.dialect is Dialect.MYSQL) for row in rows)
        if drawn:
            raise order_matters("different rows get generated ids")
    if not plan.conflict and plan.mode is InsertMode.PLAIN:
        return
    if plan.rekeys:
        raise order_matters("ON CONFLICT changes the key of a row")
    for unique in table.info.unique_keys:
        keys = [key for row in rows if (key := unique(row)) is not None]
        if len(set(keys)) < len(keys):
            raise order_matters("different rows have one key")


def order_matters(what: str) -> OutsideFragment:
    return outside(f"an INSERT … SELECT in which {what}", "order the query by a key: the order of its rows decides")


def _incoming(store: Tables, position: int, gone: list[Row]) -> None:
    for reference in store.catalog.references:
        if reference.parent == position:
            _orphans(store, reference, gone)


def _acceptable(store: Tables, plan: InsertPlan, row: Row, alone: bool) -> bool:
    """IGNORE leaves out rows that a check or a foreign key forbids; MySQL would bend a null to a zero."""
    try:
        if plan.checks.row is not None:
            plan.checks.row(row)
        if store.dialect is Dialect.MYSQL:
            for reference in plan.checks.outgoing:
                # A row may refer to itself.
                if reference.parent != plan.position or reference.child_key(row) != reference.parent_key(row):
                    _parents(store, reference, [row])
    except ExecutionError as error:
        if error.kind == "not-null" and store.dialect is Dialect.MYSQL:
            raise outside("INSERT IGNORE of a null into a NOT NULL column in MySQL", "give a value") from None
        if error.kind == "check" and store.dialect is Dialect.MYSQL and alone:
            # MariaDB leaves it out only where other rows come with it.
            raise
        return False
    return True


def _resolved(
    store: Tables,
    plan: InsertPlan,
    table: TableView,
    there: dict[int, Row],
    row: Row,
    resolve: Resolve | None,
    new: dict[int, Row],
    done: list[Row],
    gone: list[Row],
) -> int:
    """ON CONFLICT DO UPDATE, ON DUPLICATE KEY UPDATE, or nothing. MySQL counts 2 for a row that changed, 0 for another."""
    if not plan.updating or resolve is None:
        return 0
    number, old = next(iter(there.items()))
    if len(there) > 1 and store.dialect is Dialect.MYSQL:
        raise outside("ON DUPLICATE KEY UPDATE where several rows hold a key", "delete the others first")
    if store.dialect is Dialect.POSTGRESQL and number in new:
        raise ExecutionError("cardinality", "ON CONFLICT DO UPDATE cannot affect a row a second time")
    if plan.rereads and new:
        # PostgreSQL shows it the table as it was before the statement, SQLite as it was when the query was first asked.
        raise outside("ON CONFLICT with a query over the table, after another row of the INSERT", "insert row by row")
    changed = resolve(old, row)
    if changed is None:
        return 0
    if plan.checks.row is not None:
        plan.checks.row(changed)
    _check_new_keys(table, [(number, old, changed)])
    table.put(number, changed)
    new[number] = changed
    done.append(changed)
    gone.append(old)
    if store.dialect is Dialect.MYSQL:
        _references(store, plan.checks, [changed], [old])
        return 2 if old != changed else int(store.counts_found)
    return 1
