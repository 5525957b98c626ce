"""Make the pictures of the page in `docs/`: `python -m tests.web.screenshots docs`.

The past of the conversation is written into a log; from there on everything is real.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from attrs import define
from playwright.sync_api import Browser, expect, sync_playwright

from schedule_adapters.events import INPUT_QUEUED, TURN_ENDED, TURN_STARTED
from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import Session
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_core import (
    Instant,
    ScheduleCreateChange,
    ScheduleDeleteChange,
    ScheduleDispatchChange,
    ScheduleId,
    new_record,
    render_reminder,
)
from schedule_core.instants import MINUTE_MS
from tests.web.page_world import CHROMIUM, Tab, WebProcess, run

HOSTILE: Final = (
    "<script>alert('hello')</script><img src=x onerror=alert(1)>",
    "abc \u202egnp.exe\u202c, and שלום, and \u2066isolated\u2069",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🧑🏽‍🚀 e\u0301\u0301\u0301\u0301\u0301",
    "W" * 8_000,
)


@define
class PastClock:
    """A clock that stands where the story is."""

    reading: Instant

    def now(self) -> Instant:
        return self.reading


@define
class Story:
    """Writes into a session what happened in it before."""

    session: Session
    clock: PastClock
    now: Instant
    count: int = 0

    def at(self, minutes_ago: float) -> "Story":
        self.clock.reading = Instant(self.now - round(minutes_ago * MINUTE_MS))
        return self

    def create(self, prompt: str, minutes: float) -> ScheduleId:
        self.count += 1
        made = ScheduleId(f"schedule-{self.count}")
        seconds = round(minutes * 60)
        record = new_record(made, prompt, after_seconds=seconds, now=self.clock.reading)
        self.session.append_change(ScheduleCreateChange(record))
        return made

    def turn(self, answer: str, **message: Any) -> None:
        seq = self.session.append(INPUT_QUEUED.name, {"source": "user", **message}).seq
        self.session.append(TURN_STARTED.name, {"input": seq})
        outcome = {"input": seq, "outcome": "completed", "text": answer}
        self.session.append(TURN_ENDED.name, outcome)

    def comes_back(self, schedule_id: ScheduleId, answer: str) -> None:
        record = new_record(schedule_id, "-", after_seconds=1, now=self.clock.reading)
        self.session.append_change(ScheduleDispatchChange(schedule_id))
        framed = render_reminder(record)
        self.turn(answer, source="reminder", scheduleId=schedule_id, text=framed)


def write_past(root: Path) -> None:
    """A morning with a few reminders, and one conversation of hostile texts."""

    async def write() -> None:
        now = SystemClock().now()
        clock = PastClock(now)
        store = JsonlStore(root, clock=clock)
        for name, tell in (("main", _morning), ("garden", _short), ("hostile", _hostile)):
            session = await store.open(name)
            tell(Story(session, clock, now))
            await session.barrier()
            await session.close()

    run(write())


def _morning(story: Story) -> None:
    bread = story.at(95).create("take the bread out of the oven", 40)
    story.turn(
        "I will remind you in 40 minutes to take the bread out of the oven.",
        text="remind me in 40 minutes to take the bread out of the oven",
    )
    story.at(60)
    gone = story.create("book the train to Basel", 240)
    post = story.create("bring the letters to the post office", 45)
    story.turn("Both are set.", text="in four hours the train to Basel, in 45 minutes the post")
    story.at(54).comes_back(bread, "Time to take the bread out of the oven.")
    story.at(30).session.append_change(ScheduleDeleteChange(gone))
    story.turn("The train is deleted; it will not come back.", text="I have the train already")
    story.at(2).comes_back(post, "You wanted to bring the letters to the post office.")
    story.at(1.5).create("call about the contract", 21.5)
    story.create("water the plants on the balcony", 60 * 5)
    story.create("renew the passport: photos, form, old passport", 60 * 24 * 9)
    story.turn(
        "I will remind you in 20 minutes to call about it, at the end of the day about the "
        "plants, and next week about the passport.",
        text="in 20 minutes: call about the contract. later today: water the plants. "
        "and next week: the passport",
    )


def _short(story: Story) -> None:
    story.turn("Hello.", text="hello")


def _hostile(story: Story) -> None:
    for text in HOSTILE:
        story.at(3).create(text, 90)
    story.turn(
        "Quoted, as it was stored:\n" + "\n".join(HOSTILE[:3]),
        text=HOSTILE[0] + "\n" + HOSTILE[1] + "\n" + "W" * 400,
    )


def main(folder: Path) -> None:
    """Take every picture."""
    with TemporaryDirectory() as root, sync_playwright() as playwright:
        write_past(Path(root))
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--hide-scrollbars"]
        )
        with WebProcess(Path(root)) as server:
            _take_all(browser, server, folder)
        browser.close()


def _take_all(browser: Browser, server: WebProcess, folder: Path) -> None:
    def tab(session: str = "main", width: int = 1240, height: int = 780, **options: Any) -> Tab:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            timezone_id="Europe/Berlin",
            locale="en-GB",
            reduced_motion="reduce",
            **options,
        )
        return Tab.open(context, server, session)

    def take(tab: Tab, name: str) -> None:
        expect(tab.page.locator("#working")).to_be_hidden()
        tab.page.screenshot(path=folder / f"web-{name}.png")
        tab.page.context.close()

    page = tab()
    page.hears("call about it")
    take(page, "pending")
    page = tab(color_scheme="dark")
    page.hears("call about it")
    take(page, "dark")
    page = tab(width=390, height=780)
    page.hears("call about it")
    page.page.locator("#panel summary").click()
    take(page, "phone")
    page = tab("hostile")
    page.hears("Quoted")
    take(page, "hostile")
    page = tab("garden")
    page.say("remind me in 1 second to stretch")
    page.hears("Reminder: stretch")
    page.say("remind me in 10 minutes to close the greenhouse")
    page.pending(1)
    page.hears("close the greenhouse")
    take(page, "delivered")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
