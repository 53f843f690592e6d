"""``infer`` never calls an assignment safe that the explorer breaks, on random applications.

The explorer is the other way of deciding: all interleavings of pairs of calls from small states on the store model.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, product
from pathlib import Path
from random import Random

import pytest

from infer_family import random_application
from isolde.campaigns.infer import InferOptions, infer
from isolde.campaigns.refuting import Refuter
from isolde.findings import Assignments, BrokenInvariant, Refused, Verdict
from isolde.levels.specifications import CANDIDATES
from isolde.workloads.application import Application

_SECONDS = 20.0


def _checked(application: Application, store: str) -> str:
    report = infer(application, InferOptions(store, seconds=_SECONDS))
    facts = report.fact(Assignments)
    assert facts is not None
    broken = {
        shown.check for finding in report.findings for shown in finding.evidence if isinstance(shown, BrokenInvariant)
    }
    for finding in report.findings:
        for shown in finding.evidence:
            if isinstance(shown, Refused):
                assert shown.broken.confirmed, "a refusal has a counterexample"
    if any(finding.verdict is Verdict.UNDECIDED for finding in report.findings):
        return "open"
    # What is broken even alone is no matter of levels.
    kept = tuple(one for one in application.invariants if one.name not in broken)
    judged = Application(
        application.name, "", "", application.ddl, application.parts, application.populate, application.scale, kept
    )
    names = [part.name for part in application.parts]
    for listed in facts.listed:
        refuter = Refuter(judged, store, {}, CANDIDATES, names)
        for pair in combinations_with_replacement(names, 2):
            found = refuter._group(pair, tuple(dict(listed)[name] for name in pair))
            wrong = [one for one in found if one.refuses(dict(listed))]
            assert not wrong, f"{application.name}: {dict(listed)} is called safe and breaks {wrong[0].invariant}"
    return "safe" if facts.listed else "none"


@pytest.mark.parametrize("seed", range(6))
def test_what_is_called_safe_is_not_broken(tmp_path: Path, seed: int) -> None:
    store = Random(seed).choice(("postgresql", "mariadb"))
    assert _checked(random_application(seed, tmp_path), store) in {"open", "safe", "none"}


@pytest.mark.long
@pytest.mark.parametrize(("seed", "store"), list(product(range(6, 306), ("postgresql", "mariadb"))))
def test_what_is_called_safe_is_not_broken_on_many(tmp_path: Path, seed: int, store: str) -> None:
    assert _checked(random_application(seed, tmp_path), store) in {"open", "safe", "none"}
