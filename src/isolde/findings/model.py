"""What a history shows about a level, as frozen data: anomalies and what proves them, orders, and how much was known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from isolde.history import Key, TxnId
from isolde.levels import Level

Kind = Literal["so", "rt", "wr", "ww", "rw", "predicate-wr", "predicate-rw"]


LinkBasis = Literal["seen", "told", "inferred", "outside"]


@dataclass(frozen=True, slots=True)
class Link:
    """One edge of a cycle and the sentence that says why it is there.

    ``through`` is the reader that shows an overwrite: it saw the source, and yet read what the target wrote. ``assumed`` says
    that the edge follows from what the case assumes, not from what was seen; of a lost update, that one of the two wrote first.
    ``basis`` says of an overwrite and of an anti-dependency how the order of the versions is known: from what was read, from
    what the database told, or only because nothing may come between a version and the one made from it. ``outside``: the whole
    edge was told besides the history, and ``sentence`` is the reason that came with it.
    """

    source: TxnId
    target: TxnId
    kind: Kind
    key: Key | None
    sentence: str
    through: TxnId | None = None
    assumed: bool = False
    basis: LinkBasis = "seen"


@dataclass(frozen=True, slots=True)
class Supposition:
    """What a case assumes, where ``None`` is the writer of the initial value.

    ``before``: ``first`` wrote ``key`` before ``second`` did. ``source``: ``first`` read ``key``, in its operation ``index``, as
    ``second`` left it. ``meant``: the value at ``index`` of the versions line whose place is ``first`` means the version of
    ``second``. ``appended``: the first element that ``first`` saw and several appended was appended by operation ``index`` of
    ``second``. ``outcome``: ``first`` took effect, or did not.
    """

    kind: Literal["before", "source", "meant", "appended", "outcome"]
    key: Key
    first: TxnId
    index: int
    second: TxnId | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Circle:
    """A forbidden cycle at the end of a case, by its name."""

    name: str
    cycle: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """What becomes of an assumption: a forbidden cycle, or further cases, or whatever else then is forbidden."""

    supposition: Supposition
    outcome: Circle | tuple[Case, ...] | Anomaly


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that the level forbids. ``positions`` are the transactions' places in the history.

    ``cases`` show a violation that has no plain cycle: whichever holds, there is one. ``also_needed`` are places of transactions
    that wrote what the others are about; a sub-history of ``positions`` and
    these shows the anomaly again. ``adya`` is the name that Adya has for the cycle, if there is one. ``rechecked`` is false where
    there is too much to look at a second time, which ``explanation`` then says.
    """

    name: str
    transactions: tuple[TxnId, ...]
    cycle: tuple[Link, ...]
    explanation: str
    positions: tuple[int, ...]
    also_needed: tuple[int, ...] = ()
    cases: tuple[Case, ...] = ()
    adya: str = ""
    rechecked: bool = True


@dataclass(frozen=True, slots=True)
class EvidenceUsed:
    """How many edges of each kind were known, and how many pairs of writes were left open.

    ``told_ww`` and ``told_rw`` are those that only the database told; ``ww`` and ``rw`` do not count them. ``outside`` are those
    that were told besides the history, by kind.
    """

    so: int
    wr: int
    ww: int
    rw: int
    open_pairs: int
    told_ww: int = 0
    told_rw: int = 0
    outside: tuple[tuple[Kind, int], ...] = ()


@dataclass(frozen=True, slots=True)
class CommitOrder:
    """An order that explains a history: the transactions as they took effect.

    ``snapshots`` says of each how many had taken effect when it read; empty, if each read right before it took effect.
    """

    transactions: tuple[TxnId, ...]
    snapshots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LevelReason:
    """A level, and in a few words why it holds, or what rules it out."""

    level: Level
    reason: str


@dataclass(frozen=True, slots=True)
class Frontier:
    """The strongest levels that hold, and the weakest that do not."""

    strongest_satisfied: tuple[LevelReason, ...]
    weakest_violated: tuple[LevelReason, ...]


@dataclass(frozen=True, slots=True)
class HistorySize:
    """How large the history was."""

    transactions: int
    committed: int
    aborted: int
    unknown: int
    sessions: int
    operations: int
