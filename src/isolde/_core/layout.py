"""Where the boxes of a drawn graph go."""

from __future__ import annotations

from collections.abc import Sequence

from isolde._core import _native

Point = tuple[float, float]


def layered(sizes: Sequence[Point], edges: Sequence[tuple[int, int]]) -> tuple[list[Point], float, float]:
    """The centre of each box, and the width and height of the whole; ``sizes`` have the room between boxes in them.

    Boxes stand in layers, such that most edges lead to a lower one.
    """
    return _native.layered(list(sizes), list(edges))
