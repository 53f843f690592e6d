"""What counts as lost, by small histories and the state that was found after them."""

from __future__ import annotations

import pytest

from isolde.engines.record import lost_writes
from isolde.history import Append, History, Key, Read, Status, Transaction, Value, Write


def transaction(number: int, *ops: Read | Write | Append, status: Status = Status.COMMITTED) -> Transaction:
    """One a second, none overlapping."""
    return Transaction(number, number, ops, status, start=10 * number, end=10 * number + 5)


def lost(final: Value, *transactions: Transaction, initial: Value = 0) -> list[Value]:
    """The values of key 0 that are lost if this is what it holds in the end."""
    first: dict[Key, Value] = {} if initial is None else {0: initial}
    return [found.value for found in lost_writes(History(transactions, initial=first), {0: final})]


@pytest.mark.parametrize(("final", "expected"), [(2, []), (1, [2]), (0, [1]), (None, [1]), (99, [1])])
def test_a_key_that_went_back_has_lost_what_was_committed(final: Value, expected: list[Value]) -> None:
    one = transaction(1, Read(0, 0), Write(0, 1))
    two = transaction(2, Read(0, 1), Write(0, 2))
    assert lost(final, one, two) == expected


def test_a_blind_write_is_lost_if_it_began_after_what_is_left_had_ended() -> None:
    one, two = transaction(1, Write(0, 1)), transaction(2, Write(0, 2))
    assert lost(1, one, two) == [2]
    assert lost(2, one, two) == []


def test_of_two_blind_writes_at_the_same_time_either_may_be_left() -> None:
    one = Transaction(1, 1, (Write(0, 1),), start=0, end=10)
    two = Transaction(2, 2, (Write(0, 2),), start=5, end=15)
    assert lost(1, one, two) == lost(2, one, two) == []


@pytest.mark.parametrize("status", [Status.ABORTED, Status.UNKNOWN])
def test_nothing_is_lost_that_was_not_committed(status: Status) -> None:
    assert lost(1, transaction(1, Write(0, 1)), transaction(2, Read(0, 1), Write(0, 2), status=status)) == []


def test_what_an_unknown_one_wrote_may_be_left_at_any_time() -> None:
    """It may take effect long after its client had given up."""
    assert lost(1, transaction(1, Write(0, 1), status=Status.UNKNOWN), transaction(2, Write(0, 2))) == []
    assert lost(1, transaction(1, Write(0, 1), status=Status.ABORTED), transaction(2, Write(0, 2))) == [2]


def test_deletes_count_and_repeat() -> None:
    gone = transaction(1, Read(0, 0), Write(0, None))
    back = transaction(2, Read(0, None), Write(0, 2))
    again = transaction(3, Read(0, 2), Write(0, None))
    assert lost(None, gone, back, again) == []
    assert lost(2, gone, back, again) == [None]
    assert lost(None, gone, back) == [2]


def test_a_list_has_lost_what_it_does_not_hold() -> None:
    one, two = transaction(1, Append(0, 1)), transaction(2, Append(0, 2))
    assert lost((1, 2), one, two, initial=None) == []
    assert lost((1,), one, two, initial=None) == [2]
    assert lost((), one, two, initial=None) == [1]


def test_the_sentence_names_both_values() -> None:
    (found,) = lost_writes(History((transaction(1, Write("x", 1)),)), {"x": None})
    assert found.sentence == "T1 committed x = 1, but in the end x held nothing"
