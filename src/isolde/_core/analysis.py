"""Questions about one history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isolde._core import _native
from isolde._core.answers import Decision, Explanation, Satisfied, Violated, claim_of, decision
from isolde._core.columns import Columns, ToldOrders
from isolde._core.entry import THREADS, enter

BUDGET = 20_000_000
"""How many steps a search may take for one question, unless told otherwise: seconds to a minute."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """How much is known of the order: edges by kind, those that only the database told apart from the others, keys and pairs of
    writes that are open, counted transactions."""

    so: int
    wr: int
    ww: int
    rw: int
    told_ww: int
    told_rw: int
    open_keys: int
    open_pairs: int
    counted: int


@dataclass(frozen=True, slots=True)
class Outside:
    """Evidence from outside as the core takes it: columns of integers.

    Edges lead from ``sources`` to ``targets``, transactions by position, and ``relations`` are places in
    :func:`relation_names`. Each of ``orders`` names versions of a key by transaction and operation, oldest first, ``None``
    for the initial one. ``serial`` are transactions; ``None``: as the history itself tells. ``complete``: the edges hold all
    that operations without a key have to say.
    """

    sources: Sequence[int] = ()
    targets: Sequence[int] = ()
    relations: Sequence[int] = ()
    orders: Sequence[Sequence[tuple[int, int] | None]] = ()
    serial: Sequence[int] | None = None
    complete: bool = False


NOTHING = Outside()


def relation_names() -> list[str]:
    """The kinds of edges, each at the place that stands for it in a column."""
    return _native.relation_names()


def question_names() -> list[str]:
    """The questions that can be asked."""
    return _native.question_names()


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
        outside: Outside | None = None,
    ) -> None:
        native = columns._native
        self._name = columns.name
        told = NOTHING if outside is None else outside
        edges = list(told.sources), list(told.targets), list(told.relations)
        plain = told.orders._native if isinstance(told.orders, ToldOrders) else None
        orders = [list(order) for order in told.orders] if plain is None else []
        serial = None if told.serial is None else list(told.serial)
        self._native = enter(
            lambda: _native.Analysis(
                native, session_order, judge_aborted, threads, budget, edges, orders, serial, told.complete, plain
            ),
            self._name,
        )

    def claim(self, question: str) -> Satisfied | Violated:
        """Replays the serial order that was told, all the way."""
        return claim_of(enter(lambda: self._native.claim(question), self._name))

    def without_place(self) -> int | None:
        """A committed transaction that has no place in the serial order that was told."""
        return self._native.without_place()

    def touching(self, keys: Sequence[str]) -> list[int]:
        """The transactions with an operation on one of these keys, which are given as JSON text."""
        return self._native.touching(list(keys))

    def outside_counts(self) -> dict[str, int]:
        """How many edges of each relation were told from outside."""
        return {name: n for name, n in zip(_native.relation_names(), self._native.outside_counts(), strict=True) if n}

    def evidence(self) -> Evidence:
        """How much is known."""
        return Evidence(*self._native.counts())

    @property
    def timed(self) -> bool:
        """Whether every transaction that counts has its times."""
        return self._native.timed()

    def sources(self, transactions: Sequence[int]) -> list[int]:
        """The transactions that these read from."""
        return self._native.sources(list(transactions))

    def replays(self, question: str, found: Explanation) -> bool:
        """Whether running the transactions in this order keeps the order that the question asks for and gives every operation
        its answer; for a weak level, whether sessions are kept and everything that was read was there. Nothing that led to the
        explanation is used."""
        parts = list(found.commits), list(found.snapshots), list(found.effects)
        return enter(lambda: self._native.replays(question, *parts), self._name)

    def decide(self, question: str, *, every: bool = False) -> Decision:
        """Answers one question; with ``every``, all components are reported."""
        return decision(enter(lambda: self._native.decide(question, every), self._name))
