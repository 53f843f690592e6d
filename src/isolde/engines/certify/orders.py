"""Orders of the versions of keys, and nothing else: the common certificate of a history over keys, without looking at its reads.

Hundreds of thousands of versions are matched with the writes of the history's columns. What is not plain (an outcome that is
unknown, version sets, something that does not fit) is left to ``fit.py`` and ``keyvalue.py``, which say what and where.
"""

from __future__ import annotations

from isolde._core import Columns
from isolde.engines.certify.fit import Place
from isolde.engines.certify.told import Told
from isolde.formats.certificates import PlacedCertificate
from isolde.history.certificate import RowId


def told_by_orders(columns: Columns, placed: PlacedCertificate) -> Told | None:
    """The orders as evidence; ``None`` if the certificate is not that plain."""
    certificate = placed.certificate
    if certificate.reads or certificate.serial is not None or not certificate.objects:
        return None
    aborted, unknown = columns.aborted()
    if unknown:
        return None
    names = columns.ids(range(columns.counts().transactions))
    positions = {name: at for at, name in enumerate(names)}
    if not all(name in positions for name in certificate.commits):
        return None
    keys = {name: at for at, name in enumerate(columns.keys())}
    gone = set(aborted)
    key_of: dict[Place, int] = {}
    last: dict[int, dict[int, int]] = {}
    for txn, place, key in zip(*columns.writes(), strict=True):
        key_of[txn, place] = key
        if txn not in gone:
            last.setdefault(key, {})[txn] = place
    versions: list[list[Place | None]] = []
    for thing, installed in certificate.objects.items():
        number = None if isinstance(thing, RowId) else keys.get(thing)
        if number is None:
            return None
        chain = _chain(installed.versions, positions, gone, key_of, number)
        if chain is None:
            return None
        if not installed.partial:
            written = {version[0]: version[1] for version in chain}
            if any(written.get(txn, -1) < place for txn, place in last.get(number, {}).items()):
                return None
        if chain:
            begins = not installed.partial or installed.versions[0] is None
            versions.append([None, *chain] if begins else list(chain))
    told = {
        keys[thing] for thing, one in certificate.objects.items() if not isinstance(thing, RowId) and not one.partial
    }
    return Told(columns, (), versions, complete=told >= set(last))


def told_serial(columns: Columns, placed: PlacedCertificate) -> tuple[int, ...] | None:
    """The serial order by positions, if it is all that is told and has exactly the committed transactions."""
    certificate = placed.certificate
    if certificate.serial is None or certificate.objects or certificate.reads or certificate.commits:
        return None
    aborted, unknown = columns.aborted()
    names = columns.ids(range(columns.counts().transactions))
    positions = {name: at for at, name in enumerate(names)}
    if unknown or len(certificate.serial) != len(names) - len(aborted):
        return None
    gone = {names[at] for at in aborted}
    if not all(name in positions and name not in gone for name in certificate.serial):
        return None
    return tuple(positions[name] for name in certificate.serial)


def _chain(
    listed: tuple[tuple[int | str, int] | None, ...],
    positions: dict[int | str, int],
    gone: set[int],
    key_of: dict[Place, int],
    key: int,
) -> list[Place] | None:
    """The last version of each transaction, in order; ``None`` if one does not fit, or a transaction comes back after another."""
    chain: list[Place] = []
    seen: set[int] = set()
    for version in listed:
        if version is None:
            continue
        txn = positions.get(version[0], -1)
        place = (txn, version[1])
        if key_of.get(place) != key or txn in gone:
            return None
        if chain and chain[-1][0] == txn:
            chain[-1] = place
        elif txn in seen:
            return None
        else:
            seen.add(txn)
            chain.append(place)
    return chain
