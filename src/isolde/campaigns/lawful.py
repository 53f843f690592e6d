"""States that a database itself would not let be: a null where none may be, a CHECK that fails, a reference to nothing.

Rows that are put into a store as they are obey unique keys alone; a counterexample may begin with none that a database refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isolde.engines.explore.invariants import holds, loaded_store
from isolde.semantics.concrete import Store
from isolde.tx.checks import checks_of
from isolde.tx.schema import ForeignKey, Schema, Table

_Rows = Mapping[str, Sequence[tuple[Any, ...]]]


class Laws:
    """What a schema demands of every state."""

    def __init__(self, schema: Schema) -> None:
        self.tables = schema.tables
        self._checks = [one for table in schema.tables.values() for one in checks_of(table)]

    def kept(self, store: Store) -> bool:
        """Whether a database may be in this state; that unique keys are kept is taken for granted."""
        rows: _Rows = store.state()
        return all(self._table_kept(table, rows) for table in self.tables.values()) and all(
            holds(one.name, one.violations, rows, lambda: loaded_store(store, rows)) for one in self._checks
        )

    def _table_kept(self, table: Table, rows: _Rows) -> bool:
        named = [place for place, one in enumerate(table.columns) if not one.nullable or one.name in table.primary_key]
        if any(row[place] is None for row in rows[table.name] for place in named):
            return False
        return all(self._found(table, key, rows) for key in table.foreign_keys)

    def _found(self, child: Table, key: ForeignKey, rows: _Rows) -> bool:
        parent = self.tables[key.table]
        there = set(_values(parent, key.references, rows))
        return all(None in values or values in there for values in _values(child, key.columns, rows))


def _values(table: Table, columns: Sequence[str], rows: _Rows) -> list[tuple[Any, ...]]:
    names = [one.name for one in table.columns]
    places = [names.index(column) for column in columns]
    return [tuple(row[place] for place in places) for row in rows[table.name]]
