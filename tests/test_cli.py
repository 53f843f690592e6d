"""The program as people and scripts see it: exit statuses, one-line complaints, JSON. It never shows a traceback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from isolde._core import Columns
from isolde.formats import decode, read
from isolde.levels import ANOMALIES, LEVELS
from running import fresh_signals

PROGRAM = [sys.executable, "-m", "isolde"]
ENVIRONMENT = {**os.environ, "PYTHONUTF8": "1"}


@dataclass(frozen=True)
class Ran:
    """What a run of the program gave."""

    status: int
    out: str
    err: str

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def isolde(*arguments: str | Path | int, stdin: str = "", cwd: Path | None = None) -> Ran:
    """Runs the program; whatever happens, it shows no traceback."""
    command = [*PROGRAM, *map(str, arguments)]
    done = subprocess.run(
        command, input=stdin.encode(), capture_output=True, timeout=120, check=False, env=ENVIRONMENT, cwd=cwd
    )
    ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert_clean(ran.out + ran.err)
    return ran


def assert_clean(text: str) -> None:
    for word in ("Traceback", "panicked", "RUST_BACKTRACE"):
        assert word not in text, text


SKEW = """initial: x=0 y=0
s1: t1=[r(x,0) r(y,0) w(x,1)]
s2: t2=[r(x,0) r(y,0) w(y,2)]
"""
GOOD = "initial: x=0\ns1: [r(x,0) w(x,1)]\ns2: [r(x,1)]\n"
OPEN = "s1: [w(x,1)]\ns2: [w(x,2)]\ns3: [r(x,1)]\n"
BAD = '{"session":1,"status":"commited","ops":[]}\n'
BAD_MESSAGE = '"status" is "commited"; expected "committed", "aborted" or "unknown"'


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a history of each fate."""
    for name, text in {
        "skew.txt": SKEW,
        "good.txt": GOOD,
        "open.txt": OPEN,
        "bad.jsonl": BAD,
        "empty.jsonl": "",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


# --- Exit status ------------------------------------------------------------------------------------------------------

STATUSES: dict[str, tuple[list[str], int]] = {
    "it holds": (["good.txt"], 0),
    "nothing at all holds": (["empty.jsonl"], 0),
    "a violation": (["skew.txt"], 1),
    "no violation at a weaker level": (["--level", "si", "skew.txt"], 0),
    "undecided": (["--level", "strict-ser", "open.txt"], 3),
    "a history with blind writes at a weak level": (["--level", "causal", "open.txt"], 0),
    "a strict level without times": (["--level", "strict-ser", "good.txt"], 3),
    "malformed": (["bad.jsonl"], 2),
    "no such file": (["none.jsonl"], 2),
    "a directory": (["."], 2),
    "two levels, one violated": (["--level", "si", "--level", "ser", "skew.txt"], 1),
    "two levels, one undecided": (["--level", "causal", "--level", "strict-ser", "open.txt"], 3),
    "violated is more serious than undecided": (
        ["--level", "strict-ser", "--level", "lin", "--level", "ser", "skew.txt"],
        1,
    ),
    "several files that hold": (["good.txt", "empty.jsonl"], 0),
    "one file of several violated": (["good.txt", "skew.txt", "open.txt"], 1),
    "one file of several undecided": (["--level", "strict-ser", "good.txt", "open.txt"], 3),
    "one file of several malformed": (["good.txt", "skew.txt", "bad.jsonl", "open.txt"], 2),
    "one file of several missing": (["good.txt", "none.jsonl"], 2),
    "no file": ([], 2),
    "an unknown level": (["--level", "serialisable", "good.txt"], 2),
    "an unknown option": (["--nonsense", "good.txt"], 2),
    "a witness of several files": (["--witness", "w.jsonl", "good.txt", "skew.txt"], 2),
}


@pytest.mark.parametrize("json_option", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("situation", STATUSES)
def test_the_exit_status_says_what_happened(situation: str, json_option: list[str], files: Path) -> None:
    arguments, status = STATUSES[situation]
    assert isolde("check", *json_option, *arguments, cwd=files).status == status


COMPLAINTS: dict[str, tuple[list[str], str]] = {
    "malformed": (["check", "bad.jsonl"], f"isolde: bad.jsonl:1: {BAD_MESSAGE}\n"),
    "no such file": (["check", "none.jsonl"], "isolde: none.jsonl: No such file or directory\n"),
    "a directory": (["check", "d.jsonl"], "isolde: d.jsonl: Is a directory\n"),
    "a level misspelled": (["check", "-l", "snapshot-isolaton", "good.txt"], "isolde: unknown isolation level 'snapshot-isolaton'; did you mean 'snapshot-isolation'?\n"),
    "a level that is not decided": (["check", "-l", "PL-2+", "good.txt"], "isolde: the level 'PL-2+' is not decided: it lies between pl-2 and snapshot-isolation, which implies it\n"),
    "a level like no other": (["check", "-l", "zzz", "good.txt"], "isolde: unknown isolation level 'zzz'; 'isolde levels' lists them\n"),
    "notation": (["check", "notation.txt"], "isolde: notation.txt:1: column 9 has ')]'; expected ','\n"),
    "witness of several": (["check", "--witness", "w.jsonl", "good.txt", "skew.txt"], "isolde: --witness takes one history at a time\n"),
    "a suffix of no format": (["convert", "good.txt", "good.csv"], "isolde: good.csv: the suffix names no format; use one of .jsonl, .json, .txt, .parquet, .awdit, .cobra, .bincode, .hist, .dbcop.json, .edn, .elle.json, .plume (.gz or .zst may follow)\n"),
    "no directory": (["convert", "good.txt", "none/good.jsonl"], "isolde: none/good.jsonl: No such file or directory\n"),
    "no directory for Parquet": (["convert", "good.txt", "none/good.parquet"], "isolde: none/good.parquet: No such file or directory\n"),
    "a directory to write": (["generate", "-o", "d.jsonl"], "isolde: d.jsonl: Is a directory\n"),
    "impossible parameters": (["generate", "--operations", "5"], "isolde: 5 operations a transaction; a mini-transaction has at most 4 (the workload 'general' has no bound)\n"),
    "a full disk for JSON Lines": (["generate", "-o", "full.jsonl"], "isolde: full.jsonl: No space left on device\n"),
    "a full disk for zstd": (["generate", "-o", "full.jsonl.zst"], "isolde: full.jsonl.zst: No space left on device\n"),
    "a full disk for Parquet": (["generate", "-o", "full.parquet"], "isolde: full.parquet: No space left on device\n"),
    "a full disk for the notation": (["convert", "good.txt", "full.txt"], "isolde: full.txt: No space left on device\n"),
    "a full disk for a witness": (["check", "skew.txt", "--witness", "full.jsonl"], "isolde: full.jsonl: No space left on device\n"),
}  # fmt: skip


@pytest.mark.parametrize("situation", COMPLAINTS)
def test_what_cannot_be_done_is_told_in_one_line(situation: str, files: Path) -> None:
    (files / "notation.txt").write_text("s1: [r(x)]", encoding="utf-8")
    (files / "d.jsonl").mkdir()
    for suffix in ("jsonl", "jsonl.zst", "parquet", "txt"):
        (files / f"full.{suffix}").symlink_to("/dev/full")
    arguments, complaint = COMPLAINTS[situation]
    ran = isolde(*arguments, cwd=files)
    # A disk that takes no more is another outside part that failed.
    assert (ran.status, ran.err) == (4 if "full disk" in situation else 2, complaint)


@pytest.mark.parametrize("arguments", [["check", "good.txt"], ["levels"], ["generate"], ["convert", "good.txt", "-"]])
def test_a_full_disk_behind_standard_output_is_told_in_one_line(arguments: list[str], files: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
            cwd=files,
            env=ENVIRONMENT,
        )
    err = done.stderr.decode()
    assert_clean(err)
    assert done.returncode == 4
    assert re.fullmatch(r"isolde: .*No space left on device\n", err), err


@pytest.mark.parametrize(
    "arguments", [["levels"], ["generate", "--transactions", "50000"], ["check", *["good.txt"] * 300]]
)
def test_a_reader_that_goes_away_is_no_error(arguments: list[str], files: Path) -> None:
    with subprocess.Popen(
        [*PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=files,
        env=ENVIRONMENT,
        preexec_fn=fresh_signals,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read().decode()
        process.wait(60)
    assert_clean(err)
    assert err == ""
    # The shell's status for a closed pipe; 0 would say that the level holds.
    assert process.returncode in (0, 141)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history that takes more than a moment."""
    path = tmp_path_factory.mktemp("large") / "large.jsonl"
    assert isolde("generate", "--transactions", 1_000_000, "--sessions", 50, "-o", path).status == 0
    return path


INTERRUPTED = {
    "generate": ["generate", "--transactions", "5000000", "-o", "out.jsonl"],
    "check": ["check", *["LARGE"] * 50],
    "convert": ["convert", "LARGE", "out.jsonl.gz"],
    "standard input": ["check", "-"],
}


@pytest.mark.parametrize(
    ("what", "which"), [*((what, signal.SIGINT) for what in INTERRUPTED), ("standard input", signal.SIGTERM)]
)
def test_an_interrupt_ends_the_program_quietly(what: str, which: signal.Signals, large: Path, tmp_path: Path) -> None:
    arguments = [str(large) if word == "LARGE" else word for word in INTERRUPTED[what]]
    with subprocess.Popen(
        [*PROGRAM, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=ENVIRONMENT,
        preexec_fn=fresh_signals,
    ) as process:
        time.sleep(1.0)
        assert process.poll() is None, "it was over too soon to be interrupted"
        process.send_signal(which)
        try:
            _, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert_clean(err.decode())
    assert (process.returncode, err.decode().strip()) == (130, "isolde: interrupted")


def test_an_interrupt_inside_of_code_made_from_text_has_the_same_status(tmp_path: Path) -> None:
    # CPython remembers such an interrupt, and ends a module run by -m with the signal instead of its status.
    (tmp_path / "meanwhile.py").write_text(
        "from isolde.cli.main import cli, program\ncli.main = lambda **_: exec('raise KeyboardInterrupt')\nprogram()\n"
    )
    ended = subprocess.run([sys.executable, "-m", "meanwhile"], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.strip()) == (130, "isolde: interrupted")


# --- JSON -------------------------------------------------------------------------------------------------------------


def test_the_json_of_a_violation_has_the_shape_of_the_manual(files: Path) -> None:
    ran = isolde("check", "--json", "skew.txt", cwd=files)
    (document,) = ran.documents
    (result,) = document["results"]
    assert document["history"] == {
        "transactions": 2, "committed": 2, "aborted": 0, "unknown": 0, "sessions": 2, "operations": 6,
    }  # fmt: skip
    assert set(document) == {"history", "results"}
    assert (result["level"], result["verdict"], result["method"]) == ("serializable", "violated", "dependency-graph")
    assert isinstance(result["seconds"], float)
    assert "reason" not in result
    (anomaly,) = result["anomalies"]
    assert set(anomaly) == {"name", "transactions", "cycle", "explanation", "adya"}
    assert (anomaly["name"], sorted(anomaly["transactions"])) == ("write-skew", ["t1", "t2"])
    edges = {(edge["from"], edge["to"], edge["kind"], edge["key"]) for edge in anomaly["cycle"]}
    assert edges == {("t1", "t2", "rw", "y"), ("t2", "t1", "rw", "x")}
    assert anomaly["explanation"].endswith(".")


def test_the_json_of_an_undecided_level_gives_the_reason(files: Path) -> None:
    (document,) = isolde("check", "--json", "--level", "strict-ser", "open.txt", cwd=files).documents
    (result,) = document["results"]
    assert (result["verdict"], result["anomalies"]) == ("unknown", [])
    assert result["reason"]


def test_the_json_of_several_files_is_one_document_a_line_in_the_order_given(files: Path) -> None:
    ran = isolde("check", "--json", "good.txt", "bad.jsonl", "skew.txt", "none.jsonl", cwd=files)
    good, bad, skew, none = ran.documents
    assert ran.status == 2
    assert bad == {"file": "bad.jsonl", "error": f"bad.jsonl:1: {BAD_MESSAGE}"}
    assert none == {"file": "none.jsonl", "error": "none.jsonl: No such file or directory"}
    assert (good["file"], good["results"][0]["verdict"]) == ("good.txt", "satisfied")
    assert (skew["file"], skew["results"][0]["verdict"]) == ("skew.txt", "violated")


def test_an_empty_history_is_said_to_be_empty(files: Path) -> None:
    said = isolde("check", "empty.jsonl", cwd=files)
    assert (said.status, said.err) == (
        0,
        "isolde: empty.jsonl: the history has no transactions, so that every level holds and nothing was checked\n",
    )


def test_the_names_that_other_tools_have_for_levels_are_understood(files: Path) -> None:
    names = ["PL-1", "PL-2.99", "PL-3", "strong-session-snapshot-isolation", "SSER", "TCC"]
    levels = [option for name in names for option in ("--level", name)]
    said = isolde("check", "--json", *levels, "good.txt", cwd=files)
    assert [result["level"] for result in json.loads(said.out)["results"]] == [
        "read-uncommitted",
        "repeatable-read",
        "serializable",
        "snapshot-isolation",
        "strict-serializable",
        "causal",
    ]


def test_the_first_history_of_the_readme_is_a_write_skew(tmp_path: Path) -> None:
    readme = (Path(__file__).resolve().parent.parent / "README.md").read_text("utf-8")
    (tmp_path / "first.jsonl").write_text(readme.split("```json\n")[1].split("```")[0])
    said = isolde("check", "first.jsonl", cwd=tmp_path)
    assert said.status == 1
    assert "VIOLATED by write-skew" in said.out


def test_levels_are_answered_in_the_order_asked(files: Path) -> None:
    (document,) = isolde(
        "check", "--json", "-l", "ser", "-l", "rc", "-l", "si", "-l", "ser", "skew.txt", cwd=files
    ).documents
    assert [r["level"] for r in document["results"]] == ["serializable", "read-committed", "snapshot-isolation"]


def test_all_levels_are_those_that_the_input_can_decide_weakest_first(files: Path) -> None:
    (document,) = isolde("check", "--json", "-l", "all", "skew.txt", cwd=files).documents
    order = [row.level.value for row in LEVELS]
    levels = [result["level"] for result in document["results"]]
    assert levels == sorted(levels, key=order.index)
    assert "serializable" in levels
    assert [r["level"] for r in document["results"] if r["verdict"] == "unknown"] == []


def test_more_than_the_first_anomaly_is_reported_when_asked_for(files: Path) -> None:
    other = SKEW.replace("x", "a").replace("y", "b").replace("t", "u").replace("s1", "s3").replace("s2", "s4")
    (files / "two.txt").write_text(SKEW + other.replace("iniuial", "initial"), encoding="utf-8")
    one, two = (
        isolde("check", "--json", *all_, "two.txt", cwd=files).documents[0] for all_ in ([], ["--all-anomalies"])
    )
    assert [len(document["results"][0]["anomalies"]) for document in (one, two)] == [1, 2]


def test_sessions_that_do_not_count_make_no_violation(files: Path) -> None:
    (files / "back.txt").write_text("initial: x=0\ns1: [r(x,0) w(x,1)] [r(x,0)]\n", encoding="utf-8")
    assert isolde("check", "back.txt", cwd=files).status == 1
    assert isolde("check", "--no-session-order", "back.txt", cwd=files).status == 0


def test_aborted_transactions_are_judged_when_asked_for(files: Path) -> None:
    (files / "aborted.txt").write_text("initial: x=0\ns1: [r(x,9)]!abort\n", encoding="utf-8")
    assert isolde("check", "aborted.txt", cwd=files).status == 0
    assert isolde("check", "--judge-aborted", "aborted.txt", cwd=files).status == 1


# --- Verbs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "names"), [("levels", [r.level.value for r in LEVELS]), ("anomalies", [a.name for a in ANOMALIES])]
)
def test_a_catalogue_has_a_line_for_each(verb: str, names: list[str]) -> None:
    text, document = isolde(verb), isolde(verb, "--json").documents[0]
    assert [line.split()[0] for line in text.out.splitlines()[1:]] == names
    assert [row["name"] for row in document[verb]] == names
    assert (text.status, text.err) == (0, "")


def test_the_version_is_told() -> None:
    assert re.fullmatch(r"isolde \d+\.\d+\.\d+\S*\n", isolde("--version").out)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["-h"], ["check", "--help"], ["generate", "-h"], ["convert", "--help"]]
)
def test_help_is_given(arguments: list[str]) -> None:
    ran = isolde(*arguments)
    assert (ran.status, ran.err) == (0, "")
    assert "Usage:" in ran.out


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["generate", "--level", "x"], ["generate", "--transactions", "-1"], ["convert", "a"]]
)
def test_wrong_usage_is_status_2_and_nothing_on_standard_output(arguments: list[str]) -> None:
    ran = isolde(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert "Error:" in ran.err


def test_standard_input_and_output_are_called_by_a_dash(files: Path) -> None:
    text = isolde("convert", "skew.txt", "-", cwd=files).out
    assert decode(Columns.from_jsonl(text.encode())) == decode(read(str(files / "skew.txt")))
    assert isolde("check", "-", stdin=text).status == 1
    assert isolde("check", "--json", "-", stdin=text).documents[0]["results"][0]["verdict"] == "violated"


def test_a_malformed_standard_input_is_named() -> None:
    assert isolde("check", "-", stdin=BAD).err == f"isolde: standard input:1: {BAD_MESSAGE}\n"


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".jsonl.gz", ".jsonl.zst", ".parquet", ".txt"])
def test_a_conversion_there_and_back_changes_nothing(suffix: str, files: Path) -> None:
    assert isolde("convert", "skew.txt", f"there{suffix}", cwd=files).status == 0
    assert isolde("convert", f"there{suffix}", "back.txt", cwd=files).status == 0
    assert (files / "back.txt").read_text(encoding="utf-8") == SKEW


def test_a_conversion_to_the_notation_of_what_it_cannot_say_shows_no_traceback(files: Path) -> None:
    line = '{"session":"true","ops":[{"sql":"a","params":[1.5,1e99999999999999999999],\r"rows":null}]}\n'
    (files / "sql.jsonl").write_text(line, encoding="utf-8", newline="")
    isolde("convert", "sql.jsonl", "sql.txt", cwd=files)


def test_a_generated_history_is_reproducible_and_checked_as_promised(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        assert isolde("generate", "--seed", 3, "--inject", "lost-update", "-o", name, cwd=tmp_path).status == 0
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    (document,) = isolde("check", "--json", "-l", "si", "a.jsonl", cwd=tmp_path).documents
    assert document["results"][0]["anomalies"][0]["name"] == "lost-update"


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_generated_history_holds_in_every_format(suffix: str, tmp_path: Path) -> None:
    assert isolde("generate", "-o", f"h{suffix}", cwd=tmp_path).status == 0
    assert isolde("check", f"h{suffix}", cwd=tmp_path).status == 0


def test_the_witness_is_violated_and_no_larger_than_needed(files: Path) -> None:
    isolde("generate", "--inject", "write-skew", "--transactions", 500, "-o", "large.jsonl", cwd=files)
    ran = isolde("check", "large.jsonl", "--witness", "w.jsonl", cwd=files)
    assert ran.status == 1
    assert ran.err == "isolde: wrote 2 transactions of the write-skew to w.jsonl\n"
    assert isolde("check", "w.jsonl", cwd=files).status == 1
    assert read(str(files / "w.jsonl")).counts().transactions == 2


def test_no_witness_is_written_when_there_is_no_violation(files: Path) -> None:
    ran = isolde("check", "good.txt", "--witness", "w.jsonl", cwd=files)
    assert (ran.status, ran.err) == (0, "isolde: no violation was found, so no witness was written\n")
    assert not (files / "w.jsonl").exists()


def test_a_damaged_parquet_file_is_told_in_one_line(tmp_path: Path) -> None:
    isolde("generate", "-o", "h.parquet", cwd=tmp_path)
    data = (tmp_path / "h.parquet").read_bytes()
    for number, at in enumerate(range(len(data) - 600, len(data) - 8, 30)):
        (tmp_path / f"h{number}.parquet").write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
    ran = isolde("check", *(f"h{number}.parquet" for number in range(20)), cwd=tmp_path)
    assert all(line.startswith("isolde: h") for line in ran.err.splitlines()), ran.err
