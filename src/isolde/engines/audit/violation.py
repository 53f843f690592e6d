"""What is wrong with a log that a level does not explain: how far it goes, which answer, and which transactions are to blame."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from isolde.engines.audit.answers import shown_rows
from isolde.engines.audit.compiling import Ask
from isolde.engines.audit.decide import SEARCH_MAX, decide, part_of
from isolde.engines.audit.follow import Following, run_at
from isolde.engines.audit.log import Entry, Log, relinked
from isolde.engines.audit.paper import PaperSearch
from isolde.engines.audit.parts import failures, refuted
from isolde.engines.audit.readings import Reading, Reads
from isolde.engines.audit.replay import Mismatch, Replay
from isolde.engines.audit.search import Allowance, End, Search
from isolde.engines.audit.timeline import Placed, Timeline
from isolde.history import txn_name

CORE_STEPS = 5_000
CORE_S = 5.0
"""Seconds for all tries; transactions that were not tried are kept."""
CORE_MAX = 60
"""Of longer prefixes only the last transaction is looked at, unless a part of the log shows the contradiction by itself."""
EXACT_MAX = 60
"""Of longer logs not every beginning is judged anew."""
TOLD_MAX = 5
"""Answers that are tried whether they would have been right."""
BLAMED_MAX = 2_000
"""States, the newest first, on which an answer is compared with what it should be."""


@dataclass(frozen=True, slots=True)
class Blame:
    """The answer that nothing explains. ``conflict``: no answer is wrong, but this transaction wrote the same row."""

    statement: int
    expected: tuple[tuple[Any, ...], ...] | None
    observed: tuple[tuple[Any, ...], ...] | None
    sentence: str


def failing_prefix(log: Log, reading: Reading, allowance: Allowance) -> int | None:
    """The length of the shortest beginning, by ``end``, that no order explains; ``None`` if that was not decided."""
    if len(log.entries) <= EXACT_MAX:
        return _one_by_one(log, reading, allowance, 1)
    if reading.paper:
        if any(entry.maybe for entry in log.entries):
            return _one_by_one(log, reading, allowance, 1)
        search = PaperSearch(Replay(log), reading, log.entries, allowance.anew())
        return search.failed + 1 if search.run() is End.NONE else None
    return _followed_prefix(log, reading, allowance)


def _one_by_one(log: Log, reading: Reading, allowance: Allowance, shortest: int) -> int | None:
    for length in range(shortest, len(log.entries) + 1):
        entries = log.entries[:length]
        if entries[-1].maybe:
            # It need not have taken effect.
            continue
        found = decide(part_of(log, entries), reading, allowance.anew())
        if found.end is End.NONE:
            return length
        if found.end is End.SPENT:
            return None
    return None


def _followed_prefix(log: Log, reading: Reading, allowance: Allowance) -> int | None:
    """The same for a long log, which is followed once by ``end``: where nobody waits, the beginning is explained."""
    apart = log.apart()
    following = Following(Replay(apart), reading, apart.entries, Allowance(2**62, allowance.deadline), by_end=True)
    for entry in apart.entries:
        following.note(entry)
        if entry.maybe:
            continue
        goes_on = following.take(entry)
        if not following.waiting:
            continue
        length = entry.number + 1
        failing = failures(following.timeline, [one.entry for one in following.waiting.values()])
        if refuted(log, reading, failing, length, allowance.anew()) is not None:
            return length
        if allowance.deadline is not None and time.monotonic() > allowance.deadline:
            return None
        if not goes_on:
            return _one_by_one(log, reading, allowance, length) if length <= SEARCH_MAX else None
    return None


def blame(log: Log, reading: Reading, length: int, allowance: Allowance) -> Blame:
    """What is wrong with the last answer of a failing prefix."""
    entries = part_of(log, log.entries[:length]).entries
    last = entries[-1]
    before = part_of(log, log.entries[: length - 1])
    found = decide(before, reading, allowance.anew())
    if found.end is not End.FOUND and length > 1:
        return _contradiction(last)
    timeline = Timeline(Replay(part_of(log, entries)))
    try:
        for place, placed in enumerate(found.witness):
            entry = log.entries[placed.number]
            effects = found.effects[place] if found.effects else run_at(timeline, entry, placed)
            if isinstance(effects, Mismatch):
                break
            timeline.place(placed, effects)
            if len(timeline) % BLAMED_MAX == 0:
                timeline.let_go(len(timeline) - BLAMED_MAX)
        return _blamed(log, reading, entries, last, timeline)
    finally:
        timeline.back_to_beginning()


def _blamed(log: Log, reading: Reading, entries: Sequence[Entry], last: Entry, timeline: Timeline) -> Blame:
    failures: list[Mismatch] = []
    for state in _states(log, reading, last, timeline):
        effects = timeline.whole(last, state)
        if not isinstance(effects, Mismatch):
            return _conflicting(log, reading, last, timeline, state, effects)
        failures.append(effects)
    furthest = max(failure.statement for failure in failures)
    chosen = [failure for failure in failures if failure.statement == furthest]
    ask = last.asks[furthest]
    if ask.form.is_query and not ask.free and all(failure.tells_nothing for failure in chosen):
        # A query that cannot be evaluated is not to blame: what is wrong comes after it.
        asks = (*last.asks[:furthest], replace(ask, free=True), *last.asks[furthest + 1 :])
        return _blamed(log, reading, entries, replace(last, asks=asks), timeline)
    distinct = {_answer_text(ask, failure): failure for failure in reversed(chosen)}
    if len(entries) <= EXACT_MAX:
        # They are judged from the first rows on.
        timeline.stand(0)
    deadline = time.monotonic() + CORE_S
    tried = list(reversed(distinct.values()))[:TOLD_MAX]
    right = [one for one in tried if _would_hold(log, reading, entries, last, one, deadline)]
    if not right:
        return _contradiction(last)
    gives = [_answer_text(ask, failure) for failure in right]
    where = _WHERE[reading.reads]
    sentence = (
        f"statement {furthest} of {txn_name(last.id)}, '{_short(ask.text)}', {_observed_text(ask)}; {where} it"
        f" {' or '.join(gives[:3])}{' or something else' if len(gives) > 3 or len(distinct) > len(tried) else ''}."
    )
    return Blame(furthest, right[0].expected(), _observed(ask), sentence)


def _states(log: Log, reading: Reading, last: Entry, timeline: Timeline) -> Sequence[int]:
    """The states of an order that the last transaction may read, the newest first."""
    newest = len(timeline)
    if reading.reads is Reads.LATEST:
        return [newest]
    lowest = ended = 0
    if reading.reads is Reads.ONE_SNAPSHOT:
        for place, one in enumerate(timeline.placed, 1):
            other = log.entries[one.number]
            if reading.strict and not other.maybe and _precedes(other, last):
                lowest, ended = place, ended + 1
            elif other.number in last.before and not reading.paper:
                lowest = place
        if reading.paper:
            # Strict: what ended before it began, and nothing else.
            return [ended] if reading.strict else range(newest, -1, -1)
    return range(newest, max(lowest, timeline.first, newest - BLAMED_MAX) - 1, -1)


def _precedes(one: Entry, other: Entry) -> bool:
    return one.end is not None and other.start is not None and one.end < other.start


def _would_hold(
    log: Log, reading: Reading, entries: Sequence[Entry], last: Entry, failure: Mismatch, deadline: float
) -> bool:
    """Whether an order explains the beginning with this answer, and without what the last transaction did after it. Of a long
    beginning that is taken for granted.
    """
    if len(entries) > EXACT_MAX:
        return True
    place = failure.statement
    ask = replace(last.asks[place], rows=failure.rows, count=failure.count, error=failure.error)
    asked = replace(last, asks=(*last.asks[:place], ask))
    # What was learned is about the answers as they are.
    found = decide(replace(log, entries=[*entries[:-1], asked], learned={}), reading, Allowance(CORE_STEPS, deadline))
    return found.end is End.FOUND


_WHERE = {
    Reads.LATEST: "where it comes in an order that explains the others,",
    Reads.ONE_SNAPSHOT: "on any snapshot of an order that explains the others,",
    Reads.EACH_STATEMENT: "on any state of an order that explains the others,",
}


def _conflicting(log: Log, reading: Reading, last: Entry, timeline: Timeline, state: int, effects: Any) -> Blame:
    conflict = timeline.conflict(state, effects)
    if conflict is None or not reading.first_committer:
        return _contradiction(last)
    number, (position, name) = conflict
    other = log.entries[number]
    table = log.store.catalog.tables[position].table.name if position >= 0 else "the list of tables"
    place = next(
        (n for n, ask in enumerate(last.asks) if table in ask.tables and not ask.text.lower().startswith("select")), 0
    )
    key = ", ".join(map(str, name)) if isinstance(name, tuple) else str(name)
    sentence = (
        f"{txn_name(last.id)} and {txn_name(other.id)} both write the row {key} of {table}, and neither saw what the other wrote:"
        f" the second of them may not commit."
    )
    return Blame(place, None, _observed(last.asks[place]), sentence)


def _contradiction(last: Entry) -> Blame:
    """No single answer is wrong by itself."""
    place = len(last.asks) - 1
    sentence = f"no order of the transactions up to {txn_name(last.id)} gives all of their answers."
    return Blame(max(place, 0), None, _observed(last.asks[place]) if last.asks else None, sentence)


def no_run(last: Entry, place: int, model: str) -> Blame:
    """The same for a store model: which statement no run gets the answer of."""
    ask = last.asks[place]
    sentence = (
        f"statement {place} of {txn_name(last.id)}, '{_short(ask.text)}', {_observed_text(ask)}; no run of {model} that keeps"
        " sessions and times gives this answer after those before it."
    )
    return Blame(place, None, _observed(ask), sentence)


def core(log: Log, reading: Reading, length: int) -> tuple[Entry, ...]:
    """Transactions whose answers suffice for the contradiction, whatever the others did and answered."""
    entries = part_of(log, log.entries[:length]).entries
    last = entries[-1]
    deadline = time.monotonic() + CORE_S
    if length > CORE_MAX:
        if reading.paper:
            return (last,)
        stuck: list[tuple[Entry, int | None]] = [(last, place) for place in range(len(last.asks))]
        part = refuted(log, reading, stuck, length, Allowance(CORE_STEPS, deadline))
        if part is None or len(part.entries) > CORE_MAX:
            return (last,)
        entries = list(part.entries)
    if _contradicts(log, reading, entries, [last], deadline):
        return (last,)
    judged = list(entries)
    for one in list(entries):
        if one.number == last.number:
            continue
        without = [entry for entry in judged if entry is not one]
        if _contradicts(log, reading, entries, without, deadline):
            judged = without
    return tuple(log.entries[entry.number] for entry in judged)


def _contradicts(
    log: Log, reading: Reading, entries: Sequence[Entry], judged: Sequence[Entry], deadline: float
) -> bool:
    kept = {entry.number for entry in judged}
    freed = [entry if entry.number in kept else _freed(entry) for entry in entries]
    if log.session_order:
        # Sessions keep their order across those that need not have taken effect.
        freed = relinked(freed)
    replay, allowance = Replay(log), Allowance(CORE_STEPS, deadline)
    kind = PaperSearch if reading.paper else Search
    return kind(replay, reading, freed, allowance).run() is End.NONE and replay.refused is None


def _freed(entry: Entry) -> Entry:
    return replace(entry, maybe=True, asks=tuple(replace(ask, free=True, error=None) for ask in entry.asks))


# Words


def _observed(ask: Ask) -> tuple[tuple[Any, ...], ...] | None:
    if ask.error is not None:
        return ((f"error: {ask.error}",),)
    if ask.rows is not None:
        return shown_rows(ask.rows)
    return None if ask.count is None else ((ask.count,),)


def _observed_text(ask: Ask) -> str:
    if ask.error is not None:
        return f"failed ({ask.error})"
    if ask.rows is not None:
        return f"returned {_rows_text(ask.rows)}"
    return "succeeded" if ask.count is None else f"counted {ask.count}"


def _answer_text(ask: Ask, failure: Mismatch) -> str:
    if failure.error is not None:
        return f"fails ({failure.error})"
    if failure.rows is not None and ask.rows is not None:
        return f"returns {_rows_text(failure.rows)}"
    if failure.count is not None and ask.error is None:
        return f"counts {failure.count}"
    return "succeeds"


def _rows_text(rows: Sequence[Sequence[Any]]) -> str:
    if not rows:
        return "no rows"
    shown = shown_rows(rows[:4]) or ()
    if len(rows) == 1 and len(shown[0]) == 1:
        return str(shown[0][0])
    text = ", ".join("(" + ", ".join(map(str, row)) + ")" for row in shown)
    return text + (f" and {len(rows) - 4} more rows" if len(rows) > 4 else "")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 100 else text[:97] + "…"


def witness_order(log: Log, witness: Sequence[Placed]) -> tuple[tuple[Any, ...], tuple[tuple[int, ...], ...]]:
    """The ids of a witness in order, and the states of their statements."""
    return (
        tuple(log.entries[placed.number].id for placed in witness),
        tuple(placed.snapshots for placed in witness),
    )
