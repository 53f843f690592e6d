"""Anomalies without a cycle: reads of what was never installed, answers that the version set does not give, and orders that
contradict the statements."""

from __future__ import annotations

from collections.abc import Iterator

from isolde.engines.certify.answers import shown_row
from isolde.engines.certify.evaluate import Evaluation, Unknown
from isolde.engines.certify.fit import Place
from isolde.engines.certify.sentences import row_name, txn_name
from isolde.engines.certify.told import Fault
from isolde.engines.certify.world import World
from isolde.history import Status

MISMATCH = "result-set-mismatch"


def told_faults(world: World) -> Iterator[Fault]:
    """The versions, told one by one, that no statement may see whatever they hold: for where statements cannot be run."""
    for place, told in world.told.items():
        if place[0] not in world.effective or place not in world.asked:
            continue
        for number, version in told.items():
            if version is None or world.objects.table[number] not in world.asked[place].form.tables:
                continue
            fault = None
            if version[0] != place[0]:
                fault = _never_installed(world, place, number, version)
            elif version[1] >= place[1]:
                fault = _too_early(world, place, number)
            if fault is not None:
                yield fault


def _too_early(world: World, place: Place, number: int) -> Fault:
    reader = txn_name(world.history.transactions[place[0]].id)
    text = f"{reader} saw {row_name(world.objects.name[number])} as it wrote it only later."
    return Fault("future-read", (place[0],), text)


def _never_installed(world: World, place: Place, number: int, version: Place) -> Fault | None:
    """What is wrong with a version of another transaction; an order that is only partial may just not name it."""
    reader, writer = (txn_name(world.history.transactions[txn].id) for txn in (place[0], version[0]))
    what, line = row_name(world.objects.name[number]), world.lines.get(number)
    if version[0] not in world.effective:
        unknown = world.history.transactions[version[0]].status is Status.UNKNOWN
        if unknown and line is not None and not line.complete:
            # It may have taken effect: its version may be one of those that are not told.
            return None
        text = f"{reader} saw {what} as {writer} wrote it, and {writer} was aborted."
        return Fault("aborted-read", (version[0], place[0]), text)
    if line is None or not line.complete:
        return None
    if version[0] not in line.at or line.versions[line.at[version[0]]] != version:
        text = f"{reader} saw {what} as {writer} wrote it, but that version was not the last of {writer}."
        return Fault("intermediate-read", (version[0], place[0]), text)
    return None


class Faults:
    """Of one history whose statements were run. ``barred``: the objects of a statement that it saw in a wrong version."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation, self.world = evaluation, evaluation.world
        self.all: list[Fault] = []
        self.barred: set[tuple[Place, int]] = set()
        places = sorted(place for place in self.world.asked if place[0] in self.world.effective)
        reads, told = self.world.reads, self.world.told
        for place in places:
            if place in reads and (place in told or reads[place].first is None):
                self._version_set(place)
        for place in places:
            wrong = evaluation.done[place].wrong
            if wrong:
                self._mismatch(place, wrong)
        for place in places:
            if evaluation.done[place].written:
                self._without_version(place)
        self.all += self._orders()

    def _name(self, txn: int) -> str:
        return txn_name(self.world.history.transactions[txn].id)

    def _fault(self, name: str, positions: tuple[int, ...], sentence: str) -> None:
        self.all.append(Fault(name, tuple(dict.fromkeys(positions)), sentence))

    def _mismatch(self, place: Place, wrong: str) -> None:
        sql = " ".join(self.world.asked[place].sql.split())
        self._fault(MISMATCH, (place[0],), f"{self._name(place[0])} ran '{sql}' (operation {place[1]}): {wrong}.")

    def _version_set(self, place: Place) -> None:
        """Looks at versions that are told one by one: what ``sees`` selects is installed, and its own in its own place."""
        world, (txn, index) = self.world, place
        told = world.told.get(place)
        alone = world.reads[place].first is None
        tables = world.asked[place].form.tables
        own = self.evaluation.own(place)
        numbers = {**(told or {}), **({number: None for number in own if number not in (told or {})} if alone else {})}
        for number, version in numbers.items():
            if world.objects.table[number] not in tables:
                continue
            what = row_name(world.objects.name[number])
            if version is not None and version[0] == txn:
                if version[1] >= index:
                    self.all.append(_too_early(world, place, number))
                    self.barred.add((place, number))
                elif own.get(number, version) != version:
                    self._not_own(place, number, what)
                continue
            if number in own:
                self._not_own(place, number, what)
                continue
            fault = None if version is None else _never_installed(world, place, number, version)
            if fault is not None:
                self.all.append(fault)
                self.barred.add((place, number))

    def _not_own(self, place: Place, number: int, what: str) -> None:
        reader = self._name(place[0])
        text = f"{reader} had written {what} itself, and yet its operation {place[1]} saw another version in its place."
        self._fault("not-my-own-write", (place[0],), text)
        self.barred.add((place, number))

    def _without_version(self, place: Place) -> None:
        """Rows that a statement changed and that the certificate has no version of."""
        world, done = self.world, self.evaluation.done[place]
        if done.wrong:
            return
        for number, row in done.written.items():
            if row == done.before.get(number):
                continue
            line = world.lines.get(number)
            if line is not None and (not line.complete or line.last.get(place[0], -1) >= place[1]):
                continue
            what = row_name(world.objects.name[number])
            self._mismatch(place, f"it wrote {what}, and the database tells of no such version")
            return

    def _moves_to(self, place: Place, number: int) -> bool:
        """Whether an UPDATE of primary keys made a row of another one."""
        done = self.evaluation.done.get(place)
        if done is None or not self.world.asked[place].form.moves:
            return False
        return done.before.get(number) is None and done.written.get(number) is not None

    def _orders(self) -> Iterator[Fault]:
        """An INSERT over a live version, an UPDATE or DELETE of a dead one."""
        world = self.world
        for number, line in world.lines.items():
            if not line.complete:
                continue
            every = tuple(dict.fromkeys(line.every))
            for at, place in enumerate(every):
                listed = before = every[at - 1] if at > 0 else None
                for version in self._up_to(number, place, line.listed):
                    fault = self._over(number, version, before, listed)
                    if fault is not None:
                        yield fault
                    before = version

    def _up_to(self, number: int, place: Place, listed: frozenset[Place]) -> list[Place]:
        """A version that is listed, and before it those of its transaction that are not: only the last has to be."""
        versions = [place]
        own = self.evaluation.own(place).get(number)
        while own is not None and own not in listed:
            versions.append(own)
            own = self.evaluation.own(own).get(number)
        return versions[::-1]

    def _over(self, number: int, place: Place, before: Place | None, listed: Place | None) -> Fault | None:
        """Whether a statement cannot have made a version from the one before it; ``listed`` is the last of another's."""
        world, asked = self.world, self.world.asked.get(place)
        if asked is None or asked.form.upsert:
            return None
        try:
            row = self.evaluation.content(number, before)
        except Unknown:
            return None
        makes = asked.form.what == "insert" or self._moves_to(place, number)
        if makes == (row is None):
            return None
        what, writer = row_name(world.objects.name[number]), self._name(place[0])
        if makes and row is not None:
            text = f"{writer} inserted {what}, and by the order of its versions {shown_row(row)} was there already."
        elif asked.form.what in ("update", "delete") and row is None:
            deed = "updated" if asked.form.what == "update" else "deleted"
            text = f"{writer} {deed} {what}, and by the order of its versions there was no such row."
        else:
            return None
        return Fault(MISMATCH, tuple(dict.fromkeys((*([listed[0]] if listed else ()), place[0]))), text)
