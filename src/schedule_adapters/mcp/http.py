"""The MCP server over HTTP: on this machine alone, and only for who shows the token."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any, Final

import uvicorn
from attrs import field, frozen
from mcp.server import Server
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schedule_adapters.mcp.server import DueHints
from schedule_adapters.web.guard import Access
from schedule_adapters.web.quiet import quiet_config

LOOPBACK: Final = "127.0.0.1"
PATH: Final = "/mcp"
_LAST_REQUESTS_S: Final = 2
"""How long the end waits for requests under way."""


class HttpError(Exception):
    """The address cannot be served; one line for the person who started it."""


@frozen
class Endpoint:
    """Where the server is, and what a client shows.

    Attributes:
        url: the address of the MCP endpoint.
        token: the secret; sent as `Authorization: Bearer TOKEN`.
    """

    url: str
    token: str = field(repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {"Authorization": f"Bearer {self.token}"}


@asynccontextmanager
async def serving(
    server: Server[Any],
    *,
    port: int = 0,
    token: str | None = None,
    hints: DueHints | None = None,
) -> AsyncIterator[Endpoint]:
    """Serve on loopback, on the running loop, until the context is left.

    Args:
        server: what to serve.
        port: where; 0 for any that is free.
        token: the secret; None for a new one.
        hints: whose listeners are told of the end.

    Raises:
        HttpError: the port cannot be used.
    """
    token = token or secrets.token_urlsafe(32)
    with closing(_listen(port)) as listening:
        endpoint = Endpoint(f"http://{LOOPBACK}:{listening.getsockname()[1]}{PATH}", token)
        app = server.streamable_http_app(streamable_http_path=PATH, host=LOOPBACK)
        web = _Web(Gate(app, Access(token=token)))
        # The socket listens already: a client that is early waits in its queue.
        running = asyncio.get_running_loop().create_task(web.serve(sockets=[listening]))
        try:
            yield endpoint
        finally:
            if hints is not None:
                hints.close()
            web.should_exit = True
            await asyncio.shield(running)


class Gate:
    """Lets through what comes from this machine, from no foreign page, with the token."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        assert scope["type"] == "http", "web sockets are switched off"
        refusal = self._refusal(Headers(scope=scope))

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_SAFE_HEADERS)
            await send(message)

        await (refusal or self._app)(scope, receive, send_safely)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if len(headers.getlist("host")) != 1 or not self._access.is_this_host(host):
            return _refused(403, "forbidden_host", "this server is not known under that name")
        if origin is not None and origin != f"http://{host}":
            return _refused(403, "forbidden_origin", "no web page may ask that")
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self._access.is_token(shown.strip()):
            return _refused(401, "token_needed", "send the header Authorization: Bearer TOKEN")
        return None


def _refused(status: int, code: str, words: str) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None  # noqa: PLR2004 - HTTP
    return JSONResponse({"code": code, "message": words}, status, headers)


class _Web(uvicorn.Server):
    """A uvicorn server that is a guest in somebody's process."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(quiet_config(app, last_requests_s=_LAST_REQUESTS_S))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program."""
        yield


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise HttpError(f"cannot listen on {LOOPBACK} port {port}: {error.strerror}") from error
    return listening


_SAFE_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
