"""The example of docs/audit.md is what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import isolde
from isolde.findings import FailingPrefix

PAGE = (Path(__file__).parent.parent / "docs" / "audit.md").read_text()


def test_the_log_of_the_page_is_wrong_as_it_says(tmp_path: Path) -> None:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "log.jsonl"
    path.write_text(block)
    report = isolde.audit(path, "strict-si")
    (shown,) = report.findings[0].evidence
    assert isinstance(shown, FailingPrefix)
    assert (shown.length, shown.expected, shown.observed) == (3, ((410,),), ((420,),))
    text = " ".join(isolde.show(report).split())
    for sentence in re.findall(r"Statement 0 of t3.*?410", " ".join(PAGE.split())):
        assert sentence in text
