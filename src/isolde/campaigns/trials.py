"""How soon is an anomaly found? The same run with one seed after the other, each until its first violation."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from isolde.campaigns.keyvalue import new_directory
from isolde.campaigns.options import Listener, RunOptions
from isolde.campaigns.run import run_on
from isolde.campaigns.target import Target, Wanted, opened
from isolde.engines.record import refuse_place
from isolde.errors import UsageError
from isolde.findings import DatabaseSubject, Finding, HistoryLevel, Report, RunFacts, Trial, TrialsFacts, Verdict
from isolde.workloads import workload_named
from isolde.workloads.applications import is_application


def run_trials(wanted: Wanted, options: RunOptions, count: int, listener: Listener) -> Report:
    """Runs so many seeds, each with its own table and directory; one that finds nothing ends by the bounds."""
    refuse_trials(options)
    with ExitStack() as stack:
        return _trials(opened(wanted, stack), options, count, listener)


def _trials(target: Target, options: RunOptions, count: int, listener: Listener) -> Report:
    directory = options.output or new_directory(target.adapter.name, "trials")
    refuse_place(directory)
    bounds = options.bounds
    # Without a bound of their own, trials that find nothing would go on for a million transactions.
    bounds = replace(bounds, transactions=bounds.planned, until_violation=True)
    trials: list[Trial] = []
    findings: tuple[Finding, ...] = ()
    facts: RunFacts | None = None
    quiet = replace(listener, found=lambda _: None)
    for seed in range(options.seed, options.seed + count):
        listener.trying(f"seed {seed}, {len(trials)} of {count} done")
        begun = time.monotonic()
        one = run_on(target, replace(options, bounds=bounds, seed=seed, output=directory / f"seed-{seed}"), quiet)
        trials.append(_trial(one, seed, time.monotonic() - begun))
        facts = facts or one.fact(RunFacts)
        if not findings or (one.verdict is Verdict.VIOLATED and not _any_violated(findings)):
            findings = one.findings
    assert facts is not None
    about = TrialsFacts(facts.database, facts.isolation, facts.claims, facts.workload, facts.sessions, tuple(trials))
    report = Report(DatabaseSubject(facts.database), findings, facts=(about,))
    listener.over()
    listener.found(report)
    return report


def refuse_trials(options: RunOptions) -> None:
    """Only runs that end with their first violation can be tried seed by seed."""
    if is_application(options.workload) or options.certify or options.faults:
        raise UsageError("--trials is for workloads of keys, without --certify and --nemesis")
    workload_named(options.workload)


def _any_violated(findings: tuple[Finding, ...]) -> bool:
    return any(finding.verdict is Verdict.VIOLATED for finding in findings)


def _trial(report: Report, seed: int, seconds: float) -> Trial:
    violated = next(
        (f for f in report.findings if isinstance(f.question, HistoryLevel) and f.verdict is Verdict.VIOLATED), None
    )
    facts = report.fact(RunFacts)
    assert facts is not None
    if violated is None or not violated.anomalies:
        return Trial(seed, report.verdict.value, "", seconds, None, facts.ran.committed, facts.history)
    anomaly = violated.anomalies[0]
    # A transaction is named by its place, in the last window if there were several.
    last = max(one for one in anomaly.transactions if isinstance(one, int))
    place = facts.ran.ended - report.size.transactions + last + 1
    ends = [one.end for one in report.exhibit if one.id in anomaly.transactions and one.end is not None]
    seen = (max(ends) - _begun(facts.history)) / 1e9 if ends else facts.ran.seconds
    return Trial(seed, "violated", anomaly.name, seen, place, facts.ran.committed, facts.history)


def _begun(history: str) -> int:
    """When the first transaction of a recorded run began, in nanoseconds: they are listed by their start."""
    with Path(history).open("rb") as lines:
        next(lines)
        start: int = json.loads(next(lines))["start"]
    return start
