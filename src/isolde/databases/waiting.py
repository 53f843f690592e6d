"""Limits on waiting for a database: it may hold a lock, hang, or be cut off, and whoever waits has to come back all the same.

A call inside of a driver's C library hears no signal until it returns. So what is asked of a database outside of the sessions is
broken off from another thread after a while (``patiently``), and the main thread only waits for it (``aside``), so that Ctrl-C
is heard at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from isolde.errors import ConnectionLost, DatabaseUnavailable

STATEMENT_S = 10.0
"""How long a statement that makes, looks at or removes something of ours is waited for."""
FILL_S = 60.0
"""And one that fills a table, or looks through all of it."""
LOCK_S = 8.0
"""How long the database itself may wait for a lock meanwhile: a little less, so that it can tell what it waited for."""
ASIDE_S = 30.0
"""How long all of it may take, whatever its driver thinks of limits: longer than a connection and its statements may."""

T = TypeVar("T")


class Breakable(Protocol):
    def abandon(self) -> None: ...


@contextmanager
def patiently(connection: Breakable, seconds: float = STATEMENT_S, hint: str = "") -> Iterator[None]:
    """What is asked of the connection in here is broken off after so many seconds, with ``DatabaseUnavailable``."""
    over = threading.Event()

    def give_up() -> None:
        over.set()
        connection.abandon()

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except ConnectionLost:
        if not over.is_set():
            raise
        raise DatabaseUnavailable(f"the database did not answer within {seconds:g} s{hint}") from None
    finally:
        timer.cancel()


def aside(action: Callable[[], T], seconds: float | None = None, free: Callable[[], None] | None = None) -> T:
    """Does it in a thread of its own and waits for it, hearing signals; ``DatabaseUnavailable`` if it takes longer.

    What does not come back is left to itself: its thread keeps nobody from ending the program. At Ctrl-C, ``free`` breaks it off,
    and it gets a moment to undo what it did.
    """
    found: list[T] = []
    failed: list[BaseException] = []
    over = threading.Event()

    def work() -> None:
        try:
            found.append(action())
        except BaseException as error:
            failed.append(error)
        finally:
            over.set()

    threading.Thread(target=work, daemon=True).start()
    try:
        over.wait(seconds)
    except KeyboardInterrupt:
        if free is not None:
            free()
            over.wait(STATEMENT_S)
        raise
    if failed:
        raise failed[0]
    if not found:
        raise DatabaseUnavailable(f"the database did not answer within {seconds:g} s")
    return found[0]
