"""What the levels mean for SQL logs, by brute force: all outcomes, all orders, all states, straight from the definitions.

A state is a dictionary of rows by table and primary key. Statements are run by the concrete store, on tables that are made from
the state each time. Nothing is shared with the engine. Meant for logs of up to five transactions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

from isolde.errors import ExecutionError
from isolde.formats.tables import SqlHistory
from isolde.history import Sql, Status, Transaction
from isolde.semantics.concrete import Store
from isolde.tx.sql import statement

Row = tuple[Any, ...]
Name = tuple[str, Any]
State = dict[Name, Row]
Writes = dict[Name, Row | None]
CONCURRENCY = {"serialization-failure", "deadlock", "lock-timeout", "transaction-failed"}


@dataclass
class Definition:
    """A log and the ways to run its statements. All tables have a primary key."""

    log: SqlHistory

    def __post_init__(self) -> None:
        self.keys = {
            name: [[column.name for column in table.columns].index(part) for part in table.primary_key]
            for name, table in self.log.schema.tables.items()
        }
        self.store = Store(self.log.schema, self.log.dialect)
        self.memo: dict[Any, Writes | None] = {}

    def name(self, table: str, row: Row) -> Name:
        return table, tuple(row[place] for place in self.keys[table])

    def first(self) -> State:
        return {self.name(table, row): row for table in self.log.rows for row in self.log.known_rows(table)}

    def run(self, state: State, own: Writes, op: Sql) -> Writes | None:
        """The own writes after a statement that reads this state and the own writes over it; ``None``: another answer."""
        key = (frozenset(state.items()), frozenset(own.items()), id(op))
        if key not in self.memo:
            self.memo[key] = self._run(state, own, op)
        return self.memo[key]

    def _run(self, state: State, own: Writes, op: Sql) -> Writes | None:
        seen = {name: row for name, row in {**state, **own}.items() if row is not None}
        content = op.content
        if content.get("error") in CONCURRENCY:
            return own
        for found in (True, False):
            store = Store(self.log.schema, self.log.dialect)
            store.compiled = self.store.compiled
            for (table, _), row in sorted(seen.items(), key=repr):
                store.load(table, [row])
            store.counts_found = found
            before = {table.info.table.name: dict(table.all()) for table in store.tables}
            given = {f"p{place}": value for place, value in enumerate(content.get("params") or (), 1)}
            touched: set[tuple[str, int]] = set()
            transaction = store.transaction()
            try:
                result = transaction.run(statement(content["sql"], self.log.dialect), given)
            except ExecutionError as error:
                return own if content.get("error") in (error.word, "other") and content.get("error") else None
            if content.get("error"):
                return None
            if content.get("rows") is not None:
                if "order by" in content["sql"].lower():
                    if [list(row) for row in result.rows] != [list(row) for row in content["rows"]]:
                        return None
                elif Counter(map(tuple, result.rows)) != Counter(map(tuple, content["rows"])):
                    return None
            is_query = content["sql"].lower().startswith("select")
            told = content.get("count")
            if self.log.counts is not None and found != (self.log.counts == "found"):
                continue
            if not is_query and told is not None and told != result.count:
                continue
            touched = {(table.info.table.name, number) for table, number, _ in store.undo}
            written: Writes = dict(own)
            after = {table.info.table.name: dict(table.all()) for table in store.tables}
            for table, number in touched:
                if number in before[table]:
                    written[self.name(table, before[table][number])] = None
            for table, number in touched:
                if number in after[table]:
                    row = after[table][number]
                    written[self.name(table, row)] = row
            return written
        return None


def applied(state: State, writes: Writes) -> State:
    return {name: row for name, row in {**state, **writes}.items() if row is not None}


# The default reading


def outcomes(log: SqlHistory) -> Iterator[list[Transaction]]:
    """Who took effect: committed transactions, and any of those that nobody knows about."""
    maybe = [one for one in log.transactions if one.status is Status.UNKNOWN]
    for choice in product((False, True), repeat=len(maybe)):
        chosen = {one.id for one, took in zip(maybe, choice, strict=True) if took}
        yield [one for one in log.transactions if one.status is Status.COMMITTED or one.id in chosen]


def in_real_time(one: Transaction, other: Transaction) -> bool:
    return one.status is Status.COMMITTED and one.end is not None and other.start is not None and one.end < other.start


def satisfies(log: SqlHistory, level: str, *, session_order: bool = True) -> bool:
    """Whether some outcome, order and choice of states explains the log at the level."""
    definition = Definition(log)
    strict = level.startswith("strict-")
    base = level.removeprefix("strict-")

    def before(one: Transaction, other: Transaction, there: Sequence[Transaction]) -> bool:
        in_session = session_order and one.session == other.session and there.index(one) < there.index(other)
        return in_session or (strict and in_real_time(one, other))

    for there in outcomes(log):
        for order in permutations(there):
            if any(
                before(later, earlier, there) for place, earlier in enumerate(order) for later in order[place + 1 :]
            ):
                continue
            past = [
                max((at + 1 for at, one in enumerate(order) if before(one, other, there)), default=0) for other in order
            ]
            if _explained(definition, base, order, past, [definition.first()], []):
                return True
    return False


def _explained(
    definition: Definition,
    level: str,
    order: Sequence[Transaction],
    past: Sequence[int],
    states: list[State],
    written: list[Writes],
) -> bool:
    place = len(written)
    if place == len(order):
        return True
    one = order[place]
    ways: list[Writes]
    if level == "serializable":
        ways = _at(definition, one, [states[place]] * len(one.ops))
    elif level == "snapshot-isolation":
        ways = [
            writes
            for snapshot in range(past[place], place + 1)
            for writes in _at(definition, one, [states[snapshot]] * len(one.ops))
            if all(not writes.keys() & between.keys() for between in written[snapshot:place])
        ]
    else:
        ways = [
            writes
            for chosen in product(range(place + 1), repeat=len(one.ops))
            if list(chosen) == sorted(chosen)
            for writes in _at(definition, one, [states[at] for at in chosen])
        ]
    distinct = {frozenset(writes.items()): writes for writes in ways}
    return any(
        _explained(definition, level, order, past, [*states, applied(states[-1], writes)], [*written, writes])
        for writes in distinct.values()
    )


def _at(definition: Definition, one: Transaction, states: Sequence[State]) -> list[Writes]:
    own: Writes = {}
    for op, state in zip(one.ops, states, strict=True):
        assert isinstance(op, Sql)
        after = definition.run(state, own, op)
        if after is None:
            return []
        own = after
    return [own]


# The paper's reading, with the repairs


def satisfies_paper(log: SqlHistory, level: str) -> bool:
    """Section 6 in the order of ``end``: no sessions; a transaction of unknown outcome has any instant after its start."""
    definition = Definition(log)
    for there in outcomes(log):
        maybe = [one for one in there if one.status is Status.UNKNOWN]
        times = sorted({time for one in there for time in (one.start, one.end) if time is not None})
        # Between any two times, and after the last.
        instants = [time + 0.5 for time in [min(times, default=0) - 1, *times]]
        for chosen in product(instants, repeat=len(maybe)):
            at = dict(zip((one.id for one in maybe), chosen, strict=True))
            if any(one.start is not None and at[one.id] < one.start for one in maybe):
                continue
            moment = {one.id: at.get(one.id, one.end) for one in there}
            for order in _by_instant(there, moment, set(at)):
                if _paper_explained(definition, level, order, moment, [definition.first()], [], {}):
                    return True
    return False


def _by_instant(
    there: Sequence[Transaction], moment: Mapping[Any, Any], maybe: set[Any]
) -> Iterator[Sequence[Transaction]]:
    """By instants; of several of unknown outcome at the same place, any order."""
    if any(moment[one.id] is None for one in there):
        yield list(there)
        return
    place = {one.id: at for at, one in enumerate(there)}
    groups: dict[Any, list[Transaction]] = {}
    for one in sorted(there, key=lambda one: (moment[one.id], place[one.id])):
        groups.setdefault(moment[one.id], []).append(one)
    choices = [
        list(permutations(group)) if any(one.id in maybe for one in group) else [tuple(group)]
        for _, group in sorted(groups.items())
    ]
    for parts in product(*choices):
        yield [one for part in parts for one in part]


def _paper_explained(
    definition: Definition,
    level: str,
    order: Sequence[Transaction],
    moment: Mapping[Any, Any],
    states: list[State],
    written: list[Writes],
    versions: dict[Name, set[Row | None]],
) -> bool:
    place = len(written)
    if place == len(order):
        return True
    one = order[place]
    base = level.removeprefix("strict-")
    if base == "serializable":
        ways = _at(definition, one, [states[place]] * len(one.ops))
    elif base == "snapshot-isolation":
        snapshots: Sequence[int] = range(place + 1)
        if level.startswith("strict-"):
            # What committed before it began, at an instant.
            snapshots = [sum(moment[other.id] < one.start for other in order[:place])]
        ways = [
            writes
            for snapshot in snapshots
            for writes in _at(definition, one, [states[snapshot]] * len(one.ops))
            if all(
                row == states[snapshot].get(name) or states[snapshot].get(name) == states[place].get(name)
                for name, row in writes.items()
            )
        ]
    else:
        ways = _any_versions(definition, one, states)
    distinct = {frozenset(writes.items()): writes for writes in ways}
    return any(
        _paper_explained(
            definition, level, order, moment, [*states, applied(states[-1], writes)], [*written, writes], versions
        )
        for writes in distinct.values()
    )


def _any_versions(definition: Definition, one: Transaction, states: Sequence[State]) -> list[Writes]:
    """Each statement reads each row in any state before the transaction."""
    names = sorted({name for state in states for name in state}, key=repr)
    choices = [list({state.get(name) for state in states}) for name in names]
    mixtures = [
        {name: row for name, row in zip(names, chosen, strict=True) if row is not None} for chosen in product(*choices)
    ]
    ways: list[Writes] = [{}]
    for op in one.ops:
        assert isinstance(op, Sql)
        after = [definition.run(state, own, op) for own in ways for state in mixtures]
        ways = list({frozenset(own.items()): own for own in after if own is not None}.values())
    return ways
