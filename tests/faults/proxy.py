"""A wire to a server that can be cut at any byte, or held, request by request."""

import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Final

from attrs import frozen
from psycopg.conninfo import conninfo_to_dict

_CHUNK: Final = 1 << 16
_RESET: Final = struct.pack("ii", 1, 0)


@frozen
class Fate:
    """What becomes of one request.

    Attributes:
        sent: the share of its bytes that reach the server.
        answered: the share of the first answer's bytes that reach the client; None: the
            wire is cut at once.
        saw: called with that answer before any of it is passed on.
        is_cut: whether the wire is cut after that.
    """

    sent: float = 1.0
    answered: float | None = None
    saw: Callable[[bytes], None] = lambda _: None
    is_cut: bool = True


Decide = Callable[[int, bytes], Fate | None]
"""Told the number of a request on its connection and its bytes; it may take its time."""


class Proxy:
    """Listens on loopback; every connection is one to the server, until its fate comes.

    Attributes:
        port: where it listens.
    """

    def __init__(self, server: tuple[str, int], decide: Decide) -> None:
        self._server = server
        self._decide = decide
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._threads: list[threading.Thread] = []

    def accept(self) -> None:
        """Serve connections until `close`."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=[client], daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Take no more connections, and wait for the end of those that there are."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive(), "a connection does not end"

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._server) as server:
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(OSError):  # either side may be gone at any time
                self._pass_on(client, server)
            # Cut, not closed: nobody is told that this is the end.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        numbers = count()
        while True:
            readable, _, _ = select.select([server, client], [], [])
            if server in readable:
                answer = server.recv(_CHUNK)
                if not answer:
                    return
                client.sendall(answer)
                continue
            request = client.recv(_CHUNK)
            if not request:
                return
            fate = self._decide(next(numbers), request)
            if fate is None:
                server.sendall(request)
            elif not _fulfil(fate, request, client, server):
                return


def _fulfil(fate: Fate, request: bytes, client: socket.socket, server: socket.socket) -> bool:
    """Do that to a request; tells whether the wire is still whole."""
    server.sendall(request[: round(len(request) * fate.sent)])
    if fate.answered is not None:
        answer = server.recv(_CHUNK)
        fate.saw(answer)
        client.sendall(answer[: round(len(answer) * fate.answered)])
    return not fate.is_cut


@contextmanager
def proxied(url: str, decide: Decide) -> Iterator[str]:
    """The URL of the same database through a proxy."""
    target = conninfo_to_dict(url.partition("?")[0])
    proxy = Proxy((str(target.get("host") or "127.0.0.1"), int(target.get("port") or 5432)), decide)
    accepting = threading.Thread(target=proxy.accept, daemon=True)
    accepting.start()
    # What stands last counts, for libpq.
    mark = "&" if "?" in url else "?"
    try:
        yield f"{url}{mark}host=127.0.0.1&port={proxy.port}&sslmode=disable"
    finally:
        proxy.close()
        accepting.join()
