"""A history means the same in every format that takes it: verdicts do not change on the way, whatever the way is.

What a format cannot say is refused; what it leaves out is told, and only that may be missing afterwards.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from definition.random_histories import SHAPES, random_history
from isolde._core import Columns, FailedCas, Reading
from isolde.engines.check import check
from isolde.errors import InputError
from isolde.findings import Verdict
from isolde.formats import WRITTEN, decode, encode, read, write
from isolde.history import CompareAndSet, History, Key, Operation, Read, Scalar, Status, Transaction, Value, render
from isolde.levels import LEVELS, Level

HISTORIES = 1_200
LONG_HISTORIES = 30_000
BATCHES = 8
SECOND_WAYS = 2
"""How many formats a converted history is converted to again; all of them in the long test."""
ALL = [row.level for row in LEVELS]
SUFFIXES = {name: f".{name}" for name in WRITTEN}
MEANINGS: tuple[FailedCas, ...] = ("aborted", "compared")

Verdicts = dict[Level, Verdict]


# --- Histories of all shapes ------------------------------------------------------------------------------------------


def committed(history: History) -> History:
    """Every outcome is known: few formats have another word for them."""
    known = {Status.UNKNOWN: Status.COMMITTED}
    return replace(
        history, transactions=tuple(replace(t, status=known.get(t.status, t.status)) for t in history.transactions)
    )


def never_aborted(history: History) -> History:
    return replace(history, transactions=tuple(t for t in history.transactions if t.status is not Status.ABORTED))


def one_operation_each(history: History) -> History:
    """Compare-and-sets that Jepsen's registers can say."""
    transactions = [replace(t, ops=(op,)) for t in history.transactions for op in t.ops[:1]]
    return replace(history, transactions=tuple(transactions))


def fresh_sessions_after_unknown(history: History) -> History:
    """As a recorder does it."""
    lost: Counter[Key] = Counter()
    transactions = []
    for t in history.transactions:
        transactions.append(replace(t, session=f"{t.session}.{lost[t.session]}"))
        lost[t.session] += t.status is Status.UNKNOWN
    return replace(history, transactions=tuple(transactions))


def without_versions(history: History) -> History:
    return replace(history, versions=())


def without_initial(history: History) -> History:
    return replace(history, initial={})


def with_numbers(history: History) -> History:
    numbers: dict[Key, int] = {}

    def number(name: Key) -> int:
        return numbers.setdefault(name, len(numbers))

    return _renamed(history, number, number)


def with_odd_names(history: History) -> History:
    return _renamed(history, lambda key: f"{key} é\n", lambda session: f'"{session}"')


def _renamed(history: History, key: Callable[[Key], Key], session: Callable[[Key], Key]) -> History:
    def renamed(op: Operation) -> Operation:
        changes: dict[str, Any] = {"key": key(op.key)} if hasattr(op, "key") else {}
        return replace(op, **changes)

    return replace(
        history,
        transactions=tuple(
            replace(t, ops=tuple(map(renamed, t.ops)), session=session(t.session)) for t in history.transactions
        ),
        initial={key(name): value for name, value in history.initial.items()},
        versions=tuple(replace(chain, key=key(chain.key)) for chain in history.versions),
    )


ODD_VALUES: dict[object, Scalar] = {1: "1", 2: True, 3: "nil", 4: -4, 5: 10**20, 6: False, 7: "", 8: 0}


def with_odd_values(history: History) -> History:
    """Other kinds of values, and a 0 that somebody writes."""

    def odd(value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(ODD_VALUES.get(element, element) for element in value)
        return ODD_VALUES.get(value, value)

    def changed(op: Operation) -> Operation:
        names = ("value", "element", "expected", "new", "current")
        changes: dict[str, Any] = {name: odd(getattr(op, name)) for name in names if hasattr(op, name)}
        op = replace(op, **changes)
        # Two values may have become one, and what failed did not find what it expected.
        if isinstance(op, CompareAndSet) and op.current == (op.expected,):
            return replace(op, current=())
        return op

    return replace(
        history,
        transactions=tuple(replace(t, ops=tuple(map(changed, t.ops))) for t in history.transactions),
        initial={key: odd(value) for key, value in history.initial.items()},
        versions=tuple(
            replace(chain, values=tuple(ODD_VALUES.get(v, v) for v in chain.values)) for chain in history.versions
        ),
    )


def standing_still(history: History) -> History:
    """A clock that gives everybody the same time."""
    return replace(history, transactions=tuple(replace(t, start=5, end=5) for t in history.transactions))


def with_more(history: History) -> History:
    """Facts that no verdict is about."""
    first = [replace(t, serial=-1, extra={"tag": 1}) for t in history.transactions[:1]]
    return replace(
        history,
        transactions=(*first, *history.transactions[1:]),
        meta={"a": 1},
        extra={"b": 2},
        initial={**history.initial, "nobody's": None},
    )


CHANGES = (
    committed,
    never_aborted,
    one_operation_each,
    fresh_sessions_after_unknown,
    without_versions,
    without_initial,
    with_odd_values,
    standing_still,
    with_more,
)


def histories(rng: random.Random, shape: str) -> History:
    history = random_history(rng, shape=shape)
    # Most formats take few of the usual ones; each change opens another door.
    for change in CHANGES:
        if rng.random() < (0.6 if change in (committed, without_versions) else 0.25):
            history = change(history)
    return rng.choice((with_numbers, with_odd_names, lambda same: same))(history)


# --- The law ----------------------------------------------------------------------------------------------------------


@dataclass
class Ways:
    """Converts histories and remembers verdicts; what breaks the law is listed."""

    directory: Path
    cache: dict[bytes, Verdicts] = field(default_factory=dict)
    taken: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def verdicts(self, columns: Columns) -> Verdicts:
        text = columns.to_jsonl()
        if text not in self.cache:
            self.cache[text] = {f.level: f.verdict for f in check(columns, ALL).findings}
        return self.cache[text]

    def convert(self, columns: Columns, name: str, meaning: FailedCas) -> tuple[Columns, tuple[str, ...]] | None:
        """The history through a format, and what was told; ``None`` if it was refused."""
        path = self.directory / f"h{SUFFIXES[name]}"
        shutil.rmtree(path, ignore_errors=True)
        try:
            notes = write(columns, str(path), name, failed_cas=meaning)
        except InputError as refusal:
            if "cannot be written as" not in str(refusal):
                self.wrong.append(f"{name}: {refusal}")
            return None
        self.taken[name] += 1
        return read(str(path), name, Reading(failed_cas=meaning)), notes

    def judge(self, before: Columns, after: Columns, notes: tuple[str, ...], way: str) -> None:
        for told, without in LEFT_OUT.items():
            if any(note.startswith(told) for note in notes):
                before = encode(without(decode(before)))
        meant, found = self.verdicts(before), self.verdicts(after)
        for level in ALL:
            if meant[level] is not found[level]:
                shown = render(decode(before), separator="\n"), render(decode(after), separator="\n")
                self.wrong.append(
                    f"{way} at {level}: {meant[level]} became {found[level]}\n{shown[0]}\n--\n{shown[1]}\n{notes}"
                )
                return


def without_times(history: History) -> History:
    return replace(history, transactions=tuple(replace(t, start=None, end=None) for t in history.transactions))


def without_lost_reads(history: History) -> History:
    """Without what Jepsen does not know of operations that did not succeed."""
    registers = any(isinstance(op, CompareAndSet) for t in history.transactions for op in t.ops)

    def is_known(t: Transaction, op: Operation) -> bool:
        if t.status is Status.COMMITTED or not isinstance(op, Read):
            return True
        return not registers and op.value is not None and op.value != history.initial.get(op.key)

    kept = [replace(t, ops=tuple(op for op in t.ops if is_known(t, op))) for t in history.transactions]
    return replace(history, transactions=tuple(kept))


LEFT_OUT: dict[str, Callable[[History], History]] = {
    "times are left out": without_times,
    "what transactions that were not committed read is left out": without_lost_reads,
}
"""What is told, and what may then be missing."""


def batch(number: int, count: int, second_ways: int) -> tuple[Counter[str], list[str]]:
    taken: Counter[str] = Counter()
    wrong: list[str] = []
    with TemporaryDirectory() as name:
        for seed in range(count):
            rng = random.Random(f"convert-{number}-{seed}")
            ways = Ways(Path(name))
            original = encode(histories(rng, rng.choice(SHAPES)))
            meaning = rng.choice(MEANINGS)
            for first in WRITTEN:
                if (through := ways.convert(original, first, meaning)) is None:
                    continue
                ways.judge(original, *through, f"seed {seed} to {first}")
                for second in rng.sample(WRITTEN, second_ways):
                    if (again := ways.convert(through[0], second, meaning)) is not None:
                        ways.judge(through[0], *again, f"seed {seed} to {first} to {second}")
                        taken[f"{first} to {second}"] += 1
            taken += ways.taken
            wrong += ways.wrong
    return taken, wrong


def assert_same_verdicts(count: int, second_ways: int) -> None:
    taken: Counter[str] = Counter()
    wrong: list[str] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(batch, number, count // BATCHES, second_ways) for number in range(BATCHES)]
        for job in jobs:
            more, found = job.result()
            taken += more
            wrong += found
    assert not wrong, f"{len(wrong)} wrong, such as\n" + "\n\n".join(wrong[:5])
    for name in WRITTEN:
        assert taken[name] > count // 40, (name, taken)


def test_1200_histories_of_all_shapes_keep_their_verdicts_from_format_to_format() -> None:
    assert_same_verdicts(HISTORIES, SECOND_WAYS)


@pytest.mark.long
def test_30000_histories_of_all_shapes_keep_their_verdicts_between_all_pairs_of_formats() -> None:
    assert_same_verdicts(LONG_HISTORIES, len(WRITTEN))
