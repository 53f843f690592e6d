"""What an anomaly is called: its name is one that the level asked rules out, and the level that it is said to break is broken.

The cycle that is shown is one that the level itself forbids. The rules are written down here a second time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from definition.random_histories import SHAPES, random_history
from isolde.engines.check import check
from isolde.findings import Anomaly, Finding, Verdict, circles_of
from isolde.formats import encode
from isolde.history import History, render
from isolde.levels import ANOMALIES, LEVELS, WIDEST, Level, anomaly, implies

ALL = [row.level for row in LEVELS]
HISTORIES = 500
"""Of each shape, each with and without session order."""
STRICT = (Level.STRICT_SNAPSHOT_ISOLATION, Level.STRICT_SERIALIZABLE, Level.LINEARIZABLE)


def is_forbidden(level: Level, kinds: Sequence[str]) -> bool:
    """Straight from the definitions: which circles of edges a level does not let happen."""
    if "rt" in kinds and level not in STRICT:
        return False
    pairs = list(zip(kinds, [*kinds[1:], *kinds[:1]], strict=True))
    anti = kinds.count("rw")
    rest = {kind for kind in kinds if kind != "rw"}
    match level:
        case Level.READ_UNCOMMITTED:
            return rest == {"ww"} and not anti
        case Level.PL_2:
            return not anti
        case Level.READ_COMMITTED:
            return not anti or sorted(kinds) == ["rw", "wr"]
        case Level.READ_ATOMIC:
            return not anti or sorted(kinds) in (["rw", "wr"], ["rw", "so"])
        case Level.CAUSAL:
            return not anti or (anti == 1 and rest <= {"wr", "so"})
        case Level.PREFIX:
            return ("rw", "rw") not in pairs and ("ww", "rw") not in pairs
        case Level.SNAPSHOT_ISOLATION | Level.STRICT_SNAPSHOT_ISOLATION:
            return ("rw", "rw") not in pairs
        case _:
            return True


def wrong_with(found: Anomaly, level: Level, findings: dict[Level, Finding]) -> Iterator[str]:
    weakest = anomaly(found.name).ruled_out_from
    if weakest and not any(implies(level, w) for w in weakest):
        yield f"{found.name} is not ruled out"
    for w in weakest:
        if implies(level, w) and findings[w].verdict is Verdict.SATISFIED:
            yield f"{found.name} although {w.value} holds"
    # Adya's name for the cycle says what is broken, too.
    for w in anomaly(found.adya).ruled_out_from if found.adya else ():
        if (implies(level, w) or implies(w, level)) and findings[w].verdict is Verdict.SATISFIED:
            yield f"{found.name} is called {found.adya} although {w.value} holds"
    closed = [link.target for link in found.cycle] == [link.source for link in (*found.cycle[1:], *found.cycle[:1])]
    if found.cycle and closed and not is_forbidden(level, [link.kind for link in found.cycle]):
        yield f"{found.name} is drawn as {[link.kind for link in found.cycle]}, which is allowed"
    for circle in circles_of(found.cases):
        kinds = [link.kind for link in circle.cycle]
        ruled_out = anomaly(circle.name).ruled_out_from
        if not is_forbidden(level, kinds):
            yield f"{circle.name} in a case is drawn as {kinds}, which is allowed"
        if ruled_out and not any(implies(level, w) for w in ruled_out):
            yield f"{circle.name} in a case is not ruled out"


def assert_names_fit(shape: str, seeds: range) -> None:
    wrong: Counter[str] = Counter()
    first: dict[str, str] = {}
    count = 0
    for seed in seeds:
        rng = random.Random(f"names-{shape}-{seed}")
        history: History = random_history(rng, shape=shape)
        columns = encode(history)
        judge_aborted, every = rng.random() < 0.2, rng.random() < 0.5
        for session_order in (True, False):
            report = check(columns, ALL, session_order=session_order, judge_aborted=judge_aborted, every=every)
            findings = {finding.level: finding for finding in report.findings}
            for finding in report.findings:
                for found in finding.anomalies:
                    count += 1
                    for problem in wrong_with(found, finding.level, findings):
                        text = f"at {finding.level.value}: {problem}"
                        wrong[text] += 1
                        options = f"session_order={session_order} judge_aborted={judge_aborted} every={every}"
                        first.setdefault(text, f"seed {seed} {options}\n{render(history)}\n{found.explanation}")
    examples = "\n\n".join(f"{text} ({wrong[text]} of {count})\n{first[text]}" for text, _ in wrong.most_common(8))
    assert not wrong, f"{sum(wrong.values())} of {count}: {wrong.most_common()}\n{examples}"
    assert count > len(seeds)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_anomaly_is_ruled_out_where_it_is_named_and_breaks_what_it_says(shape: str) -> None:
    assert_names_fit(shape, range(HISTORIES))


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_names_fit_on_many_more_histories(shape: str) -> None:
    assert_names_fit(shape, range(HISTORIES, HISTORIES + 8_000))


@pytest.mark.parametrize("level", ALL)
def test_every_level_has_a_name_for_what_only_it_rules_out(level: Level) -> None:
    weakest = anomaly(WIDEST[level]).ruled_out_from
    # With single items repeatable read and serializable are one.
    assert level in weakest or (level is Level.SERIALIZABLE and Level.REPEATABLE_READ in weakest)


def test_the_weakest_levels_of_an_anomaly_do_not_imply_each_other() -> None:
    for entry in ANOMALIES:
        for a in entry.ruled_out_from:
            assert not any(a is not b and implies(a, b) for b in entry.ruled_out_from), entry.name
