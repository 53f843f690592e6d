"""One private server: a recipe says how it is made, this file keeps its processes.

The server listens on a free loopback port, has a password that nobody else knows, keeps its data in a temporary directory,
and runs as an unprivileged user when we are root, since several servers refuse to run as root. It is ended with us, whatever
happens to us short of a power cut: a context manager for the ordinary way, the kernel's parent-death signal for the others.
"""

from __future__ import annotations

import atexit
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol, Self

from isolde.databases.servers.directory import HeldDirectory
from isolde.errors import DatabaseUnavailable

_PREPARE_S = 300.0
_START_S = 60.0
_STOP_S = 20.0
_GONE_S = 10.0
_LOG_LINES = 5
_PORTS_TRIED_MAX = 5


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
    secret: str = field(default="", repr=False)
    """The password of this server alone: the port is open to every user of the machine."""

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
        """Fills the data directory; uses ``run_as_owner``. The port may still change after it."""

    def command(self, place: Place) -> list[str]:
        """The server's program and arguments, to stay in the foreground. Everybody can read them: no secret may be among them."""

    def environment(self) -> dict[str, str]:
        """What is added to the environment."""

    def ready(self, place: Place) -> bool:
        """Whether the server answers; called again and again, and quick."""

    def close_to_others(self, place: Place) -> None:
        """Called once, when the server answers for the first time: whatever only a running server can be told."""

    def url(self, place: Place) -> str:
        """How adapters find it, with its password."""


class Running(Protocol):
    """What was started: one server, or a cluster of them. A context manager that ends it."""

    @property
    def name(self) -> str: ...

    @property
    def url(self) -> str:
        """How adapters find it."""

    @property
    def version(self) -> str:
        """What its program calls itself."""

    @property
    def nodes(self) -> tuple[Server, ...]:
        """The servers that it consists of."""

    def start(self) -> None:
        """Starts what is down on its old data, and waits until it answers."""

    def kill(self) -> None:
        """``kill -9`` of every process, without warning."""

    def pause(self) -> None:
        """Stops every process where it is."""

    def resume(self) -> None:
        """Lets them go on."""

    def shut_down(self) -> None:
        """Ends it in its own good order; its data stays."""

    def stop(self) -> None:
        """Ends it and removes everything that was made for it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class PortTaken(DatabaseUnavailable):
    """Somebody else listens on the port that was free a moment ago."""


def new_secret() -> str:
    """A password that nobody guesses, of letters and digits only."""
    return secrets.token_hex(16)


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


def pid_in(file: Path) -> int | None:
    """The process that a pid file names, if it lives: a killed server leaves its file behind."""
    try:
        pid = int(file.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    return None if _gone(pid) else pid


# Reads from a pipe that only we hold the other end of, beside the command: when we die, its end comes, and everything that the
# command started ends with it. The kernel's own signal would reach the command alone.
_WATCHED = """exec 3<&0
{ read -r _ <&3; kill -KILL 0; } </dev/null &
watcher=$!
"$@" 3<&- </dev/null
status=$?
kill "$watcher"
exit "$status"
"""


def written_for_owner(place: Place, name: str, content: str) -> Path:
    """A file in the server's directory that its user alone can read."""
    path = place.directory / name
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(content)
        if place.owner is not None:
            os.fchown(handle, place.owner.uid, place.owner.gid)
    return path


def run_as_owner(command: list[str], place: Place, environment: dict[str, str], name: str) -> str:
    """What a preparing command wrote when it came to its end; ``DatabaseUnavailable`` with its last words if it fails."""
    end, ours = os.pipe()
    try:
        # In a session of its own: Ctrl-C is ours to handle, and what it started in turn has to end before its files are removed.
        process: subprocess.Popen[str] = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHED, "sh", *command],
            **_ownership(place),
            env=os.environ | environment,
            cwd="/",
            stdin=end,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    except OSError as error:
        os.close(ours)
        raise DatabaseUnavailable(f"{name}: {command[0]} cannot be run: {error.strerror}") from None
    finally:
        os.close(end)
    try:
        out, errors = process.communicate(timeout=_PREPARE_S)
    except subprocess.TimeoutExpired:
        _end_with_children(process)
        raise DatabaseUnavailable(
            f"{name}: {Path(command[0]).name} did not come to its end within {_PREPARE_S:.0f} s"
        ) from None
    except BaseException:
        _end_with_children(process)
        raise
    finally:
        os.close(ours)
    if process.returncode:
        words = (errors or out).strip().splitlines()
        raise DatabaseUnavailable(f"{name}: {Path(command[0]).name} failed: {' / '.join(words[-_LOG_LINES:])}")
    text: str = out + errors
    return text


class Server:
    """A private server. ``stop`` it, or use it as a context manager.

    The servers of a cluster share one ``secret``; else each has its own.
    """

    def __init__(self, recipe: Recipe, secret: str | None = None) -> None:
        self._recipe = recipe
        self._directory = HeldDirectory(recipe.name)
        directory = self._directory.path
        owner = _owner(recipe.user)
        if owner is not None:
            os.chown(directory, owner.uid, owner.gid)
        self.place = Place(directory, free_port(), owner, secret or new_secret())
        self._process: subprocess.Popen[bytes] | None = None
        self._paused: list[int] = []
        # Whoever forgets us leaves no directory behind; the processes end by themselves.
        atexit.register(self.stop)
        try:
            recipe.initialise(self.place)
            self._start_where_free()
            recipe.close_to_others(self.place)
        except BaseException:
            self.stop()
            raise

    @property
    def name(self) -> str:
        return self._recipe.name

    @property
    def url(self) -> str:
        return self._recipe.url(self.place)

    @property
    def version(self) -> str:
        """What the program calls itself."""
        command = [self._recipe.command(self.place)[0], "--version"]
        return run_as_owner(command, self.place, self._recipe.environment(), self.name).strip().partition("\n")[0]

    @property
    def nodes(self) -> tuple[Server, ...]:
        """This one; a cluster has several."""
        return (self,)

    @property
    def running(self) -> bool:
        """Whether its process is there, paused or not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the server on its old data and waits until it answers."""
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """Starts the server's process; ``await_ready`` waits for it. Nothing happens if it runs."""
        if self.running:
            return
        command = [*_tied_to_us(), *self._recipe.command(self.place)]
        environment = os.environ | self._recipe.environment()

        def spawn() -> subprocess.Popen[bytes]:
            with self.place.log.open("ab") as log:
                return subprocess.Popen(
                    command,
                    **_ownership(self.place),
                    env=environment,
                    cwd=self.place.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

        try:
            self._process = _launcher(os.getpid()).submit(spawn).result()
        except OSError as error:
            raise DatabaseUnavailable(f"{self.name}: {command[0]} cannot be run: {error.strerror}") from None

    def await_ready(self) -> None:
        """Waits until the server that was launched answers."""
        assert self._process is not None, "launch comes first"
        deadline = time.monotonic() + _START_S
        while not self._recipe.ready(self.place):
            if self._process.poll() is not None:
                if port_open(self.place.port):
                    raise PortTaken(
                        f"{self.name}: another program took the port {self.place.port} meanwhile; try again"
                    )
                raise DatabaseUnavailable(f"{self.name}: the server ended while it started: {self.last_words()}")
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(f"{self.name}: no answer within {_START_S:.0f} s: {self.last_words()}")
            time.sleep(0.02)

    def _start_where_free(self) -> None:
        for _ in range(_PORTS_TRIED_MAX - 1):
            try:
                return self.start()
            except PortTaken:
                self.place = replace(self.place, port=free_port())
        return self.start()

    def kill(self) -> None:
        """``kill -9`` of the server and all of its processes, without warning; they are gone when it returns."""
        # Frozen first: a process that is still running could start another one that nobody would find.
        self.pause()
        pids, self._paused = self._paused, []
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            self._process = None
        # A PostgreSQL that starts while children of the killed one are still attached to its memory refuses to.
        _await_gone(pids)

    def pause(self) -> None:
        """Stops every process where it is."""
        while new := [pid for pid in self._pids() if pid not in self._paused]:
            for pid in new:
                _signal(pid, signal.SIGSTOP)
            self._paused += new
        # A signal that was sent has not arrived yet: on a busy machine the server may still answer for a moment.
        deadline = time.monotonic() + _GONE_S
        while any(_state(pid) in "RSD" for pid in self._paused) and time.monotonic() < deadline:
            time.sleep(0.005)

    def resume(self) -> None:
        """Lets them go on."""
        # The first one is the parent: it goes on last, when nothing that it waits for is still asleep.
        for pid in reversed(self._paused):
            _signal(pid, signal.SIGCONT)
        self._paused = []

    def shut_down(self) -> None:
        """Ends the server in its own good order; its data stays."""
        if self._process is None:
            return
        self.resume()
        pids = self._pids()
        self._process.send_signal(self._recipe.stop_signal)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None
        _await_gone(pids)

    def stop(self) -> None:
        """Ends the server and removes everything that was made for it."""
        atexit.unregister(self.stop)
        self.shut_down()
        self._directory.remove()

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


@cache
def _launcher(pid: int) -> ThreadPoolExecutor:  # noqa: ARG001
    """The one thread that starts servers, one for each process that we are (a fork has none of our threads).

    The parent whose death the kernel announces is a thread: a server that was started by a thread of the caller would be
    killed when that thread ends.
    """
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="isolde-servers")


def _descendants(pid: int) -> list[int]:
    """All processes below one, by what the kernel lists: some servers put each child into a group of its own."""
    found = []
    for task in _listed(Path(f"/proc/{pid}/task")):
        try:
            children = [int(word) for word in (task / "children").read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *_descendants(child)]
    return found


def _listed(directory: Path) -> list[Path]:
    """What is in a directory of the kernel's; nothing if its process ended while we looked."""
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _state(pid: int) -> str:
    """The kernel's letter for what a process does: R, S and D live, T is stopped, Z and X have ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def _gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has asked about yet (a zombie) has."""
    return _state(pid) in "ZX"


def _await_gone(pids: list[int]) -> None:
    """Waits for processes to end by themselves, and ends those that do not."""
    deadline = time.monotonic() + _GONE_S
    while left := [pid for pid in pids if not _gone(pid)]:
        if time.monotonic() > deadline:
            for pid in left:
                _signal(pid, signal.SIGKILL)
            return
        time.sleep(0.005)


def _end_with_children(process: subprocess.Popen[str]) -> None:
    """Kills a process and everything below it; what was just being started is found in another look."""
    frozen: list[int] = []
    while new := [pid for pid in (process.pid, *_descendants(process.pid)) if pid not in frozen]:
        for pid in new:
            _signal(pid, signal.SIGSTOP)
        frozen += new
    for pid in frozen:
        _signal(pid, signal.SIGKILL)
    process.wait()
    _await_gone(frozen)


def _signal(pid: int, which: signal.Signals) -> None:
    try:
        os.kill(pid, which)
    except ProcessLookupError:
        return
