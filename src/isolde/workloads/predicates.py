"""The workload ``predicates``: one table of three columns, read and changed by key and by conditions on a value.

``c0`` is the key, ``c1`` what conditions ask for, and ``c2`` a number that every write makes new, so that each version is another
one. The mixes of *Emme and Enne* (the paper's figures 9 and 10) go by their names; ``all`` has every kind of operation.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from types import MappingProxyType
from typing import Any

from isolde.errors import UsageError
from isolde.workloads.application import Application, Rows, Scale

NAME = "predicates"
MEANING = "ranges, min, max, count and sum, changes by condition, upserts and increments of one table of three columns"
SOURCE = "Clark et al., Validating Database System Isolation Level Implementations with Version Certificate Recovery, section 8"
OPERATIONS = 5
TABLE = "data"
DDL = f"CREATE TABLE {TABLE} (c0 INTEGER PRIMARY KEY, c1 INTEGER, c2 BIGINT NOT NULL);"
# Every so many values of c1 is NULL, which no condition matches; and a range holds about so many of the keys' values.
_NULL_EVERY = 20
_RANGE = 0.1


class Deed(StrEnum):
    """One kind of operation, as ``--mix`` names it."""

    READ = "read"
    RANGE = "range"
    MIN = "min"
    MAX = "max"
    COUNT = "count"
    SUM = "sum"
    UPDATE = "update"
    UPDATE_WHERE = "update-where"
    DELETE = "delete"
    DELETE_WHERE = "delete-where"
    INSERT = "insert"
    """With ON CONFLICT DO UPDATE."""
    INCREMENT = "increment"
    """A read, then an update of what was read."""


_WHERE = "WHERE c1 >= :low AND c1 <= :high"
_READ = f"SELECT c1, c2 FROM {TABLE} WHERE c0 = :key"
_UPDATE = f"UPDATE {TABLE} SET c1 = :value, c2 = :fresh WHERE c0 = :key"
_TEXTS: Mapping[Deed, str] = MappingProxyType(
    {
        Deed.READ: _READ,
        Deed.RANGE: f"SELECT c0, c1 FROM {TABLE} {_WHERE}",
        Deed.MIN: f"SELECT MIN(c1) FROM {TABLE} {_WHERE}",
        Deed.MAX: f"SELECT MAX(c1) FROM {TABLE} {_WHERE}",
        Deed.COUNT: f"SELECT COUNT(*) FROM {TABLE} {_WHERE}",
        Deed.SUM: f"SELECT SUM(c1) FROM {TABLE} {_WHERE}",
        Deed.UPDATE: _UPDATE,
        Deed.UPDATE_WHERE: f"UPDATE {TABLE} SET c1 = c1 + :step, c2 = :fresh {_WHERE}",
        Deed.DELETE: f"DELETE FROM {TABLE} WHERE c0 = :key",
        Deed.DELETE_WHERE: f"DELETE FROM {TABLE} {_WHERE}",
        Deed.INSERT: f"INSERT INTO {TABLE} (c0, c1, c2) VALUES (:key, :value, :fresh)"
        " ON CONFLICT (c0) DO UPDATE SET c1 = excluded.c1, c2 = excluded.c2",
    }
)
_BY_CONDITION = (Deed.UPDATE_WHERE, Deed.DELETE_WHERE)
_WRITES = (Deed.UPDATE, Deed.DELETE, Deed.INSERT, Deed.INCREMENT, *_BY_CONDITION)


@dataclass(frozen=True, slots=True)
class Mix:
    """How often each kind of operation comes, against the others, and on how many keys."""

    name: str
    meaning: str
    keys: int
    weights: Mapping[Deed, float]


def _figure_10(percent: int) -> Mix:
    """A tenth of inserts; of the rest, half reads and half updates, so many of each by a condition."""
    by_condition = 0.9 * percent / 100
    by_key = 0.9 - by_condition
    return Mix(
        f"figure-10-{percent}",
        f"10 % inserts, the rest half reads and half updates, {percent} % of them by a condition",
        100,
        {
            Deed.INSERT: 0.1,
            Deed.READ: by_key / 2,
            Deed.UPDATE: by_key / 2,
            Deed.RANGE: by_condition / 4,
            Deed.MIN: by_condition / 8,
            Deed.MAX: by_condition / 8,
            Deed.UPDATE_WHERE: by_condition / 2,
        },
    )


MIXES = (
    Mix(
        "all",
        "every kind of operation",
        50,
        {
            **dict.fromkeys(Deed, 1.0),
            Deed.READ: 2.0,
            Deed.RANGE: 2.0,
            Deed.INSERT: 3.0,
            Deed.DELETE: 0.5,
            Deed.DELETE_WHERE: 0.3,
        },
    ),
    Mix(
        "figure-9",
        "30 % updates, 40 % reads, 20 % increments, 10 % inserts, all by key",
        1000,
        {Deed.UPDATE: 0.3, Deed.READ: 0.4, Deed.INCREMENT: 0.2, Deed.INSERT: 0.1},
    ),
    _figure_10(10),
    _figure_10(50),
    _figure_10(90),
)


def mix_named(texts: Iterable[str]) -> Mix:
    """The mix that ``--mix`` says: one by its name, and weights of operations as ``OPERATION=WEIGHT``."""
    mix = MIXES[0]
    changed: dict[Deed, float] = {}
    known = {entry.name: entry for entry in MIXES}
    for text in texts:
        name, given, weight = text.partition("=")
        if not given:
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean '{close[0]}'?" if close else ""
                raise UsageError(f"no mix '{name}'{hint} (there are {', '.join(known)})")
            mix = known[name]
            continue
        if name not in list(Deed) or not weight.replace(".", "", 1).isdigit():
            raise UsageError(f"--mix {text}: write OPERATION=WEIGHT, where OPERATION is one of {', '.join(Deed)}")
        changed[Deed(name)] = float(weight)
    mixed = replace(mix, weights={**mix.weights, **changed})
    if not any(mixed.weights.values()):
        raise UsageError("--mix leaves no operation: all weights are 0")
    return mixed


@dataclass(frozen=True, slots=True)
class Step:
    """One statement with its parameters; ``then`` is sent after it with the value that it read, if it read one."""

    sql: str
    parameters: Mapping[str, Any]
    then: Step | None = None


class Draws:
    """What one session means to do. ``alone``: a change by a condition is the only write of its transaction, and what is deleted
    by its key is not written otherwise.

    That is for databases which tell only the last version that a transaction made of a row.
    """

    def __init__(self, mix: Mix, keys: int, operations: int, session: int, *, seed: int, alone: bool = False) -> None:
        self._chance = Random(f"{seed}/{session}")
        self._deeds, self._weights = tuple(mix.weights), tuple(mix.weights.values())
        self._keys, self._operations, self._alone = keys, operations, alone
        self._fresh = (session + 1) * 10**9

    def next(self) -> tuple[Step, ...]:
        """The statements of the next transaction."""
        deeds = self._chance.choices(self._deeds, self._weights, k=self._operations)
        first = next((place for place, deed in enumerate(deeds) if deed in _BY_CONDITION), None)
        if self._alone and first is not None:
            deeds = [deed if place == first or deed not in _WRITES else Deed.RANGE for place, deed in enumerate(deeds)]
        if self._alone and Deed.DELETE in deeds:
            one = deeds.index(Deed.DELETE)
            deeds = [deed if place == one or deed not in _WRITES else Deed.READ for place, deed in enumerate(deeds)]
        return tuple(self._step(deed) for deed in deeds)

    def _step(self, deed: Deed) -> Step:
        key = self._chance.randrange(self._keys)
        if deed is Deed.INCREMENT:
            return Step(_READ, {"key": key}, Step(_UPDATE, {"key": key, "fresh": self._number()}))
        low = self._chance.randrange(self._keys)
        width = max(1, int(self._keys * _RANGE))
        drawn = {
            "key": key,
            "low": low,
            "high": low + self._chance.randrange(width),
            "step": self._chance.randint(-width, width),
            "value": None if not self._chance.randrange(_NULL_EVERY) else self._chance.randrange(self._keys),
            "fresh": self._number(),
        }
        text = _TEXTS[deed]
        return Step(text, {name: value for name, value in drawn.items() if f":{name}" in text})

    def _number(self) -> int:
        self._fresh += 1
        return self._fresh


def application(keys: int) -> Application:
    """The table and its first rows, as what is installed in a database: every second key is there."""

    def populate(chance: Random, scale: Scale) -> Rows:
        del scale
        return _first_rows(chance, keys)

    return Application(NAME, MEANING, SOURCE, DDL, (), populate, {"keys": keys})


def _first_rows(chance: Random, keys: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for key in range(0, keys, 2):
        yield TABLE, (key, chance.randrange(keys), key)
