"""Who watches a run: each thing that the product says or does is held up against the rules.

One `Story` for each session, which outlives the processes that serve it.
"""

from typing import Any, Final

from attrs import define, field

from schedule_adapters.events import INPUT_QUEUED, TURN_STARTED
from schedule_adapters.stores.log_format import END_SEED
from schedule_adapters.testing.simulation.oracles import (
    History,
    Oracle,
    Row,
    Violation,
    require,
)
from schedule_adapters.testing.simulation.timeline import Timeline, WallClock
from schedule_core import Instant, SessionEvent, format_instant
from schedule_core.instants import SECOND_MS
from schedule_core.signals import Admitted, Delayed, Faulted, Recovered

SEGMENT_S: Final = 60.0
"""The longest wait between two looks at the wall clock (design decision 14)."""
SLACK_S: Final = 30.0
"""What barriers and turns of an undisturbed run may add to it."""


@define
class Call:
    """A tool call under way: what was so when it began."""

    name: str
    arguments: dict[str, Any]
    lists: int
    confirmed: int
    troubles: int
    failed_barriers: int


@define
class Kept:
    """What a session owes to everybody, whichever process serves it.

    Attributes:
        confirmed: the longest beginning of the log that a passed barrier has confirmed.
        appended: every event that was ever appended, by its seq.
        created: acknowledged creates; `deleted`: acknowledged deletes.
        heard_for_good: messages whose turn began durably: the model gets them once.
        seed_length: how many events are the parent's; None while a fork has not returned.
        is_shared: several owners compete, and one that was overtaken learns of it late: it
            may still show its model a message that the next owner's model has got.
    """

    is_shared: bool = False

    confirmed: list[SessionEvent] = field(factory=list)
    appended: dict[int, list[SessionEvent]] = field(factory=dict)
    created: dict[str, Row] = field(factory=dict)
    deleted: set[str] = field(factory=set)
    heard_for_good: set[str] = field(factory=set)
    seed_length: int | None = 0
    parent: "Kept | None" = None

    def has_seen(self, event: SessionEvent) -> bool:
        """Tell whether this event was ever appended at its place."""
        if event in self.appended.get(event.seq, ()):
            return True
        if event.seq < len(self.confirmed) and self.confirmed[event.seq] == event:
            return True
        if self.parent is None:
            return False
        return event.type == END_SEED or self.parent.has_seen(event)

    def forks(self, parent: "Kept") -> None:
        """A fork of that parent begins; it may never return."""
        self.parent, self.seed_length = parent, None

    def forked(self, events: list[SessionEvent]) -> None:
        """The fork has returned, and this is what it made."""
        self.seed_length = len(events) - 1
        self.confirmed = events


@define
class Story:
    """What happens to one session in one process after the other.

    Attributes:
        kept: shared by all who serve the session.
        troubles: faults that excuse an internal error or a faulted owner.
        waits: due work was put off and waits for activity, so it may be late.
        disturbed_s: when something last disturbed the punctual delivery.
        closing: no process has it open, or its calls are refused from now on.
        busy: how many others use the idle phase.
    """

    name: str
    wall: WallClock
    timeline: Timeline
    kept: Kept = field(factory=Kept)
    history: History = field(factory=History)
    live: list[SessionEvent] = field(factory=list)
    heard_last: int = -1
    in_turn: str | None = None
    troubles: int = 0
    failed_barriers: int = 0
    failed_before_turn: int = 0
    waits: bool = False
    faulted: bool = False
    closing: bool = True
    busy: int = 0
    disturbed_s: float = 0.0
    delivered: int = 0
    answers: int = 0

    # The log.

    def opened(self, events: list[SessionEvent], seed_length: object) -> None:
        """A process has opened the session and found these events."""
        self._check_kept(events)
        for event in events:
            require(self.kept.has_seen(event), Oracle.NEVER_INVENTED, f"{self.name}: {event}")
        if self.kept.seed_length is None:  # a fork that crashed: made whole, or not at all
            self.kept.seed_length = max(len(events) - 1, 0)
        require(
            seed_length == self.kept.seed_length, Oracle.VALID_LOG, f"{self.name}: {seed_length}"
        )
        self.live = []
        self.history = History()
        self.heard_last, self.in_turn = -1, None
        self.waits = self.faulted = self.closing = False
        self.disturbed_s = self.timeline.elapsed_s
        self.troubles = 0
        for event in events:
            self._take(event)

    def append(self, event: SessionEvent) -> None:
        """A process has appended an event."""
        self.kept.appended.setdefault(event.seq, []).append(event)
        self._take(event)
        data: Any = event.data
        if event.type == TURN_STARTED.name:
            self.failed_before_turn = self.failed_barriers
        if event.type == INPUT_QUEUED.name and "scheduleId" in data:
            self._fired(data["scheduleId"], data["text"])

    def confirm(self, length: int) -> None:
        """A barrier has passed for the first `length` events."""
        both = min(length, len(self.kept.confirmed))
        same = self.live[:both] == self.kept.confirmed[:both]
        require(same, Oracle.ONE_OWNER, f"{self.name}: two owners have confirmed different logs")
        if length > both:
            self.kept.confirmed = self.live[:length]

    # The tools.

    def calls(self, name: str, arguments: dict[str, Any]) -> Call:
        """A tool call begins."""
        return Call(
            name,
            arguments,
            len(self.history.lists) - 1,
            len(self.kept.confirmed),
            self.troubles,
            self.failed_barriers,
        )

    def answered(self, call: Call, answer: object) -> None:
        """A tool call has its answer."""
        self.answers += 1
        match call.name, answer:
            case "schedule_create", {"id": str(name), "scheduledAt": str(at)}:
                self._created(name, str(call.arguments["prompt"]), at)
            case "schedule_delete", {"id": str(name), "deleted": True}:
                self.kept.deleted.add(name)
                self._require_durable(name, "delete", Oracle.DELETE_KEPT)
            case "schedule_delete", {"id": str(name), "deleted": False}:
                lists = self.history.lists[call.lists :]
                gone = any(name not in (row[0] for row in rows) for rows in lists)
                require(gone, Oracle.HONEST_ANSWER, f"{self.name}: {name} is active")
            case "schedule_list", list(rows):
                self._listed(call, rows)
            case _, {"code": str(code)}:
                self._refused(call, code)
            case _:
                raise Violation(Oracle.HONEST_ANSWER, f"{call.name}: {answer}")

    def _created(self, name: str, prompt: str, at: str) -> None:
        row = (name, prompt, at)
        require(name not in self.kept.created, Oracle.VALID_LOG, f"{name} created twice")
        self.kept.created[name] = row
        self._require_durable(name, "create", Oracle.CREATE_KEPT)

    def _require_durable(self, name: str, operation: str, oracle: Oracle) -> None:
        events = self.kept.confirmed[self.kept.seed_length or 0 :]
        found = any(_changes(event, operation, name) for event in reversed(events))
        require(found, oracle, f"{self.name}: {operation} of {name} is not durable")

    def _listed(self, call: Call, rows: list[Any]) -> None:
        listed = tuple((row["id"], row["prompt"], row["scheduledAt"]) for row in rows)
        strangers = [prompt for _, prompt, _ in listed if not prompt.startswith(f"{self.name}#")]
        require(not strangers, Oracle.NO_STRANGER, f"{self.name}: {strangers}")
        knows = len(self.live) >= call.confirmed
        require(knows, Oracle.LIST_IS_FOLD, f"{self.name}: the list of an owner that is none")
        allowed = self.history.lists[call.lists :]
        require(listed in allowed, Oracle.LIST_IS_FOLD, f"{listed} not in {allowed}")

    def _refused(self, call: Call, code: str) -> None:
        excused = {
            "persistence_uncertain": self.failed_barriers > call.failed_barriers,
            "internal_error": self.troubles > call.troubles or self.closing,
            "not_future": "at" in call.arguments,
            "invalid_rule": "bad" in call.arguments or call.arguments.get("id") == "",
            "invalid_selector": "bad" in call.arguments,
        }
        require(excused.get(code), Oracle.HONEST_ANSWER, f"{call.name} {call.arguments}: {code}")

    # The model.

    def hears(self, key: str, text: str) -> None:
        """The model gets a message, and a turn begins."""
        self.disturb()
        require(self.in_turn is None, Oracle.ONE_AT_A_TIME, f"{key} during {self.in_turn}")
        self.in_turn = key
        message = self.history.messages.get(key)
        if message is None:
            raise Violation(Oracle.NO_STRANGER, f"{self.name}: {key} was never queued")
        own = f"{self.name}#" in text
        require(own, Oracle.NO_STRANGER, f"{self.name}: {text}")
        require(message.seq > self.heard_last, Oracle.ONE_AT_A_TIME, f"{key} out of order")
        self.heard_last = message.seq
        if self._is_durable(message.started) or not self.kept.is_shared:
            again = key in self.kept.heard_for_good
            require(not again, Oracle.NEVER_REPEATED, f"{self.name}: {key} heard again")
        excused = self.failed_barriers > self.failed_before_turn
        durable = self._is_durable(message.started) or excused
        require(durable, Oracle.NEVER_REPEATED, f"{key} heard before its turn was durable")
        if self._is_durable(message.started):
            self.kept.heard_for_good.add(key)

    def turn_over(self) -> None:
        """The model is done with a turn, or was interrupted in it."""
        self.disturb()
        self.in_turn = None
        self.waits = False  # the activity that whatever was put off has waited for

    # Time.

    def disturb(self) -> None:
        """Something happened that may delay what is due: punctuality counts from now on.

        Raises:
            Violation: up to now something was due for too long, and the agent was idle.
        """
        self.check_punctual()
        self.disturbed_s = self.timeline.elapsed_s

    def check_punctual(self) -> None:
        """Insist that nothing is due and waits, while the agent is idle.

        Only a wall clock that has stepped may cost a segment, until it is looked at again.

        Raises:
            Violation: something has waited for too long.
        """
        now_s = self.timeline.elapsed_s
        idle_s = now_s - max(self.disturbed_s, self.wall.stepped_at_s)
        is_steady = now_s - self.wall.stepped_at_s > SEGMENT_S + SLACK_S
        limit_s = SLACK_S if is_steady else SEGMENT_S + SLACK_S
        excused = self.waits or self.faulted or self.closing or self.busy or self.in_turn
        if excused or idle_s <= limit_s:
            return
        due = format_instant(Instant(self.wall.now() - int(limit_s * SECOND_MS)))
        late = [row for row in self.history.active.values() if row[2] < due]
        require(not late, Oracle.IN_TIME, f"{self.name}: idle for {idle_s:.0f} s: {late}")

    def pauses(self) -> None:
        """The process stands still from now on."""
        self.disturb()
        self.busy += 1

    def resumes(self) -> None:
        """The process runs again."""
        self.busy -= 1
        self.disturbed_s = self.timeline.elapsed_s

    def busy_for(self) -> "_Busy":
        """Somebody else uses the idle phase, as long as this context lasts."""
        return _Busy(self)

    def fact(self, fact: object) -> None:
        """The owner reported something."""
        match fact:
            case Admitted():
                self.delivered += 1
                self.disturb()
            case Delayed():
                self.waits = True
            case Faulted():
                require(self.troubles, Oracle.NO_ACCIDENT, f"{self.name}: {fact}")
                self.faulted = True
            case Recovered():
                self.disturb()
                self.faulted = False
            case _:
                pass  # it promises nothing

    # The end.

    def ended(self) -> None:
        """Faults are over, time has passed, the agent is live and idle: all is done."""
        now = format_instant(self.wall.now())
        late = [row for row in self.history.active.values() if row[2] <= now]
        require(not late, Oracle.LIVENESS, f"{self.name}: due and not delivered: {late}")
        owed = [m.key for m in self.history.messages.values() if not m.over]
        require(not owed, Oracle.LIVENESS, f"{self.name}: owed a turn: {owed}")
        for name in self.kept.created:
            known = name in self.history.seen
            require(known, Oracle.CREATE_KEPT, f"{self.name}: {name} is gone")
        for name in self.kept.deleted:
            gone = name not in self.history.active
            require(gone, Oracle.DELETE_KEPT, f"{self.name}: {name} is back")

    # Inside.

    def _take(self, event: SessionEvent) -> None:
        self.live.append(event)
        if event.seq < (self.kept.seed_length or 0):
            self.history.length += 1
        else:
            self.history.take(event)

    def _fired(self, name: str, text: str) -> None:
        self.disturb()  # it is still active: what took too long shows here
        _, prompt, at = self.history.active[name]
        now = format_instant(self.wall.now())
        require(at <= now, Oracle.NEVER_EARLY, f"{self.name}: {name} at {now}, due {at}")
        require(prompt in text, Oracle.NO_STRANGER, f"{self.name}: {text}")
        require(name not in self.kept.deleted, Oracle.DELETE_KEPT, f"{self.name}: {name} fires")

    def _is_durable(self, seq: int | None) -> bool:
        if seq is None or seq >= len(self.kept.confirmed):
            return False
        return self.kept.confirmed[seq] == self.live[seq]

    def _check_kept(self, events: list[SessionEvent]) -> None:
        for position, event in enumerate(self.kept.confirmed):
            if position < len(events) and events[position] == event:
                continue
            oracle = Oracle.CONFIRMED_KEPT
            lost = self.kept.confirmed[position:]
            if any(_changes(each, "create", name) for each in lost for name in self.kept.created):
                oracle = Oracle.CREATE_KEPT
            elif any(_changes(each, "delete", name) for each in lost for name in self.kept.deleted):
                oracle = Oracle.DELETE_KEPT
            raise Violation(oracle, f"{self.name}: {event} is gone")


@define
class _Busy:
    story: Story

    def __enter__(self) -> None:
        self.story.disturb()
        self.story.busy += 1

    def __exit__(self, *_: object) -> None:
        self.story.disturb()
        self.story.busy -= 1


def _changes(event: SessionEvent, operation: str, name: str) -> bool:
    match event.data:
        case {"operation": found, "id": changed}:
            return bool(found == operation and changed == name)
        case {"operation": found, "schedule": {"id": changed}}:
            return bool(found == operation and changed == name)
        case _:
            return False
