"""JSON in which every value knows its line, so that what is wrong with it can be told with its place."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NoReturn

from isolde.errors import MalformedSchedule
from isolde.history.json_text import DECODER

_BLANK = re.compile(r"[ \t\n\r]*")
_DEPTH_MAX = 100


@dataclass(frozen=True, slots=True)
class Placed:
    """A value at a line. The elements of a list and the values of an object are placed, too."""

    value: Any
    line: int

    @property
    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, list):
            return [element.plain for element in self.value]
        if isinstance(self.value, dict):
            return {name: element.plain for name, element in self.value.items()}
        return self.value


def read_placed(text: str, file: str) -> Placed:
    """The one value that a text holds; ``MalformedSchedule`` names the line of what is no JSON."""
    return _Reader(text, file).whole()


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self._text, self._file, self._at = text, file, 0
        self._lines = [match.start() for match in re.finditer("\n", text)]

    def whole(self) -> Placed:
        value = self._value(0)
        if self._peek():
            self._fail(f"more text after the end ({self._shown()})", "one JSON value")
        return value

    def _value(self, depth: int) -> Placed:
        sign = self._peek()
        line = self._line()
        if depth > _DEPTH_MAX:
            self._fail("a value nested too deeply", f"at most {_DEPTH_MAX} levels")
        if sign == "{":
            return Placed(self._object(depth), line)
        if sign == "[":
            return Placed(self._list(depth), line)
        if sign == '"':
            return Placed(self._string(), line)
        try:
            value, self._at = DECODER.raw_decode(self._text, self._at)
        except (ValueError, RecursionError):
            self._fail(self._shown(), "a JSON value")
        return Placed(value, line)

    def _list(self, depth: int) -> list[Placed]:
        self._at += 1
        found: list[Placed] = []
        if self._took("]"):
            return found
        while True:
            found.append(self._value(depth + 1))
            if self._took("]"):
                return found
            self._expect(",", "',' or ']'")

    def _object(self, depth: int) -> dict[str, Placed]:
        self._at += 1
        found: dict[str, Placed] = {}
        if self._took("}"):
            return found
        while True:
            if self._peek() != '"':
                self._fail(self._shown(), "a name in double quotes")
            name = self._string()
            if name in found:
                self._fail(f"the name {json.dumps(name)} for the second time", "each name once")
            self._expect(":", "':'")
            found[name] = self._value(depth + 1)
            if self._took("}"):
                return found
            self._expect(",", "',' or '}'")

    def _string(self) -> str:
        try:
            text, self._at = scanstring(self._text, self._at + 1, True)
        except ValueError:
            self._fail("a string that is not closed, or holds a control character or a wrong escape", "a JSON string")
        return str(text)

    def _peek(self) -> str:
        blank = _BLANK.match(self._text, self._at)
        self._at = blank.end() if blank else self._at
        return self._text[self._at : self._at + 1]

    def _took(self, sign: str) -> bool:
        if self._peek() != sign:
            return False
        self._at += 1
        return True

    def _expect(self, sign: str, expected: str) -> None:
        if not self._took(sign):
            self._fail(self._shown(), expected)

    def _shown(self) -> str:
        return repr(self._text[self._at : self._at + 12]) if self._at < len(self._text) else "the end of the text"

    def _line(self) -> int:
        return bisect_right(self._lines, self._at - 1) + 1

    def _fail(self, found: str, expected: str) -> NoReturn:
        raise MalformedSchedule(self._file, self._line(), found, expected)
