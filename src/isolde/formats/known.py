"""Every format that histories are read from and written to: its name, its suffixes, and how its files begin."""

from __future__ import annotations

import re
from dataclasses import dataclass

from isolde._core import Compression
from isolde.errors import UsageError

PARQUET = "parquet"
NOTATION = "notation"
JSONL = "jsonl"
COBRA = "cobra"
PORCUPINE = "porcupine"
TIMEKILLER = "timekiller"


@dataclass(frozen=True, slots=True)
class Format:
    """A format; ``begins`` matches the first bytes of its files, unless it is a directory. ``written``: not only read."""

    name: str
    tool: str
    suffixes: tuple[str, ...]
    begins: re.Pattern[bytes] | None
    packable: bool = True
    written: bool = True


def _begins(*alternatives: bytes) -> re.Pattern[bytes]:
    return re.compile(b"|".join(alternatives))


_EDN_BLANK = rb"(?:[\s,]|;[^\n]*\n)*"
_HIST_BLANK = rb"(?:\s|//[^\n]*(?:\n|\Z)|-{3,}[ \t]*\n)*"
_NOTATION_BLANK = rb"(?:[\s|]|#[^\n]*(?:\n|\Z))*"

# Asked in this order; the first that fits is it. No two fit the same file, except that any object may be JSON Lines and that
# an array of nothing is a history of no operations.
FORMATS = (
    Format(PARQUET, "Isolde", (".parquet",), _begins(rb"PAR1"), packable=False),
    # Six numbers of eight bytes: what the run was like, and the length of a text. All but the first are small.
    Format("dbcop-bincode", "dbcop", (".bincode",), _begins(rb"(?s:.{8}(?:.{4}\0{4}){5})")),
    Format(
        "elle-edn",
        "Jepsen, Elle",
        (".edn",),
        _begins(
            _EDN_BLANK + rb"(?:[\[(]" + _EDN_BLANK + rb")?(?:#\w[\w./*+!?<>=-]*\s*)?\{" + _EDN_BLANK + rb":",
            rb"\s*[;(]",
        ),
    ),
    Format(PORCUPINE, "Porcupine", (".etcd.log",), _begins(rb"INFO\s+jepsen\.util - "), written=False),
    Format(
        TIMEKILLER,
        "TimeKiller, Aion",
        (".timekiller.json",),
        _begins(rb'\s*\[\s*\{\s*"(?:tid|sid|sts|cts|ops|rtts)"'),
        written=False,
    ),
    Format("elle-json", "elle-cli", (".elle.json",), _begins(rb'\s*\[\s*(?:\{\s*"|\]\s*\Z)')),
    Format(
        "dbcop-json",
        "dbcop",
        (".dbcop.json",),
        _begins(
            rb"\s*\[\s*\[",
            rb'\s*\{\s*"(?:params"\s*:\s*\{|data"\s*:\s*\[|info"\s*:\s*"|(?:start|end)"\s*:\s*")',
        ),
    ),
    Format("dbcop-hist", "dbcop", (".hist",), _begins(_HIST_BLANK + rb"\[\s*(?:\w+(?::=|==)|\])", rb"\s*//")),
    Format("plume", "Plume, PolySI, IsoVista, MTC", (".plume",), _begins(rb"\s*[rw]\(\d+,\d+,\d+,-?\d+\)")),
    Format("awdit", "AWDIT", (".awdit",), _begins(rb"[\s=-]*[rw][ \t]+\d+[ \t]+\d+\s")),
    Format(COBRA, "Cobra", (".cobra",), None, packable=False),
    Format(JSONL, "Isolde", (".jsonl", ".json"), _begins(rb"\s*\{", rb"\s*\Z")),
    Format(
        NOTATION,
        "Isolde",
        (".txt",),
        _begins(_NOTATION_BLANK + rb'(?:\Z|(?:"(?:[^"\\]|\\.)*"|[\w.+-]+)[ \t]*:)'),
        packable=False,
    ),
)
_SHOWN = sorted(FORMATS, key=lambda entry: (entry.tool != "Isolde", entry.name))
NAMES = tuple(entry.name for entry in _SHOWN)
WRITTEN = tuple(entry.name for entry in _SHOWN if entry.written)
SUFFIXES = tuple(suffix for entry in _SHOWN if entry.written for suffix in entry.suffixes)
PACKINGS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def format_named(name: str) -> Format:
    """The format of that name."""
    for entry in FORMATS:
        if entry.name == name:
            return entry
    raise UsageError(f"unknown format {name!r}; use one of {', '.join(NAMES)}")


def recognised(head: bytes) -> Format | None:
    """The format of a file that begins like this."""
    head = head.removeprefix(_BYTE_ORDER_MARK)
    return next((entry for entry in FORMATS if entry.begins and entry.begins.match(head)), None)


def format_of_suffix(path: str) -> Format | None:
    """The format that the longest fitting suffix names; what it is packed in does not count."""
    for packing in PACKINGS:
        path = path.removesuffix(packing)
    fitting = [(len(suffix), entry) for entry in FORMATS for suffix in entry.suffixes if path.endswith(suffix)]
    return max(fitting, key=lambda found: found[0])[1] if fitting else None
