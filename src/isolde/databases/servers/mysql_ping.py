"""Asks a MySQL or MariaDB on loopback whether it runs statements, with no driver: enough of the protocol for root
without a password and one statement whose answer is not read. A node of a cluster that has no quorum accepts
connections and refuses statements, so a connection alone proves nothing.
"""

from __future__ import annotations

import socket
import struct

_TIMEOUT_S = 1.0
_PROTOCOL_41, _SECURE, _PLUGIN = 0x0200, 0x8000, 0x0008_0000
_PACKET_MAX = 2**24 - 1
_UTF8 = 33
_QUERY, _ERROR = b"\x03", 0xFF
_CHANGE_METHOD = 0xFE


def answers(port: int) -> bool:
    """Whether root may log in and a statement is run."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as connection:
            _receive(connection)
            hello = struct.pack("<IIB23x", _PROTOCOL_41 | _SECURE | _PLUGIN, _PACKET_MAX, _UTF8)
            _send(connection, 1, hello + b"root\0" + b"\0" + b"mysql_native_password\0")
            number, answer = _receive(connection)
            if answer[0] == _CHANGE_METHOD:
                # Whatever the method, the proof of an empty password is empty.
                _send(connection, number + 1, b"")
                number, answer = _receive(connection)
            if answer[0] == _ERROR:
                return False
            _send(connection, 0, _QUERY + b"SELECT 1")
            return _receive(connection)[1][0] != _ERROR
    except (OSError, IndexError):
        return False


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
