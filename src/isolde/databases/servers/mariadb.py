"""A private MariaDB."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from isolde.databases.servers.mysql_ping import answers
from isolde.databases.servers.process import Place, pid_in, run_as_owner, written_for_owner
from isolde.errors import DatabaseUnavailable

_INSTALL = "install mariadb-server (Debian)"
# Debian keeps servers where only root looks.
_SYSTEM = "/usr/sbin:/usr/local/sbin:/usr/libexec"
# As it is while the server makes its tables: without ALTER USER, which wants them to be there.
_CLOSED = """
DELETE FROM mysql.global_priv WHERE User <> 'root' AND User <> 'mariadb.sys';
UPDATE mysql.global_priv SET Priv = JSON_SET(
    Priv, '$.plugin', 'mysql_native_password', '$.authentication_string', PASSWORD('{secret}')
) WHERE User = 'root';
"""


class Mariadb:
    """Settings are those of the server's command line, with underscores; ``programs`` is the ``bin`` of a server's tree."""

    name = "mariadb"
    user = "mysql"
    stop_signal = signal.SIGTERM

    def __init__(self, programs: str | None = None, **settings: object) -> None:
        self._tree: list[str] = []
        if programs is None:
            self._server, self._install = program("mariadbd", self.name), program("mariadb-install-db", self.name)
        else:
            tree = Path(programs).parent
            self._server, self._install = f"{programs}/mariadbd", f"{tree}/scripts/mariadb-install-db"
            self._tree = [f"--basedir={tree}"]
        self._settings = settings

    def initialise(self, place: Place) -> None:
        # The database "test" is among what it makes; so are users without a name or a password.
        sql = written_for_owner(place, "password.sql", _CLOSED.format(secret=place.secret))
        command = [
            *(self._install, "--no-defaults", *self._tree, f"--datadir={place.data}", f"--tmpdir={place.directory}"),
            *("--auth-root-authentication-method=normal", "--skip-name-resolve", f"--extra-file={sql}"),
        ]
        run_as_owner(command, place, {}, self.name)
        sql.unlink()

    def command(self, place: Place) -> list[str]:
        settings = {
            "datadir": place.data,
            "port": place.port,
            "bind_address": "127.0.0.1",
            "socket": place.directory / "socket",
            "pid_file": place.directory / "pid",
            "tmpdir": place.directory,
            **self._settings,
        }
        options = [f"--{name.replace('_', '-')}={_written(value)}" for name, value in settings.items()]
        return [self._server, "--no-defaults", *self._tree, "--skip-name-resolve", *options]

    def environment(self) -> dict[str, str]:
        return {}

    def ready(self, place: Place) -> bool:
        # The pid file is ours; whoever answers at the port might be somebody else's.
        return pid_in(place.directory / "pid") is not None and answers(place.port, place.secret)

    def close_to_others(self, place: Place) -> None:
        """It was from the start."""

    def url(self, place: Place) -> str:
        return f"mariadb://root:{place.secret}@127.0.0.1:{place.port}/test"


def program(name: str, kind: str, install: str = _INSTALL) -> str:
    """Where a program is, or why there is none."""
    found = shutil.which(name) or shutil.which(name, path=_SYSTEM)
    if found is None:
        raise DatabaseUnavailable(f"{kind}: no program '{name}' was found; {install}")
    return found


def _written(value: object) -> str:
    return ("OFF", "ON")[value] if isinstance(value, bool) else str(value)
