"""The server process of the page: socket, uvicorn, and an end that keeps nobody waiting."""

import logging
import secrets
import socket
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Final
from urllib.parse import urlencode

import uvicorn

from schedule_adapters.agents.pydantic_ai import (
    ConversationError,
    ModelUnavailable,
    PydanticAITurns,
    make_agent,
)
from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import Session, SessionStore, StoreError, StoreErrorCode
from schedule_adapters.web.app import make_app
from schedule_adapters.web.command import LOOPBACK, WebError
from schedule_adapters.web.guard import Access
from schedule_adapters.web.hub import Hub
from schedule_adapters.web.quiet import quiet_config

_LAST_REQUESTS_S: Final = 5
"""How long the end waits for requests under way."""
_BACKLOG: Final = 512


class PageServer(uvicorn.Server):
    """A uvicorn server whose open pages end when it is told to end."""

    def __init__(self, hub: Hub, access: Access) -> None:
        super().__init__(quiet_config(make_app(hub, access), last_requests_s=_LAST_REQUESTS_S))
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the pages first: they would never end by themselves."""
        self._hub.end_pages()
        await super().shutdown(sockets)


async def serve(  # noqa: PLR0913 - the arguments of the command, by name
    store: SessionStore,
    *,
    model: str,
    host: str,
    port: int,
    token: str | None,
    names: Sequence[str],
) -> int:
    """Serve the page until the process is told to end; gives the exit code.

    Raises:
        WebError: the model or the address cannot be used.
    """
    clock = SystemClock()
    try:
        agent = make_agent(model, clock=clock)
    except ModelUnavailable as error:
        raise WebError(str(error)) from error

    def make_driver(session: Session) -> PydanticAITurns:
        try:
            return PydanticAITurns(agent, session)
        except ConversationError as error:
            raise StoreError(StoreErrorCode.CORRUPT_LOG, str(error)) from error

    with closing(_listen(host, port)) as listening:
        access = _access(host, listening.getsockname()[1], token, names)
        hub = Hub(store, make_driver, clock=clock)
        _show_warnings()
        _announce(host, listening.getsockname()[1], access)
        await PageServer(hub, access).serve(sockets=[listening])
    return 0


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(_BACKLOG)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        raise WebError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return listening


def _access(host: str, port: int, token: str | None, names: Sequence[str]) -> Access:
    is_local = host in LOOPBACK
    if token is None and not is_local:
        token = secrets.token_urlsafe(32)
    return Access(
        token=token,
        names=frozenset(name.lower() for name in (*names, host)),
        any_address=not is_local,
        cookie=f"session_schedule_{port}",
    )


def _announce(host: str, port: int, access: Access) -> None:
    shown = f"[{host}]" if ":" in host else host
    query = "" if access.token is None else "?" + urlencode({"token": access.token})
    sys.stdout.write(f"serving http://{shown}:{port}/{query} (Ctrl-C ends it)\n")
    sys.stdout.flush()


def _show_warnings() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    handler.setLevel(logging.WARNING)
    logging.getLogger("schedule_adapters").addHandler(handler)
