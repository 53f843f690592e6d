"""``isolde show``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from isolde.cli.main import Exit, paint, status_of
from isolde.errors import InputError
from isolde.findings import Verdict
from isolde.report.any import as_document, as_text
from isolde.report.codec import read
from isolde.report.printed import is_printed, render_printed, verdicts_of
from isolde.visible import dumped

_SERIOUS = ((Verdict.VIOLATED, Exit.VIOLATED), (Verdict.UNDECIDED, Exit.UNDECIDED), (Verdict.SATISFIED, Exit.HOLDS))


@click.command()
@click.argument("result", metavar="RESULT")
@click.option("--all-cases", is_flag=True, help="Of a violation that is shown case by case, draw every case.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON document that the verb itself prints.")
def show(result: str, all_cases: bool, as_json: bool) -> int:
    """Look again at RESULT, a file that --report kept; - is standard input.

    It is drawn as the verb drew it that found it, from the file alone. The status is that of the result, too. What --json printed
    can be looked at as well; it holds less: the transactions of an anomaly are not in it.

    \b
    isolde check --level ser --report result.json history.jsonl
    isolde show result.json
    """
    text = _content(result)
    printed = _printed(text)
    if printed:
        for content in printed:
            click.echo(dumped(content) if as_json else render_printed(content, paint))
        verdicts = {one for content in printed for one in verdicts_of(content)}
        return next((status for verdict, status in _SERIOUS if verdict in verdicts), Exit.UNDECIDED)
    report = read(text, "standard input" if result == "-" else result)
    click.echo(dumped(as_document(report)) if as_json else as_text(report, paint, all_cases=all_cases))
    return status_of(report)


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
