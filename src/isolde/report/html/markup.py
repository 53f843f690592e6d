"""HTML that cannot be escaped wrongly: texts are escaped unless they are ``Markup`` already."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from isolde.visible import visible

_WITHOUT_END = frozenset({"br", "meta", "input", "path", "rect", "line", "circle", "polygon"})


class Markup(str):
    """Text that is HTML."""

    __slots__ = ()


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """An element. ``cls`` is its class, ``_`` in names is ``-``; an attribute that is ``None`` or ``False`` is left out.

    >>> print(tag("p", "a < b", cls="note", data_t=3))
    <p class="note" data-t="3">a &lt; b</p>
    """
    spelled = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in _WITHOUT_END and not content:
        return Markup(f"<{name}{spelled}/>")
    return Markup(f"<{name}{spelled}>{joined(content)}</{name}>")


def joined(content: Iterable[object]) -> Markup:
    """Parts one after the other; a list is its parts, ``None`` is nothing."""
    return Markup("".join(_part(part) for part in content))


def _part(part: object) -> str:
    match part:
        case None:
            return ""
        case Markup():
            return part
        case str():
            return escape(visible_lines(part))
        case list() | tuple():
            return joined(part)
        case _:
            return escape(visible(str(part)))


def visible_lines(text: str) -> str:
    """The text with control characters and marks of direction escaped; newlines stay."""
    return "\n".join(map(visible, text.split("\n")))


def _attribute(name: str, value: object) -> str:
    spelled = {"cls": "class", "for_": "for"}.get(name, name.replace("_", "-"))
    return f' {spelled}=""' if value is True else f' {spelled}="{escape(visible(str(value)))}"'
