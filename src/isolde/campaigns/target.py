"""What is run on: a database that is there, one that is started for it, or any driver's."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import dataclass

from isolde.databases import Adapter, Database, open_database, open_driver
from isolde.databases.pep249 import AS_IT_SAYS, Style
from isolde.databases.recoveries import started_with
from isolde.databases.registry import adapter_named, refuse_without_driver
from isolde.databases.servers import SPOKEN, Running, start
from isolde.databases.servers.proxy import Proxy
from isolde.databases.waiting import aside
from isolde.engines.record import Fault
from isolde.errors import UsageError
from isolde.levels import Level, level_named
from isolde.masking import masked_connect, masked_url

EMBEDDED = "sqlite:"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which database is wanted: one that is there (``url``), one to start (``kind``), or one behind a driver (``driver``).

    ``isolation`` is the level to run at, as the database calls it; ``None`` is its strongest.
    """

    url: str | None = None
    kind: str | None = None
    driver: str | None = None
    connect: str | None = None
    begin: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    isolation: str | None = None
    faults: tuple[Fault, ...] = ()
    settings: tuple[str, ...] = ()
    only_level: bool = False
    style: Style = AS_IT_SAYS
    """What the driver does not say of itself as PEP 249 has it, or says wrongly."""
    version: str | None = None
    """Which version of the server is to be started; ``None`` is the one that is installed."""
    certify: bool = False
    """A server that is started for it is to be able to tell its order."""


@dataclass(frozen=True, slots=True)
class Target:
    """An open database; ``server`` and ``wires`` (one before each of its nodes) are there if Isolde started it."""

    adapter: Adapter
    database: Database
    url: str
    isolation: str | None
    server: Running | None = None
    wires: tuple[Proxy, ...] = ()


def opened(wanted: Wanted, stack: ExitStack) -> Target:
    """Opens or starts it; the stack ends what was started."""
    if sum(part is not None for part in (wanted.url, wanted.kind, wanted.driver)) > 1:
        raise UsageError("name one database: by its URL, by --start or by --driver")
    if wanted.faults and wanted.kind is None:
        raise UsageError("--nemesis is for servers that Isolde started itself; use --start")
    if wanted.version is not None and wanted.kind is None:
        raise UsageError("--server-version is for servers that Isolde starts itself; use --start")
    if wanted.settings and wanted.kind is None:
        raise UsageError("--setting is for servers that Isolde started itself; use --start")
    if wanted.driver is not None:
        return _by_driver(wanted, stack)
    if wanted.connect is not None or wanted.begin or wanted.setup or wanted.only_level or wanted.style != AS_IT_SAYS:
        raise UsageError("--connect, --begin, --setup, --only-level, --paramstyle and --threadsafety go with --driver")
    if wanted.kind is None:
        return _by_url(wanted.url or EMBEDDED, wanted.isolation, stack)
    refuse_without_driver(adapter_named(SPOKEN[wanted.kind]), f"--start {wanted.kind}")
    told = started_with(wanted.kind) if wanted.certify else {}
    server = start(wanted.kind, **{**told, **_released(wanted.kind, wanted.version), **_settings(wanted.settings)})
    stack.callback(server.stop)
    url, wires = server.url, []
    if Fault.CUT in wanted.faults:
        for node in server.nodes:
            wire = Proxy(node.place.port)
            stack.callback(wire.close)
            wires.append(wire)
            url = url.replace(f":{node.place.port}", f":{wire.port}")
    target = _by_url(url, wanted.isolation, stack)
    return Target(target.adapter, target.database, target.url, target.isolation, server, tuple(wires))


def _released(kind: str, version: str | None) -> dict[str, str]:
    """Where the programs of that version are, if one is wanted."""
    if version is None:
        return {}
    from isolde.databases.servers.releases import programs_of

    return {"programs": programs_of(kind, version)}


def _settings(texts: tuple[str, ...]) -> dict[str, str]:
    for text in texts:
        if not text.partition("=")[0].isidentifier() or "=" not in text:
            raise UsageError(f"--setting {text}: write NAME=VALUE, for example fsync=off")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def _by_url(url: str, isolation: str | None, stack: ExitStack) -> Target:
    adapter, database = aside(lambda: open_database(url))
    stack.callback(database.close)
    return Target(adapter, database, masked_url(url), isolation)


def _by_driver(wanted: Wanted, stack: ExitStack) -> Target:
    assert wanted.driver is not None
    if wanted.connect is None:
        raise UsageError("--driver needs --connect: what the driver's connect() takes, a text or a JSON object")
    # Nothing is known of such a database but what the user says that it promises.
    claims = level_named(wanted.isolation) if wanted.isolation else Level.SERIALIZABLE
    module, connect = wanted.driver, wanted.connect
    adapter, database = aside(
        lambda: open_driver(
            module,
            connect,
            claims=claims,
            begin=wanted.begin,
            setup=wanted.setup,
            only_level=wanted.only_level,
            style=wanted.style,
        )
    )
    stack.callback(database.close)
    return Target(
        adapter, database, f"--driver {wanted.driver} --connect {shlex.quote(masked_connect(wanted.connect))}", None
    )
