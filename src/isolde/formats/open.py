"""Any history file: which format it is, and how it is read and written."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from isolde._core import AS_USUAL, Columns, Compression, FailedCas, Input, Reading
from isolde.errors import InputError, MalformedHistory, MalformedNotation, UsageError, not_written
from isolde.formats import porcupine, timekiller
from isolde.formats.jsonl import decode_history, encode_history
from isolde.formats.known import (
    COBRA,
    JSONL,
    NAMES,
    PACKINGS,
    SUFFIXES,
    WRITTEN,
    Format,
    format_named,
    format_of_suffix,
    recognised,
)
from isolde.formats.recording import finished, is_recording, read_sessions
from isolde.history import History, parse_with_lines, render

STDIO = "-"
# The notation is for people, and each of its bytes costs many while it is read.
_NOTATION_BYTES = 64 * 2**20
_SHOWN_BYTES = 20


def read(path: str, format: str | None = None, reading: Reading = AS_USUAL) -> Columns:
    """The history at ``path``; ``-`` is standard input. The content tells its format, unless ``format`` names it."""
    if format is not None:
        format_named(format)
    if format is None and is_recording(path):
        whole = finished(path)
        if whole is None:
            return read_sessions(Path(path))
        path, format = whole, JSONL
    if format == COBRA or (format is None and _is_cobra(path)):
        return Columns.read_directory(path, COBRA, reading)
    source = Input.open(None if path == STDIO else path)
    name = format or _told_by_content(source)
    match name:
        case "notation":
            return _read_notation(source, reading)
        case "porcupine":
            return _read_porcupine(source, reading)
        case "timekiller":
            return encode(timekiller.history_of(_text(source, reading), source.name), name=source.name)
        case _:
            return source.read(name, reading)


def _is_cobra(path: str) -> bool:
    """A directory of logs; any other one is refused when it is opened."""
    try:
        return Path(path).is_dir() and any(Path(path).glob("*.log"))
    except OSError:
        return False


def _told_by_content(source: Input) -> str:
    found = recognised(source.head)
    if found is None:
        shown = repr(source.head[:_SHOWN_BYTES].decode(errors="replace"))
        raise InputError(
            f"{source.name}: begins with {shown}, like no history that Isolde knows; name its format with --format"
            f" ({', '.join(NAMES)})"
        )
    return found.name


def _text(source: Input, reading: Reading) -> str:
    try:
        return source.content(reading).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{source.name}: byte {error.start} is not UTF-8; expected a history") from error


def _read_porcupine(source: Input, reading: Reading) -> Columns:
    events = porcupine.as_edn(_text(source, reading)).encode()
    # What a failed compare-and-set found is what these logs are about.
    return Input.of(events, source.name).read("elle-edn", replace(reading, failed_cas="compared"))


def _read_notation(source: Input, reading: Reading) -> Columns:
    text = _text(source, replace(reading, size_bytes=reading.size_bytes or _NOTATION_BYTES))
    try:
        found = parse_with_lines(text)
    except MalformedNotation as error:
        error.file = source.name
        raise
    try:
        return encode(found.history, name=source.name)
    except MalformedHistory as error:
        error.line = found.line_of(error.line)
        raise


def write(
    columns: Columns,
    path: str,
    format: str | None = None,
    *,
    failed_cas: FailedCas = "aborted",
    lossy: bool = False,
) -> tuple[str, ...]:
    """Writes to ``path`` in the format named, or else in that of its suffix; ``-`` is standard output.

    Gives what the format could not carry, a sentence each; what would change the history's meaning is refused, or with ``lossy``
    left out as well. ``failed_cas`` is how the file will be read.
    """
    known = _format_to_write(path, format)
    packing: Compression = "plain"
    for suffix, name in PACKINGS.items():
        if path.endswith(suffix):
            packing = name
    if packing != "plain" and not known.packable:
        raise UsageError(f"{path}: {known.name} is not packed; leave out {Path(path).suffix}")
    target = None if path == STDIO else path
    if target is None:
        sys.stdout.flush()
    match known.name:
        case "parquet":
            columns.write_parquet(_to_a_file(target, known))
        case "notation":
            return _write_notation(columns, target)
        case "jsonl":
            columns.write_jsonl(target, packing)
        case "cobra":
            return columns.write_foreign(known.name, _to_a_file(target, known), failed_cas=failed_cas, lossy=lossy)
        case other:
            return columns.write_foreign(other, target, packing, failed_cas=failed_cas, lossy=lossy)
    return ()


def _format_to_write(path: str, name: str | None) -> Format:
    found = format_of_suffix(path) if name is None else format_named(name)
    if found is not None and not found.written:
        raise UsageError(f"{path}: {found.name} is read only; write one of {', '.join(WRITTEN)}")
    if name is None and path == STDIO:
        return format_named(JSONL)
    if found is None:
        raise UsageError(
            f"{path}: the suffix names no format; use one of {', '.join(SUFFIXES)} (.gz or .zst may follow)"
        )
    return found


def _to_a_file(path: str | None, known: Format) -> str:
    if path is None:
        what = "a directory" if known.name == COBRA else "a file"
        raise UsageError(f"{known.name} is written to {what}, not to standard output")
    return path


def _write_notation(columns: Columns, path: str | None) -> tuple[str, ...]:
    history = decode(columns)
    text = render(history, separator="\n") + "\n"
    if path is None:
        sys.stdout.write(text)
    else:
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise not_written(f"{path}: {error.strerror}", error) from None
    return _left_out_of_notation(history)


def _left_out_of_notation(history: History) -> tuple[str, ...]:
    """What the notation has no place for. None of it is asked for a verdict."""
    transactions = history.transactions
    there = {
        "meta": history.meta is not None,
        "unknown fields of the header": bool(history.extra),
        "serial": any(t.serial is not None for t in transactions),
        "level": any(t.level is not None for t in transactions),
        "unknown fields of transactions": any(t.extra for t in transactions),
    }
    names = [name for name, is_there in there.items() if is_there]
    return (f"{', '.join(names)} are left out",) if names else ()


def encode(history: History, *, name: str = "history") -> Columns:
    """The nouns in columns."""
    return Columns.from_jsonl(encode_history(history), name)


def decode(columns: Columns, transactions: list[int] | None = None) -> History:
    """The columns as nouns: all, or these transactions by position. For what people look at, not for millions."""
    return decode_history(columns.to_jsonl(transactions))


def is_sql(columns: Columns) -> bool:
    """Whether a history is about SQL tables, by what its header says of them."""
    header = decode(columns, [])
    early = header.meta if isinstance(header.meta, dict) else {}
    return "schema" in header.extra or "schema" in early
