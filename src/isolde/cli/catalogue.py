"""``isolde levels``, ``anomalies``, ``databases`` and ``workloads``: what there is, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from isolde.cli import completing
from isolde.errors import UsageError
from isolde.levels import ALSO_CALLED, ANOMALIES, IMPLICATIONS, LEVELS
from isolde.visible import FIT, dumped, fitted, visible

if TYPE_CHECKING:
    from isolde.workloads.application import Application, Scale


def _table(rows: Sequence[tuple[str, ...]], *, headed: bool = False) -> str:
    """The rows in columns; where they do not fit into the terminal, each as an entry of its own."""
    rows = [tuple(visible(cell) for cell in row) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if sum(widths) + 2 * len(widths) > FIT:
        return "\n".join(_entry(row, rows[0] if headed else ()) for row in rows[headed:])
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _entry(row: tuple[str, ...], heads: tuple[str, ...]) -> str:
    """One row as a name with what is said of it below, under the heads of its columns if there are some."""
    name, *cells = row
    if not heads:
        return fitted("  ".join(cell for cell in row if cell.strip()))
    said = [f"{head.lower()}: {cell}" for head, cell in zip(heads[1:], cells, strict=True) if cell]
    return "\n".join([name, *(fitted(f"    {text}") for text in said)])


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def levels(as_json: bool) -> int:
    """The isolation levels: what each asks for, who defined it, which implies which, and what Isolde decides."""
    implied = {
        entry.level: [edge.weaker.value for edge in IMPLICATIONS if edge.stronger is entry.level] for entry in LEVELS
    }
    if as_json:
        rows = [
            {
                "name": entry.level.value,
                "short": entry.short or None,
                "meaning": entry.meaning,
                "source": entry.source,
                "implies": implied[entry.level],
                "decided": entry.decided,
                "also_called": [name for name, level in ALSO_CALLED.items() if level is entry.level],
            }
            for entry in LEVELS
        ]
        click.echo(dumped({"levels": rows}))
        return 0
    head = ("LEVEL", "SHORT", "MEANING", "IMPLIES", "DECIDED", "SOURCE")
    body = [
        (entry.level.value, entry.short, entry.meaning, ", ".join(implied[entry.level]), entry.decided, entry.source)
        for entry in LEVELS
    ]
    click.echo(_table([head, *body], headed=True))
    return 0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def anomalies(as_json: bool) -> int:
    """The anomalies: what each looks like, and the weakest levels that rule it out."""
    levels = {entry.name: [level.value for level in entry.ruled_out_from] for entry in ANOMALIES}
    rows = [(entry.name, ", ".join(levels[entry.name]), entry.description, entry.source) for entry in ANOMALIES]
    if as_json:
        names = ("name", "ruled_out_from", "description", "source")
        content = [
            dict(zip(names, (name, next(iter(levels[name]), None), text, source), strict=True))
            | ({"also_ruled_out_from": levels[name][1:]} if levels[name][1:] else {})
            for name, _, text, source in rows
        ]
        click.echo(dumped({"anomalies": content}))
        return 0
    click.echo(_table([("ANOMALY", "RULED OUT FROM", "DESCRIPTION", "SOURCE"), *rows], headed=True))
    return 0


@click.command()
@click.argument("application", required=False, shell_complete=completing.workloads)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def workloads(application: str | None, as_json: bool) -> int:
    """The workloads: what their transactions do, and where they come from.

    With the name of an APPLICATION, or a file with one: its transactions, sizes and invariants.
    """
    from isolde.workloads import WORKLOADS, counter, predicates, sql
    from isolde.workloads.applications import APPLICATIONS, application_named

    if application == predicates.NAME:
        listed = [(f"  --mix {mix.name}", f"{mix.keys:,} keys", mix.meaning) for mix in predicates.MIXES]
        click.echo(f"{predicates.NAME}: {predicates.MEANING}\n" + _table(listed))
        return 0
    if application == sql.NAME:
        click.echo(f"{sql.NAME}: {sql.MEANING}; --sessions, --tables, --operations and --keys say how large a round is")
        return 0
    if application == counter.NAME:
        click.echo(f"{counter.NAME}: {counter.MEANING}; {counter.KEYS} counters unless --keys says otherwise")
        return 0
    if application is not None:
        if any(entry.name == application for entry in WORKLOADS):
            raise UsageError(f"{application} has keys and no tables; 'isolde workloads' says all there is to say of it")
        found = application_named(application)
        content = _application_content(found)
        click.echo(dumped(content) if as_json else _application_text(found))
        return 0
    if as_json:
        rows: list[dict[str, object]] = [
            {
                "name": entry.name,
                "kind": entry.kind.value,
                "operations": entry.operations,
                "meaning": entry.meaning,
                "source": entry.source,
                "needs": [feature.value for feature in entry.needs],
            }
            for entry in WORKLOADS
        ]
        applications = [
            {"name": entry.name, "meaning": entry.meaning, "source": entry.source} for entry in APPLICATIONS.values()
        ]
        mixes = [
            {
                "name": mix.name,
                "meaning": mix.meaning,
                "keys": mix.keys,
                "weights": {deed.value: weight for deed, weight in mix.weights.items()},
            }
            for mix in predicates.MIXES
        ]
        rows.append(
            {
                "name": predicates.NAME,
                "kind": "tables",
                "operations": predicates.OPERATIONS,
                "meaning": predicates.MEANING,
                "source": predicates.SOURCE,
                "needs": ["order", "sql"],
                "mixes": mixes,
            }
        )
        rows += [
            {
                "name": entry.NAME,
                "kind": "tables",
                "operations": entry.OPERATIONS,
                "meaning": entry.MEANING,
                "source": entry.SOURCE,
                "needs": ["sql"],
            }
            for entry in (sql, counter)
        ]
        click.echo(dumped({"workloads": rows, "applications": applications}))
        return 0
    body = [(entry.name, entry.kind.value, entry.meaning, entry.source) for entry in WORKLOADS]
    body.append((predicates.NAME, "tables", predicates.MEANING, predicates.SOURCE))
    body += [(entry.NAME, "tables", entry.MEANING, entry.SOURCE) for entry in (sql, counter)]
    body += [(entry.name, "tables", entry.meaning, entry.source) for entry in APPLICATIONS.values()]
    click.echo(_table([("WORKLOAD", "OF", "MEANING", "SOURCE"), *body], headed=True))
    return 0


def _application_content(application: Application) -> dict[str, object]:
    return {
        "name": application.name,
        "meaning": application.meaning,
        "source": application.source,
        "mix": application.mix,
        "scale": dict(application.scale),
        "sizes": {name: dict(scale) for name, scale in application.sizes.items()},
        "invariants": [{"name": one.name, "meaning": one.meaning} for one in application.invariants],
    }


def _application_text(application: Application) -> str:
    def sizes(scale: Scale) -> str:
        return ", ".join(f"{name} {size:,}" for name, size in scale.items())

    mix = ", ".join(f"{name} {weight:g}" for name, weight in application.mix.items())
    rows = [("from", application.source), ("--mix", mix), ("--scale", sizes(application.scale) or "none")]
    rows += [(f"--scale {name}", sizes(scale)) for name, scale in application.sizes.items()]
    rows += [
        ("must hold" if not place else "", f"{one.name}: {one.meaning}")
        for place, one in enumerate(application.invariants)
    ]
    return (
        visible(f"{application.name}: {application.meaning}")
        + "\n"
        + _table([(f"  {name}", text) for name, text in rows])
    )


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def databases(as_json: bool) -> int:
    """The databases: how each is addressed, its levels and what it calls them, what it can and cannot do."""
    from isolde.databases import adapters
    from isolde.databases.servers.releases import PACKAGES, versions_in_words

    if as_json:
        rows = [
            {
                "name": adapter.name,
                "schemes": list(adapter.schemes),
                "url": adapter.example,
                "levels": [
                    {
                        "name": offer.name,
                        "called": offer.called,
                        "claims": offer.claims.value,
                        "note": offer.note or None,
                    }
                    for offer in adapter.offers
                ],
                "untested": adapter.untested or None,
                "server_versions": list(PACKAGES[adapter.name].versions) if adapter.name in PACKAGES else [],
                "abilities": {
                    ability.feature.value: {"able": ability.able, "how": ability.how} for ability in adapter.abilities
                },
            }
            for adapter in adapters()
        ]
        click.echo(dumped({"databases": rows}))
        return 0
    for number, adapter in enumerate(adapters()):
        click.echo(("\n" if number else "") + visible(f"{adapter.name}: {adapter.example}"))
        offers = [
            (f"  {offer.name}", offer.called, f"claims {offer.claims.value}", offer.note) for offer in adapter.offers
        ]
        click.echo(_table(offers))
        abilities = [
            (f"  {'+' if ability.able else '-'} {ability.feature.value}", ability.how) for ability in adapter.abilities
        ]
        click.echo(_table(abilities))
        if adapter.untested:
            click.echo(fitted(visible(f"  ? not tested against a live server: {adapter.untested}")))
        if adapter.name in PACKAGES:
            click.echo(fitted(f"  --start {adapter.name} --server-version: {versions_in_words(adapter.name)}"))
    return 0
