"""What a cycle is called.

The core hands over, for each edge of a cycle, every reason for it. One is chosen for each edge so that the cycle gets the
plainest name: as few anti-dependencies as possible, then reads before session order before overwrites. The names are those
of the catalogue; the rules stand in :func:`name_of`, each with the shape that it recognises.
"""

from __future__ import annotations

from collections.abc import Sequence

from isolde._core import Cycle, Edge, LostUpdate, Reason
from isolde.history import TxnId

_PREFERENCE = {"wr": 0, "so": 1, "ww": 2, "rw": 3, "rt": 4}


def txn_name(name: TxnId) -> str:
    """How a transaction is called in sentences: T7 for the integer 7."""
    return f"T{name}" if isinstance(name, int) else name


def chosen_reasons(found: Cycle | LostUpdate) -> list[Reason]:
    """One reason an edge."""
    edges = found.edges
    plain = not any(r.relation in ("wr", "so", "ww") for edge in edges for r in edge.reasons)
    if isinstance(found, LostUpdate) or (len(edges) == 2 and plain and _shared_key(edges) is not None):
        return [_of(edge, "rw", _shared_key(edges)) for edge in edges]
    if all(any(r.relation == "ww" for r in edge.reasons) for edge in edges):
        return [_of(edge, "ww") for edge in edges]
    chosen = [
        min(edge.reasons, key=lambda r: _PREFERENCE[r.relation]) if edge.reasons else _bare(edge) for edge in edges
    ]
    return [_of(edge, "rt") if edge.taken == "rt" else reason for edge, reason in zip(edges, chosen, strict=True)]


def _bare(edge: Edge) -> Reason:
    return Reason(edge.taken, None, None, None, None)


def _of(edge: Edge, relation: str, key: str | None = None) -> Reason:
    fitting = [r for r in edge.reasons if r.relation == relation and key in (None, r.key)]
    return fitting[0] if fitting else _bare(edge)


def _shared_key(edges: Sequence[Edge]) -> str | None:
    """A key on which every edge is an anti-dependency."""
    keys = [{r.key for r in edge.reasons if r.relation == "rw" and r.key is not None} for edge in edges]
    shared = set.intersection(*keys) if keys else set()
    return min(shared) if shared else None


def name_of(reasons: Sequence[Reason]) -> str:
    """The anomaly's name, by the kinds of the edges around the cycle."""
    kinds = [reason.relation for reason in reasons]
    anti = kinds.count("rw")
    others = {kind for kind in kinds if kind != "rw"}
    if "rt" in others:
        return "real-time-violation"
    if anti == 0:
        return "g0" if others == {"ww"} else "g1c"
    if anti == 1:
        return _name_of_single(reasons)
    adjacent = any(a == b == "rw" for a, b in zip(kinds, kinds[1:] + kinds[:1], strict=True))
    if len(kinds) == 2:
        return "lost-update" if reasons[0].key == reasons[1].key else "write-skew"
    if not adjacent:
        return "long-fork" if others <= {"wr", "so"} else "g-nonadjacent"
    return "g2-item"


# Adya's classes from narrow to wide: each cycle of one is a cycle of those after it, as far as single items go.
_WIDENING = ("g0", "g1c", "g-single", "g-nonadjacent", "g2-item")
_CLASS = {
    "g0": "g0",
    "g1c": "g1c",
    "long-fork": "g-nonadjacent",
    "g-nonadjacent": "g-nonadjacent",
    "write-skew": "g2-item",
    "g2-item": "g2-item",
}


def adya_class(kinds: Sequence[str]) -> str:
    """Adya's name for a cycle with edges of these kinds, session order and real time counted as reads are."""
    anti = kinds.count("rw")
    if anti == 0:
        return "g0" if set(kinds) == {"ww"} else "g1c"
    if anti == 1:
        return "g-single"
    adjacent = any(a == b == "rw" for a, b in zip(kinds, [*kinds[1:], *kinds[:1]], strict=True))
    return "g2-item" if adjacent else "g-nonadjacent"


def common_name(names: Sequence[str]) -> str:
    """One name for cycles of which one must be there: their own if they share it, else the class that holds them all."""
    if len(set(names)) == 1:
        return names[0]
    if "real-time-violation" in names:
        return "real-time-violation"
    return max((_CLASS.get(name, "g-single") for name in names), key=_WIDENING.index, default="g2-item")


def _name_of_single(reasons: Sequence[Reason]) -> str:
    """Cycles with exactly one anti-dependency."""
    others = {reason.relation for reason in reasons if reason.relation != "rw"}
    if len(reasons) > 2:
        return "causality-violation" if others <= {"wr", "so"} else "g-single"
    anti = next(r for r in reasons if r.relation == "rw")
    other = next(r for r in reasons if r.relation != "rw")
    match other.relation:
        case "so":
            return "session-guarantee-violation"
        case "ww":
            return "lost-update" if other.key == anti.key else "g-single"
        case _ if other.key == anti.key:
            return "non-repeatable-read"
        case _:
            # The reader saw the writer first and its past afterwards, or the other way round: read committed tells these apart.
            seen_first = other.to_op is not None and anti.from_op is not None and other.to_op.index < anti.from_op.index
            return "non-monotonic-read" if seen_first else "fractured-read"
