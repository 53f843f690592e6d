"""A run that is certified: the database is asked for its own order, which is written down beside the history."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from isolde.campaigns.check import CheckOptions, check_file
from isolde.campaigns.options import RunOptions
from isolde.campaigns.target import Target
from isolde.databases import Offer
from isolde.databases.matching import DatabaseMatching
from isolde.databases.recoveries import begin_recovery, refuse_silent
from isolde.databases.recovery import Account, Followed, Recovery, Scope
from isolde.databases.waiting import aside
from isolde.engines.record import Fault, Outcome, Round
from isolde.engines.record.application import Installation
from isolde.engines.record.journal import write_private
from isolde.errors import UsageError, not_written
from isolde.findings import CertificateFacts, Verdict
from isolde.formats import merged
from isolde.formats.certificates import certificate_path, write_certificate
from isolde.history.certificate import Certificate
from isolde.levels import Level, implies

_BEGIN_S = 60.0
# Whose order outlives the death of its server: it is told by what is on disk before a commit is.
_OUTLIVES = ("postgresql", "mariadb", "etcd")
_ROUND = "round.jsonl"


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
    if options.faults and options.bounds.until_violation:
        raise UsageError(
            "--certify asks for the order whenever nobody is at work, and faults go on then: "
            "choose --nemesis or --until-violation"
        )
    forgets = {Fault.KILL, Fault.RESTART} & {*options.faults}
    if forgets and target.adapter.name not in _OUTLIVES:
        raise UsageError(
            f"the order of {target.adapter.name} is told by a counter in it, which may be lost with a server that is killed or "
            "restarted: --certify goes with --nemesis pause,cut there"
        )


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


class CertifiedRounds:
    """``--until-violation`` by certificates: whenever nobody is at work the order so far is asked for."""

    def __init__(
        self,
        recovery: Recovery,
        directory: Path,
        levels: Sequence[Level],
        budget: int,
        accounts: Callable[[], Sequence[Account]],
    ) -> None:
        self._recovery, self._directory, self._accounts = recovery, directory, accounts
        self._options = CheckOptions(tuple(level.value for level in levels), budget=budget)
        self._told: dict[int, Certificate] = {}

    def at_rest(self, planned: int) -> None:
        """Asks for the order of everything until now, on a session's thread."""
        self._told[planned] = self._recovery.recover(self._accounts())

    def violated(self, at: Round) -> bool:
        """Whether what was recorded until then violates a level."""
        path = self._directory / _ROUND
        written = Path(certificate_path(str(path)))
        try:
            write_private(path, merged(self._directory, at.sizes))
            write_certificate(self._told.pop(at.planned), str(written))
            report = check_file(str(path), self._options, certificate=str(written)).report
        except OSError as error:
            raise not_written(f"{path}: {error.strerror}; choose another place with --output", error) from None
        finally:
            path.unlink(missing_ok=True)
            written.unlink(missing_ok=True)
        return any(finding.verdict is Verdict.VIOLATED for finding in report.findings)


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
