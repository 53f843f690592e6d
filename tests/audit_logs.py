"""Logs of SQL transactions, written down short, and what ``isolde audit`` says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import isolde
from isolde import History, Sql, Status, Transaction
from isolde.findings import FailingPrefix

TABLE = ("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",)
TWO_ROWS = {"t": [[1, 0, 0], [2, 0, 0]]}


def txn(id: str, *ops: tuple[Any, ...], status: str = "committed", **more: Any) -> Transaction:
    """A transaction; an operation is its text, its parameters, the rows, the count."""
    content = [dict(zip(("sql", "params", "rows", "count"), op, strict=False)) for op in ops]
    session = more.pop("session", id)
    return Transaction(id, session, tuple(Sql(one) for one in content), Status(status), **more)


def log(
    *transactions: Transaction,
    dialect: str = "postgresql",
    schema: Sequence[str] = TABLE,
    rows: dict[str, Any] | None = None,
    **header: Any,
) -> History:
    extra = {"dialect": dialect, "schema": list(schema), "rows": TWO_ROWS if rows is None else rows, **header}
    return History(transactions, extra=extra)


def verdict(history: History, level: str, **options: Any) -> str:
    return isolde.audit(history, level, **options).verdict.value


def failing(history: History, level: str, **options: Any) -> FailingPrefix:
    (finding,) = isolde.audit(history, level, **options).findings
    (shown,) = finding.evidence
    assert isinstance(shown, FailingPrefix)
    return shown
