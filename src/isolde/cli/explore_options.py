"""The options of ``isolde explore``, in groups of what they are about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, TypeVar

import click

from isolde.campaigns.explore import DEFAULT_LEVEL, ExploreOptions
from isolde.cli import completing
from isolde.engines.explore.question import explored_level
from isolde.errors import UsageError

_C = TypeVar("_C", bound=Callable[..., Any])


class _Group:
    """Options that belong together: its fields are called as they are."""

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Takes its own out of what was given."""
        return cls(**{field.name: given.pop(field.name) for field in fields(cls)})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Questions(_Group):
    """Which levels of the literature are asked about, and how."""

    levels: tuple[str, ...]
    against: str | None
    base: str | None
    method: Literal["swapping", "dfs"]
    tables: Literal["rows", "set"]
    invariant_after_each_commit: bool


@dataclass(frozen=True, slots=True)
class Bounds(_Group):
    """How far an exploration goes."""

    budget: int | None
    seconds: float | None
    threads: int | None
    checkpoint: str | None


@dataclass(frozen=True, slots=True)
class Sessions(_Group):
    """What sessions of an application run, and on which first rows."""

    sessions: tuple[str, ...]
    scale: tuple[str, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class StoreAsked(_Group):
    """What is asked of a store model beside, or instead of, the levels of the literature."""

    store: str | None
    isolations: tuple[str, ...]
    settings: tuple[str, ...]
    retries: int


@dataclass(frozen=True, slots=True)
class Server(_Group):
    """The real database that schedules are replayed on."""

    both: str | None
    reproduce: str | None
    kind: str | None


def explore_options(question: Questions, bounds: Bounds) -> ExploreOptions:
    """What is asked about the levels of the literature."""
    general, own = _levels(question.levels)
    return ExploreOptions(
        levels=general,
        own=own,
        base=question.base,
        method=question.method,
        tables=question.tables,
        against=None if question.against is None else explored_level(question.against),
        each_commit=question.invariant_after_each_commit,
        calls_max=bounds.budget,
        seconds=bounds.seconds,
        threads=bounds.threads,
        checkpoint=bounds.checkpoint,
    )


def _levels(texts: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Levels of questions, and levels of transactions by name."""
    general, own = [], {}
    for text in texts:
        name, equals, level = text.rpartition("=")
        long = explored_level(level)
        if not equals:
            general += [long] if long not in general else []
        elif name in own:
            raise UsageError(f"--level {text}: {name} is given twice")
        else:
            own[name] = long
    return tuple(general) or (DEFAULT_LEVEL,), own


def isolations_named(texts: tuple[str, ...]) -> tuple[str | None, dict[str, str]]:
    """The level of all transactions, as the database calls it, and those of transactions by name."""
    general: str | None = None
    own: dict[str, str] = {}
    for text in texts:
        name, equals, level = text.rpartition("=")
        spelled = " ".join(level.replace("-", " ").replace("_", " ").lower().split())
        if equals:
            own[name] = spelled
        elif general is not None:
            raise UsageError(f"--isolation {text}: {general} is given already; NAME=LEVEL is for one transaction")
        else:
            general = spelled
    return general, own


_QUESTIONS = (
    click.option(
        "--level",
        "-l",
        "levels",
        shell_complete=completing.levels,
        multiple=True,
        metavar="LEVEL",
        help="rc, ra, cc, pc, si or ser; may be given several times, a question each. NAME=LEVEL gives the transaction NAME its"
        f" own level in all of them. [default: {DEFAULT_LEVEL}]",
    ),
    click.option(
        "--against",
        metavar="LEVEL",
        help="Also list the behaviours that this level does not allow: is the program robust?",
    ),
    click.option(
        "--base",
        metavar="LEVEL",
        help="The level that every step keeps: trivial, rc, ra or cc. [default: cc, or the weakest level asked for]",
    ),
    click.option(
        "--method",
        type=click.Choice(["swapping", "dfs"]),
        default="swapping",
        show_default=True,
        help="swapping visits every history once; dfs is the plain search, for comparison.",
    ),
    click.option(
        "--tables",
        type=click.Choice(["rows", "set"]),
        default="rows",
        show_default=True,
        help="Over SQL: rows alone, or the literature's coarser model with a set of keys for each table.",
    ),
    click.option(
        "--invariant-after-each-commit",
        is_flag=True,
        help="Invariants must hold after each commit, not only at the end.",
    ),
)
_SESSIONS = (
    click.option(
        "--sessions",
        multiple=True,
        metavar="CALLS",
        help='Of an application: the calls of one session, such as "enroll(1, 1); leave(1)"; once for each session.',
    ),
    click.option(
        "--scale", multiple=True, metavar="NAME=N", help="Of an application: a size of its first rows, as in run."
    ),
    click.option(
        "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of an application: of its first rows."
    ),
)
_BOUNDS = (
    click.option(
        "--budget", type=click.IntRange(1), metavar="N", help="Calls of EXPLORE for each level. [default: no limit]"
    ),
    click.option(
        "--time", "seconds", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Seconds for each level."
    ),
    click.option("--threads", type=click.IntRange(1), help="[default: as many as there are cores]"),
    click.option(
        "--checkpoint",
        metavar="FILE",
        help="Go on from FILE if it is there; write it if the exploration is not finished.",
    ),
)
_STORE = (
    click.option(
        "--store",
        type=click.Choice(["postgresql", "mariadb", "mysql", "sqlite"]),
        help="Run the transactions as this database does, on a model of it; without --level, only there.",
    ),
    click.option(
        "--isolation",
        "isolations",
        shell_complete=completing.isolations,
        multiple=True,
        metavar="LEVEL",
        help="With --store: the database's level, such as read-committed; NAME=LEVEL for one transaction. [default: its own]",
    ),
    click.option(
        "--setting",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="With --store: a setting, as innodb_snapshot_isolation=ON.",
    ),
    click.option(
        "--retries",
        type=click.IntRange(0),
        default=0,
        help="With --store: run aborted transactions again. [default: 0]",
    ),
)
_SERVER = (
    click.option(
        "--both", metavar="URL", help="With --schedule: play it on this database too, and say where the two differ."
    ),
    click.option("--reproduce", metavar="URL", help="Replay the schedules of violations on this database."),
    click.option(
        "--start",
        "kind",
        metavar="DATABASE",
        help="For --reproduce or --both: a private server of this kind is started for it.",
    ),
)


def options_of_explore(command: _C) -> _C:
    """All of them, in the order of the help."""
    for option in reversed((*_QUESTIONS, *_SESSIONS, *_STORE, *_SERVER, *_BOUNDS)):
        command = option(command)
    return command
