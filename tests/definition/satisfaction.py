"""One question: does a history satisfy a level? By definition."""

from __future__ import annotations

from collections.abc import Sequence

from isolde.history import Append, CompareAndSet, History, Key, Read, Scan, Sql, Status, Transaction, TxnId, Write

from .axioms import AXIOMS, PREMISES, axiom
from .evidence import NOTHING, Told, hidden_kinds, ordered_kinds, visible_kinds
from .executions import some_commit_order
from .linear import has_single_key_transactions, linearizable
from .orders import Relation, real_time, session_order
from .replay import Store, initial_store, run
from .states import elements_of, list_keys, state_of
from .uncommitted import read_uncommitted
from .worlds import World, node, worlds

STRICT = {
    "strict-snapshot-isolation": "snapshot-isolation",
    "strict-serializable": "serializable",
}
TIMED = frozenset({*STRICT, "linearizable"})

LEVELS = (
    "read-uncommitted",
    "pl-2",
    "read-committed",
    "read-atomic",
    "causal",
    "prefix",
    "repeatable-read",
    "snapshot-isolation",
    "serializable",
    "strict-snapshot-isolation",
    "strict-serializable",
    "linearizable",
)


def satisfies(
    history: History,
    level: str,
    *,
    session_order: bool = True,
    judge_aborted: bool = False,
    told: Told = NOTHING,
) -> bool | None:
    """Whether ``history`` satisfies ``level`` for some outcome of its unknown transactions.

    ``None``: the level does not apply to this input. That is so for predicate reads; for the levels with real time when
    a committed transaction has no start or no end, or an unknown one that took effect has no start; and for
    linearizability when a transaction touches two keys.
    """
    if level not in LEVELS:
        raise ValueError(f"unknown isolation level {level!r}; expected one of {', '.join(LEVELS)}")
    if any(isinstance(op, Scan | Sql) for transaction in history.transactions for op in transaction.ops):
        return None
    if level == "linearizable" and not has_single_key_transactions(history):
        return None
    if level in TIMED and not _is_timed(history):
        return None
    undecided = False
    for world in worlds(history, judge_aborted=judge_aborted, told=told, reads_bind=level != "read-uncommitted"):
        if satisfies_in(world, level, with_session_order=session_order):
            # Real time that is missing could only have ruled this world out, never let it in.
            if level not in TIMED or all(node.start is not None for node in world.nodes if node.takes_effect):
                return True
            undecided = True
    return None if undecided else False


def satisfies_in(world: World, level: str, *, with_session_order: bool) -> bool:
    """The same for one outcome."""
    if level == "read-uncommitted":
        return read_uncommitted(world)
    if level == "linearizable":
        return linearizable(world)
    so, plain = contained(world, level, with_session_order=with_session_order), STRICT.get(level, level)
    if world.told is NOTHING:
        return some_commit_order(world, so, AXIOMS[plain])
    return some_commit_order(
        world,
        so,
        axiom(*PREMISES[plain], hidden=world.pairs(hidden_kinds(plain))),
        ordered=world.pairs(ordered_kinds(strict=level in STRICT)),
        seen=world.pairs(visible_kinds(plain, strict=level in STRICT)),
    )


def replays(history: History, order: Sequence[TxnId], level: str, *, session_order: bool = True) -> bool:
    """Whether the transactions of ``order``, run one after the other in it, all get their answers. Those took effect."""
    lists = list_keys(history)
    by_id = {t.id: t for t in history.transactions}
    nodes = tuple(node(by_id[txn], lists, takes_effect=True) for txn in order)
    # Nodes stand in file order where a world says what the history brings with it.
    in_file = tuple(n for t in history.transactions for n in nodes if n.transaction is t)
    world = World(in_file, history.initial, lists, ())
    place = {txn: at for at, txn in enumerate(order)}
    for a, b in contained(world, level, with_session_order=session_order):
        if place[in_file[a].transaction.id] > place[in_file[b].transaction.id]:
            return False
    store: Store | None = initial_store(world)
    for txn in order:
        store = None if store is None else run(by_id[txn], store, lists)
    return store is not None


def contained(world: World, level: str, *, with_session_order: bool) -> Relation:
    """What takes the place of ``so`` at ``level``."""
    so = session_order(world) if with_session_order else frozenset()
    return so | real_time(world) if level in STRICT else so


def _is_timed(history: History) -> bool:
    """Every committed transaction has both times, every unknown one that certainly took effect has a start."""
    took_effect = [t for t in history.transactions if t.status is Status.COMMITTED]
    if any(t.start is None or t.end is None for t in took_effect):
        return False
    unknown = [t for t in history.transactions if t.status is Status.UNKNOWN]
    while needed := [t for t in unknown if any(_needs(history, reader, t) for reader in took_effect)]:
        took_effect += needed
        unknown = [t for t in unknown if t not in needed]
    return all(t.start is not None for t in took_effect)


def _needs(history: History, reader: Transaction, source: Transaction) -> bool:
    """``reader`` saw a value that ``source`` wrote and that was there neither initially nor by anybody else."""
    others = [t for t in history.transactions if t is not source and t.status is not Status.ABORTED]
    lists = list_keys(history)
    for op in reader.ops:
        if not isinstance(op, Read | CompareAndSet):
            continue
        saw = _values_seen(op, lists)
        start = state_of(op.key, history.initial.get(op.key), lists)
        elsewhere = {start, *(elements_of(start) or ())}
        for other in others:
            elsewhere |= _values_written(other, op.key, lists)
        if (saw & _values_written(source, op.key, lists)) - elsewhere:
            return True
    return False


def _values_seen(op: Read | CompareAndSet, lists: frozenset[Key]) -> set[object]:
    if isinstance(op, Read):
        state = state_of(op.key, op.value, lists)
        return set(elements_of(state) or ()) if op.key in lists else {state}
    values = (op.expected,) if op.applied else op.current
    return {state_of(op.key, value, lists) for value in values}


def _values_written(transaction: Transaction, key: Key, lists: frozenset[Key]) -> set[object]:
    written: set[object] = set()
    for op in transaction.ops:
        match op:
            case Write(k, value) | CompareAndSet(k, _, value, True) if k == key:
                written.add(state_of(k, value, lists))
            case Append(k, element) if k == key:
                written |= set(elements_of(state_of(k, (element,), lists)) or ())
            case _:
                pass
    return written
