"""``isolde watch``: a history that is checked while it grows."""

from __future__ import annotations

import click

from isolde._core import BUDGET
from isolde.campaigns.check import CheckOptions
from isolde.campaigns.watch import WINDOW, watch_history
from isolde.cli import completing
from isolde.cli.keeping import Keeping, report_option
from isolde.cli.main import paint, status_of
from isolde.cli.progress import ProgressLine
from isolde.report import document, render_report
from isolde.visible import dumped


@click.command()
@click.argument("history")
@click.option(
    "--level",
    "-l",
    "names",
    shell_complete=completing.levels,
    multiple=True,
    metavar="LEVEL",
    help="Level to decide, by long or short name; may be given several times. [default: serializable]",
)
@click.option("--session-order/--no-session-order", default=True, help="Must the order inside a session be kept?")
@click.option(
    "--budget",
    type=click.IntRange(min=0, max=2**63 - 1),
    default=BUDGET,
    show_default=True,
    metavar="N",
    help="Steps that a search may take for one level, at each look.",
)
@click.option(
    "--window",
    type=click.IntRange(min=100),
    default=WINDOW,
    show_default=True,
    metavar="N",
    help="The last transactions that are kept on the way: what is violated among them is seen.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document at the end.")
@report_option
def watch(
    history: str,
    names: tuple[str, ...],
    session_order: bool,
    budget: int,
    window: int,
    as_json: bool,
    report: Keeping,
) -> int:
    """Check HISTORY while it grows: a file of JSON Lines that somebody appends to, or the directory of a run.

    It ends with the first violation, when the run is over, or with Ctrl-C, which asks for the verdict on what has come so far.

    \b
    isolde run --start postgresql --isolation serializable --time 600 -o soak &
    isolde watch soak --level ser
    """
    line = ProgressLine()
    options = CheckOptions(names or ("serializable",), session_order=session_order, budget=budget)
    try:
        found = watch_history(history, options, window=window, told=line.say)
    finally:
        line.clear()
    click.echo(dumped(document(found)) if as_json else render_report(found, paint))
    report.add(found)
    return status_of(found)
