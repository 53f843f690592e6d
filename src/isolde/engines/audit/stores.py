"""Is there a run of a store model that gives every answer of a log? What that database can do, instead of a definition.

The log is followed along its recorded times (``along.py``), which finds runs. Where that finds none, all orders are tried in
which the sessions may have sent their statements that keep sessions and real time (a statement that was answered before another
one was sent comes before it), and a branch ends where an answer differs; of a long log, only the part around the answer that
nothing gave.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from isolde.engines.audit.along import Along
from isolde.engines.audit.compiling import Ask
from isolde.engines.audit.log import Entry, Log
from isolde.engines.audit.models import PLANNED_LOCKS, StoreReading
from isolde.engines.audit.parts import PART_STEPS, parts_of
from isolde.engines.audit.script import SEES_ABORTED, Action, Due, Script, locks
from isolde.engines.audit.search import Allowance, End
from isolde.errors import ExecutionError, InputError, OutsideFragment
from isolde.history import Status
from isolde.semantics.core.plan import Visit, plan
from isolde.semantics.core.relations import Delete, Query, Update
from isolde.semantics.stores import State
from isolde.tx.expressions import Exists, InQuery
from isolde.tx.queries import Select
from isolde.tx.statements import Delete as SpokenDelete
from isolde.tx.statements import Update as SpokenUpdate
from isolde.tx.walk import parts as parts_of_node

_CHECKS_AGAIN = "postgresql:read-committed"
LOCKS_OF_A_PLAN = "no run was found, but statements waited in the model for locks that depend on the server's plan"
CHECKS_OF_A_PLAN = (
    "no run was found, but rows were checked again by a condition with EXISTS or IN, which depends on the server's plan"
)
ROWS_OF_ABORTED = "no run was found, but aborted transactions, which a log does not judge, are seen at read uncommitted"
WAITS_OF_ABORTED = "no run was found, but aborted transactions, which a log does not judge, may have held up statements"
_STATEMENT_SNAPSHOTS = frozenset({"read-committed"})
EXACT_MAX = 60
"""Of longer logs not every beginning is judged anew."""
FRAMES_KEPT = 500
"""Steps that a search of a long log can take back."""
SHORT_STEPS = 2_000
"""Steps of the search that comes before a short log is followed."""
ALONG_STEPS = 40_000
"""Actions that are sent again in repairs of a log that is followed."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A state of the model, and how many of its actions each session has sent; ``due``: those that wait for their answer."""

    state: State
    sent: tuple[int, ...]
    due: Due = ()


@dataclass(slots=True)
class _Frame:
    node: _Node
    steps: Iterator[_Node]
    key: Hashable = None


@dataclass(slots=True)
class StoreSearch:
    """A log on a model. ``refused``: why it cannot be judged."""

    log: Log
    reading: StoreReading
    entries: Sequence[Entry]
    allowance: Allowance
    refused: str = ""
    furthest: int = 0
    script: Script = field(init=False)
    _sessions: dict[str, list[Action]] = field(init=False)
    _names: list[str] = field(init=False)
    _needed: list[int] = field(init=False)
    """How many of its actions each session must have sent: all of known outcome."""
    keeps_all: bool = True
    """Whether it may go back as far as it likes; if not, a search that ends by itself without a run says nothing."""
    stuck: tuple[Entry, int] | None = None
    """The statement that the furthest try did not get past."""
    _furthest: _Node | None = None

    def run(self) -> End:
        """Whether a run of the model gives every answer of the entries."""
        try:
            self._prepare()
            return self._search()
        except (OutsideFragment, InputError) as error:
            self.refused = str(error)
            return End.SPENT
        except ExecutionError as error:
            self.refused = f"a statement is wrong, whatever the tables hold: {error}"
            return End.SPENT

    def _prepare(self) -> None:
        self.script = Script(self.log, self.reading, self.entries)
        self._sessions = self.script.sessions
        self._names = list(self._sessions)
        self._needed = [
            max((place for place, action in enumerate(actions, 1) if not action.entry.maybe), default=0)
            for actions in self._sessions.values()
        ]

    # Searching

    def _search(self) -> End:
        root = _Node(self.script.model.initial(), (0,) * len(self._names))
        frames = [_Frame(root, self._steps(root))]
        dead: set[Hashable] = set()
        dropped = False
        while frames:
            frame = frames[-1]
            if self._over(frame.node):
                return End.FOUND
            node = next(frame.steps, None)
            if node is None:
                dead.add(self._key(frame.node))
                frames.pop()
                continue
            if not self.allowance.step():
                return End.SPENT
            if dead and self._key(node) in dead:
                continue
            if sum(node.sent) > self.furthest:
                # Steps that lead on are not counted: a long log has many.
                self.allowance.steps += 1
                self.furthest = sum(node.sent)
                self._furthest = node
            frames.append(_Frame(node, self._steps(node)))
            if not self.keeps_all and len(frames) > 2 * FRAMES_KEPT:
                del frames[:FRAMES_KEPT]
                dropped = True
                dead.clear()
        if dropped:
            self.stuck = self.next_action()
            return End.SPENT
        if self.script.ordered_ties:
            self.refused = "an answer has the right rows in another order, which the model cannot judge"
            return End.SPENT
        if self.script.waited and self.reading.store in PLANNED_LOCKS and not self._all_by_key():
            # The model locks all that a plan may look at; the server's plan may look at less, and let others pass.
            self.refused = LOCKS_OF_A_PLAN
            return End.SPENT
        if self.script.waited and self.reading.name == _CHECKS_AGAIN and self._asks_again():
            # A row that changed meanwhile is checked again with the rows that EXISTS or IN joined it to, if the plan joins.
            self.refused = CHECKS_OF_A_PLAN
            return End.SPENT
        if self._aborted_matter():
            self.refused = ROWS_OF_ABORTED if self.reading.isolation == SEES_ABORTED else WAITS_OF_ABORTED
            return End.SPENT
        return End.NONE

    def _aborted_matter(self) -> bool:
        """Whether those that are left out may have been seen, or may have held up a statement in the middle of its rows."""
        aborted = [one for one in self.log.history.transactions if one.status is Status.ABORTED]
        if not aborted or self.reading.store == "sqlite":
            return False
        if self.reading.isolation == SEES_ABORTED:
            return True
        asks = [action for actions in self._sessions.values() for action in actions if action.ask is not None]
        held_up = [one for one in asks if one.ask is not None and not self._undivided(one.ask)]
        return any(
            (one.end is None or action.start is None or one.end >= action.start)
            and (action.end is None or one.start is None or one.start <= action.end)
            for action in held_up
            for one in aborted
        )

    def _undivided(self, ask: Ask) -> bool:
        """Whether a statement looks at one state, however long it waits: a plain query, or a row by its key."""
        spoken = self.script.spoken(ask)
        plain = isinstance(spoken, Select) and not locks(spoken) and self.reading.isolation != "serializable"
        return plain or self._by_key(ask)

    def _asks_again(self) -> bool:
        """Whether a change or a locking query has a query in its condition that PostgreSQL may turn into a join."""
        for actions in self._sessions.values():
            for action in actions:
                if action.ask is not None:
                    spoken = self.script.spoken(action.ask)
                    changes = isinstance(spoken, SpokenUpdate | SpokenDelete) or (locks(spoken))
                    if changes and any(isinstance(part, InQuery | Exists) for part in parts_of_node(spoken)):
                        return True
        return False

    def next_action(self) -> tuple[Entry, int] | None:
        """The statement that comes next where the furthest try ended, or waits for its answer there."""
        node = self._furthest
        if node is None:
            return None
        waiting = [action for _, action in node.due]
        coming = [
            self._sessions[name][sent]
            for name, sent in zip(self._names, node.sent, strict=True)
            if sent < len(self._sessions[name])
        ]
        actions = sorted(waiting or coming, key=lambda action: action.time)
        for action in actions:
            if action.ask is not None:
                return action.entry, action.place
        return None

    def _all_by_key(self) -> bool:
        """Whether all statements find their rows by a unique key, so that no plan locks others."""
        asks = [action.ask for actions in self._sessions.values() for action in actions if action.ask is not None]
        return all(self._by_key(ask) for ask in asks)

    def _by_key(self, ask: Ask) -> bool:
        spoken = self.script.spoken(ask)
        inside = sum(isinstance(part, Select) for part in parts_of_node(spoken))
        if inside > isinstance(spoken, Select):
            return False
        core = self.script.model.sent(spoken, ask.given).core
        match core:
            case Query():
                steps = plan(core.source, core.where).steps
            case Update() | Delete():
                steps = plan(core.scan, core.where).steps
            case _:
                return True
        return all(
            isinstance(step, Visit) and step.access is not None and step.access.unique is not None for step in steps
        )

    def _key(self, node: _Node) -> Hashable:
        return node.state.key(), node.sent, tuple((name, action.place) for name, action in node.due)

    def _over(self, node: _Node) -> bool:
        if node.due:
            return False
        return not node.state.open and all(sent >= needed for sent, needed in zip(node.sent, self._needed, strict=True))

    def _steps(self, node: _Node) -> Iterator[_Node]:
        """What may come next, the likeliest first: the action with the earliest time."""
        candidates = []
        horizon = self._horizon(node)
        due = {name for name, _ in node.due}
        for place, name in enumerate(self._names):
            if name in due or node.sent[place] == len(self._sessions[name]):
                continue
            action = self._sessions[name][node.sent[place]]
            if horizon is None or action.start is None or action.start <= horizon:
                candidates.append((action.time, place, action))
        for _, place, action in sorted(candidates, key=lambda one: one[:2]):
            yield from self._sent(node, place, action)
            if action.entry.maybe and self._names[place] not in node.state.open:
                yield self._left_out(node, place, action)

    def _horizon(self, node: _Node) -> int | None:
        """The earliest time at which something that is not done yet was answered: nothing that was sent later may come first."""
        ends = [action.end for _, action in node.due if action.end is not None]
        for name, sent in zip(self._names, node.sent, strict=True):
            for action in self._sessions[name][sent : sent + 8]:
                if action.end is not None:
                    ends.append(action.end)
                    break
        return min(ends, default=None)

    def _left_out(self, node: _Node, place: int, action: Action) -> _Node:
        actions = self._sessions[self._names[place]]
        sent = node.sent[place]
        while sent < len(actions) and actions[sent].entry is action.entry:
            sent += 1
        return _Node(node.state, (*node.sent[:place], sent, *node.sent[place + 1 :]), node.due)

    def _sent(self, node: _Node, place: int, action: Action) -> Iterator[_Node]:
        name = self._names[place]
        sent = (*node.sent[:place], node.sent[place] + 1, *node.sent[place + 1 :])
        for step in self.script.sent(node.state, name, action):
            due, wrong = self.script.answered(step, {**dict(node.due), name: action})
            if wrong is None:
                yield _Node(step.state, sent, due)


def explains(
    log: Log, reading: StoreReading, allowance: Allowance, entries: Sequence[Entry] | None = None
) -> tuple[End, str]:
    """Whether a run of the model gives every answer of a log, or of these of its transactions; and why it is undecided."""
    entries = log.entries if entries is None else entries
    stuck = None
    if len(entries) <= EXACT_MAX:
        # Nearly all short logs are searched whole before following them has tried its first repairs.
        short = StoreSearch(log, reading, entries, Allowance(min(allowance.steps, SHORT_STEPS), allowance.deadline))
        end = short.run()
        allowance.spent += short.allowance.spent
        if end is not End.SPENT or short.refused:
            return end, short.refused
    if all(entry.start is not None and (entry.maybe or entry.end is not None) for entry in entries):
        found, stuck, reason = _followed(log, reading, entries, allowance)
        if found is not None:
            return found, reason
    search = StoreSearch(log, reading, entries, allowance, keeps_all=len(entries) <= FRAMES_KEPT)
    end, reason = End.SPENT, ""
    if len(entries) <= FRAMES_KEPT or stuck is None:
        end = search.run()
        stuck, reason = stuck or search.stuck, search.refused
    if end is End.SPENT and stuck is not None and not allowance.over and _refutes(log, reading, stuck, entries):
        return End.NONE, ""
    if end is End.SPENT and not reason:
        reason = f"no run of the model was found within {allowance.spent:,} steps; give more with --budget or --time"
    return end, reason


def _followed(
    log: Log, reading: StoreReading, entries: Sequence[Entry], allowance: Allowance
) -> tuple[End | None, tuple[Entry, int] | None, str]:
    """How following along the times ended, if that decides; the statement that it did not get past; why nobody can judge."""
    steps = Allowance(min(allowance.steps, ALONG_STEPS), allowance.deadline)
    try:
        along = Along(Script(log, reading, entries), steps)
        if along.run():
            return End.FOUND, None, ""
    except (OutsideFragment, InputError) as error:
        return End.SPENT, None, str(error)
    except ExecutionError as error:
        return End.SPENT, None, f"a statement is wrong, whatever the tables hold: {error}"
    allowance.spent += steps.spent
    allowance.over = steps.over and steps.spent <= steps.steps
    return None, along.stuck, ""


def _refutes(log: Log, reading: StoreReading, stuck: tuple[Entry, int], entries: Sequence[Entry]) -> bool:
    """Whether no run gives the answers of the part of a log around a statement.

    Where every statement reads what is committed, leaving others out lets a model do more, not less; where a transaction keeps
    the snapshot of its first statement, which may be left out, that is not so.
    """
    if entries[-1].number != len(entries) - 1:
        return False
    return contradicted(log, reading, parts_of(log).around([stuck], len(entries)) or ())


def contradicted(log: Log, reading: StoreReading, part: Sequence[Entry]) -> bool:
    """Whether a part of a log is enough to see that no run gives its answers."""
    if not part or len(part) > FRAMES_KEPT or reading.isolation not in _STATEMENT_SNAPSHOTS:
        return False
    return StoreSearch(log, reading, part, Allowance(PART_STEPS)).run() is End.NONE


def failing_statement(log: Log, reading: StoreReading, allowance: Allowance) -> tuple[int, int]:
    """The length of the shortest beginning, by ``end``, that no run gives the answers of; and the statement of its last
    transaction up to which runs do.
    """
    if len(log.entries) > EXACT_MAX:
        search = StoreSearch(log, reading, log.entries, allowance.anew(), keeps_all=False)
        search.run()
        stuck = search.stuck or search.next_action()
        if stuck is not None:
            length = stuck[0].number + 1
            return (length if _refutes(log, reading, stuck, log.entries[:length]) else len(log.entries)), stuck[1]
        return len(log.entries), 0
    for length in range(1, len(log.entries) + 1):
        entries = log.entries[:length]
        if entries[-1].maybe:
            continue
        end, _ = explains(log, reading, allowance.anew(), entries)
        if end is not End.FOUND:
            break
    last = entries[-1]
    for done in range(1, len(last.asks) + 1):
        part = replace(last, asks=last.asks[:done])
        end, _ = explains(log, reading, allowance.anew(), [*entries[:-1], part])
        if end is not End.FOUND:
            return length, done - 1
    return length, max(len(last.asks) - 1, 0)
