"""The line that shows how far a run is: rewritten in place on a terminal, absent elsewhere."""

from __future__ import annotations

import sys
import time

from isolde.engines.record import Progress

_EVERY_S = 0.2


class ProgressLine:
    """How far a run is, and how much of it was checked while it goes on."""

    def __init__(self) -> None:
        self._checked: int | None = None
        self._shown = sys.stderr.isatty()
        self._last = (0.0, 0)
        self._next = 0.0
        self._rate = 0.0

    def show(self, progress: Progress) -> None:
        if not self._shown or progress.seconds < self._next:
            return
        tally = progress.tally
        then, count = self._last
        if progress.seconds - then >= 1.0 or not self._rate:
            self._rate = (tally.committed - count) / max(progress.seconds - then, 1e-3)
            self._last = (progress.seconds, tally.committed)
        self._next = progress.seconds + _EVERY_S
        clock = time.strftime("%M:%S", time.gmtime(progress.seconds))
        text = (
            f"{clock}  {self._rate:,.0f} a second  {tally.committed:,} committed  {tally.aborted:,} aborted"
            f"  {tally.unknown:,} unknown"
        )
        if self._checked is not None:
            text += f"  {self._checked:,} checked"
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    def note_checked(self, transactions: int) -> None:
        """So many were checked by now."""
        self._checked = transactions

    def say(self, text: str) -> None:
        """What is tried now, in words."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
