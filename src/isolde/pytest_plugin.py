"""Tests that explore: ``@pytest.mark.isolation("snapshot-isolation")`` over transaction functions and an invariant.

A marked test is run once for each level, of the literature (``"serializable"``, ``"si"``) or of a database
(``"postgresql:read-committed"``). It says what is explored in one of three ways:

- it takes ``isolation`` and calls it with a :class:`isolde.Program` (the way for tests with Hypothesis, too);
- it returns a program, or several;
- the mark names ``sessions`` (and ``initial``, ``tables``, ``rows``); the test is the invariant: it takes ``state`` and asserts.

``isolde_postgresql`` and ``isolde_mariadb`` are servers of the test session's own. ``--isolde-report FILE`` keeps what was
found; a name that ends in ``.html`` is a page.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from isolde.databases.servers import Running
    from isolde.engines.explore.program import Program
    from isolde.findings import Report

_MARK = "isolation"
_REPORTS: pytest.StashKey[list[Report]] = pytest.StashKey()
_HANDED = "isolde_reports"
_PROGRAM = ("sessions", "initial", "tables", "rows", "levels", "application")
_BOUNDS = ("seconds", "budget", "settings", "retries")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--isolde-report``."""
    group = parser.getgroup("isolde", "isolation levels")
    group.addoption(
        "--isolde-report",
        metavar="FILE",
        help="Keep what explorations found in FILE: .html is a page, .xml JUnit, .sarif SARIF.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The mark, and a place for reports."""
    config.addinivalue_line(
        "markers",
        "isolation(*levels, sessions=…, initial=…): explore transactions under these levels; 'STORE:LEVEL' is that of a database",
    )
    config.stash[_REPORTS] = []
    kept = config.getoption("--isolde-report")
    if kept is not None:
        from isolde.report.files import takes_several

        if not takes_several(kept):
            raise pytest.UsageError(f"--isolde-report {kept}: the name has to end in .html, .xml or .sarif")


class Broken(AssertionError):
    """Something can break at a level, or it stayed undecided whether it can; the text is the whole report."""


@dataclass(frozen=True)
class Isolation:
    """Explores programs at one level, and fails the test if something can break, or if that stays undecided."""

    level: str
    name: str = ""
    options: dict[str, Any] = field(default_factory=dict, repr=False)
    kept: list[Report] = field(default_factory=list, repr=False)
    shown: dict[str, Report] = field(default_factory=dict, repr=False)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """What Hypothesis says the argument of a failing test is. It would print the fields, and so whole reports."""
        printer.text(repr(self))

    def __call__(self, program: Program) -> Report:
        """Explores the program. Of many examples ``--isolde-report`` has the last that failed, which is Hypothesis' smallest,
        or the first if all pass."""
        from isolde.findings import Verdict
        from isolde.report.any import as_text

        __tracebackhide__ = True
        report = self._explored(program if program.name else replace(program, name=self.name))
        self._keep(report)
        if report.verdict is Verdict.VIOLATED:
            raise Broken(f"at {self.level} this can break:\n\n{as_text(report)}")
        if report.verdict is Verdict.UNDECIDED:
            raise Broken(f"undecided at {self.level}, which is no pass:\n\n{as_text(report)}")
        return report

    def _keep(self, report: Report) -> None:
        from isolde.findings import Verdict

        earlier = self.shown.get(report.subject.name)
        if earlier is not None and report.verdict is Verdict.SATISFIED:
            return
        if earlier is not None:
            self.kept[:] = [one for one in self.kept if one is not earlier]
        self.shown[report.subject.name] = report
        self.kept.append(report)

    def _explored(self, program: Program) -> Report:
        store, colon, level = self.level.partition(":")
        if not colon:
            from isolde.api import explore

            bounds = {name: value for name, value in self.options.items() if name in ("seconds", "budget")}
            return explore(program, self.level, **bounds)
        from isolde.campaigns.explore import empty_report
        from isolde.campaigns.steps import with_outcomes
        from isolde.campaigns.store import StoreOptions, explore_on_store

        asked = StoreOptions(
            store,
            level,
            settings=self.options.get("settings", {}),
            states_max=self.options.get("budget"),
            seconds=self.options.get("seconds"),
            retries=self.options.get("retries", 0),
        )
        finding, _ = explore_on_store(program, asked)
        report = empty_report(program)
        return with_outcomes(type(report)(report.subject, (finding,), report.exhibit, report.facts))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A marked test is run once for each level."""
    asked = _asked(metafunc.definition)
    if not asked:
        return
    if "isolation" not in metafunc.fixturenames:
        metafunc.fixturenames.append("isolation")
    # What the explorer needs is loaded now, so that no test (and no deadline of Hypothesis) pays for it.
    import_module("isolde.campaigns.explore")
    kept = metafunc.config.stash[_REPORTS]
    values = [
        Isolation(level, options={n: v for n, v in options.items() if n in _BOUNDS}, kept=kept)
        for level, options in asked
    ]
    metafunc.parametrize("isolation", values, ids=[one.level for one in values])


def _asked(item: Any) -> list[tuple[str, dict[str, Any]]]:
    """The levels of a test, each with the options of its mark; the mark that is written first comes first."""
    found = []
    for mark in reversed(list(item.iter_markers(_MARK))):
        if not mark.args:
            raise pytest.UsageError(f'{item.nodeid}: @pytest.mark.{_MARK} names no level; write ("serializable")')
        unknown = [name for name in mark.kwargs if name not in (*_PROGRAM, *_BOUNDS)]
        if unknown:
            known = ", ".join((*_PROGRAM, *_BOUNDS))
            raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.{_MARK} knows no {unknown[0]}; it takes {known}")
        found += [(str(level), mark.kwargs) for level in mark.args]
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a marked test: what it returns is explored, or it is the invariant of what its mark names."""
    options = next((options for _, options in _asked(pyfuncitem)), None)
    if options is None:
        return None
    __tracebackhide__ = True
    from isolde.errors import IsoldeError

    shared = pyfuncitem.callspec.params["isolation"]
    assert isinstance(shared, Isolation)
    # The same level of a test with other parameters is another test.
    isolation = replace(shared, name=pyfuncitem.nodeid, shown={})
    function = pyfuncitem.obj
    parameters = inspect.signature(function).parameters
    given = {name: pyfuncitem.funcargs[name] for name in parameters if name in pyfuncitem.funcargs}
    if "isolation" in given:
        given["isolation"] = isolation
    wrong = ""
    try:
        if "sessions" in options:
            isolation(_program(function, given, options, pyfuncitem.nodeid))
        elif "isolation" in parameters:
            function(**given)
        else:
            for program in _programs(function(**given), pyfuncitem.nodeid):
                isolation(program)
    except IsoldeError as error:
        wrong = f"at {isolation.level}: {error}"
    except Broken as broken:
        # A test that calls it itself, with Hypothesis say, shows its own lines and what Hypothesis adds.
        if "isolation" in parameters:
            raise
        wrong = str(broken)
    if wrong:
        pytest.fail(wrong, pytrace=False)
    return True


def _programs(returned: object, name: str) -> Sequence[Program]:
    from isolde.engines.explore.program import Program

    found = (
        [returned] if isinstance(returned, Program) else list(returned) if isinstance(returned, list | tuple) else []
    )
    if not found or not all(isinstance(one, Program) for one in found):
        pytest.fail(
            f"{name}: a test marked isolation returns an isolde.Program, or takes 'isolation' and calls it with one, or its mark "
            "names sessions and it takes 'state'",
            pytrace=False,
        )
    return found


def _program(function: Callable[..., Any], given: dict[str, Any], options: dict[str, Any], name: str) -> Program:
    """The program of a mark, with the test as its invariant."""
    from isolde.engines.explore.program import Program

    if "state" not in inspect.signature(function).parameters:
        pytest.fail(
            f"{name}: its mark names sessions, so that the test is the invariant: it has to take 'state'", pytrace=False
        )

    others = {key: value for key, value in given.items() if key != "state"}

    @functools.wraps(function)
    def invariant(state: Any) -> bool:
        try:
            return function(**others, state=state) is not False
        except AssertionError:
            return False

    named = {key: value for key, value in options.items() if key in _PROGRAM}
    return Program(**named, invariant=invariant, name=name)


@pytest.fixture
def state() -> None:
    """The final state of an execution, which a marked test with ``sessions`` gets from the explorer."""


@pytest.fixture(scope="session")
def isolde_postgresql() -> Iterator[Running]:
    """A PostgreSQL of this test session's own; ``.url`` is where it is. The test is skipped if there is none to start."""
    yield from _server("postgresql")


@pytest.fixture(scope="session")
def isolde_mariadb() -> Iterator[Running]:
    """A MariaDB of this test session's own; ``.url`` is where it is. The test is skipped if there is none to start."""
    yield from _server("mariadb")


def _server(kind: str) -> Iterator[Running]:
    from isolde.databases.servers import start
    from isolde.errors import DatabaseUnavailable

    try:
        server = start(kind)
    except DatabaseUnavailable as error:
        pytest.skip(str(error))
    try:
        yield server
    finally:
        server.stop()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes ``--isolde-report``; a process of pytest-xdist hands what it has to the one that writes."""
    config = session.config
    kept, reports = config.getoption("--isolde-report"), config.stash[_REPORTS]
    if kept is None or not reports:
        return
    if hasattr(config, "workeroutput"):
        from isolde.report.codec import write

        config.workeroutput[_HANDED] = [write(one) for one in reports]
        return
    from isolde.report.files import report_text

    Path(kept).write_text(report_text(kept, reports), encoding="utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes what a process of pytest-xdist found."""
    handed = getattr(node, "workeroutput", {}).get(_HANDED, ())
    if handed:
        from isolde.report.codec import read

        node.config.stash[_REPORTS] += [read(text) for text in handed]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says where the report is."""
    kept, reports = config.getoption("--isolde-report"), config.stash[_REPORTS]
    if kept is not None and reports:
        terminalreporter.write_line(f"isolde: {len(reports)} explorations are in {kept}")
