"""A network that can be broken on purpose, and what its users see."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from isolde.databases.servers.proxy import Proxy


class Echo:
    """A server that sends back what it gets."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client:
            try:
                while content := client.recv(65536):
                    client.sendall(content)
            except OSError:
                return

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.port) as proxy:
        yield proxy


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=5)


def ask(client: socket.socket, content: bytes) -> bytes:
    """The answer of the same length."""
    sender = threading.Thread(target=client.sendall, args=(content,))
    sender.start()
    answer = receive(client, len(content))
    sender.join()
    return answer


def receive(client: socket.socket, length: int) -> bytes:
    answer = b""
    while len(answer) < length:
        part = client.recv(65536)
        if not part:
            raise ConnectionError(f"the connection ended after {len(answer)} bytes")
        answer += part
    return answer


def test_what_is_sent_arrives(proxy: Proxy) -> None:
    with connect(proxy) as one, connect(proxy) as two:
        assert ask(one, b"one") == b"one"
        assert ask(two, b"two") == b"two"
        large = bytes(range(256)) * 40_000
        assert ask(one, large) == large


def test_the_end_of_a_stream_is_passed_on(proxy: Proxy) -> None:
    with connect(proxy) as client:
        client.sendall(b"last words")
        client.shutdown(socket.SHUT_WR)
        assert receive(client, 10) == b"last words"
        assert client.recv(1) == b""


def test_a_cut_holds_everything_back_and_healing_lets_it_arrive(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert ask(client, b"before") == b"before"
        proxy.cut()
        client.sendall(b"meanwhile")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.heal()
        client.settimeout(5)
        assert receive(client, 9) == b"meanwhile"
        assert ask(client, b"after") == b"after"


def test_who_connects_during_a_cut_waits(proxy: Proxy) -> None:
    proxy.cut()
    with connect(proxy) as client:
        client.sendall(b"hello")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.heal()
        client.settimeout(5)
        assert receive(client, 5) == b"hello"


@pytest.mark.parametrize("cut_first", [False, True])
def test_severed_connections_are_reset_and_new_ones_refused(proxy: Proxy, cut_first: bool) -> None:
    with connect(proxy) as client:
        assert ask(client, b"before") == b"before"
        if cut_first:
            proxy.cut()
        proxy.sever()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        proxy.heal()
        with connect(proxy) as again:
            assert ask(again, b"after") == b"after"


def test_severed_and_cut_again_and_again(proxy: Proxy) -> None:
    for _ in range(20):
        with connect(proxy) as client:
            assert ask(client, b"x") == b"x"
            proxy.cut()
            proxy.sever()
            proxy.cut()
            proxy.heal()
            proxy.heal()


def test_a_server_that_is_not_there_ends_the_connection(echo: Echo, proxy: Proxy) -> None:
    echo.close()

    def ask_nobody() -> None:
        with connect(proxy) as client:
            client.sendall(b"x")
            receive(client, 1)

    with pytest.raises(ConnectionError):
        ask_nobody()


def test_closing_ends_everything_and_frees_the_port(echo: Echo) -> None:
    proxy = Proxy(echo.port)
    client = connect(proxy)
    assert ask(client, b"x") == b"x"
    proxy.close()
    proxy.close()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    client.close()
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    proxy.heal()
