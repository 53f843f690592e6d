"""Does a database keep the isolation level that it promises? Run, record, check; or try every level it has."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from isolde.campaigns.application import run_application
from isolde.campaigns.counter import run_counter
from isolde.campaigns.keyvalue import refuse_shapes, refuse_what_it_cannot, run_keys
from isolde.campaigns.matrix import try_all_levels
from isolde.campaigns.options import KEYS, Listener, RunOptions
from isolde.campaigns.predicates import run_predicates
from isolde.campaigns.sql import run_sql
from isolde.campaigns.target import Target, Wanted, opened
from isolde.databases.shapes import PLAIN
from isolde.errors import UsageError
from isolde.findings import Report
from isolde.workloads import Settings, Skew, workload_named
from isolde.workloads.applications import APPLICATIONS, application_named, is_application
from isolde.workloads.counter import NAME as COUNTER
from isolde.workloads.predicates import NAME as PREDICATES
from isolde.workloads.sql import NAME as SQL


def run(wanted: Wanted, options: RunOptions, listener: Listener | None = None) -> Report:
    """Runs a workload on the database that is wanted, and judges what came back. What Isolde started is ended again."""
    with ExitStack() as stack:
        target = opened(
            replace(wanted, faults=options.faults, certify=options.certify or options.workload == PREDICATES), stack
        )
        return run_on(target, options, listener or Listener())


def run_on(target: Target, options: RunOptions, listener: Listener) -> Report:
    """The same on a database that is open."""
    of_tables = options.workload == PREDICATES or (is_application(options.workload) and options.certify)
    if options.predicates_by == "database" and not of_tables:
        raise UsageError("--predicates-by is for certified runs of tables: --workload predicates, or --certify")
    if options.tables is not None and options.workload != SQL:
        raise UsageError(f"--tables is for random SQL (--workload {SQL}); {options.workload} has its own")
    of_tables = of_tables or options.workload in (SQL, COUNTER) or is_application(options.workload)
    if of_tables and options.of_keys.shapes != (PLAIN,):
        raise UsageError(
            f"--columns, --index, … --shapes are for workloads of keys; {options.workload} has its own tables"
        )
    if of_tables and (options.of_keys.distribution != "uniform" or options.of_keys.skew != Skew()):
        raise UsageError(
            f"--distribution, --exponent, --hot-keys and --hot-accesses are for workloads of keys; {options.workload} draws"
            " its own"
        )
    if options.workload == SQL and options.bounds.concurrent is not None:
        raise UsageError(f"--concurrent-sessions is not for {SQL}, whose rounds have few sessions: use --sessions")
    if options.workload == COUNTER:
        return run_counter(target, options, listener)
    if options.workload == SQL:
        return run_sql(target, options, listener)
    if options.workload == PREDICATES:
        return run_predicates(target, options, listener)
    if is_application(options.workload):
        if (options.levels and not options.certify) or options.faults:
            raise _judged_by_invariants(options)
        return run_application(target, application_named(options.workload), options, listener)
    return run_keys(target, _settings(target, options), options, listener)


def matrix(wanted: Wanted, options: RunOptions, listener: Listener | None = None) -> Report:
    """Tries every level of the database that is wanted: every anomaly as a schedule, and a workload at random."""
    with ExitStack() as stack:
        if options.workload == SQL:
            raise UsageError(f"{SQL} runs at one level (--isolation); --matrix is for workloads of keys")
        target = opened(wanted, stack)
        if is_application(options.workload):
            raise _judged_by_invariants(options)
        return try_all_levels(target, _settings(target, options), options.bounds, listener or Listener())


def _judged_by_invariants(options: RunOptions) -> UsageError:
    return UsageError(
        f"{options.workload} is judged by its invariants: --check, --nemesis and --matrix are for other workloads"
    )


def _settings(target: Target, options: RunOptions) -> Settings:
    """The key-value workload that is asked for."""
    of_application, of_keys = options.of_application, options.of_keys
    if of_application.sizes or of_application.mix or of_application.levels:
        known = ", ".join(APPLICATIONS)
        raise UsageError(
            f"--scale, --mix and --level are for applications ({known}, or a file of yours); {options.workload} is none"
        )
    workload = workload_named(options.workload)
    refuse_what_it_cannot(target.adapter, workload, of_keys.deletes)
    refuse_shapes(target.adapter, workload, options)
    settings = Settings(
        workload,
        of_keys.keys or KEYS,
        of_keys.operations,
        of_keys.distribution,
        of_keys.blind_writes,
        of_keys.deletes,
        options.seed,
        of_keys.shapes or target.adapter.shapes,
        of_keys.skew,
    )
    settings.plans(0)
    return settings
