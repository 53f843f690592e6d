"""Style kept by tests, prose by execution."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

from isolde.engines.check import check
from isolde.findings import Verdict
from isolde.formats import encode
from isolde.history import parse
from isolde.levels import ANOMALIES, IMPLICATIONS, LEVELS, Level, implies

ROOT = Path(__file__).resolve().parent.parent


def python_files() -> list[Path]:
    return sorted((ROOT / "src").rglob("*.py"))


def test_only_the_core_package_imports_the_extension() -> None:
    imports = re.compile(r"^\s*(from|import)\s.*_native", re.MULTILINE)
    outside = [
        file for file in python_files() if file.parent.name != "_core" and imports.search(file.read_text("utf-8"))
    ]
    assert outside == []


def test_only_the_binding_crate_names_pyo3() -> None:
    manifests = [file for file in (ROOT / "crates").glob("*/Cargo.toml") if "pyo3" in file.read_text("utf-8")]
    assert [file.parent.name for file in manifests] == ["python"]


def test_only_the_command_line_prints() -> None:
    prints = re.compile(r"^\s*print\(", re.MULTILINE)
    outside = [file for file in python_files() if file.parent.name != "cli" and prints.search(file.read_text("utf-8"))]
    assert outside == []


# Past this a file may be two ideas: a hint, no limit.
LINES_MANY = 500


def test_long_source_files_are_hinted_at() -> None:
    python = (file for folder in ("src", "tests", "benchmarks") for file in (ROOT / folder).rglob("*.py"))
    sources = [*python, *(ROOT / "crates").rglob("*.rs")]
    lengths = {str(file.relative_to(ROOT)): len(file.read_text("utf-8").splitlines()) for file in sources}
    assert lengths
    long = [f"{name} ({count})" for name, count in sorted(lengths.items()) if count > LINES_MANY]
    if long:
        warnings.warn(f"past {LINES_MANY} lines, perhaps two ideas: {', '.join(long)}", stacklevel=1)


def test_the_readme_example_is_a_write_skew() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    text = re.search(r"```text\n(initial: .*?)```", readme, re.DOTALL)
    assert text is not None
    finding = check(encode(parse(text.group(1))), [Level.SERIALIZABLE]).findings[0]
    assert finding.verdict is Verdict.VIOLATED
    assert [anomaly.name for anomaly in finding.anomalies] == ["write-skew"]


def test_every_level_has_one_row_and_a_citation() -> None:
    assert [entry.level for entry in LEVELS] == list(Level)
    assert all(entry.source and entry.meaning for entry in LEVELS)
    assert all(implication.source for implication in IMPLICATIONS)


def test_implication_is_an_order_without_two_equal_levels() -> None:
    for a in Level:
        assert implies(a, a)
        for b in Level:
            assert a is b or not (implies(a, b) and implies(b, a))
            for c in Level:
                assert not (implies(a, b) and implies(b, c)) or implies(a, c)


def test_snapshot_isolation_and_repeatable_read_are_incomparable() -> None:
    assert not implies(Level.SNAPSHOT_ISOLATION, Level.REPEATABLE_READ)
    assert not implies(Level.REPEATABLE_READ, Level.SNAPSHOT_ISOLATION)


def test_anomaly_names_are_unique_and_cited() -> None:
    names = [entry.name for entry in ANOMALIES]
    assert len(names) == len(set(names))
    assert all(entry.source for entry in ANOMALIES)
