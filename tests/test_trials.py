"""Trials over seeds: how soon an anomaly is found."""

from __future__ import annotations

import json
from pathlib import Path

from running import isolde

FEW = ("--transactions", "150", "--keys", "5")


def test_trials_say_which_seeds_found_an_anomaly_and_when(tmp_path: Path) -> None:
    words = ("duckdb:", "--deletes", "0.4", "--check", "si", "--trials", "2", *FEW, "--seed", "3")
    status, out, error = isolde("run", *words, "--json", "-o", str(tmp_path / "t"))
    document = json.loads(out)
    assert [one["seed"] for one in document["trials"]] == [3, 4]
    assert document["found"] == sum(one["anomaly"] is not None for one in document["trials"])
    assert status == (1 if document["found"] else 0), error
    for one in document["trials"]:
        assert Path(one["history"]).exists()
        if one["anomaly"] is not None:
            assert one["verdict"] == "violated"
            assert one["place"] > 0
            assert one["seconds"] > 0


def test_trials_that_find_nothing_are_satisfied(tmp_path: Path) -> None:
    status, out, error = isolde("run", "sqlite:", "--trials", "2", *FEW, "-o", str(tmp_path / "t"))
    assert (status, "0 of 2 seeds found an anomaly" in out) == (0, True), (out, error)


def test_what_cannot_be_tried_is_refused() -> None:
    for words in (("--matrix",), ("--workload", "bank"), ("--certify",), ("--workload", "counter")):
        status, _, error = isolde("run", "sqlite:", "--trials", "2", *words)
        assert status == 2, error
