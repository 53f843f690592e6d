"""How many transactions a second of processor time the store runs: the bank's transfers and TPC-C's new-orders.

Each is run compiled, and as the plain Python function that it is written as. Of the plain ones it is also measured which share of
the time goes into reading SQL: each text is read once, so it should not be seen.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable
from random import Random
from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.concrete import Store, call_function
from isolde.tx.dialects import Dialect
from isolde.workloads import application_named
from isolde.workloads.application import Application, Part

CASES = (("bank", "transfer", 30_000, 20_000), ("tpcc", "new_order", 3_000, 1_500))
"""Application, transaction, how many, and how many a second are wanted."""
READING = ("sqlglot", "isolde/tx/sql")


def filled(application: Application, dialect: Dialect) -> Store:
    store = Store(application.schema, dialect)
    for table, row in application.populate(Random(1), application.scale):
        store.load(table, [row])
    return store


def compiled(application: Application, store: Store, part: Part) -> Callable[[dict[str, Any]], object]:
    return lambda arguments: store.call(application.program, part.name, arguments)


def plain(_: Application, store: Store, part: Part) -> Callable[[dict[str, Any]], object]:
    def call(arguments: dict[str, Any]) -> object:
        try:
            return call_function(store, part.transaction, **arguments)
        except ExecutionError as error:
            return error

    return call


def rate(call: Callable[[dict[str, Any]], object], inputs: list[dict[str, Any]]) -> float:
    call(inputs[0])
    start = time.process_time()
    for arguments in inputs[1:]:
        call(arguments)
    return (len(inputs) - 1) / (time.process_time() - start)


def share_of_reading(call: Callable[[dict[str, Any]], object], inputs: list[dict[str, Any]]) -> float:
    profile = cProfile.Profile()
    profile.runcall(lambda: [call(arguments) for arguments in inputs])
    total = reading = 0.0
    for (file, _, _), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        total += own
        reading += own if any(part in file for part in READING) else 0.0
    return reading / total


def main() -> None:
    for name, transaction, count, wanted in CASES:
        application = application_named(name)
        part = next(part for part in application.parts if part.name == transaction)
        random = Random(2)
        inputs = [part.arguments(random, application.scale) for _ in range(count)]
        for dialect in Dialect:
            fast = rate(compiled(application, filled(application, dialect), part), inputs)
            slow = rate(plain(application, filled(application, dialect), part), inputs)
            share = share_of_reading(plain(application, filled(application, dialect), part), inputs[:2_000])
            print(
                f"{transaction:10} {dialect.value:11} compiled {fast:8,.0f}, as Python {slow:8,.0f} a second of one core"
                f" (wanted {wanted:,}); reading SQL {share:.1%}"
            )


if __name__ == "__main__":
    main()
