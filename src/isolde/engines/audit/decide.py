"""Does a level explain a log? First the log is followed as it was recorded; where that fails, all orders are searched.

Following can prove that a level explains the log, never that it does not. What a search found is run again, transaction by
transaction with the states of the witness, before it is believed.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate

from isolde.engines.audit.encoded import Encoded, Encoding
from isolde.engines.audit.follow import Following, run_at
from isolde.engines.audit.heuristics import ALL, Heuristics
from isolde.engines.audit.log import Entry, Log, relinked
from isolde.engines.audit.paper import PaperSearch
from isolde.engines.audit.parts import failures, refuted
from isolde.engines.audit.readings import READINGS, Reading, Reads
from isolde.engines.audit.replay import Mismatch, Replay
from isolde.engines.audit.search import Allowance, End, Search
from isolde.engines.audit.tables import Effects
from isolde.engines.audit.timeline import Placed, Timeline
from isolde.errors import InputError, MistakeError
from isolde.history import TxnId
from isolde.levels import Level

SEARCH_MAX = 3_000
NEEDS_TIMES = "a strict level needs start and end of every committed transaction, which this log does not have"


@dataclass(frozen=True, slots=True)
class Decision:
    """``witness`` explains the log, if it was ``FOUND``. ``reason``: why nothing was decided."""

    end: End
    method: str
    steps: int
    witness: tuple[Placed, ...] = ()
    part: tuple[Entry, ...] = ()
    """Transactions that show by themselves that nothing explains the log, with their statements that do, where it is refuted."""
    reason: str = ""
    explained: int = 0
    """Of what a solver refuted: how many transactions, by ``end``, some choice of states explains."""
    effects: tuple[Effects, ...] = ()
    """What each of the witness wrote, where statements read mixtures of states, which the witness does not tell."""
    refused: tuple[TxnId, int, str] | None = None
    """The statement that could not be evaluated, by its place among those that are judged, and why."""


def decide(
    log: Log,
    reading: Reading,
    allowance: Allowance,
    *,
    follow: bool = True,
    heuristics: Heuristics = ALL,
    encoding: Encoding | None = None,
) -> Decision:
    """Whether the level explains the whole log. With an encoding, a solver says so, by the paper's definition."""
    if reading.strict and not log.timed and not (reading.paper and reading.reads is Reads.LATEST):
        return Decision(End.SPENT, "search", 0, reason=NEEDS_TIMES)
    if encoding is not None:
        return _by_solver(log, reading, allowance, heuristics, encoding)
    if reading.paper:
        return _by_paper(log, reading, allowance)
    if follow:
        found = _followed(log, reading, allowance, heuristics)
        if found is not None:
            return found
        if allowance.over:
            return _not_found(Replay(log), End.SPENT, allowance, "replay")
    if len(log.entries) > SEARCH_MAX:
        reason = (
            "the recorded order does not explain the log, nor do orders near it, and all orders are searched of"
            f" {SEARCH_MAX:,} transactions at most; this log has {len(log.entries):,}"
        )
        return Decision(End.SPENT, "replay", 0, reason=reason)
    replay = Replay(log)
    search = Search(replay, reading, log.entries, allowance)
    end = search.run()
    if end is End.FOUND:
        witness = tuple(search.placed)
        verify(log, reading, witness)
        return Decision(end, "search", allowance.spent, witness)
    return _not_found(replay, end, allowance, "search")


def _by_paper(log: Log, reading: Reading, allowance: Allowance) -> Decision:
    replay = Replay(log)
    search = PaperSearch(replay, reading, log.entries, allowance)
    end = search.run()
    if end is End.FOUND:
        return Decision(end, "paper", allowance.spent, search.placed, effects=search.effects)
    return _not_found(replay, end, allowance, "paper")


def _not_found(replay: Replay, end: End, allowance: Allowance, method: str) -> Decision:
    if replay.refused is not None:
        entry, place, error = replay.refused
        reason = f"{replay.log.history.statement_at(entry.id, place)} cannot be judged: {error}"
        refused = (entry.id, place, str(error))
        return Decision(End.SPENT, method, allowance.spent, reason=reason, refused=refused)
    reason = ""
    if end is End.SPENT:
        reason = (
            f"no order was found within {allowance.spent:,} placements of transactions, and not all were tried;"
            " give more with --budget or --time"
        )
    return Decision(end, method, allowance.spent, reason=reason)


def _by_solver(
    log: Log, reading: Reading, allowance: Allowance, heuristics: Heuristics, encoding: Encoding
) -> Decision:
    method = f"solver({encoding.value})"
    search = Encoded(log, reading, encoding, heuristics, allowance)
    try:
        end = search.run()
    except InputError as error:
        return Decision(End.SPENT, method, search.queries, reason=str(error))
    reason = "the solver did not decide within its time; give more with --time" if end is End.SPENT else ""
    return Decision(end, method, search.queries, reason=reason, explained=search.failed)


def _followed(log: Log, reading: Reading, allowance: Allowance, heuristics: Heuristics) -> Decision | None:
    """Follows the log; where that fails, what could not be placed may show by itself that nothing explains it."""
    if log.numbered:
        found = _by_serial(log, reading, allowance)
        if found is not None:
            return found
    own = Allowance(2**62, allowance.deadline)
    following = Following(Replay(log), reading, log.entries, own, heuristics=heuristics)
    explained = following.run()
    witness = tuple(following.timeline.placed)
    stuck = [one.entry for one in following.waiting.values()]
    if following.stuck is not None and following.stuck not in stuck:
        stuck.append(following.stuck)
    failing = [] if explained else failures(following.timeline, stuck)
    following.timeline.back_to_beginning()
    if not explained and not own.over and heuristics.stronger:
        found = _by_stronger(log, reading, own, heuristics)
        if found is not None:
            return found
    if not explained:
        allowance.over = own.over
        part = None if own.over else refuted(log, reading, failing, len(log.entries), allowance)
        return None if part is None else Decision(End.NONE, "replay and search", allowance.spent, part=part.entries)
    method = "replay and search" if following.searched else "replay"
    return Decision(End.FOUND, method, len(witness) + following.searched, witness)


def _by_stronger(log: Log, reading: Reading, allowance: Allowance, heuristics: Heuristics) -> Decision | None:
    """Follows the log by the stronger levels, which leave less to choose: a choice that nobody saw may have been wrong."""
    if reading.reads is Reads.LATEST:
        return None
    levels = [Level.SERIALIZABLE]
    if reading.reads is Reads.EACH_STATEMENT:
        levels.append(Level.SNAPSHOT_ISOLATION)
    for level in levels:
        following = Following(Replay(log), READINGS[level], log.entries, allowance, heuristics=heuristics)
        explained = following.run()
        witness = tuple(following.timeline.placed)
        following.timeline.back_to_beginning()
        if not explained:
            continue
        with suppress(MistakeError):
            verify(log, reading, witness)
            return Decision(End.FOUND, "replay", len(witness) + following.searched, witness)
    return None


def _by_serial(log: Log, reading: Reading, allowance: Allowance) -> Decision | None:
    """Follows the order that the database told, which need not be right."""
    following = Following(Replay(log), reading, log.entries, Allowance(2**62, allowance.deadline), by_serial=True)
    found = following.run()
    witness = tuple(following.timeline.placed)
    following.timeline.back_to_beginning()
    if not found:
        return None
    try:
        verify(log, reading, witness)
    except MistakeError:
        # The order was followed, but real time forbids it.
        return None
    return Decision(End.FOUND, "replay", len(witness) + following.searched, witness)


def verify(log: Log, reading: Reading, witness: tuple[Placed, ...]) -> None:
    """Runs a witness again and looks at everything that the level asks for; a mistake of ours is never a verdict."""
    timeline = Timeline(Replay(log))
    position = {placed.number: place for place, placed in enumerate(witness)}
    missing = [entry.id for entry in log.entries if not entry.maybe and entry.number not in position]
    if missing:
        raise MistakeError(f"the order that explains the log leaves out {missing[0]}")
    past = _Past(log, position) if reading.strict else None
    try:
        for place, placed in enumerate(witness):
            entry = log.entries[placed.number]
            lowest = max((position[one] + 1 for one in entry.before if one in position), default=0)
            if past is not None and entry.start is not None:
                lowest = max(lowest, past.before(entry.start))
            if not reading.allows(placed.states(), lowest, place):
                raise MistakeError(f"the order that explains the log breaks the level at {entry.id}")
            effects = run_at(timeline, entry, placed)
            if isinstance(effects, Mismatch):
                raise MistakeError(f"the order that explains the log does not: {entry.id} answers something else")
            first = min(placed.states(), default=place)
            if reading.first_committer and timeline.written_since(first, effects) is not None:
                raise MistakeError(f"the order that explains the log does not: {entry.id} has a conflict")
            timeline.place(placed, effects)
    finally:
        timeline.cut(0)


class _Past:
    """How far an order must have come at a time: behind everybody who had ended."""

    def __init__(self, log: Log, position: dict[int, int]) -> None:
        ended = sorted((entry.end, entry.number) for entry in log.entries if not entry.maybe and entry.end is not None)
        self._ends = [end for end, _ in ended]
        self._states = list(accumulate((position[number] + 1 for _, number in ended), max))

    def before(self, time: int) -> int:
        """The first state that holds all that ended before a time."""
        place = bisect_left(self._ends, time)
        return self._states[place - 1] if place else 0


def part_of(log: Log, entries: list[Entry]) -> Log:
    """A beginning of the log. Sessions are what is left of them: a transaction may have come before one that ended earlier."""
    if not log.session_order or all(one < len(entries) for entry in entries for one in entry.before):
        return replace(log, entries=entries)
    return replace(log, entries=relinked(entries))
