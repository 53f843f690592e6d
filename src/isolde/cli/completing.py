"""What the shell offers for names on the command line: levels, workloads, applications, what databases call their levels.

They are looked up when the shell asks, so that options cost nothing before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

from isolde.levels import LEVELS

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _offering(names: Callable[[click.Context], Iterable[str]], *, files: bool = False) -> Complete:
    """Offers the names that begin as what is typed; ``files``: and the files of the directory."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        del parameter
        found: list[CompletionItem] = [CompletionItem(name) for name in names(context) if name.startswith(typed)]
        return [*found, CompletionItem(typed, type="file")] if files else found

    return complete


def _levels(context: click.Context) -> list[str]:
    del context
    return [name for entry in LEVELS for name in (entry.level.value, entry.short) if name]


def _workloads(context: click.Context) -> list[str]:
    del context
    from isolde.workloads import WORKLOADS, counter, predicates, sql
    from isolde.workloads.applications import APPLICATIONS

    return [*(entry.name for entry in WORKLOADS), predicates.NAME, sql.NAME, counter.NAME, *APPLICATIONS]


def _applications(context: click.Context) -> list[str]:
    del context
    from isolde.workloads.applications import APPLICATIONS

    return list(APPLICATIONS)


def _isolations(context: click.Context) -> list[str]:
    """Of the database that is named already, else of all."""
    from isolde.databases import adapters
    from isolde.databases.servers import SPOKEN

    said: dict[str, Any] = context.params
    kind = SPOKEN.get(said.get("kind") or said.get("store") or "", "") or (said.get("url") or "").partition(":")[0]
    of_kind = [one for one in adapters() if kind == one.name or kind in one.schemes]
    return list(dict.fromkeys(offer.name for one in of_kind or adapters() for offer in one.offers))


levels, workloads, isolations = _offering(_levels), _offering(_workloads), _offering(_isolations)
applications = _offering(_applications, files=True)
