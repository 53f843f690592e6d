"""What the core answers, with evidence that names transactions by their positions, and how its tuples are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from isolde.errors import IsoldeError

Relation = Literal["so", "rt", "wr", "ww", "rw", "predicate-wr", "predicate-rw"]
Basis = Literal["seen", "told", "installed", "outside", "inferred"]


@dataclass(frozen=True, slots=True)
class OpPlace:
    """An operation: its transaction's position, and its place in there."""

    txn: int
    index: int


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one transaction comes before another: the relation, the key as JSON text, the operations.

    ``basis`` says of an overwrite how the order of the two versions is known: from what was read, from a versions line
    (``told``), from a told order of outside evidence (``installed``), or only because the level lets nothing come between a
    version and the one made from it. Of an edge that is outside evidence itself it is ``outside``, and ``outside`` is its
    place there.
    """

    relation: Relation
    key: str | None
    from_op: OpPlace | None
    to_op: OpPlace | None
    seen_op: OpPlace | None
    basis: Basis = "seen"
    outside: int | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of a cycle, how the search took it, every reason for it, and whether it follows only from what is assumed."""

    source: int
    target: int
    taken: Relation
    reasons: tuple[Reason, ...]
    assumed: bool


@dataclass(frozen=True, slots=True)
class UnexplainedRead:
    """A read that no order can explain; ``seen`` is the operation that it conflicts with."""

    anomaly: str
    read: OpPlace
    other: int | None
    seen: OpPlace | None


@dataclass(frozen=True, slots=True)
class Cycle:
    """A forbidden cycle."""

    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class LostUpdate:
    """Two transactions read one version and both overwrote it; the edges lead both ways."""

    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class OrderConflict:
    """On ``key``, ``later`` follows ``earlier`` by what was read, but was over before ``earlier`` began.

    ``between`` are those that wrote the versions from the one to the other.
    """

    key: str
    earlier: int
    later: int
    between: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Blocks:
    """On ``key``, two groups of operations must each come before the other.

    Of the one group ``first_end`` (``None``: the initial value) was over before ``second_start`` of the other began, and of
    that ``second_end`` before ``first_start`` of the one.
    """

    key: str
    first_end: int | None
    first_start: int
    second_end: int
    second_start: int
    between: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SearchConflict:
    """On ``key``, no order explains these transactions.

    ``order`` gets as far as any; ``stuck`` have no place there, and the first of them ended without one (if there is none,
    no order follows what the database told). ``maybe`` may or may not have taken effect.
    """

    key: str
    order: tuple[int, ...]
    stuck: tuple[int, ...]
    maybe: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BeforeInitial:
    """The database is said to have installed the version written at ``write`` before the initial one of ``key``."""

    key: str
    writer: int
    write: OpPlace


@dataclass(frozen=True, slots=True)
class ToldTwice:
    """The database is said to have installed one version of ``key`` twice in a row; no writer means the initial one."""

    key: str
    writer: int | None
    write: OpPlace | None


AssumptionKind = Literal["before", "source", "meant"]


@dataclass(frozen=True, slots=True)
class Assumption:
    """What a case assumes: ``first`` wrote ``key`` before ``second`` did; or the read ``first`` saw what ``second`` wrote; or the
    value at ``first``, here the place of a versions line and a place in it, means what ``second`` wrote. ``None`` is the
    initial value."""

    kind: AssumptionKind
    first: OpPlace
    second: OpPlace | None


@dataclass(frozen=True, slots=True)
class Case:
    """What becomes of an assumption: a forbidden cycle, or further cases."""

    assumption: Assumption
    proof: Proof


Proof = Cycle | tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class NoOrder:
    """Whatever the order of the writes that is open, there is a forbidden cycle.

    ``proof`` goes through the cases, unless there are too many of them; ``transactions`` then are those that the choices are
    about.
    """

    proof: Proof | None
    choices: int
    transactions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """Run in the order that was told, the operation ``op`` gets another answer than the recorded one; ``writer`` changed its key
    last before, ``None``: nobody did."""

    op: OpPlace
    writer: int | None


@dataclass(frozen=True, slots=True)
class Reversed:
    """``first`` comes before ``second``, but the order that was told has them the other way round."""

    first: int
    second: int
    relation: Relation
    outside: int | None


Violation = (
    UnexplainedRead
    | Cycle
    | LostUpdate
    | NoOrder
    | OrderConflict
    | Blocks
    | SearchConflict
    | BeforeInitial
    | ToldTwice
    | WrongAnswer
    | Reversed
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """An order that explains a history.

    ``commits`` are the transactions as they took effect. ``snapshots`` says of each how many had taken effect when it read; it
    is empty if each read right before it took effect. ``effects`` are those of unknown outcome that took effect because
    an open read needs them.
    """

    commits: tuple[int, ...]
    snapshots: tuple[int, ...]
    effects: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Satisfied:
    """It holds; ``explanation`` is an order that explains the history, where the rule gives one."""

    method: str
    explanation: Explanation | None


@dataclass(frozen=True, slots=True)
class Violated:
    """It does not hold."""

    method: str
    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class Undecided:
    """Not decided: a code, the operation it is about if there is one, and two numbers whose meaning the code gives."""

    method: str
    code: str
    place: OpPlace | None
    counts: tuple[int, int]


Decision = Satisfied | Violated | Undecided


def decision(answer: tuple[Any, ...]) -> Decision:
    """The answer that the core's tuple stands for."""
    match answer:
        case ("satisfied", method, parts):
            return Satisfied(method, None if parts is None else Explanation(*map(tuple, parts)))
        case ("violated", method, violations):
            return Violated(method, tuple(_violation(v) for v in violations))
        case ("undecided", method, code, place, counts):
            return Undecided(method, code, _place(place), counts)
        case _:
            raise IsoldeError(f"the core gave an answer of an unknown shape: {answer!r}")


def claim_of(answer: tuple[Any, ...]) -> Satisfied | Violated:
    """What the core's tuple says about the order that was told."""
    match answer:
        case ("replayed", parts):
            return Satisfied("serialization-order", Explanation(*map(tuple, parts)))
        case ("answer", (int(txn), int(index)), int() | None as writer):
            return Violated("serialization-order", (WrongAnswer(OpPlace(txn, index), writer),))
        case ("reversed", int(first), int(second), relation, int() | None as outside):
            return Violated("serialization-order", (Reversed(first, second, relation, outside),))
        case _:
            raise IsoldeError(f"the core gave an answer of an unknown shape: {answer!r}")


def _place(place: tuple[int, int] | None) -> OpPlace | None:
    return None if place is None else OpPlace(*place)


def _edges(edges: Iterable[tuple[int, int, Relation, list[tuple[object, ...]], bool]]) -> tuple[Edge, ...]:
    return tuple(
        Edge(source, target, taken, tuple(_reason(*reason) for reason in reasons), assumed)  # type: ignore[arg-type]
        for source, target, taken, reasons, assumed in edges
    )


def _proof(raw: tuple[object, ...] | None) -> Proof | None:
    match raw:
        case None:
            return None
        case ("cycle", list(edges)):
            return Cycle(_edges(edges))
        case ("cases", list(cases)):
            return tuple(_case(*case) for case in cases)
        case _:
            raise IsoldeError(f"the core gave a proof of an unknown shape: {raw!r}")


def _case(
    kind: AssumptionKind,
    first: tuple[int, int],
    second: tuple[int, int] | None,
    proof: tuple[object, ...],
) -> Case:
    below = _proof(proof)
    assert below is not None, "only the whole proof may be missing"
    return Case(Assumption(kind, OpPlace(*first), _place(second)), below)


def _reason(
    relation: Relation,
    key: str | None,
    from_op: tuple[int, int] | None,
    to_op: tuple[int, int] | None,
    seen_op: tuple[int, int] | None,
    basis: Basis,
    outside: int | None,
) -> Reason:
    return Reason(relation, key, _place(from_op), _place(to_op), _place(seen_op), basis, outside)


def _violation(raw: tuple[object, ...]) -> Violation:
    match raw:
        case ("read", str(name), (int(txn), int(index)), int() | None as other, seen):
            return UnexplainedRead(name, OpPlace(txn, index), other, _place(seen))  # type: ignore[arg-type]
        case ("cycle", list(edges)):
            return Cycle(_edges(edges))
        case ("lost-update", list(edges)):
            return LostUpdate(_edges(edges))
        case ("no-order", proof, int(choices), list(transactions)):
            return NoOrder(_proof(proof), choices, tuple(transactions))  # type: ignore[arg-type]
        case ("before-initial", str(key), int(writer), (int(txn), int(index))):
            return BeforeInitial(key, writer, OpPlace(txn, index))
        case ("told-twice", str(key), int() | None as writer, write):
            return ToldTwice(key, writer, _place(write))  # type: ignore[arg-type]
        case ("order", str(key), int(earlier), int(later), list(between)):
            return OrderConflict(key, earlier, later, tuple(between))
        case ("blocks", str(key), int() | None as early, int(late), int(other_early), int(other_late), list(between)):
            return Blocks(key, early, late, other_early, other_late, tuple(between))
        case ("search", str(key), list(order), list(stuck), list(maybe)):
            return SearchConflict(key, tuple(order), tuple(stuck), tuple(maybe))
        case _:
            raise IsoldeError(f"the core gave a violation of an unknown shape: {raw!r}")
