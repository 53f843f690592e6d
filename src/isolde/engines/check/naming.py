"""What a cycle is called.

The core hands over, for each edge of a cycle, every reason for it. One is chosen for each edge so that the level forbids the
cycle and it gets the plainest name that the level rules out. The names are those of the catalogue; the rules stand in
:func:`names_of`, each with the shape that it recognises. A name says which level is broken, so it must be one that
really is: an order of versions that was only inferred proves nothing below snapshot isolation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from isolde._core import Cycle, Edge, LostUpdate, Reason
from isolde.engines.check.rules import ANTI, forbids
from isolde.history import TxnId
from isolde.levels import WIDEST, Level, anomaly, implies, rules_out

Violated = Callable[[Level], bool]
"""Whether a level is known to be violated by the history at hand."""

_PREFERENCE = {"wr": 0, "so": 1, "ww": 2, "predicate-wr": 3, "rw": 4, "predicate-rw": 5, "rt": 6}
_TRIED_MAX = 4_096
"""So many ways to give the two edges of a cycle a reason are tried."""

# From what is forbidden soonest to what only the strongest levels forbid.
_RANK = {
    name: rank
    for rank, name in enumerate(
        (
            "contradictory-versions",
            "g0",
            "g1c",
            "non-monotonic-read",
            "non-repeatable-read",
            "session-guarantee-violation",
            "fractured-read",
            "causality-violation",
            "long-fork",
            "prefix-violation",
            "lost-update",
            "g-single",
            "g-nonadjacent",
            "write-skew",
            "g2-item",
            "g2",
            "phantom",
            "real-time-violation",
            "g2-item-realtime",
        )
    )
}


def txn_name(name: TxnId) -> str:
    """How a transaction is called in sentences: T7 for the integer 7."""
    return f"T{name}" if isinstance(name, int) else name


def named(found: Cycle | LostUpdate, level: Level, violated: Violated) -> tuple[str, list[Reason]]:
    """The name of a cycle at a level that it violates, and the reason that was chosen for each edge."""
    best: tuple[tuple[bool, int, int, int], str, list[Reason]] | None = None
    for reasons in _choices(found):
        kinds = [reason.relation for reason in reasons]
        twice_read = kinds == ["rw", "rw"] and reasons[0].key == reasons[1].key is not None
        name = next((n for n in names_of(reasons) if _lawful(n, level, violated)), WIDEST[level])
        inferred = sum(reason.basis == "inferred" for reason in reasons)
        plain = sum(_PREFERENCE[kind] for kind in kinds)
        # What both read and overwrote is a lost update whichever came first, and is drawn so.
        allowed = not forbids(level, ["rw", "ww"] if twice_read else kinds)
        weight = (allowed, _RANK.get(name, len(_RANK)), inferred, plain)
        if best is None or weight < best[0]:
            best = (weight, name, reasons)
    assert best is not None, "every edge has a reason"
    return best[1], best[2]


def _lawful(name: str, level: Level, violated: Violated) -> bool:
    if not anomaly(name).ruled_out_from or name in _OF_PREDICATES:
        return True
    # What was read of lists binds those who read, but nobody at read uncommitted: a circle of overwrites may be none there.
    return rules_out(level, name) and (
        name != "g0" or level is Level.READ_UNCOMMITTED or violated(Level.READ_UNCOMMITTED)
    )


def _choices(found: Cycle | LostUpdate) -> Iterator[list[Reason]]:
    """Ways to choose one reason an edge: all of them for two edges, the plainest ones for more."""
    edges = [_reasons(edge) for edge in found.edges]
    if isinstance(found, LostUpdate):
        key = _shared_key(edges)
        yield [next(r for r in reasons if r.relation == "rw" and r.key == key) for reasons in edges]
        return
    if len(edges) == 2 and len(edges[0]) * len(edges[1]) <= _TRIED_MAX:
        yield from map(list, product(*edges))
        return
    known = [[r for r in reasons if r.basis != "inferred"] for reasons in edges]
    for part in (known, edges):
        overwrites = [[r for r in reasons if r.relation == "ww"] for reasons in part]
        for choice in (overwrites, part):
            if all(choice):
                yield [min(reasons, key=lambda r: _PREFERENCE[r.relation]) for reasons in choice]
    yield [_taken(edge, reasons) for edge, reasons in zip(found.edges, edges, strict=True)]


def _reasons(edge: Edge) -> Sequence[Reason]:
    reasons = [reason for reason in edge.reasons if (reason.relation == "rt") == (edge.taken == "rt")]
    return reasons or [Reason(edge.taken, None, None, None, None)]


def _taken(edge: Edge, reasons: Sequence[Reason]) -> Reason:
    return next((reason for reason in reasons if reason.relation == edge.taken), reasons[0])


def _shared_key(edges: Sequence[Sequence[Reason]]) -> str | None:
    """A key on which every edge is an anti-dependency."""
    keys = [{r.key for r in reasons if r.relation == "rw" and r.key is not None} for reasons in edges]
    return min(set.intersection(*keys), default=None)


def names_of(reasons: Sequence[Reason]) -> list[str]:
    """What a cycle may be called by the kinds of its edges, the most telling name first."""
    kinds = [reason.relation for reason in reasons]
    anti = sum(kind in ANTI for kind in kinds)
    others = {kind for kind in kinds if kind not in ANTI}
    adjacent = anti > 1 and any({a, b} <= ANTI for a, b in zip(kinds, kinds[1:] + kinds[:1], strict=True))
    if "rt" in others:
        return ["g2-item-realtime" if adjacent else "real-time-violation"]
    if anti > 1 and "predicate-rw" in kinds:
        return ["g2" if "rw" in kinds else "phantom"]
    if anti == 1 and {"predicate-rw", "predicate-wr"} & set(kinds):
        return ["g-single"]
    if len(kinds) == 2 and anti and others <= {"ww"} and reasons[0].key == reasons[1].key is not None:
        return ["lost-update"]
    if adjacent:
        return ["write-skew" if len(kinds) == 2 else "g2-item"]
    if any(reason.basis == "inferred" for reason in reasons):
        return ["g-single" if anti < 2 else "g-nonadjacent"]
    if anti == 0:
        return _without_anti_dependency(reasons)
    if others <= {"wr", "so"}:
        if anti > 1:
            return ["long-fork"]
        return ["causality-violation"] if len(kinds) > 2 else _missed(reasons)
    return ["g-single" if anti == 1 else "g-nonadjacent", "prefix-violation"]


def _without_anti_dependency(reasons: Sequence[Reason]) -> list[str]:
    if any(reason.relation != "ww" for reason in reasons):
        return ["g1c"]
    if len({reason.key for reason in reasons}) == 1 and all(reason.basis == "told" for reason in reasons):
        return ["contradictory-versions"]
    return ["g0", "g1c"]


def _missed(reasons: Sequence[Reason]) -> list[str]:
    """A reader saw a writer, or came after it in its session, and yet read what the writer had replaced."""
    anti = next(r for r in reasons if r.relation == "rw")
    other = next(r for r in reasons if r.relation != "rw")
    if other.relation == "so":
        return ["session-guarantee-violation"]
    seen_first = other.to_op is not None and anti.from_op is not None and other.to_op.index < anti.from_op.index
    same_key = ["non-repeatable-read"] if other.key == anti.key else []
    # The reader saw the writer first and its past afterwards, or the other way round: read committed tells these apart.
    return same_key + (["non-monotonic-read"] if seen_first else []) + ([] if same_key else ["fractured-read"])


# A cycle is called so by its edges alone, at whatever level it is forbidden.
_OF_PREDICATES = frozenset({"g2", "phantom"})

# Adya's classes from narrow to wide: each cycle of one is a cycle of those after it, as far as single items go.
_WIDENING = ("g-single", "g-nonadjacent", "g2-item", "g2")
_CLASS = {
    "long-fork": "g-nonadjacent",
    "g-nonadjacent": "g-nonadjacent",
    "write-skew": "g2-item",
    "g2-item": "g2-item",
    "g2-item-realtime": "g2-item",
    "g2": "g2",
    "phantom": "g2",
}


def adya_class(kinds: Sequence[str], *, inferred: bool = False) -> str:
    """Adya's name for a cycle with edges of these kinds, session order counted as reads are.

    An overwrite whose order is ``inferred``, or that only a reader shows, has another side: were it the other way round, there
    would be a g-single.
    """
    anti = sum(kind in ANTI for kind in kinds)
    if anti == 0 and not inferred:
        return "g0" if set(kinds) == {"ww"} else "g1c"
    if anti <= 1:
        return "g-single"
    if "predicate-rw" in kinds:
        return "g2"
    adjacent = any(a == b == "rw" for a, b in zip(kinds, [*kinds[1:], *kinds[:1]], strict=True))
    return "g2-item" if adjacent else "g-nonadjacent"


def common_name(names: Sequence[str], level: Level, violated: Violated) -> str:
    """One name for anomalies of which one must be there: their own if they share it and its level is violated, else that of the
    class that holds them all."""
    distinct = sorted(set(names), key=lambda name: _RANK.get(name, -1), reverse=True)
    class_ = max((_CLASS.get(name, "g-single") for name in distinct), key=_WIDENING.index, default="g2-item")
    match level:
        case Level.SERIALIZABLE | Level.REPEATABLE_READ | Level.SNAPSHOT_ISOLATION:
            # Of each choice the level leaves nothing; of those that other levels have besides, nothing is known.
            shared = distinct[0] if len(distinct) == 1 else class_
            return shared if shared == class_ or _broken(shared, level, violated) else class_
        case Level.STRICT_SERIALIZABLE | Level.STRICT_SNAPSHOT_ISOLATION if len(distinct) == 1 and _broken(
            distinct[0], level, violated
        ):
            return distinct[0]
        case Level.STRICT_SERIALIZABLE if class_ != "g2-item" and violated(Level.STRICT_SNAPSHOT_ISOLATION):
            return "real-time-violation"
        case Level.STRICT_SERIALIZABLE | Level.STRICT_SNAPSHOT_ISOLATION:
            return WIDEST[level]
        case Level.CAUSAL | Level.PREFIX if len(distinct) > 1:
            return WIDEST[level]
        case _:
            return next((name for name in distinct if _broken(name, level, violated)), WIDEST[level])


def _broken(name: str, level: Level, violated: Violated) -> bool:
    """Whether the level rules the anomaly out, and so do none that hold."""
    weakest = [w for w in anomaly(name).ruled_out_from if implies(level, w)]
    always = (Level.SNAPSHOT_ISOLATION, Level.REPEATABLE_READ) if level is Level.SERIALIZABLE else ()
    return bool(weakest) and all(w is level or w in always or violated(w) for w in weakest)
