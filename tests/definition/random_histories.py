"""Small random histories from a sloppy store, for agreement tests.

The transactions are run one after another on a store that keeps all its past. Most read the latest state; some read
an older one, one with gaps, a different one for each read, and now and then a read gives any value that was ever in
sight. How sloppy the store is, is drawn for each history, so that verdicts are mixed at every level.

Run as a program, it prints how often each level is satisfied for each shape.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from isolde.history import (
    Append,
    CompareAndSet,
    History,
    Key,
    Operation,
    Read,
    Scalar,
    Status,
    Transaction,
    Value,
    VersionChain,
    Write,
)

SHAPES = ("mini", "blind", "cas", "append", "append-in-doubt", "shared-elements", "duplicates", "deletes", "forks")
LISTS = ("append", "append-in-doubt", "shared-elements")
KEYS: tuple[Key, ...] = ("x", "y", "z")

Store = dict[Key, Value]


@dataclass(frozen=True, slots=True)
class Sloppiness:
    """How likely something is: an old snapshot, one that lacks some transactions, one for a read alone, any value."""

    old_snapshot: float
    gaps: float
    own_snapshot: float
    wild_read: float


SLOPPINESS = (
    Sloppiness(0.0, 0.0, 0.0, 0.0),
    Sloppiness(0.4, 0.0, 0.0, 0.0),
    Sloppiness(0.9, 0.0, 0.0, 0.0),
    Sloppiness(0.2, 0.7, 0.0, 0.0),
    Sloppiness(0.5, 0.0, 0.3, 0.0),
    Sloppiness(0.5, 0.1, 0.1, 0.15),
)

FORKING = (Sloppiness(0.9, 0.0, 0.0, 0.0), Sloppiness(0.0, 0.8, 0.0, 0.0))


def random_history(rng: random.Random, *, shape: str) -> History:
    """2 to 6 transactions of a few sessions on up to 3 keys; all statuses, with or without times and versions."""
    keys = KEYS[: rng.choice((1, 2, 2, 3))]
    repeats = shape in ("duplicates", "shared-elements")
    count = rng.choice((2, 3, 4, 5, 5) if repeats else (2, 3, 4, 5, 5, 6, 6))
    fresh = _values(rng, shape)
    if shape == "forks":
        keys, programs = _fork_programs(rng, fresh)
    else:
        one_key_each = rng.random() < 0.2
        programs = [
            _program(rng, shape, [rng.choice(keys)] if one_key_each else keys, fresh, length=rng.randint(2, 4))
            for _ in range(count)
        ]
    initial = _initial(rng, shape, keys)
    sloppiness = rng.choice(SLOPPINESS)
    if shape == "forks":
        sloppiness = rng.choice(FORKING)
    sessions = rng.choice((1, 2, 3, 4, 4)) if sloppiness.gaps < 0.5 else 4
    store = _SloppyStore(rng, sloppiness, keys, initial, programs)
    in_doubt = shape == "append-in-doubt"
    likely = (0.5, 0.05, 0.45) if in_doubt else (0.8, 0.1, 0.1)
    transactions = []
    for index, program in enumerate(programs):
        status = rng.choices(tuple(Status), likely)[0]
        takes_effect = status is Status.COMMITTED or (status is Status.UNKNOWN and rng.random() < 0.5)
        ops = store.run(program, takes_effect=takes_effect)
        transactions.append(Transaction(index, f"s{rng.randint(1, sessions)}", ops, status))
    if shape == "forks" and rng.random() < 0.8:
        transactions = [replace(transaction, session=f"s{transaction.id}") for transaction in transactions]
    if rng.random() < 0.6:
        transactions = _timed(rng, transactions)
    if rng.random() < (0.6 if in_doubt else 0.1):
        rng.shuffle(transactions)
    versions = _versions(rng, keys, store.past) if shape not in LISTS and rng.random() < 0.15 else ()
    if rng.random() < 0.1:
        # Keys that nobody touches make no difference.
        initial = {**initial, "untouched": (7,) if shape in LISTS else 7, "absent": None}
    return History(tuple(transactions), initial=initial, versions=versions)


def _values(rng: random.Random, shape: str) -> list[Scalar]:
    """The values to write, taken from the end."""
    if shape == "duplicates":
        return [rng.randint(0, 2) for _ in range(100)]
    if shape == "shared-elements":
        return [rng.randint(0, 5) for _ in range(100)]
    if shape == "deletes":
        return [None if rng.random() < 0.4 else value for value in range(100, 0, -1)]
    return list(range(100, 0, -1))


def _initial(rng: random.Random, shape: str, keys: Sequence[Key]) -> Store:
    if rng.random() < 0.4:
        return {}
    if shape in LISTS:
        return {key: rng.choice(((0,), (0,), ())) for key in keys if rng.random() < 0.3}
    return {key: 0 for key in keys if rng.random() < 0.9}


def _program(
    rng: random.Random, shape: str, keys: Sequence[Key], fresh: list[Scalar], *, length: int
) -> list[Operation]:
    """Operations without answers: what reads gave, and whether a compare-and-set was applied, comes later."""
    if shape == "mini":
        return _mini_program(rng, keys, fresh)
    program: list[Operation] = []
    for _ in range(length):
        key = rng.choice(keys)
        if rng.random() < 0.5:
            program.append(Read(key, None))
        elif shape in LISTS:
            program.append(Append(key, fresh.pop()))
        elif shape == "cas" and rng.random() < 0.8:
            program.append(CompareAndSet(key, None, fresh.pop(), applied=True))
        else:
            program.append(Write(key, fresh.pop()))
    return program


def _mini_program(rng: random.Random, keys: Sequence[Key], fresh: list[Scalar]) -> list[Operation]:
    """One or two reads, at most two writes, each after a read of its key."""
    read = [rng.choice(keys) for _ in range(rng.randint(1, 2))]
    program: list[Operation] = [Read(key, None) for key in read]
    for _ in range(rng.choice((0, 1, 1, 2))):
        key = rng.choice(read)
        first = program.index(Read(key, None))
        program.insert(rng.randint(first + 1, len(program)), Write(key, fresh.pop()))
    return program


def _fork_programs(rng: random.Random, fresh: list[Scalar]) -> tuple[tuple[Key, ...], list[list[Operation]]]:
    """Few updates and many looks at two keys: what long forks, write skews and causality violations are made of."""
    keys = KEYS[: rng.randint(2, 3)]
    updates: list[list[Operation]] = []
    for key in keys:
        looks = [Read(other, None) for other in keys if other == key or rng.random() < 0.4]
        updates.append([*looks, Write(key, fresh.pop())])
    readers: list[list[Operation]] = [
        [Read(key, None) for key in rng.sample(keys, 2)] for _ in range(rng.randint(1, 3))
    ]
    return keys, updates + readers


class _SloppyStore:
    """``past[i]`` is the state after ``i`` transactions took effect."""

    def __init__(
        self,
        rng: random.Random,
        sloppiness: Sloppiness,
        keys: Sequence[Key],
        initial: Store,
        programs: Sequence[Sequence[Operation]],
    ) -> None:
        self.rng = rng
        self.sloppiness = sloppiness
        self.past: list[Store] = [{key: initial.get(key) for key in keys}]
        self.lists = any(isinstance(op, Append) for program in programs for op in program)
        self.lists |= any(isinstance(value, tuple) for value in initial.values())
        unheard_of: Value = (999,) if self.lists else 999
        self.in_sight: dict[Key, list[Value]] = {key: [None, initial.get(key), unheard_of] for key in keys}
        for op in (op for program in programs for op in program):
            match op:
                case Write(key, value) | CompareAndSet(key, _, value):
                    self.in_sight[key].append(value)
                case Append(key, element):
                    longest = max((v for v in self.in_sight[key] if isinstance(v, tuple)), key=len, default=())
                    self.in_sight[key] += [(element,), (*longest, element)]
                case _:
                    pass

    def run(self, program: Sequence[Operation], *, takes_effect: bool) -> tuple[Operation, ...]:
        snapshot = self.snapshot(self.sloppiness.old_snapshot)
        own: Store = {}
        appended: dict[Key, tuple[Scalar, ...]] = {}
        ops: list[Operation] = []
        for op in program:
            match op:
                case Read(key):
                    ops.append(Read(key, self.look(key, snapshot, own, appended)))
                case Write(key, value):
                    own[key] = value
                    ops.append(op)
                case Append(key, element):
                    appended[key] = (*appended.get(key, ()), element)
                    ops.append(op)
                case CompareAndSet(key, _, new):
                    compared = self.compare(key, new, self.look(key, snapshot, own, appended))
                    if compared.applied:
                        own[key] = new
                    ops.append(compared)
                case _:
                    raise AssertionError(op)
        if takes_effect:
            latest = {**self.past[-1], **own}
            for key, elements in appended.items():
                latest[key] = _listed(latest[key]) + elements
            self.past.append(latest)
        return tuple(ops)

    def snapshot(self, old: float) -> Store:
        if self.rng.random() < self.sloppiness.gaps:
            return self.snapshot_with_gaps()
        return self.rng.choice(self.past) if self.rng.random() < old else self.past[-1]

    def snapshot_with_gaps(self) -> Store:
        """Some of the transactions that took effect, each as a whole."""
        snapshot = dict(self.past[0])
        for before, after in pairwise(self.past):
            if self.rng.random() < 0.5:
                snapshot |= {key: value for key, value in after.items() if value != before[key]}
        return snapshot

    def look(self, key: Key, snapshot: Store, own: Store, appended: dict[Key, tuple[Scalar, ...]]) -> Value:
        if self.rng.random() < self.sloppiness.wild_read:
            return self.jumble(key) if self.lists and self.rng.random() < 0.5 else self.rng.choice(self.in_sight[key])
        if key in own:
            return own[key]
        if self.rng.random() < self.sloppiness.own_snapshot:
            snapshot = self.snapshot(0.5)
        if key in appended:
            return _listed(snapshot[key]) + appended[key]
        return snapshot[key]

    def jumble(self, key: Key) -> Value:
        """Some of the elements that anybody ever appends, in any order; the reader's own may stand anywhere."""
        elements = list(dict.fromkeys(e for value in self.in_sight[key] if isinstance(value, tuple) for e in value))
        self.rng.shuffle(elements)
        return tuple(elements[: self.rng.randint(1, 4)])

    def compare(self, key: Key, new: Scalar, current: Value) -> CompareAndSet:
        assert not isinstance(current, tuple)
        if self.rng.random() < 0.7:
            return CompareAndSet(key, current, new, applied=True)
        expected = self.rng.choice([v for v in (*self.in_sight[key], 998) if v != current and not isinstance(v, tuple)])
        shown: tuple[()] | tuple[Scalar] = (current,) if self.rng.random() < 0.5 else ()
        return CompareAndSet(key, expected, new, applied=False, current=shown)


def _listed(value: Value) -> tuple[Scalar, ...]:
    return value if isinstance(value, tuple) else ()


def _timed(rng: random.Random, transactions: list[Transaction]) -> list[Transaction]:
    """Times around the moment at which each really ran; sometimes one is wrong or missing."""
    spread = rng.choice((3, 8, 25))
    timed = []
    for moment, transaction in enumerate(transactions):
        real = 10 * (moment if rng.random() < 0.9 else rng.randrange(len(transactions)))
        start: int | None = real - rng.randint(0, spread)
        end: int | None = real + rng.randint(1, spread)
        if transaction.status is Status.UNKNOWN:
            end = None if rng.random() < 0.5 else end
            start = None if rng.random() < 0.1 else start
        elif rng.random() < 0.01:
            end = None
        timed.append(replace(transaction, start=start, end=end))
    return timed


def _versions(rng: random.Random, keys: Sequence[Key], past: Sequence[Store]) -> tuple[VersionChain, ...]:
    """What such a store would tell of one or two keys: parts of the truth, rarely a lie."""
    chains = []
    for _ in range(rng.randint(1, 2)):
        key = rng.choice(keys)
        values: list[Scalar] = []
        for store in past:
            value = store[key]
            assert not isinstance(value, tuple)
            if (not values or values[-1] != value) and rng.random() < 0.8:
                values.append(value)
        if rng.random() < 0.3:
            rng.shuffle(values)
        chains.append(VersionChain(key, tuple(values)))
    return tuple(chains)


def _main() -> None:
    from definition import LEVELS, satisfies

    print(f"{'satisfied of applicable, %':28}", *(f"{shape:>11}" for shape in SHAPES))
    histories = {shape: [random_history(random.Random(seed), shape=shape) for seed in range(200)] for shape in SHAPES}
    for level in LEVELS:
        shares = []
        for shape in SHAPES:
            verdicts = [satisfies(history, level) for history in histories[shape]]
            applicable = [verdict for verdict in verdicts if verdict is not None]
            shares.append(f"{100 * sum(applicable) // max(len(applicable), 1)} of {len(applicable)}")
        print(f"{level:28}", *(f"{share:>11}" for share in shares))


if __name__ == "__main__":
    _main()
