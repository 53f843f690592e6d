"""Arguments that a Python function would compute with in another way than the store: refused before anything is run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from isolde.semantics.core.types import outside
from isolde.semantics.core.values.python import fitting
from isolde.tx.expressions import Constant

if TYPE_CHECKING:
    from isolde.tx.procedures import Local

Argument = Constant | Sequence[Constant] | Sequence[Sequence[Constant]]
"""What a procedure is given: a value, or a list of values, or of tuples of values, for a parameter that is one."""

LISTS = (list, tuple)
_CONSTANTS = frozenset(get_args(Constant))


def refuse_unlike_python(
    parameters: Sequence[Local], arguments: Iterable[Argument], sent: Mapping[type, Callable[[Any], Any]]
) -> None:
    """``sent``: what becomes of values of a type that the database does not have; the function would see them as they were."""
    for local, argument in zip(parameters, arguments, strict=False):
        if isinstance(argument, LISTS):
            for values in _columns(local, argument):
                _refuse_values(local, values, sent)
        elif local.many:
            # Python would loop over the letters of a text.
            raise outside(f"{argument!r} for the list {local.name}", "give a list")
        elif sent:
            _refuse_converted(type(argument), sent)


def _columns(local: Local, items: Sequence[Any]) -> Iterable[Collection[Any]]:
    """The values of a list by their places in its tuples."""
    if not local.many:
        raise outside(f"a list for the value {local.name}", "loop over it in the function, or give a value")
    # A tuple of one value is that value to the store, and not to Python.
    widths = {len(item) if isinstance(item, LISTS) else None for item in items}
    if local.width is None:
        wanted, elements = widths, "elements of one kind"
    else:
        wanted = {None if local.width == 1 else local.width}
        elements = "values" if local.width == 1 else f"tuples of {local.width}"
    if len(widths) > 1 or 0 in widths or not widths <= wanted:
        raise outside(f"this list for {local.name}", f"give a list of {elements}")
    return (items,) if None in widths else tuple(zip(*items, strict=True))


def _refuse_values(local: Local, values: Collection[Any], sent: Mapping[type, Callable[[Any], Any]]) -> None:
    types = set(map(type, values))
    if type(None) in types:
        values = [value for value in values if value is not None]
        types.discard(type(None))
    if len(types) > 1 or not types <= _CONSTANTS:
        named = ", ".join(sorted(kind.__name__ for kind in types))
        raise outside(f"{named} in the list {local.name}", "give numbers, texts or times, one type at a place")
    for kind in types:
        _refuse_converted(kind, sent)
        if kind is int:
            fitting(min(values))
            fitting(max(values))


def _refuse_converted(kind: type, sent: Mapping[type, Callable[[Any], Any]]) -> None:
    if kind in sent and kind is not bool:
        raise outside(f"a {kind.__name__} given to a function in SQLite", "give an integer or a text")
