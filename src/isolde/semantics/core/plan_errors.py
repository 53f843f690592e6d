"""Errors that depend on the plan: one rule.

A division, a remainder or a cast that can fail, and a scalar query that can give several rows, are refused where some plan may
skip the row that they fail on: in one of several conditions (``y = 1 AND 1 / x > 0``), in a join, under LIMIT, in a query of
EXISTS, IN or FROM. CASE guards them: ``CASE WHEN x <> 0 THEN 1 / x > 0 END``. An overflow of ``+ - *`` is an error when it is
met. PostgreSQL computes what is made of constants before it looks at rows: where that fails, the statement does.
"""

from __future__ import annotations

from typing import assert_never

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.core.dialects import Rules
from isolde.semantics.core.evaluate import constant_value
from isolde.semantics.core.nodes import (
    Apply,
    Bind,
    Choose,
    Coalesce,
    Column,
    Constant,
    Exists,
    Expression,
    Logic,
    Member,
    Scalar,
    Variable,
    below,
    converts_parameter,
    is_constant,
    operands,
)
from isolde.semantics.core.plan import access
from isolde.semantics.core.relations import Delete, Derived, Insert, Join, Query, Scan, Statement, Update, scans
from isolde.semantics.core.types import outside


def check_plan_errors(statement: Statement, rules: Rules) -> None:
    """Refuses what fails or not as the plan has it; raises what fails before any row is looked at."""
    if rules.hides_errors:
        _Check(rules.fails_when_planned).statement(statement)


def check_condition(condition: Expression, rules: Rules) -> None:
    """The same for the condition of IF or WHILE, which a database plans as a query of its own."""
    if rules.hides_errors:
        _Check(rules.fails_when_planned).expression(condition, False, False)


_LEAVES = (Constant, Column, Variable)


class _Check:
    def __init__(self, fails_when_planned: bool) -> None:
        self.fails_when_planned = fails_when_planned

    def statement(self, statement: Statement) -> None:
        match statement:
            case Query():
                self.query(statement, False)
            case Insert():
                if statement.query is not None:
                    self.query(statement.query, False)
                for row in statement.rows:
                    self.all(row, False)
                if statement.conflict is not None:
                    self.all([assigned.value for assigned in statement.conflict.sets], False)
            case Update() | Delete():
                self.all(statement.where, len(statement.where) > 1)
                if isinstance(statement, Update):
                    self.all([assigned.value for assigned in statement.sets], False)
            case _:
                assert_never(statement)

    def query(self, query: Query, skipped: bool) -> None:
        """``skipped``: some plan may not look at all rows of the query."""
        conditions = [*query.where, *_joined(query.source)]
        several = len(conditions) > 1 or isinstance(query.source, Join)
        self.all(conditions, skipped or several)
        for source in scans(query.source):
            if isinstance(source, Derived):
                self.query(source.query, True)
        if query.grouping is not None:
            self.all(query.grouping.keys, skipped)
            self.all([part.operand for part in query.grouping.aggregates if part.operand is not None], skipped)
            self.all(query.grouping.having, skipped or len(query.grouping.having) > 1)
        cut = query.limit is not None or query.offset is not None
        self.all([output.value for output in query.outputs], skipped or cut)
        self.all([order.key for order in query.order], skipped)
        self.all([part for part in (query.limit, query.offset) if part is not None], skipped)

    def all(self, nodes: list[Expression] | tuple[Expression, ...], skipped: bool) -> None:
        for node in nodes:
            if type(node) not in _LEAVES:
                self.expression(node, skipped, False)

    def expression(self, node: Expression, skipped: bool, conditional: bool) -> None:
        """``conditional``: it is not computed for every row, as the right side of an AND."""
        match node:
            case Apply():
                if node.primitive.errors:
                    self.applied(node, skipped, conditional or skipped)
                for argument in node.arguments:
                    self.expression(argument, skipped, conditional)
            case Choose() | Coalesce():
                first, *others = operands(node)
                self.expression(first, skipped, conditional)
                for part in others:
                    self.guarded(part)
            case Logic() | Bind():
                for part in operands(node):
                    self.expression(part, skipped, conditional or isinstance(node, Logic))
            case Exists():
                self.query(node.query, True)
            case Member():
                # Where the query has no rows, the operand need not be computed.
                self.expression(node.operand, True, True)
                self.query(node.query, True)
            case Scalar():
                if node.pick.partial and (skipped or conditional) and not one_row_at_most(node.query):
                    raise _refused("a scalar query that may give several rows", "use LIMIT 1, MIN or MAX")
                self.query(node.query, skipped)
            case _:
                return

    def applied(self, node: Apply, skipped: bool, conditional: bool) -> None:
        if self.fails_when_planned and is_constant(node):
            self.constant(node, conditional)
        elif skipped and node.primitive.partial and not _fails_nowhere_or_at_once(node):
            raise _refused(f"{_kind(node)} that can fail", "write CASE WHEN … THEN … END around it")

    def constant(self, node: Apply, conditional: bool) -> None:
        try:
            constant_value(node)
        except OutsideFragment:
            return
        except ExecutionError as error:
            if conditional:
                raise outside(
                    f"an expression of constants that fails ({error.reason})", "PostgreSQL may fail when it plans"
                ) from None
            raise

    def guarded(self, node: Expression) -> None:
        """A branch of CASE: what fails in it fails only where it is computed, unless it is made of constants."""
        if not self.fails_when_planned:
            return
        for part in below(node):
            if isinstance(part, Apply) and part.primitive.errors and is_constant(part):
                self.constant(part, True)


def one_row_at_most(query: Query) -> bool:
    """Whether the text of a query tells that it gives one row or none."""
    if query.source is None or (query.grouping is not None and query.grouping.whole):
        return True
    limit = query.limit
    bound = limit.arguments[0] if isinstance(limit, Apply) else limit
    if isinstance(bound, Constant) and bound.value in (0, 1):
        return True
    source = query.source
    return isinstance(source, Scan) and access(source, list(query.where), {source.id}).unique is not None


def _joined(source: object) -> list[Expression]:
    if not isinstance(source, Join):
        return []
    return [*_joined(source.left), *_joined(source.right), *source.on]


def _fails_nowhere_or_at_once(node: Apply) -> bool:
    """Whether no row decides if it fails: it is made of constants, converts a parameter, or divides by a number."""
    return is_constant(node) or converts_parameter(node) or _divides_by_constant(node)


def _divides_by_constant(node: Apply) -> bool:
    """A division by a number that is written there, and is not zero, fails only by overflow."""
    if "division-by-zero" not in node.primitive.errors:
        return False
    divisor = node.arguments[1]
    if not is_constant(divisor):
        return False
    try:
        return bool(constant_value(divisor))
    except (ExecutionError, OutsideFragment):
        return False


def _kind(node: Apply) -> str:
    return "a division" if "division-by-zero" in node.primitive.errors else "a cast"


def _refused(what: str, instead: str) -> OutsideFragment:
    return outside(f"{what} on a row that a plan may skip", instead)
