"""An application on a database: its transactions at once, every statement recorded, what must hold of its data looked at."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from isolde.campaigns.certify import (
    Certified,
    certificate_facts,
    certified,
    judging,
    listening,
    promised_by_all,
    refuse_uncertain,
    scope_of,
)
from isolde.campaigns.check import CheckOptions, check_file
from isolde.campaigns.keyvalue import new_directory, ran
from isolde.campaigns.offenders import with_last_writers
from isolde.campaigns.options import Listener, RunInterrupted, RunOptions
from isolde.campaigns.pace import pace_of
from isolde.campaigns.target import Target
from isolde.databases import Offer, offer_named
from isolde.databases.waiting import ASIDE_S, aside
from isolde.engines.certify import Judge
from isolde.engines.record import Job, Outcome, Run, Watcher, finish, refuse_place
from isolde.engines.record.application import Broken, Installation, application_job
from isolde.errors import FullDisk, InputError, IsoldeError, OutsideError, UsageError
from isolde.findings import (
    ApplicationFacts,
    ApplicationSubject,
    BrokenInvariant,
    Finding,
    InvariantFacts,
    InvariantKept,
    NotProved,
    Report,
    Verdict,
)
from isolde.formats import read
from isolde.levels import Level
from isolde.workloads.application import Application, Scale
from isolde.workloads.applications.mistakes import refuse_arguments
from isolde.workloads.scales import scale_of

_QUIET_EVERY = 500
_METHOD = "quiet-points"


@dataclass(slots=True)
class _Looked:
    """What was seen of the invariants so far: which were broken, first, and at how many points that was looked for."""

    installation: Installation
    broken: dict[str, Broken] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    """When each was seen broken first, by the clock of the history."""
    points: int = 0

    def look(self, after: int) -> None:
        moment = time.monotonic_ns()
        for broken in self.installation.broken(after):
            if self.broken.setdefault(broken.name, broken) is broken:
                self.seen[broken.name] = moment
        self.points += 1


def run_application(target: Target, application: Application, options: RunOptions, listener: Listener) -> Report:
    """Installs the application, runs it, checks its invariants at quiet points and at the end."""
    dialect = target.adapter.dialect
    if dialect is None:
        raise UsageError(
            f"{target.adapter.name} speaks no SQL that Isolde can write, so it cannot run {application.name}"
        )
    application = _mixed(application, options.of_application.mix)
    scale = scale_of(application, options.of_application.sizes)
    offers = _offers(target, application, options.of_application.levels)
    directory = options.output or new_directory(target.adapter.name, application.name)
    refuse_uncertain(target, options)
    refuse_arguments(application, scale, options.seed)
    refuse_place(directory)
    prefix = f"isolde_{secrets.token_hex(4)}_"
    installation = Installation(target.database, dialect, application, scale, prefix, options.bounds.timeout_s)
    failed: Counter[str] = Counter()
    job = application_job(
        installation,
        offers=offers,
        sessions=options.bounds.sessions,
        directory=directory,
        meta=_meta(target, application, scale, offers, options),
        seed=options.seed,
        failed=failed,
    )
    looked = _Looked(installation)
    outcome, history, told = _run(target, looked, job, offers, options, listener)
    facts = ApplicationFacts(
        database=target.database.version(),
        application=application.name,
        scale=tuple(scale.items()),
        mix=tuple(application.mix.items()),
        levels=tuple((name, offer.called) for name, offer in offers.items()),
        sessions=options.bounds.sessions,
        seed=options.seed,
        ran=ran(outcome),
        quiet_points=looked.points,
        invariants=tuple(InvariantFacts(one.name, one.meaning) for one in application.invariants),
        gave_up=tuple(failed.items()),
        history=str(history),
        kept=prefix if options.keep else None,
        certificate=certificate_facts(told),
        at_once=options.bounds.at_once,
    )
    report = with_last_writers(_report(facts, looked.broken), application, history, looked.seen)
    report = _with_pace(report, history)
    if told is not None:
        with judging(target, installation, options) as judge:
            asked = options.levels or promised_by_all(offers.values())
            report = _with_levels(report, history, told, asked, options.budget, judge)
    # What was seen of the invariants is nowhere else, so it is told however the run ended; and before the clean-up, which may
    # have to wait for somebody's lock.
    listener.found(report)
    left = "" if options.keep or target.server is not None else drop_tables(installation)
    if outcome.interrupted:
        raise RunInterrupted(history, left)
    if outcome.failure is not None:
        # A mistake of the application is the user's; a full disk is no more his than a server that is gone.
        kind = UsageError if isinstance(outcome.failure, UsageError) else OutsideError
        raise kind(f"the run ended early: {outcome.failure}{left}")
    if left:
        listener.left(left.removeprefix("; "))
    return report


def _meta(
    target: Target,
    application: Application,
    scale: Scale,
    offers: dict[str, Offer],
    options: RunOptions,
) -> dict[str, Any]:
    return {
        "database": target.database.version(),
        "url": target.url,
        "workload": application.name,
        "scale": dict(scale),
        "mix": application.mix,
        "levels": {name: offer.called for name, offer in offers.items()},
        "sessions": options.bounds.sessions,
        "seed": options.seed,
    }


def _with_pace(report: Report, history: Path) -> Report:
    """The report with how the run went over time, if its history can be read."""
    try:
        pace = pace_of(read(str(history)))
    except IsoldeError:
        return report
    return report if pace is None else replace(report, facts=(*report.facts, pace))


def _with_levels(
    report: Report, history: Path, told: Certified, levels: Iterable[Level], budget: int, judge: Judge | None
) -> Report:
    """The report with what the certificate says of the levels of the history."""
    names = tuple(level.value for level in levels)
    checked = check_file(
        str(history), CheckOptions(names, budget=budget, judge=judge), certificate=str(told.path)
    ).report
    exhibit = {one.id: one for one in (*report.exhibit, *checked.exhibit)}
    return replace(
        checked,
        findings=(*report.findings, *checked.findings),
        facts=(*checked.facts, *report.facts),
        exhibit=tuple(exhibit.values()),
    )


def _run(
    target: Target,
    looked: _Looked,
    job: Job,
    offers: Mapping[str, Offer],
    options: RunOptions,
    listener: Listener,
) -> tuple[Outcome, Path, Certified | None]:
    """Makes the tables and runs the job on them; what goes wrong before there is an outcome removes them again."""
    installation, bounds = looked.installation, options.bounds
    watcher = Watcher(
        listener.progress,
        _QUIET_EVERY,
        growing=False,
        at_rest=looked.look,
        quiet=lambda _: bounds.until_violation and bool(looked.broken),
        free=installation.free,
    )
    about = installed(installation, options.seed, listener)
    if target.adapter.counts is not None:
        about["counts"] = json.dumps(target.adapter.counts).encode()
    job = bounds.of(replace(job, about=about))
    try:
        aside(lambda: _refuse_rows(installation), free=installation.free)
        told = None
        with listening(target, scope_of(installation), offers.values(), options) as recovery:
            outcome = Run(replace(job, recovery=recovery), watcher).wait()
            listener.over()
            history = _finished(job.directory, outcome)
            if outcome.failure is None and not outcome.interrupted:
                _look_at_the_end(looked.look, outcome)
                told = None if recovery is None else certified(recovery, outcome, history)
    except BaseException:
        listener.over()
        if not options.keep and target.server is None and (left := drop_tables(installation)):
            listener.left(left.removeprefix("; "))
        raise
    return outcome, history, told


def _report(facts: ApplicationFacts, broken: dict[str, Broken]) -> Report:
    names = tuple(invariant.name for invariant in facts.invariants)
    subject = ApplicationSubject(facts.application, facts.database, invariants=names)
    return Report(subject, tuple(_finding(name, broken.get(name), facts) for name in names), facts=(facts,))


def _finding(name: str, broken: Broken | None, facts: ApplicationFacts) -> Finding:
    question = InvariantKept(name)
    if broken is not None:
        rows = tuple(tuple(None if value is None else str(value) for value in row) for row in broken.rows)
        shown = BrokenInvariant(name, broken.meaning, broken.columns, rows, broken.after)
        return Finding(question, Verdict.VIOLATED, _METHOD, evidence=(shown,))
    if facts.tested:
        return Finding(question, Verdict.SATISFIED, _METHOD)
    untested = NotProved("no transaction was committed before it was looked at, so that nothing was tested")
    return Finding(question, Verdict.UNDECIDED, _METHOD, evidence=(untested,))


def installed(installation: Installation, seed: int, listener: Listener) -> dict[str, bytes]:
    """Makes the tables; what fails there removes what it made, unless somebody loses patience with that too."""
    try:
        return aside(lambda: installation.create(seed), free=installation.free)
    except KeyboardInterrupt:
        left = drop_tables(installation)
        if left:
            listener.left(left.removeprefix("; "))
        raise


def _refuse_rows(installation: Installation) -> None:
    """What does not hold from the start is no database's fault."""
    for broken in installation.broken(0):
        row = ", ".join(f"{name} {value}" for name, value in zip(broken.columns, broken.rows[0], strict=True))
        raise UsageError(
            f"the rows that {installation.application.name} starts from break {broken.name} ({broken.meaning}): {row}"
        )


def _finished(directory: Path, outcome: Outcome) -> Path:
    """The history, or the directory if the disk does not take it."""
    try:
        return finish(directory)
    except (InputError, FullDisk) as error:
        outcome.failure = OutsideError(f"{outcome.failure}; {error}") if outcome.failure else error
        return directory


def _look_at_the_end(look: Callable[[int], None], outcome: Outcome) -> None:
    try:
        aside(lambda: look(outcome.tally.planned))
    except IsoldeError as error:
        outcome.failure = error
    except KeyboardInterrupt:
        outcome.interrupted = True


def drop_tables(installation: Installation) -> str:
    """Removes the tables; what is given says so if they are still there."""
    how = f"drop them with: {installation.removal()}"
    try:
        aside(installation.drop, ASIDE_S)
    except IsoldeError as error:
        return f"; the tables {installation.prefix}… could not be dropped: {error}; {how}"
    except KeyboardInterrupt:
        return f"; tables {installation.prefix}… may be left, since Ctrl-C came while they were dropped; {how}"
    return ""


def _mixed(application: Application, mix: Iterable[str]) -> Application:
    """The application with the weights that --mix gives."""
    known = ", ".join(f"{name}={weight:g}" for name, weight in application.mix.items())
    given = {}
    for name, weight, text in _by_name("--mix", mix):
        if name not in application.mix or not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", weight, re.ASCII):
            raise UsageError(f"--mix {text}: write TRANSACTION=WEIGHT; {application.name} has {known}")
        given[name] = float(weight)
    mixed = application.mixed(given)
    if not any(mixed.mix.values()):
        raise UsageError(f"--mix leaves no transaction of {application.name}: all weights are 0")
    return mixed


def _offers(target: Target, application: Application, levels: Iterable[str]) -> dict[str, Offer]:
    """The level of each kind of transaction: as --level says, or else as --isolation says, or else the strongest."""
    database = target.database
    general = offer_named(database, target.isolation) if target.isolation else database.offers()[-1]
    offers = {part.name: general for part in application.parts}
    for name, level, text in _by_name("--level", levels):
        if not level or name not in offers:
            raise UsageError(
                f"--level {text}: write TRANSACTION=LEVEL, where TRANSACTION is one of {', '.join(offers)}"
            )
        offers[name] = offer_named(database, level)
    return offers


def _by_name(option: str, texts: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """What NAME=SOMETHING says, with the text itself; each name may come once."""
    given = set()
    for text in texts:
        name, _, rest = text.partition("=")
        if name in given:
            raise UsageError(f"{option} {text}: {name} is given twice")
        given.add(name)
        yield name, rest, text
