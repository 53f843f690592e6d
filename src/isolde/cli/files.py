"""One question of several files: what is printed of each, and the status of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from isolde.cli.keeping import Keeping
from isolde.cli.main import Exit, say, status_of
from isolde.errors import IsoldeError, MistakeError
from isolde.findings import Report
from isolde.visible import dumped

_SERIOUS = (Exit.USAGE, Exit.OUTSIDE, Exit.VIOLATED, Exit.UNDECIDED, Exit.HOLDS)


def answer_each(
    files: Sequence[str],
    judge: Callable[[int, str], Report],
    *,
    text: Callable[[Report], str],
    document: Callable[[Report], dict[str, Any]],
    as_json: bool,
    kept: Keeping,
) -> int:
    """Judges each file (by its number and path) and prints the report; one that cannot be read does not keep the others.

    Of several files each has a document of its own, a line each, with its name; a file that cannot be read has the error there.
    The status is the most serious one. ``kept`` keeps the reports.
    """
    kept.check_count(len(files), f"there are {len(files)} files")
    statuses = []
    for number, path in enumerate(files):
        try:
            report = judge(number, path)
        except IsoldeError as error:
            if len(files) == 1 or isinstance(error, MistakeError):
                raise
            if as_json:
                click.echo(dumped({"file": path, "error": str(error)}))
            say(str(error))
            statuses.append(Exit.USAGE)
            continue
        if as_json:
            click.echo(dumped(({"file": path} if len(files) > 1 else {}) | document(report)))
        else:
            click.echo(("\n" if number else "") + text(report))
        kept.add(report)
        statuses.append(status_of(report))
    return min(statuses, key=_SERIOUS.index)
