"""The rules of every session store, as tests that store authors subclass.

    class TestMyStore(SessionStoreContract):
        async def make_store(self, clock: Clock) -> SessionStore:
            return await MyStore.connect(clock=clock)

Needs pytest with pytest-asyncio in its auto mode.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Final

import pytest

from schedule_adapters.events import CHECKPOINT
from schedule_adapters.sessions import (
    Session,
    SessionHeader,
    SessionStore,
    SessionText,
    StoreError,
    StoreErrorCode,
)
from schedule_adapters.stores.log_image import read_log
from schedule_core.decoder import decode_change
from schedule_core.fold import fold_log
from schedule_core.instants import Instant
from schedule_core.ports import SCHEDULE_EVENT_TYPE, Clock, SessionEvent
from schedule_core.records import (
    AtScheduleRecord,
    Prompt,
    ScheduleCreateChange,
    ScheduleDeleteChange,
    ScheduleId,
)

START = Instant(1_796_000_000_000)
"""What a `SetClock` says at first."""

AWKWARD_TEXT = (
    'two\nlines\r\n "quoted" \\ \0 \x1f \x85 \u2028 \u2029 \ufeff é 😀 '
    "half \ud83d, other half \udd1e"
)
"""Text that some reader would split, strip, escape away or refuse."""
AWKWARD_IDS = (
    "plain", "with space", "a/b", "../up", ".", "..", "~", "~0041", "-", "ünï", "😀", "\ud83d",
    "x" * 200, "nul\0", "CON", "session.jsonl", "back\\slash", "new\nline", "_no-cwd",
)  # fmt: skip


FOREIGN: Final = SessionText(
    SessionHeader("foreign", 7, extra={"later": [1.0]}),
    b'{ "createdAt":7, "id":"foreign","type":"session", "version":0,"later":[1.0]}\n',
    b'{"seq":0,"data":{"a": 1e2},"type":"x\\u002fy","time":8}\n'
    b'{"type":"text-chunks","seq0":1,"time0":9,"data":{"turn":0,"step":0,"index":0,'
    b'"texts":["a","b","c"],"dt":[1,1]}}\n',
)
"""A log that no program of this project wrote; it ends with a packed row."""
FOREIGN_LENGTH: Final = 4


class SetClock:
    """A clock that says what it was set to."""

    def __init__(self, now: Instant = START) -> None:
        self.time = now

    def now(self) -> Instant:
        """The time it was set to."""
        return self.time


class SessionStoreContract:
    """What must hold in every session store, whatever keeps its sessions."""

    def make_store(self, clock: Clock) -> SessionStore | Awaitable[SessionStore]:
        """Make an empty store; may be a coroutine."""
        raise NotImplementedError

    def restarted(self, store: SessionStore) -> SessionStore | Awaitable[SessionStore]:
        """The same sessions as a new process would find them; by default the store itself.

        The first store stays as it is. May be a coroutine.
        """
        return store

    @pytest.fixture
    def clock(self) -> SetClock:
        """The clock of the store."""
        return SetClock()

    @pytest.fixture
    async def store(self, clock: SetClock) -> AsyncIterator[SessionStore]:
        """The store under test, closed at the end with every further one of its sessions."""
        store = await _ready(self.make_store(clock))
        self._stores = [store]
        yield store
        for each in self._stores:
            await each.close()

    async def _again(self, store: SessionStore) -> SessionStore:
        again = await _ready(self.restarted(store))
        self._stores.append(again)
        return again

    async def test_new_session_is_empty(self, store: SessionStore) -> None:
        """A session that was never written can be opened, and is its own, unforked one."""
        session = await store.open("one")

        assert session.header.id == "one"
        assert session.header.created_at == START
        assert session.seed_length == 0
        assert session.length == 0
        assert list(session.events_from(0)) == []
        await session.close()

    async def test_append_is_live_at_once(self, store: SessionStore, clock: SetClock) -> None:
        """An event is in the log when append returns, with the next number and the time."""
        session = await store.open("one")
        clock.time = Instant(START + 5)

        event = session.append("x/y", {"n": 1})

        assert event == SessionEvent("x/y", {"n": 1}, seq=session.length - 1, time=START + 5)
        assert list(session.events_from(event.seq)) == [event]
        await session.close()

    async def test_barriered_events_survive_a_restart(self, store: SessionStore) -> None:
        """A later owner finds exactly the events and the header that were live."""
        session = await store.open("one")
        session.append("x/y", {"n": 1})
        await session.barrier()
        session.append_change(_create("schedule-1"))
        await session.barrier()
        await session.close()

        reopened = await (await self._again(store)).open("one")

        assert list(reopened.events_from(0)) == list(session.events_from(0))
        assert reopened.header == session.header
        await reopened.close()

    async def test_events_without_a_barrier_are_lost(self, store: SessionStore) -> None:
        """Closing writes nothing: it must not make durable what was never confirmed."""
        session = await store.open("one")
        session.append("kept", {})
        await session.barrier()
        session.append("lost", {})
        await session.close()

        snapshot = await (await self._again(store)).read("one")

        assert _types(snapshot.events) == ["kept"]

    async def test_seqs_have_no_gap_over_restarts(self, store: SessionStore) -> None:
        """Numbers go on where the durable log ended."""
        for _ in range(3):
            session = await store.open("one")
            session.append("x/y", {})
            await session.barrier()
            session.append("x/lost", {})
            await session.close()
            store = await self._again(store)

        events = (await store.read("one")).events

        assert [event.seq for event in events] == list(range(len(events)))
        assert _types(events) == ["x/y"] * 3

    async def test_each_batch_begins_with_its_checkpoint(self, store: SessionStore) -> None:
        """The first event after a barrier is preceded by what was durable by then."""
        session = await store.open("one")
        for event_type in ("a", "b"):
            session.append(event_type, {})
            session.append(event_type, {})
            await session.barrier()

        events = list(session.events_from(0))

        assert [(e.type, e.data) for e in events if e.type == CHECKPOINT.name] == [
            (CHECKPOINT.name, {"durable": -1}),
            (CHECKPOINT.name, {"durable": 2}),
        ]
        assert [event.type for event in events[::3]] == [CHECKPOINT.name] * 2
        await session.close()

    async def test_never_appended_session_leaves_nothing(self, store: SessionStore) -> None:
        """Looking is not making: an opened session exists only once something is durable."""
        session = await store.open("one")
        await session.barrier()
        await session.close()

        assert list(await store.session_ids()) == []
        await _refused(store.read("one"), StoreErrorCode.SESSION_NOT_FOUND)

    async def test_appended_but_unbarriered_session_leaves_nothing(
        self, store: SessionStore
    ) -> None:
        """The same when the only events were never confirmed."""
        session = await store.open("one")
        session.append("x/y", {})
        await session.close()

        assert list(await store.session_ids()) == []
        await _refused(store.read("one"), StoreErrorCode.SESSION_NOT_FOUND)

    async def test_change_is_a_schedule_event(self, store: SessionStore) -> None:
        """A change stands in the log in its version-1 form."""
        session = await store.open("one")
        session.append_change(_create("schedule-1"))
        session.append_change(ScheduleDeleteChange(ScheduleId("schedule-1")))
        await session.barrier()
        await session.close()

        events = (await (await self._again(store)).read("one")).events

        assert [decode_change(e.data) for e in events if e.type == SCHEDULE_EVENT_TYPE] == [
            _create("schedule-1"),
            ScheduleDeleteChange(ScheduleId("schedule-1")),
        ]

    async def test_awkward_text_survives(self, store: SessionStore) -> None:
        """Separators, controls, NUL, a byte order mark and lone surrogates come back."""
        session = await store.open("one")
        session.append(AWKWARD_TEXT, {AWKWARD_TEXT: [AWKWARD_TEXT]})
        await session.barrier()
        await session.close()

        events = (await (await self._again(store)).read("one")).events

        assert events[-1].type == AWKWARD_TEXT
        assert events[-1].data == {AWKWARD_TEXT: [AWKWARD_TEXT]}

    async def test_bad_data_adds_nothing(self, store: SessionStore) -> None:
        """Data that JSON cannot hold is refused before anything, the checkpoint included."""
        session = await store.open("one")
        deep: list[object] = []
        for _ in range(100_000):
            deep = [deep]

        for data in (object(), {1: 2}, b"bytes", {"set": {1}}, deep):
            with pytest.raises(TypeError):
                session.append("x/y", data)

        assert session.length == 0
        await session.close()

    async def test_live_data_is_not_the_callers_object(self, store: SessionStore) -> None:
        """What the caller does to it later changes neither the live log nor the durable one."""
        session = await store.open("one")
        data: dict[str, object] = {"n": 1, "pair": (1, 2)}

        session.append("x/y", data)
        data["n"] = 2

        [event] = session.events_from(session.length - 1)
        assert event.data == {"n": 1, "pair": [1, 2]}
        await session.close()

    async def test_events_from_gives_the_suffix(self, store: SessionStore) -> None:
        """From a position on, in order; none from the end on, and not a live view."""
        session = await store.open("one")
        session.append("a", {})
        suffix = session.events_from(session.length - 1)
        beyond = session.events_from(session.length)
        session.append("b", {})

        assert _types(suffix) == ["a"]
        assert list(beyond) == []
        assert list(session.events_from(session.length + 5)) == []
        await session.close()

    async def test_second_opener_is_refused(self, store: SessionStore) -> None:
        """One live owner; it keeps the session, and another may have it afterwards."""
        session = await store.open("one")

        await _refused(store.open("one"), StoreErrorCode.SESSION_LOCKED)

        session.append("x/y", {})
        await session.barrier()
        await session.close()
        await (await store.open("one")).close()

    async def test_sessions_are_apart(self, store: SessionStore) -> None:
        """Two open sessions share neither events nor the lock."""
        first, second = await store.open("one"), await store.open("two")
        first.append("a", {})
        second.append("b", {})
        await asyncio.gather(first.barrier(), second.barrier())
        await first.close()
        await second.close()

        assert _types((await store.read("one")).events) == ["a"]
        assert _types((await store.read("two")).events) == ["b"]

    async def test_closed_session_takes_no_events(self, store: SessionStore) -> None:
        """Closing twice is closing once; appending afterwards adds nothing."""
        session = await store.open("one")
        session.append("x/y", {})
        await session.barrier()
        length = session.length

        await session.close()
        await session.close()

        with pytest.raises(StoreError) as caught:
            session.append("x/z", {})
        assert caught.value.code == StoreErrorCode.SESSION_CLOSED
        assert session.length == length

    async def test_barrier_after_close_is_honest(self, store: SessionStore) -> None:
        """It passes for what is durable, and refuses to pass for what never became so."""
        durable, lost = await store.open("one"), await store.open("two")
        durable.append("x/y", {})
        await durable.barrier()
        lost.append("x/y", {})
        await durable.close()
        await lost.close()

        await durable.barrier()
        await _refused(lost.barrier(), StoreErrorCode.SESSION_CLOSED)

    async def test_concurrent_barriers_all_pass(self, store: SessionStore) -> None:
        """Many callers, each with its own event: every one finds its event durable."""
        session = await store.open("one")

        async def add(number: int) -> None:
            event = session.append("x/y", {"n": number})
            await session.barrier()
            assert event in (await store.read("one")).events

        await asyncio.gather(*map(add, range(20)))
        await session.close()

    async def test_cancelled_barrier_harms_nobody(self, store: SessionStore) -> None:
        """The events of a cancelled caller stay, and the others' barriers pass."""
        session = await store.open("one")
        session.append("a", {})
        cancelled = asyncio.ensure_future(session.barrier())
        other = asyncio.ensure_future(session.barrier())
        await asyncio.sleep(0)
        cancelled.cancel()
        await other
        session.append("b", {})
        await session.barrier()
        await session.close()

        assert _types((await store.read("one")).events) == ["a", "b"]

    async def test_read_needs_no_right_to_write(self, store: SessionStore) -> None:
        """A session that is open elsewhere can be read: at least what is durable of it."""
        session = await store.open("one")
        session.append("x/y", {})
        await session.barrier()

        snapshot = await store.read("one")

        assert snapshot.header == session.header
        assert list(snapshot.events) == list(session.events_from(0))
        await session.close()

    async def test_ids_are_sorted_and_complete(self, store: SessionStore) -> None:
        """Every id is listed as it was given, whatever characters it has."""
        for session_id in AWKWARD_IDS:
            await _write(store, session_id)

        assert list(await (await self._again(store)).session_ids()) == sorted(AWKWARD_IDS)
        for session_id in AWKWARD_IDS:
            assert (await store.read(session_id)).header.id == session_id

    @pytest.mark.parametrize("session_id", ["", "x" * 256, "é" * 52])
    async def test_impossible_ids_are_refused(self, store: SessionStore, session_id: str) -> None:
        """An id that no folder can be named after is refused everywhere alike."""
        await _write(store, "parent")

        for attempt in (
            store.open(session_id),
            store.read(session_id),
            store.fork(session_id, "child"),
            store.fork("parent", session_id),
        ):
            await _refused(attempt, StoreErrorCode.INVALID_SESSION_ID)

    async def test_surrogate_halves_are_one_character(self, store: SessionStore) -> None:
        """A text of two halves and the text of their pair name one session, as in JavaScript."""
        await _write(store, "\ud83d\ude00")

        assert list(await store.session_ids()) == ["😀"]
        assert (await store.read("😀")).header.id == "😀"

    async def test_fork_takes_the_history_and_no_reminder(self, store: SessionStore) -> None:
        """All events of the parent, then the mark of the end; the fold starts behind them."""
        parent = await store.open("parent")
        parent.append_change(_create("schedule-1"))
        await parent.barrier()
        await parent.close()

        header = await store.fork("parent", "child")
        child = await (await self._again(store)).open("child")

        assert child.header == header
        assert (header.id, header.parent) == ("child", "parent")
        assert child.seed_length == parent.length
        assert list(child.events_from(0))[: parent.length] == list(parent.events_from(0))
        assert [e.type for e in child.events_from(parent.length)] == ["session/end-seed"]
        assert fold_log(child.events_from(0), child.seed_length).seen == ()
        await child.close()

    async def test_fork_and_parent_go_on_apart(self, store: SessionStore) -> None:
        """Later events of the one never show in the other."""
        await _write(store, "parent")
        await store.fork("parent", "child")
        for session_id in ("parent", "child"):
            session = await store.open(session_id)
            session.append(f"only/{session_id}", {})
            await session.barrier()
            await session.close()

        parent, child = await store.read("parent"), await store.read("child")

        assert _types(parent.events) == ["x/y", "only/parent"]
        assert _types(child.events) == ["x/y", "session/end-seed", "only/child"]

    async def test_fork_of_a_fork(self, store: SessionStore) -> None:
        """The grandchild takes over all of the child, the child's own reminders included."""
        await _write(store, "parent")
        await store.fork("parent", "child")
        child = await store.open("child")
        child.append_change(_create("schedule-1"))
        await child.barrier()
        await child.close()

        await store.fork("child", "grandchild")
        grandchild = await store.read("grandchild")

        assert grandchild.header.parent == "child"
        assert grandchild.header.seed_length == child.length
        assert fold_log(grandchild.events, grandchild.header.seed_length).seen == ()

    async def test_fork_of_an_open_parent(self, store: SessionStore) -> None:
        """Forking needs no right to write the parent; it takes what is durable."""
        parent = await store.open("parent")
        parent.append("kept", {})
        await parent.barrier()
        length = parent.length
        parent.append("pending", {})

        header = await store.fork("parent", "child")

        assert header.seed_length == length
        await parent.close()

    async def test_fork_never_overwrites(self, store: SessionStore) -> None:
        """A child that exists, or is being made, is left alone; so is the parent itself."""
        await _write(store, "parent")
        await _write(store, "child")
        new = await store.open("new")

        for child_id in ("child", "parent", "new"):
            await _refused(store.fork("parent", child_id), StoreErrorCode.SESSION_EXISTS)

        assert _types((await store.read("child")).events) == ["x/y"]
        await new.close()

    async def test_fork_needs_a_parent(self, store: SessionStore) -> None:
        """A parent that was never written cannot be forked, and no child is made."""
        await _refused(store.fork("parent", "child"), StoreErrorCode.SESSION_NOT_FOUND)

        assert list(await store.session_ids()) == []

    async def test_export_is_the_text_of_a_log(self, store: SessionStore) -> None:
        """A header line and event lines, as every reader of the log format takes them."""
        session = await store.open("one")
        session.append(AWKWARD_TEXT, {"text": AWKWARD_TEXT})
        await session.barrier()

        text = await store.export("one")

        image = read_log(text.header_line + text.lines, "text")
        assert text.header == image.header == session.header
        assert len(text.header_line) == image.header_size
        assert image.events == list(session.events_from(0))
        assert image.torn is None
        await session.close()

    async def test_export_needs_a_session(self, store: SessionStore) -> None:
        """One that was never written has no text."""
        await _refused(store.export("one"), StoreErrorCode.SESSION_NOT_FOUND)

    async def test_adopted_session_is_the_same_byte_for_byte(self, store: SessionStore) -> None:
        """Foreign spacing, unknown members of the header and lines without order of keys too."""
        await store.adopt(FOREIGN)
        again = await self._again(store)

        text = await again.export("foreign")

        assert text == FOREIGN
        assert await again.session_ids() == ["foreign"]

    async def test_adopted_session_goes_on(self, store: SessionStore) -> None:
        """Its owner writes behind what was taken over, the packed rows included."""
        await store.adopt(FOREIGN)
        session = await store.open("foreign")
        assert session.length == FOREIGN_LENGTH
        session.append("x/y", {})
        await session.barrier()
        session.append("x/z", {})
        await session.barrier()
        await session.close()

        text = await (await self._again(store)).export("foreign")

        assert text.header_line == FOREIGN.header_line
        assert text.lines.startswith(FOREIGN.lines)
        events = read_log(text.header_line + text.lines, "text").events
        assert events == list(session.events_from(0))

    async def test_adopting_never_overwrites(self, store: SessionStore) -> None:
        """Neither a session that exists, nor one that is open and not yet written."""
        await store.adopt(FOREIGN)
        await _refused(store.adopt(FOREIGN), StoreErrorCode.SESSION_EXISTS)
        assert await store.export("foreign") == FOREIGN

        session = await store.open("new")
        header = FOREIGN.header_line.replace(b"foreign", b"new")
        new = SessionText(SessionHeader("new", 7), header, FOREIGN.lines)
        await _refused(store.adopt(new), StoreErrorCode.SESSION_EXISTS)
        await session.close()
        await store.adopt(new)

        assert (await store.export("new")).lines == FOREIGN.lines

    @pytest.mark.parametrize(
        "damage",
        [
            b'{"type":"x/y","seq":99,"time":1,"data":{}}\n',
            b'{"type":"x/y"',
            b"\n",
            b"\xff\n",
        ],
    )
    async def test_damaged_text_is_not_adopted(self, store: SessionStore, damage: bytes) -> None:
        """A torn tail included: nobody may take half a log for a whole one."""
        text = SessionText(FOREIGN.header, FOREIGN.header_line, FOREIGN.lines + damage)

        await _refused(store.adopt(text), StoreErrorCode.CORRUPT_LOG)

        assert list(await store.session_ids()) == []

    async def test_adopted_id_may_be_any(self, store: SessionStore) -> None:
        """The id is the one of the text, and is refused where opening it would be."""
        header = FOREIGN.header_line.replace(b"foreign", b"x" * 256)
        text = SessionText(SessionHeader("x" * 256, 7), header, b"")

        await _refused(store.adopt(text), StoreErrorCode.INVALID_SESSION_ID)

    async def test_closed_store_is_closed_once(self, store: SessionStore) -> None:
        """Closing it again is nothing; its sessions are there for the next one."""
        await _write(store, "one")
        again = await self._again(store)

        await store.close()
        await store.close()

        if again is not store:
            assert list(await again.session_ids()) == ["one"]


async def _ready(store: SessionStore | Awaitable[SessionStore]) -> SessionStore:
    return await store if isinstance(store, Awaitable) else store


async def _refused(attempt: Awaitable[object], code: StoreErrorCode) -> None:
    with pytest.raises(StoreError) as caught:
        await attempt
    assert caught.value.code == code


async def _write(store: SessionStore, session_id: str) -> None:
    """Make a session that holds one event beside its checkpoint."""
    session: Session = await store.open(session_id)
    session.append("x/y", {})
    await session.barrier()
    await session.close()


def _types(events: Iterable[SessionEvent]) -> list[str]:
    """The types in order, without the checkpoints, which are the store's own."""
    return [event.type for event in events if event.type != CHECKPOINT.name]


def _create(schedule_id: str) -> ScheduleCreateChange:
    return ScheduleCreateChange(
        AtScheduleRecord(ScheduleId(schedule_id), Prompt("stretch"), Instant(START + 60_000))
    )
