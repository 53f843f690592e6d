"""What a name in a query stands for: the rows of one of its sources."""

from __future__ import annotations

from dataclasses import dataclass

from isolde.semantics.concrete.catalog import TableInfo
from isolde.semantics.concrete.static import Code, Static


@dataclass(slots=True)
class Binding:
    """Rows of a source under its name, in a variable of the generated code."""

    name: str
    variable: str
    columns: dict[str, tuple[int, Static, bool]]
    table: TableInfo | None = None
    optional: bool = False
    late: frozenset[str] = frozenset()
    reader: str = ""
    """The function that reads a cell of the columns that are ``late``."""

    def code(self, column: str) -> Code:
        position, type_, solid = self.columns[column]
        stored = self.table is not None
        text = f"{self.variable}[{position}]"
        if column in self.late:
            text = f"{self.reader}({text})"
        return Code(text, type_, column=stored, solid=solid and not self.optional)
