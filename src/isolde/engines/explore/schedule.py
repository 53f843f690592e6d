"""A history as an interleaving that a person can retype into terminals, one a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from isolde._core.exploration import INITIAL
from isolde.engines.explore.evidence import Executed

if TYPE_CHECKING:
    from isolde.engines.explore.tables import Ran


@dataclass(frozen=True, slots=True)
class Step:
    """What a transaction does at this point: ``begin``, an access, a statement, ``commit`` or ``abort``."""

    transaction: int
    text: str
    ran: Ran | None = None


@dataclass(frozen=True, slots=True)
class Interleaving:
    """``current``: every read sees what was committed last at that point, so that a database with one version shows it."""

    steps: tuple[Step, ...]
    current: bool


def interleaving(history: Sequence[Executed], order: Sequence[int]) -> Interleaving:
    """The steps of all transactions one after the other; commits come in ``order``.

    A read comes after the commit of the transaction that it sees and, if that is possible, before the commit of the next one
    that writes the key.
    """
    steps = {entry.number: _steps(entry) for entry in history}
    nodes = [(number, place) for number, own in steps.items() for place in range(len(own))]
    after: dict[tuple[int, int], set[tuple[int, int]]] = {node: set() for node in nodes}
    ends = {number: (number, len(own) - 1) for number, own in steps.items()}
    for number, own in steps.items():
        for place in range(1, len(own)):
            after[number, place].add((number, place - 1))
    for entry in history:
        for other in history:
            if other.call.session == entry.call.session and other.call.position < entry.call.position:
                after[entry.number, 0].add(ends[other.number])
    for first, second in pairwise(order):
        after[ends[second]].add(ends[first])
    wishes = []
    at = {number: place for place, number in enumerate(order)}
    for entry in history:
        for place, key, source in _reads(entry):
            reader = (entry.number, place)
            if source != INITIAL:
                after[reader].add(ends[source])
            for other in history:
                later = source == INITIAL or at[other.number] > at[source]
                if other.number not in (entry.number, source) and later and key in other.trace.written:
                    wishes.append((reader, ends[other.number]))
    current = True
    for reader, end in wishes:
        after[end].add(reader)
        if not _acyclic(after):
            after[end].discard(reader)
            current = False
    return Interleaving(tuple(_laid_out(after, steps)), current)


def _steps(entry: Executed) -> list[Step]:
    number, trace = entry.number, entry.trace
    if trace.statements:
        inner = [Step(number, ran.sql, ran) for ran in trace.statements]
    else:
        inner = [Step(number, str(event)) for event in trace.events]
    return [Step(number, "begin"), *inner, Step(number, trace.end)]


def _reads(entry: Executed) -> Iterator[tuple[int, object, int]]:
    """The place of the step, the key and the source of every read of others' writes."""
    nth = 0
    for index, event in enumerate(entry.trace.events):
        if event.kind != "read":
            continue
        ran = entry.trace.statements
        inside = [number for number, one in enumerate(ran) if one.first <= index < one.last] if ran else [index]
        yield inside[0] + 1, event.key, entry.sources[nth]
        nth += 1


def _acyclic(after: dict[tuple[int, int], set[tuple[int, int]]]) -> bool:
    left = {node: set(needs) for node, needs in after.items()}
    while left:
        ready = [node for node, needs in left.items() if not needs & left.keys()]
        if not ready:
            return False
        for node in ready:
            del left[node]
    return True


def _laid_out(after: dict[tuple[int, int], set[tuple[int, int]]], steps: dict[int, list[Step]]) -> Iterator[Step]:
    """A transaction goes on as long as it can: people change terminals as seldom as possible."""
    done: set[tuple[int, int]] = set()
    current: int | None = None
    while len(done) < len(after):
        ready = [node for node in after if node not in done and after[node] <= done]
        number, place = next((node for node in ready if node[0] == current), ready[0])
        done.add((number, place))
        current = number
        yield steps[number][place]
