"""The examples of docs/explore.md do what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import isolde

PAGE = (Path(__file__).parent.parent / "docs" / "explore.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def _files(where: Path) -> None:
    for block in BLOCKS:
        named = re.match(r"# (\w+\.py)\n", block)
        if named:
            (where / named[1]).write_text(block)


def test_the_deposits_are_lost_at_read_committed_alone(tmp_path: Path) -> None:
    _files(tmp_path)
    report = isolde.explore(tmp_path / "deposits.py", level=["rc", "si", "ser"])
    assert [finding.verdict.value for finding in report.findings] == ["violated", "satisfied", "satisfied"]


def test_the_account_is_overdrawn_at_read_committed_alone(tmp_path: Path) -> None:
    _files(tmp_path)
    report = isolde.explore(tmp_path / "bank.py", level=["rc", "si"])
    assert [finding.verdict.value for finding in report.findings] == ["violated", "satisfied"]


def test_the_example_in_python_runs(tmp_path: Path) -> None:
    _files(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", BLOCKS[-1]], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "lost-update" in done.stdout
