"""The example of docs/pytest.md passes and fails as the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parent.parent / "docs" / "pytest.md").read_text()


def test_the_example_passes_at_the_stronger_levels_alone(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n# test_bank.py\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "test_bank.py").write_text(block)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert "2 failed, 2 passed" in done.stdout
    for failed in ("negative[snapshot-isolation]", "negative[postgresql:read-committed]"):
        assert failed in done.stdout
