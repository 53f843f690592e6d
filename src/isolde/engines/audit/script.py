"""A log as a store model is sent it: for each session its statements and the ends of its transactions, with the answers.

Aborted transactions are left out: what they did is seen by nobody; when a database gives up is its own affair. A statement that
was told to have failed because of others (a deadlock, say) is left out for the same reason. At READ UNCOMMITTED aborted ones are
seen: there they take part as far as they explain something, and nobody judges what they were answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from isolde.engines.audit.answers import CONCURRENCY, same_bag, same_cut, same_list, same_order
from isolde.engines.audit.compiling import Ask
from isolde.engines.audit.log import Entry, Log, aborted
from isolde.engines.audit.models import PLANNED_LOCKS, StoreReading
from isolde.errors import InputError
from isolde.semantics.stores import Cut, Ended, Failed, Model, Result, Returned, State, Step, Waits, store_model
from isolde.tx.dialects import Dialect
from isolde.tx.sql import statement as read_statement
from isolde.tx.statements import Insert, Statement


@dataclass(frozen=True, slots=True, eq=False)
class Action:
    """Something that a session sends: a statement, or the end of its transaction.

    ``start`` and ``end`` are those of its answer; ``time`` is when it was done, about.
    """

    entry: Entry
    place: int
    ask: Ask | None
    start: int | None
    end: int | None
    time: int


SEES_ABORTED = "read-uncommitted"
"""The level at which what is not committed is read."""
Due = tuple[tuple[str, Action], ...]
"""The sessions that wait, with what for."""


@dataclass(slots=True)
class Script:
    """What the sessions send, and the model that they send it to."""

    log: Log
    reading: StoreReading
    entries: Sequence[Entry]
    model: Model = field(init=False)
    sessions: dict[str, list[Action]] = field(init=False)
    waited: bool = False
    """Whether somebody had to wait."""
    ordered_ties: bool = False
    """Whether an answer had the right rows in an order that the model cannot judge."""
    _checked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.model = self.fresh_model()
        sessions: dict[str, list[Action]] = {}
        taking_part = [*self.entries]
        if self.reading.isolation == SEES_ABORTED and self.entries:
            latest = max((entry.end or 0 for entry in self.entries), default=0)
            taking_part += [one for one in aborted(self.log) if (one.start or 0) <= latest]
        for entry in sorted(taking_part, key=lambda entry: entry.turn):
            sessions.setdefault(repr(entry.session), []).extend(self._actions(entry))
        self.sessions = sessions

    def fresh_model(self) -> Model:
        history = self.log.history
        rows = {table: history.known_rows(table) for table in history.rows}
        found = history.counts != "changed"
        model = store_model(self.reading.store, history.schema, rows, dict(self.reading.settings), counts_found=found)
        model.tells_cuts = True
        return model

    def spoken(self, ask: Ask) -> Statement:
        """A statement as the language has it; read once."""
        return read_statement(ask.text, self.log.history.dialect, "log", strict=False)

    def is_plain(self, ask: Ask) -> bool:
        """Whether it is a query that locks nothing and waits for nobody, so that others do not notice."""
        if self.reading.store == "sqlite":
            return False
        locking = self.reading.isolation == "serializable" and self.reading.store in PLANNED_LOCKS
        return not locking and ask.is_query and not locks(self.spoken(ask))

    def _actions(self, entry: Entry) -> list[Action]:
        found = []
        fallback = entry.number * 1_000
        for place, ask in enumerate(entry.asks):
            if ask.error in CONCURRENCY:
                continue
            self._refuse(ask, entry, place)
            start = ask.start if ask.start is not None else entry.start
            end = ask.end if ask.end is not None else entry.end
            middle = fallback + place if start is None or end is None else (start + end) // 2
            if entry.end is not None and (ask.start is None or not self.is_plain(ask)):
                # What changes or locks rows may have waited for them: it was done just before its answer.
                middle = entry.end if ask.end is None else ask.end
            found.append(Action(entry, place, ask, start, None if entry.maybe and ask.end is None else end, middle))
        answered = [ask for ask in entry.asks if not entry.aborted or ask.error not in CONCURRENCY]
        last = answered[-1].end if answered else None
        start = last if last is not None else entry.start
        end = None if entry.maybe and not entry.aborted else entry.end
        middle = fallback + 999 if start is None or end is None else (start + end) // 2
        if last is None and entry.end is not None:
            middle = entry.end
        found.append(Action(entry, len(entry.asks), None, start, end, middle))
        return found

    def _refuse(self, ask: Ask, entry: Entry, place: int) -> None:
        if ask.text in self._checked:
            return
        named = self.log.history.statement_at(entry.id, place)
        if ask.text.startswith("CALL ") or ask.text.lower().lstrip().startswith(("create", "drop")):
            raise InputError(
                f"{named}: a store model cannot run '{ask.text[:40]}' of a log; judge it at a level of the literature"
            )
        node = self.spoken(ask)
        if isinstance(node, Insert) and node.columns:
            table = self.log.history.schema.tables.get(node.table)
            missing = [c.name for c in table.columns if c.generated and c.name not in node.columns] if table else []
            if missing:
                raise InputError(
                    f"{named}: which id {node.table}.{missing[0]} gets is up to the server; a log cannot be judged by it"
                )
        self._checked.add(ask.text)

    # Sending

    def sent(self, state: State, name: str, action: Action) -> Iterator[Step]:
        """What the model may do when a session sends its next; nothing where the session cannot."""
        model = self.model
        if action.ask is None:
            if name not in state.open:
                # It sent nothing that counts.
                yield Step(state, ((name, Ended(True)),))
                return
            yield from (model.rollback if action.entry.aborted else model.commit)(state, name)
            return
        if name not in state.open:
            (begun,) = model.begin(state, name, self.reading.isolation)
            if name in begun.state.waiting or isinstance(begun.result(name), Failed):
                return
            state = begun.state
        yield from model.submit(state, name, self.spoken(action.ask), action.ask.given)

    def answered(self, step: Step, due: dict[str, Action]) -> tuple[Due, Action | None]:
        """Who still waits after a step; and who got another answer than was recorded, if somebody did."""
        for name, result in step.results:
            if isinstance(result, Waits):
                self.waited = True
                continue
            action = due.pop(name, None)
            if action is None or not self.right(action, result):
                return (), action
        return tuple(due.items()), None

    def right(self, action: Action, result: Result) -> bool:
        """Whether the model gave the answer that was recorded."""
        ask = action.ask
        if ask is None:
            return isinstance(result, Ended) and (result.committed or action.entry.aborted)
        if ask.free:
            return not (isinstance(result, Failed) and result.ended)
        match result:
            case Failed(word, _, ended):
                return not ended and ask.error is not None and ask.error in (word, "other")
            case Returned(cut=Cut() as cut):
                return ask.error is None and (
                    ask.rows is None or same_cut(cut.every, cut.keys, cut.offset, cut.limit, ask.rows)
                )
            case Returned(names, rows, count, ordered, keys):
                if ask.error is not None or not self._right_count(ask, count):
                    return False
                if not names or ask.rows is None or (not ordered and same_bag(rows, ask.rows)):
                    return True
                if same_list(rows, ask.rows) or (keys is not None and same_order(rows, keys(), ask.rows)):
                    return True
                if keys is None and ordered and same_bag(rows, ask.rows):
                    self.ordered_ties = True
                return False
            case _:
                return False

    def _right_count(self, ask: Ask, count: int) -> bool:
        if ask.count is None or ask.is_query or count == ask.count:
            return True
        # What is counted is not told: rows that were found or, of these, those that were changed.
        return self.log.history.counts is None and self.log.history.dialect is Dialect.MYSQL and ask.count <= count


def locks(node: Statement) -> bool:
    """Whether a query locks what it reads."""
    return getattr(node, "lock", None) is not None
