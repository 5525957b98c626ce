"""The live stream of one page: server-sent events, resumed after the last one that arrived.

A page is a cursor. It keeps how far it has come in the transcript and in the open turn, and
each time something changed it sends what is missing. What carries an event id is durable
and named by its seq in the log, so a page that comes back loses and repeats nothing.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from starlette.types import Receive, Scope, Send

from schedule_adapters.web.room import Room
from schedule_core import Clock
from schedule_core.text import json_text

BEAT_S: Final = 15.0
"""A page that hears nothing for more than twice as long takes the connection for lost."""
_REST_S: Final = 0.08
"""After each send: what a model says in this time goes out together."""
_SEND_TIMEOUT_S: Final = 30.0
"""A reader that takes nothing for this long is gone."""
_FROM_THE_START: Final = -1


def snapshot_text(room: Room, now: int) -> str:
    """The first picture of a session as JSON: its last messages, its reminders, its state.

    `seq` is where the stream goes on from; -1 while nothing was ever saved.
    """
    transcript, durable = room.transcript, room.session.durable
    entries, earlier = transcript.entries_before(durable)
    members = {
        "log": json_text(room.log_name),
        "seq": json_text(durable - 1),
        "now": json_text(now),
        "entries": f"[{','.join(item.text for item in entries)}]",
        "earlier": json_text(earlier),
        "reminders": json_text([each.as_json() for each in transcript.shown_reminders()]),
        "state": json_text(room.state()),
    }
    return "{" + ",".join(f'"{name}":{text}' for name, text in members.items()) + "}"


class Cursor:
    """How far one page has come.

    Args:
        room: the session it looks at.
        after: the seq of the last event it has; -1 when it wants every item there is; None
            when it has nothing and wants a snapshot.
        log: the log that `after` speaks of; what cannot be true of this one counts as None.
    """

    def __init__(self, room: Room, after: int | None, log: int | None) -> None:
        self._room = room
        self._position: int | None = None  # in the items; None until a snapshot was sent
        self._turn: int | None = None  # the open turn whose text it is being sent
        self._pieces = 0  # how many pieces of that it has
        self._state = ""
        if after == _FROM_THE_START or (
            after is not None and after < room.session.durable and log == room.log_name
        ):
            self._position = room.transcript.position_after(after)

    def news(self, now: int) -> Iterator[str]:
        """What the page does not have yet, as server-sent events; marks it as sent."""
        items = self._room.transcript.items
        if self._position is None:
            self._position = len(items)
            yield _event("snapshot", snapshot_text(self._room, now), self._room.session.durable - 1)
        while self._position < len(items):
            item = items[self._position]
            self._position += 1
            yield _event("item", item.text, item.seq)
        yield from self._live_text()
        state = json_text(self._room.state())
        if state != self._state:
            self._state = state
            yield _event("state", state)

    def _live_text(self) -> Iterator[str]:
        live = self._room.live
        if live is None:
            self._turn = None
            return
        if self._turn != live.input.seq:
            self._turn, self._pieces = live.input.seq, 0
            schedule_id = live.input.schedule_id
            reminder = schedule_id and self._room.transcript.reminder_of(schedule_id)
            yield _event("live", json_text({"input": live.input.seq, "reminder": reminder or None}))
        text = "".join(live.pieces[self._pieces :])
        self._pieces = len(live.pieces)
        if text:
            yield _event("more", json_text({"input": live.input.seq, "text": text}))


class PageStream:
    """The ASGI answer that keeps one page up to date until either side ends it."""

    def __init__(
        self,
        room: Room,
        cursor: Cursor,
        clock: Clock,
        admit: Callable[[Callable[[], None]], Callable[[], None] | None],
    ) -> None:
        self._room = room
        self._cursor = cursor
        self._clock = clock
        self._wake = asyncio.Event()
        self._ended = False
        self._leave = admit(self.end)

    @property
    def is_admitted(self) -> bool:
        """False when there are too many pages already; then it must not be run."""
        return self._leave is not None

    def end(self) -> None:
        """Let the stream end; the page will try to come back."""
        self._ended = True
        self._wake.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        """Serve it."""
        assert self._leave is not None, "a page that was not admitted is refused instead"
        silence = self._room.listen(self._wake.set)
        gone = asyncio.create_task(_until_gone(receive))
        gone.add_done_callback(lambda _: self.end())
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            with suppress(TimeoutError, OSError):
                await self._run(send)
                await send({"type": "http.response.body", "body": b""})
        finally:
            silence()
            self._leave()
            gone.cancel()

    async def _run(self, send: Send) -> None:
        await _send(send, f"retry: 1000\n\n{self._beat()}")
        while not self._ended:
            self._wake.clear()
            news = "".join(self._cursor.news(self._clock.now()))
            if news:
                await _send(send, news)
                await asyncio.sleep(_REST_S)
            try:
                async with asyncio.timeout(BEAT_S):
                    await self._wake.wait()
            except TimeoutError:
                await _send(send, self._beat())

    def _beat(self) -> str:
        return _event("beat", json_text({"now": self._clock.now()}))


async def _send(send: Send, text: str) -> None:
    body = text.encode("utf-8", "replace")
    async with asyncio.timeout(_SEND_TIMEOUT_S):
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(name: str, data: str, seq: int | None = None) -> str:
    mark = "" if seq is None else f"id: {seq}\n"
    return f"{mark}event: {name}\ndata: {data}\n\n"


_HEADERS: Final = [(b"content-type", b"text/event-stream; charset=utf-8")]
