"""The only importer of the Rust extension: gives its tuples their types and its errors their place in our tree."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from isolde._core import _native
from isolde._core._native import History as _NativeHistory
from isolde._core._native import Input as _NativeInput
from isolde.errors import InputError, IsoldeError, MalformedHistory, UsageError

__all__ = [
    "BUDGET",
    "Analysis",
    "Assumption",
    "BeforeInitial",
    "Blocks",
    "Case",
    "Columns",
    "Compression",
    "Counts",
    "Cycle",
    "Decision",
    "Edge",
    "Evidence",
    "Explanation",
    "Input",
    "LostUpdate",
    "NoOrder",
    "OpPlace",
    "OrderConflict",
    "Proof",
    "Reason",
    "Satisfied",
    "SearchConflict",
    "ToldTwice",
    "Undecided",
    "UnexplainedRead",
    "Violated",
    "Violation",
    "foreign_formats",
    "generate",
    "generator_names",
]

THREADS = max(1, min(8, os.cpu_count() or 1))
BUDGET = 20_000_000
"""How many steps a search may take for one question, unless told otherwise: seconds to a minute."""
Compression = Literal["plain", "gzip", "zstd"]
Relation = Literal["so", "rt", "wr", "ww", "rw"]
_T = TypeVar("_T")


def _enter(work: Callable[[], _T], file: str) -> _T:
    """Calls into the core, and translates what it raises where it enters."""
    try:
        return work()
    except _native.Malformed as error:
        line, field, found, expected, before = error.args
        raise MalformedHistory(file, line, field, found, expected, before) from None
    except _native.Refused as error:
        raise InputError(f"{file}: {error}") from None
    except BrokenPipeError:
        raise
    except OSError as error:
        # The core's own text ends in "(os error 2)", which helps nobody.
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(f"{file}: {reason}") from error
    except RuntimeError as error:
        raise IsoldeError(f"{file}: {error}; please report this with the file") from error


@dataclass(frozen=True, slots=True)
class Counts:
    """How large a history is."""

    transactions: int
    committed: int
    aborted: int
    unknown: int
    sessions: int
    operations: int
    keys: int


class Columns:
    """A history in columns, immutable. Transactions are named by their position in the file."""

    __slots__ = ("_native", "name")

    def __init__(self, native: _NativeHistory, name: str) -> None:
        self._native = native
        self.name = name

    @classmethod
    def read(cls, path: str | None, format: str = "jsonl", *, threads: int = THREADS) -> Columns:
        """Reads a file (plain, gzip, zstd) of a format; ``None`` is standard input."""
        return Input.open(path).read(format, threads=threads)

    @classmethod
    def read_directory(cls, path: str, format: str) -> Columns:
        """Reads a history that is a directory."""
        return cls(_enter(lambda: _native.read_directory(format, path), path), path)

    @classmethod
    def from_jsonl(cls, text: bytes, name: str = "history") -> Columns:
        """Reads JSON Lines in memory."""
        return cls(_enter(lambda: _NativeHistory.from_jsonl(text), name), name)

    def to_jsonl(self, transactions: Sequence[int] | None = None) -> bytes:
        """JSON Lines of these transactions, or of the whole history."""
        rows = None if transactions is None else list(transactions)
        return _enter(lambda: self._native.to_jsonl(rows), self.name)

    def write_jsonl(self, path: str | None, compression: Compression = "plain") -> None:
        """Writes JSON Lines; ``None`` is standard output."""
        _enter(lambda: self._native.write_jsonl(path, compression), path or "standard output")

    def write_parquet(self, path: str) -> None:
        """Writes Parquet."""
        _enter(lambda: self._native.write_parquet(path), path)

    def write_foreign(self, format: str, path: str | None, compression: Compression = "plain") -> tuple[str, ...]:
        """Writes another tool's format; gives what was renamed or left out, and refuses what would change the meaning."""
        name = path or "standard output"
        return tuple(_enter(lambda: self._native.write_foreign(format, path, compression), name))

    def counts(self) -> Counts:
        """How large it is."""
        return Counts(*self._native.counts())

    def ids(self, transactions: Sequence[int]) -> list[int | str]:
        """The names of these transactions."""
        return [json.loads(name) for name in self._native.ids(list(transactions))]

    def lines(self, transactions: Sequence[int]) -> list[int]:
        """The lines of the file that these transactions came from; 0 where it has none."""
        return self._native.lines(list(transactions))


class Input:
    """A file or standard input, unpacked if need be and looked into. It can be read once."""

    __slots__ = ("_native", "head", "name")

    def __init__(self, native: _NativeInput, name: str) -> None:
        self._native = native
        self.name = name
        self.head = native.head()

    @classmethod
    def open(cls, path: str | None) -> Input:
        """Opens a file; ``None`` is standard input."""
        name = path or "standard input"
        return cls(_enter(lambda: _NativeInput.open(path), name), name)

    def content(self) -> bytes:
        """Everything, as it is."""
        return _enter(self._native.content, self.name)

    def read(self, format: str, *, threads: int = THREADS) -> Columns:
        """The history in this format: ``jsonl``, ``parquet`` or one of :func:`foreign_formats`."""
        return Columns(_enter(lambda: self._native.read(format, threads), self.name), self.name)


def foreign_formats() -> list[str]:
    """The formats of other tools that the core knows."""
    return _native.foreign_formats()


@dataclass(frozen=True, slots=True)
class OpPlace:
    """An operation: its transaction's position, and its place in there."""

    txn: int
    index: int


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one transaction comes before another: the relation, the key as JSON text, the operations."""

    relation: Relation
    key: str | None
    from_op: OpPlace | None
    to_op: OpPlace | None
    seen_op: OpPlace | None


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


Violation = (
    UnexplainedRead | Cycle | LostUpdate | NoOrder | OrderConflict | Blocks | SearchConflict | BeforeInitial | ToldTwice
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


@dataclass(frozen=True, slots=True)
class Evidence:
    """How much is known of the order: edges by kind, keys and pairs of writes that are open, counted transactions."""

    so: int
    wr: int
    ww: int
    rw: int
    open_keys: int
    open_pairs: int
    counted: int


class Analysis:
    """The evidence about one history, read once; any number of questions can be asked."""

    __slots__ = ("_name", "_native")

    def __init__(
        self,
        columns: Columns,
        *,
        session_order: bool = True,
        judge_aborted: bool = False,
        threads: int = THREADS,
        budget: int = BUDGET,
    ) -> None:
        native = columns._native
        self._name = columns.name
        self._native = _enter(
            lambda: _native.Analysis(native, session_order, judge_aborted, threads, budget), self._name
        )

    def evidence(self) -> Evidence:
        """How much is known."""
        return Evidence(*self._native.counts())

    def sources(self, transactions: Sequence[int]) -> list[int]:
        """The transactions that these read from."""
        return self._native.sources(list(transactions))

    def replays(self, question: str, found: Explanation) -> bool:
        """Whether running the transactions in this order keeps the order that the question asks for and gives every operation
        its answer; nothing that led to the explanation is used."""
        parts = list(found.commits), list(found.snapshots), list(found.effects)
        return _enter(lambda: self._native.replays(question, *parts), self._name)

    def decide(self, question: str, *, every: bool = False) -> Decision:
        """Answers one question; with ``every``, all components are reported."""
        answer = _enter(lambda: self._native.decide(question, every), self._name)
        match answer:
            case ("satisfied", method, parts):
                return Satisfied(method, None if parts is None else Explanation(*map(tuple, parts)))
            case ("violated", method, violations):
                return Violated(method, tuple(_violation(v) for v in violations))
            case ("undecided", method, code, place, counts):
                return Undecided(method, code, _place(place), counts)
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
) -> Reason:
    return Reason(relation, key, _place(from_op), _place(to_op), _place(seen_op))


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


def generate(
    *,
    sessions: int,
    transactions: int,
    keys: int,
    operations: int,
    distribution: str,
    workload: str,
    level: str,
    abort_rate: float,
    unknown_rate: float,
    inject: Sequence[str],
    seed: int,
    blind_writes: float | None = None,
    versions: float = 0.0,
) -> Columns:
    """A synthetic history; :class:`UsageError` says why parameters are impossible."""
    try:
        native = _native.generate(
            sessions=sessions,
            transactions=transactions,
            keys=keys,
            operations=operations,
            distribution=distribution,
            workload=workload,
            level=level,
            abort_rate=abort_rate,
            unknown_rate=unknown_rate,
            blind_writes=blind_writes,
            versions=versions,
            inject=list(inject),
            seed=seed,
        )
    except (ValueError, OverflowError) as error:
        raise UsageError(str(error)) from None
    return Columns(native, "generated history")


def generator_names() -> tuple[list[str], list[str], list[str], list[str]]:
    """The names that :func:`generate` takes: workloads, distributions, levels, anomalies."""
    return _native.generator_names()
