"""Applications of one's own: what can be seen to be wrong before anything is made or run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from inspect import signature
from math import isfinite
from random import Random

from isolde.errors import UsageError
from isolde.tx.dialects import Dialect
from isolde.tx.procedures import Invariant
from isolde.tx.python import Transaction
from isolde.tx.render import rendered
from isolde.workloads.application import Application, Part, Scale
from isolde.workloads.blame import blamed

_NAME_MAX = 60


def refuse_mistakes(application: Application) -> None:
    """Raises ``UsageError``, or what is wrong with the tables."""
    name = application.name
    # The name is a part of the name of the run's directory.
    if not isinstance(name, str) or not re.fullmatch(rf"[\w.-]{{1,{_NAME_MAX}}}", name):
        raise UsageError(
            f"the name {str(name)[:80]!r}; an application's has up to {_NAME_MAX} letters, digits, '.', '-' and '_'"
        )
    if not isinstance(application.ddl, str) or not application.schema.tables:
        raise UsageError("ddl makes no table")
    _refuse_parts(application.parts)
    _refuse_scale("scale", application.scale)
    if not isinstance(application.sizes, Mapping):
        raise UsageError(f"sizes is {application.sizes!r}; it has scales by name")
    for called, scale in application.sizes.items():
        _refuse_scale(f"sizes[{called!r}]", scale)
        if set(scale) != set(application.scale):
            raise UsageError(f"sizes[{called!r}] has {', '.join(scale)}; scale has {', '.join(application.scale)}")
    _refuse_invariants(application.invariants)


def _refuse_scale(what: str, scale: Scale) -> None:
    if not isinstance(scale, Mapping) or not all(type(size) is int and size >= 1 for size in scale.values()):
        raise UsageError(f"{what} is {scale!r}; it has sizes by name, each a whole number from 1 on")


def refuse_arguments(application: Application, scale: Scale, seed: int) -> None:
    """Draws arguments once for each transaction: it must take them."""
    for part in application.parts:
        with blamed(f"the arguments of {part.name}"):
            arguments = part.arguments(Random(seed), scale)
        if not isinstance(arguments, Mapping):
            raise UsageError(f"the arguments of {part.name} are {arguments!r}; expected a dictionary by name")
        taken = signature(part.transaction.function)
        try:
            taken.bind(None, **arguments)
        except TypeError as error:
            given = ", ".join(arguments) or "none"
            raise UsageError(
                f"the transaction {part.name}{taken} does not take its arguments ({given}): {error}"
            ) from None


def _refuse_parts(parts: tuple[Part, ...]) -> None:
    if not isinstance(parts, Iterable) or not all(isinstance(part, Part) for part in parts):
        raise UsageError("parts are not all Part(transaction, weight, arguments)")
    if not parts:
        raise UsageError("parts is empty; an application needs a transaction")
    for part in parts:
        if not isinstance(part.transaction, Transaction):
            raise UsageError(f"{part.transaction!r} in parts is no transaction; put @transaction before its function")
        if not isinstance(part.weight, int | float) or not isfinite(part.weight) or part.weight < 0:
            raise UsageError(f"the weight of {part.name} is {part.weight!r}; expected a number from 0 on")
        if not callable(part.arguments):
            raise UsageError(f"the arguments of {part.name} are no function of a random generator and the sizes")
    if not any(part.weight for part in parts):
        raise UsageError("all weights are 0; none of the transactions would ever come")
    _refuse_twice("transactions", (part.name for part in parts))


def _refuse_invariants(invariants: tuple[Invariant, ...]) -> None:
    if not isinstance(invariants, Iterable) or not all(isinstance(entry, Invariant) for entry in invariants):
        raise UsageError("invariants are not all must_hold(name, query, meaning)")
    _refuse_twice("invariants", (invariant.name for invariant in invariants))
    for invariant in invariants:
        _, parameters = rendered(invariant.violations, Dialect.POSTGRESQL)
        if parameters:
            raise UsageError(f"the invariant {invariant.name} has the parameter :{parameters[0]}; it can have none")


def _refuse_twice(what: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise UsageError(f"two {what} are called {name}; each needs a name of its own")
