"""The wire of Redis: requests and answers in its serialization protocol (RESP 2), over one socket.

Why not a client library: those open a lost connection again without a word, and with it goes every WATCH, so that a
transaction that has to abort would commit. Here a connection that is lost stays lost.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from isolde.errors import ConnectionLost

_TIMEOUT_S = 10.0

Word = str | bytes | int
Command = tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error that the server answered with; ``code`` is its first word, such as WRONGTYPE."""

    text: str

    @property
    def code(self) -> str:
        return self.text.partition(" ")[0]


Reply = bytes | int | None | Refusal | list["Reply"]


def packed(commands: Sequence[Command]) -> bytes:
    """Commands as they are sent.

    >>> packed([("GET", "k:1"), ("EXEC",)])
    b'*2\\r\\n$3\\r\\nGET\\r\\n$3\\r\\nk:1\\r\\n*1\\r\\n$4\\r\\nEXEC\\r\\n'
    """
    parts = []
    for command in commands:
        parts.append(b"*%d\r\n" % len(command))
        for word in command:
            raw = word if isinstance(word, bytes) else str(word).encode()
            parts.append(b"$%d\r\n%b\r\n" % (len(raw), raw))
    return b"".join(parts)


class Wire:
    """One connection. Every failure of it is ``ConnectionLost``, and so is every question after one."""

    def __init__(self, host: str, port: int, *, tls: bool) -> None:
        self._name = f"{host}:{port}"
        try:
            plain = socket.create_connection((host, port), timeout=_TIMEOUT_S)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = ssl.create_default_context().wrap_socket(plain, server_hostname=host) if tls else plain
        except (OSError, UnicodeError) as error:
            # The latter of a host whose name no name can be.
            raise ConnectionLost(f"{self._name}: {error}") from None
        self._answers = self._socket.makefile("rb")
        self._lost = ""

    def ask(self, *commands: Command) -> list[Reply]:
        """Sends commands in one go; one answer for each."""
        if self._lost:
            raise ConnectionLost(self._lost)
        try:
            self._socket.sendall(packed(commands))
            return [self._reply() for _ in commands]
        except (OSError, ValueError) as error:
            self.lose(f"{self._name}: {str(error) or type(error).__name__}")
            raise ConnectionLost(self._lost) from None

    def _reply(self) -> Reply:
        line = self._answers.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        match kind:
            case b"+":
                return rest
            case b"-":
                return Refusal(rest.decode(errors="replace"))
            case b":":
                return int(rest)
            case b"$":
                return self._text(int(rest))
            case b"*":
                count = int(rest)
                return None if count < 0 else [self._reply() for _ in range(count)]
        raise ValueError(f"answered {line[:40]!r}, which is not the protocol of Redis")

    def _text(self, size: int) -> bytes | None:
        if size < 0:
            return None
        raw = self._answers.read(size + 2)
        if len(raw) != size + 2:
            raise ConnectionResetError("the server closed the connection")
        return raw[:-2]

    def lose(self, reason: str) -> None:
        """Closes the connection for good; the reason is told to everybody who still asks."""
        self._lost = self._lost or reason
        self.close()

    def break_off(self) -> None:
        """From any thread: whoever waits for an answer gets an error instead."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._lost = self._lost or "the connection is closed"
        with suppress(OSError):
            self._answers.close()
            self._socket.close()
