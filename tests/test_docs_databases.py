"""The adapter that the documentation shows is a whole one: it is found by its entry point, and keeps the contract."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which the documentation's adapter is installed, as another package would bring it."""
    text = (DOCS / "databases.md").read_text("utf-8")
    adapter, test = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (points,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    line = re.search(r'^(\w+) = "(.*)"$', points, re.MULTILINE)
    assert line is not None
    (tmp_path / "notebook.py").write_text(adapter)
    (tmp_path / "test_notebook.py").write_text(test)
    metadata = tmp_path / "notebook-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: notebook\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[isolde.databases]\n{line[1]} = {line[2]}\n")
    return os.environ | {"PYTHONPATH": str(tmp_path)}


def _python(code: str, folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_documented_adapter_is_found_listed_and_run(installed: dict[str, str], tmp_path: Path) -> None:
    program = "from isolde.cli import program; program()"
    listed = json.loads(_python(program, tmp_path, installed, "databases", "--json").stdout)["databases"]
    assert listed[-1]["name"] == "notebook"
    ran = _python(program, tmp_path, installed, "run", "notebook:", "--json", "-o", "out")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["results"][0]["verdict"] == "satisfied"


def test_the_documented_adapter_keeps_the_contract(installed: dict[str, str], tmp_path: Path) -> None:
    result = _python("import test_notebook; test_notebook.test_the_contract_is_kept()", tmp_path, installed)
    assert result.returncode == 0, result.stderr


def test_an_entry_point_that_cannot_be_loaded_is_named(installed: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "notebook.py").write_text("import nothing_of_that_name\n")
    result = _python("from isolde.cli import program; program()", tmp_path, installed, "databases")
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert "'notebook' (notebook:ADAPTER) cannot be loaded" in result.stderr
