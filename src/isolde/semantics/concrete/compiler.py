"""Statements to Python functions, one unit at a time: what a unit shares, and how it becomes code."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isolde.semantics.concrete.catalog import RULES, Catalog
from isolde.semantics.concrete.expressions import Frame
from isolde.semantics.concrete.static import Namespace, Static
from isolde.tx.queries import Select

if TYPE_CHECKING:
    from isolde.semantics.concrete.asked import Needs


@dataclass(frozen=True, slots=True)
class Query:
    """A generated function that gives rows, as a call of it. ``correlated``: it needs a row of a query around it.

    ``late``: the columns whose cells may be failures.
    """

    call: str
    columns: tuple[tuple[str, Static], ...]
    correlated: bool
    late: frozenset[str] = frozenset()


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


class Compiler:
    """One unit of generated code in one dialect. ``S`` is the store in it, ``v…`` a variable, ``r…`` a row."""

    def __init__(self, catalog: Catalog, changing: bool = False) -> None:
        self.catalog = catalog
        self.dialect = catalog.dialect
        self.namespace = Namespace()
        self.rules = RULES[catalog.dialect](self.namespace, changing)
        self.functions: list[str] = []

    def function(self, stem: str, frame: Frame, writer: Writer) -> str:
        """Adds a function whose body was written in the frame; the text of a call of it from the frame around."""
        name = self.namespace.fresh(stem)
        arguments = ", ".join(["S", *frame.free])
        memos = [f"    {memo}" for memo in frame.memos]
        self.functions.append("\n".join([f"def {name}({arguments}):", *memos, *writer.lines]))
        return f"{name}({arguments})"

    def query(
        self,
        select: Select,
        parent: Frame | None,
        exists: bool = False,
        kept: bool = False,
        needs: Needs | None = None,
        sorted_: bool = True,
        filtered: bool = False,
        member: bool = False,
        hurried: bool = False,
    ) -> Query:
        from isolde.semantics.concrete.queries import compile_query

        return compile_query(self, select, parent, exists, kept, needs, sorted_, filtered, member, hurried)

    def finish(self, entry: str) -> Any:
        """The generated function of this name, when all are written."""
        source = "\n\n".join(self.functions)
        names: dict[str, Any] = dict(self.namespace.names)
        with warnings.catch_warnings():
            # A constant that is asked whether it is null: right, though nobody would write it.
            warnings.simplefilter("ignore", SyntaxWarning)
            exec(compile(source, f"<isolde {entry}>", "exec"), names)
        return names[entry]
