"""``isolde audit``."""

from __future__ import annotations

import click

from isolde._core import FailedCas
from isolde.campaigns.audit import BUDGET, DEFINITIONS, ENCODINGS, AuditQuestion, audit_file
from isolde.campaigns.growing import LONGEST_S, follow_log
from isolde.cli import completing
from isolde.cli.files import answer_each
from isolde.cli.keeping import Keeping, report_option
from isolde.cli.main import paint
from isolde.cli.reading import reading_of, reading_options
from isolde.cli.scaling import Scaling, scaling_options
from isolde.errors import UsageError
from isolde.findings import Report
from isolde.formats import NAMES
from isolde.report.any import as_document, as_text
from isolde.scale.auditing import audit_apart


@click.command()
@click.argument("logs", nargs=-1, required=True, metavar="LOG...")
@click.option(
    "--level",
    "-l",
    "names",
    shell_complete=completing.levels,
    multiple=True,
    metavar="LEVEL",
    help="ser, strict-ser, si, strict-si or rc, or a store model such as postgresql:read-committed; may be given several times."
    " [default: serializable]",
)
@click.option(
    "--format", type=click.Choice(NAMES), metavar="FORMAT", help="The files' format. [default: told by content]"
)
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (with several files, one a line).")
@click.option(
    "--definition",
    type=click.Choice(DEFINITIONS),
    default=DEFINITIONS[0],
    show_default=True,
    help="What the levels mean: ours, or section 6 of the paper with repairs, in the order of end alone.",
)
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of a store model: what changes its levels, as innodb_snapshot_isolation=ON. [default: the log's header]",
)
@click.option("--session-order/--no-session-order", default=True, help="Must the order inside a session be kept?")
@click.option(
    "--skip-unsupported",
    is_flag=True,
    help="Leave out statements that the transaction language cannot say, and name them; a violation stands without them.",
)
@click.option(
    "--budget",
    type=click.IntRange(min=0, max=2**63 - 1),
    default=BUDGET,
    show_default=True,
    metavar="N",
    help="Transactions that a search may place, counted again each time, for one level.",
)
@click.option("--time", "seconds", type=click.FloatRange(min=0), metavar="SECONDS", help="Time for one level.")
@click.option(
    "--heuristics",
    default="all",
    show_default=True,
    metavar="LIST",
    help="Those of the paper that are used: h1 (indexes), h2 or h2=K (a window of K states), h3 (concretisation, for --encoding),"
    " h4 (a stronger level first); all, or none.",
)
@click.option(
    "--encoding",
    type=click.Choice(ENCODINGS),
    help="Ask a solver about the paper's definition, with states told in this way; for statements by primary key.",
)
@click.option(
    "--witness-order", is_flag=True, help="Print the order that explains a satisfied level, and what was read."
)
@click.option(
    "--follow",
    is_flag=True,
    help="LOG grows: judge it while it does, until a violation is seen, the run is over, or Ctrl-C asks for the verdict so far.",
)
@click.option(
    "--longest",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="With --follow: no transaction of the log takes so long; what might be explained by one that is under way waits for so"
    f" long before it is a violation. [default: {LONGEST_S:g}]",
)
@scaling_options
@report_option
def audit(
    logs: tuple[str, ...],
    names: tuple[str, ...],
    format: str | None,
    failed_cas: FailedCas,
    line_limit: int | None,
    size_limit: int | None,
    as_json: bool,
    definition: str,
    settings: tuple[str, ...],
    session_order: bool,
    skip_unsupported: bool,
    budget: int,
    seconds: float | None,
    heuristics: str,
    encoding: str | None,
    witness_order: bool,
    follow: bool,
    longest: float | None,
    report: Keeping,
    scaling: Scaling,
) -> int:
    """Could a correct database have given these answers to these SQL transactions?

    LOG is a history with SQL statements, as 'isolde run' records it; - is standard input. The statements are run again in every
    order, and on every state, that the level allows, until one explains all answers.
    """
    pairs = tuple(_pair(text) for text in settings)
    question = AuditQuestion(
        names, definition, pairs, session_order, skip_unsupported, budget, seconds, witness_order, heuristics, encoding
    )
    reading = reading_of(failed_cas, line_limit, size_limit)
    if follow and (len(logs) > 1 or logs[0] == "-" or format is not None):
        raise UsageError("--follow takes one file of JSON Lines, or the directory of a run")
    if longest is not None and not follow:
        raise UsageError("--longest belongs to --follow")

    scaling.refuse_with(("--follow", follow))

    def judge(_: int, path: str) -> Report:
        if workers is not None:
            return audit_apart(path, question, workers, format=format, reading=reading)
        if follow:
            return follow_log(path, question, reading=reading, longest=LONGEST_S if longest is None else longest)
        return audit_file(path, question, format=format, reading=reading)

    with scaling.workers() as workers:
        return answer_each(
            logs,
            judge,
            text=lambda found: as_text(found, paint),
            document=as_document,
            as_json=as_json,
            kept=report,
        )


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name:
        raise UsageError(f"--setting {text!r} is no NAME=VALUE")
    return name, value
