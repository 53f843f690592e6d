"""Generated histories with predicates keep what they promise, and planted anomalies are found by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from certifying import certified, verdicts
from isolde.engines.generate.predicates import PLANTED, generate_predicates
from isolde.findings import Verdict
from isolde.formats import read
from running import isolde


@pytest.mark.parametrize(("level", "promised"), [("rc", "pl-2"), ("si", "snapshot-isolation"), ("ser", "serializable")])
def test_a_level_is_kept(level: str, promised: str) -> None:
    history, certificate = generate_predicates(level=level, transactions=150, sessions=4, keys=20, seed=3)
    assert verdicts(history, certificate, (promised,)) == {promised: True}
    assert any(t.status.value == "committed" for t in history.transactions)


@pytest.mark.parametrize("mix", ["all", "figure-9", "figure-10-90"])
def test_mixes_go_by_their_names(mix: str) -> None:
    history, certificate = generate_predicates(mix=[mix], transactions=60, keys=30, seed=1)
    assert verdicts(history, certificate, ("strict-serializable",)) == {"strict-serializable": True}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(name: str) -> None:
    history, certificate = generate_predicates(transactions=40, keys=20, inject=[name], seed=2)
    (finding,) = certified(history, certificate).findings
    assert finding.verdict is Verdict.VIOLATED
    assert [anomaly.name for anomaly in finding.anomalies] == [name]
    assert finding.anomalies[0].explanation


def test_two_files_are_written(tmp_path: Path) -> None:
    path = str(tmp_path / "h.parquet")
    status, _, _ = isolde("generate", "--workload", "predicates", "--transactions", "30", "--keys", "10", "-o", path)
    assert status == 0
    assert (tmp_path / "h.certificate.parquet").exists()
    assert read(path).counts().transactions == 30
    assert isolde("check", path)[0] == 0
    assert isolde("generate", "--workload", "predicates")[0] == 2
    assert isolde("generate", "--workload", "predicates", "--level", "cc", "-o", path)[0] == 2
