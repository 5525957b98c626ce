"""The real page: a server process, a real browser, and what the log says about both."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from attrs import define, field
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, expect

from schedule_adapters.absent_agent import AbsentAgent
from schedule_adapters.events import INPUT_QUEUED, TURN_ENDED
from schedule_adapters.live import LiveSchedule, SystemClock
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_core import SessionEvent
from tests.adapters.agents.agent_world import ScriptedProvider

CHROMIUM: Final = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
"""Debian's; another one that playwright can drive may be named instead."""
TIMEOUT_S: Final = 30
"""For a loaded machine; a passing test never waits nearly as long."""

_Result = TypeVar("_Result")

expect.set_options(timeout=TIMEOUT_S * 1000)


@define
class WebProcess:
    """`session-schedule web` in a process of its own; it keeps its port when started again."""

    root: Path
    environ: Mapping[str, str] = field(factory=dict)
    arguments: tuple[str, ...] = ()
    port: int = 0
    _process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.kill()

    def start(self) -> None:
        if self.port == 0:
            self.port = _free_port()
        environ = {"PATH": os.environ["PATH"], "TZ": "UTC", "HOME": str(self.root), **self.environ}
        with (self.root / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [
                    *(sys.executable, "-m", "schedule_adapters.web", "--root", str(self.root)),
                    *("--port", str(self.port), *self.arguments),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environ,
            )
        assert self._process.stdout is not None
        assert b"serving" in self._process.stdout.readline(), self.log()

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def interrupt(self) -> int:
        """End it as Ctrl-C does; gives its exit code."""
        return self._end(signal.SIGINT)

    def log(self) -> str:
        """Everything that it wrote to standard error."""
        return (self.root / "log.txt").read_text("utf-8")

    def events(self, session: str = "main") -> tuple[SessionEvent, ...]:
        """The session as it lies on the disk."""
        return run(JsonlStore(self.root, clock=SystemClock()).read(session)).events

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(number)
        code = process.wait(TIMEOUT_S)
        assert process.stdout is not None
        process.stdout.close()
        return code


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run it to its end on a loop of its own: playwright's has this thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Stalled(list[str]):
    """An answer of a scripted model that does not come before it is released."""

    def __init__(self, *pieces: str) -> None:
        super().__init__(pieces)
        self.asked, self.released = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[str]:
        self.asked.set()
        self.released.wait(TIMEOUT_S)
        return super().__iter__()


def scripted(root: Path, provider: ScriptedProvider) -> WebProcess:
    """A server whose model plays back a script."""
    environ = {"OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "not-a-key"}
    return WebProcess(root, environ, ("--model", "openai-chat:scripted"))


def told(events: tuple[SessionEvent, ...]) -> list[str]:
    """The conversation of a log, in the order of the inbox."""
    said: dict[int, list[str]] = {}
    for event in events:
        match event.type, event.data:
            case INPUT_QUEUED.name, {"source": "user", "text": str(text)}:
                said[event.seq] = [text]
            case INPUT_QUEUED.name, _:
                said[event.seq] = []
            case TURN_ENDED.name, {"input": int(seq), "text": str(text)}:
                said[seq].append(text)
            case _:
                pass
    return [text for texts in said.values() for text in texts]


def seed(root: Path, *prompts: tuple[str, int], session: str = "main") -> None:
    """Make reminders, each a text and a delay in seconds, before any page is open."""

    async def make() -> None:
        log = await JsonlStore(root, clock=SystemClock()).open(session)
        schedule = LiveSchedule(AbsentAgent(), log)
        for prompt, delay in prompts:
            arguments = {"prompt": prompt, "after_seconds": delay}
            answer = await schedule.call_tool("schedule_create", arguments)
            assert isinstance(answer, dict)
            assert "id" in answer, answer
        await schedule.close()
        await log.close()

    run(make())


@define
class Tab:
    """One tab, driven as a person would."""

    page: Page
    complaints: list[str]
    """What the console said, the browser's own words about a lost connection apart."""

    @classmethod
    def open(cls, context: BrowserContext, server: WebProcess, session: str = "main") -> "Tab":
        page = context.new_page()
        complaints: list[str] = []

        def note(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"} and "net::ERR_" not in message.text:
                complaints.append(message.text)

        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{server.address}/?session={session}")
        return cls(page, complaints)

    def say(self, text: str) -> None:
        self.page.locator("#text").fill(text)
        self.page.keyboard.press("Enter")
        expect(self.page.locator("#text")).to_have_value("")

    def hears(self, text: str | re.Pattern[str], *, count: int = 1) -> None:
        """Wait until so many finished answers hold that text."""
        answers = self.page.locator("#entries .answer:not(.open) > .text", has_text=text)
        expect(answers).to_have_count(count)

    def pending(self, count: int) -> None:
        """Wait until the panel holds so many reminders."""
        expect(self.page.locator("#pending > li")).to_have_count(count)

    def transcript(self) -> list[str]:
        """The conversation as it is shown."""
        shown = self.page.locator("#entries > li > .text:not(.quote)").all_text_contents()
        return [str(text) for text in shown]

    def is_quiet(self) -> None:
        """Nothing was refused by the policy, nothing failed."""
        assert [] == self.complaints
