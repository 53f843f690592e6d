"""Could a correct database have given these answers to these transactions? The door of the engine."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from typing import Any

from isolde.engines.audit.decide import Decision, decide
from isolde.engines.audit.encoded import Encoding
from isolde.engines.audit.heuristics import ALL, Heuristics
from isolde.engines.audit.log import Entry, Log, Refused, ended_by, log_of
from isolde.engines.audit.models import StoreReading, known_settings, readings_of, store_of, store_reading
from isolde.engines.audit.readings import READINGS, WEAKER, Reading, reading_of
from isolde.engines.audit.regions import standing_for_all
from isolde.engines.audit.replay import Replay
from isolde.engines.audit.search import Allowance, End, Search
from isolde.engines.audit.stores import CHECKS_OF_A_PLAN, LOCKS_OF_A_PLAN, contradicted, explains, failing_statement
from isolde.engines.audit.stream import Stream, streamed
from isolde.engines.audit.unknowns import REASON, TRIES_MAX, guesses, has_unknowns
from isolde.engines.audit.violation import blame, core, failing_prefix, no_run, witness_order
from isolde.findings import (
    AtLevel,
    Evidence,
    FailingPrefix,
    Finding,
    LeftOut,
    LogExplained,
    LogOrder,
    LogSubject,
    NotProved,
    OnStore,
    Report,
    Spent,
    Under,
    Verdict,
)
from isolde.formats.tables import SqlHistory
from isolde.history import Operation, Sql, Status, TxnId, txn_name
from isolde.levels import Level, level_named

BUDGET = 200_000
"""Placements of transactions that a search may make for one level."""
GUESS_STEPS = 2_000
"""Placements for each guess of unknown first values."""
RUNS = 10
"""Runs of statements that go with each placement of the budget."""
EXPLAINING_S = 20.0
"""Seconds for each level that may explain a violation."""
_QUERY = re.compile(r"\s*(select|with|values|table|show|explain)\b", re.IGNORECASE)
_CHANGES = re.compile(r"\b(insert|update|delete|into|nextval|call|analyze)\b", re.IGNORECASE)
_VERDICTS = {End.FOUND: Verdict.SATISFIED, End.NONE: Verdict.VIOLATED, End.SPENT: Verdict.UNDECIDED}


Asked = Reading | StoreReading


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """How a log is judged. ``levels`` are by name, or ``STORE:LEVEL``; ``paper``: as the paper defines them.

    ``settings`` change what a store's level does, beside those of the log's header. ``order``: name the order that explains a
    satisfied level. ``budget`` bounds a search in placements, ``seconds`` each level. ``encoding``: the paper's definition by a
    solver.
    """

    levels: tuple[str, ...] = (Level.SERIALIZABLE.value,)
    paper: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    session_order: bool = True
    skip_unsupported: bool = False
    budget: int = BUDGET
    seconds: float | None = None
    order: bool = False
    heuristics: Heuristics = ALL
    encoding: Encoding | None = None

    def __post_init__(self) -> None:
        """Unknown levels and settings are refused before a log is read."""
        for name in self.levels:
            self.asked(name, {})

    def asked(self, name: str, known: Mapping[str, str]) -> Asked:
        """What a name asks for; ``known`` are settings of the log's header."""
        if ":" not in name:
            return replace(reading_of(level_named(name)), paper=self.paper or self.encoding is not None)
        store = name.partition(":")[0]
        return store_reading(name, {**known_settings(store, known), **dict(self.settings)})


def audit(history: SqlHistory, options: AuditOptions, name: str = "log") -> Report:
    """Judges a log at each level that is asked for."""
    questions = [options.asked(level, history.settings) for level in options.levels]
    subject = LogSubject(
        name,
        len(history.transactions),
        sum(one.status is Status.COMMITTED for one in history.transactions),
        sum(len(one.ops) for one in history.transactions),
    )
    if has_unknowns(history):
        return Report(subject, tuple(_guessed(history, asked, options) for asked in questions))
    session_order = options.session_order and not options.paper and options.encoding is None
    try:
        log = log_of(history, skip_unsupported=options.skip_unsupported, session_order=session_order)
        log.store.find_by_index(options.heuristics.index)
    except Refused as refused:
        what = refused.what
        named = history.statement_at(what.transaction, what.statement)
        reason = f"{named}: {what.reason}; --skip-unsupported leaves it out"
        findings = [
            Finding(LogExplained(_under(asked)), Verdict.UNDECIDED, "replay", evidence=(NotProved(reason),))
            for asked in questions
        ]
        return Report(subject, tuple(findings))
    return Report(subject, tuple(_judged(log, asked, options) for asked in questions))


def audit_stream(
    header: SqlHistory,
    lines: Callable[[], Iterator[Mapping[str, Any]]],
    options: AuditOptions,
    subject: LogSubject,
) -> Report | None:
    """The same for a log that comes line by line, of which nothing is kept. ``None``: that is not enough to judge it.

    ``lines`` gives all transactions from the beginning, once for each level.
    """
    questions = streamable(header, options)
    findings = []
    for asked in questions:
        deadline = None if options.seconds is None else time.monotonic() + options.seconds
        found = streamed(header, lines(), asked, session_order=options.session_order, deadline=deadline)
        if found is None:
            return None
        findings.append(explained_stream(found))
    return Report(subject, tuple(findings)) if findings else None


def streamable(header: SqlHistory, options: AuditOptions) -> list[Reading]:
    """The levels that are asked for, if a log can be judged at each of them while it comes; else none."""
    questions = [options.asked(level, header.settings) for level in options.levels]
    plain = not (options.order or options.encoding or options.paper or options.skip_unsupported or has_unknowns(header))
    found = [asked for asked in questions if isinstance(asked, Reading)]
    return found if plain and options.heuristics == ALL and len(found) == len(questions) else []


def explained_stream(stream: Stream) -> Finding:
    """What is said of a log that was explained while it came."""
    spent = Spent(time.monotonic() - stream.began, (("explored", stream.transactions),))
    return Finding(LogExplained(_under(stream.reading)), Verdict.SATISFIED, "replay", spent)


def _guessed(history: SqlHistory, asked: Asked, options: AuditOptions) -> Finding:
    """The same for a log whose first rows nobody knows."""
    began = time.monotonic()
    deadline = None if options.seconds is None else began + options.seconds
    session_order = options.session_order and not options.paper and options.encoding is None
    tries = 0
    reason = REASON
    every = standing_for_all(history, TRIES_MAX)
    refuting: list[Finding] = []
    for guess in guesses(history, every):
        if deadline is not None and time.monotonic() > deadline:
            break
        tries += 1
        try:
            log = log_of(guess, skip_unsupported=options.skip_unsupported, session_order=session_order)
        except Refused as refused:
            named = history.statement_at(refused.what.transaction, refused.what.statement)
            reason = f"{named}: {refused.what.reason}"
            break
        one = replace(options, budget=min(options.budget, GUESS_STEPS))
        found = _judged(log, asked, one, explain=every is not None)
        if found.verdict is Verdict.SATISFIED:
            return replace(found, spent=Spent(time.monotonic() - began, (*found.spent.counts, ("guesses", tries))))
        if found.verdict is Verdict.VIOLATED:
            refuting.append(found)
    spent = Spent(time.monotonic() - began, (("guesses", tries),))
    if every is not None and len(refuting) == tries == prod(map(len, every.values())):
        # Of beginnings that no value explains, the shortest is the longest of those that single values do not.
        longest = max(refuting, key=_prefix_length)
        return replace(longest, spent=spent, evidence=tuple(map(_whatever, longest.evidence)))
    return Finding(LogExplained(_under(asked)), Verdict.UNDECIDED, "replay", spent, (NotProved(reason),))


def _prefix_length(finding: Finding) -> int:
    return max((one.length for one in finding.evidence if isinstance(one, FailingPrefix)), default=0)


def _whatever(evidence: Evidence) -> Evidence:
    """The same of a log with unknown first values: what is expected is so for one of them."""
    if not isinstance(evidence, FailingPrefix):
        return evidence
    sentence = f"Whatever the unknown first values are, nothing explains this; for one of them: {evidence.explanation}"
    return replace(evidence, explanation=sentence, explained_by=())


def _under(asked: Asked) -> Under:
    if isinstance(asked, StoreReading):
        return OnStore(asked.store, asked.isolation, settings=asked.settings)
    return AtLevel(asked.level)


def _judged(log: Log, asked: Asked, options: AuditOptions, *, explain: bool = True) -> Finding:
    began = time.monotonic()
    deadline = None if options.seconds is None else began + options.seconds
    allowance = Allowance(options.budget, deadline, RUNS * options.budget)
    evidence: tuple[Evidence, ...]
    if isinstance(asked, StoreReading):
        end, reason = explains(log, asked, allowance)
        found = Decision(end, f"store-model({asked.store})", allowance.spent, reason=reason)
    else:
        found = decide(log, asked, allowance, heuristics=options.heuristics, encoding=options.encoding)
        while options.skip_unsupported and found.refused is not None:
            log = _without(log, *found.refused)
            found = decide(log, asked, allowance.anew(), heuristics=options.heuristics, encoding=options.encoding)
    if found.end is End.NONE and _may_matter(log):
        # What was left out may have changed the very rows that were read.
        reason = "nothing explains the log without what was left out, which may have changed rows"
        found = replace(found, end=End.SPENT, reason=reason)
    if found.end is End.SPENT:
        evidence = (NotProved(found.reason),)
    elif found.end is End.NONE:
        evidence = ()
        if explain and options.encoding is not None and isinstance(asked, Reading):
            evidence = (_refuted_by_solver(log, asked, options, found.explained),)
        elif explain:
            evidence = (_failing(log, asked, options, allowance, found.part),)
    else:
        evidence = (LogOrder(*witness_order(log, found.witness)),) if options.order and found.witness else ()
    if log.left_out:
        texts = tuple(
            f"{log.history.statement_at(one.transaction, one.statement)}: {one.reason}" for one in log.left_out
        )
        evidence = (*evidence, LeftOut(texts))
    return Finding(
        LogExplained(_under(asked)),
        _VERDICTS[found.end],
        found.method,
        Spent(time.monotonic() - began, (("explored", found.steps),)),
        evidence,
    )


def _failing(
    log: Log, asked: Asked, options: AuditOptions, allowance: Allowance, part: Sequence[Entry]
) -> FailingPrefix:
    """What is wrong, and what explains it all the same."""
    if isinstance(asked, StoreReading):
        length, place = failing_statement(log, asked, allowance)
        wrong = no_run(log.entries[length - 1], place, asked.name)
        to_blame: tuple[Entry, ...] = (log.entries[length - 1],)
    else:
        length = failing_prefix(log, asked, allowance) or len(log.entries)
        wrong = blame(log, asked, length, allowance)
        to_blame = core(log, asked, length)
    explained, undecided = explaining(log, asked, options, length, part)
    last = log.entries[length - 1]
    statement = _place_in_log(log, last, wrong.statement)
    # Places are told as they are in the log, those of what was left out counted.
    sentence = wrong.sentence.replace(f"statement {wrong.statement} of", f"statement {statement} of", 1)
    sentence = sentence[0].upper() + sentence[1:]
    if explained:
        sentence += f" {_listed(explained)} explains the log."
    elif undecided:
        sentence += f" Whether {_listed(undecided)} explains the log was not decided."
    return FailingPrefix(
        ended_by(log.history, last.id),
        last.id,
        statement,
        wrong.expected,
        wrong.observed,
        "isolation" if explained or undecided else "semantic",
        sentence,
        tuple(entry.id for entry in to_blame),
        tuple(explained),
    )


def _refuted_by_solver(log: Log, asked: Reading, options: AuditOptions, explained: int) -> FailingPrefix:
    """The same of a verdict of the solver, which says how far it came, and is asked about the weaker levels."""
    last = log.entries[explained]
    names: list[str] = []
    todo = list(WEAKER[asked.level])
    while todo and not names:
        weaker = replace(READINGS[todo.pop(0)], paper=True)
        found = decide(log, weaker, _short_allowance(options), heuristics=options.heuristics, encoding=options.encoding)
        if found.end is End.FOUND:
            names.append(weaker.level.value)
        todo += WEAKER[weaker.level]
    sentence = (
        f"No choice of states gives all answers of the transactions up to {txn_name(last.id)}, in the order of end."
    )
    if names:
        sentence += f" {_listed(names)} explains the log."
    return FailingPrefix(
        ended_by(log.history, last.id),
        last.id,
        max(len(last.asks) - 1, 0),
        None,
        None,
        "isolation" if names else "semantic",
        sentence,
        (last.id,),
        tuple(names),
    )


def _place_in_log(log: Log, entry: Entry, place: int) -> int:
    left_out = {one.statement for one in log.left_out if one.transaction == entry.id}
    kept = (number for number in range(len(entry.asks) + len(left_out)) if number not in left_out)
    return next(islice(kept, place, None), place)


def _without(log: Log, transaction: TxnId, place: int, reason: str) -> Log:
    """The log without a statement that could not be evaluated when it ran, and without all others of its text."""
    entry = next(one for one in log.entries if one.id == transaction)
    shown = {one.id: one.ops for one in log.history.transactions}
    text = _text(shown[transaction][_place_in_log(log, entry, place)])
    before = {(one.transaction, one.statement): one.reason for one in log.left_out}
    nothing = Sql({"sql": ""})
    transactions = tuple(
        replace(
            one,
            ops=tuple(nothing if _text(op) == text or (one.id, at) in before else op for at, op in enumerate(one.ops)),
        )
        for one in log.history.transactions
    )
    history = log.history
    log = log_of(replace(history, transactions=transactions), skip_unsupported=True, session_order=log.session_order)
    log.history = history
    log.left_out = [replace(one, reason=before.get((one.transaction, one.statement), reason)) for one in log.left_out]
    return log


def _text(op: Operation) -> str:
    return str(op.content.get("sql", "")) if isinstance(op, Sql) else ""


def _may_matter(log: Log) -> bool:
    """Whether something was left out that may have changed rows: anything but a query, and a query that calls who knows what."""
    ops = {one.id: one.ops for one in log.history.transactions} if log.left_out else {}
    for one in log.left_out:
        op = ops[one.transaction][one.statement]
        text = _text(op)
        if not _QUERY.match(text) or _CHANGES.search(text) or "the function" in one.reason:
            return True
    return False


def explaining(
    log: Log, asked: Asked, options: AuditOptions, length: int, part: Sequence[Entry] = ()
) -> tuple[list[str], list[str]]:
    """The strongest of the weaker levels, and of the levels of the log's own database, that explain the log; and those that were
    not decided. The first ``length`` transactions are those that fail. ``part``: transactions that show the violation; a level
    that does not explain these does not explain the log.
    """
    explained: list[Level] = []
    undecided: list[str] = []
    if isinstance(asked, StoreReading):
        todo, paper = [Level.STRICT_SERIALIZABLE], False
    else:
        todo, paper = list(WEAKER[asked.level]), asked.paper
    seen: set[Level] = set()
    while todo:
        one = todo.pop(0)
        if one in seen:
            continue
        seen.add(one)
        weaker = replace(READINGS[one], paper=paper)
        end = (
            End.NONE
            if _contradicted(log, weaker, part, options)
            else decide(log, weaker, _short_allowance(options)).end
        )
        if end is End.FOUND:
            explained.append(one)
            continue
        if end is End.SPENT and (log.timed or not READINGS[one].strict):
            undecided.append(one.value)
        todo += WEAKER[one]
    below = {lower for one in explained for lower in _below(one)}
    names = [one.value for one in explained if one not in below]
    settings = {**known_settings(store_of(log), log.history.settings), **dict(options.settings)}
    for reading in readings_of(log, settings):
        if reading == asked:
            continue
        if contradicted(log, reading, part):
            continue
        allowance = _short_allowance(options)
        end, reason = explains(log, reading, allowance)
        if end is End.FOUND:
            return [*names, reading.name], undecided
        if end is End.SPENT and reason in (LOCKS_OF_A_PLAN, CHECKS_OF_A_PLAN):
            # Where a plan decides, the beginning that fails may be clear by itself.
            end, _ = explains(log, reading, allowance, log.entries[:length])
            if end is not End.NONE:
                undecided.append(reading.name)
        elif end is End.SPENT and allowance.over:
            undecided.append(reading.name)
    return names, undecided


def _contradicted(log: Log, reading: Reading, part: Sequence[Entry], options: AuditOptions) -> bool:
    """Whether a part of a log is enough to see that a level does not explain it."""
    if not part or reading.paper or (reading.strict and not log.timed):
        return False
    replay = Replay(log)
    return Search(replay, reading, part, _short_allowance(options)).run() is End.NONE and replay.refused is None


def _short_allowance(options: AuditOptions) -> Allowance:
    """For what explains a violation, which is known already."""
    deadline = time.monotonic() + min(options.seconds or EXPLAINING_S, EXPLAINING_S)
    return Allowance(options.budget, deadline, RUNS * options.budget)


def _below(level: Level) -> set[Level]:
    found: set[Level] = set()
    for one in WEAKER[level]:
        found |= {one} | _below(one)
    return found


def _listed(names: Sequence[str]) -> str:
    return " or ".join(names)
