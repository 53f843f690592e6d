"""``isolde convert``."""

from __future__ import annotations

import click

from isolde.formats import read, write


@click.command()
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
def convert(source: str, target: str) -> int:
    """Read the history IN (told by content) and write it to OUT in the format that OUT's suffix names.

    Suffixes: .jsonl, .jsonl.gz, .jsonl.zst, .parquet, and .txt for the short notation. - is standard input or output.
    """
    write(read(source), target)
    return 0
