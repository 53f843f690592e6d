"""The language to the typed core: one statement of any kind."""

from __future__ import annotations

from collections.abc import Mapping

from isolde.semantics.core.catalog import Catalog
from isolde.semantics.core.elaborate import Elaborator
from isolde.semantics.core.elaborate_changes import ChangeElaborator
from isolde.semantics.core.plan_errors import check_plan_errors
from isolde.semantics.core.relations import Query, Statement
from isolde.semantics.core.scope import Scope, Variables
from isolde.semantics.core.types import ValueType
from isolde.tx import statements as st
from isolde.tx.dialects import Dialect
from isolde.tx.queries import Select
from isolde.tx.schema import Schema

Columns = tuple[tuple[str, ValueType], ...]


def elaborate(
    node: st.Statement, schema: Schema, dialect: Dialect, parameters: Mapping[str, ValueType] | None = None
) -> Statement:
    """The statement in the typed core; ``parameters`` are the types of the values that it is given.

    >>> from isolde.tx.sql import schema, statement
    >>> tables = schema("CREATE TABLE t (id INT PRIMARY KEY, a INT)", Dialect.POSTGRESQL)
    >>> query = elaborate(statement("SELECT a + 1 AS b FROM t", Dialect.POSTGRESQL), tables, Dialect.POSTGRESQL)
    >>> query.outputs[0].value.primitive.name
    'postgresql + int32'
    """
    return elaborated(Catalog(schema, dialect), node, Variables.of(parameters or {}))


def elaborated(catalog: Catalog, node: st.Statement, variables: Variables) -> Statement:
    """The same for a schema that is known already, and variables that have their numbers."""
    scope = Scope(variables=variables, inner_table_hides_outer=catalog.rules.inner_table_hides_outer)
    return elaborate_statement(Elaborator(catalog), node, scope)


def elaborate_statement(elaborator: Elaborator, node: st.Statement, scope: Scope) -> Statement:
    """One statement of any kind; what depends on the plan is refused."""
    statement: Statement
    strict, scope.strict = scope.strict, False
    try:
        if isinstance(node, Select):
            statement = elaborator.query(node, scope, elaborator.rules(changing=False))
        else:
            statement = ChangeElaborator(elaborator, scope).statement(node)
    finally:
        scope.strict = strict
    check_plan_errors(statement, elaborator.rules(changing=not isinstance(node, Select)))
    return statement


def columns_of(statement: Statement) -> Columns:
    """Names and types of the columns that come back."""
    outputs = statement.outputs if isinstance(statement, Query) else statement.returning
    return tuple((output.name, output.type) for output in outputs)
