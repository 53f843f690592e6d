"""The ``.spec`` files of PostgreSQL's isolation tester.

    setup { CREATE TABLE test (id int PRIMARY KEY, value int); INSERT INTO test VALUES (1, 10); }
    teardown { DROP TABLE test; }
    session s1
    setup { BEGIN ISOLATION LEVEL SERIALIZABLE; }
    step r1 { SELECT * FROM test; }
    step c1 { COMMIT; }
    permutation r1 c1

A permutation is a schedule, named by its steps. Where the file has none, every order is one in which each session's steps keep
theirs; there may be very many, so that they are made up to a limit. An SQL block ends with the first closing brace, as there.
What says which step must wait for which (``c1(r2, *)``) is for the tester's output and is passed over; so is the teardown of all,
since the tables live in a private place that is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import factorial, prod
from typing import NoReturn

from isolde.errors import MalformedSchedule
from isolde.history.schedule import Schedule, ScheduleStep
from isolde.tx.dialects import Dialect
from isolde.tx.script import statements_of

SCHEDULES_MAX = 1000

_TOKEN = re.compile(
    r'(?P<blank>[ \t\r\f\v]+|\#[^\n]*)|(?P<newline>\n)|\{(?P<sql>[^}]*)\}|"(?P<quoted>(?:[^"\n]|"")*)"'
    r"|(?P<name>[^\W\d][\w$]*)|(?P<number>\d+)|(?P<sign>[(),*])",
)
_WORDS = frozenset({"notices", "permutation", "session", "setup", "step", "teardown"})


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


@dataclass(slots=True)
class _Session:
    name: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    steps: list[ScheduleStep] = field(default_factory=list)


def parse_spec(text: str, file: str, schedules_max: int = SCHEDULES_MAX) -> tuple[tuple[Schedule, ...], int]:
    """The schedules of a file, and how many orders were left out because there are more than ``schedules_max``."""
    return _Reader(_tokens(text, file), file).whole(schedules_max)


def _tokens(text: str, file: str) -> list[_Token]:
    found = []
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            what = {"{": "an SQL block that is not closed", '"': "a quoted name that is not closed on its line"}
            sign = text[at]
            raise MalformedSchedule(
                file, line, what.get(sign, repr(sign)), "setup, teardown, session, step or permutation, or an SQL block"
            )
        kind = match.lastgroup or ""
        if kind not in ("blank", "newline"):
            content = match[kind].replace('""', '"') if kind == "quoted" else match[kind]
            if kind == "name" and content in _WORDS:
                kind = "word"
            found.append(_Token(kind, content, line))
        line += match[0].count("\n")
        at = match.end()
    found.append(_Token("end", "", line))
    return found


class _Reader:
    def __init__(self, tokens: list[_Token], file: str) -> None:
        self._tokens, self._file, self._at = tokens, file, 0

    def whole(self, schedules_max: int) -> tuple[tuple[Schedule, ...], int]:
        schema: list[str] = []
        while self._took("setup"):
            schema += self._sql("what is made before each permutation")
        if self._took("teardown"):
            self._sql("what the tester does at the end")
        sessions: list[_Session] = []
        while self._took("session"):
            sessions.append(self._session(sessions))
        if not sessions:
            self._fail("setup, teardown or session")
        named = {step.name: step for session in sessions for step in session.steps}
        permutations: list[tuple[ScheduleStep, ...]] = []
        while self._took("permutation"):
            permutations.append(self._permutation(named))
        if self._token.kind != "end":
            self._fail("session or permutation" if not permutations else "permutation")
        left_out = 0
        if not permutations:
            lists = [session.steps for session in sessions]
            permutations = list(islice(_orders(lists), schedules_max))
            left_out = _orders_count(lists) - len(permutations)
        return tuple(_schedule(schema, sessions, steps) for steps in permutations), left_out

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    def _took(self, word: str) -> bool:
        if self._token.kind == "word" and self._token.text == word:
            self._at += 1
            return True
        return False

    def _fail(self, expected: str, found: str = "") -> NoReturn:
        token = self._token
        shown = {"end": "the end of the file", "sql": "an SQL block"}.get(token.kind, f"'{token.text}'")
        raise MalformedSchedule(self._file, token.line, found or shown, expected)

    def _sql(self, what: str) -> tuple[str, ...]:
        return statements_of(self._block(what), Dialect.POSTGRESQL)

    def _block(self, what: str) -> str:
        if self._token.kind != "sql":
            self._fail(f"an SQL block in braces: {what}")
        if "\0" in self._token.text or any("\ud800" <= sign <= "\udfff" for sign in self._token.text):
            self._fail("SQL", "an SQL block with a sign that no database takes")
        self._at += 1
        return self._tokens[self._at - 1].text.strip()

    def _name(self, what: str) -> str:
        if self._token.kind not in ("name", "quoted") or not self._token.text:
            self._fail(f"the name of {what}")
        self._at += 1
        return self._tokens[self._at - 1].text

    def _session(self, others: Sequence[_Session]) -> _Session:
        found = _Session(self._name("a session"))
        if any(found.name == other.name for other in others):
            self._at -= 1
            self._fail("another name", f"a second session '{found.name}'")
        if self._took("setup"):
            found.before = self._sql(f"the setup of session {found.name}")
        while self._took("step"):
            name = self._name("a step")
            if any(name == step.name for session in (*others, found) for step in session.steps):
                self._at -= 1
                self._fail("another name", f"a second step '{name}'")
            found.steps.append(ScheduleStep(found.name, self._block(f"what step {name} sends"), name))
        if not found.steps:
            self._fail(f"a step of session {found.name}")
        if self._took("teardown"):
            found.after = self._sql(f"the teardown of session {found.name}")
        return found

    def _permutation(self, named: dict[str, ScheduleStep]) -> tuple[ScheduleStep, ...]:
        steps: list[ScheduleStep] = []
        while self._token.kind in ("name", "quoted"):
            name = self._name("a step")
            if name not in named:
                self._at -= 1
                self._fail(f"one of {', '.join(named)}", f"no step is called '{name}'")
            steps.append(named[name])
            if self._token.kind == "sign" and self._token.text == "(":
                self._pass_over_blockers()
        if not steps:
            self._fail("the name of a step")
        return tuple(steps)

    def _pass_over_blockers(self) -> None:
        self._at += 1
        while not (self._token.kind == "sign" and self._token.text == ")"):
            if self._token.kind in ("end", "sql") or (self._token.kind == "word" and self._token.text != "notices"):
                self._fail("')' after what a step waits for")
            self._at += 1
        self._at += 1


def _schedule(schema: Sequence[str], sessions: Sequence[_Session], steps: tuple[ScheduleStep, ...]) -> Schedule:
    return Schedule(
        schema=tuple(schema),
        rows={},
        sessions={session.name: None for session in sessions},
        steps=steps,
        name=" ".join(step.name for step in steps),
        before={session.name: session.before for session in sessions if session.before},
        after={session.name: session.after for session in sessions if session.after},
    )


def _orders(lists: Sequence[Sequence[ScheduleStep]]) -> Iterator[tuple[ScheduleStep, ...]]:
    """Every order of all steps in which those of each list keep theirs."""
    if not any(lists):
        yield ()
    for place, steps in enumerate(lists):
        if steps:
            rest = [*lists[:place], steps[1:], *lists[place + 1 :]]
            yield from ((steps[0], *order) for order in _orders(rest))


def _orders_count(lists: Sequence[Sequence[ScheduleStep]]) -> int:
    return factorial(sum(map(len, lists))) // prod(factorial(len(steps)) for steps in lists)
