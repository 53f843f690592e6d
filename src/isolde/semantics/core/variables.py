"""What the text of a procedure tells of its variables and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isolde.tx import procedures as pr
from isolde.tx.expressions import Name, Parameter
from isolde.tx.schema import Type


def assigned(steps: Sequence[pr.Step]) -> list[str]:
    """Variables that some step assigns to: they are there from the start, null."""
    found: list[str] = []
    for step in steps:
        match step:
            case pr.Run():
                found += [step.count] if step.count is not None else []
            case pr.Fetch() | pr.FetchCursor() | pr.CallProcedure():
                found += step.into
                found += [step.found] if not isinstance(step, pr.CallProcedure) and step.found is not None else []
            case pr.FetchAll():
                found.append(step.into)
            case pr.Assign() | pr.Draw() | pr.Pick():
                found.append(step.variable)
            case pr.If():
                for _, body in step.branches:
                    found += assigned(body)
                found += assigned(step.otherwise)
            case pr.ForEach():
                found += [*step.variables, *assigned(step.body)]
            case pr.ForRange():
                found += [step.variable, *assigned(step.body)]
            case pr.While():
                found += assigned(step.body)
            case _:
                pass
    return found


def declared_result(procedure: pr.Procedure, place: int) -> Type | None:
    """The type of what is returned at this place, where it is always the same variable of a declared type."""
    returned = {step.values[place : place + 1] for step in returns(procedure.body)}
    name = next(iter(returned))[0] if len(returned) == 1 and () not in returned else None
    if not isinstance(name, (Name, Parameter)):
        return None
    locals_ = (*procedure.parameters, *procedure.locals)
    return next((local.type for local in locals_ if local.name == name.name), None)


def returns(steps: Sequence[pr.Step]) -> Iterator[pr.Return]:
    for step in steps:
        match step:
            case pr.Return():
                yield step
            case pr.If():
                for body in (*(body for _, body in step.branches), step.otherwise):
                    yield from returns(body)
            case pr.ForEach() | pr.ForRange() | pr.While():
                yield from returns(step.body)
            case _:
                pass
