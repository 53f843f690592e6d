"""The workload ``predicates`` on a database: recorded, certified by the database's own order, and judged by that."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from isolde.campaigns.application import drop_tables, installed
from isolde.campaigns.certify import (
    Certified,
    CertifiedRounds,
    certificate_facts,
    certified,
    judging,
    listening,
    promised,
    refuse_uncertain,
    scope_of,
)
from isolde.campaigns.check import CheckOptions, check_file
from isolde.campaigns.keyvalue import new_directory, ran, tested
from isolde.campaigns.options import Listener, RunInterrupted, RunOptions
from isolde.campaigns.target import Target
from isolde.databases import Offer, offer_named
from isolde.databases.recovery import Recovery
from isolde.engines.record import Job, Outcome, Run, Watcher, finish, refuse_place
from isolde.engines.record.application import Installation
from isolde.engines.record.application.statements import statement_job
from isolde.engines.record.client import Surroundings
from isolde.errors import OutsideError, UsageError
from isolde.findings import Report, RunFacts
from isolde.levels import Level, row
from isolde.workloads.predicates import NAME, OPERATIONS, Draws, Mix, Step, application, mix_named

_FIRST_ROUND = 500


def run_predicates(target: Target, options: RunOptions, listener: Listener) -> Report:
    """Runs the workload on a private table, asks the database for its order, and decides what it promises by that."""
    dialect = target.adapter.dialect
    if dialect is None:
        raise UsageError(f"{target.adapter.name} speaks no SQL that Isolde can write, so it cannot run {NAME}")
    options = replace(options, certify=True)
    refuse_uncertain(target, options)
    mix = mix_named(options.of_application.mix)
    offer = offer_named(target.database, target.isolation) if target.isolation else target.database.offers()[-1]
    directory = options.output or new_directory(target.adapter.name, NAME)
    refuse_place(directory)
    prefix = f"isolde_{secrets.token_hex(4)}_"
    keys = options.of_keys.keys or mix.keys
    made = application(keys)
    installation = Installation(target.database, dialect, made, made.scale, prefix, options.bounds.timeout_s)
    operations = options.of_keys.operations or OPERATIONS

    def plans(number: int, shared: Surroundings) -> Callable[[], tuple[Step, ...]]:
        alone = shared.recovery is not None and shared.recovery.only_last
        return Draws(mix, keys, operations, number, seed=options.seed, alone=alone).next

    job = statement_job(
        installation,
        offer,
        plans,
        sessions=options.bounds.sessions,
        directory=directory,
        meta=_meta(target, offer, mix, keys, options),
        seed=options.seed,
    )
    kept = options.keep or target.server is not None
    about = installed(installation, options.seed, listener)
    if target.adapter.counts is not None:
        about["counts"] = json.dumps(target.adapter.counts).encode()
    try:
        report = _judged(target, installation, replace(job, about=about), offer, options, listener)
        listener.found(report)
    finally:
        left = "" if kept else drop_tables(installation)
        if left:
            listener.left(left.removeprefix("; "))
    (facts,) = (fact for fact in report.facts if isinstance(fact, RunFacts))
    if facts.ran.interrupted:
        raise RunInterrupted(Path(facts.history))
    return report


def _judged(
    target: Target, installation: Installation, job: Job, offer: Offer, options: RunOptions, listener: Listener
) -> Report:
    job = options.bounds.of(job)
    with listening(target, scope_of(installation), [offer], options) as recovery:
        assert recovery is not None
        asked = list(dict.fromkeys(options.levels)) or [promised(offer.claims, tables=True)]
        outcome, history, told = _recorded(replace(job, recovery=recovery), recovery, asked, options, listener)
    begun = time.monotonic()
    names = tuple(level.value for level in asked)
    with judging(target, installation, options) as judge:
        report = check_file(
            str(history), CheckOptions(names, budget=options.budget, judge=judge), certificate=str(told.path)
        ).report
    levels = " ".join(f"--level {row(level).short or level.value}" for level in asked)
    facts = RunFacts(
        database=target.database.version(),
        isolation=offer.called,
        claims=offer.claims,
        note=offer.note,
        workload=f"{NAME} ({job.meta['mix']})",
        sessions=job.sessions,
        keys=job.meta["keys"],
        distribution="uniform",
        at_once=options.bounds.at_once,
        deletes=0.0,
        seed=options.seed,
        ran=ran(outcome),
        check_seconds=time.monotonic() - begun,
        history=str(history),
        again=f"isolde check {levels} {history}",
        table=installation.prefix if options.keep else None,
        certificate=certificate_facts(told),
    )
    report = tested(report)
    return replace(report, facts=(*report.facts, facts))


def _recorded(
    job: Job, recovery: Recovery, asked: list[Level], options: RunOptions, listener: Listener
) -> tuple[Outcome, Path, Certified]:
    watcher = Watcher(listener.progress)
    if options.bounds.until_violation:
        rounds = CertifiedRounds(recovery, job.directory, asked, options.budget, lambda: run.accounts())
        watcher = Watcher(listener.progress, _FIRST_ROUND, at_rest=rounds.at_rest, quiet=rounds.violated)
    try:
        run = Run(job, watcher)
        outcome = run.wait()
    finally:
        listener.over()
    history = finish(job.directory)
    if outcome.failure is not None:
        raise OutsideError(f"the run ended early: {outcome.failure}; what was recorded is in {history}")
    return outcome, history, certified(recovery, outcome, history)


def _meta(target: Target, offer: Offer, mix: Mix, keys: int, options: RunOptions) -> dict[str, Any]:
    return {
        "database": target.database.version(),
        "url": target.url,
        "isolation": offer.called,
        "claims": offer.claims.value,
        "workload": NAME,
        "mix": mix.name,
        "weights": {deed.value: weight for deed, weight in mix.weights.items()},
        "keys": keys,
        "sessions": options.bounds.sessions,
        "seed": options.seed,
    }
