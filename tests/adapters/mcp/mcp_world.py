"""A server of one session with a clock that stands, real connections to it, and a small host."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define, field
from mcp import Client, StdioServerParameters

from schedule_adapters.mcp import bridge as bridge_module
from schedule_adapters.mcp.bridge import HostBridge
from schedule_adapters.mcp.hosted import HostedSession, open_hosted
from schedule_adapters.mcp.http import Endpoint, serving
from schedule_adapters.mcp.remote import connected
from schedule_adapters.mcp.server import DueHints, make_server
from schedule_adapters.mcp.wire import DueState, TakenReminder
from schedule_adapters.sessions import SessionStore
from schedule_adapters.testing.stores import SetClock
from schedule_core import Clock, Instant, SessionEvent
from schedule_core.instants import SECOND_MS

HANG_S: Final = 120.0
"""What takes longer hangs; a busy machine may take seconds to begin a process."""
PROGRAM: Final = "from schedule_adapters.cli import main; main()"
FIRST: Final = "schedule-1"
SECOND: Final = "schedule-2"


@define
class Served:
    """One process of a server: its session, and where it is."""

    hosted: HostedSession
    endpoint: Endpoint
    clock: Clock

    def pass_time(self, seconds: int) -> None:
        assert isinstance(self.clock, SetClock)
        self.clock.time = Instant(self.clock.time + seconds * SECOND_MS)


@define
class ServerWorld:
    """Where one session lives, through restarts of its server."""

    store: SessionStore
    clock: Clock

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Served]:
        """Serve the session over HTTP until the context is left."""
        hints = DueHints()
        opened = open_hosted(self.store, "main", on_waiting=hints.tell, clock=self.clock)
        async with asyncio.timeout(HANG_S), opened as (hosted, box):
            server = make_server(lambda: box.tools, hosted=hosted, hints=hints)
            async with serving(server, hints=hints) as endpoint:
                yield Served(hosted, endpoint, self.clock)

    async def log(self) -> list[SessionEvent]:
        """The durable log."""
        return list((await self.store.read("main")).events)

    async def types(self) -> list[str]:
        """What became of reminders, in the durable log: types of events, and operations."""
        return [
            event.data["operation"] if event.type == "schedule/change" else event.type
            for event in await self.log()
            if event.type != "log/checkpoint"
        ]


async def acknowledged(world: ServerWorld, count: int = 1) -> None:
    """Wait until so many acknowledgements are durable."""
    while (await world.types()).count("turn/ended") < count:  # noqa: ASYNC110 - a disk tells nobody
        await asyncio.sleep(0.005)


def stdio(root: Path, *arguments: str, **environ: str) -> StdioServerParameters:
    """The real command as a process over standard input and output."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-c", PROGRAM, "mcp", "--root", str(root), *arguments],
        env={"HOME": str(root), **environ},
    )


async def create(client: Client, prompt: str, after_s: int = 60) -> dict[str, Any]:
    """Set a reminder as the host's model would."""
    result = await client.call_tool("schedule_create", {"prompt": prompt, "after_seconds": after_s})
    assert isinstance(result.structured_content, dict)
    return result.structured_content


@define
class SmallHost:
    """A host in a dozen lines: a conversation, and one turn at a time.

    Attributes:
        turns: what each turn was about, in order: a text of the user, or a reminder's id.
        messages: what the model got for each.
        fails: raised in the next turn of a reminder.
        before: called in each turn of a reminder, before it ends.
    """

    turn: asyncio.Lock = field(factory=asyncio.Lock)
    turns: list[str] = field(factory=list)
    messages: list[str] = field(factory=list)
    fails: BaseException | None = None
    before: Callable[[], Any] | None = None
    _ended: asyncio.Condition = field(factory=asyncio.Condition)

    async def say(self, text: str, *, until: asyncio.Event | None = None) -> None:
        """Run a turn of the user."""
        async with self.turn:
            await self._run(text, text)
            if until is not None:
                await until.wait()

    async def deliver(self, reminder: TakenReminder) -> None:
        """Run the turn of a reminder; the bridge holds `turn`."""
        assert self.turn.locked(), "the bridge holds the host's idle phase"
        if self.before is not None:
            self.before()
        fails, self.fails = self.fails, None
        await self._run(reminder.schedule_id, reminder.message)
        if fails is not None:
            raise fails

    async def heard(self, *turns: str) -> None:
        """Wait until exactly these turns were run."""
        async with self._ended:
            await self._ended.wait_for(lambda: len(self.turns) >= len(turns))
        assert list(turns) == self.turns

    async def _run(self, name: str, message: str) -> None:
        self.turns.append(name)
        self.messages.append(message)
        async with self._ended:
            self._ended.notify_all()


@asynccontextmanager
async def bridged(
    endpoint: Endpoint, host: SmallHost, *, bridge: HostBridge | None = None, poll_s: float = 0.02
) -> AsyncIterator[Client]:
    """A host that is connected, and whose bridge runs until the context is left."""
    bridge = bridge or HostBridge(host.deliver, idle=host.turn, poll_s=poll_s)
    async with connected(endpoint) as client:
        running = asyncio.get_running_loop().create_task(bridge.run(client))
        try:
            yield client
        finally:
            running.cancel()
            await asyncio.wait([running])
            await bridge.close()
            if not running.cancelled():
                running.result()


class Looks:
    """What the bridge saw, each time it looked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[DueState] = []
        self._looked = asyncio.Event()
        read = bridge_module._read_due

        async def read_and_tell(client: Client) -> DueState:
            due = await read(client)
            self.seen.append(due)
            self._looked.set()
            return due

        monkeypatch.setattr(bridge_module, "_read_due", read_and_tell)

    async def until(self, is_it: Callable[[list[DueState]], bool]) -> None:
        """Wait until what was seen is so."""
        while not is_it(self.seen):
            self._looked.clear()
            await self._looked.wait()


def plain_environment(**changes: str) -> dict[str, str]:
    """What a program is run with, whatever the environment of the tests is."""
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **changes}
