"""Serve one MCP connection over standard input and output, until the client leaves."""

import asyncio
import logging
import os
import stat
import sys
from collections.abc import AsyncIterator
from typing import Any, Final, cast

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server

_log = logging.getLogger("schedule_adapters")

MAX_LINE_BYTES: Final = 4 * 1024 * 1024
"""The longest message, as the SDK bounds the body of one over HTTP."""


class StdinError(Exception):
    """Standard input cannot be served; one line for the person who started it."""


async def serve_stdio(server: Server[Any]) -> None:
    """Serve until standard input ends, or holds a message that is too long.

    Raises:
        StdinError: it is no pipe.
    """
    # The SDK's own reader is a thread that a cancellation has to wait for: SIGTERM would
    # do nothing until the client writes a line. It takes anything that iterates over lines.
    lines = cast("anyio.AsyncFile[str]", _Lines(await _open_stdin()))
    async with stdio_server(stdin=lines) as (read, write):
        try:
            await server.run(read, write, server.create_initialization_options())
        except* (BrokenPipeError, ConnectionError):
            pass  # the client has gone, which is how a connection ends


async def _open_stdin() -> asyncio.StreamReader:
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()):
        raise StdinError("standard input must be a pipe from an MCP host")
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(MAX_LINE_BYTES, loop=loop)
    # A descriptor of its own: this one may be closed without closing the process's.
    pipe = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), pipe)
    return reader


class _Lines:
    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:
                _log.warning("a message is longer than %d bytes: the end", MAX_LINE_BYTES)
                return
            if not line:
                return
            yield line.decode("utf-8", "replace")
