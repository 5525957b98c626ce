"""The oracles: what several lives were told, held against what the store has in the end."""

from collections import Counter
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from attrs import define, field

from schedule_adapters.doctor import scan
from schedule_adapters.events import CHECKPOINT, INPUT_QUEUED, TURN_STARTED
from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import SessionSnapshot, StoreError, StoreErrorCode
from schedule_adapters.stores.log_format import event_line, header_line
from schedule_core import SCHEDULE_EVENT_TYPE, SessionEvent, fold_log
from schedule_core.instants import parse_instant
from tests.faults.diary import Diary
from tests.faults.places import digest, opened


async def read_session(url: str, session: str) -> SessionSnapshot | None:
    """What the store has of a session; None if nothing of it was ever durable."""
    async with opened(url, SystemClock()) as store:
        try:
            return await store.read(session)
        except StoreError as error:
            if error.code is StoreErrorCode.SESSION_NOT_FOUND:
                return None
            raise


@define
class Told:
    """What the lives wrote down, put together.

    Attributes:
        created: acknowledged creates by id: the answer.
        deleted: ids of acknowledged deletes.
        heard: how often a model got each message, by id or text.
        repeatable: messages of a turn whose beginning the disk refused; a repeat of those
            is better than a loss.
    """

    created: dict[str, dict[str, Any]] = field(factory=dict)
    deleted: set[str] = field(factory=set)
    heard: Counter[str] = field(factory=Counter)
    repeatable: set[str] = field(factory=set)
    counts: Counter[str] = field(factory=Counter)

    @classmethod
    def by(cls, lives: Sequence[Diary]) -> "Told":
        """Read the diaries, in their order, and check every list on the way."""
        told = cls()
        intended: set[str] = set()  # creates that entered a live log
        doomed: set[str] = set()  # deletes that were asked for
        for diary in lives:
            for entry in diary.entries:
                match entry.kind, entry.data:
                    case "append", {"data": {"operation": "create", "schedule": {"id": name}}}:
                        intended.add(name)
                    case "try", {"tool": "schedule_delete", "arguments": {"id": name}}:
                        doomed.add(name)
                    case "got", {"tool": tool, "answer": answer}:
                        told._got(tool, answer, intended, doomed)
                    case "heard", {"name": name}:
                        told.heard[name] += 1
                    case "unsaved", {"name": name}:
                        told.repeatable.add(name)
                    case "refused" | "room" | "crashed", _:
                        told.counts[entry.kind] += 1
                    case _:
                        pass
        return told

    def _got(self, tool: str, answer: Any, intended: set[str], doomed: set[str]) -> None:
        match tool, answer:
            case _, {"code": "persistence_uncertain" | "not_future" as code}:
                self.counts[f"answers {code}"] += 1
            case "schedule_create", {"id": name, "scheduledAt": _}:
                self.counts["creates acknowledged"] += 1
                self.created[name] = answer
            case "schedule_delete", {"id": name, "deleted": True}:
                self.counts["deletes acknowledged"] += 1
                self.deleted.add(name)
            case "schedule_delete", {"code": "schedule_not_found"}:
                self.counts["deletes too late"] += 1
            case "schedule_list", list():
                self.counts["lists"] += 1
                self._check_list({row["id"] for row in answer}, intended, doomed)
            case _:
                raise AssertionError(f"{tool} answered {answer}")

    def _check_list(self, listed: set[str], intended: set[str], doomed: set[str]) -> None:
        now = SystemClock().now()
        sure = {
            name
            for name, answer in self.created.items()
            if name not in doomed and parse_instant(answer["scheduledAt"]) > now
        }
        assert sure <= listed, f"a list lacks {sure - listed}"
        assert listed <= intended, f"a list has what nobody created: {listed - intended}"
        assert not listed & self.deleted, f"a list has what was deleted: {listed & self.deleted}"


def judge(lives: Sequence[Diary], found: SessionSnapshot | None) -> Counter[str]:
    """Hold the diaries of one session against its log, after the last life settled.

    Gives the counts of what there was to judge.

    Raises:
        AssertionError: a promise was broken; the text says which.
    """
    for diary in lives:
        assert not diary.has("crashed"), f"a life crashed: {diary.of('crashed')}"
    assert lives[-1].is_over, f"the last life did not settle: {lives[-1].entries[-2:]}"
    told = Told.by(lives)
    events = () if found is None else found.events
    if found is not None:
        _check_soundness(found)
    _check_history(lives, events)
    _check_answers(told, events)
    _check_deliveries(told, events)
    return told.counts + _tally(lives, told, events)


def _check_soundness(found: SessionSnapshot) -> None:
    """The doctor finds nothing wrong, and the numbers have no gap."""
    text = header_line(found.header) + b"".join(map(event_line, found.events))
    report = scan(BytesIO(text))
    assert report.is_sound, f"the doctor found {report.findings}"
    assert list(range(len(found.events))) == [event.seq for event in found.events]


def _check_history(lives: Sequence[Diary], events: Sequence[SessionEvent]) -> None:
    """Nothing is in the log that nobody appended; what was once found there is there still."""
    written = {
        (entry["seq"], entry["type"], entry["time"], repr(entry["data"]))
        for diary in lives
        for entry in diary.of("append")
    }
    for event in events:
        if event.type == CHECKPOINT.name:
            assert -1 <= event.data["durable"] < event.seq
        else:
            mark = (event.seq, event.type, event.time, repr(event.data))
            assert mark in written, f"nobody appended event {event.seq}, a {event.type}"
    for diary in lives:
        for opening in diary.of("opened"):
            beginning = events[: opening["length"]]
            assert opening["length"] == len(beginning), "what a life found is lost"
            assert opening["digest"] == digest(beginning), "what a life found was changed"


def _check_answers(told: Told, events: Sequence[SessionEvent]) -> None:
    """Every acknowledged create and delete is in the log, as it was acknowledged."""
    schedules = fold_log(events)
    made = {
        change["schedule"]["id"]: change["schedule"]
        for change in _changes(events)
        if change["operation"] == "create"
    }
    gone = {change["id"] for change in _changes(events) if change["operation"] == "delete"}
    lost = told.created.keys() - set(schedules.seen)
    assert not lost, f"acknowledged creates are lost: {sorted(lost)}"
    for name, answer in told.created.items():
        assert answer["prompt"] == made[name]["prompt"]
        assert answer["scheduledAt"] == made[name]["scheduledAt"]
    assert told.deleted <= gone, f"acknowledged deletes are lost: {sorted(told.deleted - gone)}"


def _check_deliveries(told: Told, events: Sequence[SessionEvent]) -> None:
    """What was due was admitted once, not early; what was deleted, never."""
    now = SystemClock().now()
    admitted = Counter(
        event.data["scheduleId"]
        for event in events
        if event.type == INPUT_QUEUED.name and "scheduleId" in event.data
    )
    dispatched = Counter(
        change["id"] for change in _changes(events) if change["operation"] == "dispatch"
    )
    gone = {change["id"] for change in _changes(events) if change["operation"] == "delete"}
    due = {
        change["schedule"]["id"]
        for change in _changes(events)
        if change["operation"] == "create"
        and parse_instant(change["schedule"]["scheduledAt"]) <= now
    }
    assert Counter(due - gone) == admitted, f"admitted {admitted}, due were {due - gone}"
    assert admitted == dispatched, f"admitted {admitted}, dispatched {dispatched}"
    for event in events:
        if event.type == INPUT_QUEUED.name and "scheduleId" in event.data:
            target = _target(events, event.data["scheduleId"])
            assert target <= event.time, f"{event.data['scheduleId']} was early"
    fired = told.deleted & told.heard.keys()
    assert not fired, f"deleted reminders were heard: {fired}"
    repeated = {name for name, times in told.heard.items() if times > 1}
    assert repeated <= told.repeatable, f"heard twice: {repeated - told.repeatable}"
    started = {event.data["input"] for event in events if event.type == TURN_STARTED.name}
    began = {
        event.data.get("scheduleId", event.data["text"]) for event in events if event.seq in started
    }
    unknown = told.heard.keys() - began - told.repeatable
    assert not unknown, f"heard, but no turn of it is in the log: {unknown}"


def _tally(lives: Sequence[Diary], told: Told, events: Sequence[SessionEvent]) -> Counter[str]:
    written = {(e["seq"], e["time"], repr(e["data"])) for d in lives for e in d.of("append")}
    kept = {(event.seq, event.time, repr(event.data)) for event in events}
    creates = sum(change["operation"] == "create" for change in _changes(events))
    return Counter(
        {
            "lives": len(lives),
            "events kept": len(written & kept),
            "events dropped unacknowledged": len(written - kept),
            "creates kept unacknowledged": creates - len(told.created),
            "reminders heard": sum(name.startswith("schedule-") for name in told.heard),
            "repeats": sum(times - 1 for times in told.heard.values()),
        }
    )


def _changes(events: Sequence[SessionEvent]) -> list[dict[str, Any]]:
    return [event.data for event in events if event.type == SCHEDULE_EVENT_TYPE]


def _target(events: Sequence[SessionEvent], name: str) -> int:
    return next(
        parse_instant(change["schedule"]["scheduledAt"])
        for change in _changes(events)
        if change["operation"] == "create" and change["schedule"]["id"] == name
    )
