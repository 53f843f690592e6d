"""The axioms of Biswas & Enea (OOPSLA 2019), as in ``levels.md``: a premise for each level.

For all t1 →wr(x)→ r in t3, and t2 ≠ t1 that writes x: premise(t2, r) ⇒ t2 co t1.
"""

from __future__ import annotations

from collections.abc import Callable

from .executions import Axiom, Execution, ReadFrom
from .orders import Relation

Premise = Callable[[Execution, int, ReadFrom], bool]


def axiom(*premises: Premise, hidden: Relation = frozenset()) -> Axiom:
    """The conjunction of the axioms with these premises. Of ``hidden``, the second is not visible to the first."""

    def holds(e: Execution, t3: int) -> bool:
        missed = [t2 for reader, t2 in hidden if reader == t3 and t2 in e.co]
        if any(premise(e, t2, ReadFrom(t3, -1, "", -1)) for t2 in missed for premise in premises):
            return False
        return all(
            e.before(t2, r.source)
            for r in e.reads(t3)
            for t2 in e.writers(r.key)
            if t2 != r.source and any(premise(e, t2, r) for premise in premises)
        )

    return holds


def read_committed(e: Execution, t2: int, r: ReadFrom) -> bool:
    """An earlier read of the same transaction read from t2."""
    return any(earlier.source == t2 and earlier.position < r.position for earlier in e.reads(r.reader))


def read_atomic(e: Execution, t2: int, r: ReadFrom) -> bool:
    """t2 (so ∪ wr) t3."""
    return e.so_or_wr(t2, r.reader)


def causal(e: Execution, t2: int, r: ReadFrom) -> bool:
    """t2 (so ∪ wr)⁺ t3."""
    reached = {t2}
    while True:
        more = {b for a in reached for b in e.co if e.so_or_wr(a, b)} - reached
        if not more:
            return t2 != r.reader and r.reader in reached
        reached |= more


def prefix(e: Execution, t2: int, r: ReadFrom) -> bool:
    """t2 co* t4 (so ∪ wr) t3."""
    return any((t2 == t4 or e.before(t2, t4)) and e.so_or_wr(t4, r.reader) for t4 in e.co)


def conflict(e: Execution, t2: int, r: ReadFrom) -> bool:
    """t2 co* t4 co t3, where t3 and t4 write a common key."""
    nodes = e.world.nodes
    return any(
        (t2 == t4 or e.before(t2, t4)) and e.before(t4, r.reader) and nodes[t4].effects.keys() & nodes[r.reader].effects
        for t4 in e.co
    )


def serializable(e: Execution, t2: int, r: ReadFrom) -> bool:
    """t2 co t3."""
    return e.before(t2, r.reader)


PREMISES: dict[str, tuple[Premise, ...]] = {
    # Adya's PL-2 asks only for a version order in which ww ∪ wr ∪ so has no cycle; extended to a total order, that is
    # a commit order without an axiom, and any commit order restricted to the writers of each key is such an order.
    "pl-2": (),
    "read-committed": (read_committed,),
    "read-atomic": (read_atomic,),
    "causal": (causal,),
    "prefix": (prefix,),
    "snapshot-isolation": (prefix, conflict),
    "serializable": (serializable,),
    # For reads of single keys PL-2.99 and PL-3 are the same.
    "repeatable-read": (serializable,),
}

AXIOMS: dict[str, Axiom] = {level: axiom(*premises) for level, premises in PREMISES.items()}
