"""Database URLs: ``scheme://user:password@host:port/name?option=value``, and ``scheme:path`` for embedded ones."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from isolde.errors import UsageError
from isolde.masking import hide, masked_url, secrets_of


@dataclass(frozen=True, slots=True)
class Address:
    """A server, a user and a database, as a URL names them; what it leaves out is ``None``."""

    host: str | None
    port: int | None
    user: str | None
    password: str | None
    database: str | None
    options: dict[str, str]


def scheme_of(url: str) -> str:
    """What stands before the first colon."""
    return url.partition(":")[0].lower()


def address_of(url: str) -> Address:
    """The parts of a server's URL.

    >>> address_of("mariadb://root@localhost:3306/test").port
    3306
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{masked_url(url)} is not a database URL: {hide(str(error), secrets_of(url))}") from None
    return Address(
        host=parts.hostname,
        port=port,
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        database=unquote(parts.path.lstrip("/")) or None,
        options=dict(parse_qsl(parts.query)),
    )


def seconds_of(address: Address, name: str, default: float) -> float:
    """A time that a URL gives as an option.

    >>> seconds_of(address_of("mariadb://localhost/test?connect_timeout=2.5"), "connect_timeout", 10.0)
    2.5
    """
    text = address.options.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text, re.ASCII) or float(text) == 0:
        raise UsageError(f"{name}={text}: write a number of seconds, for example {name}={default:g}")
    return float(text)


def path_of(url: str) -> Path | None:
    """The file that an embedded database's URL names; ``None`` for a temporary one.

    >>> path_of("sqlite:"), str(path_of("sqlite:a.db")), str(path_of("sqlite:///b.db")), str(path_of("sqlite:////c.db"))
    (None, 'a.db', 'b.db', '/c.db')
    """
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        # As SQLAlchemy writes them: three slashes before a relative path, four before an absolute one.
        rest = rest[2:].partition("/")[2]
    return Path(os.fspath(unquote(rest))) if rest else None


def addresses_of(url: str) -> tuple[Address, ...]:
    """The parts of a URL that may name several servers of one database.

    >>> [(a.host, a.port, a.database) for a in addresses_of("mariadb://root@a:1,b/test")]
    [('a', 1, 'test'), ('b', None, 'test')]
    """
    head, separator, tail = url.partition("://")
    place, slash, path = tail.partition("/")
    account, at, hosts = place.rpartition("@")
    return tuple(address_of(f"{head}{separator}{account}{at}{host}{slash}{path}") for host in hosts.split(","))
