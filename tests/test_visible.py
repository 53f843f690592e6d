"""Nothing that others wrote reaches the terminal as a command: every sign that is not simply one is escaped."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolde.visible import dumped, safe_lines, visible
from running import ISOLDE, isolde

# Escape sequences, the bell, a return, a newline, C1's own escape, marks that turn text around or hide it, a line of Unicode's.
EVIL = "\x1b[31mred\x07\r\n\x9b2J\u202egnp\u2066\u200b\u2028\x7f"
FORBIDDEN = set(EVIL) - set("[31mred2Jgnp\n")


def clean(text: str) -> bool:
    return not FORBIDDEN & set(text)


@given(st.text())
def test_what_is_visible_is_one_line_that_a_terminal_only_shows(text: str) -> None:
    assert visible(text).isprintable()
    assert visible(visible(text)) == visible(text)


@given(st.text(), st.text())
def test_only_what_is_painted_has_colours(name: str, word: str) -> None:
    shown = safe_lines(lambda paint: [f"{name}: {paint(word, 'red')} {name}"], lambda text, _: f"\x1b[31m{text}\x1b[0m")
    assert shown.count("\x1b") == 2
    assert "\n" not in shown
    assert shown == f"{visible(name)}: \x1b[31m{visible(word)}\x1b[0m {visible(name)}"


@given(st.dictionaries(st.text(), st.text()))
def test_json_is_the_same_and_only_shown(content: dict[str, str]) -> None:
    text = dumped(content)
    assert text.isprintable()
    assert json.loads(text) == content


def skew(name: str) -> str:
    lines = [
        {"isolde": "history", "version": 1, "initial": [[name, 0], ["y", 0]]},
        {"id": f"1{name}", "session": f"a{name}", "ops": [["r", name, 0], ["r", "y", 0], ["w", name, f"v{name}"]]},
        {"id": f"2{name}", "session": f"b{name}", "ops": [["r", name, 0], ["r", "y", 0], ["w", "y", 2]]},
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("more", [(), ("--all-anomalies",), ("--level", "si", "--witness-order"), ("--level", "all")])
def test_a_history_full_of_escapes_is_shown_without_any(as_json: bool, more: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / f"history{EVIL.replace('/', '')}.jsonl"
    path.write_text(skew(EVIL))
    status, out, error = isolde("check", str(path), *more, *(("--json",) if as_json else ()))
    assert status in (0, 1), error
    assert clean(out + error)
    if as_json:
        assert len(out.splitlines()) == 1
    plain = tmp_path / "plain.jsonl"
    plain.write_text(skew("x" * len(visible(EVIL))))
    # As many lines as without: no name adds one.
    if not as_json and not more:
        assert len(out.splitlines()) == len(isolde("check", str(plain))[1].splitlines())


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", f"nothing{EVIL}.jsonl"],
        ["check", "--level", f"ser{EVIL}", "x"],
        ["check", f"--{EVIL}"],
        [f"verb{EVIL}"],
        ["run", f"sqlite:/nowhere/{EVIL}"],
        ["run", f"postgresql://{EVIL}"],
        ["run", f"oracle{EVIL}://x"],
        ["run", "--isolation", EVIL],
        ["run", "--workload", EVIL],
        ["run", "--driver", EVIL.replace("\x00", ""), "--connect", "x"],
        ["workloads", EVIL],
        ["convert", f"a{EVIL}", f"b{EVIL}"],
        ["generate", "-o", f"/nowhere/{EVIL}"],
    ],
    ids=lambda arguments: arguments[0] if arguments[0].isalpha() else "verb",
)
def test_errors_show_what_they_quote_and_nothing_more(arguments: list[str]) -> None:
    status, out, error = isolde(*arguments)
    assert status in (2, 4)
    assert clean(out + error)


def test_a_damaged_line_is_quoted_without_its_escapes(tmp_path: Path) -> None:
    path = tmp_path / "damaged.jsonl"
    path.write_text(json.dumps({"session": EVIL, "ops": [[EVIL, EVIL]]}, ensure_ascii=False) + "\n")
    status, out, error = isolde("check", str(path))
    assert status == 2
    assert clean(out + error)
    assert len(error.splitlines()) == 1


def test_file_names_that_are_no_utf_8_are_shown(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.jsonl"
    Path(os.fsdecode(path)).write_text(skew("x"))
    for more in ((), ("--json",)):
        result = subprocess.run([*ISOLDE, "check", path, path, *more], capture_output=True, check=False)
        assert result.returncode == 1, result.stderr
        assert b"Traceback" not in result.stderr
    assert b"caf\\xe9" in subprocess.run([*ISOLDE, "check", path], capture_output=True, check=False).stdout


def on_a_terminal(tmp_path: Path, **environment: str) -> bytes:
    (tmp_path / "skew.jsonl").write_text(skew("x"))
    leader, follower = pty.openpty()
    command = [*ISOLDE, "check", "skew.jsonl"]
    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    subprocess.run(
        command, cwd=tmp_path, stdout=follower, stderr=follower, env=plain | environment, check=False, timeout=60
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(leader)
    return shown


def test_colours_are_left_out_where_the_user_wants_none(tmp_path: Path) -> None:
    assert b"\x1b[" in on_a_terminal(tmp_path)
    assert b"\x1b[" in on_a_terminal(tmp_path, NO_COLOR="")
    assert b"\x1b" not in on_a_terminal(tmp_path, NO_COLOR="1")
