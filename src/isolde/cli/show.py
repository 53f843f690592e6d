"""``isolde show``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from isolde.cli.keeping import Keeping, report_option
from isolde.cli.main import Exit, paint, say, status_of
from isolde.errors import InputError, UsageError
from isolde.findings import Verdict
from isolde.report.any import as_document, as_text
from isolde.report.codec import FORMAT, read
from isolde.report.html.many import KeptReport, many
from isolde.report.html.page import called, page
from isolde.report.printed import is_printed, render_printed, verdicts_of
from isolde.report.terminal import COLOURS, WORDS
from isolde.visible import dumped, fitted, visible

_SERIOUS = ((Verdict.VIOLATED, Exit.VIOLATED), (Verdict.UNDECIDED, Exit.UNDECIDED), (Verdict.SATISFIED, Exit.HOLDS))

# A kept report says what it is in its first signs.
_BEGINNING = 40


@click.command()
@click.argument("result", metavar="RESULT")
@click.option("--all-cases", is_flag=True, help="Of a violation that is shown case by case, draw every case.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON document that the verb itself prints.")
@click.option("--html", is_flag=True, help="Print it as a page of HTML; of a directory, a page of all results in it.")
@report_option
def show(result: str, all_cases: bool, as_json: bool, html: bool, report: Keeping) -> int:
    """Look again at RESULT, a file that --report kept; - is standard input.

    It is drawn as the verb drew it that found it, from the file alone. The status is that of the result, too. What --json printed
    can be looked at as well; it holds less: the transactions of an anomaly are not in it. A directory is looked through for
    results: with --html, a table of databases, levels and workloads over time, and each result below it.

    \b
    isolde check --level ser --report result.json history.jsonl
    isolde show result.json
    isolde show result.json --html > result.html
    isolde show results/ --html > results.html
    """
    report.shown_again = True
    if Path(result).is_dir():
        return _show_all(Path(result), html=html, report=report)
    text = _content(result)
    printed = _printed(text)
    if printed:
        if html or report.wanted:
            raise UsageError(
                f"{result}: what --json printed holds too little for a page; keep results with --report FILE"
            )
        for content in printed:
            click.echo(dumped(content) if as_json else render_printed(content, paint))
        verdicts = {one for content in printed for one in verdicts_of(content)}
        return next((status for verdict, status in _SERIOUS if verdict in verdicts), Exit.UNDECIDED)
    found = read(text, "standard input" if result == "-" else result)
    if html:
        click.echo(page(found), nl=False)
    else:
        click.echo(dumped(as_document(found)) if as_json else as_text(found, paint, all_cases=all_cases))
    report.add(found)
    return status_of(found)


def _show_all(place: Path, *, html: bool, report: Keeping) -> int:
    """All results in a directory: as one page, or each in a line."""
    found = []
    for path in sorted(place.rglob("*.json")):
        text = _content(str(path))
        if FORMAT not in text[:_BEGINNING]:
            continue
        try:
            found.append(KeptReport(str(path.relative_to(place)), path.stat().st_mtime, read(text, str(path))))
        except InputError as error:
            say(f"{error}; left out")
    if not found:
        raise InputError(f"{place}: no result is in it; results are kept with --report FILE.json")
    found.sort(key=lambda one: one.kept_at)
    if report.reports:
        report.add_all([one.report for one in found])
    if html:
        click.echo(many(found), nl=False)
    else:
        for one in found:
            word = paint(WORDS[one.report.verdict], COLOURS[one.report.verdict])
            click.echo(fitted(f"{visible(one.name)}: {visible(called(one.report))}: {word}"))
    verdicts = {one.report.verdict for one in found}
    return next(status for verdict, status in _SERIOUS if verdict in verdicts)


def _printed(text: str) -> list[Any]:
    """The documents of ``--json``, one a line or one in all; none if it is something else."""
    try:
        documents = [json.loads(text)]
    except ValueError:
        try:
            documents = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            return []
    return documents if all(map(is_printed, documents)) else []


def _content(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8; expected a report") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
