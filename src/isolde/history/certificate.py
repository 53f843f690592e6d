"""Certificates as frozen data: what the database itself says about its order, beside a history.

An *object* is a key of a key-value history, or a row of a table by its primary key. A *version* is named by the transaction
that wrote it and the place of the operation among the transaction's; ``None`` is the initial version, present or absent.

>>> row = RowId("accounts", (1,))
>>> told = Certificate("by hand", {row: Installed((None, ("t3", 1), ("t9", 0)))}, commits=("t3", "t9"))
>>> told.objects[row].versions[-1]
('t9', 0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isolde.history.model import Key, Scalar, TxnId


@dataclass(frozen=True, slots=True)
class RowId:
    """A row of a table: the values of its primary key, in the order of the key's columns."""

    table: str
    key: tuple[Scalar, ...]


ObjectId = Key | RowId
VersionId = tuple[TxnId, int]
"""Who wrote the version, and the place of the operation that did, counted from 0."""


@dataclass(frozen=True, slots=True)
class Installed:
    """The versions of one object in the order in which they were installed, oldest first; ``None`` only first.

    Without ``partial`` they are all that there are; of a transaction that writes the object several times, the last is enough.
    """

    versions: tuple[VersionId | None, ...]
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Sees:
    """The committed transactions that an operation could see: the first ``first`` of the certificate's ``commits``, without
    ``without`` and with ``also``. Its own transaction's earlier writes come on top."""

    first: int = 0
    without: tuple[TxnId, ...] = ()
    also: tuple[TxnId, ...] = ()


@dataclass(frozen=True, slots=True)
class VersionSet:
    """The versions that one operation worked on.

    ``sees`` says it by transactions. ``versions`` says it object by object and overrides ``sees`` for the objects that it names;
    without ``sees``, the objects that it does not name are at their initial version, and own writes must be named.
    """

    sees: Sees | None = None
    versions: Mapping[ObjectId, VersionId | None] | None = None


@dataclass(frozen=True, slots=True)
class Certificate:
    """Everything that was told.

    ``commits`` only abbreviates ``sees``; ``serial`` is the order in which the database says that its transactions took effect,
    exactly the committed ones. ``source`` is who says so, in words.
    """

    source: str = ""
    objects: Mapping[ObjectId, Installed] = field(default_factory=dict)
    commits: tuple[TxnId, ...] = ()
    reads: Mapping[VersionId, VersionSet] = field(default_factory=dict)
    """The version sets of operations, by transaction and place."""
    serial: tuple[TxnId, ...] | None = None
