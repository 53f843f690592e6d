"""``isolde convert``."""

from __future__ import annotations

import click

from isolde._core import FailedCas
from isolde.cli.main import tell
from isolde.cli.reading import initial_option, reading_of, reading_options
from isolde.databases.logs import FORMATS as SERVER_LOGS
from isolde.databases.logs import log_format, read_log
from isolde.errors import UsageError
from isolde.formats import NAMES, WRITTEN, encode, read, write


@click.command()
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option(
    "--from",
    "source_format",
    type=click.Choice([*NAMES, *SERVER_LOGS]),
    metavar="FORMAT",
    help="IN's format. [default: told by content]",
)
@click.option(
    "--to",
    "target_format",
    type=click.Choice(WRITTEN),
    metavar="FORMAT",
    help="OUT's format. [default: told by suffix]",
)
@reading_options
@initial_option
@click.option(
    "--lossy",
    is_flag=True,
    help="Leave out what OUT's format cannot say even where verdicts may change, and tell what it is.",
)
@click.option(
    "--tables",
    metavar="FILE",
    help="Of a server's log: SQL with the tables that were there before it began, and INSERTs of their rows.",
)
def convert(
    source: str,
    target: str,
    source_format: str | None,
    target_format: str | None,
    failed_cas: FailedCas,
    line_limit: int | None,
    size_limit: int | None,
    initial: int | None,
    lossy: bool,
    tables: str | None,
) -> int:
    """Read the history IN and write it to OUT in another format; - is standard input or output.

    Formats and suffixes: jsonl (.jsonl), parquet (.parquet), notation (.txt), elle-edn (.edn), elle-json (.elle.json),
    dbcop-bincode (.bincode), dbcop-json (.dbcop.json), dbcop-hist (.hist), plume (.plume), awdit (.awdit), and cobra (.cobra), a
    directory. Text may be packed: .gz or .zst behind the suffix.

    Logs of servers become histories of SQL for 'isolde audit': PostgreSQL's csvlog (postgresql-csv) and jsonlog
    (postgresql-json), MariaDB's general log (mariadb-general).

    What a format cannot say is refused, or told on standard error where it makes no difference. Times are told as well: without
    them the levels about real time are undecided.
    """
    server_log = source_format if source_format in SERVER_LOGS else None
    if source_format is None:
        server_log = log_format(source)
    if server_log is not None:
        found = read_log(source, server_log, tables)
        tell(source, found.notes)
        tell(target, write(encode(found.history, name=source), target, target_format, lossy=lossy))
        return 0
    if tables is not None:
        raise UsageError(f"--tables is for logs of servers ({', '.join(SERVER_LOGS)}); {source} is none")
    columns = read(source, source_format, reading_of(failed_cas, line_limit, size_limit, initial))
    tell(target, write(columns, target, target_format, failed_cas=failed_cas, lossy=lossy))
    return 0
