"""The language to the typed core: one statement of any kind."""

from __future__ import annotations

from isolde.semantics.core.elaborate import Elaborator
from isolde.semantics.core.elaborate_changes import ChangeElaborator
from isolde.semantics.core.plan_errors import check_plan_errors
from isolde.semantics.core.relations import Query, Statement
from isolde.semantics.core.scope import Scope
from isolde.semantics.core.types import ValueType
from isolde.tx import statements as st
from isolde.tx.queries import Select

Columns = tuple[tuple[str, ValueType], ...]


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
