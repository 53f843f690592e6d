"""The program called in this process: most tests of runs need no process of their own."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from isolde.cli.main import main
from isolde.formats import decode, read
from isolde.history import History

ISOLDE = (sys.executable, "-m", "isolde")
"""The same as a process of its own."""


def fresh_signals() -> None:
    """For ``preexec_fn``: a child hears every signal, whatever those who started the tests ignore or block.

    A shell starts what runs in the background with Ctrl-C ignored, and children inherit that.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


@dataclass(frozen=True, slots=True)
class Ran:
    """How a call of ``isolde run --json`` ended."""

    status: int
    out: str
    error: str
    directory: Path

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        return document

    @property
    def run(self) -> dict[str, Any]:
        run: dict[str, Any] = self.document["run"]
        return run

    @property
    def verdicts(self) -> list[str]:
        return [result["verdict"] for result in self.document["results"]]

    @property
    def history(self) -> History:
        return decode(read(str(self.directory / "history.jsonl")))


def as_user(url: str, user: str, password: str = "") -> str:
    """The URL of the same server for somebody else."""
    scheme, _, rest = url.partition("://")
    account = f"{user}:{password}" if password else user
    return f"{scheme}://{account}@{rest.rpartition('@')[2]}"


def isolde(*arguments: str) -> tuple[int, str, str]:
    """Status, output and errors of the program."""
    out, error = io.StringIO(), io.StringIO()
    words = patch.object(sys, "argv", ["isolde", *arguments])
    with words, contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            main()
        except SystemExit as ended:
            return int(ended.code or 0), out.getvalue(), error.getvalue()
    raise AssertionError("the program ends by a status")


def ran(directory: Path, *arguments: str) -> Ran:
    """``isolde run --json`` with its recording in the directory."""
    return Ran(*isolde("run", *arguments, "--json", "-o", str(directory)), directory)
