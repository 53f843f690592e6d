"""Which cycles a level forbids, by the kinds of their edges.

Real time counts as session order does, at the levels that know it. Below prefix an overwrite (``ww``) is one that was told, or
that a reader shows; an anti-dependency (``rw``) is a read of a version although a newer one was visible to the reader, and
what makes it visible is the level's.
"""

from __future__ import annotations

from collections.abc import Sequence

from isolde.levels import Level

STRICT = frozenset({Level.STRICT_SNAPSHOT_ISOLATION, Level.STRICT_SERIALIZABLE, Level.LINEARIZABLE})
ANTI = frozenset({"rw", "predicate-rw"})
# Below snapshot isolation these order commits, and show nobody anything.
_COMMITS = frozenset({"ww", "predicate-wr"})
# Where a phantom counts: repeatable read leaves predicates free, and weaker levels are about items.
_PREDICATES = frozenset(
    {
        Level.SNAPSHOT_ISOLATION,
        Level.SERIALIZABLE,
        Level.STRICT_SNAPSHOT_ISOLATION,
        Level.STRICT_SERIALIZABLE,
    }
)
_SNAPSHOT = frozenset({Level.SNAPSHOT_ISOLATION, Level.STRICT_SNAPSHOT_ISOLATION})


def forbids(level: Level, kinds: Sequence[str]) -> bool:
    """Whether a level forbids a cycle with edges of these kinds, in this order.

    >>> forbids(Level.SNAPSHOT_ISOLATION, ["rw", "rw"]), forbids(Level.SNAPSHOT_ISOLATION, ["rw", "ww"])
    (False, True)
    """
    if "rt" in kinds and level not in STRICT:
        return False
    if "predicate-rw" in kinds and level not in _PREDICATES:
        return False
    before_rw = [before for before, kind in zip([*kinds[-1:], *kinds], kinds, strict=False) if kind in ANTI]
    match level:
        case Level.READ_UNCOMMITTED:
            return set(kinds) == {"ww"}
        case Level.PL_2:
            return not before_rw
        case Level.READ_COMMITTED:
            return not before_rw or (len(kinds) == 2 and before_rw == ["wr"])
        case Level.READ_ATOMIC:
            return not before_rw or (len(kinds) == 2 and before_rw in (["wr"], ["so"]))
        case Level.CAUSAL:
            return not before_rw or (len(before_rw) == 1 and not _COMMITS & set(kinds))
        case Level.PREFIX:
            # An overwriter need not have read anything after what it overwrites.
            return not {"rw", *_COMMITS} & set(before_rw)
        case _ if level in _SNAPSHOT:
            return not ANTI & set(before_rw)
        case _:
            return True
