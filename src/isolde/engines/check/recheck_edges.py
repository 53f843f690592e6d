"""Is an edge of a cycle shown by the operations, and does a level forbid such a cycle?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from isolde.engines.check.evidence import SILENT, Told
from isolde.engines.check.rules import forbids
from isolde.engines.check.sources import final_writes, in_session, index_of, outside_reads, writers
from isolde.findings import Link
from isolde.history import History, Key, Transaction, TxnId, Value, token
from isolde.levels import Level

_Counted = list[Transaction]


def forbidden(level: Level, cycle: Sequence[Link]) -> bool:
    """Whether the edges close, and the level rules out such a circle."""
    targets = [link.target for link in cycle]
    sources = [link.source for link in cycle]
    return bool(cycle) and targets == sources[1:] + sources[:1] and forbids(level, [link.kind for link in cycle])


def lost_either_way(cycle: Sequence[Link]) -> Link | None:
    """Of a lost update that is drawn for one order of the two writes, the anti-dependency that closes the cycle for the other."""
    match cycle:
        case (Link(_, _, "rw", key), Link(_, _, "ww", same, assumed=True) as overwrite) if key == same:
            return replace(overwrite, kind="rw", assumed=False)
        case _:
            return None


def told_besides(told: Told, link: Link) -> bool:
    """Whether evidence from outside has this edge; what was told of the order of lists is a ``ww`` edge there."""
    if (link.source, link.target, link.kind) in told.edges:
        return True
    return link.kind == "ww" and any(told.before(key, link.source, link.target) for key in told.orders)


def edge_shown(
    history: History, counted: _Counted, by_id: Mapping[TxnId, Transaction], link: Link, told: Told = SILENT
) -> bool:
    source, target = by_id[link.source], by_id[link.target]
    match link.kind:
        case _ if link.basis == "outside":
            return told_besides(told, link)
        case "so":
            return in_session(history, source, target)
        case "rt":
            return source.end is not None and target.start is not None and source.end < target.start
        case "wr":
            wrote = final_writes(source)
            return any(k == link.key and k in wrote and token(wrote[k]) == token(v) for k, v in outside_reads(target))
        case "ww":
            installed = told.before(link.key, source.id, target.id)
            return installed or _overwrote(history, counted, source, target, link.key)
        case "rw":
            return any(
                _follows(history, counted, key, value, target)
                or any(told.before(key, w, target.id) for w in _origins(history, source, key, value))
                for key, value in outside_reads(source)
                if key == link.key
            )
        case _:
            return False


def _origins(history: History, reader: Transaction, key: Key, value: Value) -> list[TxnId | None]:
    initial: list[TxnId | None] = [None] if token(value) == token(history.initial.get(key)) else []
    return [*initial, *(t.id for t in writers(history, reader, key, value))]


def _overwrote(history: History, counted: _Counted, source: Transaction, target: Transaction, key: Key | None) -> bool:
    wrote = final_writes(source)
    return key is not None and key in wrote and _follows(history, counted, key, wrote[key], target)


def _follows(history: History, counted: _Counted, key: Key, value: Value, target: Transaction) -> bool:
    """Whether ``target`` is known to have replaced ``value``: ``value`` is the initial one; or it read it and wrote the key; or
    ``value`` ends the chain of the initial value, which comes before every other write; or the database said so."""
    final = final_writes(target)
    if key not in final:
        return False
    if token(value) == token(history.initial.get(key)) and not writers(history, target, key, value):
        return True
    made_from = _made_from(history, target, key)
    if made_from:
        if made_from[0] == token(value):
            return True
    elif token(value) in _initial_chain(history, counted, key):
        return True
    chains = [[token(v) for v in chain.values] for chain in history.versions if chain.key == key]
    return any(
        token(value) in chain
        and token(final[key]) in chain
        and chain.index(token(value)) < chain.index(token(final[key]))
        for chain in chains
    )


def _initial_chain(history: History, counted: _Counted, key: Key) -> set[object]:
    """The initial value of ``key`` and everything made from it by read-modify-write."""
    follows: dict[object, object] = {}
    counts = {t.id for t in counted}
    for transaction in index_of(history).writers_of.get(key, ()):
        final = final_writes(transaction)
        made_from = _made_from(history, transaction, key)
        if transaction.id in counts and made_from:
            follows[made_from[0]] = token(final[key])
    chain: set[object] = set()
    at: object | None = token(history.initial.get(key))
    while at is not None and at not in chain:
        chain.add(at)
        at = follows.get(at)
    return chain


def _made_from(history: History, writer: Transaction, key: Key) -> tuple[()] | tuple[object]:
    """The version of ``key`` that ``writer`` read first, if that has a single origin."""
    reads = [value for read, value in outside_reads(writer) if read == key]
    if not reads:
        return ()
    origins = len(writers(history, writer, key, reads[0])) + (token(reads[0]) == token(history.initial.get(key)))
    return (token(reads[0]),) if origins == 1 else ()
