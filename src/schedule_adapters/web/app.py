"""The routes of the page, and how a request is read: bounded first, then parsed."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.turns import AgentClosed
from schedule_adapters.web.guard import Access, Guard, Refusal, refused
from schedule_adapters.web.hub import Hub, HubFull
from schedule_adapters.web.page import POLICY, SessionLink, conversation_page, icon, trouble_page
from schedule_adapters.web.room import Room
from schedule_adapters.web.stream import Cursor, PageStream, snapshot_text
from schedule_core.text import parse_json, trim
from schedule_core.zones import canonical_zone_name

_SESSION: Final = "main"
"""The session of an address that names none; as on the command line."""
_MAX_KEY: Final = 64
_MAX_ID: Final = 256
_MAX_ZONE: Final = 64
_SEQ: Final = re.compile("-1|[0-9]{1,15}")


def make_app(hub: Hub, access: Access) -> Starlette:
    """The web application; its end closes the hub."""
    pages = _Pages(hub)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await hub.close()

    return Starlette(
        routes=[
            Route("/", pages.page),
            Route("/events", pages.events),
            Route("/earlier", pages.earlier),
            Route("/hello", pages.hello),
            Route("/icon.svg", pages.icon),
            Route("/prompt", pages.prompt, methods=["POST"]),
            Route("/delete", pages.delete, methods=["POST"]),
            Route("/stop", pages.stop, methods=["POST"]),
        ],
        middleware=[Middleware(Guard, access=access, policy=POLICY)],
        exception_handlers={Refusal: _refuse},
        lifespan=lifespan,
    )


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refused(error)


class _Pages:
    """What each address answers."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._limits = hub.limits

    async def page(self, request: Request) -> Response:
        """The page of one session, whole; or why it cannot be shown."""
        if "session" not in request.query_params:
            return RedirectResponse(f"/?session={_SESSION}", 303)
        try:
            name = self._session_name(request)
            room = await self._room(name)
        except Refusal as refusal:
            links = await self._links(None)
            html = trouble_page(
                _TITLES.get(refusal.code, "This session cannot be shown"),
                refusal.words,
                refusal.code,
                links,
            )
            return _html(html, refusal.status)
        html = conversation_page(
            name,
            await self._links(name),
            snapshot=snapshot_text(room, self._hub.clock.now()),
            csrf_token=request.scope["csrf"],
        )
        return _html(html, 200)

    async def events(self, request: Request) -> Response | PageStream:
        """The live stream of one session."""
        room = await self._room(self._session_name(request))
        after = _integer(request.headers.get("last-event-id"))
        if after is None:
            after = _integer(request.query_params.get("after"))
        cursor = Cursor(room, after, _integer(request.query_params.get("log")))
        stream = PageStream(room, cursor, self._hub.clock, self._hub.admit_page)
        if not stream.is_admitted:
            raise Refusal(503, "too_many_pages", "too many pages are open already")
        return stream

    async def earlier(self, request: Request) -> Response:
        """Messages from further back."""
        room = await self._room(self._session_name(request))
        before = _integer(request.query_params.get("before"))
        if before is None:
            raise Refusal(400, "invalid_position", "before is a whole number")
        items, more = room.transcript.entries_before(before)
        entries = ",".join(item.text for item in items)
        text = f'{{"entries":[{entries}],"earlier":{"true" if more else "false"}}}'
        return Response(text.encode("utf-8", "replace"), media_type="application/json")

    async def hello(self, request: Request) -> Response:
        """What a page needs that outlived its server."""
        return JSONResponse({"csrf": request.scope["csrf"]})

    async def icon(self, _: Request) -> Response:
        """The icon in the tab."""
        return Response(icon(), media_type="image/svg+xml")

    async def prompt(self, request: Request) -> Response:
        """Queue what the user said."""
        room, body = await self._room_and_body(request)
        text, key, zone = body.get("text"), body.get("key"), body.get("timeZone")
        if not isinstance(text, str) or not trim(text):
            raise Refusal(400, "invalid_prompt", "the message is empty")
        if len(text.encode("utf-8", "surrogatepass")) > self._limits.prompt_bytes:
            words = f"the message is longer than {self._limits.prompt_bytes // 1024} KiB"
            raise Refusal(413, "invalid_prompt", words)
        if not isinstance(key, str) or not 0 < len(key) <= _MAX_KEY:
            raise Refusal(400, "invalid_key", "the message has no key of its own")
        if room.waiting() >= self._limits.waiting:
            raise Refusal(429, "too_many_waiting", "too many messages wait already")
        try:
            seq, saved = await room.prompt(text, time_zone=_zone(zone), key=key)
        except AgentClosed as error:
            raise Refusal(503, "session_closed", "this session is being closed") from error
        return JSONResponse({"seq": seq, "saved": saved}, 202)

    async def delete(self, request: Request) -> Response:
        """Delete one reminder; answers as the tool does."""
        room, body = await self._room_and_body(request)
        schedule_id = body.get("id")
        if not isinstance(schedule_id, str) or not 0 < len(schedule_id) <= _MAX_ID:
            raise Refusal(400, "invalid_rule", "there is no reminder of that id")
        return JSONResponse(await room.delete(schedule_id))

    async def stop(self, request: Request) -> Response:
        """End the open turn early."""
        room, _ = await self._room_and_body(request)
        return JSONResponse({"stopped": room.stop_turn()})

    # How a request is read.

    def _session_name(self, request: Request) -> str:
        name = request.query_params.get("session", "")
        if not trim(name) or len(name) > self._limits.name_length:
            words = f"a session's name has 1 to {self._limits.name_length} characters"
            raise Refusal(400, "invalid_session_id", words)
        return name

    async def _room(self, name: str) -> Room:
        try:
            return await self._hub.room(name)
        except HubFull as error:
            raise Refusal(503, "too_many_sessions", "too many sessions are open here") from error
        except StoreError as error:
            raise Refusal(_STATUS.get(error.code, 500), error.code, error.message) from error

    async def _room_and_body(self, request: Request) -> tuple[Room, dict[str, Any]]:
        body = await self._body(request)
        return await self._room(self._session_name(request)), body

    async def _body(self, request: Request) -> dict[str, Any]:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise Refusal(415, "not_json", "the request is not JSON")
        content = b""
        async for piece in request.stream():
            content += piece
            if len(content) > self._limits.body_bytes:
                raise Refusal(413, "body_too_large", "the request is too large")
        try:
            body = parse_json(content)
        except ValueError as error:
            raise Refusal(400, "not_json", "the request is not JSON") from error
        if not isinstance(body, dict):
            raise Refusal(400, "not_json", "the request is not a JSON object")
        return body

    async def _links(self, current: str | None) -> list[SessionLink]:
        try:
            names = await self._hub.session_names()
        except StoreError:
            names = []
        names = sorted({*names, *([] if current is None else [current])})
        return [SessionLink(name, self._hub.pending(name)) for name in names]


def _zone(value: object) -> str | None:
    """The zone that a prompt came with; None when it came with none.

    Raises:
        Refusal: `invalid_time_zone`; nothing was queued.
    """
    if value is None:
        return None
    name = (
        canonical_zone_name(value) if isinstance(value, str) and len(value) <= _MAX_ZONE else None
    )
    if name is None:
        words = "the time zone is not UTC and not an IANA name such as Europe/Berlin"
        raise Refusal(400, "invalid_time_zone", words)
    return name


def _integer(text: str | None) -> int | None:
    """A seq, or -1; None for anything else."""
    is_one = (
        text is not None and len(text) <= len(str(2**53)) and text.removeprefix("-").isdecimal()
    )
    return int(text) if text is not None and is_one else None


def _html(text: str, status: int) -> Response:
    return HTMLResponse(text.encode("utf-8", "replace"), status)


_STATUS: Final = {
    StoreErrorCode.SESSION_LOCKED: 409,
    StoreErrorCode.INVALID_SESSION_ID: 400,
    StoreErrorCode.UNSUPPORTED_LOG: 409,
}
_TITLES: Final = {
    "session_locked": "This session is open in another program",
    "invalid_session_id": "This cannot be the name of a session",
    "corrupt_log": "The log of this session is damaged",
    "too_many_sessions": "Too many sessions are open",
}
