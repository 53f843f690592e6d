"""Any history file: which format it is, and how it is read and written."""

from __future__ import annotations

import sys
from pathlib import Path

from isolde._core import Columns
from isolde.errors import InputError, MalformedNotation, UsageError
from isolde.formats.jsonl import decode_history, encode_history
from isolde.history import History, parse, render

STDIO = "-"
_SUFFIXES = {
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".jsonl.gz": "gzip",
    ".jsonl.zst": "zstd",
    ".parquet": "parquet",
    ".txt": "notation",
}
_HEAD_BYTES = 1 << 16


def read(path: str) -> Columns:
    """The history at ``path``; ``-`` is standard input. JSON Lines, Parquet and the short notation are told by content."""
    if path == STDIO:
        return Columns.read(None)
    try:
        with Path(path).open("rb") as file:
            is_regular = file.seekable()
            head = file.read(_HEAD_BYTES) if is_regular else b""
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    if is_regular and _is_notation(head):
        return _read_notation(path)
    return Columns.read(path)


def _is_notation(head: bytes) -> bool:
    """Comments, ``initial:`` or ``s1:``; JSON and the packed formats start otherwise."""
    if head.startswith((b"PAR1", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xef\xbb\xbf")):
        return False
    first = head.lstrip()[:1]
    return bool(first) and (first in b'#"-' or first.isalnum())


def _read_notation(path: str) -> Columns:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; expected a history") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    try:
        history = parse(text)
    except MalformedNotation as error:
        error.file = path
        raise
    return encode(history, name=path)


def write(columns: Columns, path: str) -> None:
    """Writes to ``path`` in the format that its suffix names; ``-`` is JSON Lines on standard output."""
    if path == STDIO:
        sys.stdout.flush()
        columns.write_jsonl(None)
        return
    suffixes = sorted((s for s in _SUFFIXES if path.endswith(s)), key=len)
    if not suffixes:
        raise UsageError(f"{path}: the suffix names no format; use one of {', '.join(_SUFFIXES)}")
    match _SUFFIXES[suffixes[-1]]:
        case "parquet":
            columns.write_parquet(path)
        case "gzip":
            columns.write_jsonl(path, "gzip")
        case "zstd":
            columns.write_jsonl(path, "zstd")
        case "notation":
            _write_notation(columns, path)
        case _:
            columns.write_jsonl(path)


def _write_notation(columns: Columns, path: str) -> None:
    try:
        Path(path).write_text(render(decode(columns), separator="\n") + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def encode(history: History, *, name: str = "history") -> Columns:
    """The nouns in columns."""
    return Columns.from_jsonl(encode_history(history), name)


def decode(columns: Columns, transactions: list[int] | None = None) -> History:
    """The columns as nouns: all, or these transactions by position. For what people look at, not for millions."""
    return decode_history(columns.to_jsonl(transactions))
