"""The types of what procedures return, where their text tells them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isolde.tx.expressions import Name, Parameter
from isolde.tx.procedures import ForEach, ForRange, If, Procedure, Return, Step, While
from isolde.tx.schema import Type


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
