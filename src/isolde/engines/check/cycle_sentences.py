"""One sentence for a whole cycle of transactions, by the name of its anomaly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

# A longer circle of transactions is told by their names alone.
_CIRCLE_TOLD = 6
WHOLE = {
    "g0": "These transactions overwrote each other in a circle: no order of their writes exists.",
    "fractured-read": "The readers saw parts of these transactions without the rest: no order of the writes explains them all.",
    "non-monotonic-read": "The readers saw these transactions and then older states: no order of the writes explains them all.",
    "session-guarantee-violation": "The readers missed what their own sessions had done: no order of the writes explains it.",
    "g1c": "Each of these transactions depends on the one before it, in a circle: none can have come first.",
    "g-single": "{first} worked on a state that was already replaced by something it depends on.",
    "g-nonadjacent": "These transactions worked on states that were already replaced, and lead to each other in a circle.",
    "g2": "No order of these transactions explains what was seen, predicates included: {circle}.",
    "phantom": "Each of these transactions changed what a predicate of the one before it had matched, in a circle.",
    "g2-item": "No order of these transactions explains what was seen: {circle}.",
    "causality-violation": "{reader} saw the effect of {seen} but missed what that depends on.",
    "long-fork": "The readers saw the writes in opposite orders: no single order of commits explains both.",
    "prefix-violation": "A commit was seen, but not one that came before it: no order of commits explains every reader.",
    "contradictory-versions": "The versions lines contradict each other: they put each of these writes of a key before the next.",
    "real-time-violation": "By what was read {last} must come after {next}, but it was already over when {next} began.",
    "g2-item-realtime": "By what was read {last} must come after {next}, but it was already over when {next} began.",
}


def circle_told(names: Sequence[str]) -> str:
    """Which transaction comes before which.

    >>> circle_told(["T1", "T2", "T3"])
    'T1 must come before T2, T2 before T3, and T3 before T1'
    """
    if len(names) > _CIRCLE_TOLD:
        return f"each of {', '.join(names)} must come before the next, and {names[-1]} before {names[0]}"
    pairs = [f"{a} {'must come ' if not place else ''}before {b}" for place, (a, b) in enumerate(pairwise(names))]
    return f"{', '.join(pairs)}, and {names[-1]} before {names[0]}"
