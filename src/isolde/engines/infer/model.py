"""States that a solver thinks break an invariant, as rows and arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from isolde.engines.infer.obligations import Case, Instances, Obligations
from isolde.engines.infer.problem import SERIAL, Problem
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.types import Sort, ValueType
from isolde.semantics.sets.aggregates import Ghost
from isolde.semantics.sets.state import Book, Key, View
from isolde.semantics.sets.values import RowsValue, RowValue, Symbol, Value
from isolde.smt import terms as smt
from isolde.smt.terms import Solver, Term

_DIGITS = 4
"""How many digits after the point a number gets of which no column says it."""


@dataclass(frozen=True, slots=True)
class BreakingState:
    """Rows by table, and the arguments of the call that breaks an invariant."""

    rows: Mapping[str, list[tuple[Any, ...]]]
    arguments: tuple[Any, ...]


def breaking_state(problem: Problem, obligations: Obligations, name: str, invariant: str) -> Iterator[BreakingState]:
    """States from which a transaction breaks an invariant alone, one for each way through it.

    No rows are there but those that are named: then aggregates are those of the rows, and the state is a real one.
    """
    transaction = problem.transactions[name]
    for case in obligations.cases(transaction, SERIAL):
        if not case.written:
            continue
        instances = case.instances.copy()
        # Every row that is there counts: facts go further than for a proof.
        instances.deepest = 3
        for term in obligations.broken(instances.book, case, obligations.conditions[invariant]):
            instances.book.fact(term)
        case.solver.push()
        try:
            case.solver.add(*instances.grown(3))
            case.solver.add(*_nothing_else(instances))
            if case.solver.check() == "sat":
                yield _state(problem, case, instances, case.solver, [one.kind for one in transaction.parameters])
        finally:
            case.solver.pop()


def _nothing_else(instances: Instances) -> Iterator[Term]:
    """Aggregates of states without writes are those of the rows that are named."""
    book = instances.book
    for view, ghost, group, _ in list(book.uses.values()):
        if view.writes and ghost.touched(view) and ghost.kind in {"count", "sum"}:
            continue
        yield from _exact(book, view, ghost, group)


def _exact(book: Book, view: View, ghost: Ghost, group: Key) -> Iterator[Term]:
    total: Term = smt.number(0)
    seen: list[Key] = []
    for key in book.keys(ghost.table):
        part = ghost.part(book, view, key)
        new = smt.every(smt.no(smt.all_equal(key, other)) for other in seen)
        seen.append(key)
        counts = smt.both(part.counts, smt.all_equal(part.group, group), new)
        if ghost.kind in {"count", "sum"}:
            total = total + smt.choose(counts, part.measure, smt.number(0))
    if ghost.kind in {"count", "sum"}:
        yield ghost.term(book, view, group) == total


def _state(problem: Problem, case: Case, instances: Instances, solver: Solver, kinds: list[ValueType]) -> BreakingState:
    base, texts = case.path.timeline.commit, _Texts()
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for info in problem.catalog.tables:
        found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for key in instances.book.keys(info):
            row = base.row(info, key)
            if solver.value(row.there):
                index = tuple(solver.value(part) for part in key)
                found[index] = tuple(
                    _shown(solver, value, info, place, texts) for place, value in enumerate(row.values)
                )
        rows[info.table.name] = list(found.values())
    arguments = tuple(
        _argument(solver, symbol, kind, texts) for symbol, kind in zip(case.path.arguments, kinds, strict=True)
    )
    return BreakingState(rows, arguments)


class _Texts:
    """Texts for the numbers that stand for them: the same one for the same number."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def text(self, number: int) -> str:
        return self._known.setdefault(number, f"t{len(self._known)}")


def _shown(solver: Solver, value: Value, info: TableInfo, place: int, texts: _Texts) -> Any:
    if solver.value(value.null):
        return None
    return _of_kind(solver.value(value.term), info.types[place], texts, info.table.columns[place].type.scale)


def _of_kind(found: Any, kind: ValueType, texts: _Texts, digits: int | None = None) -> Any:
    """A number of the solver as a value; one that has no end in decimals is another one, with which the state has to be tried."""
    if kind.sort is Sort.FLOAT and found is not None:
        return float(found)
    if isinstance(found, Fraction):
        return round(Decimal(found.numerator) / Decimal(found.denominator), _DIGITS if digits is None else digits)
    return texts.text(found) if kind.sort in {Sort.TEXT, Sort.UNKNOWN} and isinstance(found, int) else found


def _argument(solver: Solver, symbol: Symbol, kind: ValueType, texts: _Texts) -> Any:
    if isinstance(symbol, RowsValue):
        element = tuple(_of_kind(1, one, texts) for _, one in kind.columns)
        many = solver.value(symbol.count)
        return [element[0] if len(element) == 1 else element] * (many if isinstance(many, int) else 0)
    assert not isinstance(symbol, RowValue)
    return _of_kind(solver.value(symbol.term), kind, texts)
