"""What the text of a procedure tells of its variables and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isolde.tx.expressions import Name, Parameter
from isolde.tx.procedures import (
    Assign,
    CallProcedure,
    Draw,
    Fetch,
    FetchAll,
    FetchCursor,
    ForEach,
    ForRange,
    If,
    Pick,
    Procedure,
    Return,
    Run,
    Step,
    While,
)
from isolde.tx.schema import Type


def assigned(steps: Sequence[Step]) -> list[str]:
    """Variables that some step assigns to: they are there from the start, null."""
    found: list[str] = []
    for step in steps:
        match step:
            case Run():
                found += [step.count] if step.count is not None else []
            case Fetch() | FetchCursor() | CallProcedure():
                found += step.into
                found += [step.found] if not isinstance(step, CallProcedure) and step.found is not None else []
            case FetchAll():
                found.append(step.into)
            case Assign() | Draw() | Pick():
                found.append(step.variable)
            case If():
                for _, body in step.branches:
                    found += assigned(body)
                found += assigned(step.otherwise)
            case ForEach():
                found += [*step.variables, *assigned(step.body)]
            case ForRange():
                found += [step.variable, *assigned(step.body)]
            case While():
                found += assigned(step.body)
            case _:
                pass
    return found


def declared_result(procedure: Procedure, place: int) -> Type | None:
    """The type of what is returned at this place, where it is always the same variable of a declared type."""
    returned = {step.values[place : place + 1] for step in returns(procedure.body)}
    name = next(iter(returned))[0] if len(returned) == 1 and () not in returned else None
    if not isinstance(name, Name | Parameter):
        return None
    locals_ = (*procedure.parameters, *procedure.locals)
    return next((local.type for local in locals_ if local.name == name.name), None)


def returns(steps: Sequence[Step]) -> Iterator[Return]:
    for step in steps:
        match step:
            case Return():
                yield step
            case If():
                for body in (*(body for _, body in step.branches), step.otherwise):
                    yield from returns(body)
            case ForEach() | ForRange() | While():
                yield from returns(step.body)
            case _:
                pass
