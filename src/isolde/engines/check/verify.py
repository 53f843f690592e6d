"""Every violation is looked at a second time before it is shown, from its evidence alone.

The core that found a violation has no part in this but to say which transactions touch a key: what holds is decided by
:func:`~isolde.engines.check.recheck.holds_up` from the operations. It is asked about the transactions that the violation is
about and all that touch the same keys; if these do not show it, about the whole history. What does not hold up is a mistake
of Isolde's own, and no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from isolde._core import Analysis, Columns
from isolde.engines.check.evidence import Evidence
from isolde.engines.check.mentioned import Mentioned
from isolde.engines.check.recheck import holds_up
from isolde.engines.check.unordered import TooMuch
from isolde.errors import MistakeError
from isolde.findings import Anomaly, Case, Circle, Link
from isolde.history import Key, Scan, Sql
from isolde.history.json_text import json_text
from isolde.levels import Level

_NEIGHBOURS_MAX = 20_000
"""If more transactions touch the keys of a violation, only those are taken that the violation reads from."""


def verified(
    analysis: Analysis, columns: Columns, level: Level, anomaly: Anomaly, evidence: Evidence, *, judge_aborted: bool
) -> Anomaly:
    """``anomaly``, which holds up; where there is too much to look at, it says so. Otherwise :class:`MistakeError` is raised."""
    if not anomaly.rechecked:
        return anomaly
    total = columns.counts().transactions
    try:
        for positions in _scopes(analysis, columns, anomaly, total):
            part = Mentioned(columns, positions).history
            told = evidence.among(positions)
            if holds_up(part, level, anomaly, judge_aborted=judge_aborted, evidence=told):
                return anomaly
    except TooMuch:
        text = f"{anomaly.explanation} (There was too much to try to check this a second time.)"
        return replace(anomaly, explanation=text, rechecked=False)
    raise MistakeError(
        f"{columns.name}: a violation of {level.value} was found ({anomaly.name}: {anomaly.explanation}) that does not hold up"
        " when it is looked at a second time, so it is not shown as one; please report this with the file"
    )


def _scopes(analysis: Analysis, columns: Columns, anomaly: Anomaly, total: int) -> Iterator[list[int]]:
    """The transactions to look at: those around the violation, then all."""
    own = {*anomaly.positions, *anomaly.also_needed}
    keys = set(_keys(anomaly)) or _keys_of(columns, anomaly)
    near = analysis.touching([json_text(key) for key in keys])
    if len(near) > _NEIGHBOURS_MAX:
        near = analysis.sources(sorted(own))
    around = sorted(own.union(near))
    if len(around) < total:
        yield around
    yield list(range(total))


def _keys(anomaly: Anomaly) -> Iterable[Key]:
    """The keys that the evidence names."""
    yield from _keys_of_links(anomaly.cycle)
    yield from _keys_of_cases(anomaly.cases)


def _keys_of_links(links: Iterable[Link]) -> Iterable[Key]:
    yield from (link.key for link in links if link.key is not None)


def _keys_of_cases(cases: Iterable[Case]) -> Iterable[Key]:
    for case in cases:
        yield case.supposition.key
        match case.outcome:
            case Circle(_, cycle):
                yield from _keys_of_links(cycle)
            case Anomaly() as below:
                yield from _keys(below)
            case below:
                yield from _keys_of_cases(below)


def _keys_of(columns: Columns, anomaly: Anomaly) -> set[Key]:
    """Where the evidence is a read, the keys of its transactions."""
    about = Mentioned(columns, anomaly.positions).history.transactions
    return {op.key for t in about for op in t.ops if not isinstance(op, Scan | Sql)}
