"""Datasets in parts by time, checked in windows: what is decided so is what the whole file gives."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from isolde._core import Columns
from isolde.campaigns.check import CheckOptions, check_columns
from isolde.campaigns.dataset import check_dataset, is_dataset
from isolde.errors import InputError, UsageError
from isolde.findings import Verdict
from test_cli import isolde

LEVELS = ("pc", "si", "ser", "strict-si", "strict-ser")
Line = dict[str, Any]


def text(header: Line, lines: list[Line]) -> bytes:
    return "\n".join([json.dumps(header), *map(json.dumps, lines), ""]).encode()


def parted(place: Path, header: Line, lines: list[Line], cuts: list[int]) -> str:
    """The lines as a dataset that is cut there."""
    place.mkdir()
    for number, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(lines)], strict=True)):
        Columns.from_jsonl(text(header, lines[begin:end])).write_parquet(str(place / f"{number:03}.parquet"))
    return str(place)


class Store:
    """Sessions over a store of versions: serial, by snapshots or by statements, with stale reads now and then."""

    def __init__(self, chance: Random, *, lists: bool) -> None:
        self.chance, self.lists = chance, lists
        self.mode = chance.choice(("serial", "snapshots", "statements"))
        self.stale = chance.choice((0, 0, 0.02, 0.1))
        empty: Any = [] if lists else None
        self.versions: dict[int, list[tuple[int, Any]]] = {key: [(0, empty)] for key in range(chance.randint(1, 6))}
        self.commits, self.value, self.clock = 0, 0, 0
        self.open: dict[int, Line] = {}
        self.lines: list[Line] = []

    def run(self, transactions: int, sessions: int) -> list[Line]:
        while len(self.lines) < transactions:
            self.clock += 1
            session = self.chance.randrange(sessions)
            if session not in self.open:
                left = self.chance.randint(1, 4)
                self.open[session] = {"start": self.clock, "sees": self.commits, "left": left, "ops": [], "own": {}}
            elif self.open[session]["left"]:
                self.step(self.open[session])
            else:
                self.end(session, self.open.pop(session))
        return self.lines

    def step(self, one: Line) -> None:
        one["left"] -= 1
        key = self.chance.choice(list(self.versions))
        sees = self.commits if self.mode == "statements" else one["sees"]
        seen = one["own"].get(key, [value for commit, value in self.versions[key] if commit <= sees][-1])
        if self.chance.random() < self.stale:
            seen = self.chance.choice(self.versions[key])[1]
        self.value += 1
        deed = self.chance.random()
        if deed < 0.5 or (not self.lists and deed < 0.8):
            one["ops"].append(["r", key, seen])
        if self.lists and deed >= 0.5:
            one["ops"].append(["a", key, self.value])
            one["own"][key] = [*seen, self.value]
        elif not self.lists and deed >= 0.4:
            # Some are deletes, some say again what was said before.
            written = None if deed > 0.95 else self.value if deed > 0.42 else max(1, self.value - 1)
            one["ops"].append(["w", key, written] if deed < 0.9 else ["cas", key, seen, self.value, True])
            one["own"][key] = written if deed < 0.9 else self.value

    def end(self, session: int, one: Line) -> None:
        newer = {key for key, versions in self.versions.items() if versions[-1][0] > one["sees"]}
        used = {op[1] for op in one["ops"]} if self.mode == "serial" else set(one["own"])
        refused = self.mode != "statements" and bool(newer & used)
        status = "aborted" if refused or self.chance.random() < 0.05 else "committed"
        takes = status == "committed"
        if self.chance.random() < 0.04:
            status, takes = "unknown", takes and self.chance.random() < 0.5
        if takes:
            self.commits += 1
            for key, value in one["own"].items():
                self.versions[key].append((self.commits, value))
        self.clock += self.chance.choice((0, 0, 1, 3))
        line = {"session": session, "status": status, "start": one["start"], "end": self.clock, "ops": one["ops"]}
        if status == "unknown" and self.chance.random() < 0.5:
            del line["end"]
        self.lines.append(line)


def agreement(place: Path, seeds: range) -> Counter[tuple[Verdict, Verdict]]:
    """What the whole files and the datasets say; where both say something it is the same."""
    said = Counter[tuple[Verdict, Verdict]]()
    for seed in seeds:
        chance = Random(seed)
        store = Store(chance, lists=chance.random() < 0.25)
        header = {"isolde": "history", "version": 1}
        lines = store.run(chance.choice((12, 30, 80)), chance.randint(1, 6))
        options = CheckOptions(LEVELS, session_order=chance.random() < 0.8)
        cuts = sorted(chance.sample(range(1, len(lines)), chance.randint(1, 6)))
        whole = check_columns(Columns.from_jsonl(text(header, lines)), options).report
        found = check_dataset(parted(place / str(seed), header, lines, cuts), options)
        assert found.size == whole.size
        for one, other in zip(whole.findings, found.findings, strict=True):
            said[one.verdict, other.verdict] += 1
            assert Verdict.UNDECIDED in (one.verdict, other.verdict) or one.verdict is other.verdict, (seed, one.level)
    return said


def test_windows_say_what_the_whole_says(tmp_path: Path) -> None:
    said = agreement(tmp_path, range(40))
    decided = said[Verdict.SATISFIED, Verdict.SATISFIED]
    assert decided > 10 * said[Verdict.SATISFIED, Verdict.UNDECIDED]
    assert said[Verdict.VIOLATED, Verdict.VIOLATED] > 30


@pytest.mark.long
def test_windows_say_what_the_whole_says_many_times(tmp_path: Path) -> None:
    agreement(tmp_path, range(1000, 3000))


def test_a_dataset_is_checked_on_the_command_line(tmp_path: Path) -> None:
    history = tmp_path / "h.jsonl"
    isolde("generate", "--transactions", 900, "--seed", 5, "--inject", "write-skew", "-o", history)
    header, *lines = map(json.loads, history.read_text().splitlines())
    place = parted(tmp_path / "days", header, lines, [300, 600])
    assert is_dataset(place)
    done = isolde("check", place, "--level", "si", "--level", "ser", "--json")
    assert done.status == 1, done.err
    (document,) = done.documents
    assert [one["verdict"] for one in document["results"]] == ["satisfied", "violated"]
    assert document["results"][1]["anomalies"][0]["name"] == "write-skew"
    assert document["history"]["transactions"] == len(lines)


def test_what_windows_cannot_do_is_refused_by_name(tmp_path: Path) -> None:
    header: Line = {"isolde": "history", "version": 1}
    lines: list[Line] = [{"session": 1, "start": at, "end": at, "ops": [["w", "x", at]]} for at in range(4)]
    place = parted(tmp_path / "good", header, lines, [2])
    for options, said in (
        (CheckOptions(("causal",)), "not at causal"),
        (CheckOptions(("ser",), every=True), "which --level"),
    ):
        with pytest.raises(UsageError, match=said):
            check_dataset(place, options)
    timeless: list[Line] = [{"session": 1, "ops": line["ops"]} for line in lines]
    with pytest.raises(InputError, match="no start or no end"):
        check_dataset(parted(tmp_path / "timeless", header, timeless, [2]), CheckOptions(("ser",)))
    assert isolde("check", place, "--witness", tmp_path / "w.jsonl").status == 2
