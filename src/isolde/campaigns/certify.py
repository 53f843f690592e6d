"""A run that is certified: the database is asked for its own order, which is written down beside the history."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from isolde.campaigns.options import RunOptions
from isolde.campaigns.target import Target
from isolde.databases import Offer
from isolde.databases.matching import DatabaseMatching
from isolde.databases.recoveries import begin_recovery, refuse_silent
from isolde.databases.recovery import Followed, Recovery, Scope
from isolde.databases.waiting import aside
from isolde.engines.record import Outcome
from isolde.engines.record.application import Installation
from isolde.errors import UsageError
from isolde.findings import CertificateFacts
from isolde.formats.certificates import certificate_path, write_certificate
from isolde.levels import Level, implies

_BEGIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Certified:
    """The certificate's file, who says so, and how long asking took."""

    path: Path
    source: str
    seconds: float


def refuse_uncertain(target: Target, options: RunOptions) -> None:
    """Refuses what cannot be certified before anything is made."""
    if not options.certify:
        return
    refuse_silent(target.adapter)
    if options.faults:
        raise UsageError("--certify listens from the first transaction to the last; it does not go with --nemesis")
    if options.bounds.until_violation:
        raise UsageError("--certify asks for the order when the run is over; it does not go with --until-violation")


@contextmanager
def listening(target: Target, scope: Scope, offers: Iterable[Offer], options: RunOptions) -> Iterator[Recovery | None]:
    """Listens to the database's order, if that is asked for; whatever was made for it on the server is removed again."""
    if not options.certify:
        yield None
        return
    recovery = aside(lambda: begin_recovery(target.adapter, target.database, scope, tuple(offers)), _BEGIN_S)
    try:
        yield recovery
    finally:
        recovery.close()


def certified(recovery: Recovery, outcome: Outcome, history: Path) -> Certified:
    """Asks for the order and writes it beside the history, where ``check`` finds it by itself."""
    begun = time.monotonic()
    certificate = aside(lambda: recovery.recover(outcome.accounts))
    path = certificate_path(str(history))
    write_certificate(certificate, path)
    return Certified(Path(path), certificate.source, time.monotonic() - begun)


@contextmanager
def judging(target: Target, installation: Installation, options: RunOptions) -> Iterator[DatabaseMatching | None]:
    """The database as the one who says what conditions match, if that is asked for; its tables of versions go again."""
    if options.predicates_by != "database":
        yield None
        return
    schema, dialect = installation.application.schema, installation.translator.dialect
    judge = aside(lambda: DatabaseMatching(target.database, dialect, schema, installation.prefix), _BEGIN_S)
    try:
        yield judge
    finally:
        judge.close()


def scope_of(installation: Installation) -> Scope:
    """The private tables of an application, by their names in the database."""
    tables = installation.application.schema.tables.values()
    return Scope({installation.prefix + table.name: Followed(table.name, table.primary_key) for table in tables})


def certificate_facts(found: Certified | None) -> CertificateFacts | None:
    """What a report says of the certificate."""
    return None if found is None else CertificateFacts(str(found.path), found.source, found.seconds)


def promised(level: Level, *, tables: bool) -> Level:
    """What a level that a database claims promises of a history with a certificate.

    READ COMMITTED is Adya's, over the told order. Of tables a prefix is defined by nobody once statements read by predicates;
    what is left of MariaDB's REPEATABLE READ, whose changes read newer rows than its queries, is the same.
    """
    if level is Level.READ_COMMITTED or (tables and level is Level.PREFIX):
        return Level.PL_2
    return level


def promised_by_all(offers: Iterable[Offer]) -> tuple[Level, ...]:
    """What all of these levels promise of tables: the weakest of them, or several if none is weaker than all others."""
    levels = list(dict.fromkeys(promised(offer.claims, tables=True) for offer in offers))
    weakest = [level for level in levels if not any(implies(level, other) and level is not other for other in levels)]
    return tuple(weakest)
