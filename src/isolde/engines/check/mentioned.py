"""The transactions that a violation is about, and the words for what they did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from isolde._core import (
    BeforeInitial,
    Blocks,
    Columns,
    Cycle,
    LostUpdate,
    NoOrder,
    OpPlace,
    OrderConflict,
    Proof,
    Reversed,
    SearchConflict,
    ToldTwice,
    UnexplainedRead,
    Violation,
    WrongAnswer,
)
from isolde.engines.check.naming import txn_name
from isolde.errors import IsoldeError
from isolde.formats import decode
from isolde.history import (
    Append,
    History,
    Key,
    Operation,
    Scan,
    Sql,
    Transaction,
    Value,
    observed,
    render_value,
    written,
)


class Mentioned:
    """Transactions of a history, by their positions."""

    def __init__(self, columns: Columns, positions: Iterable[int]) -> None:
        self.needed = sorted(set(positions))
        self.history: History = decode(columns, self.needed)
        self.by_position = dict(zip(self.needed, self.history.transactions, strict=True))
        self.timed = all(transaction.end is not None for transaction in self.history.transactions)

    def transaction(self, position: int) -> Transaction:
        return self.by_position[position]

    def name(self, position: int) -> str:
        return txn_name(self.transaction(position).id)

    def op(self, place: OpPlace) -> Operation:
        return self.transaction(place.txn).ops[place.index]

    def reads(self, place: OpPlace) -> bool:
        return observed(self.op(place)) is not None

    def appends(self, place: OpPlace | None) -> bool:
        return place is not None and isinstance(self.op(place), Append)

    def appended_between(self, first: OpPlace | None, last: OpPlace) -> str:
        """The elements that a transaction itself appended to the key of its operation ``last`` after ``first``, as text."""
        key, ops = op_key(self.op(last)), self.transaction(last.txn).ops
        start = first.index if first is not None and first.txn == last.txn else last.index
        own = [op.element for op in ops[start : last.index] if isinstance(op, Append) and op.key == key]
        return ", ".join(map(plain, own))

    def moment(self, position: int) -> float:
        """When a transaction ended; its place in the file, unless that is known of all."""
        end = self.transaction(position).end
        return end if end is not None and self.timed else position

    def content(self, place: OpPlace | None) -> str:
        return "a value" if place is None else " = ".join(reading(self.op(place)))

    def written(self, place: OpPlace | None) -> str:
        return "a value" if place is None else " = ".join(written_text(self.op(place)))


def mentioned(violation: Violation) -> Iterable[int]:
    """The positions of all transactions that a violation is about."""
    match violation:
        case UnexplainedRead(_, read, other, seen):
            yield read.txn
            yield from () if other is None else (other,)
            yield from () if seen is None else (seen.txn,)
        case Cycle(edges) | LostUpdate(edges):
            for edge in edges:
                yield from (edge.source, edge.target)
                for reason in edge.reasons:
                    yield from (p.txn for p in (reason.from_op, reason.to_op, reason.seen_op) if p is not None)
        case NoOrder(proof, _, transactions):
            yield from transactions
            yield from () if proof is None else _mentioned_in(proof)
        case BeforeInitial(_, writer, _):
            yield writer
        case ToldTwice(_, writer, _):
            yield from () if writer is None else (writer,)
        case WrongAnswer(op, writer):
            yield op.txn
            yield from () if writer is None else (writer,)
        case Reversed(first, second, _, _):
            yield from (first, second)
        case OrderConflict(_, earlier, later, between):
            yield from (earlier, later, *between)
        case SearchConflict(_, order, stuck, maybe):
            yield from (*order, *stuck, *maybe)
        case Blocks(_, first_end, first_start, second_end, second_start, between):
            yield from (first_start, second_end, second_start, *between)
            yield from () if first_end is None else (first_end,)
        case _:
            assert_never(violation)


def _mentioned_in(proof: Proof) -> Iterable[int]:
    if isinstance(proof, Cycle):
        yield from mentioned(proof)
        return
    for case in proof:
        yield from () if case.assumption.kind == "meant" else (case.assumption.first.txn,)
        yield from () if case.assumption.second is None else (case.assumption.second.txn,)
        yield from _mentioned_in(case.proof)


def op_key(op: Operation) -> Key:
    """The key that an operation is about."""
    if isinstance(op, Scan | Sql):
        raise IsoldeError(f"the core named an operation without a key: {op!r}")
    return op.key


def reading(op: Operation) -> tuple[str, str]:
    """The key and what was seen of it, as text."""
    return _assignment(observed(op) or written(op) or _appended(op))


def written_text(op: Operation) -> tuple[str, str]:
    """The key and what was written to it, as text."""
    return _assignment(written(op) or _appended(op) or observed(op))


def _appended(op: Operation) -> tuple[Key, Value] | None:
    return (op.key, op.element) if isinstance(op, Append) else None


def _assignment(pair: tuple[Key, Value] | None) -> tuple[str, str]:
    return ("?", "?") if pair is None else (render_value(pair[0]), plain(pair[1]))


def plain(value: Value) -> str:
    """A value as text."""
    return "nothing" if value is None else render_value(value)
