"""Begin an ACP agent as a process, and end it."""

import asyncio
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, Self

import acp
from acp.core import ClientSideConnection
from attrs import frozen

_STREAM_BYTES: Final = 50 * 1024 * 1024
"""The longest message; the SDK's own bound for what it reads from a program."""


class AcpError(Exception):
    """The agent could not run this turn; one line, without any of its words."""


@frozen
class AgentConnection:
    """A connection to the agent.

    Attributes:
        connection: the SDK's.
        has_ended: whether the other end is known to be gone.
    """

    connection: ClientSideConnection
    has_ended: Callable[[], bool]


Connect = Callable[[acp.Client], AbstractAsyncContextManager[AgentConnection]]
"""Begins one connection to the agent, and ends it."""


def spawning(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    on_stderr: Callable[[str], None],
) -> Connect:
    """Begin the agent as a process whenever a connection is wanted.

    Args:
        command: the program and its arguments.
        cwd: the folder it works in.
        environment: its environment.
        on_stderr: gets each line that it writes beside the protocol.
    """

    @asynccontextmanager
    async def connect(client: acp.Client) -> AsyncIterator[AgentConnection]:
        program, *arguments = command
        spawned = acp.spawn_agent_process(
            client,
            program,
            *arguments,
            env=environment,
            cwd=cwd,
            transport_kwargs={"limit": _STREAM_BYTES},
        )
        with _Rest() as rest:
            async with AsyncExitStack() as began:
                try:
                    connection, process = await began.enter_async_context(spawned)
                except OSError as error:
                    raise AcpError(f"{program} cannot be started: {error.strerror}") from error
                rest.process = process
                rest.read_stderr(on_stderr)
                yield AgentConnection(connection, lambda: process.returncode is not None)

    return connect


class _Rest:
    """What is left of an agent after the SDK has ended it; entered before it is begun."""

    def __init__(self) -> None:
        self.process: Process | None = None
        self._reading: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()  # its orderly end was cut short
        if self._reading is not None:  # a child of the agent may hold the pipe open
            self._reading.cancel()

    def read_stderr(self, on_line: Callable[[str], None]) -> None:
        """Read what the agent writes, so that it never waits for a full pipe."""
        assert self.process is not None, "it has begun"
        assert self.process.stderr is not None, "the SDK makes it a pipe"
        work = _pass_on(self.process.stderr, on_line)
        self._reading = asyncio.get_running_loop().create_task(work)


async def _pass_on(stderr: asyncio.StreamReader, on_line: Callable[[str], None]) -> None:
    while True:
        try:
            line = await stderr.readline()
        except ValueError:  # longer than the buffer; the rest of it comes next
            continue
        if not line:
            return
        on_line(line.decode("utf-8", "replace").rstrip("\r\n"))
