"""`session-schedule web`: its arguments, and how it begins; the rest needs the extra `web`."""

import argparse
import os
from typing import Final

from schedule_adapters.sessions import SessionStore

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
MIN_TOKEN_LENGTH: Final = 16
_PORT: Final = 8321
_MAX_PORT: Final = 2**16 - 1
_TOKEN_VARIABLE: Final = "SESSION_SCHEDULE_TOKEN"  # noqa: S105 - its name, not its value


class WebError(Exception):
    """The page cannot be served; one line for the person who started it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes beside the choice of a store."""
    parser.add_argument(
        "--model",
        default="offline",
        help="offline (the default: rules, no key, no network), or a pydantic-ai model",
    )
    parser.add_argument(
        "--host",
        default=LOOPBACK[0],
        metavar="ADDRESS",
        help="the address to listen on (default: %(default)s, this machine only); any other "
        "one demands a token",
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=_PORT,
        help="the port to listen on (default: %(default)s; 0: any that is free)",
    )
    parser.add_argument(
        "--token",
        type=_token,
        default=os.environ.get(_TOKEN_VARIABLE) or None,
        help="what a browser must show once (default: on this machine none, elsewhere a new "
        f"one, printed); from the environment as {_TOKEN_VARIABLE}",
    )
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="a host name under which browsers reach this server; can be repeated",
    )


async def run(arguments: argparse.Namespace, store: SessionStore) -> int:
    """Serve until the process is told to end; gives the exit code.

    Raises:
        WebError: it cannot begin.
    """
    try:
        from schedule_adapters.web.serve import serve  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise WebError(
            f"the page needs {package}; install it with: pip install 'session-schedule[web]'"
        ) from error
    return await serve(
        store,
        model=arguments.model,
        host=arguments.host,
        port=arguments.port,
        token=arguments.token,
        names=arguments.name,
    )


def _port(text: str) -> int:
    if text.isdecimal() and text.isascii() and len(text) <= len(str(_MAX_PORT)):
        port = int(text)
        if port <= _MAX_PORT:
            return port
    raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to {_MAX_PORT}")


def _token(text: str) -> str:
    if len(text) < MIN_TOKEN_LENGTH:
        raise argparse.ArgumentTypeError(f"a token has at least {MIN_TOKEN_LENGTH} characters")
    return text
