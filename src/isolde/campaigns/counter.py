"""The workload ``counter`` on a database: increments of few counters, and whether all of them were counted."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import replace
from pathlib import Path

from isolde.campaigns.application import drop_tables, installed
from isolde.campaigns.keyvalue import new_directory, ran
from isolde.campaigns.lead import counters_lead
from isolde.campaigns.options import Listener, RunInterrupted, RunOptions
from isolde.campaigns.target import Target
from isolde.databases import Offer, offer_named
from isolde.databases.waiting import aside
from isolde.engines.record import Job, Outcome, Run, Watcher, finish, refuse_place
from isolde.engines.record.application import Installation
from isolde.engines.record.application.statements import statement_job
from isolde.engines.record.counting import Miscount, increments_of, miscounts
from isolde.errors import OutsideError, UsageError
from isolde.findings import (
    Finding,
    LogSubject,
    Miscounted,
    NotProved,
    Report,
    RunFacts,
    RunHealth,
    Spent,
    Verdict,
)
from isolde.formats import decode, read
from isolde.history import History, Status
from isolde.levels import Level
from isolde.workloads.counter import KEYS, NAME, OPERATIONS, TABLE, Draws, application

_SHOWN = 20


def run_counter(target: Target, options: RunOptions, listener: Listener) -> Report:
    """Runs the workload on a private table, reads the counters when all is over, and counts."""
    dialect = target.adapter.dialect
    if dialect is None:
        raise UsageError(f"{target.adapter.name} speaks no SQL that Isolde can write, so it cannot run {NAME}")
    if options.levels or options.certify or options.faults or options.bounds.until_violation:
        raise UsageError(
            f"{NAME} is judged by its final values: --check, --certify, --nemesis and --until-violation are for others"
        )
    offer = offer_named(target.database, target.isolation) if target.isolation else target.database.offers()[-1]
    directory = options.output or new_directory(target.adapter.name, NAME)
    refuse_place(directory)
    keys, operations = options.of_keys.keys or KEYS, options.of_keys.operations or OPERATIONS
    made = application(keys)
    prefix = f"isolde_{secrets.token_hex(4)}_"
    installation = Installation(target.database, dialect, made, made.scale, prefix, options.bounds.timeout_s)
    bounds = options.bounds
    job = statement_job(
        installation,
        offer,
        lambda number, _: Draws(keys, operations, number, seed=options.seed).next,
        sessions=bounds.sessions,
        directory=directory,
        meta={"database": target.database.version(), "url": target.url, "isolation": offer.called, "workload": NAME},
        seed=options.seed,
    )
    about = installed(installation, options.seed, listener)
    if target.adapter.counts is not None:
        about["counts"] = json.dumps(target.adapter.counts).encode()
    job = bounds.of(replace(job, about=about))
    try:
        outcome, history = _recorded(job, listener)
        report = _judged(target, installation, outcome, history, offer, options)
        listener.found(report)
    finally:
        kept = options.keep or target.server is not None
        left = "" if kept else drop_tables(installation)
        if left:
            listener.left(left.removeprefix("; "))
    if outcome.interrupted:
        raise RunInterrupted(history)
    return report


def _recorded(job: Job, listener: Listener) -> tuple[Outcome, Path]:
    try:
        outcome = Run(job, Watcher(listener.progress)).wait()
    finally:
        listener.over()
    history = finish(job.directory)
    if outcome.failure is not None:
        raise OutsideError(f"the run ended early: {outcome.failure}; what was recorded is in {history}")
    return outcome, history


def _judged(
    target: Target, installation: Installation, outcome: Outcome, path: Path, offer: Offer, options: RunOptions
) -> Report:
    begun = time.monotonic()
    history = decode(read(str(path)))
    final = dict(aside(lambda: installation.rows(TABLE, ("k", "v")), free=installation.free))
    counters = {key: final.get(key) for key in range(installation.scale["keys"])}
    wrong = miscounts(history, counters, dirty_reads=offer.claims is Level.READ_UNCOMMITTED)
    seconds = time.monotonic() - begun
    facts = RunFacts(
        database=target.database.version(),
        isolation=offer.called,
        claims=offer.claims,
        note=offer.note,
        workload=NAME,
        sessions=options.bounds.sessions,
        keys=installation.scale["keys"],
        distribution="uniform",
        at_once=options.bounds.at_once,
        deletes=0.0,
        seed=options.seed,
        ran=ran(outcome),
        check_seconds=seconds,
        history=str(path),
        again=f"isolde audit {path}",
        lead=counters_lead(wrong, _increments(history), offer, target.database.version()),
        table=installation.prefix if options.keep else None,
    )
    return Report(_subject(history, path), (_finding(history, wrong, seconds),), facts=(facts,))


def _increments(history: History) -> int:
    """How many of those that were committed."""
    return sum(1 for one in history.transactions if one.status is Status.COMMITTED for _ in increments_of(one))


def _subject(history: History, path: Path) -> LogSubject:
    transactions = history.transactions
    committed = sum(one.status is Status.COMMITTED for one in transactions)
    return LogSubject(str(path), len(transactions), committed, sum(len(one.ops) for one in transactions))


def _finding(history: History, wrong: list[Miscount], seconds: float) -> Finding:
    question, spent = RunHealth("counters"), Spent(seconds, (("wrong", len(wrong)),))
    if wrong:
        shown = tuple(
            Miscounted(one.key, one.low, one.high, one.found, one.transaction, one.sentence) for one in wrong[:_SHOWN]
        )
        return Finding(question, Verdict.VIOLATED, "final-values", spent, shown)
    if not any(one.status is Status.COMMITTED for one in history.transactions):
        nothing = NotProved("no transaction was committed, so that nothing was tested")
        return Finding(question, Verdict.UNDECIDED, "final-values", spent, (nothing,))
    return Finding(question, Verdict.SATISFIED, "final-values", spent)
