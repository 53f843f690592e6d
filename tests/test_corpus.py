"""Every file of the corpus satisfies the level of its folder and nothing above it, by definition."""

from __future__ import annotations

from pathlib import Path

import pytest

from definition import satisfies
from isolde.history import History, parse, render

CORPUS = Path(__file__).parent.parent / "corpus"
FILES = sorted(CORPUS.glob("*/*.txt"))

CHAIN = (
    "none",
    "read-uncommitted",
    "pl-2",
    "read-committed",
    "read-atomic",
    "causal",
    "prefix",
    "snapshot-isolation",
    "serializable",
    "strict-serializable",
)

# Paper 004, table I.
COMMON_ANOMALIES = frozenset(
    {
        "contradictory-versions",
        "prefix-violation",
        "thin-air-read",
        "aborted-read",
        "future-read",
        "not-my-last-write",
        "not-my-own-write",
        "intermediate-read",
        "non-repeatable-read",
        "session-guarantee-violation",
        "non-monotonic-read",
        "fractured-read",
        "causality-violation",
        "long-fork",
        "lost-update",
        "write-skew",
    }
)

# All names of cli.md, and those of lists.
ANOMALIES = COMMON_ANOMALIES | {
    "none",
    "phantom",
    "g0",
    "g1c",
    "g-single",
    "g-nonadjacent",
    "g2-item",
    "incompatible-order",
    "duplicate-element",
    "lost-element",
    "g2",
    "real-time-violation",
    "duplicate-write",
    "result-set-mismatch",
}


def anomaly(file: Path) -> str:
    """What the second line says."""
    return file.read_text(encoding="utf-8").splitlines()[1].removeprefix("# anomaly: ")


def is_timed(history: History) -> bool:
    return any(transaction.start is not None for transaction in history.transactions)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_file_satisfies_its_folder_and_all_below_and_none_above(file: Path) -> None:
    history = parse(file.read_text(encoding="utf-8"))
    place = CHAIN.index(file.parent.name)
    for level in CHAIN[1 : place + 1]:
        assert satisfies(history, level) is True, level
    for level in CHAIN[place + 1 :]:
        undecided = level == "strict-serializable" and not is_timed(history)
        assert satisfies(history, level) is (None if undecided else False), level


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_file_says_what_it_is_and_reads_back_as_written(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert lines[2].startswith("# reference: ")
    assert anomaly(file) in ANOMALIES
    history = parse("\n".join(lines))
    assert parse(render(history, separator="\n")) == history


def test_only_histories_that_are_serializable_have_no_anomaly() -> None:
    for file in FILES:
        if anomaly(file) == "none":
            assert file.parent.name in ("serializable", "strict-serializable"), file


def test_the_common_anomalies_are_all_there() -> None:
    assert {anomaly(file) for file in FILES} >= COMMON_ANOMALIES


def test_write_skew_of_transactions_that_overlap_is_strict_snapshot_isolation() -> None:
    history = parse((CORPUS / "snapshot-isolation" / "write-skew-timed.txt").read_text(encoding="utf-8"))
    assert satisfies(history, "strict-snapshot-isolation") is True
