"""Several sessions stepped statement by statement, in an order that the caller chooses.

Each session has a thread of its own. A statement that does not return within the patience is *blocked*, as a rule by a lock that
another session holds; the caller goes on with the others, and what it asks of the blocked session meanwhile is done when
that one is free again. A transaction begins with a session's first statement, and another one with the first after its
commit. A session that the database aborted does nothing more, and its commit is a rollback.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from isolde.databases.contract import Connection, Offer
from isolde.errors import Aborted, ConnectionLost, IsoldeError

PATIENCE_S = 0.3
# After this, a session that is still blocked is given up: every database here breaks a deadlock or a wait by itself before.
_SETTLE_S = 20.0


class End(StrEnum):
    """What became of a session's transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True)
class Step:
    """One statement of a session; ``answered`` says, once ``done`` is set, whether it ran and ``result`` is what it returned."""

    action: Callable[[Connection], Any]
    done: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    blocked: bool = False
    answered: bool = False


class SteppedSession:
    """A session and its thread. ``reason`` says why the database aborted its transaction."""

    def __init__(self, connection: Connection, offer: Offer) -> None:
        self.end = End.OPEN
        self.reason = ""
        self.failure: BaseException | None = None
        self._connection, self._offer = connection, offer
        self._begun = False
        self._steps: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
        self._last: Step | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def do(self, action: Callable[[Connection], Any]) -> Step:
        """Asks for a statement; it may have to wait behind an earlier one."""
        step = Step(action)
        self._last = step
        self._steps.put(step)
        return step

    def commit(self) -> Step:
        return self.do(self._commit)

    def roll_back(self) -> Step:
        return self.do(self._roll_back)

    def idle(self, within_s: float) -> bool:
        """Whether everything that was asked is done, waiting a little for it."""
        return self._last is None or self._last.done.wait(within_s)

    def close(self) -> None:
        self._steps.put(None)
        if not self.idle(0):
            self._connection.abandon()
        self._thread.join(_SETTLE_S)
        self._connection.close()

    def _work(self) -> None:
        while (step := self._steps.get()) is not None:
            try:
                if self.end is not End.ABORTED:
                    if not self._begun:
                        self._connection.begin(self._offer)
                        self._begun, self.end = True, End.OPEN
                    step.result = step.action(self._connection)
                    step.answered = True
            except (Aborted, ConnectionLost) as error:
                self.end, self.reason = End.ABORTED, error.reason
                if isinstance(error, Aborted):
                    self._try_to_roll_back()
            except BaseException as error:
                self.end, self.failure = End.ABORTED, error
            finally:
                step.done.set()

    def _commit(self, connection: Connection) -> None:
        connection.commit()
        self._begun, self.end = False, End.COMMITTED

    def _roll_back(self, connection: Connection) -> None:
        connection.rollback()
        self.end = End.ABORTED

    def _try_to_roll_back(self) -> None:
        try:
            self._connection.rollback()
        except IsoldeError as error:
            self.reason += f"; and the rollback failed: {error}"


class Stepper:
    """Sessions by name, made as they are first named."""

    def __init__(self, connect: Callable[[], Connection], offer: Offer, patience_s: float = PATIENCE_S) -> None:
        self._connect, self._offer, self._patience_s = connect, offer, patience_s
        self.sessions: dict[str, SteppedSession] = {}

    def session(self, name: str) -> SteppedSession:
        if name not in self.sessions:
            self.sessions[name] = SteppedSession(self._connect(), self._offer)
        return self.sessions[name]

    def do(self, name: str, action: Callable[[Connection], Any]) -> Step:
        """One statement; returns when it is done or found to be blocked."""
        step = self._await(self.session(name).do(action))
        if self.sessions[name].end is End.ABORTED:
            self._let_others_go_on(name)
        return step

    def commit(self, name: str) -> Step:
        step = self._await(self.session(name).commit())
        self._let_others_go_on(name)
        return step

    def roll_back(self, name: str) -> Step:
        step = self._await(self.session(name).roll_back())
        self._let_others_go_on(name)
        return step

    def settle(self) -> None:
        """Waits for what is still blocked; what never returns counts as aborted."""
        deadline = time.monotonic() + _SETTLE_S
        for session in self.sessions.values():
            session.idle(max(0.0, deadline - time.monotonic()))
        for session in self.sessions.values():
            if session.failure is not None:
                raise session.failure

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()

    def _await(self, step: Step) -> Step:
        step.blocked = not step.done.wait(self._patience_s)
        return step

    def _let_others_go_on(self, name: str) -> None:
        """What a transaction's end set free gets the time to run, so that the next step finds it where it will be."""
        for other, session in self.sessions.items():
            if other != name:
                session.idle(self._patience_s)
