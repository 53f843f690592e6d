"""Questions about one history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isolde._core import _native
from isolde._core.answers import Decision, Explanation, decision
from isolde._core.columns import Columns
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
        self._native = enter(
            lambda: _native.Analysis(native, session_order, judge_aborted, threads, budget), self._name
        )

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
