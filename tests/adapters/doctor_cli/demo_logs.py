"""A handful of small logs that show everything: what is sound, odd, damaged and torn.

They stand in `tests/golden/doctor/logs`; `python -m tests.adapters.doctor_cli.demo_logs` writes
them anew, and `python -m tests.adapters.doctor_cli.pictures` what the commands say of them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from attrs import define, field

from schedule_core.instants import Instant, format_instant, parse_instant

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "doctor"
NOW_TEXT: Final = "2030-03-01T18:00:00.000Z"
NOW: Final = parse_instant(NOW_TEXT)
MORNING: Final = parse_instant("2030-03-01T09:00:00.000Z")
S: Final = 1_000
MIN: Final = 60 * S
HOUR: Final = 60 * MIN
DAY: Final = 24 * HOUR
HOSTILE: Final = '\x1b[31m<script>alert("1")</script>&\u202egnp.\x07]]>\ufffe'


@define
class DemoLog:
    """A log that is written line by line; `text` is what stands in its file."""

    session: str
    members: dict[str, object] = field(factory=dict)
    lines: list[str] = field(init=False)
    seq: int = 0

    def __attrs_post_init__(self) -> None:
        head = {"type": "session", "version": 0, "id": self.session, "createdAt": MORNING}
        self.lines = [_json({**head, "delegationDepth": 0, **self.members})]

    def event(self, kind: str, data: Any, at: int = 0) -> "DemoLog":
        """Add one event, `at` ms after nine in the morning."""
        members = {"type": kind, "seq": self.seq, "time": MORNING + at, "data": data}
        own = kind in {"schedule/change", "session/end-seed"}
        self.lines.append(_json(members if own else {**members, "ignorable": True}))
        self.seq += 1
        return self

    def change(self, operation: str, at: int = 0, **members: Any) -> "DemoLog":
        return self.event("schedule/change", {"version": 1, "operation": operation, **members}, at)

    def create(self, name: str, prompt: str, due: int, at: int = 0) -> "DemoLog":
        """A reminder for `due` ms after nine in the morning."""
        target = format_instant(Instant(MORNING + due))
        record = {"id": name, "kind": "at", "prompt": prompt, "scheduledAt": target}
        return self.change("create", at, schedule=record)

    def after(self, name: str, prompt: str, seconds: int, at: int = 0) -> "DemoLog":
        target = format_instant(Instant(MORNING + at + seconds * S))
        record = {"id": name, "kind": "after", "prompt": prompt, "afterSeconds": seconds}
        return self.change("create", at, schedule={**record, "scheduledAt": target})

    def queue(self, name: str, at: int) -> "DemoLog":
        data = {"source": "reminder", "text": "[SCHEDULE REMINDER]", "scheduleId": name}
        return self.event("input/queued", data, at)

    def deliver(self, name: str, at: int) -> "DemoLog":
        """Queue the message and record the dispatch."""
        return self.queue(name, at).change("dispatch", at + 2, id=name)

    def checkpoint(self, durable: int, at: int = 0) -> "DemoLog":
        return self.event("log/checkpoint", {"durable": durable}, at)

    def raw(self, line: str) -> "DemoLog":
        """Add a line as it stands."""
        self.lines.append(line)
        return self

    @property
    def text(self) -> bytes:
        return "".join(line + "\n" for line in self.lines).encode()


def sound_day() -> DemoLog:
    """A day of reminders, one of each fate."""
    return (
        DemoLog("garden")
        .event("input/queued", {"source": "user", "text": "good morning"})
        .after("schedule-1", "stretch, and look out of the window", 20 * 60, 5 * MIN)
        .create("schedule-2", "call the dentist before they close", 3 * HOUR, 10 * MIN)
        .deliver("schedule-1", 25 * MIN + 300)
        .after("schedule-3", "take the bread out of the oven 🍞", 45 * 60, 90 * MIN)
        .create("schedule-4", "check the build on the release branch", 6 * HOUR, 100 * MIN)
        .change("delete", 4 * HOUR, id="schedule-4")
        .deliver("schedule-3", 2 * HOUR + 22 * MIN)
        .deliver("schedule-2", 3 * HOUR)
        .create("schedule-5", "water the tomatoes", 10 * HOUR, 5 * HOUR)
        .create("schedule-6", "send the invoice", 11 * HOUR + 30 * MIN, 6 * HOUR)
    )


def odd() -> DemoLog:
    """Sound, but somebody should look: overdue, early, and dispatched without a message."""
    return (
        DemoLog("odd jobs")
        .create("schedule-1", "lunch", 3 * HOUR)
        .create("schedule-2", "stand-up", HOUR)
        .create("schedule-3", "back up the photos", 2 * HOUR)
        .deliver("schedule-2", 50 * MIN)
        .change("dispatch", 2 * HOUR, id="schedule-3")
    )


def damaged() -> DemoLog:
    """What another program wrote into it: a recurring reminder, an id twice, a strange delete."""
    daily = {"id": "schedule-2", "kind": "every", "prompt": "stand up", "everySeconds": 300}
    return (
        DemoLog("damaged")
        .create("schedule-1", "lunch", 10 * HOUR)
        .change("create", schedule={**daily, "scheduledAt": format_instant(MORNING)})
        .create("schedule-1", "lunch again", 10 * HOUR)
        .change("delete", id="schedule-1", reason="no longer needed")
        .change("create", schedule={"id": "schedule-3", "kind": "at", "prompt": " tea ",
                                    "scheduledAt": "2030-03-01T19:00:00Z"})
    )  # fmt: skip


def glued() -> DemoLog:
    """An event glued to torn text, below a checkpoint, and a crash that left NUL bytes."""
    log = DemoLog("glued").create("schedule-1", "lunch", 10 * HOUR)
    log.raw('{"type":"schedule/change","seq":1,"ti' + log.lines[-1]).raw("\0" * 40)
    log.seq = 3
    return log.checkpoint(2).create("schedule-4", "tea", 11 * HOUR)


def torn() -> DemoLog:
    """A write that a crash cut off."""
    log = DemoLog("torn").create("schedule-1", "lunch", 10 * HOUR).checkpoint(0)
    return log.raw('{"type":"schedule/change","seq":2,"time":18985')


def fork() -> DemoLog:
    """A fork that reached for a reminder of its parent."""
    return (
        DemoLog("child", {"parentSession": "garden", "seedLength": 1})
        .create("schedule-1", "the parent's", 10 * HOUR)
        .event("session/end-seed", {})
        .create("schedule-2", "the child's own", 10 * HOUR)
        .change("delete", id="schedule-1")
    )


def hostile() -> DemoLog:
    """Text that would like to be more than text."""
    log = DemoLog(f"session {HOSTILE}").create(f"id {HOSTILE}", f"prompt {HOSTILE}", HOUR)
    return log.change("delete", HOUR, id=f"other {HOSTILE}")


def demo_files() -> Iterator[tuple[str, bytes]]:
    """Name and content of each log under `tests/golden/doctor/logs`."""
    yield "garden.jsonl", sound_day().text
    yield "odd-jobs.jsonl", odd().text
    yield "old/damaged.jsonl", damaged().text
    yield "old/glued.jsonl", glued().text
    yield "old/fork.jsonl", fork().text
    yield "torn.jsonl", torn().text[:-1]
    yield "hostile.jsonl", hostile().text
    yield "notes.txt", b"not a log\n"


def _json(members: dict[str, Any]) -> str:
    return json.dumps(members, separators=(",", ":"))


def write_logs(folder: Path) -> None:
    for name, content in demo_files():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


if __name__ == "__main__":
    write_logs(GOLDEN / "logs")
