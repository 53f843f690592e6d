"""For mkdocs: the reference pages, made from the command line and the tables of the package itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click
from mkdocs.structure.files import File, Files

from isolde.cli.main import cli
from isolde.levels.promises import PROMISES
from isolde.levels.stores import STORE_LEVELS

_VERBS_OF_TABLES = ("levels", "anomalies", "databases", "workloads")


def on_files(files: Files, config: Any, **_: object) -> Files:
    """Adds the pages of the reference."""
    for name, text in pages().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def pages() -> dict[str, str]:
    """Name and text of each page."""
    return {
        "commands": "\n".join(_commands()),
        "levels": "\n".join(_levels()),
        "anomalies": "\n".join(_anomalies()),
        "databases": "\n".join(_databases()),
        "workloads": "\n".join(_workloads()),
        "stores": "\n".join(_stores()),
    }


def _commands() -> Iterator[str]:
    context = click.Context(cli, info_name="isolde")
    yield "# The command line"
    yield ""
    yield _paragraphs(cli.help)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        own = click.Context(command, info_name=f"isolde {name}")
        yield f"\n## isolde {name}\n"
        yield f"    isolde {name} {' '.join(command.collect_usage_pieces(own))}\n"
        yield _paragraphs(command.help)
        yield ""
        options = [record for one in command.get_params(own) if (record := one.get_help_record(own)) is not None]
        yield from _table(("option", "what it does"), [(f"`{option}`", text) for option, text in options if text])


def _levels() -> Iterator[str]:
    yield "# Levels\n\nWhat each asks for, and what it implies; [pictures and explanations](../levels.md).\n"
    rows = [
        (
            f"`{row['name']}`",
            ", ".join(f"`{name}`" for name in [row["short"], *row["also_called"]] if name),
            row["meaning"],
            ", ".join(row["implies"]),
            row["decided"],
            row["source"],
        )
        for row in _listed("levels")["levels"]
    ]
    yield from _table(("level", "also called", "meaning", "implies", "decided", "source"), rows)
    yield "\n## What the names promise\n"
    rows = [(f"`{one.name}`", one.standard, f"{one.literature.value}: {one.source}") for one in PROMISES]
    yield from _table(("name", "in the standard", "in the literature"), rows)


def _anomalies() -> Iterator[str]:
    yield "# Anomalies\n"
    rows = [
        (
            f"`{row['name']}`",
            row["description"],
            ", ".join([row["ruled_out_from"] or "no level", *row.get("also_ruled_out_from", ())]),
            row["source"],
        )
        for row in _listed("anomalies")["anomalies"]
    ]
    yield from _table(("anomaly", "what it looks like", "ruled out from", "source"), rows)


def _databases() -> Iterator[str]:
    yield "# Databases\n\nWhat was found on them is told [elsewhere](../databases.md).\n"
    for row in _listed("databases")["databases"]:
        yield f"\n## {row['name']}\n\n`{row['url']}`\n"
        levels = [(f"`{one['name']}`", one["called"], one["claims"], one["note"] or "") for one in row["levels"]]
        yield from _table(("`--isolation`", "what is sent", "claims", "note"), levels)
        yield ""
        abilities = [
            (name, "yes" if one["able"] else "no", one["how"]) for name, one in sorted(row["abilities"].items())
        ]
        yield from _table(("ability", "", "how"), abilities)


def _workloads() -> Iterator[str]:
    found = _listed("workloads")
    yield "# Workloads\n"
    rows = [(f"`{one['name']}`", one["kind"], one["meaning"], one["source"]) for one in found["workloads"]]
    yield from _table(("workload", "of", "meaning", "source"), rows)
    yield "\n## Applications\n\n[Their transactions and invariants](../applications.md).\n"
    rows = [(f"`{one['name']}`", one["meaning"], one["source"]) for one in found["applications"]]
    yield from _table(("application", "meaning", "source"), rows)


def _stores() -> Iterator[str]:
    yield "# Store models\n\nWhat each level of a database does, as [its model](../stores.md) has it.\n"
    rows = [
        (
            f"`{one.store.value}:{one.level}`" + "".join(f" with `{name}={value}`" for name, value in one.when),
            one.reads.value,
            one.changed_row.value,
            one.read_locks.value + (", gaps too" if one.gaps else ""),
            one.aborts,
            one.source,
        )
        for one in STORE_LEVELS
    ]
    yield from _table(("level", "reads from", "a row that changed", "locks of reads", "aborts", "source"), rows)


def _listed(verb: str) -> dict[str, Any]:
    from click.testing import CliRunner

    answer = CliRunner().invoke(cli, [verb, "--json"], standalone_mode=False)
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(text: str) -> str:
    """One line; a bar inside of code is no end of a cell."""
    line = " ".join(text.split())
    return line if line.startswith("`") and line.endswith("`") else line.replace("|", "\\|")


def _paragraphs(text: str | None) -> str:
    """Help as Markdown: what stands below a backspace is kept as it is, as in the terminal."""
    return "\n\n".join(
        "\n".join(f"    {line.strip()}" for line in one.splitlines()[1:])
        if one.lstrip(" ").startswith("\b")
        else " ".join(one.split())
        for one in (text or "").split("\n\n")
    )
