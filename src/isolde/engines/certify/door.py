"""The door: a history and its certificate to evidence."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from isolde._core import Columns
from isolde.engines.certify.completing import Completions
from isolde.engines.certify.fit import fitted
from isolde.engines.certify.keyvalue import told_by_keys
from isolde.engines.certify.predicates import Judge
from isolde.engines.certify.serial import replayed
from isolde.engines.certify.tables import told_by_tables
from isolde.engines.certify.told import Fault, Told
from isolde.engines.certify.world import Undecidable, World
from isolde.formats import decode, is_sql
from isolde.formats.certificates import CertificateFile, PlacedCertificate
from isolde.formats.tables import sql_history
from isolde.history import History, Status
from isolde.levels import Level

Oracle = Literal["certificate", "serialization-order"]
STRICT = frozenset({Level.STRICT_SERIALIZABLE, Level.STRICT_SNAPSHOT_ISOLATION})


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay of SQL tables: ``fault`` says what does not fit, ``strict`` the same where real time is kept as well; ``None``:
    all does. ``undecided`` says why it could not be done."""

    fault: Fault | None = None
    strict: Fault | None = None
    undecided: str = ""


@dataclass(frozen=True, slots=True)
class Certified:
    """What a certificate gives. ``oracle`` says which part of it decides.

    ``serial`` is the serial order that was told, for the replay of a history over keys; ``replay`` is that of a history of SQL
    tables. Beside an order of versions it is a second opinion. ``completions``, where rows have partial orders: ``told`` then
    decides only what is not about reads, and each completion tells of the rest.
    """

    told: Told
    oracle: Oracle
    serial: Sequence[int] | None = None
    replay: Replay | None = None
    levels: Sequence[Level] = field(default_factory=tuple)
    completions: Completions | None = None


def certify(
    columns: Columns,
    placed: PlacedCertificate | CertificateFile,
    levels: Sequence[Level],
    *,
    session_order: bool = True,
    judge: Judge | None = None,
) -> Certified:
    """What the certificate says about the history, as far as these levels need it; a ``judge`` says what conditions match.

    :class:`~isolde.errors.MalformedCertificate` names the line that does not fit the history.
    """
    with _uncollected():
        return _certified(columns, placed, levels, session_order=session_order, judge=judge)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Hundreds of thousands of versions are made and all of them kept: looking for garbage among them finds none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _certified(
    columns: Columns,
    placed: PlacedCertificate | CertificateFile,
    levels: Sequence[Level],
    *,
    session_order: bool,
    judge: Judge | None,
) -> Certified:
    tables = is_sql(columns)
    if isinstance(placed, CertificateFile):
        # The common certificate of a history over keys: hundreds of thousands of versions that never become Python's.
        plain = None if tables else columns.plain_certificate(placed.content)
        if plain is not None and plain.orders is not None:
            told = Told(columns, (), plain.orders, complete=plain.complete)
            return Certified(told, "certificate", levels=levels)
        if plain is not None:
            return Certified(Told(columns), "serialization-order", plain.serial, levels=levels)
        placed = placed.read()
    if not tables:
        history = decode(columns)
        fit = fitted(history, placed, None)
        if fit.serial is not None and not fit.objects:
            return Certified(Told(columns), "serialization-order", fit.serial, levels=levels)
        return Certified(told_by_keys(history, columns, fit), "certificate", fit.serial, levels=levels)
    history = decode(columns)
    sql = sql_history(history, columns.name)
    try:
        world = World(history, sql, placed)
    except Undecidable as reason:
        return Certified(Told(columns, undecided=str(reason)), "certificate", levels=levels)
    serial = world.fitted.serial
    if serial is None and not world.fitted.objects and not world.fitted.reads:
        serial = _own_serial(history, world)
    replay = None if serial is None else _replayed(world, serial, levels, session_order=session_order)
    if replay is not None and not world.fitted.objects:
        return Certified(Told(columns), "serialization-order", serial, replay, levels)
    told = told_by_tables(world, levels, session_order=session_order, judge=judge)
    partial = any(not line.complete for line in world.lines.values())
    completions = Completions(world, session_order=session_order, judge=judge) if partial else None
    return Certified(told, "certificate", serial, replay, levels, completions)


def _own_serial(history: History, world: World) -> tuple[int, ...] | None:
    """The order that the history's own ``serial`` numbers give, if every committed transaction has one."""
    placed = [(t.serial, at) for at, t in enumerate(history.transactions) if t.serial is not None]
    counted = [at for _, at in sorted(placed) if history.transactions[at].status is not Status.ABORTED]
    return tuple(counted) if counted and world.effective <= set(counted) else None


def _replayed(world: World, serial: Sequence[int], levels: Sequence[Level], *, session_order: bool) -> Replay:
    try:
        fault = replayed(world, serial, session_order=session_order, real_time=False)
        strict = fault
        if fault is None and STRICT & set(levels):
            strict = replayed(world, serial, session_order=session_order, real_time=True)
    except Undecidable as reason:
        return Replay(undecided=str(reason))
    return Replay(fault, strict)
