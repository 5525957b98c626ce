"""The real `session-schedule`: in a pseudo-terminal whose screen is rendered, or on pipes."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pexpect
import pyte
from attrs import define, field

from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import SessionSnapshot
from schedule_adapters.stores.jsonl import NO_PROJECT, JsonlStore
from schedule_adapters.stores.log_file import LOG_NAME
from schedule_core import (
    SCHEDULE_EVENT_TYPE,
    AtScheduleRecord,
    ScheduleChange,
    ScheduleCreateChange,
    ScheduleId,
    ScheduleRecord,
    decode_change,
    parse_instant,
)
from schedule_core.records import Prompt

PROGRAM: Final = str(Path(sys.executable).with_name("session-schedule"))
TIMEOUT_S: Final = 30.0
"""For a loaded machine; a passing test never waits nearly as long."""
PROMPT: Final = "you> "


def environment(root: Path, **changes: str) -> dict[str, str]:
    """A plain environment, whatever the one of the tests is."""
    plain = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8", "TZ": "UTC"}
    return {**plain, "HOME": str(root), **changes}


def run(
    *arguments: str, root: Path, stdin: str | bytes = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run one command on pipes, to its end."""
    done = subprocess.run(  # noqa: S603 - our own program
        [PROGRAM, *arguments],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        timeout=TIMEOUT_S,
        env=environment(root, **environ),
        check=False,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def script(
    *lines: str, root: Path, options: Sequence[str] = (), **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run the chat with these lines as its standard input."""
    stdin = "".join(f"{line}\n" for line in lines)
    return run("chat", "--root", str(root), *options, root=root, stdin=stdin, **environ)


def seed(root: Path, *prompts: str, at: str = "2020-01-01T00:00:00.000Z") -> None:
    """Make the session `main` with these reminders, all for that time, each in its own batch."""

    async def make() -> None:
        session = await JsonlStore(root, clock=SystemClock()).open("main")
        for number, prompt in enumerate(prompts, 1):
            schedule_id = ScheduleId(f"schedule-{number}")
            record = AtScheduleRecord(schedule_id, Prompt(prompt), parse_instant(at))
            session.append_change(ScheduleCreateChange(record))
            await session.barrier()
        await session.close()

    asyncio.run(make())


def log_path(root: Path, session: str = "main") -> Path:
    return root / NO_PROJECT / session / LOG_NAME


@define
class Story:
    """What the log of a session tells, for assertions that read as a sentence."""

    snapshot: SessionSnapshot

    @classmethod
    def of(cls, root: Path, session: str = "main") -> Self:
        store = JsonlStore(root, clock=SystemClock())
        return cls(asyncio.run(store.read(session)))

    @property
    def changes(self) -> list[ScheduleChange]:
        events = self.snapshot.events
        return [decode_change(event.data) for event in events if event.type == SCHEDULE_EVENT_TYPE]

    @property
    def operations(self) -> list[str]:
        return [change.operation for change in self.changes]

    @property
    def created(self) -> list[ScheduleRecord]:
        return [c.schedule for c in self.changes if isinstance(c, ScheduleCreateChange)]

    @property
    def queued(self) -> dict[int, str]:
        """Each message that entered the inbox: the reminder it delivers, or the user's text."""
        return {
            event.seq: event.data.get("scheduleId", event.data["text"])
            for event in self.snapshot.events
            if event.type == "input/queued"
        }

    @property
    def turns(self) -> list[str]:
        """The message of each turn that started, in order."""
        queued = self.queued
        events = self.snapshot.events
        return [queued[event.data["input"]] for event in events if event.type == "turn/started"]

    @property
    def outcomes(self) -> list[str]:
        """How each turn ended, in order."""
        events = self.snapshot.events
        return [event.data["outcome"] for event in events if event.type == "turn/ended"]

    def assert_delivered_once(self, schedule_id: str) -> None:
        """Check: one create, one dispatch, one message, one turn."""
        assert ["create", "dispatch"] == self.operations
        assert 1 == Counter(self.queued.values())[schedule_id]
        assert 1 == Counter(self.turns)[schedule_id]


class _Screen(pyte.HistoryScreen):
    """A screen that answers where its cursor is, as a real terminal does."""

    def __init__(self, columns: int, rows: int, answer: Callable[[str], object]) -> None:
        super().__init__(columns, rows, history=2_000)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)


@define
class Chat:
    """One chat in a terminal. Everything it showed is rendered as a person would see it."""

    root: Path
    options: Sequence[str] = ()
    environ: Mapping[str, str] = field(factory=dict)
    columns: int = 80
    rows: int = 24
    statuses: list[str] = field(init=False, factory=list)
    """Every status line seen so far."""
    _child: "pexpect.spawn[bytes]" = field(init=False)
    _screen: _Screen = field(init=False)
    _stream: pyte.ByteStream = field(init=False)

    def __enter__(self) -> Self:
        with warnings.catch_warnings():
            # From 3.12 on: the test runner has threads. The child becomes another program.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._child = pexpect.spawn(
                PROGRAM,
                ["chat", "--root", str(self.root), *self.options],
                dimensions=(self.rows, self.columns),
                env=environment(self.root, **self.environ),
                timeout=TIMEOUT_S,
            )
        self._child.delaybeforesend = None
        self._screen = _Screen(self.columns, self.rows, self._child.send)
        self._stream = pyte.ByteStream(self._screen)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.close(force=True)
        if error is not None:
            error.add_note(f"the screen:\n{self.text}")

    @property
    def pid(self) -> int:
        assert self._child.pid is not None
        return self._child.pid

    @property
    def lines(self) -> list[str]:
        """Every line, scrolled away or visible, from the first one on."""
        width = self._screen.columns
        gone = ["".join(row[x].data for x in range(width)) for row in self._screen.history.top]
        return [line.rstrip() for line in [*gone, *self._screen.display]]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def status(self) -> str:
        """The bottom line."""
        return self._screen.display[-1].strip()

    @property
    def input(self) -> str:
        """What is typed and not sent yet, as far as it is visible."""
        visible = "\n".join(line.rstrip() for line in self._screen.display[:-1]).rstrip()
        return visible.rpartition(PROMPT.rstrip())[2].strip()

    def started(self) -> Self:
        """Wait for the first prompt."""
        self.until(lambda: "you>" in self.text and "main" in self.status)
        return self

    def type(self, keys: str) -> None:
        self._child.send(keys)

    def say(self, line: str) -> None:
        """Type a line and send it."""
        self.type(f"{line}\r")

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)
        self._child.setwinsize(rows, columns)

    def expect(self, pattern: str) -> None:
        """Wait until this stands somewhere in what was shown."""
        self.until(lambda: re.search(pattern, self.text, re.MULTILINE))

    def expect_status(self, pattern: str) -> None:
        """Wait until the status line is like this, now or at some time before."""
        self.until(lambda: any(re.search(pattern, status) for status in self.statuses))

    def rests(self) -> None:
        """Wait until no turn is open, nothing is pending, and the prompt is back."""
        self.until(lambda: re.fullmatch(r"\S+ · no reminders", self.status))

    def until(self, condition: Callable[[], object]) -> None:
        """Read what the program writes until the condition holds."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, "it did not come"
            try:
                self._stream.feed(self._child.read_nonblocking(65_536, timeout=0.5))
            except pexpect.TIMEOUT:
                continue
            self.statuses.append(self.status)

    def leave(self) -> int:
        """Press Ctrl-D and read to the end; gives the exit code."""
        self.type("\x04")
        return self.ended()

    def ended(self) -> int:
        """Read to the end; gives the exit code."""
        try:
            self.until(lambda: False)
        except pexpect.EOF:
            self._child.wait()
        status = self._child.exitstatus
        assert status is not None, "it was killed"
        return int(status)

    def kill(self) -> None:
        """End the process as a crash would."""
        os.kill(self.pid, signal.SIGKILL)
        self._child.wait()
