"""The first sentence of a run: what the level's name promises, and whether that was met."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from isolde.databases.servers import Running
from isolde.levels import Level
from isolde.levels.promises import PROMISES, promise_of
from running import isolde, ran

HARD = ("--keys", "3", "--transactions", "600", "--isolation", "repeatable-read")


def test_a_level_that_keeps_its_promise_says_so(tmp_path: Path) -> None:
    result = ran(tmp_path / "run", "sqlite:", "--transactions", "100", "--isolation", "immediate")
    assert result.run["lead"] == "SQLite at 'immediate' kept its promise in 100 transactions."


def test_mariadb_s_repeatable_read_leads_with_the_lost_update(tmp_path: Path, server: Callable[[str], Running]) -> None:
    result = ran(tmp_path / "run", server("mariadb").url, *HARD)
    assert (result.status, result.verdicts) == (0, ["satisfied"])
    lead = result.run["lead"]
    assert lead.startswith("REPEATABLE READ of MariaDB lost an update: ")
    assert "claims no more than prefix" in lead
    assert "repeatable-read (Adya's PL-2.99" in lead


def test_what_the_first_sentence_tells_is_drawn_on_the_page(tmp_path: Path, server: Callable[[str], Running]) -> None:
    words = (*HARD, "-o", str(tmp_path / "run"), "--report", str(tmp_path / "r.html"))
    status, text, _ = isolde("run", server("mariadb").url, *words)
    assert (status, "# shows the lost-update" in text) == (0, True), text
    page = (tmp_path / "r.html").read_text()
    assert page.count("<figure data-figure") == 1
    assert "lost-update, which" in page


def test_what_breaks_the_claim_leads(tmp_path: Path, server: Callable[[str], Running]) -> None:
    result = ran(tmp_path / "run", server("mariadb").url, *HARD, "--check", "si")
    assert result.status == 1
    assert result.run["lead"].startswith("REPEATABLE READ of MariaDB lost an update: ")
    status, text, _ = isolde("run", server("mariadb").url, *HARD, "--check", "si", "-o", str(tmp_path / "again"))
    assert (status, text.startswith("REPEATABLE READ of MariaDB")) == (1, True)


def test_every_name_of_the_standard_has_a_promise() -> None:
    assert [one.name for one in PROMISES] == [
        "read-uncommitted",
        "read-committed",
        "repeatable-read",
        "snapshot",
        "serializable",
    ]
    found = promise_of("serializable")
    assert found is not None
    assert found.literature is Level.SERIALIZABLE
    assert promise_of("immediate") is None
