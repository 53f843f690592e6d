"""``--report FILE`` and ``--graph FILE``: results are kept in files, by the endings of their names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from isolde.cli.main import command_line, say
from isolde.errors import UsageError, not_written
from isolde.findings import Command, Report, Verdict
from isolde.report.files import PICTURES, picture_text, report_text, takes_several

_C = TypeVar("_C", bound=Callable[..., Any])


@dataclass(slots=True)
class Keeping:
    """Where results are to be kept, and those that there are so far."""

    reports: tuple[str, ...] = ()
    graphs: tuple[str, ...] = ()
    shown_again: bool = False
    """Whether they were made by an earlier command."""
    _kept: list[Report] = field(default_factory=list)

    def check_count(self, subjects: int, what: str) -> None:
        """Refuses files that hold one report where there will be several."""
        one = next((path for path in self.reports if not takes_several(path)), None)
        if subjects > 1 and one is not None:
            raise UsageError(
                f"{what}, and --report {one} keeps one result; use a file for each, or a name that ends in .html, .xml or .sarif"
            )

    @property
    def wanted(self) -> bool:
        """Whether anything is kept at all."""
        return bool(self.reports or self.graphs)

    def add(self, report: Report) -> None:
        """Writes all files anew, with this report in them, so that an end at any time leaves what is known."""
        self.add_all([report])

    def add_all(self, reports: Sequence[Report]) -> None:
        """The same for several at once."""
        self._kept += [self._with_command(one) for one in reports]
        for path in self.reports:
            _write("--report", path, report_text(path, self._kept))
        self._draw()

    def _with_command(self, report: Report) -> Report:
        """The report with the command line that asked for it; one that was kept before has its own."""
        command = command_line(but=("--report", "--graph"))
        if self.shown_again or not command or report.fact(Command) is not None:
            return report
        return replace(report, facts=(*report.facts, Command(command)))

    def _draw(self) -> None:
        violated = next((one for one in self._kept if one.verdict is Verdict.VIOLATED), None)
        if violated is not None:
            for path in self.graphs:
                drawn = picture_text(path, violated)
                if drawn is None:
                    say(f"{path}: not written; what is violated has no transactions to draw")
                else:
                    _write("--graph", path, drawn)


def report_option(command: _C) -> _C:
    """``--report`` and ``--graph``, whose values the command gets together as ``report``, a :class:`Keeping`."""

    @click.option(
        "--report",
        "reports",
        multiple=True,
        metavar="FILE",
        help="Also keep the result in FILE, with the transactions that it names: FILE.html is a page that opens offline, FILE.xml"
        " JUnit, FILE.sarif SARIF, any other name is for 'isolde show'. May be given several times.",
    )
    @click.option(
        "--graph",
        "graphs",
        multiple=True,
        metavar="FILE",
        help="Draw the first counterexample into FILE.svg or FILE.dot.",
    )
    @functools.wraps(command)
    def keeping(*args: Any, reports: Sequence[str], graphs: Sequence[str], **given: Any) -> Any:
        for path in graphs:
            if Path(path).suffix.lower() not in PICTURES:
                raise UsageError(f"--graph {path}: the name says what is drawn; it has to end in .svg or .dot")
        return command(*args, report=Keeping(tuple(reports), tuple(graphs)), **given)

    return keeping  # type: ignore[return-value]


def _write(option: str, path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise not_written(f"{path}: {error.strerror}; choose another place with {option}", error) from None
