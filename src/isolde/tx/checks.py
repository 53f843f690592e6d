"""CHECKs as invariants: the queries that find the rows for which one is false."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Unary, UnaryOperation
from isolde.tx.procedures import Invariant
from isolde.tx.queries import Select
from isolde.tx.schema import Table
from isolde.tx.sql import statement


def checks_of(table: Table) -> Iterator[Invariant]:
    """What the CHECKs of a table demand of its rows; unknown passes."""
    for number, check in enumerate(table.checks, 1):
        name = check.name or f"check {number} of {table.name}"
        query = statement(f'SELECT 1 FROM "{table.name}"', Dialect.POSTGRESQL, name)
        assert isinstance(query, Select)
        yield Invariant(name, replace(query, where=UnaryOperation(Unary.NOT, check.condition)))
