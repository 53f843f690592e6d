"""``isolde run --workload APPLICATION``: transactions of a real application, and what must hold of its data."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from isolde.cli.main import Exit, paint, say
from isolde.cli.progress import ProgressLine
from isolde.cli.target import Target
from isolde.databases import Offer, offer_named
from isolde.databases.waiting import ASIDE_S, aside
from isolde.engines.record import Outcome, Run, Watcher, finish, refuse_place
from isolde.engines.record.application import Broken, Installation, application_job
from isolde.errors import InputError, IsoldeError, OutsideError, UsageError
from isolde.report.application import ApplicationFacts, application_document, render_application
from isolde.tx.render import render_schema
from isolde.visible import dumped
from isolde.workloads.application import Application, Scale
from isolde.workloads.applications.mistakes import refuse_arguments

_QUIET_EVERY = 500


def run_application(
    target: Target,
    application: Application,
    *,
    directory: Path,
    sizes: Sequence[str],
    mix: Sequence[str],
    levels: Sequence[str],
    sessions: int,
    transactions: int | None,
    seconds: float | None,
    until_violation: bool,
    timeout_s: float,
    seed: int,
    keep: bool,
    as_json: bool,
) -> int:
    """Installs the application, runs it, checks its invariants at quiet points and at the end."""
    dialect = target.adapter.dialect
    if dialect is None:
        raise UsageError(
            f"{target.adapter.name} speaks no SQL that Isolde can write, so it cannot run {application.name}"
        )
    application = _mixed(application, mix)
    database, scale = target.database, _scale(application, sizes)
    offers = _offers(target, application, levels)
    refuse_arguments(application, scale, seed)
    refuse_place(directory)
    prefix = f"isolde_{secrets.token_hex(4)}_"
    installation = Installation(database, dialect, application, scale, prefix, timeout_s)
    meta = {
        "database": database.version(),
        "url": target.url,
        "workload": application.name,
        "dialect": dialect.value,
        "schema": list(render_schema(application.schema, dialect)),
        "scale": dict(scale),
        "mix": application.mix,
        "levels": {name: offer.called for name, offer in offers.items()},
        "sessions": sessions,
        "seed": seed,
    }
    failed: Counter[str] = Counter()
    job = replace(
        application_job(
            installation, offers=offers, sessions=sessions, directory=directory, meta=meta, seed=seed, failed=failed
        ),
        transactions=transactions,
        seconds=seconds,
        timeout_s=timeout_s,
    )
    found: dict[str, Broken] = {}
    points = 0

    def look(after: int) -> None:
        nonlocal points
        for broken in installation.broken(after):
            found.setdefault(broken.name, broken)
        points += 1

    line = ProgressLine()
    watcher = Watcher(
        line.show,
        _QUIET_EVERY,
        growing=False,
        at_rest=look,
        quiet=lambda _: until_violation and bool(found),
        free=installation.free,
    )
    loaded = _installed(installation, seed)
    try:
        aside(lambda: _refuse_rows(installation), free=installation.free)
        outcome = Run(replace(job, loaded=loaded), watcher).wait()
        line.clear()
        history = _finished(directory, outcome)
        if outcome.failure is None and not outcome.interrupted:
            _look_at_the_end(look, outcome)
    except BaseException:
        line.clear()
        if not keep and target.server is None and (left := _drop(installation)):
            say(left.removeprefix("; "))
        raise
    facts = ApplicationFacts(
        database.version(),
        application,
        scale,
        offers,
        sessions,
        seed,
        outcome,
        points,
        tuple(found.values()),
        failed,
        history,
        prefix if keep else None,
    )
    # What was seen of the invariants is nowhere else, so it is told however the run ended.
    if as_json:
        click.echo(dumped(application_document(facts)))
    else:
        click.echo(render_application(facts, paint))
    # Told before the clean-up: that may have to wait for somebody's lock.
    left = "" if keep or target.server is not None else _drop(installation)
    if outcome.interrupted:
        say(f"interrupted; what was recorded is in {history}{left}")
        return Exit.INTERRUPTED
    if outcome.failure is not None:
        # A mistake of the application is the user's; a full disk is no more his than a server that is gone.
        kind = UsageError if isinstance(outcome.failure, UsageError) else OutsideError
        raise kind(f"the run ended early: {outcome.failure}{left}")
    if left:
        say(left.removeprefix("; "))
    if found:
        return Exit.VIOLATED
    return Exit.HOLDS if facts.tested else Exit.UNDECIDED


def _installed(installation: Installation, seed: int) -> bytes:
    """Makes the tables; what fails there removes what it made, unless somebody loses patience with that too."""
    try:
        return aside(lambda: installation.create(seed), free=installation.free)
    except KeyboardInterrupt:
        left = _drop(installation)
        if left:
            say(left.removeprefix("; "))
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
    except InputError as error:
        outcome.failure = OutsideError(f"{outcome.failure}; {error}") if outcome.failure else error
        return directory


def _look_at_the_end(look: Callable[[int], None], outcome: Outcome) -> None:
    try:
        aside(lambda: look(outcome.tally.planned))
    except IsoldeError as error:
        outcome.failure = error
    except KeyboardInterrupt:
        outcome.interrupted = True


def _drop(installation: Installation) -> str:
    """Removes the tables; what is given says so if they are still there."""
    how = f"drop them with: {installation.removal()}"
    try:
        aside(installation.drop, ASIDE_S)
    except IsoldeError as error:
        return f"; the tables {installation.prefix}… could not be dropped: {error}; {how}"
    except KeyboardInterrupt:
        return f"; tables {installation.prefix}… may be left, since Ctrl-C came while they were dropped; {how}"
    return ""


def _scale(application: Application, sizes: Iterable[str]) -> Scale:
    known = ", ".join([*(f"{key}={size}" for key, size in application.scale.items()), *application.sizes]) or "none"
    whole, given = application.scale, {}
    for name, number, text in _by_name("--scale", sizes):
        if text in application.sizes:
            whole = application.sizes[text]
            continue
        if name not in application.scale or not re.fullmatch(r"0*[1-9][0-9]{0,11}", number, re.ASCII):
            raise UsageError(f"--scale {text} is no size of {application.name}; it has {known}")
        given[name] = int(number)
    return {**whole, **given}


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
