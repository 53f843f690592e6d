"""Is a reported violation real? Answered from its evidence and the transactions alone, without the engine that found it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isolde.engines.check.recheck_lists import as_registers, has_lists, unexplained_list
from isolde.engines.check.unordered import cannot_be_ordered
from isolde.findings import Anomaly, Case, Circle, Link, Supposition
from isolde.history import (
    CompareAndSet,
    History,
    Key,
    Operation,
    Scan,
    Sql,
    Status,
    Transaction,
    TxnId,
    Value,
    observed,
    token,
    written,
)
from isolde.levels import Level

_SNAPSHOT = frozenset({Level.SNAPSHOT_ISOLATION, Level.STRICT_SNAPSHOT_ISOLATION})
_Counted = list[Transaction]
_STRICT = frozenset({Level.STRICT_SNAPSHOT_ISOLATION, Level.STRICT_SERIALIZABLE, Level.LINEARIZABLE})


def holds_up(history: History, level: Level, anomaly: Anomaly, *, judge_aborted: bool = False) -> bool:
    """Whether ``anomaly`` follows from the operations of ``history`` and is forbidden by ``level``.

    For cycles: every edge is shown by operations, the edges close, and the level forbids such a cycle. For single reads: the
    value has no writer that the reader may see. For a key that cannot be ordered: all orders are tried.
    """
    if anomaly.name == "no-linearization":
        return level is Level.LINEARIZABLE and cannot_be_ordered(
            history, anomaly.transactions, judge_aborted=judge_aborted
        )
    if has_lists(history):
        if not anomaly.cycle and not anomaly.cases:
            return unexplained_list(history, anomaly)
        history = as_registers(history, reads_bind=level is not Level.READ_UNCOMMITTED)
    by_id = {transaction.id: transaction for transaction in history.transactions}
    counted = _counted(history, judge_aborted=judge_aborted)
    if anomaly.cases:
        return _Cases(history, level, counted, by_id).hold(anomaly.cases, ())
    if anomaly.name == "thin-air-read" and _Cases(history, level, counted, by_id).sourceless(anomaly.transactions[-1]):
        return True
    if not anomaly.cycle:
        return anomaly.name in _UNEXPLAINED and _UNEXPLAINED[anomaly.name](history, by_id[anomaly.transactions[-1]])
    if level is Level.LINEARIZABLE and anomaly.name == "real-time-violation":
        links = [link for link in anomaly.cycle if link.kind == "rt"]
        return bool(links) and all(_edge(history, counted, by_id, link) for link in links)

    def shown(link: Link) -> bool:
        if link.through is not None:
            return _seen_and_missed(
                history, level, by_id[link.source], by_id[link.target], by_id[link.through], link.key
            )
        return _edge(history, counted, by_id, link)

    return all(map(shown, anomaly.cycle)) and _forbidden(level, anomaly.cycle)


def _forbidden(level: Level, cycle: Sequence[Link]) -> bool:
    """Whether the edges close, and the level rules out such a circle."""
    targets = [link.target for link in cycle]
    sources = [link.source for link in cycle]
    kinds = [link.kind for link in cycle]
    if not cycle or targets != sources[1:] + sources[:1] or ("rt" in kinds and level not in _STRICT):
        return False
    steps = list(zip(kinds, kinds[1:] + kinds[:1], strict=True))
    if level is Level.PREFIX:
        # An overwriter need not have read anything after what it overwrites.
        return not any(b == "rw" and a in ("rw", "ww") for a, b in steps)
    if level not in _SNAPSHOT:
        return True
    if kinds == ["rw", "rw"] and len({link.key for link in cycle}) == 1:
        # Both read one version and overwrote it: whichever wrote first, the other missed it.
        return True
    return not any(a == b == "rw" for a, b in steps)


class _Cases:
    """Cases and what they assume, followed one by one."""

    def __init__(self, history: History, level: Level, counted: _Counted, by_id: Mapping[TxnId, Transaction]) -> None:
        self.history = history
        self.level = level
        self.counted = counted
        self.by_id = by_id

    def hold(self, cases: Sequence[Case], assumed: tuple[Supposition, ...]) -> bool:
        """Whether the cases leave nothing out, and each ends in forbidden cycles."""
        if not self.exhaustive([case.supposition for case in cases]):
            return False
        for case in cases:
            below = (*assumed, case.supposition)
            if isinstance(case.outcome, Circle):
                shown = all(self.shown(link, below) for link in case.outcome.cycle)
                if not shown or not _forbidden(self.level, case.outcome.cycle):
                    return False
            elif not self.hold(case.outcome, below):
                return False
        return True

    def exhaustive(self, cases: Sequence[Supposition]) -> bool:
        match cases:
            case (Supposition("before", key, last, _, head), Supposition("before", other, other_last, _, other_head)):
                # Of two runs of versions, each made from the one before, either one comes first as a whole.
                return (
                    key == other
                    and head is not None
                    and other_head is not None
                    and self.run(key, other_head, last)
                    and self.run(key, head, other_last)
                )
            case (Supposition("source", key, reader, index, _), *_):
                if any((c.kind, c.key, c.first, c.index) != ("source", key, reader, index) for c in cases):
                    return False
                op = self.by_id[reader].ops[index]
                named = {case.second for case in cases}
                return (
                    op in self.open_reads(key, reader) and self.possible_sources(key, self.by_id[reader], op) <= named
                )
            case _:
                return False

    def open_reads(self, key: Key, reader: TxnId) -> list[Operation]:
        """The operations of ``reader`` that look at ``key`` before it wrote it and may be about any of the sources."""
        found: list[Operation] = []
        for op in self.by_id[reader].ops:
            if getattr(op, "key", None) == key and (observed(op) is not None or isinstance(op, CompareAndSet)):
                found.append(op)
            if (write := written(op)) is not None and write[0] == key:
                break
        return found

    def possible_sources(
        self, key: Key, reader: Transaction, op: Operation, *, even_if_unexplainable: bool = False
    ) -> set[TxnId | None]:
        """Whose version of ``key`` the operation may have seen."""

        def fits(value: Value) -> bool:
            seen = observed(op)
            if seen is not None:
                return token(seen[1]) == token(value)
            return isinstance(op, CompareAndSet) and token(op.expected) != token(value)

        sources: set[TxnId | None] = {None} if fits(self.history.initial.get(key)) else set()
        for t in self.history.transactions:
            final = _final_writes(t)
            wrote = t.id != reader.id and t.status is not Status.ABORTED and key in final and fits(final[key])
            # One of unknown outcome that saw something inexplicable itself took no effect.
            certain = t.status is Status.COMMITTED or even_if_unexplainable
            if wrote and (certain or not _unexplainable(self.history, t)):
                sources.add(t.id)
        return sources

    def only_sources(self, key: Key, reader: Transaction, op: Operation) -> set[TxnId | None]:
        """The same; but if only one was left whose own reads nothing explains, it was that one all the same."""
        return self.possible_sources(key, reader, op) or self.possible_sources(
            key, reader, op, even_if_unexplainable=True
        )

    def sourceless(self, reader: TxnId) -> bool:
        """Whether some read of ``reader`` can have seen nobody's version."""
        transaction = self.by_id[reader]
        keys = {op.key for op in transaction.ops if not isinstance(op, Scan | Sql)}
        return any(
            not self.possible_sources(key, transaction, op) for key in keys for op in self.open_reads(key, reader)
        )

    def made_from(self, key: Key, writer: TxnId) -> set[TxnId | None]:
        """Whose version of ``key`` the first read of ``writer`` certainly saw; empty if it read none, or that is open."""
        reads = self.open_reads(key, writer)
        sources = self.only_sources(key, self.by_id[writer], reads[0]) if reads else set()
        return sources if len(sources) == 1 else set()

    def run(self, key: Key, first: TxnId | None, last: TxnId | None) -> bool:
        """Whether the version of ``last`` was made from that of ``first``, over any number of others."""
        at = last
        seen: set[TxnId | None] = set()
        while at != first:
            made_from = set() if at is None or at in seen else self.made_from(key, at)
            if not made_from:
                return False
            seen.add(at)
            at = made_from.pop()
        return True

    def shown(self, link: Link, assumed: tuple[Supposition, ...]) -> bool:
        if not link.assumed:
            return _edge(self.history, self.counted, self.by_id, link)
        before = [s for s in assumed if s.kind == "before" and s.key == link.key]
        sources = [s for s in assumed if s.kind == "source" and s.key == link.key]
        match link.kind:
            case "ww":
                return self.overwrote(link, link.source, before)
            case "wr":
                return any(s.first == link.target and s.second == link.source for s in sources)
            case "rw":
                # The reader saw a version, by what is seen or assumed, that the target's version comes after.
                saw = {s.second for s in sources if s.first == link.source}
                if link.key is not None:
                    saw |= self.certain_sources(link.key, self.by_id[link.source])
                return any(self.overwrote(link, version, before) for version in saw)
            case "so":
                return _edge(self.history, self.counted, self.by_id, link)
            case _:
                return False

    def certain_sources(self, key: Key, reader: Transaction) -> set[TxnId | None]:
        found = set()
        for op in self.open_reads(key, reader.id):
            possible = self.only_sources(key, reader, op)
            found |= possible if len(possible) == 1 else set()
        return found

    def overwrote(self, link: Link, version: TxnId | None, before: Sequence[Supposition]) -> bool:
        """Whether the target's version of the key comes after that of ``version``."""
        key, target = link.key, link.target
        if any(s.first == version and s.second == target for s in before):
            return True
        if key is None or key not in _final_writes(self.by_id[target]):
            return False
        if version is None or version in self.made_from(key, target):
            return True
        # What was made from the initial version comes before all that was not; prefix alone lets others come between.
        return self.level is not Level.PREFIX and self.run(key, None, version) and not self.run(key, version, target)


def _unexplainable(history: History, reader: Transaction) -> bool:
    return any(check(history, reader) for check in (_some_read_without_writer, _some_read_not_own, _some_read_changed))


def _seen_and_missed(
    history: History, level: Level, writer: Transaction, read: Transaction, reader: Transaction, key: Key | None
) -> bool:
    """Whether ``reader`` must have seen ``writer``'s version of ``key`` as ``level`` has it, and read that of ``read``."""
    if key is None or key not in _final_writes(writer) or key not in (wrote := _final_writes(read)):
        return False
    reads = _outside_reads(reader)
    places = [at for at, (k, value) in enumerate(reads) if k == key and token(value) == token(wrote[key])]
    if not places:
        return False
    visible = reads[: places[-1]] if level is Level.READ_COMMITTED else reads
    final = _final_writes(writer)
    if any(k in final and token(final[k]) == token(value) for k, value in visible):
        return True
    if level is Level.READ_COMMITTED:
        return False
    if level is Level.READ_ATOMIC:
        return _in_session(history, writer, reader)
    return _in_past(history, writer, reader)


def _in_session(history: History, first: Transaction, second: Transaction) -> bool:
    ids = [t.id for t in history.transactions]
    return first.session == second.session and ids.index(first.id) < ids.index(second.id)


def _in_past(history: History, first: Transaction, last: Transaction) -> bool:
    """Whether a path of reads and session order leads from ``first`` to ``last``."""
    reached, waiting = {first.id}, [first]
    while waiting:
        at = waiting.pop()
        final = _final_writes(at)
        for t in history.transactions:
            read = any(k in final and token(final[k]) == token(v) for k, v in _outside_reads(t))
            if t.id not in reached and (read or _in_session(history, at, t)):
                reached.add(t.id)
                waiting.append(t)
    return last.id in reached


def _final_writes(transaction: Transaction) -> dict[Key, Value]:
    return dict(write for op in transaction.ops if (write := written(op)) is not None)


def _outside_reads(transaction: Transaction) -> list[tuple[Key, Value]]:
    """What was read of other transactions: reads of keys not written before."""
    own: set[Key] = set()
    reads: list[tuple[Key, Value]] = []
    for op in transaction.ops:
        if (read := observed(op)) is not None and read[0] not in own:
            reads.append(read)
        if (write := written(op)) is not None:
            own.add(write[0])
    return reads


def _edge(history: History, counted: _Counted, by_id: Mapping[TxnId, Transaction], link: Link) -> bool:
    source, target = by_id[link.source], by_id[link.target]
    match link.kind:
        case "so":
            return _in_session(history, source, target)
        case "rt":
            return source.end is not None and target.start is not None and source.end < target.start
        case "wr":
            wrote = _final_writes(source)
            return any(k == link.key and k in wrote and token(wrote[k]) == token(v) for k, v in _outside_reads(target))
        case "ww":
            return _overwrote(history, counted, source, target, link.key)
        case "rw":
            return any(
                _follows(history, counted, key, value, target)
                for key, value in _outside_reads(source)
                if key == link.key
            )
        case _:
            return False


def _overwrote(history: History, counted: _Counted, source: Transaction, target: Transaction, key: Key | None) -> bool:
    wrote = _final_writes(source)
    return key is not None and key in wrote and _follows(history, counted, key, wrote[key], target)


def _follows(history: History, counted: _Counted, key: Key, value: Value, target: Transaction) -> bool:
    """Whether ``target`` is known to have replaced ``value``: ``value`` is the initial one; or it read it and wrote the key; or
    ``value`` ends the chain of the initial value, which comes before every other write; or the database said so."""
    final = _final_writes(target)
    if key not in final:
        return False
    if token(value) == token(history.initial.get(key)) and not _writers(history, target, key, value):
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
    for transaction in counted:
        final = _final_writes(transaction)
        made_from = _made_from(history, transaction, key)
        if key in final and made_from:
            follows[made_from[0]] = token(final[key])
    chain: set[object] = set()
    at: object | None = token(history.initial.get(key))
    while at is not None and at not in chain:
        chain.add(at)
        at = follows.get(at)
    return chain


def _made_from(history: History, writer: Transaction, key: Key) -> tuple[()] | tuple[object]:
    """The version of ``key`` that ``writer`` read first, if that has a single origin."""
    reads = [value for read, value in _outside_reads(writer) if read == key]
    if not reads:
        return ()
    origins = len(_writers(history, writer, key, reads[0])) + (token(reads[0]) == token(history.initial.get(key)))
    return (token(reads[0]),) if origins == 1 else ()


def _counted(history: History, *, judge_aborted: bool) -> _Counted:
    """The committed transactions, and those of unknown outcome that a counted or judged one read from."""
    counted = [t for t in history.transactions if t.status is Status.COMMITTED]
    readers = list(history.transactions) if judge_aborted else counted
    seen = {t.id for t in counted}
    for reader in readers:  # without judging, this grows while it is walked
        for key, value in _outside_reads(reader):
            writers = _writers(history, reader, key, value)
            if len(writers) == 1 and writers[0].id not in seen and token(value) != token(history.initial.get(key)):
                seen.add(writers[0].id)
                counted.append(writers[0])
    return counted


def _writers(history: History, reader: Transaction, key: Key, value: Value) -> list[Transaction]:
    """Other transactions that may have committed and left this value behind."""
    return [
        t
        for t in history.transactions
        if t.id != reader.id
        and t.status is not Status.ABORTED
        and key in (final := _final_writes(t))
        and token(final[key]) == token(value)
    ]


def _some_read_without_writer(history: History, reader: Transaction) -> bool:
    return any(
        token(value) != token(history.initial.get(key)) and not _writers(history, reader, key, value)
        for key, value in _outside_reads(reader)
    )


def _some_read_not_own(_: History, reader: Transaction) -> bool:
    own: dict[Key, Value] = {}
    for op in reader.ops:
        if (read := observed(op)) is not None and read[0] in own and token(own[read[0]]) != token(read[1]):
            return True
        match op:
            case CompareAndSet(key, expected, _, False, ()) if key in own and token(own[key]) == token(expected):
                return True
            case _:
                pass
        if (write := written(op)) is not None:
            own[write[0]] = write[1]
    return False


def _some_read_changed(_: History, reader: Transaction) -> bool:
    seen: dict[Key, object] = {}
    return any(token(value) != seen.setdefault(key, token(value)) for key, value in _outside_reads(reader))


def _some_write_before_initial(history: History, writer: Transaction) -> bool:
    final = _final_writes(writer)
    return any(
        token(history.initial.get(chain.key)) in (values := [token(v) for v in chain.values])
        and token(final[chain.key]) in values[: len(values) - values[::-1].index(token(history.initial.get(chain.key)))]
        for chain in history.versions
        if chain.key in final
    )


_UNEXPLAINED = {
    "g0": _some_write_before_initial,
    "thin-air-read": lambda h, t: _some_read_without_writer(h, t) or _some_read_not_own(h, t),
    "aborted-read": lambda h, t: _some_read_without_writer(h, t) or _some_read_not_own(h, t),
    "intermediate-read": lambda h, t: _some_read_without_writer(h, t) or _some_read_not_own(h, t),
    "future-read": lambda h, t: _some_read_without_writer(h, t) or _some_read_not_own(h, t),
    "not-my-last-write": _some_read_not_own,
    "not-my-own-write": _some_read_not_own,
    "non-repeatable-read": _some_read_changed,
}
