"""Which adapters there are: ours, and those that other packages name in the entry-point group ``isolde.databases``."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol

from isolde.databases.contract import Adapter, Database, Offer
from isolde.databases.urls import scheme_of
from isolde.errors import DatabaseUnavailable, UsageError
from isolde.levels import Level, implies, level_named
from isolde.masking import masked_url

GROUP = "isolde.databases"

# In the order in which they are listed.
_OURS = ("sqlite", "duckdb", "postgresql", "mariadb", "etcd", "redis")


class _Offering(Protocol):
    def offers(self) -> tuple[Offer, ...]: ...


@cache
def adapters() -> tuple[Adapter, ...]:
    """All adapters; no driver is imported for it. An entry point that cannot be loaded is named, with the reason."""
    found: list[Adapter] = [import_module(f"isolde.databases.{name}").ADAPTER for name in _OURS]
    for point in entry_points(group=GROUP):
        try:
            adapter = point.load()
        except Exception as error:
            raise UsageError(f"the database adapter '{point.name}' ({point.value}) cannot be loaded: {error}") from None
        if not isinstance(adapter, Adapter):
            raise UsageError(f"the entry point '{point.name}' ({point.value}) is no isolde.databases.Adapter")
        found.append(adapter)
    return tuple(found)


def adapter_named(name: str) -> Adapter:
    """The adapter of a URL's scheme, or of a database's name."""
    known = {scheme: adapter for adapter in adapters() for scheme in (adapter.name, *adapter.schemes)}
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    raise UsageError(f"no adapter for the database '{name}'{hint} ('isolde databases' lists them)")


def open_database(url: str) -> tuple[Adapter, Database]:
    """The database that a URL names, and its adapter."""
    if ":" not in url:
        raise UsageError(
            f"{url} is not a database URL; write for example postgresql://user@host/name, or sqlite:{url} for a file"
        )
    _refuse_signs(url)
    adapter = adapter_named(scheme_of(url))
    refuse_without_driver(adapter, masked_url(url))
    return adapter, adapter.open(url)


def refuse_without_driver(adapter: Adapter, shown: str) -> None:
    """Says that the database called so cannot be talked to, if its driver is not there."""
    reason = unusable(adapter)
    if reason:
        raise DatabaseUnavailable(f"{shown}: {reason}; try: {adapter.install}")


def _refuse_signs(url: str) -> None:
    """What no driver takes: a sign that ends texts in C, and in a server's address bytes that are no text."""
    if "\0" in url or ("://" in url and not url.isascii() and not _encodes(url)):
        raise UsageError(f"{masked_url(url)} is not a database URL: it holds bytes that are no UTF-8, or a zero byte")


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unusable(adapter: Adapter) -> str:
    """Why no driver of the adapter can be used; nothing if one can, or none is needed."""
    drivers = [name for name in (adapter.driver, adapter.fallback) if name]
    reasons = []
    for name in drivers:
        try:
            import_module(name)
        except ImportError as error:
            reasons.append(f"the driver {name} is not installed ({error})")
        else:
            return ""
    return ", and ".join(reasons)


def offer_named(database: _Offering, name: str) -> Offer:
    """The level that the database offers under this name, long or short, or else the weakest that claims as much.

    Of several that claim it, the first: adapters list the one with the least locking first.
    """
    offers = database.offers()
    wanted = name.lower().replace(" ", "-").replace("_", "-")
    try:
        level: Level | None = level_named(wanted)
    except UsageError:
        level = None
    for offer in offers:
        if offer.name == wanted or (level is not None and offer.name == level.value):
            return offer
    for offer in offers:
        if offer.claims is level:
            return offer
    for offer in offers:
        # Whoever asks for serializable is served by a level that gives more.
        if level is not None and implies(offer.claims, level):
            return offer
    names = [offer.name for offer in offers]
    close = difflib.get_close_matches(wanted, names, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    raise UsageError(f"the database offers no isolation level '{name}'; it has {', '.join(names)}{hint}")
