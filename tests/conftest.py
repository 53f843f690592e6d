"""Real servers for tests: each kind is started once, when the first test asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

from isolde.databases.recoveries import started_with
from isolde.databases.servers import Running, start
from isolde.errors import DatabaseUnavailable

# The same examples on every run: what is landed is what was tried. Other seeds are tried by hand, with --hypothesis-seed.
settings.register_profile("steady", derandomize=True)
settings.load_profile("steady")

_MISSING = pytest.StashKey[dict[str, str]]()


class Servers:
    """Starts servers, and remembers which there are none of and why."""

    def __init__(self, missing: dict[str, str]) -> None:
        self._started: dict[str, Running] = {}
        self._missing = missing

    def shared(self, kind: str) -> Running:
        """The server of this kind that all tests use; it is not theirs to stop."""
        if kind not in self._started:
            # All of them can tell their order, too.
            self._started[kind] = self.private(kind, **started_with(kind))
        return self._started[kind]

    def private(self, kind: str, **settings: Any) -> Running:
        """A server of the test's own. The test is skipped if there are no programs for it."""
        if kind not in self._missing:
            try:
                return start(kind, **settings)
            except DatabaseUnavailable as error:
                self._missing[kind] = str(error)
        pytest.skip(self._missing[kind])

    def stop(self) -> None:
        for server in self._started.values():
            server.stop()


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    servers = Servers(request.config.stash.setdefault(_MISSING, {}))
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def server(servers: Servers) -> Callable[[str], Running]:
    """``server("postgresql")`` is the shared server of a kind."""
    return servers.shared


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with a server run alone: sessions race there, and another test's load would decide who wins."""
    for item in items:
        if isinstance(item, pytest.Function) and "servers" in item.fixturenames:
            item.add_marker("server")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says by name what was not tested for want of a server."""
    for kind, reason in config.stash.get(_MISSING, {}).items():
        terminalreporter.write_line(f"no {kind}: {reason.removeprefix(f'{kind}: ')}", yellow=True)
