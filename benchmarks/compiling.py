"""How long a statement takes to be compiled for the store, and a script of many rows to be read and compiled.

Statements whose generated code has the same text share what Python's own compiler makes of it: the first of them pays for it,
the others do not. The script is also run a second time with other literals: a statement of a known shape is neither read nor
compiled again. The update and the insert are plain changes: what is timed is their closures, and not the code that is
generated for a change which runs often.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from isolde.semantics.concrete import Store
from isolde.semantics.concrete.code import python_code
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema, statement

TABLES = """CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), c INT);
CREATE TABLE u (id INT PRIMARY KEY, t_id INT, v INT);"""
STATEMENTS = {
    "point select": "SELECT a, b FROM t WHERE id = :x",
    "update": "UPDATE t SET a = a + :x WHERE id = :x",
    "join": "SELECT t.a, u.v FROM t JOIN u ON u.t_id = t.id WHERE t.id = :x ORDER BY u.v",
    "insert": "INSERT INTO t (id, a, b, c) VALUES (:x, 1, 'abc', 2)",
}
ROWS, COLUMNS = 100, 10


def best_us(call: Callable[[], object], rounds: int) -> float:
    """Microseconds of processor time of one call: the best of four rounds."""
    best = float("inf")
    for _ in range(4):
        start = time.process_time()
        for _ in range(rounds):
            call()
        best = min(best, (time.process_time() - start) / rounds)
    return best * 1e6


def forgetting(compiling: Callable[[], object]) -> None:
    """Compiles as if no statement with the same generated code had been compiled before."""
    python_code.cache_clear()
    compiling()


def rows_text(first: int) -> str:
    """An INSERT of a hundred rows of ten columns; ``first``: the first key."""
    rows = (
        [
            str(first + row),
            *(str(first + row * column) if column % 2 else f"'text {row}'" for column in range(1, COLUMNS)),
        ]
        for row in range(ROWS)
    )
    return "INSERT INTO w VALUES " + ", ".join(f"({', '.join(row)})" for row in rows)


def main() -> None:
    for dialect in Dialect:
        store = Store(schema(TABLES, dialect), dialect)
        for name, text in STATEMENTS.items():
            node = statement(text, dialect)
            compiling = partial(store.compiled.statement, node, {"x": 1})
            first, next_ = best_us(partial(forgetting, compiling), 200), best_us(compiling, 200)
            print(f"{dialect.value:11} {name:13} the first of its form {first:4.0f} µs, another one {next_:4.0f} µs")
        columns = ", ".join(f"c{place} {'INT' if place % 2 else 'VARCHAR(30)'}" for place in range(1, COLUMNS))
        wide = Store(schema(f"CREATE TABLE w (k INT PRIMARY KEY, {columns});", dialect), dialect).transaction()
        first, second = (best_once(wide.run_text, rows_text(place * 1000)) for place in range(2))
        print(
            f"{dialect.value:11} {ROWS} rows of {COLUMNS} columns: {first:.1f} ms, and with other values {second:.1f} ms"
        )


def best_once(run: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    run(text)
    return (time.process_time() - start) * 1e3


if __name__ == "__main__":
    main()
