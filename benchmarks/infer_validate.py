"""What ``isolde infer`` says, against real servers: every assignment of levels, by interleavings first and by load second.

An invariant that transactions break together depends on the levels of those transactions alone. So each pair and each triple of
transactions that write is run at each combination of their levels, once, statement by statement in many interleavings, from small
rows that they meet on; an assignment of levels to all transactions (243 for the five of TPC-C) is broken if one of its pairs or
triples is. The weakest that nothing broke are then run under load. The server judges: the invariants' queries are asked of it.

    python benchmarks/infer_validate.py tpcc --invariant condition-1 … [--start mariadb] [--interleavings 40] [--load 3]
    python benchmarks/infer_validate.py courseware smallbank --start postgresql

Transactions that meet are independent of all others, and so is each assignment under load: with ``--workers N`` or
``--engine ray`` they are parts (``isolde.scale``), each with a server of its own.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path
from random import Random
from typing import Any, cast

from isolde.campaigns.infer import Inference, InferOptions
from isolde.campaigns.refuting import Call, Refuter, Rows
from isolde.databases import open_database
from isolde.databases.contract import Kind, Offer, SqlConnection, Table
from isolde.databases.handle import DatabaseHandle
from isolde.databases.registry import offer_named
from isolde.databases.servers import start
from isolde.databases.translate import Translator
from isolde.engines.infer.prove import by_strength
from isolde.errors import IsoldeError
from isolde.levels.specifications import CANDIDATES
from isolde.scale import Engine, Workers, opened_workers
from isolde.scale.workers import spread
from isolde.tx.python import AbortedByProgram, Transaction
from isolde.tx.render import render, render_schema
from isolde.workloads.application import Application
from isolde.workloads.applications import application_named

PATIENCE_S = 0.03
"""What has not returned by then waits for a lock, and the others go on."""
SETTINGS = {
    "postgresql": {"deadlock_timeout": "20ms", "fsync": "off"},
    "mariadb": {"innodb_lock_wait_timeout": "2", "innodb_flush_log_at_trx_commit": "0"},
}
SHORT = {"read-committed": "RC", "repeatable-read": "RR", "serializable": "SER"}
_NO_TABLE = Table("isolde_validate", Kind.REGISTERS, 0)
Broken = dict[tuple[tuple[str, str], ...], set[str]]
"""Invariants that transactions broke together, by their names and levels."""


# Sessions that are stepped


class _Gated(DatabaseHandle):
    """A handle that waits for its session's turn before each statement."""

    def __init__(self, session: Session, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._session = session

    def _sent(self, ready: Any, values: Sequence[Any]) -> Any:
        self._session.gate()
        return super()._sent(ready, values)


class Session:
    """One call in a thread of its own."""

    def __init__(self, connection: SqlConnection, translator: Translator, offer: Offer) -> None:
        self.connection, self.translator, self.offer = connection, translator, offer
        self.steps, self.over, self.committed = 0, False, False
        self._go, self._rest = threading.Semaphore(0), threading.Semaphore(0)
        self._busy = False

    def begin(self, function: Transaction, arguments: tuple[Any, ...]) -> None:
        threading.Thread(target=self._run, args=(function, arguments), daemon=True).start()
        self._rest.acquire()

    def gate(self) -> None:
        self._rest.release()
        self._go.acquire()
        self.steps += 1

    def _run(self, function: Transaction, arguments: tuple[Any, ...]) -> None:
        connection = self.connection
        connection.begin(self.offer)
        handle = _Gated(self, connection, self.translator, function.dialect)
        try:
            function(handle, *arguments)
            if handle.failure is not None:
                raise handle.failure
            self.gate()
            connection.commit()
            self.committed = True
        except (IsoldeError, AbortedByProgram):
            connection.rollback()
        finally:
            self.over = True
            self._rest.release()

    def step(self, patience_s: float = PATIENCE_S) -> None:
        """Lets the next statement go, if the session is at rest; it may not have returned when this does."""
        if self._busy:
            self._busy = not self._rest.acquire(timeout=0)
        if self.over or self._busy:
            return
        self._go.release()
        self._busy = not self._rest.acquire(timeout=patience_s)

    def end(self) -> None:
        self.step(0.2)


@dataclass
class Server:
    """A private server with the tables of one application."""

    kind: str
    application: Application
    stack: ExitStack
    connections: list[SqlConnection] = field(default_factory=list)
    runs: int = 0

    def __post_init__(self) -> None:
        running = start(self.kind, **SETTINGS[self.kind])
        self.stack.callback(running.stop)
        self.adapter, self.database = open_database(running.url)
        self.stack.callback(self.database.close)
        assert self.adapter.dialect is not None
        self.dialect = self.adapter.dialect
        self.translator = Translator(self.application.schema, self.dialect, "")
        self.own = self.connection(0)
        self.offers = {level: offer_named(self.database, level) for level in CANDIDATES}
        for text in render_schema(self.translator.schema, self.dialect):
            self.own.execute(text)
        self.queries = {one.name: render(one.violations, self.dialect) for one in self.application.invariants}
        self.tables = list(self.application.schema.tables)

    def connection(self, place: int) -> SqlConnection:
        while len(self.connections) <= place:
            made = cast(SqlConnection, self.database.connect(_NO_TABLE))
            self.stack.callback(made.close)
            self.connections.append(made)
        return self.connections[place]

    def load(self, rows: Rows) -> None:
        offer = self.offers["read-committed"]
        self.own.begin(offer)
        for table in reversed(self.tables):
            self.own.execute(f"DELETE FROM {table}")
        for table in self.tables:
            listed = [tuple(row) for row in rows.get(table, ())]
            if listed:
                values = [value for row in listed for value in row]
                marks = [f"${place}" if self.kind == "postgresql" else "%s" for place in range(1, len(values) + 1)]
                width = len(listed[0])
                texts = [f"({', '.join(marks[place : place + width])})" for place in range(0, len(marks), width)]
                self.own.execute(f"INSERT INTO {table} VALUES {', '.join(texts)}", values)
        self.own.commit()

    def broken(self) -> set[str]:
        self.own.begin(self.offers["read-committed"])
        found = {name for name, query in self.queries.items() if self.own.execute(query).rows}
        self.own.commit()
        return found

    def sessions(self, calls: Sequence[Call], levels: Mapping[str, str]) -> list[Session]:
        parts = {part.name: part.transaction for part in self.application.parts}
        made = []
        for place, (name, arguments) in enumerate(calls, 1):
            session = Session(self.connection(place), self.translator, self.offers[levels[name]])
            session.begin(parts[name], arguments)
            made.append(session)
        return made

    def interleaved(
        self, rows: Rows, calls: Sequence[Call], levels: Mapping[str, str], order: Sequence[int]
    ) -> set[str]:
        """The invariants that are broken after the calls ran in this order of their statements, as far as locks let them."""
        self.load(rows)
        sessions = self.sessions(calls, levels)
        for place in order:
            sessions[place].step()
        deadline = time.monotonic() + 30
        while not all(session.over for session in sessions):
            for session in sessions:
                session.end()
            if time.monotonic() > deadline:
                raise SystemExit("sessions wait for each other, and the server does not end it")
        self.runs += 1
        return self.broken()

    def lengths(self, rows: Rows, calls: Sequence[Call]) -> list[int]:
        """How many steps each call has when it runs alone, its commit included."""
        found = []
        for call in calls:
            self.load(rows)
            (session,) = self.sessions([call], dict.fromkeys([call[0]], "read-committed"))
            while not session.over:
                session.end()
            found.append(session.steps)
        return found


# Interleavings


def orders(lengths: Sequence[int], many: int, random: Random) -> Iterator[list[int]]:
    """Orders of statements with few switches between sessions first drawn, all of them if they are not too many."""
    if len(lengths) == 2:
        one, two = lengths
        listed = [
            [a] * i + [b] * j + [a] * (lengths[a] - i) + [b] * (lengths[b] - j)
            for a, b in ((0, 1), (1, 0))
            for i in range(1, (one if a == 0 else two))
            for j in range(1, (two if a == 0 else one) + 1)
        ]
        random.shuffle(listed)
        yield from listed[:many]
        return
    for _ in range(many):
        left = list(lengths)
        order: list[int] = []
        while any(left):
            place = random.choice([place for place, more in enumerate(left) if more])
            run = random.randint(1, left[place])
            order += [place] * run
            left[place] -= run
        yield order


@dataclass(frozen=True, slots=True)
class Plan:
    """What is validated of an application, known to other processes: its invariants and transactions by their names."""

    application: str
    kind: str
    invariants: tuple[str, ...]
    writers: tuple[str, ...]
    many: tuple[int, int]
    """Interleavings of each pair, and of each triple."""
    programs: int
    seconds: float
    """How long each assignment is run under load."""

    def made(self) -> Application:
        whole = application_named(self.application)
        return replace(whole, invariants=tuple(one for one in whole.invariants if one.name in self.invariants))

    def refuter(self) -> Refuter:
        return Refuter(self.made(), self.kind, {}, CANDIDATES, self.writers, anywhere=False)

    def meetings(self) -> list[tuple[str, ...]]:
        """The transactions that meet: what others break with or without them is another matter."""
        sizes = range(1, 4 if self.many[1] else 3)
        return [names for size in sizes for names in combinations(self.writers, size)]


def explored(server: Server, refuter: Refuter, plan: Plan, meeting: Sequence[str]) -> Broken:
    """What pairs and triples of calls of just these transactions break at each combination of their levels."""
    found: Broken = {}
    for size, many in zip((2, 3), plan.many, strict=True):
        for names in combinations_with_replacement(meeting, size if many else 0):
            if set(names) != set(meeting):
                continue
            drawn = list(refuter.programs(names))[: plan.programs if size == 2 else max(1, plan.programs // 2)]
            lengths = [server.lengths(rows, calls) for rows, calls in drawn]
            for levels in product(CANDIDATES, repeat=len(meeting)):
                named = dict(zip(meeting, levels, strict=True))
                broken = found.setdefault(tuple(sorted(named.items())), set())
                for number, (rows, calls) in enumerate(drawn):
                    for order in orders(lengths[number], many, Random(f"{names} {number}")):
                        if len(broken) == len(server.queries):
                            break
                        broken |= server.interleaved(rows, calls, named, order)
    return found


def under_load(
    server: Server, refuter: Refuter, writers: Sequence[str], levels: Mapping[str, str], seconds: float
) -> set[str]:
    """What breaks while four sessions call transactions at their levels, as often as they can."""
    store = refuter.states()[0]
    server.load(store.state())
    until = time.monotonic() + seconds
    parts = {part.name: part.transaction for part in server.application.parts}
    connections = [server.connection(place) for place in range(1, 5)]

    def work(place: int) -> None:
        random, connection = Random(place), connections[place]
        while time.monotonic() < until:
            ((name, arguments),) = refuter.calls((random.choice(list(writers)),), random)
            connection.begin(server.offers[levels[name]])
            try:
                handle = DatabaseHandle(connection, server.translator, parts[name].dialect)
                parts[name](handle, *arguments)
                if handle.failure is not None:
                    raise handle.failure
                connection.commit()
            except (IsoldeError, AbortedByProgram):
                connection.rollback()

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return server.broken()


# Parts


@dataclass(frozen=True, slots=True)
class Part:
    """Transactions that meet, or an assignment that is run under load."""

    plan: Plan
    meeting: tuple[str, ...] = ()
    loaded: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What a part found, and how many interleavings it ran."""

    broken: Broken
    runs: int


def _done(server: Server, refuter: Refuter, part: Part) -> Found:
    before = server.runs
    if part.meeting:
        return Found(explored(server, refuter, part.plan, part.meeting), server.runs - before)
    broken = under_load(server, refuter, part.plan.writers, dict(part.loaded), part.plan.seconds)
    return Found({part.loaded: broken}, 0)


def _apart(part: Part) -> Found:
    """What a worker does."""
    with ExitStack() as stack:
        return _done(Server(part.plan.kind, part.plan.made(), stack), part.plan.refuter(), part)


def done(plan: Plan, parts: Sequence[Part], workers: Workers | None) -> Iterator[tuple[Part, Found]]:
    """The parts' findings as they come: from workers, or from one server in this process."""
    if workers is not None:
        yield from spread(workers, _apart, parts)
    elif parts:
        with ExitStack() as stack:
            server, refuter = Server(plan.kind, plan.made(), stack), plan.refuter()
            yield from ((part, _done(server, refuter, part)) for part in parts)


# Comparing


def breaks(assignment: Mapping[str, str], found: Broken) -> set[str]:
    return {
        name
        for index, broken in found.items()
        if all(assignment.get(transaction) == level for transaction, level in index)
        for name in broken
    }


def said(application: Application, kind: str, invariants: Sequence[str], writers: Sequence[str]) -> dict[str, str]:
    """What ``infer`` says of each assignment: proved, or not."""
    inference = Inference(application, InferOptions(kind, invariants=tuple(invariants)))
    if any(one.refused for one in inference.problem.transactions.values()):
        return {}
    prover = inference.kept_alone()
    kept = set(inference.kept) == {one.name for one in application.invariants}
    return {
        _index(one): "proved" if kept and prover.attempt(one).proved else "not proved"
        for one in by_strength(writers, CANDIDATES)
    }


def _index(assignment: Mapping[str, str]) -> str:
    return " ".join(f"{name}={SHORT[level]}" for name, level in sorted(assignment.items()))


def planned(name: str, kind: str, arguments: argparse.Namespace) -> Plan:
    application = application_named(name)
    wanted = arguments.invariant or [one.name for one in application.invariants]
    named = tuple(one.name for one in application.invariants if one.name in wanted)
    problem = Inference(application, InferOptions(kind)).problem
    writers = [one for one, found in problem.transactions.items() if not found.reads_only]
    many = (arguments.interleavings, arguments.triples)
    return Plan(name, kind, named, tuple(writers), many, arguments.programs, arguments.load)


def validated(plan: Plan, arguments: argparse.Namespace, workers: Workers | None) -> None:
    name, kind, wanted, writers = plan.application, plan.kind, plan.invariants, plan.writers
    application = plan.made()
    began = time.monotonic()
    found: Broken = {}
    runs = 0
    for part, one in done(plan, [Part(plan, meeting) for meeting in plan.meetings()], workers):
        found |= one.broken
        runs += one.runs
        if arguments.verbose:
            for index, broken in one.broken.items():
                print(f"  {' ∥ '.join(part.meeting)} at {dict(index)}: {sorted(broken) or 'nothing'}", flush=True)
    assignments = by_strength(writers, CANDIDATES)
    whole = {_index(one): breaks(one, found) for one in assignments}
    left = [one for one in assignments if not whole[_index(one)]][: arguments.loaded if arguments.load else 0]
    loads = done(plan, [Part(plan, loaded=tuple(sorted(one.items()))) for one in left], workers)
    loaded = {_index(dict(part.loaded)): one.broken[part.loaded] for part, one in loads}
    if arguments.output is not None:
        kept = {"application": name, "database": kind, "broken": {index: sorted(one) for index, one in whole.items()}}
        with arguments.output.open("a") as file:
            file.write(
                json.dumps(kept | {"load": {index: sorted(one) for index, one in loaded.items()}, "runs": runs}) + "\n"
            )
    verdicts = said(application, kind, wanted, writers) if arguments.infer else {}
    readers = len(application.parts) - len(writers)
    each = 3**readers
    wrong = [
        index for index, verdict in verdicts.items() if verdict == "proved" and (whole[index] or loaded.get(index))
    ]
    unbroken = [index for index, broken in whole.items() if not broken and not loaded.get(index)]
    result = {
        "application": name,
        "database": kind,
        "invariants": list(wanted),
        "assignments": len(assignments) * each,
        "not broken": len(unbroken) * each,
        "broken by": dict(Counter(one for broken in whole.values() for one in broken)),
        "broken only under load": {index: sorted(broken) for index, broken in loaded.items() if broken},
        "proved": sum(verdict == "proved" for verdict in verdicts.values()) * each,
        "proved and broken": wrong,
        "not proved and not broken": [index for index in unbroken if verdicts.get(index) == "not proved"],
        "weakest not broken": unbroken[:3],
        "interleavings": runs,
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(result, indent=1), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("applications", nargs="+")
    parser.add_argument("--start", action="append", choices=sorted(SETTINGS))
    parser.add_argument("--invariant", action="append")
    parser.add_argument("--interleavings", type=int, default=40)
    parser.add_argument("--triples", type=int, default=4, help="interleavings of each triple")
    parser.add_argument(
        "--programs", type=int, default=2, help="rows and calls for each pair; half as many for each triple"
    )
    parser.add_argument(
        "--loaded", type=int, default=8, help="assignments that are run under load: the weakest not broken"
    )
    parser.add_argument("--load", type=float, default=2.0)
    parser.add_argument("--no-infer", dest="infer", action="store_false")
    parser.add_argument(
        "--output", type=Path, help="a line for each application and database: what broke at which levels"
    )
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--workers", type=int, help="so many parts at once, each with a server of its own")
    parser.add_argument("--engine", choices=["local", "ray"], help="where the workers run")
    parser.add_argument("--ray-address", help="the cluster's address, or auto")
    arguments = parser.parse_args()
    engine: Engine = arguments.engine or "local"
    scaled = arguments.engine is not None or arguments.workers is not None
    try:
        with opened_workers(engine, arguments.workers, arguments.ray_address) if scaled else nullcontext() as workers:
            for name in arguments.applications:
                for kind in arguments.start or sorted(SETTINGS, reverse=True):
                    validated(planned(name, kind, arguments), arguments, workers)
    except IsoldeError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
