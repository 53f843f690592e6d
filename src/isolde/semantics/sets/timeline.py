"""The committed states that a transaction meets, by the rules of its level, in the order in which they were current."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from isolde.levels.specifications import Reads, Specification, Writes
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.sets.state import Base, Book, Counted, Key, Universal, Write
from isolde.semantics.sets.values import key_size, same_row
from isolde.smt import terms as smt
from isolde.smt.terms import Term


@dataclass(frozen=True, slots=True)
class Lock:
    """A row that stays as it was in state ``since`` until the commit, if ``held``; with ``presence`` only its being there."""

    table: TableInfo
    key: Key
    held: Term
    since: Base
    presence: bool = False
    exclusive: bool = True
    """Nobody else can hold such a lock, or any other that matters here, at the same time."""


@dataclass(frozen=True, slots=True)
class Others:
    """What the transactions of an application do to rows, by table: rows come, go, or some columns are updated."""

    inserted: frozenset[int] = frozenset()
    deleted: frozenset[int] = frozenset()
    updated: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Waited:
    """A statement found rows of a table in one state and looked at them again in a later one.

    ``same``: whether the row of a key was there all the time between.
    """

    table: TableInfo
    found: Base
    again: Base
    same: Callable[..., Term]


@dataclass(eq=False)
class Timeline:
    """``states`` are in the order of time; the last one, ``commit``, is the one that the transaction's writes are put over."""

    level: Specification
    label: str
    commit: Base
    states: list[Base] = field(default_factory=list)
    locks: list[Lock] = field(default_factory=list)
    snapshot: Base | None = None
    others: Others = Others()
    waited: list[Waited] = field(default_factory=list)

    def copy(self) -> Timeline:
        states, locks, waited = list(self.states), list(self.locks), list(self.waited)
        return Timeline(self.level, self.label, self.commit, states, locks, self.snapshot, self.others, waited)

    def may_return(self, info: TableInfo) -> bool:
        """Whether a row may be deleted, and another come under its key, while a statement waits for it or goes through others."""
        # Elsewhere the statement fails, or sees one state alone.
        waits = self.level.writes in {Writes.RECHECK, Writes.CURRENT, Writes.CURRENT_UNCHANGED}
        return waits and info.position in self.others.inserted & self.others.deleted

    def held(self, info: TableInfo, writes: tuple[Write, ...]) -> Callable[[Key], Term]:
        """Whether the transaction has locked or written the row of a key before: nobody else changes it any more."""
        locks = [lock for lock in self.locks if lock.table is info and not lock.presence]
        mine = [write for write in writes if write.table is info and write.rest is None]

        def mine_already(key: Key) -> Term:
            locked = (smt.both(lock.held, smt.all_equal(lock.key, key)) for lock in locks)
            return smt.either(*locked, *(write.at(key)[0] for write in mine))

        return mine_already

    def survivors(
        self, book: Book, info: TableInfo, writes: tuple[Write, ...], states: tuple[Base, Base] | None = None
    ) -> Callable[[Key], Term]:
        """Whether the row of a key that a statement found is still the same row when it has waited for it.

        One that was deleted meanwhile is passed over, although another one has its key. ``states``: when it was found, and when
        it was looked at again, if what others do between is to be followed.
        """
        if not self.may_return(info):
            return lambda _: smt.TRUE
        same = smt.function(book.names.fresh("survives"), key_size(info), "boolean")
        if states is not None:
            self.waited.append(Waited(info, *states, same))
        held = self.held(info, writes)
        return lambda key: smt.either(same(*key), held(key))

    def _new(self, book: Book) -> Base:
        base = Base(book.names.fresh(self.label))
        self.states.append(base)
        return base

    @property
    def dirty(self) -> bool:
        """Whether plain reads may show what is never committed, or half of it: then nothing is known of what they give."""
        return self.level.reads is Reads.DIRTY

    @property
    def current(self) -> bool:
        """Whether writes and locking reads look at the newest rows, whatever plain reads see."""
        return self.level.writes in {Writes.CURRENT, Writes.CURRENT_UNCHANGED}

    def plain(self, book: Book) -> Base:
        """The state that a plain read sees."""
        match self.level.reads:
            case Reads.DIRTY:
                # It is none of the committed states.
                return Base(book.names.fresh(f"{self.label} dirty"))
            case Reads.STATEMENT:
                return self._new(book)
            case Reads.COMMIT:
                return self.commit
            case _:
                if self.snapshot is None:
                    self.snapshot = self._new(book)
                return self.snapshot

    def changing(self, book: Book) -> tuple[Base, Base]:
        """The states in which a write or a locking read finds its rows, and in which it looks at each of them again."""
        match self.level.writes:
            case Writes.RECHECK:
                return self._new(book), self._new(book)
            case Writes.CURRENT | Writes.CURRENT_UNCHANGED:
                base = self._new(book)
                return base, base
            case Writes.COMMIT:
                return self.commit, self.commit
            case Writes.UNCHANGED | Writes.LOOSE:
                base = self.plain(book)
                return base, base

    def passing(self, book: Book) -> tuple[Base, Base]:
        """The same for a statement that goes through several rows, each at a time of its own between two states."""
        if self.current:
            return self._new(book), self._new(book)
        return self.changing(book)

    def newest(self, book: Book) -> Base:
        """A state that is the newest one when a statement runs, whatever the transaction reads from."""
        return self.commit if self.level.writes is Writes.COMMIT else self._new(book)

    def keep(self, book: Book, lock: Lock) -> None:
        """A row is locked, or the transaction fails if it was changed."""
        if self.level.writes is Writes.LOOSE:
            return
        self.locks.append(lock)
        if self.level.writes is Writes.CURRENT_UNCHANGED and self.snapshot is not None and not lock.presence:
            old, new = self.snapshot.row(lock.table, lock.key), self.commit.row(lock.table, lock.key)
            book.fact(smt.implies(lock.held, same_row(old, new)))

    def keep_all(self, book: Book, info: TableInfo, since: Base, held: Universal) -> None:
        """All rows for which ``held`` says so stay as they were in a state."""
        if self.level.writes is Writes.LOOSE or since is self.commit:
            return
        states = (since, *((self.snapshot,) if self._also_unchanged() else ()))

        def unchanged(book: Book, key: Key) -> Term:
            commit = self.commit.row(info, key)
            same = smt.every(same_row(state.row(info, key), commit) for state in states if state is not None)
            return smt.implies(held.say(book, key), same)

        book.universals.append(Universal((info,), unchanged))

    def _also_unchanged(self) -> bool:
        return self.level.writes is Writes.CURRENT_UNCHANGED and self.snapshot is not None

    def _nobody_else(self, lock: Lock, later: Base) -> Term:
        """No transaction that wrote the row, or locked it, has committed since."""
        if lock.presence:
            return smt.TRUE
        names: list[Counted] = ["written"]
        # A row that did not change since the snapshot may have been locked by others, before this transaction did.
        if self.level.writes is not Writes.UNCHANGED:
            names.append("locked")
        counters = [
            (lock.since.counter(lock.table, one, lock.key), later.counter(lock.table, one, lock.key)) for one in names
        ]
        return smt.every(smt.equal(old, new) for old, new in counters)

    def end(self, book: Book, without: frozenset[int] = frozenset()) -> list[Base]:
        """All states, the last one the one to commit to; what locks say of them becomes facts.

        ``without``: states, by identity, that are left out; what is held since one of them is not followed.
        """
        states = [*(state for state in self.states if id(state) not in without), self.commit]
        for lock in self.locks:
            if lock.since is self.commit or id(lock.since) in without:
                continue
            old = lock.since.row(lock.table, lock.key)
            for later in states[states.index(lock.since) + 1 :]:
                new = later.row(lock.table, lock.key)
                same = smt.equal(old.there, new.there) if lock.presence else same_row(old, new)
                book.fact(smt.implies(lock.held, smt.both(same, self._nobody_else(lock, later))))
        return states
