"""``isolde infer``: which is the weakest level at which each transaction is safe?"""

from __future__ import annotations

import contextlib
import sys

import click

from isolde.cli import completing
from isolde.cli.keeping import Keeping, report_option
from isolde.cli.main import Exit, paint, status_of
from isolde.levels.specifications import CANDIDATES, DATABASES


@click.command()
@click.argument("application", shell_complete=completing.applications)
@click.option(
    "--database", required=True, type=click.Choice(DATABASES), help="Whose levels: a database's, or a paper's."
)
@click.option("--setting", "settings", multiple=True, metavar="NAME=VALUE", help="As innodb_snapshot_isolation=ON.")
@click.option(
    "--invariant", "invariants", multiple=True, metavar="NAME", help="Only this one; may be given several times."
)
@click.option("--transaction", "transactions", multiple=True, metavar="NAME", help="Only this one and others so named.")
@click.option(
    "--candidates",
    metavar="LEVELS",
    help=f"The levels to try, weakest first, with commas. [default: {','.join(CANDIDATES)}]",
)
@click.option(
    "--encoding",
    type=click.Choice(["states", "paper"]),
    default="states",
    help="How it is put to the solver; 'paper' is that of ACIDifier (POPL 2018), for comparison on its examples.",
)
@click.option(
    "--time", "seconds", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Seconds for the search."
)
@click.option("--smtlib", metavar="DIR", help="Write every question to the solver to DIR, as SMT-LIB 2.")
@click.option(
    "--cache", metavar="DIR", help="Keep the solver's answers in DIR, and do not ask again what did not change."
)
@click.option("--robustness", is_flag=True, help="No invariants: is everything as if they ran one after the other?")
@click.option(
    "--guarantees", metavar="FILE", help="What transactions do to rows at most, as proposals for the proof (TOML)."
)
@click.option("--from-populate", is_flag=True, help="Only states count that the application's own first rows lead to.")
@click.option("--confirm", metavar="URL", help="Execute the counterexamples on this database.")
@click.option(
    "--start", "kind", metavar="DATABASE", help="For --confirm: a private server of this kind is started for it."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@report_option
def infer(
    application: str,
    database: str,
    settings: tuple[str, ...],
    invariants: tuple[str, ...],
    transactions: tuple[str, ...],
    candidates: str | None,
    encoding: str,
    seconds: float | None,
    smtlib: str | None,
    cache: str | None,
    robustness: bool,
    guarantees: str | None,
    from_populate: bool,
    confirm: str | None,
    kind: str | None,
    as_json: bool,
    report: Keeping,
) -> int:
    """Find, for each transaction of APPLICATION, the weakest isolation level at which its invariants cannot be broken.

    APPLICATION is one of 'isolde workloads', or a Python file of your own. A level that is safe is proved; one that is refused
    comes with transactions, a starting state and an interleaving that the database lets happen.
    """
    from isolde.campaigns.infer import InferOptions
    from isolde.campaigns.infer import infer as of_invariants
    from isolde.campaigns.paper_encoding import paper_encoding
    from isolde.campaigns.robustness import robustness as of_serial_behaviour
    from isolde.campaigns.steps import with_outcomes
    from isolde.cli.explore_store import settings_named
    from isolde.history.json_text import json_text
    from isolde.report.any import as_document, as_text
    from isolde.visible import printable_json
    from isolde.workloads.applications import application_named

    with contextlib.redirect_stdout(sys.stderr):
        found = application_named(application)
    line = _Line()
    options = InferOptions(
        database=database,
        settings=settings_named(settings),
        invariants=invariants,
        transactions=transactions,
        candidates=CANDIDATES if candidates is None else _levels(candidates),
        seconds=seconds,
        smtlib=smtlib,
        cache=cache,
        guarantees=guarantees,
        from_populate=from_populate,
        confirm=confirm,
        start=kind,
        told=line.show,
    )
    try:
        with contextlib.redirect_stdout(sys.stderr):
            asked = of_serial_behaviour if robustness else paper_encoding if encoding == "paper" else of_invariants
            result = asked(found, options)
    finally:
        line.clear()
    click.echo(printable_json(json_text(as_document(result))) if as_json else as_text(result, paint))
    if report.wanted:
        report.add(with_outcomes(result))
    return Exit(status_of(result))


def _levels(text: str) -> tuple[str, ...]:
    short = {"rc": "read-committed", "rr": "repeatable-read", "ser": "serializable", "ru": "read-uncommitted"}
    return tuple(short.get(one, one) for one in ("-".join(part.lower().split()) for part in text.split(",")) if one)


class _Line:
    """What is asked at the moment, rewritten in place on a terminal, absent elsewhere."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def show(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{text[:100]}")
            sys.stderr.flush()

    def clear(self) -> None:
        self.show("")
