"""Faults planted in what a real PostgreSQL recorded and told: each is rejected by its name, or shown to be none by definition."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from certificates_replayed import Replay
from certifying import certified
from isolde.databases.servers import Running
from isolde.findings import Verdict
from planted_faults import WRONG_ANSWERS, WRONG_ORDERS, planted, serializable_by_definition
from running import ran


def _plant_all(url: str, folder: Path, count: int) -> None:
    options = ["--isolation", "serializable", "--transactions", "30", "--sessions", "4", "--keys", "10"]
    ran(folder / "run", url, "--certify", "--workload", "predicates", *options)
    replay = Replay(folder / "run" / "history.jsonl")
    assert replay.wrong == []
    for fault in (*WRONG_ANSWERS, *WRONG_ORDERS):
        found: Counter[str] = Counter()
        seed = 0
        while found.total() < count and seed < 60 * count:
            seed += 1
            made = planted(fault, random.Random(f"{fault} {seed}"), replay)
            if made is None:
                continue
            (finding,) = certified(*made).findings
            assert finding.verdict is not Verdict.UNDECIDED
            if finding.verdict is Verdict.VIOLATED:
                found[finding.anomalies[0].name] += 1
            else:
                assert serializable_by_definition(*made), f"{fault} {seed}"
                found["harmless"] += 1
        assert found.total() == count
        if fault in WRONG_ANSWERS:
            assert set(found) == {"result-set-mismatch"}, fault
        elif fault == "swapped versions":
            # What was read or written no longer fits, or who overwrote whom goes round in a circle.
            assert set(found) <= {"result-set-mismatch", "g0", "g1c", "lost-update", "g-single", "harmless"}, found
        else:
            # The answer fits what was seen; what was seen does not fit the rest.
            assert not {"result-set-mismatch", "thin-air-read", "aborted-read", "g0"} & set(found), found


@pytest.mark.server
def test_faults_planted_in_a_run_of_postgresql_have_their_names(
    server: Callable[[str], Running], tmp_path: Path
) -> None:
    _plant_all(server("postgresql").url, tmp_path, 8)


@pytest.mark.server
@pytest.mark.long
def test_a_hundred_of_each_fault_have_their_names(server: Callable[[str], Running], tmp_path: Path) -> None:
    _plant_all(server("postgresql").url, tmp_path, 100)
