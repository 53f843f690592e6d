"""``isolde watch``: a history is judged while it grows, and what is called violated on the way is violated as a whole."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from isolde.campaigns.check import CheckOptions, check_file
from isolde.campaigns.growing import GrowingLog
from isolde.campaigns.seen import Seen
from isolde.campaigns.watch import _Watched, watch_history
from isolde.errors import UsageError
from isolde.findings import Verdict
from test_cli import isolde


def made(path: Path, level: str, seed: int, *options: str) -> list[bytes]:
    """The lines of a synthetic history, the header first, in the order in which transactions ended."""
    isolde("generate", "--level", level, "--transactions", 300, "--seed", seed, *options, "-o", path)
    header, *lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines):
        content = json.loads(line)
        lines[number] = json.dumps({"id": number, **content}).encode() + b"\n"
    return [header, *sorted(lines, key=lambda line: int(json.loads(line)["end"]))]


def grown(place: Path, lines: list[bytes], cuts: list[int], names: tuple[str, ...], window: int) -> list[Any]:
    """What is said at each cut, where no session is taken for quiet."""
    path = place / "growing.jsonl"
    path.write_bytes(lines[0])
    written, found, left = 1, [], iter(cuts)

    def sleep(_: float) -> None:
        nonlocal written
        cut = next(left, None)
        if cut is None:
            raise KeyboardInterrupt
        with path.open("ab") as file:
            # A line may be half there.
            file.write(b"".join(lines[written:cut]))
        written = cut

    found.append(watch_history(str(path), CheckOptions(names), window=window, sleep=sleep))
    return found


def test_a_history_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    lines = made(tmp_path / "whole.jsonl", "serializable", 1)
    path, waited = tmp_path / "later.jsonl", 0

    def sleep(_: float) -> None:
        nonlocal waited
        waited += 1
        if waited == 1:
            path.write_bytes(lines[0][:5])
        elif waited == 2:
            path.write_bytes(b"".join(lines))
        elif waited > 3:
            raise KeyboardInterrupt

    report = watch_history(str(path), CheckOptions(("ser",)), sleep=sleep)
    assert (report.verdict, report.size.transactions) == (Verdict.SATISFIED, 300)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("workload", ["mini", "append", "general"])
def test_what_is_violated_on_the_way_is_violated_as_a_whole(tmp_path: Path, seed: int, workload: str) -> None:
    random = Random(seed)
    level = random.choice(["serializable", "snapshot-isolation", "read-committed"])
    lines = made(tmp_path / "whole.jsonl", level, seed, "--workload", workload)
    cuts = sorted({*random.sample(range(60, len(lines)), 3), len(lines)})
    names = ("ser", "si", "rc")
    (report,) = grown(tmp_path, lines, cuts, names, random.choice([40, 100, 1_000]))
    (tmp_path / "all.jsonl").write_bytes(b"".join(lines))
    whole = check_file(str(tmp_path / "all.jsonl"), CheckOptions(names)).report
    for seen, final in zip(report.findings, whole.findings, strict=True):
        if seen.verdict is Verdict.VIOLATED:
            assert final.verdict is Verdict.VIOLATED
    if whole.verdict is Verdict.SATISFIED:
        assert report.verdict is Verdict.SATISFIED


@pytest.mark.parametrize("workload", ["mini", "append", "general", "registers"])
def test_what_is_violated_in_a_window_is_violated_as_a_whole(tmp_path: Path, workload: str) -> None:
    seen = 0
    for seed in range(12):
        random = Random(seed)
        planted = ("--inject", "lost-update") if workload == "mini" and seed % 2 else ()
        lines = made(tmp_path / "whole.jsonl", "serializable", seed, "--workload", workload, "--keys", "5", *planted)
        # Now and then a transaction reads what somebody else read.
        for at in random.sample(range(1, len(lines) - 40), 2) if seed % 3 == 0 else ():
            lines[at + 30] = odd(lines[at], lines[at + 30])
        cuts = sorted(random.sample(range(60, len(lines)), 4))
        (report,) = grown(tmp_path, lines, [*cuts, len(lines)], ("ser",), 50)
        (tmp_path / "all.jsonl").write_bytes(b"".join(lines))
        whole = check_file(str(tmp_path / "all.jsonl"), CheckOptions(("ser",))).report
        if report.verdict is Verdict.VIOLATED:
            seen += 1
            assert whole.verdict is Verdict.VIOLATED, seed
        if whole.verdict is Verdict.SATISFIED:
            assert report.verdict is Verdict.SATISFIED, seed
    assert seen


def odd(old: bytes, new: bytes) -> bytes:
    """The later line with the reads of the earlier one before its own."""
    reads = [op for op in json.loads(old)["ops"] if op[0] == "r"]
    content = json.loads(new)
    return json.dumps({**content, "ops": [*reads, *content["ops"]]}).encode() + b"\n"


def test_what_is_kept_does_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(b"".join(made(tmp_path / "whole.jsonl", "serializable", 1)))
    log = GrowingLog(path)
    watched = _Watched(log, log.header(), set(), 120)
    watched.take()
    assert (watched.came, len(watched.lines), watched.whole) == (300, 120, False)
    assert len(watched.part()) == 120


def test_a_key_with_a_value_that_comes_again_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    lines = [
        {"session": 1, "ops": [["w", "x", 1], ["w", "y", 1]]},
        {"session": 2, "ops": [["w", "x", 1], ["r", "y", 1], ["r", "x", 1]]},
    ]
    header = '{"isolde": "history", "version": 1}\n'
    path.write_text(header + "".join(json.dumps(line) + "\n" for line in lines))
    log = GrowingLog(path)
    watched = _Watched(log, log.header(), set(), 120)
    watched.take()
    assert [line["ops"] for line in watched.part()] == [[["w", "y", 1]], [["r", "y", 1]]]


def test_texts_that_were_added_are_known() -> None:
    seen = Seen(1 << 16)
    assert [seen.add(str(number % 500)) for number in range(1_000)] == [False] * 500 + [True] * 500


def test_a_violation_is_told_while_somebody_still_writes(tmp_path: Path) -> None:
    lines = made(tmp_path / "whole.jsonl", "serializable", 7, "--inject", "write-skew")
    path = tmp_path / "growing.jsonl"
    path.write_bytes(lines[0])
    over = threading.Event()

    def write() -> None:
        with path.open("ab", buffering=0) as file:
            for line in lines[1:]:
                file.write(line)
                time.sleep(0.004)
            # The sessions go on, and nothing is ever quiet.
            last = max(json.loads(line)["end"] for line in lines[1:])
            for number in range(10_000):
                if over.is_set():
                    return
                for session in {json.dumps(json.loads(line)["session"]) for line in lines[1:]}:
                    at = last + 10 * number + 1
                    text = f'{{"id": "{session}{number}", "session": {session}, "start": {at}, "end": {at + 1}, "ops": []}}\n'
                    file.write(text.replace('""', '"').encode())
                time.sleep(0.05)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        deadline = time.monotonic() + 60
        report = watch_history(str(path), CheckOptions(("ser",)), stop=lambda: time.monotonic() > deadline)
        assert time.monotonic() < deadline
    finally:
        over.set()
        writer.join()
    assert report.verdict is Verdict.VIOLATED


@pytest.mark.parametrize("comes", [True, False])
def test_a_writer_that_has_not_told_yet_is_waited_for(tmp_path: Path, comes: bool) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text('{"isolde": "history", "version": 1}\n')
    reader = {"session": 1, "start": 5, "end": 6, "ops": [["r", "x", 1]]}
    later = [{"session": 1, "start": 10 + n, "end": 10 + n, "ops": []} for n in range(80)]
    writer = {"session": 2, "start": 1, "end": 7, "ops": [["w", "x", 1]]}
    parts = [[reader, *later], *([[writer]] if comes else [])]

    def sleep(_: float) -> None:
        if not parts:
            raise KeyboardInterrupt
        with path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in parts.pop(0))

    expected = Verdict.SATISFIED if comes else Verdict.UNDECIDED
    assert watch_history(str(path), CheckOptions(("rc",)), sleep=sleep).verdict is expected


def test_sql_is_judged_by_audit(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text(
        '{"isolde": "history", "version": 1, "dialect": "sqlite"}\n{"session": 1, "ops": [{"sql": "SELECT 1", "rows": [[1]]}]}\n'
    )
    with pytest.raises(UsageError, match="audit LOG --follow"):
        watch_history(str(path), CheckOptions())
    found = isolde("watch", tmp_path / "none.jsonl")
    assert found.status == 2


def test_a_run_is_watched_to_its_end(tmp_path: Path) -> None:
    place = tmp_path / "run"
    running = threading.Thread(target=lambda: isolde("run", "--time", 3, "-o", place))
    running.start()
    while not (place / "header.json").exists() and not list(place.glob("*")):
        time.sleep(0.05)
    found = isolde("watch", place, "--level", "ser")
    running.join()
    assert found.status == 0, found.err
    assert "serializable: satisfied" in found.out
