"""docs/extending.md: its examples run, and every file that it, or another page, names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "extending.md").read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_example_runs(block: str) -> None:
    exec(block, {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_the_page_names_are_there(page: Path) -> None:
    named = re.findall(r"`((?:src|crates|tests|benchmarks|tools|docs|examples)/[\w./-]+)`", page.read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []
