"""SmallBank, Courseware and TPC-C on the store models: the invariants that break are those of the table in docs/stores.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Servers
from store_applications import APPLICATIONS, LEVELS, Level, broken, explored, ran, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "stores.md"
RUN_S = 8.0


def told() -> dict[tuple[str, str], set[str]]:
    """What the page says: the invariants that break, by application and level."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    found = {(row[0], row[1]): set(row[2].split(", ")) - {"none"} for row in rows if row[0] in APPLICATIONS}
    assert set(found) == {(name, str(level)) for name in APPLICATIONS for level in LEVELS}
    return found


@pytest.mark.parametrize("level", LEVELS, ids=str)
def test_courseware_breaks_what_the_page_says(level: Level) -> None:
    assert set(broken("courseware", level)) == told()["courseware", str(level)]


@pytest.mark.parametrize("store", ["postgresql", "mariadb"])
def test_a_delivery_delivers_every_line_of_an_order(store: str) -> None:
    """The lines are found by the first columns of their key; alone, a delivery breaks nothing."""
    found = explored("tpcc", ["delivery(1, 3, 1700000000, 1)"], Level(store, "read committed"))
    assert (len(found.outcomes), found.violations) == (1, {})


@pytest.mark.long
def test_the_page_has_the_table_that_is_computed() -> None:
    # The page has one more column: what broke in runs.
    lines = PAGE.read_text().splitlines()
    assert [line for line in table() if not any(shown.startswith(line) for shown in lines)] == []


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS, ids=str)
@pytest.mark.parametrize("name", APPLICATIONS)
def test_runs_on_servers_break_nothing_that_the_models_keep(servers: Servers, name: str, level: Level) -> None:
    servers.shared(level.store)
    assert set(ran(name, level, RUN_S)) <= told()[name, str(level)]
