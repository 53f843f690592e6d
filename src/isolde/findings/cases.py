"""Cases of a violation that has no plain cycle: all their ends, and the one to tell first.

Cases are kept with the most plausible one first, at every branching, so that the story to tell is the first one all the way down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from isolde.findings.model import Anomaly, Case, Circle, Supposition
from isolde.history import txn_name

Ending = Circle | Anomaly
"""A forbidden cycle, or an anomaly without cases of its own."""


def endings(cases: Iterable[Case]) -> Iterator[Ending]:
    """What all cases come to in the end, the leading one first."""
    for case in cases:
        match case.outcome:
            case Circle():
                yield case.outcome
            case Anomaly(cases=()):
                yield case.outcome
            case Anomaly(cases=below):
                yield from endings(below)
            case below:
                yield from endings(below)


def circles_of(cases: Iterable[Case]) -> Iterator[Circle]:
    """The cycles at the ends of all cases."""
    for ending in endings(cases):
        if isinstance(ending, Circle):
            yield ending
        elif ending.adya:
            yield Circle(ending.name, ending.cycle)


def leading(cases: Sequence[Case]) -> tuple[list[Supposition], Ending]:
    """The story to tell: what is supposed in it, as far as its cycle uses that, and what it comes to."""
    supposed: list[Supposition] = []
    outcome: Circle | tuple[Case, ...] | Anomaly = tuple(cases)
    while not isinstance(outcome, Circle):
        below = outcome.cases if isinstance(outcome, Anomaly) else outcome
        if not below:
            break
        supposed.append(below[0].supposition)
        outcome = below[0].outcome
    assert not isinstance(outcome, tuple), "there is a case at every branching"
    used = {link.key for link in outcome.cycle if link.assumed}
    return [s for s in supposed if s.kind not in ("before", "source") or s.key in used], outcome


def how_the_others_end(cases: Sequence[Case]) -> str:
    """One sentence about all but the leading case."""
    _, *others = endings(cases)
    counted = ", ".join(f"{count} {name}" for name, count in Counter(ending.name for ending in others).items())
    match others:
        case []:
            return ""
        case [Circle() | Anomaly() as ending]:
            return f" Otherwise there is a {ending.name}{_through(ending)}."
        case _:
            return f" Each of the {len(others)} other cases ends in something forbidden, too: {counted}."


def _through(ending: Ending) -> str:
    around = [txn_name(link.source) for link in ending.cycle]
    return f" through {' → '.join([*around, around[0]])}" if around else ""
