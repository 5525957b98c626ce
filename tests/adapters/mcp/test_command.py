"""`session-schedule mcp` as a process: how it begins, how it ends, what it says."""

import asyncio
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from mcp import Client

from schedule_adapters.live import SystemClock
from schedule_adapters.mcp.bridge import HostBridge
from schedule_adapters.mcp.http import Endpoint
from schedule_adapters.mcp.remote import connected
from schedule_adapters.mcp.stdio import MAX_LINE_BYTES
from schedule_adapters.stores.jsonl import JsonlStore
from tests.adapters.mcp.mcp_world import (
    FIRST,
    HANG_S,
    PROGRAM,
    ServerWorld,
    SmallHost,
    acknowledged,
    create,
    plain_environment,
    stdio,
)

TOKEN = "a-token-of-twenty-letters"  # noqa: S105 - of a server that lives as long as its test
TOKEN_VARIABLE = "SESSION_SCHEDULE_TOKEN"  # noqa: S105 - its name

INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
)


def command(root: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, *arguments, "--root", str(root)]


def run(root: Path, *arguments: str, **environ: str) -> CompletedProcess[str]:
    """Run a command to its end, with nothing on its standard input."""
    return subprocess.run(  # noqa: S603 - our own program
        command(root, *arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        env=plain_environment(HOME=str(root), **environ),
        check=False,
    )


@asynccontextmanager
async def started(root: Path, *arguments: str, **environ: str) -> AsyncIterator[Process]:
    """The command as a process that the test ends."""
    async with asyncio.timeout(HANG_S):
        process = await asyncio.create_subprocess_exec(
            *command(root, "mcp", *arguments),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=plain_environment(HOME=str(root), **environ),
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate(b"")


async def first_line(process: Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode()


async def test_a_reminder_goes_through_two_processes(tmp_path: Path) -> None:
    """Set over standard input and output, delivered by the bridge, in real time."""
    host = SmallHost()
    bridge = HostBridge(host.deliver, idle=host.turn)
    async with asyncio.timeout(HANG_S), Client(stdio(tmp_path)) as client:
        await create(client, "stretch", after_s=1)
        running = asyncio.ensure_future(bridge.run(client))
        await host.heard(FIRST)
        await acknowledged(ServerWorld(JsonlStore(tmp_path, clock=SystemClock()), SystemClock()))
        running.cancel()
        await asyncio.wait([running])

    assert host.turns == [FIRST]


async def test_it_ends_in_order_when_the_host_closes_its_input(tmp_path: Path) -> None:
    """With exit code 0, and no word beside the protocol."""
    async with started(tmp_path) as process:
        out, err = await process.communicate(b"")
    assert (process.returncode, out, err) == (0, b"", b"")


async def test_a_message_that_is_too_long_ends_the_connection(tmp_path: Path) -> None:
    """In order, with a line that holds none of it."""
    async with started(tmp_path) as process:
        _, err = await process.communicate(b"x" * (MAX_LINE_BYTES + 1) + b"\n")
    assert process.returncode == 0
    assert err == b"WARNING: a message is longer than 4194304 bytes: the end\n"


async def test_it_ends_in_order_when_it_is_told_to(tmp_path: Path) -> None:
    """SIGTERM does not wait for a line of the host; the session is free again."""
    async with started(tmp_path, "--http", "0") as process:
        await first_line(process)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    async with started(tmp_path, "--http", "0") as serving:
        await first_line(serving)
        async with started(tmp_path) as refused:
            _, err = await refused.communicate(b"")
            assert refused.returncode == 1
            assert b"the session is open in process" in err
    async with started(tmp_path) as waiting:
        assert waiting.stdin is not None
        waiting.stdin.write(INITIALIZE)
        assert '"serverInfo"' in await first_line(waiting)
        waiting.send_signal(signal.SIGTERM)
        assert await waiting.wait() == 128 + signal.SIGTERM


async def test_a_new_token_is_printed_once_and_works(tmp_path: Path) -> None:
    """In the one line that says where the server is."""
    async with started(tmp_path, "--http", "0") as process:
        line = await first_line(process)
        url, token = line.split()[1], line.split()[7]
        assert line == (
            f"serving {url} for who shows Authorization: Bearer {token} (Ctrl-C ends it)\n"
        )
        async with connected(Endpoint(url, token)) as client:
            await create(client, "stretch")
        process.send_signal(signal.SIGTERM)
        out, err = await process.communicate()
    assert (out, err) == (b"", b"")


async def test_a_token_of_the_environment_is_not_printed(tmp_path: Path) -> None:
    """Who set it knows it."""
    async with started(tmp_path, "--http", "0", **{TOKEN_VARIABLE: TOKEN}) as process:
        line = await first_line(process)
        async with connected(Endpoint(line.split()[1], TOKEN)) as client:
            await create(client, "stretch")
    assert TOKEN not in line
    assert f"the token in {TOKEN_VARIABLE}" in line


@pytest.mark.parametrize(
    ("arguments", "environ", "said"),
    [
        (["--proxy", "http://127.0.0.1:9/mcp"], {}, f"set {TOKEN_VARIABLE} to the token"),
        (
            ["--proxy", "http://127.0.0.1:9/mcp"],
            {TOKEN_VARIABLE: TOKEN},
            "no server of ours answers at http://127.0.0.1:9/mcp",
        ),
        (["--http", "0"], {TOKEN_VARIABLE: "short"}, f"{TOKEN_VARIABLE} has fewer than 16"),
    ],
)
def test_what_cannot_begin_is_one_line(
    tmp_path: Path, arguments: list[str], environ: dict[str, str], said: str
) -> None:
    """And exit code 1."""
    assert one_error(run(tmp_path, "mcp", *arguments, **environ)).startswith(said)


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    """The session is not left locked."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(tmp_path, "mcp", "--http", str(port))
    assert one_error(done).startswith(f"cannot listen on 127.0.0.1 port {port}: ")


def one_error(done: CompletedProcess[str]) -> str:
    """The one line of a command that failed."""
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    return line.removeprefix("session-schedule: ")


def test_an_input_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """It cannot be waited for; a host gives a pipe."""
    (tmp_path / "in").write_text("{}\n")
    with (tmp_path / "in").open() as file:
        done = subprocess.run(  # noqa: S603 - our own program
            command(tmp_path, "mcp"),
            stdin=file,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            env=plain_environment(HOME=str(tmp_path)),
            check=False,
        )
    assert one_error(done).startswith("standard input must be a pipe")
