"""``isolde generate``."""

from __future__ import annotations

from typing import Any

import click

from isolde.cli.main import tell
from isolde.engines.generate import generate as make
from isolde.engines.generate import generator_names
from isolde.errors import UsageError
from isolde.formats import encode, write
from isolde.formats.certificates import certificate_path, write_certificate

_WORKLOADS, _DISTRIBUTIONS, _LEVELS, _ANOMALIES = generator_names()
_PREDICATES = "predicates"
_OF_PREDICATES = (
    "phantom",
    "g2",
    "g-single",
    "result-set-mismatch",
    "aborted-read",
    "intermediate-read",
    "not-my-own-write",
)


@click.command()
@click.option("--output", "-o", default="-", metavar="FILE", help="Where to; the suffix names the format. [default: -]")
@click.option("--workload", type=click.Choice([*_WORKLOADS, _PREDICATES]), default="mini", show_default=True)
@click.option("--level", type=click.Choice(_LEVELS), default="serializable", show_default=True, metavar="LEVEL")
@click.option("--sessions", type=click.IntRange(1), default=10, show_default=True)
@click.option("--transactions", type=click.IntRange(0), default=1000, show_default=True)
@click.option("--keys", type=click.IntRange(1), help="[default: 100; of predicates: those of its mix]")
@click.option("--operations", type=click.IntRange(1), help="Operations a transaction. [default: 4; of predicates: 5]")
@click.option("--distribution", type=click.Choice(_DISTRIBUTIONS), default="uniform", show_default=True)
@click.option("--exponent", type=float, metavar="N", help="Of zipfian: how steep. [default: 0.99]")
@click.option("--hot-keys", type=float, metavar="SHARE", help="Of hotspot: of the keys. [default: 0.2]")
@click.option("--hot-accesses", type=float, metavar="SHARE", help="Of hotspot: that go to them. [default: 0.8]")
@click.option(
    "--concurrent-sessions",
    "concurrent",
    type=float,
    metavar="SHARE",
    help="Of the sessions: how many may have a transaction in flight at one time. [default: 1]",
)
@click.option("--abort-rate", type=click.FloatRange(0, 1), default=0.0, show_default=True)
@click.option("--unknown-rate", type=click.FloatRange(0, 1), default=0.0, show_default=True)
@click.option(
    "--blind-writes",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Of the operations of read-write; the others are reads. [default: 0.5]",
)
@click.option(
    "--versions",
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="SHARE",
    help="Tell the order of this share of the versions. [default: 0]",
)
@click.option(
    "--mix",
    multiple=True,
    metavar="NAME|OPERATION=WEIGHT",
    help="Of predicates: a mix of operations, as in 'isolde run'.",
)
@click.option(
    "--inject",
    type=click.Choice(list(dict.fromkeys([*_ANOMALIES, *_OF_PREDICATES]))),
    multiple=True,
    metavar="ANOMALY",
    help="May be given again.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed, the same history.")
def generate(
    output: str,
    workload: str,
    level: str,
    sessions: int,
    transactions: int,
    keys: int | None,
    operations: int | None,
    distribution: str,
    abort_rate: float,
    unknown_rate: float,
    blind_writes: float | None,
    versions: float,
    mix: tuple[str, ...],
    inject: tuple[str, ...],
    seed: int,
    **skew: float | None,
) -> int:
    """Write a synthetic history: a simulated multi-version store executes a workload at a level.

    Workloads: mini, mini-transactions; general, Cobra's mix of read-only, write-only and read-modify-write transactions; rmw,
    read-write and heavy-write, which mix 25 / 25 / 50, 50 / 50 / 0 and 10 / 80 / 10 % of reads, blind writes and
    read-modify-writes, each of them one operation; append, lists; cas, compare-and-sets.

    Levels: rc, ra, cc, si, ser, strict-ser (or their long names). Anomalies: the fourteen of 'isolde anomalies' from
    thin-air-read to write-skew, put in once each, on keys of their own.

    With --versions the history tells the order of versions that the store knows, of which as many as asked for are left, chosen
    by chance; the keys of anomalies have none, and neither have lists and compare-and-sets, which tell it themselves.

    The workload predicates (ranges, aggregates, changes by condition, upserts and increments of a table; --mix figure-9,
    figure-10-10, figure-10-50, figure-10-90 are the papers') writes the store's certificate beside the history, at rc, si or ser.
    Its anomalies: phantom, g2, g-single, result-set-mismatch, aborted-read, intermediate-read, not-my-own-write.
    """
    given = {name: value for name, value in skew.items() if value is not None}
    if workload == _PREDICATES:
        if given:
            option = next(
                "--concurrent-sessions" if name == "concurrent" else f"--{name.replace('_', '-')}" for name in given
            )
            raise UsageError(f"{option} is for workloads of keys; {_PREDICATES} has a store and draws of its own")
        drawn = {"mix": mix, "sessions": sessions, "transactions": transactions, "keys": keys, "seed": seed}
        return _predicates(output, level=level, operations=operations or 5, inject=inject, **drawn)
    if mix:
        raise UsageError("--mix is for the workload predicates")
    history = make(
        workload=workload,
        level=level,
        sessions=sessions,
        transactions=transactions,
        keys=keys or 100,
        operations=operations or 4,
        distribution=distribution,
        abort_rate=abort_rate,
        unknown_rate=unknown_rate,
        blind_writes=blind_writes,
        versions=versions,
        inject=inject,
        seed=seed,
        **given,
    )
    tell(output, write(history, output))
    return 0


def _predicates(output: str, **asked: Any) -> int:
    """Writes a history with predicates, and its certificate beside it."""
    from isolde.engines.generate.predicates import generate_predicates

    if output == "-":
        raise UsageError(
            "the workload predicates writes two files, the history and its certificate; name the first with -o"
        )
    history, certificate = generate_predicates(**asked)
    tell(output, write(encode(history), output))
    write_certificate(certificate, certificate_path(output))
    return 0
