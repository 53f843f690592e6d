"""Generated Python: names, lines, functions. Nothing that a user wrote gets into it: literals, too, are names in it."""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import Any


class Writer:
    """Lines of Python, indented."""

    def __init__(self, indent: int = 1) -> None:
        self.lines: list[str] = []
        self.indent = indent

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def open(self, text: str) -> None:
        self.line(text)
        self.indent += 1


class Unit:
    """One unit of generated code. ``S`` is the store in it, ``r1`` a row, ``v1`` a variable, ``b1`` a value that was bound."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._by_id: dict[int, str] = {}
        self._fresh = 0
        self.functions: list[str] = []

    def fresh(self, stem: str) -> str:
        self._fresh += 1
        return f"{stem}{self._fresh}"

    def ref(self, thing: Any) -> str:
        """A name for one of our functions or objects; the same thing has one name."""
        name = self._by_id.get(id(thing))
        if name is None:
            name = self.fresh("f")
            self.names[name] = thing
            self._by_id[id(thing)] = name
        return name

    def constant(self, value: Any) -> str:
        """Values have names, so that statements which differ in nothing else have one text."""
        if value is None or value is True or value is False:
            return repr(value)
        name = self.fresh("c")
        self.names[name] = value
        return name

    def add(self, name: str, arguments: list[str], memos: list[str], lines: list[str]) -> None:
        header = f"def {name}({', '.join(['S', *arguments])}):"
        self.functions.append("\n".join([header, *[f"    {memo}" for memo in memos], *lines]))

    def expression(self, arguments: list[str], text: str) -> Any:
        """A function that gives the value of an expression which needs no other function."""
        return eval(python_code(f"lambda {', '.join(arguments)}: {text}", "eval"), self.names)

    def finish(self, entry: str) -> Any:
        """The generated function of this name, when all are written."""
        exec(python_code("\n".join(self.functions)), self.names)
        return self.names.pop(entry)


@lru_cache(maxsize=10_000)
def python_code(text: str, mode: str = "exec") -> CodeType:
    """Python's own compiler takes half of the time that a statement needs: each text goes through it once a process.

    All that tells two statements of one text apart (tables' checks, constants, functions of the dialect) is in the names.
    """
    return compile(text, "<isolde>", mode)


def tuple_text(texts: list[str]) -> str:
    """Python text of a tuple."""
    return f"({', '.join(texts)},)" if texts else "()"
