"""What a page is sent: the durable log as items, the open turn as text, each exactly once."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, field
from starlette.types import Message

from schedule_adapters.absent_agent import AbsentAgent
from schedule_adapters.live import LiveSchedule, SystemClock
from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.timers import WallTimers
from schedule_adapters.turn_driver import SessionTool, TextDelta, ToolCalled
from schedule_adapters.web.hub import Hub, WebLimits
from schedule_adapters.web.room import Room
from schedule_adapters.web.stream import Cursor, PageStream
from schedule_adapters.web.transcript import ENTRIES_AT_ONCE, FINISHED_SHOWN, Transcript
from schedule_core import SessionEvent
from tests.adapters.live_world import settle
from tests.adapters.turn_world import Emit, ScriptedDriver, calling, failing, gate

Event = tuple[str, int | None, Any]


@define
class World:
    """One session with a page's server around it."""

    store: MemoryStore
    driver: ScriptedDriver
    room: Room
    broken: list[bool] = field(factory=list)

    async def say(self, text: str) -> None:
        await self.room.prompt(text, time_zone=None, key=text)
        await settle()


@asynccontextmanager
async def world(session: str = "main", store: MemoryStore | None = None) -> AsyncIterator[World]:
    clock, driver, broken = SystemClock(), ScriptedDriver(), list[bool]()
    store = store or MemoryStore(clock=clock, fail_barriers=lambda: bool(broken))
    room = await Room.open(store, session, lambda _: driver, timers=WallTimers(clock))
    await settle()
    yield World(store, driver, room, broken)
    await room.close()


def read(cursor: Cursor) -> list[Event]:
    """The news of a page, taken apart as a browser does."""
    return parse("".join(cursor.news(0)))


def parse(stream: str) -> list[Event]:
    events: list[Event] = []
    for block in stream.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line)
        if "event" in fields:
            seq = int(fields["id"]) if "id" in fields else None
            events.append((fields["event"], seq, json.loads(fields["data"])))
    return events


def items(events: Iterable[Event]) -> list[tuple[int | None, str]]:
    return [(seq, data["kind"]) for name, seq, data in events if name == "item"]


def saying(*pieces: str, then: asyncio.Future[None] | None = None) -> Any:
    """A turn in which the assistant says something, and then perhaps waits."""

    async def step(_: Sequence[SessionTool], emit: Emit) -> None:
        for piece in pieces:
            emit(TextDelta(piece))
        if then is not None:
            await asyncio.shield(then)

    return step


class TestItems:
    async def test_a_page_that_comes_back_anywhere_loses_and_repeats_nothing(self) -> None:
        async with world() as it:
            it.driver.steps["tea"] = calling(
                "schedule_create", [], prompt="tea", after_seconds=9_000
            )
            it.driver.steps["hello"] = saying("hi ", "there")
            it.driver.steps["no tea"] = calling("schedule_delete", [], id="schedule-1")
            for text in ("hello", "tea", "no tea"):
                await it.say(text)
            whole = items(read(Cursor(it.room, -1, None)))
            kinds = ["said", "ended", "said", "created", "ended", "said", "deleted", "ended"]
            assert kinds == [kind for _, kind in whole]
            assert [seq for seq, _ in whole] == sorted({seq or 0 for seq, _ in whole})
            for seq in range(it.room.session.durable):
                rest = items(read(Cursor(it.room, seq, it.room.log_name)))
                assert [item for item in whole if item[0] is not None and item[0] > seq] == rest

    async def test_what_cannot_be_true_of_this_log_begins_with_a_snapshot(self) -> None:
        async with world() as it:
            await it.say("hello")
            length, name = it.room.session.durable, it.room.log_name
            for after, log in ((None, None), (length, name), (0, name + 1), (0, None)):
                [(kind, seq, data), *rest] = read(Cursor(it.room, after, log))
                assert ("snapshot", length - 1) == (kind, seq)
                assert ["said", "ended"] == [entry["kind"] for entry in data["entries"]]
                assert [] == items(rest)

    async def test_what_is_not_durable_is_not_shown_and_the_page_says_so(self) -> None:
        async with world() as it:
            cursor = Cursor(it.room, -1, None)
            it.broken.append(True)
            await it.say("lost?")
            *_, (_, _, state) = events = read(cursor)
            assert [] == items(events)
            assert not state["saved"]
            it.broken.clear()
            await it.room.session.barrier()
            *_, (_, _, state) = events = read(cursor)
            assert ["said", "ended"] == [kind for _, kind in items(events)]
            assert state["saved"]

    async def test_a_reminder_is_what_the_assistant_says_with_a_mark(self) -> None:
        """Its framed text is for the model; that it was due and dispatched is on the mark."""
        async with world() as it:
            it.driver.steps["tea"] = calling("schedule_create", [], prompt="tea", after_seconds=1)
            it.driver.steps["schedule-1"] = saying("Tea!")
            await it.say("tea")
            changed = asyncio.Event()
            it.room.listen(changed.set)
            async with asyncio.timeout(10):
                while it.room.transcript.last_ended is None or it.room.transcript.pending():
                    changed.clear()
                    await changed.wait()
            await settle()
            events = read(Cursor(it.room, -1, None))
            assert "framed" not in str(events)
            assert "SCHEDULE REMINDER" not in str(events)
            [ended] = [
                d for n, _, d in events if n == "item" and d.get("reminder", {}) and "input" in d
            ]
            assert ("Tea!", "schedule-1") == (ended["text"], ended["reminder"]["id"])
            assert ended["reminder"]["dispatched"] >= ended["reminder"]["due"]

    async def test_a_fork_shows_what_was_said_and_has_no_reminder_of_its_parent(self) -> None:
        async with world() as it:
            it.driver.steps["tea"] = calling("schedule_create", [], prompt="tea", after_seconds=900)
            await it.say("tea")
            await it.store.fork("main", "child")
            async with world("child", it.store) as child:
                kinds = [kind for _, kind in items(read(Cursor(child.room, -1, None)))]
                assert ["said", "ended"] == kinds
                assert 0 == child.room.transcript.pending()
                child.driver.steps["cake"] = calling(
                    "schedule_create", [], prompt="cake", after_seconds=900
                )
                await child.say("cake")
                assert 1 == child.room.transcript.pending()

    async def test_a_log_that_cannot_be_right_is_shown_as_a_fault(self) -> None:
        """What was said stays readable; that nothing is delivered is said aloud."""
        async with world() as it:
            await it.say("hello")
            it.room.session.append("schedule/change", {"version": 1, "operation": "no such"})
            await it.room.session.barrier()
            await it.say("anyone?")
            assert "NOT delivered" in str(it.room.state()["trouble"])
            kinds = [kind for _, kind in items(read(Cursor(it.room, -1, None)))]
            assert ["said", "ended", "said", "ended"] == kinds

    def test_events_that_say_nothing_are_passed_over(self) -> None:
        transcript = Transcript()
        odd: tuple[Any, ...] = (
            {},
            None,
            [],
            {"source": "user"},
            {"input": "x"},
            {"version": 2},
            {"input": 9},
        )
        types = ("input/queued", "turn/ended", "schedule/change", "other")
        pairs = [(name, data) for name in types for data in odd]
        transcript.take(SessionEvent(*pair, seq=seq) for seq, pair in enumerate(pairs))
        assert ["ended"] == [item.kind for item in transcript.items]


class TestTheFirstPicture:
    async def test_it_has_the_last_messages_and_the_rest_on_demand(self) -> None:
        async with world() as it:
            for number in range(ENTRIES_AT_ONCE):
                await it.say(str(number))
            [(_, _, first), *_] = read(Cursor(it.room, None, None))
            assert first["earlier"]
            assert ENTRIES_AT_ONCE == len(first["entries"])
            before = first["entries"][0]["seq"]
            older, more = it.room.transcript.entries_before(before)
            assert not more
            seqs = [item.seq for item in older] + [entry["seq"] for entry in first["entries"]]
            assert 2 * ENTRIES_AT_ONCE == len(seqs)
            assert sorted(seqs) == seqs

    async def test_it_has_every_pending_reminder_and_the_last_finished_ones(self) -> None:
        async with world() as it:
            schedule = LiveSchedule(AbsentAgent(), it.room.session)
            arguments = {"prompt": "x", "after_seconds": 9_000}
            for number in range(FINISHED_SHOWN + 5):
                await schedule.call_tool("schedule_create", arguments)
                await schedule.call_tool("schedule_create", arguments)
                await schedule.call_tool("schedule_delete", {"id": f"schedule-{2 * number + 1}"})
            await schedule.close()
            [(_, _, first), *_] = read(Cursor(it.room, None, None))
            pending = [each for each in first["reminders"] if each["deleted"] is None]
            assert FINISHED_SHOWN + 5 == len(pending)
            assert FINISHED_SHOWN == len(first["reminders"]) - len(pending)


class TestTheOpenTurn:
    async def test_a_late_page_gets_all_of_it_and_every_page_gets_each_piece_once(self) -> None:
        async with world() as it:
            it.driver.steps["hello"] = saying("one ", "two", then=(opened := gate()))
            early = Cursor(it.room, -1, None)
            await it.say("hello")
            assert "one two" == _heard(read(early))
            assert "" == _heard(read(early))
            late = Cursor(it.room, None, None)
            assert "one two" == _heard(read(late))
            opened.set_result(None)
            await settle()
            for cursor in (early, late):
                events = read(cursor)
                assert ["ended"] == [kind for _, kind in items(events)]
                assert "" == _heard(events), "what ended is an item now"
                assert [] == read(cursor)

    async def test_waiting_messages_the_tool_in_use_and_failures_are_part_of_the_state(
        self,
    ) -> None:
        async with world() as it:
            opened = gate()

            async def step(_: Sequence[SessionTool], emit: Emit) -> None:
                emit(ToolCalled("schedule_list"))
                await asyncio.shield(opened)

            it.driver.steps["hello"] = step
            it.driver.steps["fail"] = failing(ConnectionError("refused\x1b[31m"))
            await it.say("hello")
            await it.say("fail")
            state = it.room.state()
            assert ("schedule_list", 1) == (state["tool"], len(state["waiting"]))  # type: ignore[arg-type]
            opened.set_result(None)
            await settle()
            failure: Any = it.room.state()["failure"]
            assert failure["words"] == "This turn failed: ConnectionError: refused\ufffd[31m"
            assert it.room.state()["turn"] is None


def _heard(events: Iterable[Event]) -> str:
    return "".join(data["text"] for name, _, data in events if name == "more")


class TestOnePage:
    """The answer itself, from its first byte to either side's end."""

    async def test_it_ends_when_the_browser_goes_and_gives_its_place_back(self) -> None:
        async with world() as it:
            hub = Hub(it.store, lambda _: it.driver, limits=WebLimits(pages=1))
            page = PageStream(it.room, Cursor(it.room, -1, None), SystemClock(), hub.admit_page)
            full = PageStream(it.room, Cursor(it.room, -1, None), SystemClock(), hub.admit_page)
            assert (True, False) == (page.is_admitted, full.is_admitted)
            gone: asyncio.Queue[Message] = asyncio.Queue()
            sink = Sink()
            running = asyncio.create_task(page({}, gone.get, sink.send))
            await settle()
            assert not _is_left_alone(it.room)
            await it.say("hello")
            await sink.holds('"kind":"ended"')
            await gone.put({"type": "http.disconnect"})
            async with asyncio.timeout(5):
                await running
            assert _is_left_alone(it.room)
            assert hub.admit_page(lambda: None) is not None
            assert ["said", "ended"] == [kind for _, kind in items(parse(sink.text()))]
            await hub.close()

    async def test_it_ends_when_the_server_does(self) -> None:
        async with world() as it:
            hub = Hub(it.store, lambda _: it.driver)
            page = PageStream(it.room, Cursor(it.room, -1, None), SystemClock(), hub.admit_page)
            sink = Sink()
            never: asyncio.Queue[Message] = asyncio.Queue()
            running = asyncio.create_task(page({}, never.get, sink.send))
            await settle()
            hub.end_pages()
            async with asyncio.timeout(5):
                await running
            assert not sink.messages[-1].get("more_body", False)
            late = PageStream(it.room, Cursor(it.room, -1, None), SystemClock(), hub.admit_page)
            assert not late.is_admitted
            await hub.close()


@define
class Sink:
    """What a server sends, for tests that wait for it."""

    messages: list[Message] = field(factory=list)
    arrived: asyncio.Event = field(factory=asyncio.Event)

    async def send(self, message: Message) -> None:
        self.messages.append(message)
        self.arrived.set()

    def text(self) -> str:
        return b"".join(message.get("body", b"") for message in self.messages).decode()

    async def holds(self, text: str) -> None:
        async with asyncio.timeout(5):
            while text not in self.text():
                self.arrived.clear()
                await self.arrived.wait()


def _is_left_alone(room: Room) -> bool:
    return room.is_idle
