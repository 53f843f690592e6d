"""One private server: a recipe says how it is made, this file keeps its process.

The server listens on a free loopback port, keeps its data in a temporary directory, and runs as an unprivileged
user when we are root, since several servers refuse to run as root. It is ended with us, whatever happens to us short of
a power cut: a context manager for the ordinary way, the kernel's parent-death signal for the others.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from isolde.errors import DatabaseUnavailable

_START_S = 60.0
_STOP_S = 20.0
_LOG_LINES = 5


@dataclass(frozen=True, slots=True)
class Owner:
    """The user that a server runs as."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where one server lives."""

    directory: Path
    port: int
    owner: Owner | None

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return self.directory / "log"


class Recipe(Protocol):
    """How a kind of server is made. One file each; the programs that it found are the recipe's own business."""

    name: str
    user: str
    """Whom to run as when we are root; ``nobody`` if that user does not exist."""
    stop_signal: signal.Signals

    def initialise(self, place: Place) -> None:
        """Fills the data directory; uses ``run_as_owner``."""

    def command(self, place: Place) -> list[str]:
        """The server's program and arguments, to stay in the foreground."""

    def environment(self) -> dict[str, str]:
        """What is added to the environment."""

    def ready(self, place: Place) -> bool:
        """Whether the server answers; called again and again, and quick."""

    def url(self, place: Place) -> str:
        """How adapters find it."""


def free_port() -> int:
    """A loopback port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def port_open(port: int) -> bool:
    """Whether somebody listens on a loopback port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def run_as_owner(command: list[str], place: Place, environment: dict[str, str], name: str) -> None:
    """Runs a preparing command to its end; ``DatabaseUnavailable`` with its last words if it fails."""
    result = subprocess.run(
        command, **_ownership(place), env=os.environ | environment, cwd="/", capture_output=True, text=True, check=False
    )
    if result.returncode:
        words = (result.stderr or result.stdout).strip().splitlines()
        raise DatabaseUnavailable(f"{name}: {Path(command[0]).name} failed: {' / '.join(words[-_LOG_LINES:])}")


class Server:
    """A private server. ``stop`` it, or use it as a context manager."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        directory = Path(tempfile.mkdtemp(prefix=f"isolde-{recipe.name}-"))
        owner = _owner(recipe.user)
        if owner is not None:
            os.chown(directory, owner.uid, owner.gid)
        self.place = Place(directory, free_port(), owner)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped: list[int] = []
        try:
            recipe.initialise(self.place)
            self.start()
        except BaseException:
            self.stop()
            raise

    @property
    def name(self) -> str:
        return self._recipe.name

    @property
    def url(self) -> str:
        return self._recipe.url(self.place)

    def start(self) -> None:
        """Starts the server on its old data and waits until it answers."""
        with self.place.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*_tied_to_us(), *self._recipe.command(self.place)],
                **_ownership(self.place),
                env=os.environ | self._recipe.environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_S
        while not self._recipe.ready(self.place):
            if self._process.poll() is not None:
                raise DatabaseUnavailable(f"{self.name}: the server ended while it started: {self.last_words()}")
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(f"{self.name}: no answer within {_START_S:.0f} s: {self.last_words()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """``kill -9`` of the server and all of its processes, without warning."""
        for pid in self._pids():
            _signal(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            self._process = None
        self._stopped = []

    def pause(self) -> None:
        """Stops every process where it is."""
        self._stopped = self._pids()
        for pid in self._stopped:
            _signal(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets them go on."""
        for pid in self._stopped:
            _signal(pid, signal.SIGCONT)
        self._stopped = []

    def shut_down(self) -> None:
        """Ends the server in its own good order; its data stays."""
        if self._process is None:
            return
        self.resume()
        self._process.send_signal(self._recipe.stop_signal)
        try:
            self._process.wait(_STOP_S)
            self._process = None
        except subprocess.TimeoutExpired:
            self.kill()

    def stop(self) -> None:
        """Ends the server and removes everything that was made for it."""
        self.shut_down()
        shutil.rmtree(self.place.directory, ignore_errors=True)

    def last_words(self) -> str:
        """The end of the server's log, in one line."""
        if not self.place.log.exists():
            return "it wrote no log"
        lines = self.place.log.read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-_LOG_LINES:]) or "its log is empty"

    def _pids(self) -> list[int]:
        return [] if self._process is None else [self._process.pid, *_descendants(self._process.pid)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _owner(user: str) -> Owner | None:
    if os.geteuid() != 0:
        return None
    for name in (user, "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Owner(entry.pw_uid, entry.pw_gid)
    raise DatabaseUnavailable(f"there is no user {user} and no nobody to run a server as")


def _ownership(place: Place) -> dict[str, Any]:
    if place.owner is None:
        return {}
    return {"user": place.owner.uid, "group": place.owner.gid, "extra_groups": []}


def _tied_to_us() -> list[str]:
    """A prefix that has the kernel end the server when we die without a word."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


def _descendants(pid: int) -> list[int]:
    """All processes below one, by what the kernel lists: some servers put each child into a group of its own."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *_descendants(child)]
    return found


def _signal(pid: int, which: signal.Signals) -> None:
    try:
        os.kill(pid, which)
    except ProcessLookupError:
        return
