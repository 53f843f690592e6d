"""Queries without a version set: their rows are attributed by value, to the one version that has it."""

from __future__ import annotations

from collections.abc import Iterator

from isolde.engines.certify.answers import same_rows, shown_row
from isolde.engines.certify.duplicates import duplicate
from isolde.engines.certify.evaluate import Evaluation, Unknown
from isolde.engines.certify.fit import Place
from isolde.engines.certify.sentences import txn_name
from isolde.engines.certify.statements import Asked
from isolde.engines.certify.told import Fault
from isolde.engines.certify.world import INITIAL, Undecidable
from isolde.history import Sql
from isolde.semantics.tables.view import Row


def read_by_value(evaluation: Evaluation) -> list[Fault]:
    """Finds what queries without a ``read`` line read, and gives rows that no version is; :class:`Undecidable` if several are."""
    world = evaluation.world
    return [
        fault
        for place, asked in world.asked.items()
        if place[0] in world.effective and place not in world.reads and asked.form.what == "query"
        for fault in _read(evaluation, place, asked)
    ]


def _read(evaluation: Evaluation, place: Place, asked: Asked) -> Iterator[Fault]:
    world = evaluation.world
    op = world.history.transactions[place[0]].ops[place[1]]
    assert isinstance(op, Sql)
    recorded = op.content.get("rows")
    if not recorded or not asked.form.tables or not asked.form.reads_rows:
        return
    name = world.history.transactions[place[0]].id
    where = f"operation {place[1]} of {name}"
    if not asked.form.simple or asked.form.gathers:
        raise Undecidable(f"{where} has no version set, and its result does not show single rows")
    own = evaluation.own(place)
    done = evaluation.done[place]
    candidates = [
        (number, at, shown)
        for number in range(len(world.objects.table))
        if world.objects.table[number] in asked.form.tables
        for at in range(INITIAL, len(world.lines[number].versions) if number in world.lines else 0)
        if (shown := _shown(evaluation, asked, number, at)) is not None
    ]
    for row in recorded:
        fits = [(number, at) for number, at, shown in candidates if same_rows(shown, row)]
        if len(fits) > 1:
            versions = [world.version(number, at) for number, at in fits]
            writers = [None if one is None else world.history.transactions[one[0]].id for one in versions]
            raise Undecidable(duplicate(name, f"{shown_row(row)} in its operation {place[1]}", writers))
        if not fits:
            text = (
                f"{txn_name(name)} read {shown_row(row)} in its operation {place[1]}, which is no version of any row."
            )
            yield Fault("thin-air-read", (place[0],), text)
            continue
        number, at = fits[0]
        if number not in own:
            done.used.append((number, world.version(number, at)))


def _shown(evaluation: Evaluation, asked: Asked, number: int, at: int) -> Row | None:
    """What a query shows of one version; ``None`` if it does not match."""
    world = evaluation.world
    try:
        row = evaluation.content(number, world.version(number, at))
    except Unknown:
        return None
    if row is None:
        return None
    changes: list[dict[int, Row | None]] = [{} for _ in world.catalog.tables]
    changes[world.objects.table[number]][number] = row
    running = evaluation.running(asked, evaluation.no_rows, changes)
    running.evaluated()
    answer = running.answer
    return None if answer is None or not answer.rows else answer.rows[0][: asked.form.width]
