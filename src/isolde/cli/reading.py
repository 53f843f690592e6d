"""The options that say how a history's file is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from isolde._core import FailedCas, Reading

_C = TypeVar("_C", bound=Callable[..., Any])
_SIZE = re.compile(r"(\d{1,12})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE_MAX = 2**63 - 1


def _size(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """A number of bytes: ``1000``, ``512M``, ``2G``."""
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip())
    size = int(found[1]) * _UNITS[found[2].lower()] if found else 0
    if not 0 < size <= _SIZE_MAX:
        raise click.BadParameter(
            f"{text!r} is no size; give bytes, or a number with K, M, G or T behind it, such as 512M"
        )
    return size


def reading_options(command: _C) -> _C:
    """``--failed-cas``, ``--line-limit`` and ``--size-limit``, which :func:`reading_of` puts together."""
    for option in (
        click.option(
            "--size-limit",
            callback=_size,
            metavar="SIZE",
            help="Read no more than this, unpacked. [default: 64G of JSON Lines, 64M of the notation, 2G of others]",
        ),
        click.option(
            "--line-limit", callback=_size, metavar="SIZE", help="Read no longer line of JSON Lines. [default: 256M]"
        ),
        click.option(
            "--failed-cas",
            type=click.Choice(["aborted", "compared"]),
            default="aborted",
            show_default=True,
            help="What a :fail of a Jepsen history's compare-and-set means: that it did not take place, or that it compared and"
            " found another value (as in Porcupine's logs of etcd).",
        ),
    ):
        command = option(command)
    return command


initial_option = click.option(
    "--initial",
    type=click.IntRange(-(2**63) + 1, 2**63 - 1),
    metavar="N",
    help="What every key of another tool's file holds at first. [default: what such files usually mean]",
)


def reading_of(
    failed_cas: FailedCas, line_limit: int | None, size_limit: int | None, initial: int | None = None
) -> Reading:
    """What the options say."""
    return Reading(failed_cas, line_limit, size_limit, initial)
