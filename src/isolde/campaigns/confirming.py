"""Counterexamples of ``infer`` played on a real server: what breaks there, too, was *executed*; what does not is said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from isolde.campaigns.target import Wanted, opened
from isolde.databases.waiting import aside
from isolde.engines.explore.invariants import holds, loaded_store
from isolde.engines.play import Player
from isolde.errors import IsoldeError, UsageError
from isolde.findings import BrokenInvariant, Evidence, Finding, Refused, Remark, Report
from isolde.history.schedule import Schedule, ScheduleStep
from isolde.levels.stores import store_settings
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.workloads.application import Application

_SERVERS = {"postgresql": {"postgresql"}, "mariadb": {"mariadb"}, "mysql": {"mysql", "mariadb"}}


def refuse_other_database(database: str, kind: str | None) -> None:
    """A counterexample for one database says nothing about another."""
    if database not in _SERVERS:
        raise UsageError(f"{database} is no database that runs anywhere; --confirm and --start need one that does")
    if kind is not None and kind not in _SERVERS[database]:
        raise UsageError(f"--start {kind}: the levels are those of {database}, which is another database")


def confirmed(
    report: Report, application: Application, database: str, settings: Mapping[str, str], wanted: Wanted
) -> Report:
    """The report with its counterexamples executed, as far as the server lets them happen."""
    if not any(_schedules(report)):
        return report
    if wanted.kind is not None and settings:
        wanted = replace(wanted, settings=tuple(f"{name}={value}" for name, value in settings.items()))
    with ExitStack() as stack:
        target = opened(wanted, stack)
        player = aside(lambda: Player(target.adapter, target.database, whom=True))
        stack.callback(player.close)
        if player.store.split()[0] not in _SERVERS[database]:
            raise UsageError(f"--confirm: the server is {player.store}, and the levels are those of {database}")
        server = _Server(player, application, database, settings)
        findings = tuple(server.finding(one) for one in report.findings)
    return replace(report, findings=findings, facts=(*report.facts, *map(Remark, dict.fromkeys(server.remarks))))


def _schedules(report: Report) -> Iterator[BrokenInvariant]:
    for finding in report.findings:
        for one in finding.evidence:
            broken = one.broken if isinstance(one, Refused) else one
            if isinstance(broken, BrokenInvariant) and broken.schedule is not None:
                yield broken


class _Server:
    """``remarks``: what did not happen there, a sentence each."""

    def __init__(self, player: Player, application: Application, database: str, settings: Mapping[str, str]) -> None:
        self.player, self.application = player, application
        self.wanted = store_settings(database, dict(settings))
        self.remarks: list[str] = []
        self._known: dict[str, str] = {}

    def finding(self, finding: Finding) -> Finding:
        return replace(finding, evidence=tuple(self._evidence(one) for one in finding.evidence))

    def _evidence(self, one: Evidence) -> Evidence:
        if isinstance(one, Refused):
            return replace(one, broken=self._broken(one.broken))
        return self._broken(one) if isinstance(one, BrokenInvariant) else one

    def _broken(self, broken: BrokenInvariant) -> BrokenInvariant:
        if broken.schedule is None:
            return broken
        index = repr((broken.schedule, broken.check))
        if index not in self._known:
            self._known[index] = self._played(broken)
        different = self._known[index]
        if not different:
            return replace(broken, confirmed="executed")
        self.remarks.append(
            f"On {self.player.store}, {broken.check} was not broken so: {different}. ({broken.explanation})"
        )
        return broken

    def _played(self, broken: BrokenInvariant) -> str:
        """What happened instead; nothing if the invariant is broken there at the end."""
        schedule = playable(broken)
        try:
            recorded = aside(partial(self.player.record, schedule), free=self.player.stop)
        except IsoldeError as error:
            return f"it could not be played there: {error}"
        played = recorded.played
        invariant = next(one for one in self.application.invariants if one.name == broken.check)
        rows = {table: [tuple(row) for row in found] for table, found in played.rows.items()}
        concrete = Store(self.application.schema, Dialect.POSTGRESQL)
        if not holds(invariant.name, invariant.violations, rows, lambda: loaded_store(concrete, rows)):
            return ""
        for name, value in self.wanted.items():
            there = str(recorded.settings.get(name, value)).lower()
            if {"1": "on", "0": "off"}.get(there, there) != value:
                return f"{name} is {there} there, and the levels were taken with {value}"
        refused = next((step for step in played.steps if step.error is not None), None)
        if refused is not None:
            return f"'{refused.sql}' of {refused.session} failed ({refused.error})"
        return "the same statements left rows that satisfy it"


def playable(broken: BrokenInvariant) -> Schedule:
    """The interleaving that breaks an invariant, as it can be played on a database."""
    shown = broken.schedule
    assert shown is not None, "looked at before"
    rows: dict[str, Any] = {one.table: one.rows for one in shown.rows}
    return Schedule(
        schema=shown.schema,
        rows=rows,
        sessions={name: level or None for name, level in shown.levels},
        steps=tuple(ScheduleStep(step.session, step.does, step.name) for step in shown.steps),
        name=broken.check,
    )
