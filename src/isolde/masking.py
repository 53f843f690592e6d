"""The one place that knows what of a database's address is secret: whatever is shown or recorded of one goes through it.

A URL is shown but for its password and the options that hold one. What a driver's ``connect`` takes can be written in many ways,
so that only what is known to be harmless is shown of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, unquote_plus

HIDDEN = "***"

_SECRET_NAME = re.compile(r"pass|pwd|secret|token|credential|auth|(api|access|private).?key|^p$", re.IGNORECASE)
# A value goes on to the next name, or to the end: a password may well hold a sign that was meant to end it.
_OPTION = re.compile(r"([?&;])([^=?&;]*)=(.*?)(?=&|;[\w.%+-]+=|$)", re.DOTALL)
# fmt: off
_HARMLESS = frozenset((
    "application_name", "autocommit", "autoserver", "cache", "cached_statements", "catalog", "charset",
    "check_same_thread", "classname", "connect_timeout", "connecttimeout", "database", "db", "db_close_delay",
    "dbname", "driver", "dsn", "encoding", "file", "filename", "host", "hostaddr", "hostname", "ifexists",
    "isolation_level", "jars", "jclassname", "lock_timeout", "login", "mode", "name", "path", "port", "protocol",
    "read_only", "readonly", "role", "schema", "server", "ssl", "sslmode", "timeout", "uid", "uri", "url", "user",
    "username",
))
# fmt: on
# name = value, where a value is quoted, in braces, or goes on to the next name or the end.
_PAIR = re.compile(
    r"""(?P<name>[\w.%+-]+)(?P<is>\s*=\s*)
        (?P<value>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"|\{(?:[^}]|\}\})*\}|.*?)
        (?=\s*[&;,\s]\s*[\w.%+-]+\s*=|\s*$)""",
    re.VERBOSE | re.DOTALL,
)
# As some write it: user/password@host.
_SLASHED = re.compile(r"^([^/\s@:=]+)/([^@]+)@")
_FRAGMENT = re.compile(r"[@/?#:%&=;,\s'\"{}]+")
_SHORT = 3


def masked_url(url: str) -> str:
    """A database's URL as it may be shown and saved.

    >>> masked_url("postgresql://me:secret@localhost/test")
    'postgresql://me:***@localhost/test'
    >>> masked_url("postgresql://localhost/test?user=me&PassWord=secret&sslmode=disable")
    'postgresql://localhost/test?user=me&PassWord=***&sslmode=disable'
    """
    shown = _OPTION.sub(lambda found: f"{found[1]}{found[2]}={_option(found[2], found[3])}", url)
    head, separator, tail = shown.partition("://")
    account, at, place = tail.rpartition("@")
    if not separator or not at or ":" not in account:
        return shown
    return f"{head}://{account.partition(':')[0]}:{HIDDEN}@{place}"


def masked_connect(text: str) -> str:
    """What a driver's ``connect`` takes, as it may be shown and saved.

    >>> masked_connect("host=localhost password='a b' dbname=x")
    'host=localhost password=*** dbname=x'
    >>> masked_connect('{"database": "a.db", "key": "k", "driver_args": ["sa", "x"]}')
    '{"database": "a.db", "key": "***", "driver_args": "***"}'
    """
    if text.lstrip().startswith("{"):
        try:
            arguments = json.loads(text)
        except ValueError:
            return HIDDEN
        if isinstance(arguments, dict):
            return json.dumps({name: _argument(name, value) for name, value in arguments.items()}, ensure_ascii=False)
    shown = _SLASHED.sub(rf"\1/{HIDDEN}@", text)
    shown = _PAIR.sub(_pair, shown) if "://" not in shown.partition("=")[0] else shown
    return masked_url(shown) if "://" in shown else shown


def secrets_of(text: str) -> Iterator[str]:
    """The parts of an address that are not to be seen anywhere, as they are written and as they are meant."""
    if text.lstrip().startswith("{"):
        with_text = [text]
        try:
            with_text = list(_hidden_values(json.loads(text)))
        except ValueError:
            return
        for value in with_text:
            yield from _forms(value)
        return
    account = text.partition("://")[2].rpartition("@")[0]
    yield from _forms(account.partition(":")[2])
    for found in _OPTION.finditer(text):
        if _SECRET_NAME.search(unquote_plus(found[2])):
            yield from _forms(found[3])
    if "://" not in text:
        slashed = _SLASHED.match(text)
        if slashed:
            yield from _forms(slashed[2])
        for pair in _PAIR.finditer(text):
            if _SECRET_NAME.search(unquote(pair["name"])):
                yield from _forms(pair["value"])


def hide(text: str, secrets: Iterable[str]) -> str:
    """Somebody's words about an address without its secrets; of one that was taken apart, without the parts.

    >>> hide('invalid port "ret" in "se:ret"', secrets_of("postgresql://me:se:ret@localhost/test"))
    'invalid port "***" in "***"'
    """
    for secret in sorted(set(secrets), key=len, reverse=True):
        # A short one is hidden where it stands alone: to hide every letter "a" would leave nothing to read.
        pattern = re.escape(secret) if len(secret) > _SHORT else rf"(?<!\w){re.escape(secret)}(?!\w)"
        text = re.sub(pattern, HIDDEN, text)
    return text


def _option(name: str, value: str) -> str:
    return HIDDEN if value and _SECRET_NAME.search(unquote_plus(name)) else value


def _pair(found: re.Match[str]) -> str:
    name = unquote(found["name"]).lower()
    harmless = name in _HARMLESS or not found["value"]
    return f"{found['name']}{found['is']}{found['value'] if harmless else HIDDEN}"


def _argument(name: str, value: object) -> object:
    if name.lower() not in _HARMLESS:
        return value if value in (None, True, False) else HIDDEN
    if isinstance(value, str):
        return masked_connect(value) if "=" in value or "@" in value else value
    return value if isinstance(value, int | float | bool) or value is None else HIDDEN


def _hidden_values(value: object, name: str = "") -> Iterator[str]:
    """Every text inside of a JSON value that is not shown."""
    if isinstance(value, dict):
        for inner, content in value.items():
            yield from _hidden_values(content, inner)
    elif isinstance(value, list):
        for content in value:
            yield from _hidden_values(content, name)
    elif isinstance(value, str):
        if name.lower() in _HARMLESS:
            yield from secrets_of(value)
        else:
            yield value


def _forms(secret: str) -> Iterator[str]:
    """A secret, what it means, and the pieces that a parser may make of it."""
    plain = secret.strip("'\"")
    for form in (secret, plain, unquote(plain), unquote_plus(plain)):
        yield from (part for part in (form, *_FRAGMENT.split(form)) if part)
