"""The tutorial is executed as it is printed, and the documentation builds with every link in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "docs" / "tutorial.md").read_text(), re.DOTALL)
# What the page says of each command: its exit status, and words that it prints.
EXPECTED = [
    ("isolde run duckdb: --deletes", 1, "lost an update"),
    ("isolde check --level si found", 1, "lost-update"),
    ("isolde check --level si --witness", 1, "VIOLATED"),
    ("isolde run --schedule", 0, "committed"),
    ("isolde explore --schedule", 0, "serialization-failure"),
    ("isolde run duckdb: --keys", 0, "kept its promise"),
    ("pytest", 0, "1 passed"),
]


def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    files = {"json": "lost.json", "python": "test_stock.py"}
    commands = []
    for kind, text in BLOCKS:
        if kind in files:
            (tmp_path / files[kind]).write_text(text)
        else:
            commands.append(text.strip())
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
    }
    for command, (beginning, status, said) in zip(commands, EXPECTED, strict=True):
        assert command.startswith(beginning)
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False, env=environment
        )
        assert done.returncode == status, f"{command}\n{done.stdout}{done.stderr}"
        assert said in re.sub(r"\s+", " ", done.stdout + done.stderr), f"{command}\n{done.stdout}{done.stderr}"
    assert "<!doctype html>" in (tmp_path / "found.html").read_text()
    assert (tmp_path / "small.jsonl").exists()


def test_the_documentation_builds_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    assert (site / "tutorial.html").exists()
    commands = (site / "reference" / "commands.html").read_text()
    for told in ("isolde check", "--until-violation", "--certificate"):
        assert told in commands
    assert "snapshot-isolation" in (site / "reference" / "levels.html").read_text()
    assert "READ COMMITTED" in (site / "reference" / "databases.html").read_text()


def test_links_out_of_the_documentation_lead_to_files() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        for target in re.findall(r"\]\((\.\.[^)#\s]*)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
