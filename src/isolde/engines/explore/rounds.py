"""Which bodies a program has, and the rounds in which those over tables find out what is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from isolde.engines.explore.bodies import Bodies, KeyBodies
from isolde.engines.explore.program import Program, first_rows

if TYPE_CHECKING:
    from isolde.engines.explore.tables import Model, TableBodies


def bodies_of(program: Program, model: Model) -> Bodies:
    """What runs the bodies of a program; ``model`` is for one over tables."""
    if not program.over_tables:
        return KeyBodies(program.initial)
    # Programs over keys do not wait for the SQL front end to be imported.
    from isolde.engines.explore.tables import TableBodies

    return TableBodies(program.schema, program.dialect, first_rows(program), model)


def in_rounds(program: Program, bodies: Bodies) -> TableBodies | None:
    """The bodies, if they are explored in rounds."""
    return cast("TableBodies", bodies) if program.over_tables else None


def of_round(program: Program, bodies: Bodies, number: int, rounds: int) -> Bodies:
    """The bodies of a round, after those of the round before it; in the last one all versions are known."""
    tables = in_rounds(program, bodies)
    if tables is None:
        return bodies
    last = number == rounds - 1
    tables = tables.next_round(settled=last) if number else tables
    tables.settled = last
    return tables
