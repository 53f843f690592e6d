"""The examples of docs/certify.md do what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from isolde.formats.certificates import parse_certificate
from running import isolde

PAGE = (Path(__file__).parent.parent / "docs" / "certify.md").read_text()


def test_the_file_shown_is_a_certificate() -> None:
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert parse_certificate(text.encode()).certificate.commits == ("t3", "t1", "t9")


def test_the_commands_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (text,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for part in re.split(r"^\$ isolde ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        printed = isolde(*shlex.split(command))[1]
        pattern = re.escape(expected.strip()).replace("…", r"[^\n]*")
        assert re.fullmatch(pattern, printed.strip()), printed


def test_the_example_in_python_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {})
