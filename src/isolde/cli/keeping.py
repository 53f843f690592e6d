"""``--report FILE``: a result is kept whole, with the transactions that it names, for ``isolde show``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from isolde.errors import not_written
from isolde.findings import Report

_C = TypeVar("_C", bound=Callable[..., Any])


def report_option(command: _C) -> _C:
    """``--report``, whose value :func:`keep_report` takes."""
    return click.option(
        "--report",
        metavar="FILE",
        help="Also keep the result in FILE, with the transactions that it names, for 'isolde show'.",
    )(command)


def keep_report(path: str | None, report: Report) -> None:
    """Writes the report to ``path``, if there is one."""
    if path is None:
        return
    from isolde.report.codec import write

    try:
        Path(path).write_text(write(report) + "\n", encoding="utf-8")
    except OSError as error:
        raise not_written(f"{path}: {error.strerror}; choose another place with --report", error) from None
