"""The second opinion on a history that has an order of versions and no serial order: the graph's own order, replayed.

Where no cycle is found, the transactions are run one after the other in an order that the dependency graph allows. A statement
whose version set is the state at its place in that order was run on that state already; the others are run again.

By Adya's definitions the replay cannot fail where every statement looks at rows one by one and tells its version set: every
version between what it saw and the state at its place then leaves its matches as they are, and what it read is the same version.
A failure is a mistake of Isolde's then. It can fail where statements join tables, ask queries inside, cut their result or lack a
version set, and where rows are kept apart by more than their primary key: "changes the matches" exchanges one version at a time,
and two changes may matter only together. The graph does not see that, and decides all the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from isolde.engines.certify.answers import difference
from isolde.engines.certify.evaluate import Evaluation
from isolde.engines.certify.fit import Place
from isolde.engines.certify.predicates import Predicates, Writers
from isolde.engines.certify.running import Running
from isolde.engines.certify.sentences import txn_name
from isolde.engines.certify.told import SecondOpinion
from isolde.engines.certify.world import INITIAL
from isolde.history import Sql
from isolde.semantics.tables.memory import MemoryTable
from isolde.semantics.tables.view import Row


def second_opinion(evaluation: Evaluation, predicates: Predicates, effects: Mapping[int, int]) -> SecondOpinion:
    """The transactions run one after the other as ``effects`` has them."""
    return SecondOpinion(_Replay(evaluation, predicates, effects).differs(), _exact(evaluation))


def _exact(evaluation: Evaluation) -> bool:
    world = evaluation.world
    return all(len(info.uniques) <= 1 for info in world.catalog.tables) and all(
        asked.form.simple and not asked.form.rekeys and (place in world.reads or asked.form.plain_insert)
        for place, asked in world.asked.items()
        if place[0] in world.effective
    )


class _Replay:
    def __init__(self, evaluation: Evaluation, predicates: Predicates, effects: Mapping[int, int]) -> None:
        self.evaluation, self.predicates, self.world = evaluation, predicates, evaluation.world
        self.effects = effects
        world = self.world
        self.writers = Writers(world, effects)
        self.tables = [MemoryTable(info, world.catalog, []) for info in world.catalog.tables]
        for number, row in enumerate(world.objects.initial):
            if row is not None:
                self.tables[world.objects.table[number]].restore(number, row)
        self.current: dict[int, int] = {}
        """The place of the version that each object is at."""

    def differs(self) -> str:
        world = self.world
        plain = (
            place not in world.told
            and (seen := world.reads.get(place)) is not None
            and seen.first is not None
            and self.writers.same_state(place, self.effects[place[0]])
            for place in world.asked
            if place[0] in self.effects
        )
        if all(plain):
            # Each was run on just the state at its place.
            return ""
        for txn in sorted(self.effects, key=self.effects.__getitem__):
            for index in range(len(world.history.transactions[txn].ops)):
                if (txn, index) in world.asked:
                    wrong = self._statement((txn, index))
                    if wrong:
                        sql = " ".join(world.asked[txn, index].sql.split())
                        name = txn_name(world.history.transactions[txn].id)
                        return f"{name} ran '{sql}' (operation {index}), and {wrong}"
            for number in world.installed_by.get(txn, ()):
                self.current[number] = max(self.current.get(number, INITIAL), world.lines[number].at[txn])
        return ""

    def _statement(self, place: Place) -> str:
        """How a statement's answer, or what it writes, differs on the state at its place; empty if it does not."""
        done, asked = self.evaluation.done[place], self.world.asked[place]
        if place in self.world.reads and not self._sees_another_state(place):
            self._write(done.written)
            return ""
        running = Running(self.world, asked, self.evaluation.store, self.tables, [{} for _ in self.tables])
        evaluated = running.evaluated()
        wrong = evaluated.wrong
        if running.answer is not None:
            op = self.world.history.transactions[place[0]].ops[place[1]]
            assert isinstance(op, Sql)
            wrong = difference(op.content, asked.form, running.answer, self.world.sql.counts)
            if not wrong and _changed(evaluated.written, evaluated.before) != _changed(done.written, done.before):
                wrong = "it writes other rows in the state before it"
        self._write(evaluated.written)
        return wrong.replace("the versions that it saw", "the state before it")

    def _sees_another_state(self, place: Place) -> bool:
        here = self.effects[place[0]]
        return any(
            at != self.current.get(number, INITIAL)
            for number, at in self.predicates.differing(place, here, self.writers)
        )

    def _write(self, rows: Mapping[int, Row | None]) -> None:
        for number, row in rows.items():
            table = self.tables[self.world.objects.table[number]]
            if row is not None or number in table.rows:
                table.restore(number, row)


def _changed(after: Mapping[int, Row | None], before: Mapping[int, Row | None]) -> dict[int, Row | None]:
    return {number: row for number, row in after.items() if row != before.get(number)}
