"""``isolde check``."""

from __future__ import annotations

import click

from isolde._core import BUDGET, FailedCas
from isolde.campaigns.check import Checked, CheckOptions, check_file
from isolde.campaigns.dataset import check_dataset, is_dataset
from isolde.cli import completing
from isolde.cli.files import answer_each
from isolde.cli.keeping import Keeping, report_option
from isolde.cli.main import paint, say, tell
from isolde.cli.reading import initial_option, reading_of, reading_options
from isolde.cli.scaling import Scaling, scaling_options
from isolde.errors import UsageError
from isolde.findings import Report
from isolde.formats import NAMES, encode, write
from isolde.formats.certificates import certificate_path, sidecar, write_certificate
from isolde.report import document, render_report
from isolde.scale.checking import check_apart

_DEFAULT = "serializable"


@click.command()
@click.argument("histories", nargs=-1, required=True, metavar="HISTORY...")
@click.option(
    "--level",
    "-l",
    "names",
    shell_complete=completing.levels,
    multiple=True,
    metavar="LEVEL",
    help=f"Level to decide, by long or short name; may be given several times; all: every one that this history can decide."
    f" [default: {_DEFAULT}]",
)
@click.option(
    "--format", type=click.Choice(NAMES), metavar="FORMAT", help="The files' format. [default: told by content]"
)
@reading_options
@initial_option
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
@click.option(
    "--certificate",
    "certificates",
    multiple=True,
    metavar="FILE",
    help="Judge by what the database says of its own order; may repeat, one a history. [default: NAME.certificate.jsonl (.zst) or"
    " .parquet beside the history, if it is there]",
)
@click.option("--no-certificate", is_flag=True, help="Leave a certificate that stands beside the history.")
@click.option("--both", is_flag=True, help="Beside a certificate, always ask the search by values, too.")
@scaling_options
@report_option
def check(
    histories: tuple[str, ...],
    names: tuple[str, ...],
    format: str | None,
    failed_cas: FailedCas,
    line_limit: int | None,
    size_limit: int | None,
    initial: int | None,
    as_json: bool,
    all_cases: bool,
    all_anomalies: bool,
    session_order: bool,
    judge_aborted: bool,
    serialization_order: bool,
    budget: int,
    witness: str | None,
    witness_order: bool,
    certificates: tuple[str, ...],
    no_certificate: bool,
    both: bool,
    report: Keeping,
    scaling: Scaling,
) -> int:
    """Decide whether HISTORY satisfies isolation levels, and explain why not.

    HISTORY is a directory of Parquet files that follow each other in time, which is checked in windows (docs/parquet.md), or a
    file of JSON Lines (plain, .gz or .zst), Parquet or the short notation, or one of another tool; - is standard
    input. Formats, told by content: jsonl, parquet, notation, elle-edn, elle-json, dbcop-bincode, dbcop-json, dbcop-hist,
    plume, awdit, porcupine, timekiller, and cobra, a directory of logs.
    """
    options = CheckOptions(
        names or (_DEFAULT,),
        session_order,
        judge_aborted,
        all_anomalies,
        witness_order,
        budget,
        serialization_order,
        both,
    )
    # A shell's *.jsonl names certificates, too; each is read with its history.
    told = {sidecar(path) for path in histories}
    histories = tuple(path for path in histories if path not in told)
    beside = _certificates(histories, certificates, no_certificate=no_certificate)
    if witness is not None and len(histories) > 1:
        raise UsageError("--witness takes one history at a time")
    reading = reading_of(failed_cas, line_limit, size_limit, initial)

    scaling.refuse_with(
        ("--certificate", any(beside)),
        ("--witness-order", witness_order),
        ("--serialization-order", serialization_order),
    )

    def judged(number: int, path: str) -> Report:
        if format is None and is_dataset(path):
            if workers is not None or witness is not None or beside[number] is not None:
                raise UsageError(
                    f"{path}: a dataset is checked in windows; --workers, --witness and --certificate are for files"
                )
            return check_dataset(path, options, reading=reading)
        if workers is None:
            checked = check_file(path, options, format=format, reading=reading, certificate=beside[number])
        else:
            checked = check_apart(path, options, workers, format=format, reading=reading)
        if not checked.report.size.transactions:
            say(f"{path}: the history has no transactions, so that every level holds and nothing was checked")
        if witness is not None:
            _write_witness(checked, witness)
        return checked.report

    with scaling.workers() as workers:
        return answer_each(
            histories,
            judged,
            text=lambda found: render_report(found, paint, all_cases=all_cases),
            document=document,
            as_json=as_json,
            kept=report,
        )


def _certificates(histories: tuple[str, ...], named: tuple[str, ...], *, no_certificate: bool) -> list[str | None]:
    """The certificate of each history: the one named for it, or else the one that stands beside it."""
    if named and no_certificate:
        raise UsageError("--certificate and --no-certificate exclude each other")
    if named and len(named) != len(histories):
        raise UsageError(f"{len(named)} certificates are named for {len(histories)} histories; name one for each")
    if no_certificate:
        return [None] * len(histories)
    return list(named) if named else [sidecar(path) for path in histories]


def _write_witness(checked: Checked, path: str) -> None:
    found = checked.witness()
    if found is None:
        say("no violation was found, so no witness was written")
        return
    tell(path, write(encode(found.history), path))
    beside = ""
    if found.certificate is not None and path != "-":
        told = certificate_path(path)
        write_certificate(found.certificate, told)
        beside = f", with its certificate in {told}"
    name = next(finding.anomalies[0].name for finding in checked.report.findings if finding.anomalies)
    say(f"wrote {len(found.history.transactions)} transactions of the {name} to {path}{beside}")
