"""How many steps a second a player plays, against the same statements sent one after another by one connection.

python benchmarks/schedules.py [postgresql | mariadb | sqlite | duckdb]
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import Any

from isolde.databases import Kind, Table, open_database
from isolde.databases.servers import start
from isolde.engines.play import Player
from isolde.formats.schedules import schedule_of

SCHEMA = {"schema": ["create table test (id int primary key, value int)"], "rows": {"test": [[1, 10], [2, 20]]}}
PLAIN = [
    *(["T1", "begin"], ["T1", "update test set value = value + 1 where id = 1"], ["T2", "begin"]),
    *(["T2", "select * from test"], ["T1", "select * from test"], ["T1", "commit"]),
    *(["T2", "update test set value = value + 1 where id = 2"], ["T2", "commit"]),
]
WAITING = [
    *(["T1", "begin"], ["T1", "update test set value = 11 where id = 1"], ["T2", "begin"]),
    *(["T2", "update test set value = 12 where id = 1"], ["T1", "select * from test"], ["T1", "commit"]),
    *(["T2", "select * from test"], ["T2", "commit"]),
]
FAST: dict[str, dict[str, Any]] = {
    "postgresql": {"fsync": "off"},
    "mariadb": {"innodb_flush_log_at_trx_commit": 0, "innodb_flush_method": "nosync"},
}
SECONDS = 4.0


def main() -> None:
    kind = sys.argv[1] if len(sys.argv) > 1 else "postgresql"
    with ExitStack() as stack:
        url = stack.enter_context(start(kind, **FAST[kind])).url if kind in FAST else f"{kind}:"
        adapter, database = open_database(url)
        stack.callback(database.close)
        connection: Any = database.connect(Table("", Kind.REGISTERS, 0))
        alone = _rate(lambda: [connection.execute("select 1") for _ in PLAIN])
        print(f"{kind}: one connection, select 1: {alone:,.0f} statements/s")
        with Player(adapter, database) as player:
            for name, steps in (("nothing waits", PLAIN), ("one step waits", WAITING)):
                schedule = schedule_of(SCHEMA | {"steps": steps})
                rate = _rate(lambda schedule=schedule: player.play(schedule).steps)
                print(
                    f"{kind}: {name}: {rate:,.0f} steps/s with tables made anew each time, 1/{alone / rate:.1f} of that"
                )
        connection.close()


def _rate(play: Any) -> float:
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < SECONDS:
        count += len(play())
    return count / (time.perf_counter() - begun)


if __name__ == "__main__":
    main()
