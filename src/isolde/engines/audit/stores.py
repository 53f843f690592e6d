"""Is there a run of a store model that gives every answer of a log? What that database can do, instead of a definition.

The statements of all sessions are sent to the model one after the other, in an order that keeps sessions and real time (a
statement that was answered before another one was sent comes before it), the recorded order first. A branch ends where an
answer differs. Aborted transactions are left out: what they did is seen by nobody, and when a database gives up is its own
affair. A statement that was told to have failed because of others (a deadlock, say) is left out for the same reason.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from isolde.engines.audit.answers import CONCURRENCY, same_bag, same_list
from isolde.engines.audit.compiling import Ask
from isolde.engines.audit.log import Entry, Log
from isolde.engines.audit.parts import PART_STEPS, parts_of
from isolde.engines.audit.search import Allowance, End
from isolde.errors import ExecutionError, InputError, OutsideFragment, UsageError
from isolde.levels.stores import STORE_LEVELS, StoreName, store_level, store_settings
from isolde.semantics.core.plan import Visit, plan
from isolde.semantics.core.relations import Delete, Query, Update
from isolde.semantics.stores import Ended, Failed, Model, Result, Returned, State, Step, Waits, store_model
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Exists, InQuery
from isolde.tx.queries import Select
from isolde.tx.sql import statement as read_statement
from isolde.tx.statements import Delete as SpokenDelete
from isolde.tx.statements import Insert
from isolde.tx.statements import Update as SpokenUpdate
from isolde.tx.walk import parts as parts_of_node

_DIALECTS = {Dialect.POSTGRESQL: "postgresql", Dialect.MYSQL: "mysql", Dialect.SQLITE: "sqlite"}
_NOT_CONSIDERED = "read-uncommitted"
_CHECKS_AGAIN = "postgresql:read-committed"
_PLANNED_LOCKS = frozenset({"mariadb", "mysql"})
LOCKS_OF_A_PLAN = "no run was found, but statements waited in the model for locks that depend on the server's plan"
CHECKS_OF_A_PLAN = (
    "no run was found, but rows were checked again by a condition with EXISTS or IN, which depends on the server's plan"
)
_STATEMENT_SNAPSHOTS = frozenset({"read-committed"})
EXACT_MAX = 60
"""Of longer logs not every beginning is judged anew."""
FRAMES_KEPT = 500
"""Steps that a search of a long log can take back."""
_STRENGTH = {"serializable": 0, "repeatable-read": 1, "read-committed": 2, "immediate": 0, "deferred": 1}


@dataclass(frozen=True, slots=True)
class StoreReading:
    """A store model at one of its levels, with the settings that change what the level does."""

    store: str
    isolation: str
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.store}:{self.isolation}"


def store_reading(name: str, settings: Mapping[str, str]) -> StoreReading:
    """``postgresql:read-committed`` with settings; unknown names are refused."""
    store, _, level = name.partition(":")
    if store not in [one.value for one in StoreName]:
        raise UsageError(f"there is no model of {store!r}; there are {', '.join(one.value for one in StoreName)}")
    found = store_level(store, level, settings)
    return StoreReading(store, found.level, tuple(store_settings(store, settings).items()))


def store_of(log: Log) -> str:
    """The model of the database that a log comes from, by its header."""
    named = log.history.store.split()[:1]
    known = [one.value for one in StoreName]
    return named[0].lower() if named and named[0].lower() in known else _DIALECTS[log.history.dialect]


def readings_of(log: Log, settings: Mapping[str, str]) -> list[StoreReading]:
    """The levels of the log's own database, the strongest first; read uncommitted is not considered.

    A database that has no model has none, whichever dialect it speaks (DuckDB's is PostgreSQL's).
    """
    store = store_of(log)
    if log.history.store and log.history.store.lower().split()[:1] != [store]:
        return []
    known = [row.level for row in STORE_LEVELS if row.store.value == store and row.level != _NOT_CONSIDERED]
    strongest = sorted(dict.fromkeys(known), key=lambda level: _STRENGTH.get(level, 0))
    return [store_reading(f"{store}:{level}", settings) for level in strongest]


def known_settings(store: str, header: Mapping[str, str]) -> dict[str, str]:
    """Those of a log's header that the model of a store knows."""
    if store not in [one.value for one in StoreName]:
        return {}
    known = store_settings(store, {})
    return {name: value for name, value in header.items() if name in known}


@dataclass(frozen=True, slots=True)
class _Action:
    """Something that a session sends: a statement, or the end of its transaction. Times are those of its answer."""

    entry: Entry
    place: int
    ask: Ask | None
    start: int | None
    end: int | None
    time: int

    @property
    def ends(self) -> bool:
        return self.ask is None


@dataclass(frozen=True, slots=True)
class _Node:
    """A state of the model, and how many of its actions each session has sent; ``due``: those that wait for their answer."""

    state: State
    sent: tuple[int, ...]
    due: tuple[tuple[str, _Action], ...] = ()


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
    model: Model = field(init=False)
    _sessions: dict[str, list[_Action]] = field(init=False)
    _names: list[str] = field(init=False)
    _needed: list[int] = field(init=False)
    """How many of its actions each session must have sent: all of known outcome."""
    keeps_all: bool = True
    """Whether it may go back as far as it likes; if not, a search that ends by itself without a run says nothing."""
    stuck: tuple[Entry, int] | None = None
    """The statement that the furthest try did not get past."""
    _ordered_ties: bool = False
    _waited: bool = False
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
        history = self.log.history
        rows = {table: history.known_rows(table) for table in history.rows}
        self.model = store_model(
            self.reading.store,
            history.schema,
            rows,
            dict(self.reading.settings),
            counts_found=history.counts != "changed",
        )
        sessions: dict[str, list[_Action]] = {}
        for entry in sorted(self.entries, key=lambda entry: entry.turn):
            sessions.setdefault(repr(entry.session), []).extend(self._actions(entry))
        self._sessions = sessions
        self._names = list(sessions)
        self._needed = [
            max((place for place, action in enumerate(actions, 1) if not action.entry.maybe), default=0)
            for actions in sessions.values()
        ]

    def _actions(self, entry: Entry) -> list[_Action]:
        found = []
        fallback = entry.number * 1_000
        for place, ask in enumerate(entry.asks):
            if ask.error in CONCURRENCY:
                continue
            self._refuse(ask, self.log.history.statement_at(entry.id, place))
            start = ask.start if ask.start is not None else entry.start
            end = ask.end if ask.end is not None else entry.end
            middle = fallback + place if start is None or end is None else (start + end) // 2
            if entry.end is not None and (ask.start is None or not ask.is_query):
                # What changes rows may have waited for them: it was done just before its answer.
                middle = entry.end if ask.end is None else ask.end
            found.append(_Action(entry, place, ask, start, None if entry.maybe and ask.end is None else end, middle))
        last = entry.asks[-1].end if entry.asks else None
        start = last if last is not None else entry.start
        end = None if entry.maybe else entry.end
        middle = fallback + 999 if start is None or end is None else (start + end) // 2
        if last is None and entry.end is not None:
            middle = entry.end
        found.append(_Action(entry, len(entry.asks), None, start, end, middle))
        return found

    def _refuse(self, ask: Ask, named: str) -> None:
        if ask.text.startswith("CALL ") or ask.text.lower().lstrip().startswith(("create", "drop")):
            raise InputError(
                f"{named}: a store model cannot run '{ask.text[:40]}' of a log; judge it at a level of the literature"
            )
        node = read_statement(ask.text, self.log.history.dialect, "log", strict=False)
        if isinstance(node, Insert) and node.columns:
            table = self.log.history.schema.tables.get(node.table)
            missing = [c.name for c in table.columns if c.generated and c.name not in node.columns] if table else []
            if missing:
                raise InputError(
                    f"{named}: which id {node.table}.{missing[0]} gets is up to the server; a log cannot be judged by it"
                )

    # Searching

    def _search(self) -> End:
        root = _Node(self.model.initial(), (0,) * len(self._names))
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
        if self._ordered_ties:
            self.refused = "an answer has the right rows in another order, which the model cannot judge"
            return End.SPENT
        if self._waited and self.reading.store in _PLANNED_LOCKS and not self._all_by_key():
            # The model locks all that a plan may look at; the server's plan may look at less, and let others pass.
            self.refused = LOCKS_OF_A_PLAN
            return End.SPENT
        if self._waited and self.reading.name == _CHECKS_AGAIN and self._asks_again():
            # A row that changed meanwhile is checked again with the rows that EXISTS or IN joined it to, if the plan joins.
            self.refused = CHECKS_OF_A_PLAN
            return End.SPENT
        return End.NONE

    def _asks_again(self) -> bool:
        """Whether a change or a locking query has a query in its condition that PostgreSQL may turn into a join."""
        for actions in self._sessions.values():
            for action in actions:
                if action.ask is not None:
                    spoken = read_statement(action.ask.text, self.log.history.dialect, "log", strict=False)
                    changes = isinstance(spoken, SpokenUpdate | SpokenDelete) or (
                        isinstance(spoken, Select) and spoken.lock is not None
                    )
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
        spoken = read_statement(ask.text, self.log.history.dialect, "log", strict=False)
        inside = sum(isinstance(part, Select) for part in parts_of_node(spoken))
        if inside > isinstance(spoken, Select):
            return False
        core = self.model.sent(spoken, ask.given).core
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

    def _left_out(self, node: _Node, place: int, action: _Action) -> _Node:
        actions = self._sessions[self._names[place]]
        sent = node.sent[place]
        while sent < len(actions) and actions[sent].entry is action.entry:
            sent += 1
        return _Node(node.state, (*node.sent[:place], sent, *node.sent[place + 1 :]), node.due)

    def _sent(self, node: _Node, place: int, action: _Action) -> Iterator[_Node]:
        name, model, state = self._names[place], self.model, node.state
        sent = (*node.sent[:place], node.sent[place] + 1, *node.sent[place + 1 :])
        if action.ask is None:
            if name not in state.open:
                # It sent nothing that counts.
                yield _Node(state, sent, node.due)
                return
            steps = model.commit(state, name)
        else:
            if name not in state.open:
                (begun,) = model.begin(state, name, self.reading.isolation)
                if name in begun.state.waiting or isinstance(begun.result(name), Failed):
                    return
                state = begun.state
            spoken = read_statement(action.ask.text, self.log.history.dialect, "log", strict=False)
            steps = model.submit(state, name, spoken, action.ask.given)
        for step in steps:
            due = self._answered(step, {**dict(node.due), name: action})
            if due is not None:
                yield _Node(step.state, sent, due)

    def _answered(self, step: Step, due: dict[str, _Action]) -> tuple[tuple[str, _Action], ...] | None:
        """Who still waits after a step; ``None`` if somebody got another answer than was recorded."""
        for name, result in step.results:
            if isinstance(result, Waits):
                self._waited = True
                continue
            action = due.pop(name, None)
            if action is None or not self._right(action, result):
                return None
        return tuple(due.items())

    def _right(self, action: _Action, result: Result) -> bool:
        ask = action.ask
        if ask is None:
            return isinstance(result, Ended) and result.committed
        match result:
            case Failed(word, _, ended):
                return not ended and ask.error is not None and ask.error in (word, "other")
            case Returned(names, rows, count, ordered):
                if ask.error is not None or not self._right_count(ask, count):
                    return False
                if not names or ask.rows is None or (not ordered and same_bag(rows, ask.rows)):
                    return True
                if ordered and not same_list(rows, ask.rows) and same_bag(rows, ask.rows):
                    self._ordered_ties = True
                return same_list(rows, ask.rows)
            case _:
                return False

    def _right_count(self, ask: Ask, count: int) -> bool:
        if ask.count is None or ask.is_query or count == ask.count:
            return True
        # What is counted is not told: rows that were found or, of these, those that were changed.
        return self.log.history.counts is None and self.log.history.dialect is Dialect.MYSQL and ask.count <= count


def explains(
    log: Log, reading: StoreReading, allowance: Allowance, entries: Sequence[Entry] | None = None
) -> tuple[End, str]:
    """Whether a run of the model gives every answer of a log, or of these of its transactions; and why it is undecided."""
    entries = log.entries if entries is None else entries
    search = StoreSearch(log, reading, entries, allowance, keeps_all=len(entries) <= FRAMES_KEPT)
    end = search.run()
    reason = search.refused
    if (
        end is End.SPENT
        and search.stuck is not None
        and not allowance.over
        and _refutes(log, reading, search.stuck, entries)
    ):
        return End.NONE, ""
    if end is End.SPENT and not reason:
        reason = f"no run of the model was found within {allowance.spent:,} steps; give more with --budget or --time"
    return end, reason


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
