"""Bodies on a store model: what each does next after the answers that it has got, as a function of these alone.

A body runs once more for each list of answers that it has not met. That it depends on nothing else is verified: it runs twice
in a row, again in other orders when an exploration ends, and in other processes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from isolde.engines.explore.bodies import Accesses, Unanswered, ended, not_deterministic
from isolde.engines.explore.program import Call
from isolde.engines.explore.values import identity, likeness
from isolde.errors import Aborted, ExecutionError, UsageError
from isolde.semantics.stores import Failed, Returned
from isolde.tx.python.handle import Answer, Handle

RETRYABLE = frozenset({"serialization-failure", "deadlock", "lock-timeout", "transaction-failed"})
_ORDERS, _AGAIN_MAX = 2, 1_000
"""In how many orders bodies run again at the end, and how many runs of each."""

Answers = tuple[Returned | Failed, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a body does next, after the answers so far: a statement, or its end. ``failed``: checks that did not hold."""

    end: Literal["statement", "commit", "abort"]
    sql: str = ""
    parameters: tuple[tuple[str, Any], ...] = ()
    failed: tuple[str, ...] = ()
    reason: str = ""

    @property
    def text(self) -> str:
        return self.sql if self.end == "statement" else "commit" if self.end == "commit" else "rollback"

    def __str__(self) -> str:
        """The same in every process, if it does the same."""
        given = ", ".join(f"{name} = {likeness(value)}" for name, value in self.parameters)
        checks = [f"fail the check {text!r}" for text in self.failed]
        return ", ".join([*checks, f"{self.text} with {given}" if given else self.text])


@dataclass(frozen=True, slots=True)
class Run:
    """A call along answers, and what it did next."""

    call: Call
    answers: Answers
    asked: Asked

    def refuse(self, other: object) -> UsageError:
        """It did something ``other`` at another time."""
        given = [answer.rows if isinstance(answer, Returned) else answer.word for answer in self.answers]
        return UsageError(not_deterministic(self.call, given, str(self.asked), str(other)))


class StoreBodies:
    """What the bodies of a program do, as far as an exploration has asked."""

    def __init__(self) -> None:
        self._runs: dict[Hashable, Run] = {}

    def asked(self, call: Call, answers: Answers) -> Asked:
        """What the body does after these answers."""
        key = (call.number, tuple(map(mark, answers)))
        known = self._runs.get(key)
        if known is None:
            known = self._runs[key] = Run(call, answers, run(call, answers))
            self._compare(known)
        return known.asked

    def runs(self) -> list[Run]:
        return list(self._runs.values())

    def refuse_shared_state(self) -> None:
        """Runs bodies again in other orders: one that does something else by then depends on what others left behind."""
        for seed in range(_ORDERS):
            runs = self.runs()
            Random(seed).shuffle(runs)
            for one in runs[:_AGAIN_MAX]:
                self._compare(one)

    @staticmethod
    def _compare(known: Run) -> None:
        again = run(known.call, known.answers)
        if identity(again.parameters) != identity(known.asked.parameters) or again != known.asked:
            raise known.refuse(again)


def run(call: Call, answers: Answers) -> Asked:
    """Runs the body along answers, to the statement that has none."""
    accesses = Accesses(())
    handle = _Handle(answers, accesses)

    def body() -> None:
        try:
            call.function(handle, *call.arguments)
        except (ExecutionError, Aborted):
            if not handle.failed:
                raise
            handle.gave_up = True

    end, reason = ended(call, accesses, body)
    failed = tuple(entry.text for entry in accesses.failed)
    if handle.asks is not None:
        sql, parameters = handle.asks
        return Asked("statement", sql, parameters, failed)
    return Asked("abort" if handle.gave_up else end, failed=failed, reason=reason)


class _Handle(Handle):
    """What a body is handed: answers that it has got already, then the end of this run."""

    def __init__(self, answers: Answers, accesses: Accesses) -> None:
        self._answers, self._accesses = answers, accesses
        self._next = 0
        self.asks: tuple[str, tuple[tuple[str, Any], ...]] | None = None
        self.failed = False
        self.gave_up = False

    def run(self, sql: str, parameters: Mapping[str, Any]) -> Answer:
        if self.asks is not None:
            raise Unanswered
        if self._next == len(self._answers):
            self.asks = (sql, tuple(parameters.items()))
            self._accesses.asked = (sql,)
            raise Unanswered
        answer = self._answers[self._next]
        self._next += 1
        if isinstance(answer, Failed):
            self.failed = True
            if answer.word in RETRYABLE:
                raise Aborted(f"{answer.word}: {answer.message}")
            raise ExecutionError(answer.word, answer.message)
        return Answer(answer.names, _in_order(answer), answer.count)

    def check(self, condition: object, text: str = "check") -> None:
        """Notes that the condition must hold here, whatever the other transactions do."""
        if not condition:
            self._accesses.note_failed(str(text))


def mark(answer: Returned | Failed) -> Hashable:
    """What of an answer a body, or a client, can tell: Python alone says that ``1 == True``."""
    if isinstance(answer, Returned):
        return answer.names, identity(_in_order(answer)), answer.count
    return answer


def _in_order(answer: Returned) -> tuple[tuple[Any, ...], ...]:
    """Rows that come in an open order get one that depends on them alone: a body sees no more than the database promises."""
    return answer.rows if answer.ordered else tuple(sorted(answer.rows, key=repr))
