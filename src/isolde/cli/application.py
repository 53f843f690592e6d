"""``isolde run --workload APPLICATION``: transactions of a real application, and what must hold of its data."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from isolde.cli.main import Exit, paint
from isolde.cli.progress import ProgressLine
from isolde.cli.target import Target
from isolde.databases import Offer, offer_named
from isolde.engines.record import Run, Watcher, finish
from isolde.engines.record.application import Broken, Installation, application_job
from isolde.errors import IsoldeError, OutsideError, UsageError
from isolde.report.application import ApplicationFacts, application_document, render_application
from isolde.tx.render import render_schema
from isolde.workloads.application import Application, Scale

_QUIET_EVERY = 500


def run_application(
    target: Target,
    application: Application,
    *,
    directory: Path,
    sizes: Sequence[str],
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
    database, scale = target.database, _scale(application, sizes)
    offers = _offers(target, application, levels)
    prefix = f"isolde_{secrets.token_hex(4)}_"
    installation = Installation(database, dialect, application, scale, prefix)
    meta = {
        "database": database.version(),
        "url": target.url,
        "workload": application.name,
        "dialect": dialect.value,
        "schema": list(render_schema(application.schema, dialect)),
        "scale": dict(scale),
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
        points += 1
        for broken in installation.broken(after):
            found.setdefault(broken.name, broken)

    line = ProgressLine()
    watcher = Watcher(
        line.show, _QUIET_EVERY, growing=False, at_rest=look, quiet=lambda _: until_violation and bool(found)
    )
    loaded = installation.create(seed)
    try:
        outcome = Run(replace(job, loaded=loaded), watcher).wait()
        line.clear()
        history = finish(directory)
        if outcome.interrupted:
            click.echo(f"isolde: interrupted; what was recorded is in {history}", err=True)
            return Exit.INTERRUPTED
        if outcome.failure is None:
            look(outcome.tally.planned)
    finally:
        line.clear()
        if not keep:
            _drop(installation)
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
    )
    if as_json:
        click.echo(json.dumps(application_document(facts), ensure_ascii=False))
    else:
        click.echo(render_application(facts, paint))
    if outcome.failure is not None:
        raise OutsideError(f"the run ended early: {outcome.failure}")
    return Exit.VIOLATED if found else Exit.HOLDS


def _drop(installation: Installation) -> None:
    try:
        installation.drop()
    except IsoldeError as error:
        click.echo(f"isolde: the tables {installation.prefix}… could not be dropped: {error}", err=True)


def _scale(application: Application, sizes: Iterable[str]) -> Scale:
    scale = dict(application.scale)
    for text in sizes:
        name, _, number = text.partition("=")
        if name not in scale or not number.isdigit() or int(number) < 1:
            known = ", ".join(f"{key}={size}" for key, size in scale.items())
            raise UsageError(f"--scale {text} is no size of {application.name}; it has {known}")
        scale[name] = int(number)
    return scale


def _offers(target: Target, application: Application, levels: Iterable[str]) -> dict[str, Offer]:
    """The level of each kind of transaction: as --level says, or else as --isolation says, or else the strongest."""
    database = target.database
    general = offer_named(database, target.isolation) if target.isolation else database.offers()[-1]
    offers = {part.name: general for part in application.parts}
    for text in levels:
        name, equals, level = text.partition("=")
        if not equals or name not in offers:
            raise UsageError(
                f"--level {text}: write TRANSACTION=LEVEL, where TRANSACTION is one of {', '.join(offers)}"
            )
        offers[name] = offer_named(database, level)
    return offers
