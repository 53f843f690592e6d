"""An application as a workload: tables, transactions with their mix, what must always hold, and data to start with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any

from isolde.errors import MalformedProgram
from isolde.tx.dialects import Dialect
from isolde.tx.procedures import Invariant, Program
from isolde.tx.python import Transaction, program
from isolde.tx.queries import Select
from isolde.tx.schema import Schema
from isolde.tx.sql import schema, statement
from isolde.tx.statements import Statement

Scale = Mapping[str, int]
"""Sizes by name, such as ``{"warehouses": 1, "customers": 30}``."""
Arguments = Callable[[Random, Scale], dict[str, Any]]
Rows = Iterable[tuple[str, tuple[Any, ...]]]
"""Rows to start with: table, and values in the order of its columns; parents before children."""


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of transaction: how often it comes, and arguments for the next one."""

    transaction: Transaction
    weight: float
    arguments: Arguments

    @property
    def name(self) -> str:
        return self.transaction.name


def must_hold(name: str, violations: str, meaning: str) -> Invariant:
    """An invariant by the query that finds what violates it, in PostgreSQL's SQL."""
    query: Statement = statement(violations, Dialect.POSTGRESQL, f"invariant {name}")
    if not isinstance(query, Select):
        raise MalformedProgram(f"invariant {name}", f"'{violations}'", "a query that finds what violates it")
    return Invariant(name, query, meaning)


@dataclass(frozen=True)
class Application:
    """A workload of SQL transactions. ``scale`` has the sizes that the source states, or that fit a first try.

    ``sizes`` are those of the literature that are too large or too small for that, by the name of where they are from.
    """

    name: str
    meaning: str
    source: str
    ddl: str
    parts: tuple[Part, ...]
    populate: Callable[[Random, Scale], Rows]
    scale: Scale
    invariants: tuple[Invariant, ...] = field(default=())
    sizes: Mapping[str, Scale] = field(default_factory=dict)

    @cached_property
    def schema(self) -> Schema:
        return schema(self.ddl, Dialect.POSTGRESQL, self.name)

    @cached_property
    def program(self) -> Program:
        """What the application means, for the engines that reason about it."""
        return program(self.schema, (part.transaction for part in self.parts), self.invariants)

    def variant(self, name: str, meaning: str, source: str, transactions: Mapping[str, Transaction]) -> Application:
        """The same with some transactions, by their names, replaced by others that do the same job."""
        parts = tuple(replace(part, transaction=transactions.get(part.name, part.transaction)) for part in self.parts)
        return replace(self, name=name, meaning=meaning, source=source, parts=parts)

    @property
    def mix(self) -> dict[str, float]:
        """How often each transaction comes, against the others."""
        return {part.name: part.weight for part in self.parts}

    def mixed(self, weights: Mapping[str, float]) -> Application:
        """The same with other weights for some transactions, by their names; one of weight 0 never comes."""
        parts = tuple(replace(part, weight=weights.get(part.name, part.weight)) for part in self.parts)
        return replace(self, parts=parts)
