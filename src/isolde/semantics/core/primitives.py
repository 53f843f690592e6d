"""Primitives: the operations on values, one table for all readings.

A primitive is named, has the Python function that every reading uses, and says what a reading has to know of it: whether null
goes through it, which errors it can end in, and the Python text that computes it inline. Each dialect adds its own
(``isolde.semantics.core.dialects``); ``PRIMITIVES`` holds them all by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """``function`` gets the operands' values; a ``strict`` one is never called with a null, and gives null instead.

    ``template``: Python text with ``{0}``, ``{1}`` for the operands and ``{f}`` for ``helper``; without it the function is
    called. ``nullable``: it may give null though no operand is null. ``errors``: the kinds of ``ExecutionError`` that it can
    end in. ``partial``: a division, a remainder or a cast that fails on some values, so that a plan which skips such a row
    hides the failure. ``smt``: the form that a solver takes, where there is one.
    """

    name: str
    function: Callable[..., Any]
    template: str = ""
    helper: Callable[..., Any] | None = None
    strict: bool = True
    nullable: bool = False
    errors: frozenset[str] = frozenset()
    partial: bool = False
    smt: str = ""


PRIMITIVES: dict[str, Primitive] = {}


def primitive(
    name: str,
    function: Callable[..., Any],
    template: str = "",
    *,
    helper: Callable[..., Any] | None = None,
    strict: bool = True,
    nullable: bool = False,
    errors: str = "",
    partial: bool = False,
    smt: str = "",
) -> Primitive:
    """Adds a row to the table; ``errors`` are kinds with blanks between them."""
    if name in PRIMITIVES:
        raise AssertionError(f"two primitives are called {name}")
    made = Primitive(name, function, template, helper, strict, nullable, frozenset(errors.split()), partial, smt)
    PRIMITIVES[name] = made
    return made


# What all dialects share


def _equal(left: Any, right: Any) -> bool:
    return bool(left == right)


EQUAL = primitive("=", _equal, "({0} == {1})", smt="=")
NOT_EQUAL = primitive("<>", lambda left, right: left != right, "({0} != {1})", smt="distinct")
LESS = primitive("<", lambda left, right: left < right, "({0} < {1})", smt="<")
LESS_EQUAL = primitive("<=", lambda left, right: left <= right, "({0} <= {1})", smt="<=")
GREATER = primitive(">", lambda left, right: left > right, "({0} > {1})", smt=">")
GREATER_EQUAL = primitive(">=", lambda left, right: left >= right, "({0} >= {1})", smt=">=")
SAME = primitive("is not distinct from", _equal, "({0} == {1})", strict=False, smt="=")
NOT = primitive("not", lambda value: not value, "(not {0})", smt="not")
XOR = primitive("xor", lambda left, right: left is not right, "({0} is not {1})", smt="xor")
IS_NULL = primitive("is null", lambda value: value is None, "({0} is None)", strict=False)
IS_NOT_NULL = primitive("is not null", lambda value: value is not None, "({0} is not None)", strict=False)
IS_TRUE = primitive("is true", lambda value: value is True, "({0} is True)", strict=False)
IS_NOT_TRUE = primitive("is not true", lambda value: value is not True, "({0} is not True)", strict=False)
IS_FALSE = primitive("is false", lambda value: value is False, "({0} is False)", strict=False)
IS_NOT_FALSE = primitive("is not false", lambda value: value is not False, "({0} is not False)", strict=False)
TRUTH_TO_NUMBER = primitive("boolean to 0 or 1", lambda value: +value, "(+{0})")
