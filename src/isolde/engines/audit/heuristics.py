"""The heuristics of section 7.1 of the paper, which can be left out one by one to see what they bring."""

from __future__ import annotations

from dataclasses import dataclass

from isolde.errors import UsageError

WINDOW = 64
"""States that a transaction tries, or a statement, before it is reconsidered what came before it."""
_NAMES = ("h1", "h2", "h3", "h4")


@dataclass(frozen=True, slots=True)
class Heuristics:
    """H1 ``index``: rows are found by key. H2 ``window``: so many of the newest states are tried first; ``None``: all of them.

    H3 ``concretise``: values that can be no others are made plain, for the solver. H4 ``stronger``: a stronger level first.
    """

    index: bool = True
    window: int | None = WINDOW
    concretise: bool = True
    stronger: bool = True


ALL = Heuristics()


def heuristics_named(text: str) -> Heuristics:
    """What a list says: ``h1,h2=8,h4``, ``all`` or ``none``.

    >>> heuristics_named("h1,h2=8")
    Heuristics(index=True, window=8, concretise=False, stronger=False)
    """
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    if words == ["all"]:
        return ALL
    if words == ["none"]:
        return Heuristics(False, None, False, False)
    window = None
    found = set()
    for word in words:
        name, given, size = word.partition("=")
        if name not in _NAMES or (given and (name != "h2" or not size.isdecimal() or int(size) < 1)):
            raise UsageError(
                f"--heuristics {word!r}: there are h1, h2 (or h2=K, a window of K states), h3 and h4, all, none"
            )
        found.add(name)
        if name == "h2":
            window = int(size) if given else WINDOW
    return Heuristics("h1" in found, window, "h3" in found, "h4" in found)
