"""A store whose sessions are watched, and fail on order: the seam between product and witness."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from attrs import define, field

from schedule_adapters.events import INPUT_QUEUED
from schedule_adapters.sessions import (
    Session,
    SessionHeader,
    SessionSnapshot,
    SessionStore,
    SessionText,
    StoreError,
    StoreErrorCode,
)
from schedule_adapters.testing.simulation.odds import CALM, Odds
from schedule_adapters.testing.simulation.witness import Story
from schedule_core import ScheduleChange, SessionEvent


@define
class WatchedSession:
    """One open session: all that goes in and out of it is told to its story."""

    inner: Session
    story: Story
    odds: Odds
    chance: random.Random
    faults: Counter[str]
    dead: bool = False
    """The process has died, and what it still does is nobody's business."""

    @property
    def header(self) -> SessionHeader:
        """The header of the session."""
        return self.inner.header

    @property
    def seed_length(self) -> object:
        """The boundary of a fork."""
        return self.inner.seed_length

    @property
    def length(self) -> int:
        """How many events are live."""
        return self.inner.length

    def events_from(self, position: int) -> Iterable[SessionEvent]:
        """The live events, if they can be read."""
        self._may_fail(self.odds.read / 10, "unreadable log")
        return self.inner.events_from(position)

    def append(self, event_type: str, data: object) -> SessionEvent:
        """Add one event."""
        if event_type == INPUT_QUEUED.name:
            self._may_fail(self.odds.append, "refused event")
        before = self.inner.length
        with self._noting_the_end():
            event = self.inner.append(event_type, data)
        self._tell(before)
        return event

    def append_change(self, change: ScheduleChange) -> None:
        """Add one change."""
        self._may_fail(self.odds.append, "refused event")
        before = self.inner.length
        with self._noting_the_end():
            self.inner.append_change(change)
        self._tell(before)

    async def barrier(self) -> None:
        """Wait until all is durable; one that fails may have made it so or not."""
        wanted = self.inner.length
        passes_first = self.chance.random() < 1 / 2
        try:
            if not passes_first:
                self._may_fail(self.odds.barrier, "failed barrier")
            await self.inner.barrier()
            if passes_first:
                self._may_fail(self.odds.barrier, "failed barrier")
        except BaseException:
            self.story.failed_barriers += 1
            raise
        if not self.dead:
            self.story.confirm(wanted)

    async def close(self) -> None:
        """Give up the right to write."""
        await self.inner.close()

    def _may_fail(self, odds: float, what: str) -> None:
        if odds > 0 and self.chance.random() < odds:
            self.faults[what] += 1
            self.story.troubles += 1
            self.story.disturb()
            raise StoreError(StoreErrorCode.WRITE_FAILED, what)

    @contextmanager
    def _noting_the_end(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            if error.code is StoreErrorCode.SESSION_TAKEN_OVER:
                self.story.troubles += 1  # that excuses what is answered now
            raise

    def _tell(self, before: int) -> None:
        if not self.dead:
            for event in self.inner.events_from(before):
                self.story.append(event)


@define
class WatchedStore:
    """The sessions of one store; `sessions` are those opened so far."""

    inner: SessionStore
    stories: dict[str, Story]
    chance: random.Random
    faults: Counter[str]
    odds: Odds = CALM
    sessions: list[WatchedSession] = field(factory=list)

    async def open(self, session_id: str) -> WatchedSession:
        """Open a session, and hold what it contains up against its story."""
        session = await self.inner.open(session_id)
        story = self.stories[session_id]
        story.opened(list(session.events_from(0)), session.seed_length)
        watched = WatchedSession(session, story, self.odds, self.chance, self.faults)
        self.sessions.append(watched)
        return watched

    async def read(self, session_id: str) -> SessionSnapshot:
        """Read a session."""
        return await self.inner.read(session_id)

    async def fork(self, parent_id: str, child_id: str) -> SessionHeader:
        """Fork a session."""
        return await self.inner.fork(parent_id, child_id)

    async def export(self, session_id: str) -> SessionText:
        """A session as text."""
        return await self.inner.export(session_id)

    async def adopt(self, text: SessionText) -> None:
        """Make a session of a text."""
        await self.inner.adopt(text)

    async def close(self) -> None:
        """Close the store."""
        await self.inner.close()

    async def session_ids(self) -> Iterable[str]:
        """The ids of all sessions."""
        return await self.inner.session_ids()

    def set_odds(self, odds: Odds) -> None:
        """Change what goes wrong from now on."""
        self.odds = odds
        for session in self.sessions:
            session.odds = odds

    def died(self) -> None:
        """The process has died."""
        for session in self.sessions:
            session.dead = True
            session.story.closing = True
