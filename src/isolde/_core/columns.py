"""Histories as the core holds them, and the files that they come from and go to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from isolde._core import _native
from isolde._core._native import History as _NativeHistory
from isolde._core._native import Input as _NativeInput
from isolde._core._native import Orders as _NativeOrders
from isolde._core.entry import THREADS, enter

Compression = Literal["plain", "gzip", "zstd"]
FailedCas = Literal["aborted", "compared"]


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file is read.

    ``failed_cas`` is what a failed compare-and-set of a Jepsen history means: that it did not take place (``aborted``), or that
    it found another value (``compared``). Limits are in bytes: of a line, and of all once it is unpacked; ``None`` is the core's
    own. ``initial`` is what every key of another tool's file holds at first, if not what such files usually mean.
    """

    failed_cas: FailedCas = "aborted"
    line_bytes: int | None = None
    size_bytes: int | None = None
    initial: int | None = None

    @property
    def core(self) -> tuple[bool, int | None, int | None, int | None]:
        """As the core takes it."""
        return self.failed_cas == "compared", self.line_bytes, self.size_bytes, self.initial


AS_USUAL = Reading()


@dataclass(frozen=True, slots=True)
class Counts:
    """How large a history is."""

    transactions: int
    committed: int
    aborted: int
    unknown: int
    sessions: int
    operations: int
    keys: int


@dataclass(frozen=True, slots=True)
class PacePart:
    """What ended in one part of a history's time; ``took``: the median and the longest time of those that committed."""

    committed: int
    aborted: int
    unknown: int
    took: tuple[int, int] | None


class Columns:
    """A history in columns, immutable. Transactions are named by their position in the file."""

    __slots__ = ("_native", "name")

    def __init__(self, native: _NativeHistory, name: str) -> None:
        self._native = native
        self.name = name

    @classmethod
    def read(cls, path: str | None, format: str = "jsonl", *, threads: int = THREADS) -> Columns:
        """Reads a file (plain, gzip, zstd) of a format; ``None`` is standard input."""
        return Input.open(path).read(format, threads=threads)

    @classmethod
    def read_directory(cls, path: str, format: str, reading: Reading = AS_USUAL) -> Columns:
        """Reads a history that is a directory."""
        return cls(enter(lambda: _native.read_directory(format, path, reading.core), path), path)

    @classmethod
    def from_jsonl(cls, text: bytes, name: str = "history") -> Columns:
        """Reads JSON Lines in memory."""
        return cls(enter(lambda: _NativeHistory.from_jsonl(text), name), name)

    def to_jsonl(self, transactions: Sequence[int] | None = None) -> bytes:
        """JSON Lines of these transactions, or of the whole history."""
        rows = None if transactions is None else list(transactions)
        return enter(lambda: self._native.to_jsonl(rows), self.name)

    def write_jsonl(self, path: str | None, compression: Compression = "plain") -> None:
        """Writes JSON Lines; ``None`` is standard output."""
        enter(lambda: self._native.write_jsonl(path, compression), path or "standard output")

    def write_parquet(self, path: str) -> None:
        """Writes Parquet."""
        enter(lambda: self._native.write_parquet(path), path)

    def write_foreign(
        self,
        format: str,
        path: str | None,
        compression: Compression = "plain",
        *,
        failed_cas: FailedCas = "aborted",
        lossy: bool = False,
    ) -> tuple[str, ...]:
        """Writes another tool's format; gives what was renamed or left out, and refuses what would change the meaning.

        ``lossy``: what would change it is left out as well.
        """
        name, compared = path or "standard output", failed_cas == "compared"
        return tuple(enter(lambda: self._native.write_foreign(format, path, compression, compared, lossy), name))

    def counts(self) -> Counts:
        """How large it is."""
        return Counts(*self._native.counts())

    def pace(self, parts: int) -> tuple[int, list[PacePart]] | None:
        """The length of one of ``parts`` equal parts of the history's time, and what ended in each; ``None`` without times."""
        found = self._native.pace(parts)
        return None if found is None else (found[0], [PacePart(*one) for one in found[1]])

    def components(self, most: int, *, session_order: bool = True) -> list[tuple[list[int], bytes]] | None:
        """At most so many parts of about equal size without a common key or session: the transactions of each, and their JSON
        Lines. ``None``: it is all one, or has operations without a key (statements, predicates).
        """
        return enter(lambda: self._native.components(session_order, most), self.name)

    def ids(self, transactions: Sequence[int]) -> list[int | str]:
        """The names of these transactions."""
        return [json.loads(name) for name in self._native.ids(list(transactions))]

    def lines(self, transactions: Sequence[int]) -> list[int]:
        """The lines of the file that these transactions came from; 0 where it has none."""
        return self._native.lines(list(transactions))

    def plain_certificate(self, text: bytes) -> PlainCertificate | None:
        """A certificate's text matched with this history over keys; ``None`` if it is not plain, or something does not fit."""
        found = enter(lambda: self._native.plain_certificate(text), self.name)
        if found is None:
            return None
        orders, complete, serial = found
        return PlainCertificate(None if orders is None else ToldOrders(orders, self._native), complete, serial)


Place = tuple[int, int]
"""A transaction's position in the history, and the place of one of its operations."""


class ToldOrders(Sequence[Sequence[Place | None]]):
    """Orders of versions that the core has read itself; they become Python's only if somebody looks at them."""

    __slots__ = ("_history", "_native", "_places")

    def __init__(self, native: _NativeOrders, history: _NativeHistory) -> None:
        self._native, self._history = native, history
        self._places: list[list[Place | None]] | None = None

    def __len__(self) -> int:
        return len(self._native)

    @overload
    def __getitem__(self, index: int) -> Sequence[Place | None]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sequence[Place | None]]: ...
    def __getitem__(self, index: int | slice) -> Sequence[Any]:
        if self._places is None:
            self._places = self._native.places(self._history)
        return self._places[index]


@dataclass(frozen=True, slots=True)
class PlainCertificate:
    """A certificate that has nothing but orders of keys, ``complete`` if all are whole, or nothing but a serial order."""

    orders: ToldOrders | None
    complete: bool
    serial: Sequence[int] | None


class Input:
    """A file or standard input, unpacked if need be and looked into. It can be read once."""

    __slots__ = ("_native", "head", "name")

    def __init__(self, native: _NativeInput, name: str) -> None:
        self._native = native
        self.name = name
        self.head = native.head()

    @classmethod
    def open(cls, path: str | None) -> Input:
        """Opens a file; ``None`` is standard input."""
        name = path or "standard input"
        return cls(enter(lambda: _NativeInput.open(path), name), name)

    @classmethod
    def of(cls, content: bytes, name: str) -> Input:
        """What is in memory already; ``name`` is what messages call it."""
        return cls(_NativeInput.of(content), name)

    def content(self, reading: Reading = AS_USUAL) -> bytes:
        """Everything, as it is."""
        return enter(lambda: self._native.content(reading.core), self.name)

    def read(self, format: str, reading: Reading = AS_USUAL, *, threads: int = THREADS) -> Columns:
        """The history in this format: ``jsonl``, ``parquet`` or one of :func:`foreign_formats`."""
        return Columns(enter(lambda: self._native.read(format, threads, reading.core), self.name), self.name)


def foreign_formats() -> list[str]:
    """The formats of other tools that the core knows."""
    return _native.foreign_formats()


def write_lines(text: bytes, path: str | None, compression: Compression = "plain") -> None:
    """Writes a text as it is, packed if asked for; ``None`` is standard output."""
    enter(lambda: _native.write_lines(text, path, compression), path or "standard output")


def write_lines_as_parquet(text: bytes, path: str) -> None:
    """Writes the lines of a text to Parquet, a row each, in the one column ``line``."""
    enter(lambda: _native.write_lines_as_parquet(text.decode(), path), path)


def lines_of_parquet(source: Input) -> bytes:
    """The text whose lines :func:`write_lines_as_parquet` wrote."""
    return enter(lambda: source._native.lines(AS_USUAL.core), source.name)
