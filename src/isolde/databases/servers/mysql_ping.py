"""Asks a MySQL or MariaDB on loopback whether it runs statements, with no driver: enough of the protocol for root's
password and one statement whose answer is not read. A node of a cluster that has no quorum accepts
connections and refuses statements, so a connection alone proves nothing.
"""

from __future__ import annotations

import hashlib
import socket
import struct

_TIMEOUT_S = 1.0
_PROTOCOL_41, _SECURE, _PLUGIN = 0x0200, 0x8000, 0x0008_0000
_PACKET_MAX = 2**24 - 1
_UTF8 = 33
_QUERY, _ERROR = b"\x03", 0xFF
_CHANGE_METHOD = 0xFE
_METHOD = b"mysql_native_password"
_CHALLENGE = 20


def answers(port: int, password: str) -> bool:
    """Whether root may log in and a statement is run."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as connection:
            challenge = _challenge(_receive(connection)[1])
            hello = struct.pack("<IIB23x", _PROTOCOL_41 | _SECURE | _PLUGIN, _PACKET_MAX, _UTF8)
            proof = _proof(password, challenge)
            _send(connection, 1, hello + b"root\0" + bytes([len(proof)]) + proof + _METHOD + b"\0")
            number, answer = _receive(connection)
            if answer[0] == _CHANGE_METHOD:
                method, _, challenge = answer[1:].partition(b"\0")
                if method != _METHOD:
                    return False
                _send(connection, number + 1, _proof(password, challenge[:_CHALLENGE]))
                number, answer = _receive(connection)
            if answer[0] == _ERROR:
                return False
            _send(connection, 0, _QUERY + b"SELECT 1")
            return _receive(connection)[1][0] != _ERROR
    except (OSError, IndexError, ValueError):
        return False


def _challenge(greeting: bytes) -> bytes:
    """The random bytes that a server greets with: eight after its version and our number, the other twelve further on."""
    after = greeting.index(b"\0", 1) + 5
    return greeting[after : after + 8] + greeting[after + 27 : after + 39]


def _proof(password: str, challenge: bytes) -> bytes:
    """Shows that one knows the password without telling it (mysql_native_password)."""
    once = hashlib.sha1(password.encode(), usedforsecurity=False).digest()
    twice = hashlib.sha1(once, usedforsecurity=False).digest()
    mask = hashlib.sha1(challenge + twice, usedforsecurity=False).digest()
    return bytes(left ^ right for left, right in zip(once, mask, strict=True))


def _send(connection: socket.socket, number: int, content: bytes) -> None:
    connection.sendall(len(content).to_bytes(3, "little") + bytes([number]) + content)


def _receive(connection: socket.socket) -> tuple[int, bytes]:
    head = _exactly(connection, 4)
    return head[3], _exactly(connection, int.from_bytes(head[:3], "little"))


def _exactly(connection: socket.socket, length: int) -> bytes:
    content = b""
    while len(content) < length:
        part = connection.recv(length - len(content))
        if not part:
            raise OSError("the server closed the connection")
        content += part
    return content
