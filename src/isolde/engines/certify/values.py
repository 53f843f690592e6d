"""Queries without a version set: their rows are attributed by value, to the one version that has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from isolde.engines.certify.answers import comparable, same_rows, shown_row
from isolde.engines.certify.duplicates import duplicate
from isolde.engines.certify.evaluate import Circular, Evaluation, Unknown
from isolde.engines.certify.fit import Place
from isolde.engines.certify.sentences import txn_name
from isolde.engines.certify.statements import Asked
from isolde.engines.certify.told import Fault
from isolde.engines.certify.world import Undecidable
from isolde.history import Sql
from isolde.semantics.tables.view import Row

Version = tuple[int, Place | None]
"""An object by number, and a version of it."""


class _Index:
    """The initial versions and those that were installed, by what a column holds."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._by_cell: dict[tuple[int, int], dict[object, list[Version]]] = {}

    def holding(self, table: int, place: int, cell: object) -> Sequence[Version]:
        """The versions of a table's rows with this in a column of whole numbers."""
        known = self._by_cell.get((table, place))
        if known is None:
            known = self._by_cell[table, place] = {}
            world = self._evaluation.world
            for number, of in enumerate(world.objects.table):
                line = world.lines.get(number)
                for version in (None, *(line.versions if line is not None else ())) if of == table else ():
                    row = _content(self._evaluation, number, version)
                    if row is not None:
                        known.setdefault(row[place], []).append((number, version))
        return known.get(cell, ())


def read_by_value(evaluation: Evaluation) -> list[Fault]:
    """Finds what queries without a ``read`` line read, and gives rows that no version is; :class:`Undecidable` if several are."""
    world, index = evaluation.world, _Index(evaluation)
    return [
        fault
        for place, asked in world.asked.items()
        if place[0] in world.effective and place not in world.reads and asked.form.what == "query"
        for fault in _read(evaluation, index, place, asked)
    ]


def _read(evaluation: Evaluation, index: _Index, place: Place, asked: Asked) -> Iterator[Fault]:
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
    for row in recorded:
        fits = [
            (number, version)
            for number, version in _candidates(evaluation, index, place, asked, row)
            if (shown := _shown(evaluation, asked, number, version)) is not None and same_rows(shown, row)
        ]
        if len(fits) > 1:
            writers = [None if one is None else world.history.transactions[one[0]].id for _, one in fits]
            raise Undecidable(duplicate(name, f"{shown_row(row)} in its operation {place[1]}", writers))
        if not fits:
            yield _never_there(evaluation, place, asked, row)
            continue
        number, version = fits[0]
        if number not in own:
            evaluation.done[place].used.append((number, version))


def _candidates(
    evaluation: Evaluation, index: _Index, place: Place, asked: Asked, row: Sequence[Any]
) -> Iterator[Version]:
    """The versions that a row of a result may be: its transaction's own, and of other objects those that others installed."""
    (table,), own = asked.form.tables, evaluation.own(place)
    of = evaluation.world.objects.table
    shows = asked.form.shows
    if shows is None or shows[0] >= len(row):
        for number in range(len(of)):
            if of[number] == table:
                yield from ((number, version) for version in _visible(evaluation, place, number, own))
        return
    yield from ((number, version) for number, version in own.items() if of[number] == table)
    for number, version in index.holding(table, shows[1], comparable(row[shows[0]])):
        if number not in own and (version is None or version[0] != place[0]):
            yield number, version


def _visible(evaluation: Evaluation, place: Place, number: int, own: Mapping[int, Place]) -> Sequence[Place | None]:
    """The versions of an object that a query may read: its transaction's own one, or else what others installed."""
    if number in own:
        return [own[number]]
    line = evaluation.world.lines.get(number)
    return [None, *(one for one in (line.versions if line is not None else ()) if one[0] != place[0])]


def _never_there(evaluation: Evaluation, place: Place, asked: Asked, row: Sequence[Any]) -> Fault:
    """Why a row was read that no version is which could be."""
    world, (txn, index) = evaluation.world, place
    reader = txn_name(world.history.transactions[txn].id)
    what = f"{reader} read {shown_row(row)} in its operation {index}"
    if any(same_rows(shown, row) for shown in _overwritten(evaluation, place, asked)):
        return Fault("not-my-own-write", (txn,), f"{what}, although it had written that row itself before.")
    for other in sorted(place for place, one in world.asked.items() if one.form.target in asked.form.tables):
        if other not in evaluation.done:
            try:
                evaluation.ensure(other)
            except (Circular, Undecidable):
                continue
        for number in evaluation.done[other].written:
            shown = _shown(evaluation, asked, number, other)
            if shown is None or not same_rows(shown, row):
                continue
            writer = txn_name(world.history.transactions[other[0]].id)
            if other[0] == txn:
                return Fault("future-read", (txn,), f"{what}, before it wrote that row itself.")
            if other[0] not in world.effective:
                return Fault(
                    "aborted-read", (other[0], txn), f"{what}, which {writer} wrote, and {writer} was aborted."
                )
            text = f"{what}, which {writer} wrote but overwrote before it committed."
            return Fault("intermediate-read", (other[0], txn), text)
    return Fault("thin-air-read", (txn,), f"{what}, which is no version of any row.")


def _overwritten(evaluation: Evaluation, place: Place, asked: Asked) -> Iterator[Row]:
    """What a query would show of rows that its transaction wrote, as they were before, by others or by itself."""
    world = evaluation.world
    for number in evaluation.own(place):
        mine = [other for other in evaluation.done if other[0] == place[0] and other[1] < place[1]]
        earlier = [other for other in mine if number in evaluation.done[other].written]
        for version in (*_visible(evaluation, place, number, {}), *earlier):
            shown = _shown(evaluation, asked, number, version)
            if shown is not None and world.objects.table[number] in asked.form.tables:
                yield shown


def _shown(evaluation: Evaluation, asked: Asked, number: int, version: Place | None) -> Row | None:
    """What a query shows of one version; ``None`` if it does not match."""
    world, row = evaluation.world, _content(evaluation, number, version)
    if row is None:
        return None
    changes: list[dict[int, Row | None]] = [{} for _ in world.catalog.tables]
    changes[world.objects.table[number]][number] = row
    running = evaluation.running(asked, evaluation.no_rows, changes)
    running.evaluated()
    answer = running.answer
    return None if answer is None or not answer.rows else answer.rows[0][: asked.form.width]


def _content(evaluation: Evaluation, number: int, version: Place | None) -> Row | None:
    """What a version holds; ``None`` if nothing, or nobody knows."""
    try:
        return evaluation.content(number, version)
    except Unknown:
        return None
