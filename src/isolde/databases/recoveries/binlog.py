"""What MariaDB's own program ``mariadb-binlog`` prints of the binary log: committed transactions, and the rows that they wrote.

    #261118 11:29:04 server id 1  end_log_pos 541 CRC32 0x10edeb59  GTID 0-1-2 trans
    #Q> /*isolde:1:7*/ update t set v = 5 where k < 3
    ### UPDATE `test`.`t`
    ### WHERE
    ###   @1=-2 (4294967294)
    ### SET
    ###   @1=-2 (4294967294)
    #261118 11:29:04 server id 1  end_log_pos 963 CRC32 0x9b4422be  Xid = 18

The comment that begins a statement is ours: it says which connection sent it, and as which of its statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from isolde.errors import DatabaseUnavailable
from isolde.history.certificate import ObjectId, RowId

_EVENT = re.compile(rb"#\d{6} .*? end_log_pos (\d+) (?:CRC32 \S+ )?\s*(\S.*)")
_TAG = re.compile(rb"#Q> /\*isolde:(\d+):(\d+)\*/")
_GTID = re.compile(rb"GTID (\d+)-(\d+)-(\d+)")
_ROTATE = re.compile(rb"Rotate to (\S+)  pos")
_ROW = re.compile(rb"### (INSERT INTO|UPDATE|DELETE FROM) `((?:[^`]|``)+)`\.`((?:[^`]|``)+)`")
_CELL = re.compile(rb"###   @(\d+)=(.*)", re.DOTALL)
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")


Tag = tuple[int, int]
"""The number of a connection, and which of its statements it is."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A table whose rows are told: its name in the history (none for keys) and where its primary key stands, from 1."""

    name: str | None
    key: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One transaction of the log: its number, where it ends, and which objects each statement wrote, by the statement's tag."""

    number: int
    end: tuple[str, int]
    written: tuple[tuple[Tag, tuple[ObjectId, ...]], ...]


class _Row:
    """A row that is being read: the cells of its key before and after."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.images: list[dict[int, bytes]] = []

    def objects(self) -> tuple[ObjectId, ...]:
        found = [_object(self.columns, image) for image in self.images]
        return tuple(dict.fromkeys(found))


class Reader:
    """Goes through the lines; of other tables and other people's transactions nothing is kept."""

    def __init__(self, tables: Mapping[str, Columns], database: str, file: str) -> None:
        self._tables, self._database, self._file = tables, database, file
        self._number = 0
        self._tag: Tag | None = None
        self._written: list[tuple[Tag, tuple[ObjectId, ...]]] = []
        self._row: _Row | None = None

    def groups(self, lines: Iterable[bytes]) -> Iterator[Group]:
        """The transactions that wrote to the tables, in the order of the log."""
        for line in lines:
            if line.startswith(b"###"):
                self._of_row(line.rstrip(b"\n"))
                continue
            self._end_row()
            if line.startswith(b"#Q>"):
                tag = _TAG.match(line)
                # What follows a line break in a statement's text is no beginning of one.
                self._tag = (int(tag[1]), int(tag[2])) if tag else self._tag
            elif (event := _EVENT.match(line)) is not None:
                yield from self._event(int(event[1]), event[2])

    def _event(self, end: int, text: bytes) -> Iterator[Group]:
        if (gtid := _GTID.match(text)) is not None:
            self._number, self._written, self._tag = int(gtid[3]), [], None
        elif (rotate := _ROTATE.match(text)) is not None:
            self._file = rotate[1].decode()
        elif text.startswith(b"Annotate_rows"):
            self._tag = None
        elif text.startswith(b"Xid =") and self._written:
            yield Group(self._number, (self._file, end), tuple(self._written))
            self._written = []

    def _of_row(self, line: bytes) -> None:
        if (row := _ROW.match(line)) is not None:
            self._end_row()
            table = self._tables.get(row[3].decode().replace("``", "`"))
            if table is not None and row[2].decode() == self._database:
                self._row = _Row(table)
        elif self._row is None:
            return
        elif line in (b"### WHERE", b"### SET"):
            self._row.images.append({})
        elif (cell := _CELL.match(line)) is not None and int(cell[1]) in self._row.columns.key:
            self._row.images[-1][int(cell[1])] = cell[2]

    def _end_row(self) -> None:
        if self._row is None:
            return
        if self._tag is None:
            raise DatabaseUnavailable("a statement that is none of this run wrote to its tables")
        self._written.append((self._tag, self._row.objects()))
        self._row = None


def _object(columns: Columns, image: Mapping[int, bytes]) -> ObjectId:
    key = tuple(_cell(image[place]) for place in columns.key)
    return key[0] if columns.name is None else RowId(columns.name, key)


def _cell(text: bytes) -> int | str:
    """An integer, or a text; of a negative one, what it would be without a sign follows in parentheses.

    >>> _cell(b"-2 (4294967294)"), _cell(rb"'it's\\x0a'")
    (-2, "it's\\n")
    """
    if text.startswith(b"'"):
        return _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), text[1:-1]).decode(errors="replace")
    number = text.split(b" ")[0]
    if not number.removeprefix(b"-").isdigit():
        raise DatabaseUnavailable(
            f"a primary key holds {text.decode(errors='replace')}; certificates need integers or texts"
        )
    return int(number)
