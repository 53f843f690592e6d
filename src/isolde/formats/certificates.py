"""Certificates on disk (version 1): read with the line of everything that is wrong, written whole or line by line.

Three forms with one content: ``.jsonl``, ``.jsonl.zst`` (or ``.gz``), and ``.parquet``, which has the lines as rows of the one
column ``line``. The certificate of the history ``NAME.jsonl`` is called ``NAME.certificate.jsonl``, and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from isolde._core import Compression, Input, lines_of_parquet, write_lines, write_lines_as_parquet
from isolde.errors import InputError, MalformedCertificate, UsageError, not_written
from isolde.formats.recording import finished, is_recording
from isolde.history import TxnId
from isolde.history.certificate import (
    Certificate,
    Installed,
    ObjectId,
    RowId,
    Sees,
    VersionId,
    VersionSet,
)
from isolde.history.json_text import DECODER, json_text

_SUFFIXES: dict[str, Compression | None] = {
    ".jsonl": "plain",
    ".jsonl.zst": "zstd",
    ".jsonl.gz": "gzip",
    ".parquet": None,
}
_WORD = "certificate"
_VERSION = 1
_HEADER = {"isolde": _WORD, "version": _VERSION}
_SHOWN = 60
_NAMES = (int, str)


@dataclass(frozen=True, slots=True)
class Lines:
    """Where each part of a certificate stands; 0 where it was never in a file."""

    objects: Mapping[ObjectId, int] = field(default_factory=dict)
    reads: Mapping[VersionId, int] = field(default_factory=dict)
    commits: int = 0
    serial: int = 0


@dataclass(frozen=True, slots=True)
class PlacedCertificate:
    """A certificate, the file that it was read from, and the lines of its parts."""

    certificate: Certificate
    file: str = "certificate"
    lines: Lines = field(default_factory=Lines)


@dataclass(frozen=True, slots=True)
class CertificateFile:
    """A certificate that was opened and not yet read: the core may take what it needs from the text itself."""

    file: str
    content: bytes

    def read(self) -> PlacedCertificate:
        """What it says; :class:`MalformedCertificate` names the line of the first thing that is wrong in it."""
        return parse_certificate(self.content, self.file)


# Names


def certificate_path(history: str) -> str:
    """The name of the certificate that stands beside a history.

    >>> certificate_path("runs/bank.jsonl.zst"), certificate_path("bank.parquet")
    ('runs/bank.certificate.jsonl.zst', 'bank.certificate.parquet')
    """
    stem, suffix = _split(history)
    return f"{stem}.certificate{suffix or '.jsonl'}"


def sidecar(history: str) -> str | None:
    """The certificate that stands beside a history, in the history's own form or another; ``None`` if there is none."""
    if history == "-":
        return None
    if Path(history).is_dir():
        whole = finished(history) if is_recording(history) else None
        return None if whole is None else sidecar(whole)
    stem, suffix = _split(history)
    names = [suffix, *(other for other in _SUFFIXES if other != suffix)] if suffix else list(_SUFFIXES)
    paths = (f"{stem}.certificate{name}" for name in names)
    return next((path for path in paths if Path(path).is_file()), None)


def _split(path: str) -> tuple[str, str]:
    """A path without its suffix, and the suffix; empty if it is none of a certificate's."""
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if path.endswith(suffix) and not path.endswith(f".{_WORD}{suffix}"):
            return path.removesuffix(suffix), suffix
    return path.removesuffix(".txt"), ""


# Reading


def read_certificate(path: str) -> PlacedCertificate:
    """The certificate at ``path``; :class:`MalformedCertificate` names the line of the first thing that is wrong in it."""
    return open_certificate(path).read()


def open_certificate(path: str) -> CertificateFile:
    """The certificate at ``path``, unpacked and not yet read; ``-`` is standard input."""
    source = Input.open(None if path == "-" else path)
    content = lines_of_parquet(source) if source.head.startswith(b"PAR1") else source.content()
    return CertificateFile(source.name, content)


def parse_certificate(content: bytes, file: str = "certificate") -> PlacedCertificate:
    """The certificate in these JSON Lines."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: byte {error.start} is not UTF-8; expected a certificate") from error
    return _Reader(file).whole(text.split("\n"))


class _Reader:
    """Takes line after line, and knows which one it is at."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.line = 0
        self.source = ""
        self.objects: dict[ObjectId, Installed] = {}
        self.reads: dict[VersionId, VersionSet] = {}
        self.commits: tuple[TxnId, ...] | None = None
        self.serial: tuple[TxnId, ...] | None = None
        self.object_lines: dict[ObjectId, int] = {}
        self.read_lines: dict[VersionId, int] = {}
        self.commits_line = self.serial_line = 0
        self.prefixes: dict[int, VersionSet] = {}

    def whole(self, lines: Iterable[str]) -> PlacedCertificate:
        headed = False
        for number, text in enumerate(lines, start=1):
            if not text or text.isspace():
                continue
            self.line = number
            try:
                content, end = DECODER.raw_decode(text) if text[0] == "{" else (None, 0)
                if end != len(text):
                    content = DECODER.decode(text)
            except (ValueError, RecursionError):
                raise self.wrong(f"{text.strip()[:_SHOWN]!r} is no JSON", "one JSON object a line") from None
            if not isinstance(content, dict):
                raise self.wrong(f"{_shown(content)} is no object", "one JSON object a line")
            if not headed:
                self.header(content)
                headed = True
            else:
                self.content(content)
        if not headed:
            self.line = 1
            raise self.wrong("there is no line", f"the header {json_text(_HEADER)}")
        lines_of = Lines(self.object_lines, self.read_lines, self.commits_line, self.serial_line)
        told = Certificate(self.source, self.objects, self.commits or (), self.reads, self.serial)
        self.check_prefixes(told)
        return PlacedCertificate(told, self.file, lines_of)

    def header(self, line: dict[str, Any]) -> None:
        if line.get("isolde") != _WORD:
            raise self.wrong(f"the first line is {_shown(line)}", f"the header {json_text(_HEADER)}")
        if line.get("version") != _VERSION or isinstance(line.get("version"), bool):
            raise self.wrong(f'"version" is {_shown(line.get("version"))}', "1")
        source = line.get("source", "")
        if not isinstance(source, str):
            raise self.wrong(f'"source" is {_shown(source)}', "a text")
        self.source = source

    def content(self, line: dict[str, Any]) -> None:
        if "read" in line and "sees" in line and "object" not in line:
            self.read(line["read"], line)
            return
        match line:
            case {"read": operation} if ("sees" in line or "versions" in line) and "object" not in line:
                self.read(operation, line)
            case {"object": named, "versions": listed}:
                self.object(named, listed, line.get("partial", False))
            case {"commits": listed}:
                if self.commits is not None:
                    raise self.wrong(f'a second "commits" line (the first is line {self.commits_line})', "one at most")
                self.commits, self.commits_line = self.transactions("commits", listed), self.line
            case {"serial": listed}:
                if self.serial is not None:
                    raise self.wrong(f'a second "serial" line (the first is line {self.serial_line})', "one at most")
                self.serial, self.serial_line = self.transactions("serial", listed), self.line
            case _:
                raise self.wrong(
                    f"{_shown(line)} says nothing known",
                    'a line with "object" and "versions", "read" and "sees" or "versions", "commits" or "serial"',
                )

    def object(self, named: Any, listed: Any, partial: Any) -> None:
        thing = self.named_object(named)
        if thing in self.objects:
            raise self.wrong(
                f"a second line for {_shown(named)} (the first is line {self.object_lines[thing]})", "one at most"
            )
        if not isinstance(partial, bool):
            raise self.wrong(f'"partial" is {_shown(partial)}', "true or false")
        if not isinstance(listed, list):
            raise self.wrong(f'"versions" is {_shown(listed)}', "a list of versions")
        versions: list[VersionId | None] = []
        for place, one in enumerate(listed):
            if one is None and place:
                raise self.wrong("null, the initial version, is not first in its line", "null only first")
            versions.append(None if one is None else self.version(one))
        self.objects[thing], self.object_lines[thing] = Installed(tuple(versions), partial), self.line

    def read(self, operation: Any, line: dict[str, Any]) -> None:
        place = self.version(operation, "an operation")
        if place in self.reads:
            raise self.wrong(
                f"a second line for the read {_shown(operation)} (the first is line {self.read_lines[place]})",
                "one at most",
            )
        sees = line.get("sees")
        if len(line) == 2 and type(sees) is dict and len(sees) == 1:
            # What nearly all lines are: a prefix of the commits, which many operations share.
            first = sees.get("first")
            if type(first) is int and first >= 0:
                known = self.prefixes.get(first)
                if known is None:
                    known = self.prefixes[first] = VersionSet(Sees(first))
                self.reads[place], self.read_lines[place] = known, self.line
                return
        sees = self.sees(sees) if sees is not None else None
        told: dict[ObjectId, VersionId | None] | None = None
        if line.get("versions") is not None:
            told = self.version_set(line["versions"])
        if sees is None and told is None:
            raise self.wrong('"sees" and "versions" are both null', "one of them")
        self.reads[place], self.read_lines[place] = VersionSet(sees, told), self.line

    def sees(self, content: Any) -> Sees:
        if not isinstance(content, dict):
            raise self.wrong(f'"sees" is {_shown(content)}', 'an object with "first", "except" and "also"')
        first = content.get("first", 0)
        if isinstance(first, bool) or not isinstance(first, int) or first < 0:
            raise self.wrong(f'"first" is {_shown(first)}', "a number of transactions")
        without = self.transactions("except", content.get("except", []))
        return Sees(first, without, self.transactions("also", content.get("also", [])))

    def version_set(self, listed: Any) -> dict[ObjectId, VersionId | None]:
        if not isinstance(listed, list):
            raise self.wrong(f'"versions" is {_shown(listed)}', "a list of pairs, an object and its version each")
        told: dict[ObjectId, VersionId | None] = {}
        for pair in listed:
            if not isinstance(pair, list) or len(pair) != 2:
                raise self.wrong(f"{_shown(pair)} in a version set", "an object and its version")
            thing = self.named_object(pair[0])
            if thing in told:
                raise self.wrong(f"the object {_shown(pair[0])} twice in one version set", "one version of each")
            told[thing] = None if pair[1] is None else self.version(pair[1])
        return told

    def named_object(self, named: Any) -> ObjectId:
        match named:
            case str():
                return named
            case int() if not isinstance(named, bool):
                return named
            case [str(table), list(key)] if key and not any(isinstance(part, list | dict) for part in key):
                return RowId(table, tuple(key))
            case _:
                raise self.wrong(f"{_shown(named)} names no object", "a key, or [table, [primary key...]]")

    def version(self, raw: Any, what: str = "a version") -> VersionId:
        # There are many, and most are right.
        if type(raw) is list and len(raw) == 2 and type(raw[1]) is int and type(raw[0]) in _NAMES and raw[1] >= 0:
            return (raw[0], raw[1])
        kind = what.split()[-1]
        raise self.wrong(f"{_shown(raw)} names no {kind}", f"{what} as [transaction, place of the operation]")

    def transactions(self, field: str, listed: Any) -> tuple[TxnId, ...]:
        if not isinstance(listed, list):
            raise self.wrong(f'"{field}" is {_shown(listed)}', "a list of transactions")
        seen: set[TxnId] = set()
        for name in listed:
            if isinstance(name, bool) or not isinstance(name, int | str):
                raise self.wrong(f'{_shown(name)} in "{field}" names no transaction', "an integer or a string")
            if name in seen:
                raise self.wrong(f'{_shown(name)} stands twice in "{field}"', "each transaction once")
            seen.add(name)
        return tuple(listed)

    def check_prefixes(self, told: Certificate) -> None:
        for place, seen in told.reads.items():
            if seen.sees is not None and seen.sees.first > len(told.commits):
                self.line = self.read_lines[place]
                raise self.wrong(
                    f'"first" is {seen.sees.first}', f'at most {len(told.commits)}, the length of "commits"'
                )

    def wrong(self, found: str, expected: str) -> MalformedCertificate:
        return MalformedCertificate(self.file, self.line, found, expected)


def _shown(value: Any) -> str:
    text = json_text(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


# Writing


def write_certificate(certificate: Certificate, path: str) -> None:
    """Writes to ``path``, in the form that its suffix names; ``-`` is standard output."""
    with CertificateWriter(path, certificate.source) as writer:
        for thing, installed in certificate.objects.items():
            writer.installed(thing, installed.versions, partial=installed.partial)
        if certificate.commits:
            writer.commits(certificate.commits)
        for place, seen in certificate.reads.items():
            writer.read(place, seen)
        if certificate.serial is not None:
            writer.serial(certificate.serial)


def encode_certificate(certificate: Certificate) -> bytes:
    """The JSON Lines of a certificate."""
    lines = list(certificate_lines(certificate))
    return ("\n".join(json_text(line) for line in lines) + "\n").encode()


def certificate_lines(certificate: Certificate) -> Iterator[dict[str, Any]]:
    """The lines of a certificate, as values that :func:`json_text` can write."""
    yield {**_HEADER, "source": certificate.source} if certificate.source else dict(_HEADER)
    for thing, installed in certificate.objects.items():
        yield _object_line(thing, installed)
    if certificate.commits:
        yield {"commits": certificate.commits}
    for place, seen in certificate.reads.items():
        yield _read_line(place, seen)
    if certificate.serial is not None:
        yield {"serial": certificate.serial}


class CertificateWriter:
    """Writes a certificate line by line, as it becomes known: lines may come in any order.

    Plain JSON Lines are on disk as soon as they are written; the other forms are packed when the writer is closed. Left by an
    exception, a packed form is not written.
    """

    def __init__(self, path: str, source: str = "") -> None:
        _, suffix = _split_certificate(path)
        if path != "-" and suffix not in _SUFFIXES:
            raise UsageError(f"{path}: a certificate is written to {', '.join(_SUFFIXES)}")
        self.path = path
        self._form = "plain" if path == "-" else _SUFFIXES[suffix]
        self._held: list[str] = []
        self._file: Any = None
        if self._form == "plain" and path != "-":
            try:
                self._file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115
            except OSError as error:
                raise not_written(f"{path}: {error.strerror}", error) from None
        self._put({**_HEADER, "source": source} if source else dict(_HEADER))

    def installed(self, thing: ObjectId, versions: Iterable[VersionId | None], *, partial: bool = False) -> None:
        """The order of the versions of one object."""
        self._put(_object_line(thing, Installed(tuple(versions), partial)))

    def commits(self, transactions: Iterable[TxnId]) -> None:
        """The order that ``sees`` counts in."""
        self._put({"commits": tuple(transactions)})

    def read(self, place: VersionId, seen: VersionSet) -> None:
        """The version set of one operation."""
        self._put(_read_line(place, seen))

    def serial(self, transactions: Iterable[TxnId]) -> None:
        """The order in which the transactions took effect."""
        self._put({"serial": tuple(transactions)})

    def close(self) -> None:
        """Writes out what is held back."""
        if self._file is not None:
            self._file.close()
            return
        text = ("\n".join(self._held) + "\n").encode()
        if self._form is None:
            write_lines_as_parquet(text, self.path)
        else:
            write_lines(text, None if self.path == "-" else self.path, self._form)

    def __enter__(self) -> CertificateWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or self._file is not None:
            self.close()

    def _put(self, line: dict[str, Any]) -> None:
        text = json_text(line)
        if self._file is not None:
            self._file.write(text + "\n")
            self._file.flush()
        else:
            self._held.append(text)


def _split_certificate(path: str) -> tuple[str, str]:
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if path.endswith(suffix):
            return path.removesuffix(suffix), suffix
    return path, ""


def object_name(thing: ObjectId) -> Any:
    """An object as a certificate's JSON has it."""
    return [thing.table, list(thing.key)] if isinstance(thing, RowId) else thing


def _object_line(thing: ObjectId, installed: Installed) -> dict[str, Any]:
    line: dict[str, Any] = {"object": object_name(thing), "versions": installed.versions}
    return {**line, "partial": True} if installed.partial else line


def _read_line(place: VersionId, seen: VersionSet) -> dict[str, Any]:
    line: dict[str, Any] = {"read": place}
    if seen.sees is not None:
        parts = {"first": seen.sees.first, "except": seen.sees.without, "also": seen.sees.also}
        line["sees"] = {name: value for name, value in parts.items() if value or name == "first"}
    if seen.versions is not None:
        line["versions"] = [[object_name(thing), version] for thing, version in seen.versions.items()]
    return line
