"""The page in a real browser, on a real server process, with real delays of a few seconds."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from schedule_core import SCHEDULE_EVENT_TYPE
from tests.adapters.agents.agent_world import ScriptedProvider
from tests.web.page_world import (
    CHROMIUM,
    TIMEOUT_S,
    Stalled,
    Tab,
    WebProcess,
    scripted,
    seed,
    told,
)

pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(),
    reason=f"NO BROWSER: there is no {CHROMIUM}; install chromium, or name one in CHROMIUM",
)

Contexts = Callable[..., BrowserContext]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM),
            # As root (in a container) chromium starts only without its sandbox.
            args=["--no-sandbox"] if os.geteuid() == 0 else [],
        )
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[Contexts]:
    """Makes browser contexts: separate people, in separate zones."""
    made: list[BrowserContext] = []

    def make(zone: str = "Europe/Berlin", **options: Any) -> BrowserContext:
        context = browser.new_context(timezone_id=zone, locale="en-GB", **options)
        context.set_default_timeout(TIMEOUT_S * 1000)
        made.append(context)
        return context

    yield make
    for each in made:
        each.close()


def test_a_prompt_makes_a_reminder_and_it_comes_back_as_a_turn(
    tmp_path: Path, context: Contexts
) -> None:
    with WebProcess(tmp_path) as server:
        tab = Tab.open(context(), server)
        page = tab.page
        expect(page.locator("#welcome")).to_be_visible()
        expect(page.locator("#zone")).to_have_text("Europe/Berlin")
        tab.say("remind me in 2 seconds to stretch")
        tab.hears("I will remind you at")
        tab.pending(1)
        expect(page.locator("#pending .when b")).to_have_text(re.compile("^in [12] s|^due now"))
        due = page.locator("#pending time")
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", due.get_attribute("title") or "")
        assert (due.get_attribute("datetime") or "").endswith("Z")
        tab.hears("Reminder: stretch")
        tab.pending(0)
        expect(page.locator("#entries .came .mark")).to_contain_text("schedule-1")
        expect(page.locator("#timeline .came")).to_have_count(1)
        assert "[SCHEDULE REMINDER]" not in page.content(), "the frame is for the model"
        expect(page.locator("#text")).to_be_focused()
        expect(page.locator("#announcer")).to_contain_text("Reminder: Reminder: stretch")
        shown = tab.transcript()
        assert told(server.events()) == shown
        page.reload()
        tab.hears("Reminder: stretch")
        assert shown == tab.transcript(), "a reload shows the same conversation"
        tab.is_quiet()
        assert server.interrupt() in {0, 130}
        assert "Traceback" not in server.log()


def test_a_killed_server_loses_and_repeats_nothing_on_an_open_page(
    tmp_path: Path, context: Contexts
) -> None:
    """Killed with a reminder pending; the page comes back by itself, and so does the reminder."""
    with WebProcess(tmp_path) as server:
        tab = Tab.open(context(), server)
        tab.say("remind me in 2 seconds to look up")
        tab.hears("I will remind you at")
        server.kill()
        expect(tab.page.locator("#link")).to_contain_text("connection is lost")
        tab.page.locator("#text").fill("still here?")
        tab.page.keyboard.press("Enter")
        expect(tab.page.locator("#problem")).to_contain_text("Not sent")
        expect(tab.page.locator("#text")).to_have_value("still here?")
        server.start()
        tab.hears("Reminder: look up")
        expect(tab.page.locator("#link")).to_be_hidden()
        tab.page.keyboard.press("Enter")  # with the CSRF token of the new server
        tab.hears("I am the offline model")
        expect(tab.page.locator("#problem")).to_be_hidden()
        assert told(server.events()) == tab.transcript()
        delivered = [e for e in server.events() if e.data.get("operation") == "dispatch"]
        assert 1 == len(delivered)


def test_offline_and_back_shows_what_came_meanwhile_once(tmp_path: Path, context: Contexts) -> None:
    with WebProcess(tmp_path) as server:
        away, present = context(), context()
        tab, other = Tab.open(away, server), Tab.open(present, server)
        tab.say("remind me in 2 seconds to breathe")
        tab.hears("I will remind you at")
        away.set_offline(True)
        expect(tab.page.locator("#link")).to_contain_text("You are offline")
        other.hears("Reminder: breathe")
        other.say("hello")
        other.hears("I am the offline model")
        away.set_offline(False)
        tab.hears("I am the offline model")
        tab.hears("Reminder: breathe")
        expect(tab.page.locator("#link")).to_be_hidden()
        assert told(server.events()) == tab.transcript() == other.transcript()


def test_two_tabs_in_two_zones_stay_in_step_and_the_model_is_told_to_ask(
    tmp_path: Path, context: Contexts
) -> None:
    """While a turn is open, each tab says something: the next turn has two zones."""
    stalled = Stalled("The first ", "answer.")
    answers = (stalled, ["Which zone?"], ["In New York."])
    with (
        ScriptedProvider(*answers) as provider,
        scripted(tmp_path, provider) as server,
    ):
        shanghai = Tab.open(context("Asia/Shanghai"), server)
        york = Tab.open(context("America/New_York"), server)
        shanghai.say("think")
        assert stalled.asked.wait(TIMEOUT_S)
        expect(york.page.locator("#working")).to_have_text("Working…")
        shanghai.say("at nine: tea")
        york.say("at nine: coffee")
        for tab in (shanghai, york):
            expect(tab.page.locator(".said.waits")).to_have_count(2)
        stalled.released.set()
        for tab in (shanghai, york):
            tab.hears("In New York.")
            assert told(server.events()) == tab.transcript()
        zones = [_zone_told(request) for request in provider.requests]
        assert ["Asia/Shanghai", "mixed", "America/New_York"] == zones
        kept = [e.data.get("timeZone") for e in server.events() if e.type == "input/queued"]
        assert ["Asia/Shanghai", "Asia/Shanghai", "America/New_York"] == kept


def _zone_told(request: dict[str, Any]) -> str:
    [zone] = re.findall("client_time_zone: ([^\\s]+)", str(request["messages"][0]["content"]))
    return str(zone).partition("\\n")[0]


@pytest.mark.parametrize(("zone", "utc"), [("Asia/Shanghai", "04:15"), ("America/New_York", None)])
def test_a_wall_time_is_read_in_the_zone_of_the_browser(
    tmp_path: Path, context: Contexts, zone: str, utc: str | None
) -> None:
    with WebProcess(tmp_path) as server:
        tab = Tab.open(context(zone), server)
        tab.say("remind me tomorrow at 12:15 to eat")
        tab.hears(zone)
        due = tab.page.locator("#pending time")
        expect(due).to_have_text(re.compile(r"12:15$"))
        title = due.get_attribute("title") or ""
        assert title[11:16] in ({utc} if utc else {"16:15", "17:15"}), title


def test_two_hundred_reminders_are_shown_and_the_page_stays_usable(
    tmp_path: Path, context: Contexts
) -> None:
    seed(tmp_path, *((f"task number {number}", 3_600 + 60 * number) for number in range(200)))
    with WebProcess(tmp_path) as server:
        tab = Tab.open(context(), server)
        tab.pending(200)
        expect(tab.page.locator("#glance")).to_contain_text("200 pending, next in")
        expect(tab.page.locator("#pending > li").first).to_contain_text("task number 0")
        tab.page.get_by_label("Delete the reminder: task number 199").click()
        tab.pending(199)
        tab.say("hello")
        tab.hears("I am the offline model")
        tab.is_quiet()


HOSTILE = (
    "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>",
    "</script><script>window.hit = 1</script><!--",
    "W" * 8_192,
    "abc \u202egnp.exe\u202c \u2066isolated\u2069 שלום عليكم",
    "👩‍👩‍👧‍👦 🏳️‍🌈 é\u0301\u0301\u0301 🧑🏽‍🚀 \u0000\u001b[31m",
    "{{script}} ${window.hit = 1} ]]> &amp; \u2028 line two",
)


def test_hostile_texts_are_shown_as_text_and_break_nothing(
    tmp_path: Path, context: Contexts
) -> None:
    seed(tmp_path, *((text, 1 if index < 2 else 3_600) for index, text in enumerate(HOSTILE)))
    with WebProcess(tmp_path) as server:
        tab = Tab.open(context(viewport={"width": 360, "height": 740}), server)
        tab.hears(HOSTILE[0])
        tab.hears(HOSTILE[1])
        tab.say("<b>bold</b> <img src=x onerror='window.hit = 1'>")
        tab.hears("I am the offline model")
        tab.page.locator("#panel summary").click()
        texts = tab.page.locator("#pending .text").all_text_contents()
        assert sorted(HOSTILE[2:]) == sorted(texts)
        assert "<b>bold</b> <img src=x onerror='window.hit = 1'>" in tab.transcript()
        assert tab.page.evaluate("window.hit === undefined && document.images.length === 0")
        assert not _overflows(tab.page)
        tab.page.reload()
        tab.hears(HOSTILE[0])
        assert tab.page.evaluate("window.hit === undefined && document.images.length === 0")
        tab.is_quiet()
        assert "window.hit" not in server.log()


def _overflows(page: Page) -> bool:
    """Whether anything is wider than the window."""
    wide: bool = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    return wide


def test_everything_can_be_done_with_the_keyboard_alone(tmp_path: Path, context: Contexts) -> None:
    seed(tmp_path, ("first", 3_600), ("second", 7_200))
    with WebProcess(tmp_path) as server:
        tab = Tab.open(context(reduced_motion="reduce", color_scheme="dark"), server)
        page, press = tab.page, tab.page.keyboard.press
        expect(page.locator("#text")).to_be_focused()
        page.keyboard.type("line one")
        press("Shift+Enter")
        page.keyboard.type("line two")
        press("Enter")
        tab.hears("I am the offline model")
        assert "line one\nline two" == tab.transcript()[0]
        expect(page.locator("#text")).to_be_focused()
        _tab_to(page, "Delete the reminder: first")
        press("Enter")
        tab.pending(1)
        expect(page.get_by_label("Delete the reminder: second")).to_be_focused()
        press("Space")
        tab.pending(0)
        expect(page.locator("#text")).to_be_focused()
        operations = [e.data["operation"] for e in server.events() if e.type == SCHEDULE_EVENT_TYPE]
        assert ["create", "create", "delete", "delete"] == operations
        page.locator("#new-name").focus()
        page.keyboard.type("work & play")
        press("Enter")
        expect(page).to_have_title("work & play")
        expect(page.locator("nav [aria-current]")).to_have_text("work & play")
        expect(page.locator("#welcome")).to_be_visible()
        tab.is_quiet()


def _tab_to(page: Page, label: str) -> None:
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('aria-label')") == label:
            return
    raise AssertionError(f"the keyboard does not reach {label!r}")


def test_a_running_turn_can_be_stopped_and_a_second_program_is_told_why_not(
    tmp_path: Path, context: Contexts
) -> None:
    stalled = Stalled()
    with (
        ScriptedProvider(stalled) as provider,
        scripted(tmp_path, provider) as server,
        WebProcess(tmp_path) as second,
    ):
        tab = Tab.open(context(), server)
        tab.say("think")
        assert stalled.asked.wait(TIMEOUT_S)
        refused = Tab.open(context(), second)
        expect(refused.page).to_have_title("This session is open in another program")
        expect(refused.page.locator("code")).to_have_text("session_locked")
        expect(tab.page.locator("#stop")).to_be_visible()
        tab.page.keyboard.press("Escape")
        expect(tab.page.locator("#entries .note")).to_have_text("Stopped.")
        stalled.released.set()
        assert "cancelled" == server.events()[-1].data.get("outcome")
