"""``isolde convert``."""

from __future__ import annotations

import click

from isolde.cli.main import tell
from isolde.formats import NAMES, read, write


@click.command()
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option(
    "--from",
    "source_format",
    type=click.Choice(NAMES),
    metavar="FORMAT",
    help="IN's format. [default: told by content]",
)
@click.option(
    "--to", "target_format", type=click.Choice(NAMES), metavar="FORMAT", help="OUT's format. [default: told by suffix]"
)
def convert(source: str, target: str, source_format: str | None, target_format: str | None) -> int:
    """Read the history IN and write it to OUT in another format; - is standard input or output.

    Formats and suffixes: jsonl (.jsonl), parquet (.parquet), notation (.txt), elle-edn (.edn), elle-json (.elle.json),
    dbcop-bincode (.bincode), dbcop-json (.dbcop.json), dbcop-hist (.hist), plume (.plume), awdit (.awdit), and cobra (.cobra), a
    directory. Text may be packed: .gz or .zst behind the suffix.

    What a format cannot say is refused, or told on standard error where it makes no difference.
    """
    tell(target, write(read(source, source_format), target, target_format))
    return 0
