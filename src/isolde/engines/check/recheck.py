"""Is a reported violation real? Answered from its evidence and the transactions alone, without the engine that found it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from isolde.engines.check.evidence import NOTHING, Evidence, Told
from isolde.engines.check.recheck_cases import Cases
from isolde.engines.check.recheck_edges import edge_shown, forbidden, lost_either_way
from isolde.engines.check.recheck_lists import as_registers, has_lists, unexplained_list
from isolde.engines.check.recheck_serial import does_not_replay
from isolde.engines.check.recheck_weak import WEAK, Sight
from isolde.engines.check.shared_elements import alternatives, with_own_names, without_shared
from isolde.engines.check.sources import (
    Sources,
    counted_ones,
    final_writes,
    some_read_changed,
    some_read_not_own,
    some_read_without_writer,
)
from isolde.engines.check.unordered import cannot_be_ordered
from isolde.findings import Anomaly, Link
from isolde.history import History, Status, Transaction, token
from isolde.levels import LEVELS, Level, implies


def holds_up(
    history: History,
    level: Level,
    anomaly: Anomaly,
    *,
    judge_aborted: bool = False,
    evidence: Evidence = NOTHING,
) -> bool:
    """Whether ``anomaly`` follows from the operations of ``history`` and is forbidden by ``level``, or by one that it implies.

    Where too much was open, the answer may be one that was found for such a weaker level.

    For cycles: every edge is shown by operations, the edges close, and the level forbids such a cycle. For single reads: the
    value has no writer that the reader may see. For a key that cannot be ordered: all orders are tried. ``evidence`` is what
    was told besides the history.
    """
    told = Told.of(history, evidence)
    history = _with_told_outcomes(history, told)
    if anomaly.name == "serialization-order-violation":
        return does_not_replay(history, told, anomaly)
    return _implied_holds_up(history, level, anomaly, told, judge_aborted=judge_aborted)


def _with_told_outcomes(history: History, told: Told) -> History:
    """Who is told to have installed a version took effect; when it did is as unknown as before."""
    installed = told.took_effect()
    if not installed:
        return history
    transactions = (
        replace(t, status=Status.COMMITTED, end=None) if t.id in installed and t.status is Status.UNKNOWN else t
        for t in history.transactions
    )
    return replace(history, transactions=tuple(transactions))


def _implied_holds_up(history: History, level: Level, anomaly: Anomaly, told: Told, *, judge_aborted: bool) -> bool:
    """The same for what ``level`` or one that it implies forbids."""
    implied = (row.level for row in LEVELS if row.level is not level and implies(level, row.level))
    return any(
        _holds_up(history, weaker, anomaly, told, judge_aborted=judge_aborted)
        for weaker in itertools.chain([level], implied)
    )


def _holds_up(history: History, level: Level, anomaly: Anomaly, told: Told, *, judge_aborted: bool) -> bool:
    """The same for what ``level`` itself forbids."""
    if anomaly.name == "no-linearization":
        return level is Level.LINEARIZABLE and cannot_be_ordered(
            history, anomaly.transactions, judge_aborted=judge_aborted
        )
    if anomaly.cases and isinstance(anomaly.cases[0].outcome, Anomaly):
        return _each_holds_up(history, level, anomaly, told, judge_aborted=judge_aborted)
    if has_lists(history):
        if not anomaly.cycle and not anomaly.cases:
            return unexplained_list(history, anomaly)
        reads_bind = level is not Level.READ_UNCOMMITTED
        history = with_own_names(history, judge_aborted=judge_aborted) if reads_bind else without_shared(history)
        history = as_registers(history, reads_bind=reads_bind, judge_aborted=judge_aborted)
    counted = counted_ones(history, judge_aborted=judge_aborted, told=told)
    if level is Level.READ_UNCOMMITTED:
        # What was read binds nobody.
        counted = [t for t in counted if t.status is Status.COMMITTED or t.id in told.took_effect()]
    sources = Sources(history, level, counted, judge_aborted=judge_aborted, told=told)
    if anomaly.cases:
        return Cases(sources, counted).hold(anomaly.cases, ())
    if anomaly.name == "thin-air-read" and sources.sourceless(anomaly.transactions[-1]):
        return True
    if not anomaly.cycle:
        about = [sources.by_id[txn] for txn in anomaly.transactions]
        return anomaly.name in _UNEXPLAINED and _UNEXPLAINED[anomaly.name](history, about)
    if level is Level.LINEARIZABLE and anomaly.name == "real-time-violation":
        links = [link for link in anomaly.cycle if link.kind == "rt"]
        return bool(links) and all(edge_shown(history, counted, sources.by_id, link) for link in links)

    def shown(link: Link) -> bool:
        if level in WEAK or link.through is not None:
            return Sight(sources).shown(link)
        return edge_shown(history, counted, sources.by_id, link, told)

    # Either order of the writes of a lost update closes a cycle: what both read, the other replaced.
    other_order = lost_either_way(anomaly.cycle)
    evidence = anomaly.cycle if other_order is None else (anomaly.cycle[0], other_order)
    return all(map(shown, evidence)) and forbidden(level, anomaly.cycle)


def _each_holds_up(history: History, level: Level, anomaly: Anomaly, told: Told, *, judge_aborted: bool) -> bool:
    """Whether the cases name all that may be assumed of a shared element, and what each comes to holds up."""
    outcomes = {(c.supposition.second, c.supposition.index, c.supposition.sentence): c.outcome for c in anomaly.cases}
    shared = list(alternatives(history, level, judge_aborted=judge_aborted))
    return bool(shared) and all(
        isinstance(outcome := outcomes.get((s.second, s.index, s.sentence)), Anomaly)
        and _implied_holds_up(assumed, level, outcome, told, judge_aborted=judge_aborted)
        for s, assumed in shared
    )


def _misplaced(history: History, about: list[Transaction]) -> bool:
    """Whether a versions line has the last of these before the initial value, or has it, or that, twice."""
    for chain in history.versions:
        initial, values = token(history.initial.get(chain.key)), [token(value) for value in chain.values]
        final = final_writes(about[-1]) if about else {chain.key: history.initial.get(chain.key)}
        if chain.key not in final:
            continue
        places = [at for at, value in enumerate(values) if value == token(final[chain.key])]
        if len(places) > 1 or (places and initial in values[places[0] + 1 :]):
            return True
    return False


def _without_writer(history: History, about: list[Transaction]) -> bool:
    return some_read_without_writer(history, about[-1]) or some_read_not_own(history, about[-1])


_UNEXPLAINED: dict[str, Callable[[History, list[Transaction]], bool]] = {
    "contradictory-versions": _misplaced,
    "thin-air-read": _without_writer,
    "aborted-read": _without_writer,
    "intermediate-read": _without_writer,
    "future-read": _without_writer,
    "not-my-last-write": lambda history, about: some_read_not_own(history, about[-1]),
    "not-my-own-write": lambda history, about: some_read_not_own(history, about[-1]),
    "non-repeatable-read": lambda history, about: some_read_changed(history, about[-1]),
}
