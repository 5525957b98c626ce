"""Open pages under load: every page shows what the log says, live, while reminders fall due.

One server process, as `session-schedule web` starts it; the pages are its clients in this
one, each of which loses its connection once and resumes after the last event it got.
"""

import asyncio
import json
import random
import resource
import statistics
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from attrs import define, field

from benchmarks.report import promise
from schedule_adapters.live import SystemClock
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.web.transcript import Transcript
from schedule_core import ScheduleCreateChange, new_record
from schedule_core.records import Prompt, ScheduleId

_PAGES, _SESSIONS, _REMINDERS = 200, 10, 1_000
_FIRST_DUE_S, _SPREAD_S = 12, 48
"""All of them within one minute of the start, with time for the pages to connect."""
_DRAIN_S = 30


@define
class Page:
    """One open page of one session.

    Attributes:
        items: the seq and text of every item that it was sent, in the order of arrival.
        lags_ms: how long after its event each finished turn arrived.
    """

    session: str
    log: int
    address: str
    items: list[tuple[int, str]] = field(factory=list)
    lags_ms: list[float] = field(factory=list)
    connections: int = 0

    async def stay(self, lifetimes: Iterable[float | None]) -> None:
        """Stay connected for each lifetime in turn; None is until the server ends it."""
        for lifetime_s in lifetimes:
            with suppress(TimeoutError):
                async with asyncio.timeout(lifetime_s):
                    await self._listen()

    async def _listen(self) -> None:
        async with self._connected() as lines:
            self.connections += 1
            seq = kind = ""
            async for line in lines:
                name, _, value = line.partition(": ")
                if name == "id":
                    seq = value
                elif name == "event":
                    kind = value
                elif name == "data" and kind == "item":
                    self.items.append((int(seq), value))
                    item = json.loads(value)
                    if item["kind"] == "ended":
                        self.lags_ms.append(time.time() * 1_000 - item["at"])

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[AsyncIterator[str]]:
        where = urlsplit(self.address)
        assert where.hostname is not None
        reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=2**20)
        last = f"Last-Event-ID: {self.items[-1][0]}\r\n" if self.items else ""
        try:
            writer.write(
                f"GET /events?session={self.session}&log={self.log}&after=-1 HTTP/1.1\r\n"
                f"Host: {where.netloc}\r\n{last}\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head.partition(b"\r\n")[0], head
            yield _lines(reader)
        finally:
            writer.close()


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    """The lines of a chunked answer."""
    rest = ""
    while size := int(await reader.readline() or b"0", 16):
        *lines, rest = (rest + (await reader.readexactly(size + 2))[:-2].decode()).split("\n")
        for line in lines:
            yield line


def run() -> bool:
    """Open the pages, let the reminders fall due, and hold every page against the log."""
    with TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> bool:
    logs = {f"s{number}": await _seed(folder, f"s{number}") for number in range(_SESSIONS)}
    server, address = await _serve(folder)
    try:
        pages = [
            Page(name, log, address)
            for name, log in logs.items()
            for _ in range(_PAGES // len(logs))
        ]
        staying = [asyncio.create_task(page.stay(_lifetimes())) for page in pages]
        await _until_all_came(staying, pages)
    finally:
        server.terminate()
        await server.wait()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"        the server used {spent.ru_utime + spent.ru_stime:.0f} s of CPU", end="; ")
    await asyncio.gather(*staying, return_exceptions=True)
    return await _judge(folder, pages)


async def _seed(folder: Path, session_id: str) -> int:
    """Make reminders that fall due in turn; gives when the log was made."""
    clock = SystemClock()
    session = await JsonlStore(folder, clock=clock).open(session_id)
    for number in range(_REMINDERS // _SESSIONS):
        due_s = _FIRST_DUE_S + number * _SPREAD_S * _SESSIONS // _REMINDERS
        name, text = ScheduleId(f"schedule-{number + 1}"), Prompt(f"task number {number}")
        record = new_record(name, text, after_seconds=due_s, now=clock.now())
        session.append_change(ScheduleCreateChange(record))
    await session.barrier()
    await session.close()
    return session.header.created_at


async def _serve(folder: Path) -> tuple[Process, str]:
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schedule_adapters.web", "--root", str(folder), "--port", "0"),
        stdout=PIPE,
    )
    assert server.stdout is not None
    announced = (await server.stdout.readline()).decode().split()
    return server, announced[1]


def _lifetimes() -> tuple[float | None, ...]:
    """One connection that breaks while reminders come, and one that lasts."""
    return _FIRST_DUE_S + random.random() * _SPREAD_S, None  # noqa: S311 - no secret


async def _until_all_came(staying: list[asyncio.Task[None]], pages: list[Page]) -> None:
    """Wait for the last reminder on every page, or for the end of patience."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_FIRST_DUE_S + _SPREAD_S + _DRAIN_S):
            while any(len(page.lags_ms) < _REMINDERS // _SESSIONS for page in pages):
                await asyncio.sleep(0.5)
                for task in staying:
                    if task.done():
                        task.result()


async def _judge(folder: Path, pages: list[Page]) -> bool:
    store = JsonlStore(folder, clock=SystemClock())
    transcripts: dict[str, Transcript] = {}
    for name in {page.session for page in pages}:
        transcripts[name] = Transcript()
        transcripts[name].take((await store.read(name)).events)
    lost = repeated = 0
    for page in pages:
        expected = [(item.seq, item.text) for item in transcripts[page.session].items]
        lost += len(set(expected) - set(page.items))
        repeated += len(page.items) - len(set(page.items))
        assert page.items == sorted(page.items), "items arrive in the order of the log"
    late_ms = sorted(
        each.dispatched - each.due
        for transcript in transcripts.values()
        for each in transcript.reminders.values()
        if each.dispatched is not None
    )
    lags_ms = sorted(lag for page in pages for lag in page.lags_ms)
    connections = sum(page.connections for page in pages)
    print(
        f"{len(pages)} pages, {connections} connections, {len(late_ms)} reminders came, "
        f"{sum(len(page.items) for page in pages):,} items shown; late by "
        f"{statistics.median(late_ms):.0f} ms (median), {late_ms[-1]} ms (most); on a page after "
        f"{statistics.median(lags_ms):.0f} ms (median), {_share(lags_ms, 0.99):.0f} ms (99 %)"
    )
    return all(
        (
            promise("reminders that did not come", _REMINDERS - len(late_ms), 0),
            promise(f"items lost on {len(pages)} pages", lost, 0),
            promise("items repeated", repeated, 0),
            promise("latest reminder under load", late_ms[-1] / 1_000, 5, " s"),
        )
    )


def _share(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
