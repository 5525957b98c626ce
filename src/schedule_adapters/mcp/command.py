"""`session-schedule mcp`: its arguments, and how it begins; the rest needs the extra `mcp`."""

import argparse
import os
from typing import Final

from schedule_adapters.sessions import SessionStore
from schedule_adapters.web.command import MIN_TOKEN_LENGTH

TOKEN_VARIABLE: Final = "SESSION_SCHEDULE_TOKEN"  # noqa: S105 - its name, not its value
_MAX_PORT: Final = 2**16 - 1


class McpError(Exception):
    """The server cannot begin; one line for the person who started it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes beside the session and the choice of a store."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--http",
        type=_port,
        metavar="PORT",
        help="serve HTTP on this machine instead of standard input and output (0: any free "
        f"port); clients show a token: that of {TOKEN_VARIABLE}, or a new one, printed",
    )
    where.add_argument(
        "--proxy",
        metavar="URL",
        help="pass on the tools of a server at this address, for a host that speaks to "
        f"programs only; the token is taken from {TOKEN_VARIABLE}",
    )


async def run(arguments: argparse.Namespace, store: SessionStore) -> int:
    """Serve until the client leaves, or the process is told to end; gives the exit code.

    Raises:
        McpError: it cannot begin.
        StoreError: the session cannot be opened.
    """
    try:
        from schedule_adapters.mcp import serve  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise McpError(
            f"the server needs {package}; install it with: pip install 'session-schedule[mcp]'"
        ) from error
    token = os.environ.get(TOKEN_VARIABLE) or None
    if arguments.proxy is not None:
        if token is None:
            raise McpError(f"set {TOKEN_VARIABLE} to the token of the server at that address")
        return await serve.proxy(arguments.proxy, token)
    if arguments.http is None:
        return await serve.over_stdio(store, arguments.session)
    if token is not None and len(token) < MIN_TOKEN_LENGTH:
        raise McpError(f"{TOKEN_VARIABLE} has fewer than {MIN_TOKEN_LENGTH} characters")
    return await serve.over_http(store, arguments.session, port=arguments.http, token=token)


def _port(text: str) -> int:
    if text.isdecimal() and text.isascii() and len(text) <= len(str(_MAX_PORT)):
        port = int(text)
        if port <= _MAX_PORT:
            return port
    raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to {_MAX_PORT}")
