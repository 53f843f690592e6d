"""Can transactions break an assertion under a level? Explores a program, and names and explains what goes wrong.

The explorer finds the history; ``check`` names the anomaly in it: a lost update, a write skew, or none at all where the program
breaks its invariant even one transaction after the other.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from isolde.campaigns.check import CheckOptions, check_columns
from isolde.campaigns.steps import COMMITTED, ROLLED_BACK, answer_text
from isolde.engines.explore.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from isolde.engines.explore.elsewhere import refuse_differences
from isolde.engines.explore.evidence import Executed
from isolde.engines.explore.explore import Explored, Explorer, Listening, Violation
from isolde.engines.explore.program import Program, first_rows
from isolde.engines.explore.question import TRIVIAL, Question, short
from isolde.engines.explore.schedule import Step as InterleavedStep
from isolde.engines.explore.search import INTERRUPTED, Limits, Progress
from isolde.engines.explore.shown import accesses_of, key_names, keys_of, plain, text_of, transactions_of
from isolde.errors import UsageError
from isolde.findings import (
    Anomaly,
    AtLevel,
    BrokenInvariant,
    Finding,
    HowMany,
    InvariantKept,
    NotProved,
    ProgramSubject,
    Report,
    Robust,
    Schedule,
    Spent,
    Step,
    StepOutcome,
    TableRows,
    Verdict,
)
from isolde.formats import encode
from isolde.history import History
from isolde.levels import Level, level_named

DEFAULT_LEVEL = Level.READ_COMMITTED.value


@dataclass(frozen=True, slots=True)
class ExploreOptions:
    """How a program is explored: a question for each of ``levels``, in which ``own`` have their own, by transaction.

    ``against`` asks in addition for behaviours that this level does not allow. ``calls_max`` and ``seconds`` bound each
    question; ``checkpoint`` is a file to go on from, and to write if a bound or Ctrl-C ends the exploration.
    """

    levels: tuple[str, ...] = (DEFAULT_LEVEL,)
    own: Mapping[str, str] = field(default_factory=dict)
    base: str | None = None
    method: Literal["swapping", "dfs"] = "swapping"
    tables: Literal["rows", "set"] = "rows"
    against: str | None = None
    each_commit: bool = False
    calls_max: int | None = None
    seconds: float | None = None
    threads: int | None = None
    checkpoint: str | None = None

    def questions(self) -> list[Question]:
        states: Literal["each-commit", "final"] = "each-commit" if self.each_commit else "final"
        return [Question(level, dict(self.own), self.base, self.method, self.against, states) for level in self.levels]


@dataclass(frozen=True, slots=True)
class ExploreListener:
    """Who looks on: ``progress`` of a question, ``listed`` every history of it as it is found complete."""

    progress: Callable[[Question, Progress], None] = field(default=lambda *_: None)
    listed: Callable[[Question, History], None] | None = None


Ask = Callable[[Explorer, Question, Limits, Listening, Checkpoint | None], Explored]
"""Who walks through the program: ``Explorer.ask`` in this process, or somebody who hands out shares."""


def explore(
    program: Program, options: ExploreOptions, listener: ExploreListener | None = None, ask: Ask = Explorer.ask
) -> Report:
    """Explores the program at every level asked for."""
    listener = listener or ExploreListener()
    questions = options.questions()
    if options.checkpoint is not None and len(questions) != 1:
        raise UsageError("a checkpoint holds one exploration; give one --level with --checkpoint")
    for question in questions:
        question.steering(question.by_transaction(program))
    explorer = Explorer(program, options.tables)
    findings: list[Finding] = []
    for question in questions:
        explored = _asked(explorer, question, options, listener, ask)
        if explored.stopped != INTERRUPTED:
            explorer.behaviours.refuse_shared_state()
            refuse_differences(program, options.tables, explorer.rounds)
        findings += _findings(explorer, explored, options)
        if explored.stopped == INTERRUPTED:
            break
    return replace(empty_report(program), findings=tuple(findings))


def empty_report(program: Program) -> Report:
    """A report of a program that nothing was asked about yet."""
    return Report(ProgramSubject(program.name, len(program.sessions), len(program.calls)), ())


def _asked(
    explorer: Explorer, question: Question, options: ExploreOptions, listener: ExploreListener, ask: Ask
) -> Explored:
    program, path = explorer.program, options.checkpoint
    resumed = None if path is None else read_checkpoint(path, program, question)
    listed: Callable[[tuple[Executed, ...]], None] | None = None
    if (tell := listener.listed) is not None:

        def listed(history: tuple[Executed, ...]) -> None:
            tell(question, _history(explorer, history))

    explored = ask(
        explorer,
        question,
        Limits(options.calls_max, options.seconds, options.threads),
        Listening(progress=lambda progress: listener.progress(question, progress), listed=listed),
        resumed,
    )
    if path is not None and explored.left is not None:
        write_checkpoint(path, program, question, explored.left)
    return explored


def _history(explorer: Explorer, history: tuple[Executed, ...]) -> History:
    """The history as people read it; over keys with the initial values of those that it names."""
    initial = {}
    if not explorer.program.over_tables:
        names = key_names(keys_of(history))
        initial = {name: plain(explorer.bodies.initial(key)) for key, name in names.items()}
    return History(transactions_of(history), {key: value for key, value in initial.items() if value is not None})


# Findings


def _findings(explorer: Explorer, explored: Explored, options: ExploreOptions) -> list[Finding]:
    program, question = explored.program, explored.question
    own = {**program.levels, **question.levels}
    under = AtLevel(level_named(question.level), tuple((name, level_named(level)) for name, level in own.items()))
    counts = explored.counts
    spent = Spent(
        explored.seconds,
        (
            ("histories", counts.histories),
            ("end_states", counts.end_states),
            ("explored", counts.explored),
            ("filtered", counts.end_states - counts.histories),
            ("bodies", explored.bodies_run),
            ("memory_mb", memory_mb()),
        ),
    )
    broken = tuple(_broken(explorer, explored, violation) for violation in explored.violations)
    asked = InvariantKept("", under) if explored.judged else HowMany(under)
    found = [_finding(asked, explored, broken, options, spent)]
    if question.against is not None:
        beyond = tuple(_broken(explorer, explored, violation) for violation in explored.beyond)
        counted = replace(spent, counts=(*spent.counts, ("beyond", counts.beyond)))
        robust = Robust(under, AtLevel(level_named(question.against)))
        found.append(_finding(robust, explored, beyond, options, counted))
    return found


def _finding(
    question: InvariantKept | HowMany | Robust,
    explored: Explored,
    broken: tuple[BrokenInvariant, ...],
    options: ExploreOptions,
    spent: Spent,
) -> Finding:
    if broken:
        rest = (
            ()
            if explored.complete
            else (NotProved(f"{explored.stopped}: there may be other violations, and more histories"),)
        )
        return Finding(question, Verdict.VIOLATED, _method(explored), spent, (*broken, *rest))
    if explored.complete:
        return Finding(question, Verdict.SATISFIED, _method(explored), spent)
    how = "give --checkpoint FILE to be able to go on"
    if options.checkpoint is not None:
        how = f"the same command goes on from {options.checkpoint}"
    return Finding(question, Verdict.UNDECIDED, _method(explored), spent, (NotProved(f"{explored.stopped}; {how}"),))


def _method(explored: Explored) -> str:
    """The algorithm: EXPLORE-CE, EXPLORE-CE* with the base that steers it, or the plain search."""
    if explored.question.method == "dfs":
        return f"dfs({_short(explored.base)})"
    if set(explored.levels) == {explored.base}:
        return f"explore-ce({_short(explored.base)})"
    return f"explore-ce*({_short(explored.base)}, {', '.join(dict.fromkeys(map(_short, explored.levels)))})"


def _short(level: str) -> str:
    return "true" if level == TRIVIAL else short(level)


def memory_mb() -> int:
    """The most memory that this process has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak // (1024 * 1024 if sys.platform == "darwin" else 1024))


# Violations


def _broken(explorer: Explorer, explored: Explored, violation: Violation) -> BrokenInvariant:
    program, history = explored.program, violation.history
    anomaly = _anomaly(explorer, violation)
    tables = _tables(explorer, violation.state) if violation.state is not None and program.over_tables else ()
    return BrokenInvariant(
        check=violation.check,
        explanation=_explanation(explored, violation, anomaly),
        history=_history(explorer, history),
        schedule=_schedule(explored, violation, tables),
        state=None if violation.state is None or program.over_tables else _keys(explorer, violation.state),
        tables=tables,
        anomaly=anomaly,
    )


def _anomaly(explorer: Explorer, violation: Violation) -> Anomaly | None:
    """What ``check`` calls it; ``None`` if the transactions could have run one after the other."""
    accesses = accesses_of(violation.history, explorer.bodies.initial)
    report = check_columns(encode(accesses), CheckOptions(judge_aborted=True)).report
    return next(iter(report.findings[0].anomalies), None)


def _explanation(explored: Explored, violation: Violation, anomaly: Anomaly | None) -> str:
    terminal = "" if not explored.program.over_tables else " in T{}"
    calls = ", ".join(
        f"{entry.call.id} is {entry.call}{terminal.format(entry.call.session + 1)}" for entry in violation.history
    )
    if anomaly is not None:
        why = f"{anomaly.name}: {anomaly.explanation}"
    else:
        order = ", then ".join(explored.program.calls[number].id for number in violation.order)
        why = f"it takes no anomaly: the transactions run one after the other ({order})"
    if violation.check == "robustness":
        return f"{explored.question.against} does not allow this. {why} ({calls})"
    if violation.state is None:
        return f"'{violation.check}' fails. {why} ({calls})"
    done = violation.order[: violation.reached]
    after = ", ".join(explored.program.calls[number].id for number in done)
    whole = len(done) == len(violation.order)
    return (
        f"{'the invariant' if violation.check == 'invariant' else violation.check} does not hold"
        f" {'at the end' if whole else 'on the way'}, after the commits of {after}."
        f" {why} ({calls})"
    )


def _keys(explorer: Explorer, state: Mapping[Any, Any]) -> tuple[tuple[str | int, Any], ...]:
    whole = explorer.invariants.state(state)
    return tuple((name, plain(whole[key])) for key, name in key_names(whole).items())


def _tables(explorer: Explorer, state: Mapping[Any, Any]) -> tuple[TableRows, ...]:
    """The tables that somebody wrote to, whole."""
    written = {key.table for key in state}
    rows = explorer.invariants.state(state)
    return tuple(
        TableRows(table, tuple(tuple(plain(value) for value in row) for row in rows[table]))
        for table in rows
        if table in written
    )


def _schedule(explored: Explored, violation: Violation, tables: tuple[TableRows, ...]) -> Schedule:
    program = explored.program
    steps = violation.schedule.steps
    if not program.over_tables:
        return Schedule(tuple(Step(program.calls[step.transaction].id, step.text) for step in steps))
    from isolde.tx.render import render_schema

    named = [(f"T{program.calls[step.transaction].session + 1}", step) for step in steps]
    levels = {
        f"T{call.session + 1}": _OFFERED[level] for call, level in zip(program.calls, explored.levels, strict=True)
    }
    rows = tuple(
        TableRows(table, tuple(tuple(plain(value) for value in row) for row in given))
        for table, given in first_rows(program).items()
    )
    return Schedule(
        steps=tuple(
            Step(session, text_of(step.ran) if step.ran is not None else _ENDS.get(step.text, step.text))
            for session, step in named
        ),
        schema=tuple(render_schema(program.schema, program.dialect)),
        rows=rows,
        levels=tuple(levels.items()),
        outcomes=tuple(_outcomes([step for _, step in named], tables)),
    )


def _outcomes(steps: Sequence[InterleavedStep], tables: tuple[TableRows, ...]) -> Iterator[StepOutcome]:
    """What each statement returned in the history; at a level of the literature nobody waits."""
    for number, step in enumerate(steps):
        ran, after = step.ran, tables if number == len(steps) - 1 else ()
        if ran is None:
            said = _ENDED.get(step.text, "")
            yield StepOutcome(said, number, failed=said == ROLLED_BACK, tables=after)
        else:
            rows = None if ran.rows is None else [tuple(map(plain, row)) for row in ran.rows]
            said = answer_text(rows, ran.count if rows is None else None, ran.error, ran.message)
            yield StepOutcome(said, number, failed=bool(ran.error), tables=after)


_ENDS = {"abort": "rollback"}
_ENDED = {"abort": ROLLED_BACK, "commit": COMMITTED}
_OFFERED = {
    # What databases call the level that comes closest: none of them offers read atomic, causal or prefix by name.
    "read-committed": "read committed",
    "read-atomic": "repeatable read",
    "causal": "repeatable read",
    "prefix": "repeatable read",
    "snapshot-isolation": "repeatable read",
    "serializable": "serializable",
}
