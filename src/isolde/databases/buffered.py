"""Transactions that the client keeps: reads are asked at once, changes wait for the commit, which is one request.

Stores that take only whole transactions (etcd, Redis) are driven so by their own client libraries. An adapter says
how a key is looked at and how the kept changes are committed; what a transaction sees of its own changes is here.

A level for single operations sends a compare-and-set at once, since its answer is wanted at once. That is the one
change that is not kept, so it has to be alone in its transaction, and a loss while it is under way says
``maybe_applied``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from isolde.databases.contract import Offer, Swap, answer
from isolde.errors import Aborted, ConnectionLost, OutsideError, StatementFailed
from isolde.levels import Level


@dataclass(frozen=True, slots=True)
class Change:
    """What a transaction will do to a key: replace its value (``None`` deletes the key), then add elements."""

    replaces: bool
    value: int | None = None
    elements: tuple[int, ...] = ()


_UNCHANGED = Change(replaces=False)


class BufferedConnection(ABC):
    """The operations on keys, over looks and one commit."""

    def __init__(self, *, lists: bool) -> None:
        self._lists = lists
        self._offer: Offer | None = None
        self._changes: dict[int, Change] = {}
        self._operations = 0
        self._swap: Swap | None = None
        self._failed: OutsideError | None = None

    @abstractmethod
    def _look(self, key: int) -> bytes:
        """The answer for a key, asked of the database as the level wants it."""

    @abstractmethod
    def _look_to_change(self, key: int) -> bytes:
        """The answer for a key; the commit aborts if it holds no more by then, at whatever level."""

    @abstractmethod
    def _expect_absent(self, key: int) -> None:
        """``Aborted``, now or at the commit, if the key is there."""

    @abstractmethod
    def _expect_append(self, key: int) -> None:
        """Whatever has to be known of a list before elements are added to it."""

    @abstractmethod
    def _swap_at_once(self, key: int, expected: int | None, new: int) -> Swap:
        """One atomic request."""

    @abstractmethod
    def _commit_changes(self) -> None:
        """Sends what is kept; ``Aborted`` if what was looked at does not hold any more."""

    @abstractmethod
    def _forget_looks(self) -> None:
        """Ends what the database or the connection remembers of looks."""

    def begin(self, offer: Offer) -> None:
        if self._offer is not None:
            raise StatementFailed(f"begin at {offer.name}", "a transaction is open; commit it or roll it back first")
        self._offer = offer

    def read(self, key: int) -> bytes:
        with self._operation("read"):
            change = self._changes.get(key, _UNCHANGED)
            if not self._lists:
                return answer(change.value) if change.replaces else self._look(key)
            if change.replaces:
                return _longer(b"[]", change.elements)
            # Where own elements will stand is foretold here, and has to be true at the commit at whatever level.
            look = self._look_to_change if change.elements else self._look
            return _longer(look(key), change.elements)

    def write(self, key: int, value: int) -> None:
        with self._operation("write"):
            self._changes[key] = Change(replaces=True, value=value)

    def insert(self, key: int, value: int) -> None:
        with self._operation("insert"):
            change = self._changes.get(key)
            if change is None:
                self._expect_absent(key)
            elif change.value is not None or change.elements:
                raise Aborted(f"the key {key} is there: the transaction wrote it")
            self._changes[key] = Change(replaces=True, value=value)

    def delete(self, key: int) -> bool:
        with self._operation("delete"):
            self._changes[key] = Change(replaces=True)
            return True

    def append(self, key: int, element: int) -> None:
        with self._operation("append"):
            self._expect_append(key)
            change = self._changes.get(key, _UNCHANGED)
            self._changes[key] = replace(change, elements=(*change.elements, element))

    def compare_and_set(self, key: int, expected: int | None, new: int) -> Swap:
        with self._operation("compare-and-set"):
            if self._offer is not None and self._offer.claims is Level.LINEARIZABLE:
                if self._operations > 1:
                    raise self._not_alone("compare-and-set")
                self._swap = self._swap_at_once(key, expected, new)
                return self._swap
            change = self._changes.get(key)
            current = self._look_to_change(key) if change is None else answer(change.value)
            if current != answer(expected):
                return Swap(applied=False, current=current)
            self._changes[key] = Change(replaces=True, value=new)
            return Swap(applied=True)

    def commit(self) -> None:
        if self._offer is None:
            raise StatementFailed("commit", "no transaction is open")
        if self._failed is not None:
            self.rollback()
            raise Aborted("an operation of the transaction failed before")
        try:
            self._commit_changes()
        finally:
            self._end()

    def rollback(self) -> None:
        swap, failed = self._swap, self._failed
        self._end()
        if isinstance(failed, ConnectionLost):
            raise failed
        if swap is not None and swap.applied:
            raise ConnectionLost("a compare-and-set that was sent at once cannot be taken back", maybe_applied=True)
        self._forget_looks()

    def _end(self) -> None:
        self._offer, self._swap, self._operations, self._failed = None, None, 0, None
        self._changes = {}

    @contextmanager
    def _operation(self, name: str) -> Iterator[None]:
        """What every operation begins with, and the memory of one that failed: its transaction is over."""
        if self._offer is None:
            raise StatementFailed(name, "no transaction is open")
        try:
            if self._swap is not None:
                raise self._not_alone(name)
            self._operations += 1
            yield
        except OutsideError as error:
            self._failed = error
            raise

    def _not_alone(self, operation: str) -> StatementFailed:
        level = self._offer.name if self._offer else ""
        return StatementFailed(
            operation, f"at the level '{level}' a compare-and-set takes effect at once and has to be alone"
        )


def _longer(found: bytes, elements: tuple[int, ...]) -> bytes:
    if not elements:
        return found
    own = b",".join(b"%d" % element for element in elements)
    return b"[" + own + b"]" if found == b"[]" else found[:-1] + b"," + own + b"]"
