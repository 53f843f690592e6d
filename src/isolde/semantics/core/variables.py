"""What the text of a procedure tells of its variables and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isolde.tx import procedures as pr
from isolde.tx.expressions import Name, Parameter
from isolde.tx.schema import Type
from isolde.tx.walk import parts


def assigned(steps: Sequence[pr.Step]) -> Iterator[str]:
    """Variables that some step assigns to: they are there from the start, null."""
    for step in parts(tuple(steps)):
        match step:
            case pr.Run(count=str(count)):
                yield count
            case pr.Fetch() | pr.FetchCursor():
                yield from step.into
                yield from [] if step.found is None else [step.found]
            case pr.CallProcedure():
                yield from step.into
            case pr.FetchAll():
                yield step.into
            case pr.Assign() | pr.Draw() | pr.Pick() | pr.ForRange():
                yield step.variable
            case pr.ForEach():
                yield from step.variables
            case _:
                pass


def declared_result(procedure: pr.Procedure, place: int) -> Type | None:
    """The type of what is returned at this place, where it is always the same variable of a declared type."""
    returned = {step.values[place : place + 1] for step in parts(procedure.body) if isinstance(step, pr.Return)}
    name = next(iter(returned))[0] if len(returned) == 1 and () not in returned else None
    if not isinstance(name, (Name, Parameter)):
        return None
    locals_ = (*procedure.parameters, *procedure.locals)
    return next((local.type for local in locals_ if local.name == name.name), None)
