"""Trials whose seeds are tried by workers, each against the database by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

from isolde.campaigns.keyvalue import new_directory
from isolde.campaigns.options import Listener, RunOptions
from isolde.campaigns.target import Wanted
from isolde.campaigns.trials import refuse_trials, run_trials
from isolde.engines.record import refuse_place
from isolde.findings import Report, TrialsFacts, Verdict
from isolde.scale.workers import Workers, spread


@dataclass(frozen=True, slots=True)
class _Job:
    wanted: Wanted
    options: RunOptions


def run_trials_apart(wanted: Wanted, options: RunOptions, count: int, listener: Listener, workers: Workers) -> Report:
    """As ``run_trials``. A server that is to be started is started for each trial; what is recorded lies where the worker is."""
    refuse_trials(options)
    directory = options.output or new_directory("database", "trials")
    refuse_place(directory)
    seeds = range(options.seed, options.seed + count)
    jobs = [_Job(wanted, replace(options, seed=seed, output=directory.absolute())) for seed in seeds]
    found: dict[int, Report] = {}
    for job, report in spread(workers, _tried, jobs):
        found[job.options.seed] = report
        listener.trying(f"seed {job.options.seed}, {len(found)} of {count} done")
    whole = _joined([found[seed] for seed in seeds])
    listener.over()
    listener.found(whole)
    return whole


def _tried(job: _Job) -> Report:
    """What a worker does."""
    return run_trials(job.wanted, job.options, 1, Listener())


def _joined(reports: list[Report]) -> Report:
    """One report of all seeds: the findings of the first that found something, as in a row."""
    facts = [fact for report in reports for fact in [report.fact(TrialsFacts)] if fact is not None]
    shown = next((report for report in reports if report.verdict is Verdict.VIOLATED), reports[0])
    trials = tuple(trial for one in facts for trial in one.trials)
    return replace(shown, facts=(replace(facts[0], trials=trials),))
