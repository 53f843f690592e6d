"""Runs every statement on its version set: what the versions hold, which rows were read, and whether the answer is right.

Statements are taken in the order of what they see, so that one state of the tables, which only moves forward in ``commits``,
serves them all; what differs for a statement (transactions left out or added, versions that are told, its own writes) lies on
top. A statement that sees a version is run after the one that made it. Where that is impossible because two need each other,
the rows are computed one by one (``rows.py``); where even that is, the updates were computed from each other: ``g1c``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from isolde.engines.certify.answers import difference
from isolde.engines.certify.at_hand import AtHand, Laid
from isolde.engines.certify.fit import Place
from isolde.engines.certify.running import Evaluated, Running
from isolde.engines.certify.sentences import row_name
from isolde.engines.certify.shared import Shared
from isolde.engines.certify.statements import Asked
from isolde.engines.certify.world import INITIAL, Undecidable, World
from isolde.history import Sql
from isolde.semantics.tables.memory import MemoryTable
from isolde.semantics.tables.view import Row


class Circular(Exception):
    """Statements that need each other's versions: no order runs them all. ``places`` are theirs."""

    def __init__(self, places: tuple[Place, ...]) -> None:
        super().__init__(places)
        self.places = places


class Unknown(Exception):
    """A version whose content nobody can tell, since its statement has no version set."""


_NOTHING: dict[int, Place] = {}
_UNTOUCHED = Laid()


class Evaluation:
    """The statements of one history, each run once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.done: dict[Place, Evaluated] = {}
        self.store = world.statements.over([], [])
        self.shared = Shared(world, self.content)
        self.at_hand = AtHand(world, self.store, self.shared)
        self.no_rows = [MemoryTable(info, world.catalog, []) for info in world.catalog.tables]
        self._changing: dict[int, list[int]] = {}
        for txn, index in world.asked:
            if world.asked[txn, index].form.what != "query":
                self._changing.setdefault(txn, []).append(index)
        self._owned: dict[Place, dict[int, Place]] = {}
        """After a statement that changes something, the last version of its transaction's own of each object."""
        self._prepared: tuple[Place, int, Laid] | None = None
        """The statement that was looked at last, the state of the tables then, and what lies over it."""
        self.contents: dict[tuple[int, Place], Row | None] = {}
        """Rows that were computed one by one."""

    def all(self) -> None:
        """Runs every statement of the transactions that count."""
        world = self.world
        first = self._first
        for _, place in sorted((first(place), place) for place in world.asked if place[0] in world.effective):
            self.ensure(place)

    def _first(self, place: Place) -> int:
        seen = self.world.reads.get(place)
        if seen is None:
            return self.world.rank.get(place[0], len(self.world.commits))
        return seen.first or 0

    # In which order

    def ensure(self, place: Place) -> None:
        """Runs a statement, and before it all that made versions that it needs."""
        if self._is_at_hand(place):
            laid = self._own_alone(place)
            evaluated = self.at_hand.evaluated(place, laid)
            if evaluated is None:
                self._prepared = (place, self.shared.passed, laid)
                self._run(place)
            else:
                self._write_what_is_listed(place, evaluated)
                self.done[place] = evaluated
            return
        waiting, on_the_way = [place], dict[Place, None]()
        while waiting:
            top = waiting[-1]
            if top in self.done:
                waiting.pop()
                on_the_way.pop(top, None)
                continue
            missing = [other for other in self._needs(top) if other not in self.done]
            if not missing:
                self._run(top)
                continue
            on_the_way[top] = None
            circle = next((other for other in missing if other in on_the_way), None)
            if circle is not None:
                path = list(on_the_way)
                raise Circular(tuple(path[path.index(circle) :]))
            waiting += missing

    def _is_at_hand(self, place: Place) -> bool:
        """Whether a statement sees just what the shared state has, its own transaction's writes apart, and can be run at once.

        The shared state is taken there, if all that this needs was run.
        """
        world, done = self.world, self.done
        seen = world.reads.get(place)
        if seen is None or seen.first is None or seen.without or seen.also or place in world.told or place in done:
            return False
        txn, index = place
        first, shared = seen.first, self.shared
        if world.rank.get(txn, first) < first:
            return False
        while shared.passed < first:
            following = world.commits[shared.passed]
            for other in self._changing.get(following, ()):
                if (following, other) not in done:
                    return False
            shared.go_on()
        if shared.passed != first:
            return False
        return all((txn, other) in done for other in self._changing.get(txn, ()) if other < index)

    def _needs(self, place: Place) -> Iterable[Place]:
        """The statements whose versions a statement needs, and the earlier ones of its transaction."""
        txn, index = place
        for other in self._changing.get(txn, ()):
            if other < index:
                yield txn, other
        world = self.world
        seen = world.reads.get(place)
        if seen is None:
            for number in world.may_have_written(place, world.asked[place]):
                version = self._version_before(number, txn)
                if version is not None and (number, version) not in self.contents and version[0] != txn:
                    yield version
            return
        first = seen.first or 0
        while self.shared.passed < first:
            txn_next = world.commits[self.shared.passed]
            if txn_next != txn:
                missing = [
                    version
                    for number in world.installed_by.get(txn_next, ())
                    if (version := self._installed(number, txn_next)) not in self.done
                    and (number, version) not in self.contents
                ]
                if missing:
                    yield from missing
                    return
            elif any((txn, other) not in self.done for other in self._changing.get(txn, ())):
                # It is told to see itself: its own versions stay out of the shared state until they are known.
                break
            self.shared.go_on()
        laid = self.laid(place, self.shared)
        self._prepared = (place, self.shared.passed, laid)
        for number, version in laid.versions.items():
            if version is not None and version[0] != txn and (number, version) not in self.contents:
                yield version

    def _installed(self, number: int, txn: int) -> Place:
        line = self.world.lines[number]
        return line.versions[line.at[txn]]

    # What is there

    def content(self, number: int, version: Place | None) -> Row | None:
        """The row that a version is; ``None`` if it is dead."""
        if version is None:
            return self.world.objects.initial[number]
        if (number, version) in self.contents:
            return self.contents[number, version]
        done = self.done.get(version)
        if done is None or number not in done.written:
            raise Unknown
        return done.written[number]

    def version_seen(self, place: Place, number: int) -> Place | None:
        """The version of an object in a statement's version set."""
        world = self.world
        told = world.told.get(place, {})
        if number in told:
            return told[number]
        if world.reads[place].first is None:
            return None
        own = self.own(place).get(number)
        if own is not None:
            return own
        return world.version(number, world.visible(place, number))

    def own(self, place: Place) -> dict[int, Place]:
        """The last earlier version of its own of each object that the transaction wrote, by statements that were run."""
        txn, index = place
        changing = self._changing.get(txn)
        if changing is None or changing[0] >= index:
            return _NOTHING
        latest = (txn, changing[bisect_left(changing, index) - 1])
        known = self._owned.get(latest)
        if known is not None:
            return known
        found, done = self.own(latest), self.done.get(latest)
        if done is None:
            return found
        before, listed = done.before.get, self._listed(latest)
        mine = {number: latest for number, row in done.written.items() if row != before(number) or number in listed}
        self._owned[latest] = found = {**found, **mine} if mine else found
        return found

    def _own_alone(self, place: Place) -> Laid:
        """What lies over the shared state if that is what a statement sees: its transaction's own writes."""
        own = self.own(place)
        if not own:
            return _UNTOUCHED
        tables, table_of, done = self.world.asked[place].form.tables, self.world.objects.table, self.done
        mine = {number: version for number, version in own.items() if table_of[number] in tables}
        return Laid(mine, {number: done[version].written[number] for number, version in mine.items()})  # type: ignore[arg-type]

    def laid(self, place: Place, shared: Shared) -> Laid:
        """What a statement sees otherwise than the shared state has it."""
        world = self.world
        seen, tables = world.reads[place], set(world.asked[place].form.tables)
        laid = Laid()
        first = seen.first or 0
        low, high = sorted((first, shared.passed))
        changed = {*world.commits[low:high], *seen.without, *seen.also}
        if world.rank.get(place[0], high) < high:
            changed.add(place[0])
        for txn in changed:
            for number in world.installed_by.get(txn, ()):
                if world.objects.table[number] in tables and number not in laid.versions:
                    laid.versions[number] = world.version(number, world.visible(place, number))
        if seen.first is not None:
            for number, mine in self.own(place).items():
                if world.objects.table[number] in tables:
                    laid.own[number] = self.done[mine].written[number]
                    laid.versions[number] = mine
        for number, version in world.told.get(place, {}).items():
            if world.objects.table[number] in tables:
                laid.versions[number] = version
                laid.own.pop(number, None)
        return laid

    # Running

    def _run(self, place: Place) -> None:
        asked = self.world.asked[place]
        if place not in self.world.reads:
            self.done[place] = self._blind(place, asked)
            return
        prepared = self._prepared
        if prepared is not None and prepared[:2] == (place, self.shared.passed):
            laid = prepared[2]
        else:
            laid = self.laid(place, self.shared)
        try:
            changes = self.changes(laid)
        except Unknown:
            if place[0] in self.world.effective:
                name = self.world.history.transactions[place[0]].id
                raise Undecidable(
                    f"operation {place[1]} of {name} saw a version whose content is not known: its own statement has no version"
                    " set, or came only later"
                ) from None
            self.done[place] = Evaluated()
            return
        running = self.running(asked, self.shared.tables, changes)
        evaluated = running.evaluated()
        evaluated.used = [
            (number, version)
            for number, _ in evaluated.used
            if (version := self._seen(laid, number)) is None or version[0] != place[0]
        ]
        if not evaluated.wrong:
            op = self.world.history.transactions[place[0]].ops[place[1]]
            assert isinstance(op, Sql)
            assert running.answer is not None
            evaluated.wrong = difference(op.content, asked.form, running.answer, self.world.sql.counts)
        self._write_what_is_listed(place, evaluated)
        self.done[place] = evaluated

    def _seen(self, laid: Laid, number: int) -> Place | None:
        if number in laid.versions:
            return laid.versions[number]
        return self.world.version(number, self.shared.current.get(number, INITIAL))

    def _write_what_is_listed(self, place: Place, evaluated: Evaluated) -> None:
        """A version that the certificate lists although the statement does not write it: the row stays what it was before."""
        for number in self._listed(place):
            if number not in evaluated.written:
                if not evaluated.wrong:
                    name = self.world.objects.name[number]
                    evaluated.wrong = f"the database says that it wrote {row_name(name)}, which it does not match"
                version = self._version_before(number, place[0])
                try:
                    row = self.content(number, version)
                except Unknown:
                    row = None
                evaluated.written[number] = evaluated.before[number] = row

    def _listed(self, place: Place) -> Sequence[int]:
        return self.world.listed_at.get(place, ())

    def _version_before(self, number: int, txn: int) -> Place | None:
        at = self.world.before(number, txn)
        return None if at is None or at == INITIAL else self.world.lines[number].versions[at]

    def _blind(self, place: Place, asked: Asked) -> Evaluated:
        """A statement without a version set: the rows that it may have written, from the versions before them.

        What an INSERT of values writes does not depend on the tables, so that it is known whether or not the certificate tells
        of it: of the versions of one transaction it may list only the last.
        """
        evaluated = Evaluated()
        if asked.form.what == "query":
            return evaluated
        if asked.form.what == "insert" and asked.form.simple and not asked.form.upsert:
            return self._inserted(place, asked)
        own: dict[int, Row | None] = {}
        for other in self._changing.get(place[0], ()):
            if other < place[1]:
                own |= self.done[place[0], other].written
        listed, unlisted = self._listed(place), list[int]()
        for number in self.world.may_have_written(place, asked):
            version = self._version_before(number, place[0])
            try:
                row = own[number] if number in own else self.content(number, version)
                after = self.one_row(asked, number, row)
            except Unknown:
                continue
            if number not in listed:
                if after == row:
                    continue
                unlisted.append(number)
            evaluated.before[number], evaluated.written[number] = row, after
            if number not in own and row is not None:
                evaluated.used.append((number, version))
        if unlisted and not self._wrote(place, asked, len(listed), len(unlisted)):
            for number in unlisted:
                del evaluated.before[number], evaluated.written[number]
            evaluated.used = [(number, version) for number, version in evaluated.used if number not in unlisted]
        return evaluated

    def _wrote(self, place: Place, asked: Asked, listed: int, unlisted: int) -> bool:
        """Whether a change without a version set wrote rows of which only a later version of its transaction is listed.

        The row before may have come only after it, so that its count has to tell; :class:`Undecidable` if that does not.
        """
        op = self.world.history.transactions[place[0]].ops[place[1]]
        count = op.content.get("count") if isinstance(op, Sql) else None
        if count == listed:
            return False
        # Rows that it changed are among these; an UPDATE may also have counted one that it left as it was.
        form, keys = asked.form, self.world.catalog.tables[asked.form.target].uniques[0]
        exact = form.what != "update" or self.world.sql.counts == "changed" or form.columns <= set(keys)
        if count == listed + unlisted and exact:
            return True
        name = self.world.history.transactions[place[0]].id
        raise Undecidable(f"operation {place[1]} of {name} has no version set, and nobody tells which rows it wrote")

    def _inserted(self, place: Place, asked: Asked) -> Evaluated:
        running = self.running(asked, self.no_rows, [{} for _ in self.shared.tables])
        evaluated = running.evaluated()
        evaluated.used = []
        if not evaluated.wrong:
            op = self.world.history.transactions[place[0]].ops[place[1]]
            assert isinstance(op, Sql)
            assert running.answer is not None
            evaluated.wrong = difference(op.content, asked.form, running.answer, self.world.sql.counts)
        self._write_what_is_listed(place, evaluated)
        return evaluated

    def one_row(self, asked: Asked, number: int, row: Row | None) -> Row | None:
        """What a statement makes of one object, if it is all that there is."""
        if not asked.form.simple or asked.form.moves:
            raise Undecidable(f"what '{asked.sql}' writes needs a version set: it asks other rows, too")
        changes: list[dict[int, Row | None]] = [{} for _ in self.shared.tables]
        if row is not None:
            changes[self.world.objects.table[number]][number] = row
        return self.running(asked, self.no_rows, changes).evaluated().written.get(number, row)

    def changes(self, laid: Laid) -> list[dict[int, Row | None]]:
        """By table, the rows that lie over the shared state."""
        changes: list[dict[int, Row | None]] = [{} for _ in self.shared.tables]
        for number, version in laid.versions.items():
            row = laid.own[number] if number in laid.own else self.content(number, version)
            changes[self.world.objects.table[number]][number] = row
        return changes

    def running(self, asked: Asked, tables: Sequence[MemoryTable], changes: list[dict[int, Row | None]]) -> Running:
        """A statement that is about to be run on these tables."""
        return Running(self.world, asked, self.store, tables, changes)
