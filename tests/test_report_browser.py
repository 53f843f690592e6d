"""Pages of reports in a real browser: what the pointer and the keys light up, steps back and forth, and nothing that fails."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from test_cli import isolde
from test_reports import SKEW

_CHROMIUM, _DRIVER = "chromium", "chromedriver"
# As root Chromium has no sandbox of its own, and it is to ask nobody for anything.
_OPTIONS = (
    "headless",
    "no-sandbox",
    "disable-gpu",
    "disable-quic",
    "no-first-run",
    "disable-background-networking",
    "disable-component-update",
    "disable-sync",
    "window-size=1280,1400",
)
SCHEDULE = {
    "schema": ["create table test (id int primary key, value int)"],
    "rows": {"test": [[1, 10], [2, 20]]},
    "sessions": {"T1": "read committed", "T2": "read committed"},
    "steps": [
        ["T1", "begin"],
        ["T2", "begin"],
        ["T1", "update test set value = 11 where id = 1"],
        ["T2", "update test set value = 12 where id = 1"],
        ["T1", "commit"],
        ["T2", "commit"],
    ],
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if shutil.which(_CHROMIUM) is None or shutil.which(_DRIVER) is None:
        pytest.skip("there is no Chromium; tools/servers.sh installs it")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for option in _OPTIONS:
        options.add_argument(f"--{option}")
    options.binary_location = str(shutil.which(_CHROMIUM))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(shutil.which(_DRIVER))))
    yield driver
    log: list[Any] = driver.get_log("browser")  # type: ignore[no-untyped-call, unused-ignore]
    assert log == []
    driver.quit()


def opened(browser: Any, path: Path) -> Any:
    browser.get(path.as_uri())
    return browser


def classes(browser: Any, selector: str) -> list[str]:
    found: list[str] = browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map(one => one.textContent.trim())", selector
    )
    return found


@pytest.fixture(scope="module")
def skew_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("page")
    (place / "h.txt").write_text(SKEW)
    assert isolde("check", str(place / "h.txt"), "--level", "all", "--report", str(place / "r.html")).status == 1
    return place / "r.html"


def test_an_arrow_says_why_it_is_there_and_lights_its_two_operations_up(browser: Any, skew_page: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    page = opened(browser, skew_page)
    hint = classes(page, "figure .says")[0]
    arrow = page.find_element(By.CSS_SELECTOR, ".arrow.rw .plate")
    ActionChains(page).move_to_element(arrow).perform()
    lit = classes(page, ".op.on text")
    assert len(lit) == 2
    assert lit[0].split()[1] == lit[1].split()[1]
    said = classes(page, "figure .says.told")
    assert "which" in said[0]
    assert said[0] != hint
    ActionChains(page).move_to_element(page.find_element(By.TAG_NAME, "h1")).perform()
    assert classes(page, ".on") == []
    assert classes(page, "figure .says")[0] == hint


def test_a_transaction_lights_up_in_the_graph_and_on_the_timeline(browser: Any, skew_page: Path) -> None:
    page = opened(browser, skew_page)
    page.execute_script("document.querySelector('.timeline .txn').focus()")
    assert len(classes(page, "figure:first-of-type .graph .txn.on")) == 1
    assert len(classes(page, "figure:first-of-type .timeline .txn.on")) == 1


def test_the_keys_alone_reach_every_arrow(browser: Any, skew_page: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    page = opened(browser, skew_page)
    wanted = page.execute_script("return document.querySelectorAll('.arrow').length")
    seen = set()
    for _ in range(200):
        ActionChains(page).send_keys(Keys.TAB).perform()
        place = page.execute_script(
            "const one = document.activeElement.closest('.arrow');"
            "return one && one.closest('figure').dataset.figure + ' ' + one.dataset.arrow"
        )
        if place:
            seen.add(place)
    assert len(seen) == wanted > 0


def test_light_and_dark_are_told_apart(browser: Any, skew_page: Path) -> None:
    from selenium.webdriver.common.by import By

    page = opened(browser, skew_page)
    colour = "return getComputedStyle(document.body).backgroundColor"
    before = page.execute_script(colour)
    page.find_element(By.CSS_SELECTOR, ".theme").click()
    assert page.execute_script(colour) != before
    page.find_element(By.CSS_SELECTOR, ".theme").click()
    assert page.execute_script(colour) == before


def test_nothing_is_wider_than_a_narrow_screen(browser: Any, skew_page: Path) -> None:
    page = opened(browser, skew_page)
    page.set_window_size(520, 900)
    wide = page.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    page.set_window_size(1280, 1400)
    assert wide <= 0


def test_an_interleaving_is_stepped_back_and_forth(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    (tmp_path / "s.json").write_text(json.dumps(SCHEDULE))
    asked = ("explore", "--schedule", str(tmp_path / "s.json"), "--store", "postgresql")
    assert isolde(*asked, "--report", str(tmp_path / "r.html")).status == 0
    page = opened(browser, tmp_path / "r.html")
    assert classes(page, ".waits") == ["… waits for T1"]
    assert classes(page, ".where") == ["6 of 6 steps"]
    page.find_element(By.CSS_SELECTOR, "[data-go=first]").click()
    assert classes(page, ".where") == ["0 of 6 steps"]
    assert len(classes(page, ".steps tr.later")) == 6
    stepper = page.find_element(By.CSS_SELECTOR, ".stepper")
    for _ in range(3):
        stepper.send_keys(Keys.ARROW_RIGHT)
    assert classes(page, ".where") == ["3 of 6 steps"]
    assert classes(page, ".states section:not([hidden]) h5") == ["At the beginning"]
    page.find_element(By.CSS_SELECTOR, "[data-go=last]").click()
    assert classes(page, ".states section:not([hidden]) .new td") == ["1", "12"]


def test_a_counterexample_on_a_database_shows_the_rows_after_each_step(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By

    program = ("explore", "courseware", "--sessions", "enroll(1,1)", "--sessions", "deregister(1)")
    asked = (*program, "--store", "postgresql", "--isolation", "read-committed")
    assert isolde(*asked, "--report", str(tmp_path / "r.html")).status == 1
    page = opened(browser, tmp_path / "r.html")
    assert len(classes(page, ".states section")) > 1
    page.find_element(By.CSS_SELECTOR, "[data-go=first]").click()
    assert classes(page, ".states section:not([hidden]) h5") == ["At the beginning"]


def test_a_link_opens_the_result_that_it_leads_to(browser: Any, skew_page: Path, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By

    history = skew_page.parent / "h.txt"
    for number in range(2):
        isolde("check", str(history), "--report", str(tmp_path / f"{number}.json"))
    (tmp_path / "all.html").write_text(isolde("show", str(tmp_path), "--html").out)
    page = opened(browser, tmp_path / "all.html")
    page.find_element(By.CSS_SELECTOR, ".many .chip").click()
    assert page.execute_script("return document.getElementById('report-0').open")
