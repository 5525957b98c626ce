"""The server as a process: over standard input and output, over HTTP, or as a relay."""

import asyncio
import logging
import signal
import sys
from contextlib import suppress

from schedule_adapters.mcp.command import TOKEN_VARIABLE, McpError
from schedule_adapters.mcp.hosted import open_hosted
from schedule_adapters.mcp.http import Endpoint, HttpError, serving
from schedule_adapters.mcp.remote import RemoteError, remote_tools
from schedule_adapters.mcp.server import DueHints, make_server
from schedule_adapters.mcp.stdio import StdinError, serve_stdio
from schedule_adapters.sessions import SessionStore


async def over_stdio(store: SessionStore, session_id: str) -> int:
    """Serve one session until standard input ends; gives the exit code.

    Raises:
        McpError: standard input cannot be served.
        StoreError: the session cannot be opened.
    """
    _prepare_process()
    hints = DueHints()
    async with open_hosted(store, session_id, on_waiting=hints.tell) as (hosted, box):
        server = make_server(lambda: box.tools, hosted=hosted, hints=hints)
        try:
            await serve_stdio(server)
        except StdinError as error:
            raise McpError(str(error)) from error
    return 0


async def over_http(store: SessionStore, session_id: str, *, port: int, token: str | None) -> int:
    """Serve one session on loopback until the process is told to end; gives the exit code.

    Raises:
        McpError: the port cannot be used.
        StoreError: the session cannot be opened.
    """
    _prepare_process()
    hints = DueHints()
    async with open_hosted(store, session_id, on_waiting=hints.tell) as (hosted, box):
        server = make_server(lambda: box.tools, hosted=hosted, hints=hints)
        try:
            async with serving(server, port=port, token=token, hints=hints) as endpoint:
                _announce(endpoint, is_new=token is None)
                with suppress(asyncio.CancelledError):  # told to end: leave in order
                    await asyncio.get_running_loop().create_future()
        except HttpError as error:
            raise McpError(str(error)) from error
    return 0


async def proxy(url: str, token: str) -> int:
    """Serve the tools of a server elsewhere until standard input ends; gives the exit code.

    Raises:
        McpError: that server cannot be reached, or standard input cannot be served.
    """
    _prepare_process()
    try:
        async with remote_tools(Endpoint(url, token)) as tools:
            await serve_stdio(make_server(lambda: tools))
    except (RemoteError, StdinError) as error:
        raise McpError(str(error)) from error
    return 0


def _announce(endpoint: Endpoint, *, is_new: bool) -> None:
    shown = (
        f"Authorization: Bearer {endpoint.token}" if is_new else f"the token in {TOKEN_VARIABLE}"
    )
    sys.stdout.write(f"serving {endpoint.url} for who shows {shown} (Ctrl-C ends it)\n")
    sys.stdout.flush()


def _prepare_process() -> None:
    """Leave in order when asked to end; say on standard error what our own code warns of."""
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    handler.setLevel(logging.WARNING)
    logging.getLogger("schedule_adapters").addHandler(handler)
    for name in ("mcp", "uvicorn", "httpx2"):  # what they say may hold what was said
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False
