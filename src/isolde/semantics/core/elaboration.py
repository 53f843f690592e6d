"""The door to the core: a statement of the language, for a schema and a dialect."""

from __future__ import annotations

from collections.abc import Mapping

from isolde.semantics.core.catalog import Catalog
from isolde.semantics.core.elaborate import Elaborator
from isolde.semantics.core.elaborate_statements import elaborate_statement
from isolde.semantics.core.relations import Statement
from isolde.semantics.core.scope import Scope, Variables
from isolde.semantics.core.types import ValueType
from isolde.tx import statements as tx
from isolde.tx.dialects import Dialect
from isolde.tx.schema import Schema


def elaborate(
    node: tx.Statement, schema: Schema, dialect: Dialect, parameters: Mapping[str, ValueType] | None = None
) -> Statement:
    """The statement in the typed core; ``parameters`` are the types of the values that it is given.

    >>> from isolde.tx.sql import schema, statement
    >>> tables = schema("CREATE TABLE t (id INT PRIMARY KEY, a INT)", Dialect.POSTGRESQL)
    >>> query = elaborate(statement("SELECT a + 1 AS b FROM t", Dialect.POSTGRESQL), tables, Dialect.POSTGRESQL)
    >>> query.outputs[0].value.primitive.name
    'postgresql + int32'
    """
    return elaborated(Catalog(schema, dialect), node, Variables.of(parameters or {}))


def elaborated(catalog: Catalog, node: tx.Statement, variables: Variables) -> Statement:
    """The same for a schema that is known already, and variables that have their numbers."""
    scope = Scope(variables=variables, inner_table_hides_outer=catalog.rules.inner_table_hides_outer)
    return elaborate_statement(Elaborator(catalog), node, scope)
