"""``infer`` never calls an assignment safe that the explorer breaks, nor refuses one without an interleaving that breaks it."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random

import pytest

from infer_agreement import Sample, breaks_when_replayed, judged, judged_robust
from infer_family import WIDE, random_application
from isolde.campaigns.infer import Inference, InferOptions
from isolde.workloads.applications.files import application_in

APPLICATIONS = Path(__file__).parent / "applications"
STORES = ("postgresql", "mariadb")


@pytest.mark.parametrize(
    ("name", "store"), list(product(["deleted_and_back", "behind_the_scan", "seen_from_inside"], STORES))
)
def test_what_was_once_wrongly_called_safe_is_not(name: str, store: str) -> None:
    found = judged(application_in(str(APPLICATIONS / f"{name}.py")), store, Sample(pairs=4, triples=2))
    assert found.outcome == "compared"
    assert not found.wrong


@pytest.mark.parametrize("seed", range(6))
def test_what_is_called_safe_is_not_broken(tmp_path: Path, seed: int) -> None:
    application = random_application(seed, tmp_path)
    assert not judged(application, Random(seed).choice(STORES), Sample(2, 1, assignments=2), seed).wrong


@pytest.mark.parametrize("seed", range(WIDE, WIDE + 3))
def test_nor_without_keys_and_over_joins(tmp_path: Path, seed: int) -> None:
    application = random_application(seed, tmp_path)
    assert not judged(application, Random(seed).choice(STORES), Sample(2, 1, assignments=2), seed).wrong


@pytest.mark.long
@pytest.mark.parametrize(("seed", "store"), list(product([*range(400), *range(WIDE, WIDE + 200)], STORES)))
def test_no_assignment_that_is_called_safe_is_broken(tmp_path: Path, seed: int, store: str) -> None:
    assert not judged(random_application(seed, tmp_path), store, Sample(), seed).wrong


@pytest.mark.parametrize("seed", [0, 1, 24])
def test_what_is_called_robust_is_as_one_after_the_other(tmp_path: Path, seed: int) -> None:
    application = random_application(seed, tmp_path)
    assert not judged_robust(application, Random(seed).choice(STORES), Sample(2, 1, assignments=2), seed).wrong


@pytest.mark.long
@pytest.mark.parametrize(("seed", "store"), list(product([*range(100), *range(WIDE, WIDE + 50)], STORES)))
def test_nothing_that_is_called_robust_is_anything_else(tmp_path: Path, seed: int, store: str) -> None:
    assert not judged_robust(random_application(seed, tmp_path), store, Sample(), seed).wrong


@pytest.mark.long
@pytest.mark.parametrize("seed", [*range(100), *range(WIDE, WIDE + 50)])
def test_nor_is_one_at_read_uncommitted(tmp_path: Path, seed: int) -> None:
    levels = ("read-uncommitted", "read-committed", "serializable")
    assert not judged(random_application(seed, tmp_path), "mariadb", Sample(), seed, levels).wrong


@pytest.mark.long
@pytest.mark.parametrize(("seed", "store"), list(product(range(100), STORES)))
def test_what_is_refused_breaks_when_it_is_replayed(tmp_path: Path, seed: int, store: str) -> None:
    application = random_application(seed, tmp_path)
    inference = Inference(application, InferOptions(store, query_seconds=2.0))
    if any(one.refused for one in inference.problem.transactions.values()):
        return
    search = inference.search(inference.kept_alone())
    search.run()
    for nogood in search.nogoods:
        assert breaks_when_replayed(application, store, nogood.witness)
