"""Runs generated statements on the store and on a real database, and says where they differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from isolde.errors import ExecutionError, MalformedProgram, OutsideFragment
from isolde.semantics.concrete import Store
from isolde.tx import queries as qu
from isolde.tx import sql
from isolde.tx import statements as st
from isolde.tx.dialects import Dialect

from .databases import Failed, Real
from .generation import Generator
from .mariadb_bugs import known_bug, known_count_bug
from .rendering import Text

# A statement with several faults has one error, and it is the plan that says which: constraints row by row, types in the
# order in which the text is analysed.
CONSTRAINTS = {
    "unique",
    "foreign-key",
    "check",
    "not-null",
    "conversion",
    "out-of-range",
    "division-by-zero",
    "cardinality",
}
WRONG = {"type", "name", "conversion"}


@dataclass
class Tally:
    """How a run went. ``differences`` are what must not be, ``bugs`` those that are the database's own fault."""

    agreed: int = 0
    failed_alike: int = 0
    procedures: int = 0
    left_open: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    bugs: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    """Texts that the front end refuses, by what it names."""
    endings: Counter[str] = field(default_factory=Counter)
    """How stored procedures ended that ended alike."""
    differences: list[str] = field(default_factory=list)


def shown(value: Any) -> str:
    """A value with its type, so that 1, 1.0, Decimal('1.0') and True are told apart."""
    if isinstance(value, float):
        # Twelve digits: the last ones of a sum depend on the order of rows, which is the plan's.
        return f"float {value:.12g}" if value else "float 0"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"int {value}"
    return f"{type(value).__name__} {value!s}" if value is not None else "null"


def as_bag(rows: list[tuple[Any, ...]]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(shown(value) for value in row) for row in rows)


def run_case(
    seed: int,
    real: Real,
    count: int,
    tally: Tally,
    stop_at_first: bool = True,
    made_by: type[Generator] = Generator,
) -> None:
    """One schema, rows in it, and statements after each of which both sides must agree."""
    generator = made_by(seed, real.dialect)
    real.reset(generator.schema)
    store = Store(generator.schema, real.dialect)
    text = Text(real.dialect)
    for place in range(count + 12):
        statement = generator.insert() if place < 12 else generator.statement()
        difference = compare(statement, store, real, text, tally)
        if difference is not None:
            tally.differences.append(f"seed {seed}: {text.statement(statement)}\n    {difference}")
            if stop_at_first:
                return
    tables = state_difference(store, real)
    if tables:
        tally.differences.append(f"seed {seed}: {tables}")


def read_back(written: str, dialect: Dialect, meant: st.Statement, tally: Tally) -> st.Statement:
    """What the front end reads in a text; what was ``meant``, where it refuses the text."""
    try:
        return sql.statement(written, dialect)
    except OutsideFragment as refusal:
        tally.unread[refusal.what.split("'")[0][:60]] += 1
        return meant


def compare(statement: st.Statement, store: Store, real: Real, text: Text, tally: Tally) -> str | None:
    bug = known_bug(statement, store.schema) if real.dialect is Dialect.MYSQL else None
    if bug is not None and not isinstance(statement, qu.Select):
        # Its effect would stay.
        tally.bugs[bug] += 1
        return None
    difference = _compare(statement, store, real, text, tally)
    if difference is not None and bug is not None:
        tally.bugs[bug] += 1
        return None
    return difference


def _compare(statement: st.Statement, store: Store, real: Real, text: Text, tally: Tally) -> str | None:
    """The database gets a text, the store what the front end reads in the same text."""
    written = text.statement(statement)
    try:
        statement = read_back(written, real.dialect, statement, tally)
    except MalformedProgram as error:
        return f"the front end cannot read it: {error}"
    before = store.copy()
    transaction = store.transaction()
    expected: Any
    try:
        ours: Any = transaction.run(statement)
    except OutsideFragment as refusal:
        transaction.rollback()
        # The ids that it took before it was refused are free again: the database never sees it.
        store.tables = before.tables
        tally.refused[refusal.what.split("'")[0][:60]] += 1
        return None
    except ExecutionError as error:
        ours = error
    try:
        expected = real.execute(written)
    except Failed as failure:
        expected = failure
    if isinstance(ours, ExecutionError):
        transaction.rollback()
        if isinstance(expected, Failed):
            real.end(keep=False)
            if expected.kind != ours.kind:
                if {expected.kind, ours.kind} <= CONSTRAINTS or {expected.kind, ours.kind} <= WRONG:
                    _left_open("which of two errors comes first", statement, store, tally)
                    return None
                return f"error kinds: {ours.kind} ({ours}), real {expected.kind} ({expected.reason.strip()})"
            tally.failed_alike += 1
            return None
        real.end(keep=False)
        return f"only the store fails: {ours.kind}: {ours}; real {expected[0][:5]} count {expected[1]}"
    if isinstance(expected, Failed):
        transaction.rollback()
        real.end(keep=False)
        return f"only the database fails: {expected.kind}: {expected.reason.strip()}; store {ours.rows[:5]} count {ours.count}"
    transaction.commit()
    real.end(keep=True)
    rows, count = expected
    if as_bag(rows) != as_bag(ours.rows):
        return f"rows: store {ours.rows[:8]}, real {rows[:8]}"
    if isinstance(statement, qu.Select) and statement.order_by and list(map(tuple, rows)) != ours.rows:
        total = len(statement.order_by) == len(statement.items)
        if total and real.dialect is not Dialect.MYSQL:
            return f"order: store {ours.rows[:8]}, real {rows[:8]}"
    if not isinstance(statement, qu.Select) and count != ours.count and not statement.returning:
        bug = known_count_bug(statement, store.schema) if real.dialect is Dialect.MYSQL else None
        if bug is not None:
            tally.bugs[bug] += 1
            return None
        return f"count: store {ours.count}, real {count}"
    tally.agreed += 1
    return None


def _left_open(why: str, statement: st.Statement, store: Store, tally: Tally) -> None:
    tally.left_open[why] += 1
    if not isinstance(statement, qu.Select):
        # The two may have taken different ids on the way.
        store.writable(store.catalog.table(statement.table).position).ids.uncertain = True


def filled(seed: int, generator: Generator, store: Store, real: Real, tally: Tally) -> bool:
    """Inserts rows on both sides; whether they agree about them."""
    text = Text(real.dialect)
    for _ in range(10):
        insert = generator.insert()
        difference = compare(insert, store, real, text, Tally())
        if difference is not None:
            tally.differences.append(f"seed {seed}: {text.statement(insert)}\n    {difference}")
            return False
    return True


def state_difference(store: Store, real: Real) -> str:
    for name, ours in store.state().items():
        theirs, _ = real.execute(f"SELECT * FROM {name}")
        if as_bag(ours) != as_bag(theirs):
            mine, other = as_bag(ours), as_bag(theirs)
            return f"table {name}: only in the store {mine - other}, only in the database {other - mine}"
    return ""
