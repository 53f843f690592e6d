"""Changes applied: what the database itself sees to. Not null, checks, unique keys, foreign keys, generated ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete.catalog import Reference, TableInfo
from isolde.semantics.concrete.ids import Ids
from isolde.semantics.concrete.order import refuse_open_conflicts, refuse_open_ids
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.tables import Row, TableData
from isolde.tx.dialects import Dialect
from isolde.tx.statements import InsertMode

if TYPE_CHECKING:
    from isolde.semantics.concrete.compiler import Compiler
    from isolde.semantics.concrete.store import Store

Hit = tuple[int, Row, Row]
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Checks:
    """What must hold of one new row, and the foreign keys that a change of some columns touches."""

    row: Callable[[Row], None] | None
    outgoing: tuple[Reference, ...]
    incoming: tuple[Reference, ...]

    @staticmethod
    def of(compiler: Compiler, info: TableInfo, places: tuple[int, ...]) -> Checks:
        references = compiler.catalog.references
        touched = set(places)
        return Checks(
            row=row_check(compiler, info, places),
            outgoing=tuple(r for r in references if r.child == info.position and touched & set(r.child_columns)),
            incoming=tuple(r for r in references if r.parent == info.position and touched & set(r.parent_columns)),
        )


def row_check(compiler: Compiler, info: TableInfo, places: tuple[int, ...]) -> Callable[[Row], None] | None:
    """A generated function that raises if a row breaks NOT NULL or a check."""
    from isolde.semantics.concrete.compiler import Compiler as Fresh
    from isolde.semantics.concrete.compiler import Writer
    from isolde.semantics.concrete.expressions import Frame
    from isolde.semantics.concrete.sources import table_binding

    solid = [place for place in places if info.solid[place] and place != info.rowid]
    if not solid and not info.table.checks:
        return None
    own = Fresh(compiler.catalog, changing=True)
    frame, writer = Frame(own), Writer()
    frame.bindings.append(table_binding(info.table.name, "r", info))
    failed = own.namespace.ref(broken)
    for place in solid:
        name = info.table.columns[place].name
        writer.open(f"if r[{place}] is None:")
        writer.line(f"raise {failed}('not-null', {f'{info.table.name}.{name} must not be null'!r})")
        writer.indent -= 1
    # The row is known not to be null where it must not be, only from here on.
    for check in info.table.checks:
        text = own.rules.truth(frame.compile(check.condition), "CHECK").text
        writer.open(f"if {text} is False:")
        reason = f"a row of {info.table.name} breaks check {check.name or ''}".rstrip()
        writer.line(f"raise {failed}('check', {reason!r})")
        writer.indent -= 1
    writer.line("return None")
    source = "\n".join(["def check_row(S, r):", *[f"    {memo}" for memo in frame.memos], *writer.lines])
    own.functions.append(source)
    check_row = own.finish("check_row")
    return lambda row: check_row(None, row)


def broken(kind: str, reason: str) -> ExecutionError:
    return ExecutionError(kind, reason)


# UPDATE and DELETE


def updated(store: Store, position: int, hits: list[Hit], checks: Checks) -> int:
    """Columns that no unique key has. MySQL counts only rows that became different."""
    table = store.writable(position)
    undo, check = store.undo, checks.row
    for number, _, row in hits:
        if check is not None:
            check(row)
        table.replace(number, row, undo)
    if checks.outgoing or checks.incoming:
        _references(store, checks, [hit[2] for hit in hits], [hit[1] for hit in hits])
    if store.dialect is Dialect.MYSQL and not store.counts_found:
        return sum(_different(old, new) for _, old, new in hits)
    return len(hits)


def _different(old: Row, new: Row) -> bool:
    return old != new


def updated_keys(store: Store, position: int, hits: list[Hit], checks: Checks) -> int:
    table = store.writable(position)
    if checks.row is not None:
        for _, _, row in hits:
            checks.row(row)
    for number, old, _ in hits:
        table.forget_keys(old, number)
    done = 0
    try:
        for number, old, row in hits:
            table.rekey(number, old, row)
            store.undo.append((position, number, old, row))
            done += 1
    except ExecutionError:
        # Keys that were taken out and not put back: the rows are still the old ones.
        for number, old, _ in hits[done:]:
            table.restore_keys(number, old)
        raise
    if len(hits) > 1:
        _order_matters(table, hits)
    if store.dialect is Dialect.MYSQL and table.info.generated is not None:
        table.counter = max(table.counter, *(row[table.info.generated] + 1 for _, _, row in hits), 0)
    if checks.outgoing or checks.incoming:
        _references(store, checks, [hit[2] for hit in hits], [hit[1] for hit in hits])
    if store.dialect is Dialect.MYSQL and not store.counts_found:
        return sum(_different(old, new) for _, old, new in hits)
    return len(hits)


def _order_matters(table: TableData, hits: list[Hit]) -> None:
    """Databases check keys row by row. Where a row takes a key that another row of the statement gives up, it depends on
    the order whether the statement fails; in a circle it always does.
    """
    for place, key in enumerate(table.info.unique_keys):
        owners = {found: number for number, old, _ in hits if (found := key(old)) is not None}
        takes: dict[int, int] = {}
        for number, _, row in hits:
            found = key(row)
            if found is not None and owners.get(found, number) != number:
                takes[number] = owners[found]
        for start in takes:
            at = takes[start]
            while at in takes and at != start:
                at = takes[at]
                if at == takes.get(at):
                    break
            if at == start:
                raise table.taken(place, "a key that goes round in a circle")
        if takes:
            raise outside(
                f"an UPDATE of {table.info.table.name} in which one row takes the key of another",
                "whether it fails depends on the order of rows",
            )


def deleted(store: Store, position: int, hits: list[tuple[int, Row]]) -> int:
    table = store.writable(position)
    for number, _ in hits:
        table.delete(number, store.undo)
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


def _references(store: Store, checks: Checks, rows: Iterable[Row], gone: list[Row]) -> None:
    rows = list(rows)
    for reference in checks.outgoing:
        _parents(store, reference, rows)
    for reference in checks.incoming:
        _orphans(store, reference, gone)


def _parents(store: Store, reference: Reference, rows: list[Row]) -> None:
    parent = store.tables[reference.parent]
    for row in rows:
        key = reference.child_key(row)
        if key is not None and not _there(store, parent, reference.parent_columns, key):
            name = store.catalog.tables[reference.child].table.name
            raise ExecutionError("foreign-key", f"{name} refers to {key!r}, which is not in {parent.info.table.name}")


def _there(store: Store, table: TableData, columns: tuple[int, ...], key: Any) -> bool:
    for place, unique in enumerate(table.info.uniques):
        if unique == columns:
            return key in table.unique[place]
    return bool(table.equal(columns, store.catalog).get(key))


def _orphans(store: Store, reference: Reference, gone: list[Row]) -> None:
    """No child refers to a key that is gone. In MySQL, a row that referred to itself was its own child."""
    parent, child = store.tables[reference.parent], store.tables[reference.child]
    itself = store.dialect is Dialect.MYSQL and reference.parent == reference.child
    if not child.rows and not itself:
        return
    children = child.equal(reference.child_columns, store.catalog)
    for row in gone:
        key = reference.parent_key(row)
        if key is None or _there(store, parent, reference.parent_columns, key):
            continue
        if children.get(key) or (itself and reference.child_key(row) == key):
            raise ExecutionError(
                "foreign-key", f"{child.info.table.name} still refers to {key!r} of {parent.info.table.name}"
            )


# INSERT


@dataclass(frozen=True, slots=True, eq=False)
class InsertPlan:
    """``target``: the unique keys that ON CONFLICT looks at. ``known``: the number of rows, if they are written out.
    ``unordered``: they come in no order that a database must keep. ``rekeys``: ON CONFLICT changes columns of a key.
    ``rereads``: it has a query over the table itself.
    """

    position: int
    checks: Checks
    mode: InsertMode
    conflict: bool
    target: tuple[int, ...]
    updating: bool
    known: int | None
    supplied: bool
    unordered: bool
    rekeys: bool
    rereads: bool


def inserted(
    store: Store, plan: InsertPlan, size: int, rows: Iterable[Row], resolve: Any, arguments: tuple[Any, ...]
) -> tuple[int, list[Row]]:
    """``size``: how many rows there are to insert."""
    if plan.unordered and size > 1:
        return half_way(store, plan.position, lambda: _inserted(store, plan, rows, resolve, arguments))
    return _inserted(store, plan, rows, resolve, arguments)


def half_way(store: Store, position: int, statement: Callable[[], Answer]) -> Answer:
    """Runs it; if it fails, nobody can tell which ids of the table it took."""
    try:
        return statement()
    except ExecutionError:
        store.writable(position).uncertain = True
        raise


def _inserted(
    store: Store, plan: InsertPlan, rows: Iterable[Row], resolve: Any, arguments: tuple[Any, ...]
) -> tuple[int, list[Row]]:
    table = store.writable(plan.position)
    if plan.known == 1 and not plan.conflict and plan.mode is InsertMode.PLAIN and table.info.generated is None:
        return _one(store, plan, table, next(iter(rows)))
    counter = table.counter
    try:
        return _several(store, plan, table, rows, resolve, arguments)
    except OutsideFragment:
        # A failed INSERT uses up ids; one that is refused was never run.
        table.counter = counter
        raise


def _several(
    store: Store, plan: InsertPlan, table: TableData, rows: Iterable[Row], resolve: Any, arguments: tuple[Any, ...]
) -> tuple[int, list[Row]]:
    if plan.unordered and (plan.conflict or plan.mode is not InsertMode.PLAIN or table.info.generated is not None):
        rows = list(rows)
        if len(rows) > 1:
            _refuse_open_order(store, plan, table, rows, resolve, arguments)
    reserve = Ids(store, table, plan.known)
    done: list[Row] = []
    gone: list[Row] = []
    new_numbers: set[int] = set()
    count = 0
    # MySQL draws an id for a row that passed its checks, which cannot speak of the id; IGNORE draws for all of several rows.
    first_tested = store.dialect is Dialect.MYSQL and (plan.mode is not InsertMode.IGNORE or plan.known == 1)
    for given in rows:
        if first_tested and plan.checks.row is not None:
            plan.checks.row(reserve.imagined(given))
        row = reserve.filled(given)
        if plan.mode is InsertMode.IGNORE and not _acceptable(store, plan, row):
            reserve.unused()
            continue
        if plan.checks.row is not None and not first_tested:
            plan.checks.row(row)
        if plan.mode is InsertMode.REPLACE:
            taken = table.conflicts(row, range(len(table.unique)))
            same = len(taken) == 1 and table.rows[taken[0]] == row
            for number in taken:
                gone.append(table.rows[number])
                table.delete(number, store.undo)
            if store.dialect is Dialect.MYSQL:
                if taken:
                    # It tried to insert the row first.
                    reserve.seen(row)
                # The row is deleted before the new one comes, whose key would do as well.
                _incoming(store, plan.position, gone)
                count += 0 if same and _in_place(store, table, row) else len(taken)
        elif plan.conflict or plan.mode is InsertMode.IGNORE:
            taken = table.conflicts(row, plan.target)
            if taken:
                reserve.unused()
                count += _resolved(store, plan, table, taken, row, resolve, arguments, new_numbers, done, gone)
                if done:
                    reserve.seen(done[-1])
                continue
        try:
            new_numbers.add(table.insert(row, store.undo))
        except ExecutionError:
            if plan.known is None:
                # MySQL's counter follows the ids of an INSERT … SELECT also where a key is taken.
                reserve.seen(row)
            raise
        if store.dialect is Dialect.MYSQL:
            # Before its id is seen: InnoDB's counter does not follow a row that a foreign key forbids.
            _references(store, plan.checks, [row], [])
        reserve.seen(row)
        done.append(row)
        count += 1
    if store.dialect is not Dialect.MYSQL:
        for reference in plan.checks.outgoing:
            _parents(store, reference, [table.rows[number] for number in new_numbers if number in table.rows])
    if gone:
        _incoming(store, plan.position, gone)
    return count, done


def _in_place(store: Store, table: TableData, row: Row) -> bool:
    """MySQL updates the row that REPLACE finds by the last key of a table that none refers to, and counts no change of none."""
    first = next(place for place, key in enumerate(table.info.unique_keys) if key(row) is not None)
    referred = any(reference.parent == table.info.position for reference in store.catalog.references)
    return first == len(table.unique) - 1 and not referred


def _refuse_open_order(
    store: Store, plan: InsertPlan, table: TableData, rows: list[Row], resolve: Any, arguments: tuple[Any, ...]
) -> None:
    refuse_open_ids(plan, table, rows, store.dialect)
    if plan.mode is InsertMode.IGNORE:
        rows = [row for row in rows if _acceptable(store, plan, row)]
    if plan.conflict or plan.mode is not InsertMode.PLAIN:
        refuse_open_conflicts(plan, table, rows, store.dialect, lambda old, row: resolve(store, old, row, *arguments))


def _incoming(store: Store, position: int, gone: list[Row]) -> None:
    for reference in store.catalog.references:
        if reference.parent == position:
            _orphans(store, reference, gone)


def _one(store: Store, plan: InsertPlan, table: TableData, row: Row) -> tuple[int, list[Row]]:
    if plan.checks.row is not None:
        plan.checks.row(row)
    table.insert(row, store.undo)
    for reference in plan.checks.outgoing:
        _parents(store, reference, [row])
    return 1, [row]


def _acceptable(store: Store, plan: InsertPlan, row: Row) -> bool:
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
        if error.kind == "check" and store.dialect is Dialect.MYSQL and plan.known == 1:
            # MariaDB leaves it out only where other rows come with it.
            raise
        return False
    return True


def _resolved(
    store: Store,
    plan: InsertPlan,
    table: TableData,
    taken: list[int],
    row: Row,
    resolve: Any,
    arguments: tuple[Any, ...],
    new_numbers: set[int],
    done: list[Row],
    gone: list[Row],
) -> int:
    """ON CONFLICT DO UPDATE, ON DUPLICATE KEY UPDATE, or nothing. MySQL counts 2 for a row that changed, 0 for another."""
    if not plan.updating:
        return 0
    number = taken[0]
    if len(taken) > 1 and store.dialect is Dialect.MYSQL:
        raise outside("ON DUPLICATE KEY UPDATE where several rows hold a key", "delete the others first")
    if store.dialect is Dialect.POSTGRESQL and number in new_numbers:
        raise ExecutionError("cardinality", "ON CONFLICT DO UPDATE cannot affect a row a second time")
    if plan.rereads and new_numbers:
        # PostgreSQL shows it the table as it was before the statement, SQLite as it was when the query was first asked.
        raise outside("ON CONFLICT with a query over the table, after another row of the INSERT", "insert row by row")
    old = table.rows[number]
    new = resolve(store, old, row, *arguments)
    if new is None:
        return 0
    if plan.checks.row is not None:
        plan.checks.row(new)
    table.forget_keys(old, number)
    try:
        table.rekey(number, old, new)
    except ExecutionError:
        table.restore_keys(number, old)
        raise
    store.undo.append((plan.position, number, old, new))
    new_numbers.add(number)
    done.append(new)
    gone.append(old)
    if store.dialect is Dialect.MYSQL:
        _references(store, plan.checks, [new], [old])
        return 2 if old != new else int(store.counts_found)
    return 1
