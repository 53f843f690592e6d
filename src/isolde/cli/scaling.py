"""``--workers``, ``--engine`` and ``--ray-address``: where the work of a verb runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from isolde.errors import UsageError
from isolde.scale import Engine, Workers, opened_workers

_C = TypeVar("_C", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Scaling:
    """What was asked for; nothing: the work is done in this process."""

    count: int | None
    engine: Engine | None
    address: str | None

    @property
    def wanted(self) -> bool:
        """Whether workers were asked for."""
        return self.count is not None or self.engine is not None

    def refuse_with(self, *options: tuple[str, object]) -> None:
        """Refuses options, by name and value, whose work is not done in parts."""
        given = next((name for name, value in options if value), None)
        if given is not None and self.wanted:
            raise UsageError(f"{given} is not done in parts; leave --workers and --engine out")

    @contextmanager
    def workers(self) -> Iterator[Workers | None]:
        """The workers; ``None``: this process alone."""
        if not self.wanted:
            if self.address is not None:
                raise UsageError("--ray-address goes with --engine ray")
            yield None
            return
        with opened_workers(self.engine or "local", self.count, self.address) as found:
            yield found


def scaling_options(command: _C) -> _C:
    """The options, whose values the command gets together as ``scaling``, a :class:`Scaling`."""

    @click.option(
        "--workers",
        "count",
        type=click.IntRange(1),
        metavar="N",
        help="Do the work in parts, by so many processes. [default: in this process]",
    )
    @click.option(
        "--engine",
        type=click.Choice(["local", "ray"]),
        help="Where --workers run: on this machine, or on a Ray cluster (on all its cores, unless --workers says on how many).",
    )
    @click.option(
        "--ray-address",
        "address",
        metavar="ADDRESS",
        help="The cluster's address, or auto. [default: one of this machine]",
    )
    @functools.wraps(command)
    def scaling(*args: Any, count: int | None, engine: Engine | None, address: str | None, **given: Any) -> Any:
        return command(*args, scaling=Scaling(count, engine, address), **given)

    return scaling  # type: ignore[return-value]
