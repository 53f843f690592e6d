"""``isolde show``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from isolde.cli.main import paint, status_of
from isolde.errors import InputError
from isolde.report.any import as_document, as_text
from isolde.report.codec import read
from isolde.visible import dumped


@click.command()
@click.argument("result", metavar="RESULT")
@click.option("--all-cases", is_flag=True, help="Of a violation that is shown case by case, draw every case.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON document that the verb itself prints.")
def show(result: str, all_cases: bool, as_json: bool) -> int:
    """Look again at RESULT, a file that --report kept; - is standard input.

    It is drawn as the verb drew it that found it, from the file alone. The status is that of the result, too.

    \b
    isolde check --level ser --report result.json history.jsonl
    isolde show result.json
    """
    report = read(_content(result), "standard input" if result == "-" else result)
    click.echo(dumped(as_document(report)) if as_json else as_text(report, paint, all_cases=all_cases))
    return status_of(report)


def _content(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8; expected a report") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
