"""The sessions that are open in this process: one room each, opened when first asked for."""

import asyncio
from collections.abc import Callable

from attrs import frozen

from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import Session, SessionStore
from schedule_adapters.timers import WallTimers
from schedule_adapters.turn_driver import TurnDriver
from schedule_adapters.web.room import Room
from schedule_core import Clock


class HubFull(Exception):  # noqa: N818 - a state, not a fault
    """As many sessions are open as there may be, and none of them can be put away."""


@frozen
class WebLimits:
    """Bounds on what a browser can make this process hold.

    Attributes:
        body_bytes: the longest request body.
        prompt_bytes: the longest prompt, in bytes of UTF-8.
        waiting: how many prompts of one session may wait for their turn.
        pages: how many pages may be connected at once, all sessions together.
        rooms: how many sessions may be open at once.
        name_length: the longest session name.
    """

    body_bytes: int = 64 * 1024
    prompt_bytes: int = 32 * 1024
    waiting: int = 32
    pages: int = 256
    rooms: int = 64
    name_length: int = 64


class Hub:
    """Opens each session once, whoever asks, and closes all of them."""

    def __init__(
        self,
        store: SessionStore,
        make_driver: Callable[[Session], TurnDriver],
        *,
        clock: Clock | None = None,
        limits: WebLimits | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self.limits = limits or WebLimits()
        self._store = store
        self._make_driver = make_driver
        self._shared_timers: WallTimers | None = None  # made with the first room, on its loop
        self._rooms: dict[str, asyncio.Task[Room]] = {}
        self._pages: set[Callable[[], None]] = set()
        self._closings: set[asyncio.Task[None]] = set()
        self._closed = False

    async def room(self, session_id: str) -> Room:
        """The room of that session, opened now if it is not yet.

        Raises:
            StoreError: the session cannot be opened.
            HubFull: too many are open, or this process is ending.
        """
        opening = self._rooms.get(session_id)
        if opening is None:
            if self._closed or (len(self._rooms) >= self.limits.rooms and not self._put_one_away()):
                raise HubFull
            room = Room.open(self._store, session_id, self._make_driver, timers=self._timers())
            opening = self._rooms[session_id] = asyncio.create_task(room)
            opening.add_done_callback(lambda task: self._forget_failed(session_id, task))
        # A page that goes away must not end the opening for the others.
        return await asyncio.shield(opening)

    def _timers(self) -> WallTimers:
        """The timers of all rooms: one look at the clock for all of them."""
        if self._shared_timers is None:
            self._shared_timers = WallTimers(self.clock)
        return self._shared_timers

    async def session_names(self) -> list[str]:
        """Every session that is kept or open, sorted."""
        return sorted({*await self._store.session_ids(), *self._rooms})

    def pending(self, session_id: str) -> int | None:
        """How many reminders of that session are to come; None while it is not open."""
        opening = self._rooms.get(session_id)
        if opening is None or not opening.done() or opening.exception() is not None:
            return None
        return opening.result().transcript.pending()

    def admit_page(self, end: Callable[[], None]) -> Callable[[], None] | None:
        """Count one connected page; gives the function that counts it out, None when full."""
        if self._closed or len(self._pages) >= self.limits.pages:
            return None
        self._pages.add(end)
        return lambda: self._pages.discard(end)

    def end_pages(self) -> None:
        """End every connected page and admit no more: this process is ending."""
        self._closed = True
        for end in list(self._pages):
            end()

    async def close(self) -> None:
        """Close every session; what is pending stays in the logs."""
        self.end_pages()
        rooms = await asyncio.gather(*self._rooms.values(), return_exceptions=True)
        self._rooms.clear()
        closing = [room.close() for room in rooms if isinstance(room, Room)]
        await asyncio.gather(*closing, *self._closings, return_exceptions=True)

    def _forget_failed(self, session_id: str, task: asyncio.Task[Room]) -> None:
        if task.cancelled() or task.exception() is not None:
            del self._rooms[session_id]

    def _put_one_away(self) -> bool:
        """Begin to close a session that nobody looks at and that nothing will happen in."""
        for session_id, opening in self._rooms.items():
            if not opening.done() or opening.exception() is not None:
                continue
            room = opening.result()
            if room.is_idle:
                del self._rooms[session_id]
                closing = asyncio.create_task(room.close())
                self._closings.add(closing)
                closing.add_done_callback(self._closings.discard)
                return True
        return False
