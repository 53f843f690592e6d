"""The checker on the corpus: it agrees with the folder wherever it decides, and calls the anomaly by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolde.engines.check import check
from isolde.findings import Finding, Verdict
from isolde.formats import read
from isolde.levels import Level, level_named
from test_corpus import CHAIN, FILES, anomaly


def findings(file: Path) -> dict[str, Finding]:
    """The answers at the levels of the chain that were decided, weakest first."""
    levels = [level_named(name) for name in CHAIN[1:]]
    report = check(read(str(file)), levels)
    return {f.level.value: f for f in report.findings if f.verdict is not Verdict.UNDECIDED}


def folder_says(file: Path, level: str) -> Verdict:
    holds = CHAIN.index(level) <= CHAIN.index(file.parent.name)
    return Verdict.SATISFIED if holds else Verdict.VIOLATED


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_verdict_is_the_folders(file: Path) -> None:
    verdicts = {level: finding.verdict for level, finding in findings(file).items()}
    assert verdicts == {level: folder_says(file, level) for level in verdicts}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_the_first_violation_has_the_name_in_the_file(file: Path) -> None:
    violated = [finding for finding in findings(file).values() if finding.verdict is Verdict.VIOLATED]
    if violated:
        assert violated[0].anomalies[0].name == anomaly(file)


def test_all_of_the_corpus_is_decided_at_serializable() -> None:
    undecided = [file for file in FILES if Level.SERIALIZABLE.value not in findings(file)]
    assert not undecided
