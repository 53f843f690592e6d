"""The Python examples of docs/language.md run as they are printed."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "language.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) >= 3
    script = tmp_path / "examples.py"
    script.write_text("\n\n".join(examples))
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(script))
    assert names["store"].state()["course"] == [(1, 26)]
    assert names["enroll"].procedure.body[0].__class__.__name__ == "Fetch"
