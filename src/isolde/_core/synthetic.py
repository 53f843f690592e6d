"""Histories that the core makes up."""

from __future__ import annotations

from collections.abc import Sequence

from isolde._core import _native
from isolde._core.columns import Columns
from isolde.errors import UsageError


def generate(
    *,
    sessions: int,
    transactions: int,
    keys: int,
    operations: int,
    distribution: str,
    workload: str,
    level: str,
    abort_rate: float,
    unknown_rate: float,
    inject: Sequence[str],
    seed: int,
    blind_writes: float | None = None,
    versions: float = 0.0,
    exponent: float | None = None,
    hot_keys: float | None = None,
    hot_accesses: float | None = None,
    concurrent: float = 1.0,
) -> Columns:
    """A synthetic history; :class:`UsageError` says why parameters are impossible."""
    try:
        native = _native.generate(
            sessions=sessions,
            transactions=transactions,
            keys=keys,
            operations=operations,
            distribution=distribution,
            workload=workload,
            level=level,
            abort_rate=abort_rate,
            unknown_rate=unknown_rate,
            blind_writes=blind_writes,
            versions=versions,
            inject=list(inject),
            seed=seed,
            exponent=exponent,
            hot_keys=hot_keys,
            hot_accesses=hot_accesses,
            concurrent=concurrent,
        )
    except (ValueError, OverflowError) as error:
        raise UsageError(str(error)) from None
    return Columns(native, "generated history")


def generator_names() -> tuple[list[str], list[str], list[str], list[str]]:
    """The names that :func:`generate` takes: workloads, distributions, levels, anomalies."""
    return _native.generator_names()
