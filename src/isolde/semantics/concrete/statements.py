"""One statement of any kind as Python text."""

from __future__ import annotations

from typing import assert_never

from isolde.errors import ExecutionError
from isolde.semantics.concrete.changes import compile_delete, compile_insert, compile_update
from isolde.semantics.concrete.compiler import Compiler
from isolde.semantics.concrete.expressions import Frame
from isolde.semantics.concrete.folding import planning_failure
from isolde.semantics.concrete.static import Static
from isolde.tx.dialects import Dialect
from isolde.tx.queries import Select
from isolde.tx.statements import Delete, Insert, Statement, Update

Columns = tuple[tuple[str, Static], ...]


def compile_statement(compiler: Compiler, statement: Statement, frame: Frame) -> tuple[str, str, Columns]:
    """Python text of the rows, of the count (after the rows), and the columns."""
    rows, count, columns = _compile(compiler, statement, frame)
    if compiler.dialect is Dialect.POSTGRESQL:
        error = planning_failure(compiler.catalog, statement, set(frame.variables))
        if error is not None:
            return failure(compiler, error), count, columns
    return rows, count, columns


def _compile(compiler: Compiler, statement: Statement, frame: Frame) -> tuple[str, str, Columns]:
    compiler.rules.changing = not isinstance(statement, Select)
    strict, frame.strict = frame.strict, False
    try:
        match statement:
            case Select():
                query = compiler.query(statement, frame)
                return query.call, "len(rows)", query.columns
            case Insert():
                changed = compile_insert(compiler, statement, frame)
            case Update():
                changed = compile_update(compiler, statement, frame)
            case Delete():
                changed = compile_delete(compiler, statement, frame)
            case _:
                assert_never(statement)
        return changed.call, "", changed.columns
    finally:
        compiler.rules.changing = False
        frame.strict = strict


def failure(compiler: Compiler, error: ExecutionError) -> str:
    """Python text that fails when it is run."""
    return f"{compiler.namespace.ref(fail)}({error.kind!r}, {error.reason!r}, {error.place!r})"


def fail(kind: str, reason: str, place: str) -> None:
    raise ExecutionError(kind, reason, place)
