"""Text of others, as it may be shown: ids, names of files and sessions, and what servers say may hold anything.

A terminal obeys some characters (escape sequences, the bell, returns) and some turn what follows around or hide it. Each
of them is written as an escape, a newline too: what is meant to be one line stays one.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from typing import Any

# As wide as the terminal, within what can be read; where there is none, as wide as can be read.
_WIDEST, _NARROWEST = 110, 60
WIDTH = (
    max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))
    if sys.stdout is not None and sys.stdout.isatty()
    else _WIDEST
)
"""How many signs a line of running text has at most."""
FIT = max(_NARROWEST, shutil.get_terminal_size().columns) if sys.stdout is not None and sys.stdout.isatty() else 2**31
"""How wide the terminal is, which breaks longer lines in the middle of a word; where there is none, no line is too long."""
_DRAWN = str.maketrans("┌├└─▶", "││   ")
# A command is one line, so that it can be copied.
_COMMAND = re.compile(r"\s*again\b")

Paint = Callable[[str, str], str]
"""Gives a text a colour."""

# Bytes of a file's name that are no UTF-8, as Python keeps them.
_FIRST_BYTE, _LAST_BYTE, _BYTES = 0xDC80, 0xDCFF, 0xDC00


def visible(text: str) -> str:
    r"""The text with everything escaped that is not simply a sign on the screen.

    >>> print(visible("a\x1b[31mb\nc\u202ed\udcffe"))
    a\x1b[31mb\nc\u202ed\xffe
    """
    return text if text.isprintable() else "".join(sign if sign.isprintable() else _escape(sign) for sign in text)


def _escape(sign: str) -> str:
    number = ord(sign)
    if _FIRST_BYTE <= number <= _LAST_BYTE:
        return f"\\x{number - _BYTES:02x}"
    return sign.encode("unicode_escape", "surrogatepass").decode()


def safe_lines(render: Callable[[Paint], Iterable[str]], paint: Paint) -> str:
    """The lines that ``render`` gives, as one text: each stays one line, and nothing has a colour but what it paints."""
    # Imported here: the program is to start quickly, and most calls of it need none of this.
    import secrets

    token = secrets.token_hex(8)
    painted: dict[str, str] = {}

    def mark(text: str, colour: str) -> str:
        place = f"<{token}-{len(painted)}>"
        painted[place] = paint(visible(text), colour)
        return place

    text = "\n".join(fitted(visible(line)) for line in render(mark))
    return re.sub(rf"<{token}-\d+>", lambda place: painted[place[0]], text)


def number_of(count: int, noun: str) -> str:
    """A count with what is counted.

    >>> number_of(1, "session"), number_of(2000, "read attributed"), number_of(0, "plan")
    ('1 session', '2,000 reads attributed', '0 plans')
    """
    first, *rest = noun.split(" ")
    return f"{count:,} {' '.join([first if count == 1 else f'{first}s', *rest])}"


def fitted(line: str, width: int = FIT) -> str:
    """The line in as many as it takes in the terminal, those that follow indented under it; what is drawn at its left goes on.

    >>> print(fitted("│    │ rw x  T1 read x = 0, which T2 replaced by x = 1.", 40))
    │    │ rw x  T1 read x = 0, which T2
    │    │   replaced by x = 1.
    """
    if len(line) <= width or _COMMAND.match(line):
        return line
    # Imported here: most calls of the program need no lines to be broken.
    import textwrap

    drawn = re.match(r"[\s│┌├└─▶]*", line)
    before = drawn[0].translate(_DRAWN) if drawn else ""
    wrapped = textwrap.wrap(
        line[len(before) :],
        width - len(before),
        subsequent_indent="  ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    first, *rest = wrapped or [""]
    return "\n".join([line[: len(before)] + first, *(before + more for more in rest)])


def dumped(content: object) -> str:
    r"""One line of JSON, in which every sign that is not simply one is escaped as JSON has it.

    >>> print(dumped({"id": "a\x9b\u202eä"}))
    {"id": "a\u009b\u202eä"}
    """
    return printable_json(json.dumps(content, ensure_ascii=False))


def printable_json(text: str) -> str:
    """The same for what is JSON already, on one line."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else _json_escape(sign) for sign in text)


def _json_escape(sign: str) -> str:
    escaped: Any = json.dumps(sign)
    return str(escaped[1:-1]) if escaped[1:2] == "\\" else f"\\u{ord(sign):04x}"
