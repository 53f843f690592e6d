"""A private Galera cluster: several MariaDBs on loopback that certify each other's transactions."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from isolde.databases.servers.mariadb import Mariadb, program
from isolde.databases.servers.process import Place, Server, free_port, new_secret, run_as_owner, written_for_owner
from isolde.errors import DatabaseUnavailable, UsageError

_LIBRARIES = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")
_INSTALL = "install galera-4, rsync and openssl (Debian)"
_KEY, _CERTIFICATE = "group-key.pem", "group-certificate.pem"
_KEYS = {"key": _KEY, "cert": _CERTIFICATE, "ca": _CERTIFICATE}
_NODES_MIN, _NODES_MAX = 2, 9


class GaleraNode(Mariadb):
    """One member; ``group`` are the ports at which the members find each other, its own is at ``index``."""

    name = "galera"

    def __init__(
        self,
        group: tuple[int, ...] = (0,),
        index: int = 0,
        keys: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        super().__init__(None, **settings)
        # Members copy their first data from each other with the one, and know each other by keys of the other.
        program("rsync", self.name, _INSTALL)
        program("openssl", self.name, _INSTALL)
        self._keys = keys or {}
        self._library = _library()
        self._group, self._index = group, index
        self._incremental, self._transfer = free_port(), free_port()

    def initialise(self, place: Place) -> None:
        for name, content in self._keys.items():
            written_for_owner(place, name, content)
        if self._index == 0:
            super().initialise(place)
        else:
            # The others get everything from the first.
            run_as_owner(["mkdir", str(place.data)], place, {}, self.name)

    def command(self, place: Place) -> list[str]:
        group = self._group[self._index]
        provider = {
            "base_host": "127.0.0.1",
            "base_port": group,
            "gmcast.listen_addr": f"tcp://127.0.0.1:{group}",
            "ist.recv_addr": f"127.0.0.1:{self._incremental}",
            "gcache.size": "32M",
            # The ports of the group ask for no password: who has no key is not let in.
            **{f"socket.ssl_{kind}": place.directory / file for kind, file in _KEYS.items()},
        }
        members = ",".join(f"127.0.0.1:{port}" for port in self._group)
        return [
            *super().command(place),
            *("--wsrep-on=ON", f"--wsrep-provider={self._library}", "--wsrep-cluster-name=isolde"),
            f"--wsrep-cluster-address=gcomm://{'' if self.founds(place) else members}",
            *(f"--wsrep-node-name=n{self._index}", f"--wsrep-node-address=127.0.0.1:{group}"),
            *("--wsrep-sst-method=rsync", f"--wsrep-sst-receive-address=127.0.0.1:{self._transfer}"),
            "--wsrep-provider-options=" + ";".join(f"{name}={value}" for name, value in provider.items()),
            *("--binlog-format=ROW", "--innodb-autoinc-lock-mode=2"),
        ]

    def founds(self, place: Place) -> bool:
        """Whether this member has to make the cluster anew: it is the very first, or was the last to leave."""
        state = place.data / "grastate.dat"
        return "safe_to_bootstrap: 1" in state.read_text() if state.exists() else self._index == 0


class Cluster:
    """Several servers that are one database; ``nodes`` can be killed and paused one by one."""

    name = "galera"

    def __init__(self, nodes: int = 2, **settings: object) -> None:
        if not _NODES_MIN <= nodes <= _NODES_MAX:
            raise UsageError(f"a Galera cluster of {nodes} nodes cannot be started; {_NODES_MIN} to {_NODES_MAX} can")
        group = tuple(free_port() for _ in range(nodes))
        keys = _new_keys()
        self._recipes = [GaleraNode(group, index, keys, **settings) for index in range(nodes)]
        # The others get everything from the first, its password too.
        secret = new_secret()
        started: list[Server] = []
        with ExitStack() as undo:
            for recipe in self._recipes:
                started.append(undo.enter_context(Server(recipe, secret)))
            undo.pop_all()
        self.nodes = tuple(started)

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{node.place.port}" for node in self.nodes)
        return f"mariadb://root:{self.nodes[0].place.secret}@{hosts}/test"

    @property
    def version(self) -> str:
        return f"{self.nodes[0].version}, {len(self.nodes)} Galera nodes"

    def start(self) -> None:
        """Starts the nodes that are down; those that were all killed find their last cluster together again."""
        founder = [
            node
            for node, recipe in zip(self.nodes, self._recipes, strict=True)
            if recipe.founds(node.place) and not any(node.running for node in self.nodes)
        ]
        for node in founder[:1]:
            node.start()
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.await_ready()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def pause(self) -> None:
        for node in self.nodes:
            node.pause()

    def resume(self) -> None:
        for node in self.nodes:
            node.resume()

    def shut_down(self) -> None:
        """The first node last: it makes the cluster anew."""
        for node in reversed(self.nodes):
            node.shut_down()

    def stop(self) -> None:
        for node in reversed(self.nodes):
            # Nothing of it is kept, so nobody has to say goodbye to anybody.
            node.kill()
            node.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _new_keys() -> dict[str, str]:
    """A key and its certificate, which are also their own authority: the members have the same, and nobody else has it."""
    command = [program("openssl", "galera", _INSTALL), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-batch"]
    command += ["-subj", "/CN=isolde", "-days", "3650"]
    with tempfile.TemporaryDirectory() as place:
        key, certificate = Path(place) / _KEY, Path(place) / _CERTIFICATE
        done = subprocess.run(
            [*command, "-keyout", str(key), "-out", str(certificate)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise DatabaseUnavailable(f"galera: openssl makes no keys: {done.stderr.strip().splitlines()[-1]}")
        return {path.name: path.read_text() for path in (key, certificate)}


def _library() -> str:
    for library in _LIBRARIES:
        if Path(library).exists():
            return library
    raise DatabaseUnavailable(f"galera: no libgalera_smm.so was found; {_INSTALL}")
