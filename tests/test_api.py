"""The library: every example of docs/api.md runs, every name is there, and importing it loads nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import isolde
from isolde import History, Level, Read, Transaction, Verdict, Write
from isolde.errors import InputError, UsageError

PAGE = Path(__file__).parent.parent / "docs" / "api.md"
HEAVY = (
    "click",
    "sqlglot",
    "isolde._core",
    "isolde.findings",
    "isolde.databases",
    "isolde.semantics",
    "isolde.tx",
    "z3",
)


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def test_the_examples_run_as_they_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    assert len(examples()) >= 8
    for number, example in enumerate(examples()):
        exec(compile(example, f"{PAGE.name}, example {number}", "exec"), names)


def loaded_after(code: str) -> list[str]:
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=60)
    modules: list[str] = json.loads(done.stdout)
    return modules


def test_importing_the_library_loads_nothing_of_it() -> None:
    assert [name for name in loaded_after("import isolde") if name.startswith("isolde.") or name in HEAVY] == []


def test_checking_loads_no_database_and_no_sql() -> None:
    code = "import isolde\nassert isolde.check([isolde.Transaction(0, 0, ())]).satisfied"
    loaded = loaded_after(code)
    assert [name for name in HEAVY if name in loaded] == ["isolde._core", "isolde.findings"]


def test_every_name_of_the_library_is_there_and_on_its_page() -> None:
    page = PAGE.read_text("utf-8")
    for name in isolde.__all__:
        assert getattr(isolde, name).__name__ == name
        assert name in dir(isolde)
        assert re.search(rf"\b{name}\b", page), f"docs/api.md does not speak of {name}"
    with pytest.raises(AttributeError, match="no attribute 'chekc'"):
        _ = isolde.chekc


def test_a_list_of_transactions_is_checked_without_a_file() -> None:
    lost = [Transaction(n, n, (Read("x", None), Write("x", n))) for n in (1, 2)]
    assert isolde.check(lost, "si").verdict is Verdict.VIOLATED
    assert isolde.check(iter(lost), Level.CAUSAL).satisfied
    assert isolde.check([]).satisfied
    assert {t.id for t in isolde.check(lost, "si").exhibit} == {1, 2}


def test_what_cannot_be_asked_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'serializable'"):
        isolde.check([], "serialisable")
    with pytest.raises(UsageError, match="has no option 'sesions'; it has workload"):
        isolde.run("sqlite:", sesions=3)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="has no option 'keyz'"):
        isolde.generate(keyz=3)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="no fault 'fire'"):
        isolde.run("sqlite:", faults=["fire"])
    with pytest.raises(InputError, match="No such file"):
        isolde.load(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"none\.jsonl"):
        isolde.check(tmp_path / "none.jsonl")


def test_mixed_keys_are_refused_by_name() -> None:
    from isolde import Append, IsoldeError

    mixed = History((Transaction(0, 0, (Append("x", 1),)), Transaction(1, 0, (Write("x", 1),))))
    with pytest.raises(IsoldeError, match="an operation on registers"):
        isolde.check(mixed)
