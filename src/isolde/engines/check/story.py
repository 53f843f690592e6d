"""A violation by cases, told: the leading case whole, the others in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from isolde.engines.check.naming import txn_name
from isolde.findings import Case, Circle, how_the_others_end, leading


def story(cases: Sequence[Case], timed: bool = False) -> str:
    """What becomes of the case that is told first, and how the others end. ``timed``: the clock says which one that is."""
    supposed, ending = leading(cases)
    condition = " and ".join(s.sentence for s in supposed)
    why = "as the clock suggests" if timed else "as is likely"
    start = f"If {condition}, {why}, " if supposed else "In the likeliest case "
    if isinstance(ending, Circle) or ending.cycle:
        around = [txn_name(link.source) for link in ending.cycle]
        text = f"{start}there is a {ending.name} through {' → '.join([*around, around[0]])}."
    else:
        text = f"{start}there is a {ending.name}: {ending.explanation}"
    return text + how_the_others_end(cases)
