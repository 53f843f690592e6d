"""The check with a serialization order: a history of SQL tables replayed in it, predicates included, in one pass."""

from __future__ import annotations

from collections.abc import Sequence

from isolde.engines.certify.answers import difference
from isolde.engines.certify.at_hand import AtHand, Laid
from isolde.engines.certify.fit import Place
from isolde.engines.certify.running import Evaluated, Running
from isolde.engines.certify.sentences import txn_name
from isolde.engines.certify.shared import Shared
from isolde.engines.certify.statements import Asked
from isolde.engines.certify.told import Fault
from isolde.engines.certify.world import Undecidable, World
from isolde.history import Key, Operation, Sql
from isolde.semantics.concrete.store import Store
from isolde.semantics.tables.memory import MemoryTable
from isolde.semantics.tables.view import Row

NAME = "serialization-order-violation"


def replayed(world: World, serial: Sequence[int], *, session_order: bool, real_time: bool) -> Fault | None:
    """What does not fit if the transactions run one after the other in this order; ``None`` if all does."""
    if world.unread:
        raise Undecidable(world.unread)
    wrong = _out_of_order(world, serial, session_order=session_order, real_time=real_time)
    if wrong is not None:
        return wrong
    store = world.statements.over([], [])
    state = Shared(world, _no_content)
    tables, at_hand, nothing = state.tables, AtHand(world, store, state), Laid()
    for txn in serial:
        transaction = world.history.transactions[txn]
        for index, op in enumerate(transaction.ops):
            asked = world.asked.get((txn, index))
            if asked is None:
                continue
            plain = at_hand.evaluated((txn, index), nothing)
            evaluated = _run(world, asked, op, store, tables) if plain is None else plain
            wrong_answer = evaluated.wrong
            if wrong_answer:
                sql = " ".join(asked.sql.split())
                text = (
                    f"In the serial order that the database told, {txn_name(transaction.id)} ran '{sql}' (operation {index}), and"
                    f" {wrong_answer.replace('the versions that it saw', 'the state before it')}. Another order may explain the"
                    " history; this one does not."
                )
                return Fault(NAME, (txn,), text)
            for number, row in evaluated.written.items():
                table = tables[world.objects.table[number]]
                if row is not None or number in table.rows:
                    table.restore(number, row)
    return None


def _run(world: World, asked: Asked, op: Operation, store: Store, tables: Sequence[MemoryTable]) -> Evaluated:
    """A statement on the state as it is, and how its answer differs."""
    running = Running(world, asked, store, tables, [{} for _ in tables])
    evaluated = running.evaluated()
    assert isinstance(op, Sql)
    if running.answer is not None:
        evaluated.wrong = difference(op.content, asked.form, running.answer, world.sql.counts)
    return evaluated


def _no_content(number: int, version: Place | None) -> Row | None:
    raise AssertionError(f"a replay asks for no version ({number}, {version}): it makes its rows itself")


def _out_of_order(world: World, serial: Sequence[int], *, session_order: bool, real_time: bool) -> Fault | None:
    """Two transactions that the order has the wrong way round."""
    transactions = world.history.transactions
    place = {txn: at for at, txn in enumerate(serial)}
    last: dict[Key, int] = {}
    for txn in sorted(place) if session_order else ():
        before = last.get(transactions[txn].session)
        if before is not None and place[before] > place[txn]:
            return _reversed(world, before, txn, "it came first in their session")
        last[transactions[txn].session] = txn
    latest: int | None = None
    for txn in serial if real_time else ():
        start, end = transactions[txn].start, transactions[txn].end
        if latest is not None and end is not None:
            began = transactions[latest].start
            assert began is not None
            if end < began:
                return _reversed(world, txn, latest, "it was over when the other began")
        if start is not None:
            known = transactions[latest].start if latest is not None else None
            if known is None or start > known:
                latest = txn
    return None


def _reversed(world: World, first: int, second: int, why: str) -> Fault:
    names = [txn_name(world.history.transactions[txn].id) for txn in (first, second)]
    text = f"The serial order that the database told has {names[1]} before {names[0]}, which cannot be: {why}."
    return Fault(NAME, (first, second), text)
