"""``isolde check``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import click

from isolde._core import BUDGET, Columns, FailedCas
from isolde.cli.main import Exit, paint, say, tell
from isolde.cli.reading import reading_of, reading_options
from isolde.cli.shown import named_transactions
from isolde.engines.check import check as decide
from isolde.engines.check import cut_out, frontier
from isolde.errors import IsoldeError, MistakeError, UsageError
from isolde.findings import Report, Verdict
from isolde.formats import NAMES, encode, read, write
from isolde.levels import LEVELS, Level, level_named
from isolde.report import document, render_report
from isolde.visible import dumped

_SERIOUS = (Exit.USAGE, Exit.OUTSIDE, Exit.VIOLATED, Exit.UNDECIDED, Exit.HOLDS)
_STATUS = {Verdict.SATISFIED: Exit.HOLDS, Verdict.VIOLATED: Exit.VIOLATED, Verdict.UNDECIDED: Exit.UNDECIDED}
_DEFAULT = "serializable"
_ALL = "all"


def _levels(names: Iterable[str]) -> list[Level]:
    """The levels asked for, in that order; ``all`` stands for every level of the table, weakest first."""
    wanted: list[Level] = []
    for name in names:
        found = [entry.level for entry in LEVELS] if name == _ALL else [level_named(name)]
        wanted += [level for level in found if level not in wanted]
    return wanted


@click.command()
@click.argument("histories", nargs=-1, required=True, metavar="HISTORY...")
@click.option(
    "--level",
    "-l",
    "names",
    multiple=True,
    metavar="LEVEL",
    help=f"Level to decide, by long or short name; may be given several times; all: every one that this history can decide."
    f" [default: {_DEFAULT}]",
)
@click.option(
    "--format", type=click.Choice(NAMES), metavar="FORMAT", help="The files' format. [default: told by content]"
)
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (with several files, one a line).")
@click.option(
    "--all-cases",
    is_flag=True,
    help="Of a violation that is shown case by case, draw every case, not only the likeliest.",
)
@click.option("--all-anomalies", is_flag=True, help="Report one anomaly for each strongly connected component.")
@click.option("--session-order/--no-session-order", default=True, help="Must the order inside a session be kept?")
@click.option("--judge-aborted", is_flag=True, help="Judge what aborted transactions read, too.")
@click.option(
    "--serialization-order",
    is_flag=True,
    help="Replay the order that the database itself gave (serial): violated if it does not explain the history, whether or not"
    " another order would.",
)
@click.option(
    "--budget",
    type=click.IntRange(min=0, max=2**63 - 1),
    default=BUDGET,
    show_default=True,
    metavar="N",
    help="Steps that a search may take for one level.",
)
@click.option(
    "--witness", metavar="FILE", help="Write the transactions of the first anomaly as a history of their own."
)
@click.option("--witness-order", is_flag=True, help="Print the order of commits that explains a satisfied level.")
def check(
    histories: tuple[str, ...],
    names: tuple[str, ...],
    format: str | None,
    failed_cas: FailedCas,
    line_limit: int | None,
    size_limit: int | None,
    as_json: bool,
    all_cases: bool,
    all_anomalies: bool,
    session_order: bool,
    judge_aborted: bool,
    serialization_order: bool,
    budget: int,
    witness: str | None,
    witness_order: bool,
) -> int:
    """Decide whether HISTORY satisfies isolation levels, and explain why not.

    HISTORY is a file of JSON Lines (plain, .gz or .zst), Parquet or the short notation, or one of another tool; - is standard
    input. Formats, told by content: jsonl, parquet, notation, elle-edn, elle-json, dbcop-bincode, dbcop-json, dbcop-hist,
    plume, awdit, and cobra, a directory of logs.
    """
    levels = _levels(names or (_DEFAULT,))
    by_name = {level_named(name) for name in names if name != _ALL}
    if witness is not None and len(histories) > 1:
        raise UsageError("--witness takes one history at a time")
    reading = reading_of(failed_cas, line_limit, size_limit)
    statuses = []
    for number, path in enumerate(histories):
        try:
            columns = read(path, format, reading)
            report = decide(
                columns,
                levels,
                session_order=session_order,
                judge_aborted=judge_aborted,
                every=all_anomalies,
                budget=budget,
                order=witness_order,
                serialization_order=serialization_order,
            )
            if _ALL in names:
                report = replace(_decided(report, by_name), frontier=frontier(report.findings))
        except IsoldeError as error:
            if len(histories) == 1 or isinstance(error, MistakeError):
                raise
            _complain(path, error, as_json=as_json)
            statuses.append(Exit.USAGE)
            continue
        if as_json:
            named = {"file": path} if len(histories) > 1 else {}
            click.echo(dumped(named | document(report)))
        else:
            named_ones = named_transactions(columns, report)
            text = render_report(path, report, named_ones, paint, all_cases=all_cases)
            click.echo(("\n" if number else "") + text)
        if witness is not None:
            _write_witness(columns, report, witness, session_order=session_order, judge_aborted=judge_aborted)
        statuses += [_STATUS[finding.verdict] for finding in report.findings]
    return min(statuses, key=_SERIOUS.index)


def _decided(report: Report, by_name: set[Level]) -> Report:
    """Without what ``all`` asked for in vain; if nothing was decided, everything stays, with its reasons."""
    kept = [f for f in report.findings if f.verdict is not Verdict.UNDECIDED or f.level in by_name]
    return replace(report, findings=tuple(kept) or report.findings)


def _complain(path: str, error: IsoldeError, *, as_json: bool) -> None:
    if as_json:
        click.echo(dumped({"file": path, "error": str(error)}))
    say(str(error))


def _write_witness(columns: Columns, report: Report, path: str, *, session_order: bool, judge_aborted: bool) -> None:
    for finding in report.findings:
        if finding.anomalies:
            history = cut_out(
                columns,
                finding.level,
                finding.anomalies[0],
                session_order=session_order,
                judge_aborted=judge_aborted,
            )
            tell(path, write(encode(history), path))
            count = len(history.transactions)
            say(f"wrote {count} transactions of the {finding.anomalies[0].name} to {path}")
            return
    say("no violation was found, so no witness was written")
