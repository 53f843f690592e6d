"""Histories of SQL tables with a certificate: from statements and version sets to edges and anomalies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from isolde.engines.certify.evaluate import Circular, Evaluation, Unknown
from isolde.engines.certify.faults import Faults, told_faults
from isolde.engines.certify.items import Items
from isolde.engines.certify.order import (
    FLOW,
    ITEMS,
    SERIAL,
    SNAPSHOT,
    STRICT_SERIAL,
    STRICT_SNAPSHOT,
    Edge,
    Graph,
    Rule,
)
from isolde.engines.certify.predicates import Judge, Predicates
from isolde.engines.certify.rows import contents_by_row
from isolde.engines.certify.second import second_opinion
from isolde.engines.certify.sentences import row_name, txn_name, wrote_again
from isolde.engines.certify.told import Fault, Told
from isolde.engines.certify.values import read_by_value
from isolde.engines.certify.world import Undecidable, World
from isolde.findings.model import Kind
from isolde.history import Key
from isolde.levels import Level

_RULES: dict[Level, Rule] = {
    Level.PL_2: FLOW,
    Level.REPEATABLE_READ: ITEMS,
    Level.SNAPSHOT_ISOLATION: SNAPSHOT,
    Level.SERIALIZABLE: SERIAL,
    Level.STRICT_SNAPSHOT_ISOLATION: STRICT_SNAPSHOT,
    Level.STRICT_SERIALIZABLE: STRICT_SERIAL,
}
_STRICT = frozenset({Level.STRICT_SNAPSHOT_ISOLATION, Level.STRICT_SERIALIZABLE})
# What an order of the graph that replays is a second opinion on.
_SERIAL = frozenset({Level.REPEATABLE_READ, Level.SERIALIZABLE, Level.STRICT_SERIALIZABLE})
# Their axioms order commits by more than these edges: all of the edges that they count are made.
_WEAK = frozenset({Level.READ_COMMITTED, Level.READ_ATOMIC, Level.CAUSAL, Level.PREFIX})


def told_by_tables(
    world: World,
    levels: Sequence[Level],
    *,
    session_order: bool,
    judge: Judge | None = None,
    evaluation: Evaluation | None = None,
) -> Told:
    """What the certificate of a history of SQL tables tells of these levels; a ``judge`` says what conditions match.

    ``evaluation``: the statements, if they were run already.
    """
    edges: list[tuple[int, int, Kind, str]] = [
        (txn, other, "ww", wrote_again(_name(world, txn), row_name(name), _name(world, other), twice=twice))
        for number, line in world.lines.items()
        for txn, other, twice in line.again
        for name in [world.objects.name[number]]
    ]
    undecided = ""
    try:
        if any(not line.complete for line in world.lines.values()):
            raise Undecidable("the order of some rows is only partial, and which versions statements saw depends on it")
        evaluation = evaluated(world) if evaluation is None else evaluation
        thin_air = read_by_value(evaluation)
    except Circular as circle:
        items = Items(world, None, frozenset())
        names = ", ".join(dict.fromkeys(_name(world, txn) for txn, _ in circle.places))
        text = f"The rows that {names} wrote were computed from each other: none of them can have come first."
        fault = Fault("g1c", tuple(dict.fromkeys(txn for txn, _ in circle.places)), text)
        return Told(items.columns(), edges, items.versions(), (fault,))
    except Undecidable as reason:
        undecided = str(reason)
        items = Items(world, None, frozenset())
        return Told(items.columns(), edges, items.versions(), tuple(told_faults(world)), undecided)
    faults = Faults(evaluation)
    barred = frozenset(faults.barred)
    items = Items(world, evaluation, barred)
    predicates = Predicates(evaluation, barred, judge)
    opinion = None
    try:
        effects = _settle(world, items, predicates, levels, session_order=session_order)
        if effects is not None and not thin_air and not faults.all and _SERIAL & set(levels):
            opinion = second_opinion(evaluation, predicates, effects)
    except (Undecidable, Unknown) as reason:
        undecided = str(reason) or "a version is seen whose content is not known"
    kinds: dict[str, Kind] = {"predicate-wr": "predicate-wr", "predicate-rw": "predicate-rw"}
    for found in predicates.found.values():
        edges.append((found.source, found.target, kinds[found.kind], predicates.sentence(found)))
    # Below prefix, what was read first and what later makes a difference.
    by_age = bool(_WEAK & set(levels))
    columns = items.columns(by_age=by_age, readable=False)
    told = Told(columns, edges, items.versions(), (*thin_air, *faults.all), undecided, second=opinion)
    return replace(told, readable=lambda: items.columns(by_age=by_age))


def evaluated(world: World) -> Evaluation:
    """Every statement run; one row at a time where statements see each other."""
    if world.unread:
        raise Undecidable(world.unread)
    evaluation = Evaluation(world)
    try:
        evaluation.all()
    except Circular:
        contents = contents_by_row(world)
        evaluation = Evaluation(world)
        evaluation.contents = contents
        evaluation.all()
    return evaluation


def _settle(
    world: World, items: Items, predicates: Predicates, levels: Iterable[Level], *, session_order: bool
) -> dict[int, int] | None:
    """Makes the predicate edges that these levels hang on; gives an order that serializable accepts, if there is one."""
    asked = set(levels)
    if asked & _WEAK:
        predicates.make_all(frozenset({"predicate-wr"}))
    wish = _wish(world)
    sessions = session_edges(world, world.effective) if session_order else []
    if asked.isdisjoint(_STRICT):
        likely = {txn: at for at, txn in enumerate(sorted(world.effective, key=lambda txn: (wish[txn], txn)))}
        forward = all(likely[a] < likely[b] for a, b, _ in sessions) and items.all_forward(likely)
        if forward and not predicates.found and predicates.all_forward(likely):
            return likely
    known = [*items.edges(), *sessions]

    def settled(rule: Rule) -> dict[int, int] | None:
        graph = Graph(rule, sorted(world.effective), wish, world.history.transactions)
        graph.add(known)
        return predicates.settle(rule, graph)

    serial: dict[int, int] | None = None
    for strict, plain in ((STRICT_SERIAL, SERIAL), (STRICT_SNAPSHOT, SNAPSHOT)):
        if any(_RULES.get(level) is strict for level in asked):
            effects = settled(strict)
            if effects is not None:
                asked = {level for level in asked if _RULES.get(level) not in (strict, plain)}
                serial = effects if strict is STRICT_SERIAL else serial
    # An order for serializable is one for all that is weaker.
    if any(level in _RULES for level in asked):
        serial = settled(SERIAL) if serial is None else serial
        if serial is None:
            for level, rule in _RULES.items():
                if level in asked and rule in (FLOW, ITEMS, SNAPSHOT):
                    settled(rule)
    return serial


def session_edges(world: World, effective: frozenset[int]) -> list[Edge]:
    """From each of these transactions to the next one of its session."""
    last: dict[Key, int] = {}
    edges: list[Edge] = []
    for at, transaction in enumerate(world.history.transactions):
        if at in effective:
            if transaction.session in last:
                edges.append((last[transaction.session], at, "so"))
            last[transaction.session] = at
    return edges


def _wish(world: World) -> Sequence[float]:
    """Where each transaction would best stand: at its commit; one that wrote nothing, after the last that it saw."""
    wish = [float(len(world.commits))] * len(world.history.transactions)
    seen: dict[int, int] = {}
    for (txn, _), one in world.reads.items():
        seen[txn] = max(seen.get(txn, 0), one.first or 0)
    for txn, first in seen.items():
        wish[txn] = first - 0.25
    for txn, at in world.rank.items():
        wish[txn] = float(at)
    return wish


def _name(world: World, txn: int) -> str:
    return txn_name(world.history.transactions[txn].id)
