"""A history in parts that follow each other in time, as a directory of Parquet files, checked window by window.

A window is what is not settled yet, and the next part. If an order explains it, a beginning of that order is *settled*: its
transactions are let go, and what they wrote is what the keys hold when the next window begins. Orders that begin where the one
before ended make one order of the whole, so that a level holds if all windows are explained. Carried over are

- the transactions that may have overlapped with later parts (by ``start`` and ``end``), and what comes after them in the order,
- those that came before the end of this order's beginning, but saw a state within it,
- those of unknown outcome that have no place yet, unless their session went on without them,
- what the keys hold: that is the only thing that grows.

An order that keeps real time is preferred, whatever the level: it leaves least to carry over. A window that nothing explains
may need another order of what was settled, or see the future; then only what is violated of the window by itself counts
(``partial``), and otherwise the level is undecided.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from isolde._core import AS_USUAL, Columns, Reading
from isolde.campaigns.check import ALL, CheckOptions, check_columns, levels_named
from isolde.campaigns.partial import kept, spelled, writes
from isolde.campaigns.seen import Seen
from isolde.errors import InputError, UsageError
from isolde.findings import (
    CommitOrder,
    Finding,
    HistoryLevel,
    HistorySize,
    HistorySubject,
    NotProved,
    Report,
    Spent,
    Verdict,
)
from isolde.formats import read
from isolde.formats.recording import is_recording
from isolde.history.json_text import DECODER, json_text
from isolde.levels import Level

Line = dict[str, Any]
_OURS = ("place", "text")
"""What is kept with a line besides what it says."""

# By which levels' orders a window is explained, the best first.
_ORDERS = {
    Level.PREFIX: (Level.STRICT_SNAPSHOT_ISOLATION, Level.PREFIX),
    Level.SNAPSHOT_ISOLATION: (Level.STRICT_SNAPSHOT_ISOLATION, Level.SNAPSHOT_ISOLATION),
    Level.SERIALIZABLE: (Level.STRICT_SERIALIZABLE, Level.SERIALIZABLE),
    Level.STRICT_SNAPSHOT_ISOLATION: (Level.STRICT_SNAPSHOT_ISOLATION,),
    Level.STRICT_SERIALIZABLE: (Level.STRICT_SERIALIZABLE,),
}


def is_dataset(path: str) -> bool:
    """Whether a path is a directory with Parquet files in it, be it in further directories."""
    try:
        return Path(path).is_dir() and not is_recording(path) and any(Path(path).rglob("*.parquet"))
    except OSError:
        return False


def check_dataset(path: str, options: CheckOptions, *, reading: Reading = AS_USUAL) -> Report:
    """Decides levels from prefix up, reading two parts at a time; the parts follow each other in the order of their names."""
    asked = [level for level in levels_named(options.names) if level in _ORDERS or ALL not in options.names]
    refused = [level.value for level in asked if level not in _ORDERS]
    if refused:
        names = ", ".join(level.value for level in _ORDERS)
        raise UsageError(f"{path}: a dataset is checked in windows, by orders: at {names}, and not at {refused[0]}")
    if options.every or options.judge_aborted or options.serialization_order or options.both or options.order:
        raise UsageError(
            f"{path}: a dataset is checked in windows, which --level, --budget and --no-session-order go with"
        )
    parts = _Parts(path, reading)
    walks = [_Walk(level, options, parts) for level in asked]
    for now, later in parts.pairs():
        for walk in walks:
            walk.take(now, later)
    exhibit = {one.id: one for walk in walks for one in walk.exhibit}
    findings = tuple(walk.finding() for walk in walks)
    return Report(HistorySubject(path, parts.size()), findings, tuple(exhibit.values()))


class _Parts:
    """The parts of a dataset, and what is known of all that were read."""

    def __init__(self, path: str, reading: Reading) -> None:
        self.path, self._reading = path, reading
        self._files = sorted(Path(path).rglob("*.parquet"), key=lambda file: file.as_posix())
        self.initial: dict[str, Any] = {}
        """What the keys hold at first, by their JSON."""
        self.known: set[str] = set()
        """The same as texts of pairs."""
        self._first: dict[str, Any] = {}
        self.doubtful: set[str] = set()
        """Keys of which two writes may have the same value."""
        self._values = Seen()
        self._sessions: set[str] = set()
        self._counts = [0, 0, 0, 0, 0]
        self._begins = [0]
        """At which place each part begins whose transactions were counted, and the next one."""

    def pairs(self) -> Iterator[tuple[list[Line], list[Line]]]:
        """Each part with the one after it, which is empty behind the last one."""
        now = self._lines(0)
        for number in range(len(self._files)):
            later = self._lines(number + 1) if number + 1 < len(self._files) else []
            yield now, later
            now = later

    def look_ahead(self) -> None:
        """Looks through what was not read yet for values that are written again."""
        for number in range(len(self._begins) - 1, len(self._files)):
            self._lines(number)

    def size(self) -> HistorySize:
        transactions, committed, aborted, unknown, operations = self._counts
        return HistorySize(transactions, committed, aborted, unknown, len(self._sessions), operations)

    def _lines(self, number: int) -> list[Line]:
        name = str(self._files[number])
        columns = read(name, None, self._reading)
        said, *texts = columns.to_jsonl(None).decode().rstrip("\n").split("\n")
        header, lines = DECODER.decode(said), [DECODER.decode(text) for text in texts]
        # Where transactions have no names, they are called by their places: in the file, and here in the whole dataset.
        nameless = all(line.get("id") == row for row, line in enumerate(lines))
        for place, (line, text) in enumerate(zip(lines, texts, strict=True), self._begins[number]):
            _refuse(line, name)
            # As it was read: most lines are only handed on.
            line["text"] = f'{{"id":{place}{text[text.index(",") :]}' if nameless else text
            line["place"] = place
            line["id"] = place if nameless else line["id"]
        if number + 1 == len(self._begins):
            self._header(header, name)
            self._begins.append(self._begins[number] + len(lines))
            self._count(columns, lines)
        return lines

    def _header(self, header: Line, name: str) -> None:
        """The first one says what the keys hold at first; the others say the same or nothing."""
        given = header.get("initial") or {}
        pairs = list(given.items() if isinstance(given, dict) else given)
        names = {str(key): value for key, value in pairs}
        held = {json_text(key): value for text, value in pairs for key in _keys(text, by_name=isinstance(given, dict))}
        if len(self._begins) > 1:
            if names and names != self._first:
                raise InputError(f"{name}: gives other initial values than the first part of the dataset")
            return
        self.initial, self._first = held, names
        for key, value in held.items():
            self.known.update(f"[{key},{json_text(one)}]" for one in (value if isinstance(value, list) else [value]))
        for text in self.known:
            self._values.add(text)

    def _count(self, columns: Columns, lines: list[Line]) -> None:
        counts = columns.counts()
        numbers = (counts.transactions, counts.committed, counts.aborted, counts.unknown, counts.operations)
        self._counts = [before + new for before, new in zip(self._counts, numbers, strict=True)]
        for line in lines:
            self._sessions.add(json_text(line["session"]))
            for key, value in writes(line):
                if self._values.add(spelled(key, value)):
                    self.doubtful.add(json_text(key))


def _refuse(line: Line, name: str) -> None:
    """What windows cannot be cut from."""
    if "session" not in line:
        raise InputError(
            f"{name}: has lines about versions, which are about the whole; a dataset is checked in windows"
        )
    if any(isinstance(op, dict) for op in line["ops"]):
        raise InputError(
            f"{name}: has SQL statements or scans; a dataset is of keys or lists ('isolde audit' judges SQL)"
        )
    if line.get("start") is None or (line.get("end") is None and line.get("status") != "unknown"):
        raise InputError(
            f"{name}: a transaction has no start or no end, by which windows are cut; check it as one file"
        )


def _keys(name: Any, *, by_name: bool) -> tuple[Any, ...]:
    """An object of JSON has texts as keys: "1" may be the number, which only the operations tell."""
    number = by_name and re.fullmatch(r"0|-?[1-9]\d*", name)
    return (name, int(name)) if number else (name,)


@dataclass(slots=True)
class _Walk:
    """One level, window by window."""

    level: Level
    options: CheckOptions
    parts: _Parts
    state: dict[str, Any] | None = None
    """What the keys hold after the transactions that are settled, by their JSON."""
    carried: list[Line] = field(default_factory=list)
    settled_start: float = -math.inf
    """The latest start of a settled transaction."""
    windows: int = 0
    seconds: float = 0.0
    violated: Finding | None = None
    open: str = ""
    exhibit: Sequence[Any] = ()

    def take(self, now: list[Line], later: list[Line]) -> None:
        """The next window: what is carried, and the part; ``later`` is the part after it."""
        if self.violated is not None:
            return
        begun = time.monotonic()
        if self.state is None:
            self.state = {key: list(one) if isinstance(one, list) else one for key, one in self.parts.initial.items()}
        horizon = min((line["start"] for line in later), default=math.inf)
        lines = sorted([*self.carried, *now], key=lambda line: line["place"])
        # Who ended after the next part began may have read from it. Who may have taken effect need not.
        early = [not later or _end(line) < horizon or line.get("status") == "unknown" for line in lines]
        window = [line for line, judged in zip(lines, early, strict=True) if judged]
        deferred = [line for line, judged in zip(lines, early, strict=True) if not judged]
        self.windows += 1
        explained = not self.open and self._explained(window, deferred, horizon)
        if not explained:
            self._judge_alone(lines)
            self.carried = now if later else []
            if not self.open:
                self.open = self._reason()
        self.seconds += time.monotonic() - begun

    def _explained(self, window: list[Line], deferred: list[Line], horizon: float) -> bool:
        """Whether an order explains the window after what is settled; settles a beginning of it."""
        if any(_end(line) < self.settled_start for line in window) and self.level not in (
            Level.PREFIX,
            Level.SNAPSHOT_ISOLATION,
            Level.SERIALIZABLE,
        ):
            return False
        for by in _ORDERS[self.level]:
            report = self._asked(window, by, self._header(window))
            order = report.findings[0].order
            if report.verdict is Verdict.SATISFIED and order is not None:
                self._settle(window, deferred, order, min([horizon, *(line["start"] for line in deferred)]))
                return True
        return False

    def _settle(self, window: list[Line], deferred: list[Line], order: CommitOrder, horizon: float) -> None:
        """Lets go the beginning of an order that nothing later overlaps with."""
        named = {json_text(line["id"]): line for line in window}
        placed = [named[json_text(name)] for name in order.transactions]
        assert {line["place"] for line in placed} >= {line["place"] for line in window if _committed(line)}
        cut = next((place for place, line in enumerate(placed) if _stays(line, horizon)), len(placed))
        snapshots = order.snapshots or range(len(placed))
        while (least := min([cut, *snapshots[cut:]])) < cut:
            cut = least
        assert self.state is not None
        for line in placed[:cut]:
            _run(line, self.state)
            self.settled_start = max(self.settled_start, line["start"])
        settled = {line["place"] for line in placed[:cut]}
        last: dict[str, int] = {}
        for line in placed[:cut]:
            session = json_text(line["session"])
            last[session] = max(last.get(session, -1), line["place"])
        left = [line for line in window if line["place"] not in settled and _lives(line, horizon, last)]
        self.carried = sorted([*left, *deferred], key=lambda line: line["place"])

    def _judge_alone(self, lines: list[Line]) -> None:
        """Looks whether the window is violated whatever came before it and comes after it."""
        found = self._alone(lines)
        if found.verdict is not Verdict.VIOLATED:
            return
        # Somebody in a part that was not read yet might have written what was read.
        self.parts.look_ahead()
        found = self._alone(lines)
        if found.verdict is Verdict.VIOLATED:
            self.violated, self.exhibit = found.findings[0], found.exhibit

    def _alone(self, lines: list[Line]) -> Report:
        written = {spelled(key, value) for line in lines for key, value in writes(line)} | self.parts.known
        part = [{**line, "ops": kept(line, written, self.parts.doubtful)} for line in lines]
        for line in part:
            line["text"] = json_text({name: value for name, value in line.items() if name not in _OURS})
        pairs = [[DECODER.decode(key), value] for key, value in _touched(self.parts.initial, lines)]
        return self._asked(part, self.level, pairs, order=False)

    def _asked(self, lines: list[Line], level: Level, initial: list[Any], *, order: bool = True) -> Report:
        header = {"isolde": "history", "version": 1, "initial": initial}
        text = "\n".join([json_text(header), *(line["text"] for line in lines), ""]).encode()
        options = replace(self.options, names=(level.value,), order=order)
        return check_columns(Columns.from_jsonl(text, self.parts.path), options, self.parts.path).report

    def _header(self, window: list[Line]) -> list[Any]:
        assert self.state is not None
        return [[DECODER.decode(key), value] for key, value in _touched(self.state, window)]

    def _reason(self) -> str:
        return (
            f"window {self.windows} is not explained after what was settled before it, and not violated by itself; "
            f"all at once can decide it: write the dataset into one file, and check that"
        )

    def finding(self) -> Finding:
        """What came of all windows."""
        question, spent = HistoryLevel(self.level), Spent(self.seconds, (("windows", self.windows),))
        if self.violated is not None:
            again = f"isolde check --level {self.level.value} {self.parts.path}"
            return replace(self.violated, spent=spent, reproduce=again)
        if self.open:
            return Finding(question, Verdict.UNDECIDED, "windows", spent, (NotProved(self.open),))
        return Finding(question, Verdict.SATISFIED, "windows", spent)


def _end(line: Line) -> float:
    end: float | None = line.get("end")
    return math.inf if end is None else end


def _committed(line: Line) -> bool:
    return bool(line.get("status", "committed") == "committed")


def _stays(line: Line, horizon: float) -> bool:
    """Whether a transaction with a place is carried over: later ones may have overlapped with it."""
    if _committed(line):
        return _end(line) >= horizon
    # Of unknown outcome, and so it is with its compare-and-sets.
    return any(op[0] == "cas" for op in line["ops"])


def _lives(line: Line, horizon: float, last: dict[str, int]) -> bool:
    """Whether what was not settled can still matter: not what was rolled back before, nor who was left behind by its session."""
    match line.get("status"):
        case "aborted":
            return _end(line) >= horizon
        case "unknown":
            return bool(last.get(json_text(line["session"]), -1) < line["place"])
        case _:
            return True


def _touched(state: dict[str, Any], lines: list[Line]) -> list[tuple[str, Any]]:
    """What is held by the keys that the transactions use."""
    used = dict.fromkeys(json_text(op[1]) for line in lines for op in line["ops"])
    return [(key, state[key]) for key in used if key in state]


def _run(line: Line, state: dict[str, Any]) -> None:
    """What the keys hold after a transaction."""
    for op in line["ops"]:
        match op:
            case ["w", key, value]:
                state[json_text(key)] = value
            case ["a", key, element]:
                held = state.setdefault(json_text(key), [])
                if held is None:
                    held = state[json_text(key)] = []
                held.append(element)
            case ["cas", key, _, value, True, *_]:
                state[json_text(key)] = value
            case _:
                pass
