"""Runs generated stored procedures on the store, through the front end, and on the real server, and says where they differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from isolde.errors import ExecutionError, MalformedProgram, OutsideFragment
from isolde.semantics.concrete import Ending, Store
from isolde.tx import expressions as ex
from isolde.tx import sql
from isolde.tx.dialects import Dialect

from .agreement import CONSTRAINTS, Tally, filled, shown, state_difference
from .databases import Failed, Real
from .generation_expressions import BOOL, DEC, INT, TEXT
from .rendering import Text
from .routine_steps import Routine
from .routines import Routines

# How a server tells that a routine has ended on purpose, and the kinds of errors that only routines have.
ENDINGS = {
    "P0001": Ending.ABORTED, "P0002": Ending.ABORTED, "20000": Ending.ABORTED, "2F005": Ending.ABORTED,
    "P0004": Ending.ASSERTION_FAILED,
    "1644": Ending.ABORTED, "1329": Ending.ABORTED, "1339": Ending.ABORTED, "1321": Ending.ABORTED,
}  # fmt: skip
KINDS = {
    "P0003": "rows", "22004": "not-null", "24000": "cursor", "34000": "cursor", "55000": "name",
    "1172": "rows", "1325": "cursor", "1326": "cursor",
}  # fmt: skip


class Server:
    """Routines on a real server."""

    def __init__(self, real: Real) -> None:
        self.real, self.text = real, Text(real.dialect)

    def create(self, routines: tuple[Routine, ...]) -> None:
        for routine in routines:
            for what in ("PROCEDURE", "FUNCTION"):
                self.real.execute(f"DROP {what} IF EXISTS {routine.name}")
                self.real.end(keep=True)
        for routine in routines:
            self.real.execute(routine.text)
        self.real.end(keep=True)

    def call(self, routine: Routine, arguments: tuple[Any, ...]) -> tuple[Ending, tuple[Any, ...]]:
        """How a call ended, and what it gave; ``Failed`` where something in it is wrong."""
        try:
            values = self.values(routine, [self.text.literal(value) for value in arguments])
        except Failed as failure:
            self.real.end(keep=False)
            if failure.kind in ENDINGS:
                return ENDINGS[failure.kind], ()
            raise Failed(KINDS.get(failure.kind, failure.kind), failure.reason) from None
        self.real.end(keep=True)
        return Ending.RETURNED, values

    def values(self, routine: Routine, given: list[str]) -> tuple[Any, ...]:
        if routine.function:
            return self.real.execute(f"SELECT {routine.name}({', '.join(given)})")[0][0]
        inputs, both = given[:2], given[2:]
        if self.real.dialect is Dialect.POSTGRESQL:
            outs = [*both, *["NULL"] * (len(routine.outputs) - len(both))]
            return self.real.execute(f"CALL {routine.name}({', '.join([*inputs, *outs])})")[0][0]
        names = [f"@o{place}" for place in range(len(routine.outputs))]
        for name, value in zip(names, both, strict=False):
            self.real.execute(f"SET {name} = {value}")
        self.real.execute(f"CALL {routine.name}({', '.join([*inputs, *names])})")
        return self.real.execute(f"SELECT {', '.join(names)}")[0][0]


def run_routines(seed: int, real: Real, count: int, tally: Tally) -> None:
    """Routines one after the other on one schema, the tables compared after each."""
    generator = Routines(seed, real.dialect)
    text, server = Text(real.dialect), Server(real)
    tables = "".join(f"{text.table(table)};\n" for table in generator.schema.tables.values())
    real.reset(generator.schema)
    store = Store(sql.schema(tables, real.dialect), real.dialect)
    if not filled(seed, generator, store, real, tally):
        return
    for _ in range(count):
        routine, called = generator.pair()
        arguments = tuple(argument(generator, kind) for kind in routine.inputs)
        written = f"{called.text};\n{routine.text};\n"
        try:
            difference = compare_routine(tables + written, (called, routine), arguments, store, server, tally)
        except StopIteration:
            return
        except Failed as failure:
            difference = f"the server cannot create it: {failure.reason}"
            real.end(keep=False)
        difference = difference or state_difference(store, real) or None
        if difference is not None:
            tally.differences.append(f"seed {seed}: {written}{arguments}\n    {difference}")
            return


def argument(generator: Routines, kind: str) -> ex.Constant:
    if generator.chance(0.15):
        return None
    constant = {INT: 3, DEC: generator.random.choice((1, 2)), TEXT: "ab", BOOL: True}[kind]
    return generator.random.randrange(8) if kind == INT else constant


def compare_routine(
    text: str,
    routines: tuple[Routine, Routine],
    arguments: tuple[Any, ...],
    store: Store,
    server: Server,
    tally: Tally,
) -> str | None:
    ours: Any
    try:
        program = sql.program(text, server.real.dialect)
        outcome = store.call(program, routines[1].name, arguments)
        ours = (outcome.ending, tuple(shown(value) for value in outcome.values))
    except OutsideFragment as refusal:
        tally.refused[refusal.what.split("'")[0][:60]] += 1
        return None
    except MalformedProgram as error:
        return f"the front end cannot read it: {error}"
    except ExecutionError as error:
        # A second row of a scalar query may not be looked at; one for variables is.
        ours = replace(error, kind="rows") if "for variables" in error.reason else error
    server.create(routines)
    expected: Any
    try:
        ending, values = server.call(routines[1], arguments)
        expected = (ending, tuple(shown(value) for value in values))
    except Failed as failure:
        expected = failure
    if isinstance(ours, ExecutionError) and ours.kind == "type" and getattr(expected, "kind", "") != "type":
        # The store compiles the whole of a routine; a server looks at a statement when it comes to it.
        tally.left_open["a wrong type in a statement that was not reached"] += 1
        raise StopIteration
    if isinstance(ours, ExecutionError) and isinstance(expected, Failed):
        if ours.kind != expected.kind and not {ours.kind, expected.kind} <= {*CONSTRAINTS, "rows"}:
            return f"error kinds: {ours.kind} ({ours}), real {expected.kind} ({expected.reason})"
    elif isinstance(ours, ExecutionError) or isinstance(expected, Failed):
        kind = ours.kind if isinstance(ours, ExecutionError) else expected.kind
        if kind == "not-null" and not isinstance(ours, ExecutionError) and ours[0] is Ending.ABORTED:
            # A null bound of a loop, a null in a variable that takes none: the front end has them abort.
            tally.procedures += 1
            return None
        return f"store {ours!r}, real {expected!r}"
    elif ours != expected:
        return f"store {ours}, real {expected}"
    tally.procedures += 1
    tally.endings[expected.kind if isinstance(expected, Failed) else expected[0].value] += 1
    return None
