"""Status 1 says that a violation was found, and nothing else does: not a closed stream, not a mistake of our own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from isolde.cli.main import Exit
from isolde.databases.servers.process import free_port
from running import ISOLDE, isolde

SKEW = "initial: x=0 y=0\nalice: [r(x,0) r(y,0) w(x,1)]\nbob: [r(x,0) r(y,0) w(y,2)]\n"
FINE = "alice: [w(x,1)]\nbob: [r(x,1)]\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "skew.txt").write_text(SKEW)
    (tmp_path / "fine.txt").write_text(FINE)
    return tmp_path


def status(command: str, cwd: Path, **environment: str) -> tuple[int, str]:
    words = f"{sys.executable} -m isolde"
    done = subprocess.run(
        ["sh", "-c", command.replace("isolde", words, 1)],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "streams", [">&-", "2>&-", ">&- 2>&-", "<&-", "<&- >&- 2>&-", "2>/dev/full", ">/dev/null 2>&-"]
)
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("check fine.txt", 0),
        ("check skew.txt", 1),
        ("check nowhere.txt", 2),
        ("check --json skew.txt fine.txt", 1),
        ("convert fine.txt out.jsonl", 0),
        ("check --level nonsense fine.txt", 2),
        ("levels", 0),
        ("--help", 0),
        ("nonsense", 2),
        ("run --transactions 50 -o {}", 0),
    ],
)
def test_closed_streams_change_no_status(streams: str, arguments: str, expected: int, files: Path) -> None:
    found, error = status(f"isolde {arguments.format('out')} {streams}", files)
    assert found == expected, error
    assert "Traceback" not in error
    if arguments.startswith("run"):
        # No recording got the number of the stream, and with it what was printed.
        lines = (files / "out" / "history.jsonl").read_text().splitlines()
        assert all(line.startswith("{") for line in lines)


@pytest.mark.parametrize("arguments", ["check skew.txt", "levels", "check --json fine.txt", "run --transactions 20"])
def test_an_output_that_takes_nothing_is_no_violation(arguments: str, files: Path) -> None:
    found, error = status(f"isolde {arguments} >/dev/full", files)
    assert found == 4
    assert "No space left on device" in error
    assert "Traceback" not in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_a_terminal_without_our_signs_gets_escapes(environment: dict[str, str], files: Path) -> None:
    found, error = status("isolde check skew.txt", files, **environment)
    assert (found, error) == (1, "")


@pytest.mark.parametrize(
    "value", ["abc", "-1", "0", "nan", "inf", "1e999", "", " 1", "1_000", "٣", "99999999999999", "1;2", "0x10"]
)
@pytest.mark.parametrize("scheme", ["postgresql", "mariadb"])
def test_an_odd_connect_timeout_is_refused_in_one_line(scheme: str, value: str) -> None:
    found, _, error = isolde("run", f"{scheme}://me@127.0.0.1:{free_port()}/x?connect_timeout={value}")
    # An empty option is none.
    assert found == (4 if value == "" else 2), error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("value", ["1", "2.5", "007"])
@pytest.mark.parametrize("scheme", ["postgresql", "mariadb"])
def test_an_ordinary_connect_timeout_is_taken(scheme: str, value: str) -> None:
    found, _, error = isolde("run", f"{scheme}://me@127.0.0.1:{free_port()}/x?connect_timeout={value}")
    assert found == 4, error


LONG = "a" * 300


@pytest.mark.parametrize(
    "url",
    [
        "etcd://127.0.0.1:99999",
        f"etcd://{LONG}:1",
        "etcd://a..b:1",
        "redis://127.0.0.1:99999/0",
        f"redis://{LONG}:1",
        "redis://a..b:1",
        "redis://[::1/0",
        f"mariadb://{LONG}:1/x",
        "mariadb://a..b:1/x",
        "mariadb://u@127.0.0.1:1/x?charset=nonsense",
        "mariadb://u@127.0.0.1:1/x?unix_socket=/nowhere",
        "mariadb://u@127.0.0.1:1/x?ssl_ca=/nowhere",
        "mariadb://\ud800@127.0.0.1:1/x",
        "mariadb://u@127.0.0.1:1/a\0b",
        "postgresql://\udcff@127.0.0.1:1/x",
        "postgresql://[::1/x",
        "postgresql://127.0.0.1:1/x?sslmode=nonsense",
        "postgresql://127.0.0.1:1/x?port=abc",
        f"postgresql://{LONG}:1/x",
        "sqlite:a\0b",
        "sqlite:/nowhere/\udcff",
        f"sqlite:{LONG * 20}",
        "duckdb:/nowhere/x",
        "duckdb:a\0b",
    ],
)
@pytest.mark.parametrize("driver", ["MySQLdb", "pymysql"])
def test_odd_addresses_are_refused_in_one_line(url: str, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if driver == "pymysql":
        if not url.startswith("mariadb"):
            return
        monkeypatch.setitem(sys.modules, "MySQLdb", None)
    found, out, error = isolde("run", url)
    assert found in (2, 4), error
    assert (out, len(error.splitlines())) == ("", 1)


class Unforeseen(BaseException):
    """As a panic of the core reaches Python: no Exception."""


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("x"), AssertionError(), Unforeseen("panicked\x1b"), KeyError("k"), UnicodeError("u")]
)
def test_a_mistake_of_our_own_has_a_status_of_its_own(
    error: BaseException, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("isolde.campaigns.check.read", fail)
    found, out, said = isolde("check", str(files / "fine.txt"))
    assert (found, out) == (70, "")
    assert "please report it" in said
    assert type(error).__name__ in said
    assert len(said.splitlines()) == 1
    assert "\x1b" not in said


def test_statuses_are_told_apart() -> None:
    values = [entry.value for entry in Exit]
    assert len(set(values)) == len(values)


def test_a_program_whose_parts_are_missing_finds_no_violation(tmp_path: Path) -> None:
    """An installation without its core, say."""
    broken = tmp_path / "isolde"
    broken.mkdir()
    (broken / "__init__.py").write_text("")
    code = "import sys; sys.modules['isolde._core._native'] = None; sys.argv = ['isolde', 'check', 'x']; import isolde.__main__"
    done = subprocess.run([ISOLDE[0], "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert "Traceback" not in done.stderr
