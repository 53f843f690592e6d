"""The example of docs/infer.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import isolde
from isolde.cli.main import cli
from isolde.findings import SafeAt

PAGE = (Path(__file__).parent.parent / "docs" / "infer.md").read_text()
(SHOP,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(PRINTED,) = re.findall(r"```\n(shop on.*?)```", PAGE, re.DOTALL)
IN_PLACE = (
    'UPDATE item SET stock = stock - :wanted WHERE id = :item"',
    'UPDATE item SET stock = stock - :wanted WHERE id = :item AND stock >= :wanted"',
)


def _level(path: Path, database: str, transaction: str) -> str:
    report = isolde.infer(path, database, transactions=[transaction])
    (finding,) = report.findings
    return next(one.level for one in finding.evidence if isinstance(one, SafeAt))


def test_the_example_prints_what_the_page_shows(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(SHOP)
    result = CliRunner().invoke(cli, ["infer", str(file), "--database", "postgresql"], standalone_mode=False)
    assert result.return_value == 0
    assert result.stdout == PRINTED


@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_what_the_page_says_of_other_forms(tmp_path: Path, database: str) -> None:
    file = tmp_path / "shop.py"
    file.write_text(SHOP)
    assert _level(file, database, "buy") == {"postgresql": "repeatable-read", "mariadb": "serializable"}[database]
    assert IN_PLACE[0] in SHOP
    other = tmp_path / "in_place.py"
    other.write_text(SHOP.replace(*IN_PLACE))
    assert _level(other, database, "buy") == "read-committed"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\n", "APPLICATION"),
        ("def f(:\n", "SyntaxError|invalid syntax"),
        (SHOP.replace("SELECT stock FROM item", "SELECT stok FROM item"), "stok"),
        (SHOP.replace("stock < 0", "stok < 0"), "stok"),
        (SHOP.replace("return True", "return open('x')"), "open"),
    ],
)
def test_a_mistake_in_the_file_is_told_in_a_line(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    result = CliRunner().invoke(cli, ["infer", str(file), "--database", "postgresql"], standalone_mode=False)
    assert isinstance(result.exception, isolde.IsoldeError) or result.return_value == 3, result.exception
    shown = str(result.exception or result.stdout)
    assert re.search(told, shown), shown
    assert "\n" not in str(result.exception)
