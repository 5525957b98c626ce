"""Random lives of sessions leave the same text in the database as in files."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from schedule_adapters.sessions import Session, SessionStore, SessionText, StoreError
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.stores.sqlite import SqliteStore
from schedule_adapters.testing.stores import AWKWARD_TEXT, FOREIGN, SetClock
from schedule_core.instants import Instant
from schedule_core.ports import SCHEDULE_EVENT_TYPE

Step: TypeAlias = tuple[str, str, str]
"""What is done, to which session, and with which text or other session."""
_IDS = st.sampled_from(["one", "two", "\ud83d", "nul\0"])
_TEXTS = st.sampled_from(["x/y", SCHEDULE_EVENT_TYPE, AWKWARD_TEXT, '"', ""]) | st.from_type(str)
_STEPS = st.one_of(
    st.tuples(st.just("append"), _IDS, _TEXTS),
    st.tuples(st.sampled_from(["barrier", "reopen"]), _IDS, st.just("")),
    st.tuples(st.just("fork"), _IDS, _IDS),
    st.tuples(st.just("adopt"), st.just(FOREIGN.header.id), st.just("")),
)


@given(st.lists(_STEPS, max_size=25))
def test_both_stores_end_with_the_same_text(steps: Sequence[Step]) -> None:
    """Whatever is appended, made durable, closed, opened again, forked and taken over."""
    with TemporaryDirectory() as folder:
        files, database = asyncio.run(_live_twice(Path(folder), steps))

    assert files == database


Outcome: TypeAlias = tuple[list[str], list[SessionText]]
"""What each step ended with, and the text of each session in the end."""


async def _live_twice(folder: Path, steps: Sequence[Step]) -> tuple[Outcome, Outcome]:
    clock = SetClock()
    files = await _live(JsonlStore(folder / "files", clock=clock), clock, steps)
    clock = SetClock()
    store = await SqliteStore.connect(folder / "sessions.db", clock=clock)
    return files, await _live(store, clock, steps)


async def _live(store: SessionStore, clock: SetClock, steps: Sequence[Step]) -> Outcome:
    open_sessions: dict[str, Session] = {}
    answers = []
    for step in steps:
        clock.time = Instant(clock.time + 1)
        try:
            await _take(store, open_sessions, step)
            answers.append("done")
        except StoreError as error:
            answers.append(error.code)
    for session in open_sessions.values():
        await session.close()
    texts = [await store.export(session_id) for session_id in await store.session_ids()]
    await store.close()
    return answers, texts


async def _take(store: SessionStore, open_sessions: dict[str, Session], step: Step) -> None:
    match step:
        case ("fork", parent_id, child_id):
            await store.fork(parent_id, child_id)
        case ("adopt", _, _):
            await store.adopt(FOREIGN)
        case (what, session_id, text):
            if session_id not in open_sessions:
                open_sessions[session_id] = await store.open(session_id)
            session = open_sessions[session_id]
            if what == "append":
                session.append(text, {text: [text]})
            elif what == "barrier":
                await session.barrier()
            else:
                await open_sessions.pop(session_id).close()
