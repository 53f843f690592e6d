"""Faults while a run goes on: a server is killed, stopped, restarted, or cut off, again and again.

One fault at a time, and each is healed before the next, so that what a run shows can be told from its list of events.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from isolde.errors import IsoldeError

# How long everything is well before a fault, and how long a fault lasts: often enough for a short run, long enough for
# sessions to come back and do something.
_WELL_S = (0.5, 2.0)
_ILL_S = (0.2, 1.0)


class Fault(StrEnum):
    """What is done to the server."""

    KILL = "kill"
    """``kill -9``, then started again on its data."""
    PAUSE = "pause"
    """Stopped by a signal, then let go on."""
    RESTART = "restart"
    """Shut down in good order, then started again."""
    CUT = "cut"
    """The network between clients and server swallows everything, then works again."""


class Victim(Protocol):
    """A server that Isolde started itself."""

    def kill(self) -> None: ...
    def start(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def shut_down(self) -> None: ...


class Wire(Protocol):
    """The network before it."""

    def cut(self) -> None: ...
    def heal(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Event:
    """One fault, in seconds since the run began."""

    fault: Fault
    begun: float
    healed: float


class Nemesis:
    """A thread that brings faults, in turn, at random moments, to one of the victims. ``stop`` returns when all is well again.

    ``wires`` are the networks before the victims, one each; without ``Fault.CUT`` there need not be any.
    """

    def __init__(self, victims: Sequence[Victim], wires: Sequence[Wire], faults: tuple[Fault, ...], seed: int) -> None:
        self.events: list[Event] = []
        self.failure: IsoldeError | None = None
        self._victims, self._wires, self._faults = victims, wires, faults
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self._begun = time.monotonic()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        turn = 0
        while not self._stop.wait(self._chance.uniform(*_WELL_S)):
            begun = time.monotonic() - self._begun
            fault = self._faults[turn % len(self._faults)]
            try:
                self._bring(fault)
            except IsoldeError as error:
                self.failure = error
                return
            self.events.append(Event(fault, begun, time.monotonic() - self._begun))
            turn += 1

    def _bring(self, fault: Fault) -> None:
        wait_s = self._chance.uniform(*_ILL_S)
        chosen = self._chance.randrange(len(self._victims))
        victim = self._victims[chosen]
        match fault:
            case Fault.KILL:
                victim.kill()
                time.sleep(wait_s)
                victim.start()
            case Fault.RESTART:
                victim.shut_down()
                time.sleep(wait_s)
                victim.start()
            case Fault.PAUSE:
                victim.pause()
                time.sleep(wait_s)
                victim.resume()
            case Fault.CUT:
                self._wires[chosen].cut()
                time.sleep(wait_s)
                self._wires[chosen].heal()
