"""Names in procedures: blocks have variables of their own, the language has one set a procedure.

A variable that hides another gets a name of its own, and so do its uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Name, Parameter
from isolde.tx.queries import TableSource
from isolde.tx.rewrite import rewritten
from isolde.tx.statements import Delete, Insert, Update

_Node = TypeVar("_Node")


@dataclass
class Scope:
    """Names as they are written in one block, and the variables that they mean. ``label``: a name for the block itself."""

    label: str | None = None
    variables: dict[str, str] = field(default_factory=dict)


@dataclass
class Names:
    """The blocks around a place, from outside in."""

    scopes: list[Scope] = field(default_factory=lambda: [Scope()])
    taken: set[str] = field(default_factory=set)

    def declare(self, name: str) -> str:
        """The variable that ``name`` means from here to the end of its block."""
        variable, number = name, 2
        while variable in self.taken:
            variable, number = f"{name}__{number}", number + 1
        self.taken.add(variable)
        self.scopes[-1].variables[name] = variable
        return variable

    def hidden(self, name: str) -> str:
        """A variable that no text can name."""
        number = 1
        while f"{name}__{number}" in self.taken:
            number += 1
        self.taken.add(f"{name}__{number}")
        return f"{name}__{number}"

    def open(self, label: str | None = None) -> None:
        self.scopes.append(Scope(label))

    def close(self) -> None:
        self.scopes.pop()

    def variable(self, name: str) -> str:
        """What ``name`` means here; a name that nobody declared is itself."""
        for scope in reversed(self.scopes):
            if name in scope.variables:
                return scope.variables[name]
        return name

    def qualified(self, label: str, name: str) -> str | None:
        """PostgreSQL's ``label.variable``."""
        for scope in reversed(self.scopes):
            if scope.label == label:
                return scope.variables.get(name)
        return None

    @property
    def visible(self) -> frozenset[str]:
        return frozenset(name for scope in self.scopes for name in scope.variables)

    def resolved(self, node: _Node, dialect: Dialect) -> _Node:
        """The node with the variables that its names mean."""
        labels = {scope.label for scope in self.scopes} - {None}
        moved = {name for name in self.visible if self.variable(name) != name}
        if not moved and not labels:
            return node
        tables: set[str] = set()

        def look(part: Any) -> Any:
            if isinstance(part, TableSource):
                tables.update((part.alias or part.table,))
            elif isinstance(part, Insert | Update | Delete):
                tables.add(part.table)
            return part

        def change(part: Any) -> Any:
            if isinstance(part, Parameter) and part.name in moved:
                return replace(part, name=self.variable(part.name))
            if not isinstance(part, Name) or part.table in tables:
                return part
            if part.table is None:
                known = part.name in moved and dialect is Dialect.POSTGRESQL
                return replace(part, name=self.variable(part.name)) if known else part
            if part.table in moved:
                return replace(part, table=self.variable(part.table))
            if part.table in labels and (variable := self.qualified(part.table, part.name)) is not None:
                return Parameter(variable, part.place)
            return part

        rewritten(node, look)
        return rewritten(node, change)
