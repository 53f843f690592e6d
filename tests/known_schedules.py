"""What real servers answer to the schedules of ``corpus/schedules``, at each of their levels.

    python tests/known_schedules.py [NAME]...   # plays all of them, or these, on private servers and writes their answers anew

A schedule has several outcomes where the server may choose, as the victim of a deadlock in PostgreSQL; each is recorded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from isolde.databases import open_database
from isolde.databases.servers import start
from isolde.engines.play import Player
from isolde.formats.schedules import played_document, read_schedules
from isolde.history.json_text import json_text
from isolde.history.schedule import Played, Schedule

SCHEDULES = Path(__file__).resolve().parent.parent / "corpus" / "schedules"
STORES = ("postgresql", "mariadb")
LEVELS = ("read-uncommitted", "read-committed", "repeatable-read", "serializable")
SNAPSHOTS = "repeatable-read, innodb_snapshot_isolation=ON"
"""A level of its own: MariaDB's setting, which the URL of a database may carry."""
FAST: dict[str, dict[str, Any]] = {
    "postgresql": {"fsync": "off"},
    "mariadb": {"innodb_flush_log_at_trx_commit": 0, "innodb_flush_method": "nosync"},
}
_TRIES = 12


def names() -> list[str]:
    return sorted(file.stem for file in SCHEDULES.glob("*.json"))


def stores_of(name: str) -> tuple[str, ...]:
    """Where a schedule can be played: everywhere, unless its SQL is of one database alone."""
    meta = json.loads((SCHEDULES / f"{name}.json").read_text("utf-8"))["meta"]
    return tuple(meta.get("stores", STORES))


def schedule_named(name: str) -> Schedule:
    (schedule,) = read_schedules(str(SCHEDULES / f"{name}.json")).schedules
    return schedule


def levels_of(store: str) -> tuple[str, ...]:
    return (*LEVELS, SNAPSHOTS) if store == "mariadb" else LEVELS


def at_level(schedule: Schedule, level: str) -> Schedule:
    named = level.partition(",")[0]
    return replace(schedule, sessions=dict.fromkeys(schedule.sessions, named))


def url_at(url: str, level: str) -> str:
    return f"{url}?innodb_snapshot_isolation=ON" if level == SNAPSHOTS else url


def outcome(played: Played) -> dict[str, Any]:
    """What is compared: everything but the server's words, and for whom it waited, which not every server tells."""
    document = played_document(played)
    for step in document["steps"]:
        step.pop("message", None)
        step.pop("waited_for", None)
        step.pop("sql")
    loaded: dict[str, Any] = json.loads(json_text(document))
    return loaded


def answers_of(name: str, store: str) -> dict[str, list[dict[str, Any]]]:
    """The outcomes at each level, as they were recorded."""
    loaded: dict[str, list[dict[str, Any]]] = json.loads(_file(name, store).read_text("utf-8"))
    return loaded


def _file(name: str, store: str) -> Path:
    return SCHEDULES / "answers" / f"{name}.{store}.json"


def played_at(player: Player, name: str, level: str, tries: int) -> Iterator[dict[str, Any]]:
    schedule = at_level(schedule_named(name), level)
    for _ in range(tries):
        yield outcome(player.play(schedule))


def _record(store: str, chosen: list[str]) -> None:
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    with start(store, **FAST[store]) as server:
        for level in levels_of(store):
            adapter, database = open_database(url_at(server.url, level))
            with closing(database), Player(adapter, database) as player:
                for name in chosen:
                    if store in stores_of(name):
                        outcomes = found.setdefault(name, {}).setdefault(level, [])
                        for one in played_at(player, name, level, _TRIES):
                            if one not in outcomes:
                                outcomes.append(one)
    for name, levels in found.items():
        _file(name, store).write_text(_written(levels))
        for level, outcomes in levels.items():
            if len(outcomes) > 1:
                print(f"{name} on {store} at {level}: {len(outcomes)} outcomes")


def _written(levels: dict[str, list[dict[str, Any]]]) -> str:
    """A step a line, so that a difference can be read."""
    texts = []
    for level, outcomes in levels.items():
        shown = []
        for one in outcomes:
            steps = ",\n    ".join(json_text(step) for step in one["steps"])
            shown.append('{"steps": [\n    ' + steps + '],\n   "rows": ' + json_text(one["rows"]) + "}")
        texts.append(f'"{level}": [\n  ' + ",\n  ".join(shown) + "]")
    return "{" + ",\n ".join(texts) + "}\n"


if __name__ == "__main__":
    for store in STORES:
        _record(store, sys.argv[1:] or names())
