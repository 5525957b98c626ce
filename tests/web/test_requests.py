"""What the page's server answers to whom, request by request; no browser, no socket."""

import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import pytest
from attrs import define

from schedule_adapters.events import INPUT_QUEUED
from schedule_adapters.live import SystemClock
from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.web.app import make_app
from schedule_adapters.web.guard import Access
from schedule_adapters.web.hub import Hub, WebLimits
from schedule_adapters.web.page import POLICY
from tests.adapters.turn_world import ScriptedDriver, gate, until

ORIGIN: Final = "http://127.0.0.1:8321"
CANARY: Final = "canary-in-the-coal-mine"
TOKEN: Final = "a-token-of-at-least-sixteen-characters"  # noqa: S105 - made up


@define
class Browser:
    """One browser at one server."""

    client: httpx.AsyncClient
    hub: Hub
    store: MemoryStore
    driver: ScriptedDriver
    csrf: str = ""

    async def visit(self, address: str = "/?session=main") -> httpx.Response:
        page = await self.client.get(address)
        found = re.search('data-csrf="([0-9a-f]+)"', page.text)
        self.csrf = found[1] if found else ""
        return page

    async def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"origin": ORIGIN, "content-type": "application/json", "x-csrf-token": self.csrf}
        return await self.client.post(
            f"{path}?session=main", content=content, headers={**given, **headers}
        )

    async def prompt(self, text: str = "hello", **changes: Any) -> httpx.Response:
        return await self.post("/prompt", {"text": text, "key": text[:20], **changes})

    async def queued(self) -> list[dict[str, Any]]:
        """What entered the inbox of the session."""
        if "main" not in await self.store.session_ids():
            return []
        events = (await self.store.read("main")).events
        return [event.data for event in events if event.type == INPUT_QUEUED.name]


@asynccontextmanager
async def browser(access: Access | None = None, **limits: int) -> AsyncIterator[Browser]:
    clock, driver = SystemClock(), ScriptedDriver()
    store = MemoryStore(clock=clock)
    hub = Hub(store, lambda _: driver, clock=clock, limits=WebLimits(**limits))
    transport = httpx.ASGITransport(make_app(hub, access or Access()))
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
        yield Browser(client, hub, store, driver)
    await hub.close()


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


class TestThePage:
    async def test_is_one_answer_under_60_kb_with_nothing_from_outside(self) -> None:
        async with browser() as it:
            page = await it.visit()
            icon = await it.client.get("/icon.svg")
        assert 200 == page.status_code
        assert len(page.content) + len(icon.content) < 60_000
        addresses = re.findall(r"""(?:src|href|action)=["']([^"']*)""", page.text)
        assert {"/icon.svg", "#text", "/?session=main"} == set(addresses)
        assert not re.search(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[a-z]+\.[a-z]", page.text)

    @pytest.mark.parametrize("letter", ["x", "<", "字", "\u202e"])
    async def test_stays_under_60_kb_however_much_there_is_to_show(self, letter: str) -> None:
        """Long messages and long names, in letters that take more room in HTML or an address."""
        async with browser() as it:
            await it.visit()
            for number in range(4):
                await it.prompt(f"{number} " + letter * 8_000)
            for number in range(300):
                session = await it.store.open(f"{number} " + letter * 40)
                session.append("other", {})
                await session.barrier()
                await session.close()
            page = await it.visit()
        assert len(page.content) < 59_500
        assert '<script type="application/json" id="snapshot">null</script>' in page.text
        assert '<a href="/?session=main" aria-current="page">' in page.text
        assert re.search("and [0-9]+ more</li>", page.text)

    async def test_allows_its_own_script_and_style_and_nothing_else(self) -> None:
        async with browser() as it:
            page = await it.visit()
        headers = page.headers
        assert POLICY == headers["content-security-policy"]
        assert POLICY.startswith("default-src 'none'; script-src 'sha256-")
        for rule in ("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"):
            assert rule in POLICY
        assert "unsafe" not in POLICY
        assert "nosniff" == headers["x-content-type-options"]
        assert "no-store" == headers["cache-control"]
        assert "no-referrer" == headers["referrer-policy"]
        assert {"HttpOnly", "SameSite=Strict"} <= set(headers["set-cookie"].split("; "))

    async def test_text_inside_it_is_never_markup(self) -> None:
        """Not in the list of sessions, and not in the first picture, which is JSON in HTML."""
        text = "</script><script>alert(1)</script><!-- & {{script}}"
        async with browser() as it:
            await it.visit()
            await it.prompt(text)
            await it.client.get("/", params={"session": "<i>\"'{{csrf}}"})
            page = await it.visit()
        assert 2 == page.text.count("</script>"), "the first picture and the script"
        assert "<i>" not in page.text
        snapshot = re.search('id="snapshot">(.*?)</script>', page.text)
        assert snapshot is not None
        assert text == json.loads(snapshot[1])["entries"][0]["text"]

    async def test_a_session_that_cannot_be_shown_says_why(self) -> None:
        async with browser() as it:
            held = await it.store.open("held")
            locked = await it.visit("/?session=held")
            await held.close()
            unnamed = await it.visit("/?session=")
            free = await it.visit("/?session=held")
        assert (409, 400, 200) == (locked.status_code, unnamed.status_code, free.status_code)
        assert "<code>session_locked</code>" in locked.text
        assert "This session is open in another program" in locked.text

    async def test_an_address_without_a_session_leads_to_main(self) -> None:
        async with browser() as it:
            assert "/?session=main" == (await it.client.get("/")).headers["location"]

    async def test_the_number_of_open_sessions_is_bounded_and_idle_ones_make_room(self) -> None:
        async with browser(rooms=2) as it:
            for name in ("one", "two", "three"):
                assert 200 == (await it.visit(f"/?session={name}")).status_code
            it.driver.steps["wait"] = until(opened := gate())
            await it.visit()
            await it.prompt("wait")
            room = await it.hub.room("three")
            silence = room.listen(lambda: None)
            assert 503 == (await it.visit("/?session=four")).status_code
            silence()
            assert 200 == (await it.visit("/?session=four")).status_code
            opened.set_result(None)


class TestWhoMayCall:
    @pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""])
    async def test_a_name_that_is_not_this_host_is_refused(self, host: str) -> None:
        """DNS rebinding: another site's name that resolves to this machine."""
        async with browser() as it:
            assert (403, "forbidden_host") == code(
                await it.client.get("/?session=main", headers={"host": host})
            )

    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1:99", "[::1]:8321", "LOCALHOST:8321"])
    async def test_every_name_of_loopback_is_this_host(self, host: str) -> None:
        async with browser() as it:
            page = await it.client.get("/?session=main", headers={"host": host})
        assert 200 == page.status_code

    async def test_off_loopback_addresses_and_given_names_are_this_host(self) -> None:
        access = Access(token=TOKEN, any_address=True, names=frozenset({"box.lan"}))
        assert access.is_this_host("192.168.1.5:8321")
        assert access.is_this_host("box.lan")
        assert not access.is_this_host("other.lan")
        assert not access.is_this_host("[::1")

    @pytest.mark.parametrize(
        "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8321"]
    )
    async def test_another_origin_is_refused_even_with_the_cookie_and_the_csrf_token(
        self, origin: str
    ) -> None:
        async with browser() as it:
            await it.visit()
            assert (403, "forbidden_origin") == code(
                await it.post("/prompt", {"text": "x", "key": "k"}, origin=origin)
            )
            read = await it.client.get("/events?session=main", headers={"origin": origin})
            assert (403, "forbidden_origin") == code(read)
            assert [] == await it.queued()

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    async def test_a_request_that_the_browser_calls_foreign_is_refused(self, site: str) -> None:
        async with browser() as it:
            foreign = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
            answer = await it.client.get("/events?session=main", headers=foreign)
            assert (403, "forbidden_origin") == code(answer)
            link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
            assert 200 == (await it.client.get("/?session=main", headers=link)).status_code

    async def test_a_change_needs_an_origin_and_the_csrf_token_of_this_browser(self) -> None:
        async with browser() as it:
            await it.visit()
            good = it.csrf
            it.client.cookies.clear()
            await it.visit()
            assert good != it.csrf, "each browser has its own"
            it.csrf = good
            assert (403, "csrf_token") == code(await it.prompt())
            it.csrf = ""
            assert (403, "csrf_token") == code(await it.prompt())
            bare = await it.client.post("/stop?session=main", json={})
            assert (403, "forbidden_origin") == code(bare)
            it.csrf = (await it.client.get("/hello")).json()["csrf"]
            assert 202 == (await it.prompt()).status_code

    async def test_with_a_token_nobody_gets_anything_before_showing_it(self) -> None:
        async with browser(Access(token=TOKEN)) as it:
            for path in ("/?session=main", "/events?session=main", "/hello", "/icon.svg", "/x"):
                assert (401, "token_needed") == code(await it.client.get(path))
            wrong = await it.client.get("/?token=not-the-token")
            assert (401, "token_needed") == code(wrong)
            it.client.cookies.set("session_schedule", f"{'x' * 22}.{'0' * 64}")
            assert (401, "token_needed") == code(await it.client.get("/hello"))
            it.client.cookies.clear()
            signed_in = await it.client.get(f"/?token={TOKEN}&session=work")
            assert (303, "/?session=work") == (
                signed_in.status_code,
                signed_in.headers["location"],
            )
            assert TOKEN not in signed_in.headers["set-cookie"]
            assert 200 == (await it.visit()).status_code
            assert 202 == (await it.prompt()).status_code

    async def test_a_restart_with_the_same_token_keeps_browsers_signed_in(self) -> None:
        async with browser(Access(token=TOKEN)) as it:
            await it.client.get(f"/?token={TOKEN}")
            await it.visit()
            old, cookies = it.csrf, it.client.cookies
        async with browser(Access(token=TOKEN)) as it:
            it.client.cookies = cookies
            await it.visit()
            assert old == it.csrf


class TestPrompts:
    async def test_a_prompt_carries_its_zone_and_only_that_prompt(self) -> None:
        async with browser() as it:
            await it.visit()
            answer = await it.prompt("one", timeZone="asia/shanghai")
            await it.prompt("two")
            assert {"saved": True} == {k: v for k, v in answer.json().items() if k != "seq"}
            zones = [data.get("timeZone") for data in await it.queued()]
            assert ["Asia/Shanghai", None] == zones

    @pytest.mark.parametrize("zone", ["Mars/Base", "CET", "+08:00", "x" * 65, 8, "", "posix/UTC"])
    async def test_what_is_no_zone_is_refused_and_queues_nothing(self, zone: object) -> None:
        async with browser() as it:
            await it.visit()
            assert (400, "invalid_time_zone") == code(await it.prompt(timeZone=zone))
            assert [] == await it.queued()

    async def test_the_same_key_again_is_the_same_message(self) -> None:
        """A page whose answer was lost on the way sends it again."""
        async with browser() as it:
            await it.visit()
            first, second = await it.prompt("once"), await it.prompt("once")
            assert first.json() == second.json()
            assert 1 == len(await it.queued())

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            (b"{", (400, "not_json")),
            (b"[]", (400, "not_json")),
            (b"[" * 30_000, (400, "not_json")),
            (b'{"text":"' + b"x" * 65_536 + b'"}', (413, "body_too_large")),
            (b'{"text":"' + b"x" * 33_000 + b'","key":"k"}', (413, "invalid_prompt")),
            (b'{"text":" \\n ","key":"k"}', (400, "invalid_prompt")),
            (b'{"text":7,"key":"k"}', (400, "invalid_prompt")),
            (b'{"text":"x"}', (400, "invalid_key")),
            (b'{"text":"x","key":""}', (400, "invalid_key")),
        ],
        ids=range(9),
    )
    async def test_what_cannot_be_a_prompt_is_refused(
        self, body: bytes, expected: tuple[int, str]
    ) -> None:
        async with browser() as it:
            await it.visit()
            assert expected == code(await it.post("/prompt", body))
            assert [] == await it.queued()

    async def test_a_form_of_another_page_is_refused_by_its_type(self) -> None:
        async with browser() as it:
            await it.visit()
            form = await it.post("/prompt", b"text=x", **{"content-type": "text/plain"})
            assert (415, "not_json") == code(form)

    async def test_messages_that_wait_are_bounded(self) -> None:
        async with browser(waiting=2) as it:
            await it.visit()
            it.driver.steps["0"] = until(opened := gate())
            answers = [(await it.prompt(str(number))).status_code for number in range(4)]
            opened.set_result(None)
        assert [202, 202, 202, 429] == answers

    async def test_connected_pages_are_bounded(self) -> None:
        async with browser(pages=0) as it:
            await it.visit()
            assert (503, "too_many_pages") == code(await it.client.get("/events?session=main"))

    async def test_deleting_answers_as_the_tool_does(self) -> None:
        async with browser() as it:
            await it.visit()
            gone = await it.post("/delete", {"id": "schedule-9"})
            assert {
                "id": "schedule-9",
                "deleted": False,
                "code": "schedule_not_found",
            } == gone.json()
            assert (400, "invalid_rule") == code(await it.post("/delete", {"id": 7}))
            assert {"stopped": False} == (await it.post("/stop", {})).json()


async def test_no_line_of_any_log_holds_what_was_said(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nor when the server itself fails over it."""
    caplog.set_level(logging.DEBUG)
    async with browser() as it:
        await it.visit()
        await it.prompt(CANARY, timeZone="Europe/Berlin")
        await it.prompt(CANARY * 3_000)
        await it.prompt(CANARY, timeZone=CANARY)
        await it.post("/delete", {"id": CANARY})

        async def broken(*_: object, **__: object) -> None:
            raise RuntimeError(CANARY)

        room = await it.hub.room("main")
        room.prompt = broken  # type: ignore[assignment, method-assign]
        failed = await it.prompt(CANARY + "!")
        assert 500 == failed.status_code
        assert CANARY not in failed.text
    assert "a request failed: RuntimeError" in caplog.messages
    ours = [record for record in caplog.records if not record.name.startswith("httpx")]
    assert not [record for record in ours if CANARY in record.getMessage()]
    assert not [record for record in ours if record.exc_info]
    assert CANARY not in "".join(capfd.readouterr())
