"""Guarantees that a person writes down: what no commit does to a row, as further candidates for the rely.

A file of them is TOML:

    [[guarantee]]
    name = "prices only rise"
    table = "item"
    rows = "stay"
    holds = "new.price >= old.price"

``rows`` is ``stay`` (a row that is there is there afterwards) or ``no-new`` (a row that is there was there before); ``holds`` is
a condition on the row before (``old``) and after (``new``), in PostgreSQL's SQL. It is no more than a proposal: one that some
transaction does not keep at its level is dropped, as every candidate is.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from isolde.engines.infer.candidates import Candidate, State
from isolde.errors import IsoldeError, UsageError
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.elaborate_statements import elaborated
from isolde.semantics.core.nodes import Column, Expression, below, query_of
from isolde.semantics.core.relations import Query, Scan, scans
from isolde.semantics.core.scope import Variables
from isolde.semantics.sets.expressions import Environment, Reader
from isolde.semantics.sets.state import Base, Book, Key
from isolde.semantics.sets.values import key_places
from isolde.smt import terms as smt
from isolde.smt.terms import Solver, Term
from isolde.tx.dialects import Dialect
from isolde.tx.sql import statement

if TYPE_CHECKING:
    from isolde.engines.infer.problem import Problem

_FIELDS = {"name", "table", "rows", "holds"}


def guarantees(problem: Problem, text: str, where: str) -> list[Candidate]:
    """The guarantees of a file, each checked to hold of doing nothing and of several steps in a row."""
    try:
        listed = tomllib.loads(text).get("guarantee", [])
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: {error}") from None
    if not isinstance(listed, list) or not listed:
        raise UsageError(f"{where}: there is no [[guarantee]] in it")
    return [_guarantee(problem, given, f"{where}: guarantee {place}") for place, given in enumerate(listed, 1)]


def _guarantee(problem: Problem, given: Any, where: str) -> Candidate:
    if not isinstance(given, dict) or set(given) != _FIELDS or not all(isinstance(one, str) for one in given.values()):
        raise UsageError(f"{where}: it needs {', '.join(sorted(_FIELDS))}, each of them a text")
    info = next((one for one in problem.catalog.tables if one.table.name == given["table"]), None)
    if info is None or key_places(info) is None:
        raise UsageError(f"{where}: there is no table {given['table']} with a primary key")
    if given["rows"] not in {"stay", "no-new"}:
        raise UsageError(f"{where}: rows is {given['rows']!r}; it is 'stay' or 'no-new'")
    condition, old, new = _condition(problem, info, given["holds"], where)
    stays = given["rows"] == "stay"

    def step(book: Book, one: State, other: State, key: Key) -> Term:
        before, after = one.row(info, key), other.row(info, key)
        first, second = (before, after) if stays else (after, before)
        env = Environment(rows={old: before.values, new: after.values})
        return smt.implies(first.there, smt.both(second.there, Reader(book).holds(condition, env)))

    own, nothing = frozenset({info.position}), frozenset[int]()
    columns = frozenset((info.position, place) for place in _columns(condition))
    found = Candidate(given["name"], info, step, own if stays else nothing, nothing if stays else own, columns)
    _refuse_unless_transitive(problem, found, where)
    return found


def _condition(problem: Problem, info: TableInfo, text: str, where: str) -> tuple[Sequence[Expression], int, int]:
    name = info.table.name
    try:
        read = statement(f"SELECT 1 FROM {name} old CROSS JOIN {name} new WHERE {text}", Dialect.POSTGRESQL, where)
        query = elaborated(problem.catalog, read, Variables.of({}))
    except IsoldeError as error:
        raise UsageError(f"{where}: holds: {error}") from None
    assert isinstance(query, Query)
    old, new = (leaf.id for leaf in scans(query.source) if isinstance(leaf, Scan))
    if any(query_of(node) is not None for part in query.where for node in below(part)):
        raise UsageError(f"{where}: holds: a query inside of a guarantee")
    return query.where, old, new


def _columns(condition: Sequence[Expression]) -> Iterator[int]:
    return (node.place for part in condition for node in below(part) if isinstance(node, Column))


def _refuse_unless_transitive(problem: Problem, candidate: Candidate, where: str) -> None:
    """Others may commit nothing, or several times: what is relied upon must hold of both."""
    book = Book(problem.names)
    one, two, three = (Base(problem.names.fresh("state")) for _ in range(3))
    key = book.fresh_key(candidate.table)
    step = candidate.step
    nothing = smt.no(step(book, one, one, key))
    twice = smt.both(step(book, one, two, key), step(book, two, three, key), smt.no(step(book, one, three, key)))
    wrongs = {
        "it does not hold of a commit that leaves the row alone": nothing,
        "it need not hold of two commits that both keep it": twice,
    }
    for said, wrong in wrongs.items():
        solver = Solver(5.0)
        solver.add(*book.facts, wrong)
        if solver.check() != "unsat":
            raise UsageError(f"{where}: {said}")
