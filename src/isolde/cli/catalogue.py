"""``isolde levels`` and ``isolde anomalies``: the tables of the theory, one line each."""

from __future__ import annotations

import json

import click

from isolde.levels import ANOMALIES, IMPLICATIONS, LEVELS


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


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
            }
            for entry in LEVELS
        ]
        click.echo(json.dumps({"levels": rows}, ensure_ascii=False))
        return 0
    head = ("LEVEL", "SHORT", "MEANING", "IMPLIES", "DECIDED", "SOURCE")
    body = [
        (entry.level.value, entry.short, entry.meaning, ", ".join(implied[entry.level]), entry.decided, entry.source)
        for entry in LEVELS
    ]
    click.echo(_table([head, *body]))
    return 0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def anomalies(as_json: bool) -> int:
    """The anomalies: what each looks like, and the weakest level that rules it out."""
    rows = [
        (entry.name, entry.ruled_out_from.value if entry.ruled_out_from else "", entry.description, entry.source)
        for entry in ANOMALIES
    ]
    if as_json:
        names = ("name", "ruled_out_from", "description", "source")
        content = [
            dict(zip(names, (name, level or None, text, source), strict=True)) for name, level, text, source in rows
        ]
        click.echo(json.dumps({"anomalies": content}, ensure_ascii=False))
        return 0
    click.echo(_table([("ANOMALY", "RULED OUT FROM", "DESCRIPTION", "SOURCE"), *rows]))
    return 0
