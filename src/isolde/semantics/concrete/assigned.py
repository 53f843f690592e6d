"""The variables of a procedure that some step assigns to."""

from __future__ import annotations

from collections.abc import Sequence

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
    Run,
    Step,
    While,
)


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
