"""A network that can be broken: a TCP proxy on loopback before a server's port.

``cut`` is a network that loses everything: connections stay, nothing arrives, until ``heal`` lets what was sent arrive
late, as TCP's repetitions would. ``sever`` is a peer that is gone: connections are reset, and new ones refused.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

_CHUNK = 65536
_BACKLOG = 128
# Closing sends a reset instead of a farewell.
_RESET = struct.pack("ii", 1, 0)


class _State(Enum):
    OPEN = "open"
    CUT = "cut"
    SEVERED = "severed"


@dataclass(eq=False, slots=True)
class _End:
    """One socket of a connection through the proxy, and what is still to be sent there."""

    socket: socket.socket
    waiting: bytes = b""
    connected: bool = True
    ended: bool = False
    """Nothing more comes from this side."""
    peer: _End = field(init=False, repr=False)


class Proxy:
    """Stands before ``target_port``; clients connect to ``port``. ``close`` it, or use it as a context manager."""

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._state = _State.OPEN
        self._ends: set[_End] = set()
        self._orders: list[tuple[Callable[[], None], threading.Event]] = []
        self._closed = False
        self._selector = selectors.DefaultSelector()
        # Whoever gives an order writes a byte, and the thread wakes.
        self._bell, self._ring = os.pipe()
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._listener = _bound(0)
        self._listener.listen(_BACKLOG)
        self.port: int = self._listener.getsockname()[1]
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name=f"isolde-proxy-{self.port}", daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Nothing arrives any more; nobody is told."""
        self._order(lambda: self._become(_State.CUT))

    def sever(self) -> None:
        """Resets every connection and refuses new ones."""
        self._order(lambda: self._become(_State.SEVERED))

    def heal(self) -> None:
        """Everything passes again; what was held back arrives now."""
        self._order(lambda: self._become(_State.OPEN))

    def close(self) -> None:
        """Ends the proxy and every connection through it."""
        if self._closed:
            return
        self._order(self._finish)
        self._thread.join()
        os.close(self._bell)
        os.close(self._ring)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _order(self, action: Callable[[], None]) -> None:
        """Has the proxy's thread do something, and waits until it is done."""
        if self._closed:
            return
        done = threading.Event()
        self._orders.append((action, done))
        os.write(self._ring, b"!")
        done.wait()

    def _serve(self) -> None:
        while not self._closed:
            for key, events in self._selector.select():
                if key.fd == self._bell:
                    os.read(self._bell, 1)
                    action, done = self._orders.pop(0)
                    action()
                    done.set()
                    # The other events may be about sockets that are closed by now.
                    break
                if key.fileobj is self._listener:
                    self._accept()
                elif key.data in self._ends:
                    self._move(key.data, events)

    def _become(self, state: _State) -> None:
        if state is self._state:
            return
        if self._state is _State.SEVERED:
            self._listener.listen(_BACKLOG)
        if self._state is _State.OPEN:
            self._selector.unregister(self._listener)
        self._state = state
        if state is _State.SEVERED:
            self._sever()
        if state is _State.OPEN:
            self._selector.register(self._listener, selectors.EVENT_READ)
        for end in self._ends:
            self._watch(end)

    def _sever(self) -> None:
        for end in list(self._ends):
            self._drop(end, reset=True)
        # A socket that is bound and does not listen refuses, and keeps the port for us.
        keeper = _bound(self.port)
        self._listener.close()
        self._listener = keeper

    def _finish(self) -> None:
        self._closed = True
        for end in list(self._ends):
            self._drop(end, reset=True)
        self._listener.close()
        self._selector.close()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        server = socket.socket()
        server.setblocking(False)
        server.connect_ex(("127.0.0.1", self._target))
        near, far = _End(client), _End(server, connected=False)
        near.peer, far.peer = far, near
        for end in (near, far):
            end.socket.setblocking(False)
            end.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ends.add(end)
        self._watch(near)
        self._watch(far)

    def _move(self, end: _End, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._send(end)
            if events & selectors.EVENT_READ:
                self._receive(end)
        except BlockingIOError:
            return
        except OSError:
            self._drop(end, reset=True)
            return
        if end.ended and end.peer.ended and not end.waiting and not end.peer.waiting:
            self._drop(end, reset=False)
            return
        self._watch(end)
        self._watch(end.peer)

    def _send(self, end: _End) -> None:
        if not end.connected:
            failure = end.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if failure:
                raise OSError(failure, os.strerror(failure))
            end.connected = True
        if end.waiting:
            end.waiting = end.waiting[end.socket.send(end.waiting) :]
        if end.peer.ended and not end.waiting:
            end.socket.shutdown(socket.SHUT_WR)

    def _receive(self, end: _End) -> None:
        content = end.socket.recv(_CHUNK)
        end.ended = not content
        end.peer.waiting += content
        if end.peer.connected:
            self._send(end.peer)

    def _watch(self, end: _End) -> None:
        """Asks for the events that matter: no more is read than the other side has taken."""
        events = 0
        if self._state is _State.OPEN:
            if end.waiting or not end.connected:
                events |= selectors.EVENT_WRITE
            if end.connected and not end.ended and not end.peer.waiting:
                events |= selectors.EVENT_READ
        with suppress(KeyError):
            self._selector.unregister(end.socket)
        if events:
            self._selector.register(end.socket, events, end)

    def _drop(self, end: _End, *, reset: bool) -> None:
        if end not in self._ends:
            return
        for side in (end, end.peer):
            self._ends.remove(side)
            with suppress(KeyError):
                self._selector.unregister(side.socket)
            with suppress(OSError):
                if reset:
                    side.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                side.socket.close()


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setblocking(False)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Two of ours hold the port for a moment, so that nobody else gets it in between.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound
