"""What a chat shows of a session, and what a person can ask of it; no terminal needed."""

import asyncio
import unicodedata
from collections.abc import Callable, Coroutine
from typing import Any, get_args

import pytest
from attrs import define, field, frozen
from hypothesis import given
from hypothesis import strategies as st

from schedule_adapters.absent_agent import AbsentAgent
from schedule_adapters.chat.commands import HELP, Commands
from schedule_adapters.chat.script import show_plainly
from schedule_adapters.chat.transcript import Kind, Transcript
from schedule_adapters.event_lines import event_line
from schedule_adapters.inbox import QueuedInput
from schedule_adapters.live import LiveSchedule
from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.testing.virtual_time import VirtualClock, run_virtual
from schedule_adapters.turn_driver import TextDelta, ToolCalled
from schedule_adapters.turns import Outcome, SessionOutput, TurnEnded, TurnStarted
from schedule_adapters.wording import (
    FAULTS,
    duration,
    local_moment,
    one_line,
    printable,
    reminder_count,
    state_line,
    view_line,
)
from schedule_core import (
    AfterScheduleRecord,
    AgentBusy,
    AtScheduleRecord,
    Instant,
    OwnerState,
    ScheduleId,
    ScheduleRecord,
    SessionEvent,
    view,
)
from schedule_core.instants import DAY_MS, HOUR_MS, MINUTE_MS
from schedule_core.records import DelaySeconds, Prompt
from schedule_core.signals import Fault
from tests.adapters.live_world import settle
from tests.adapters.turn_world import ScriptedDriver, Talk, lasting, reminder, talk

NOW = Instant(1_795_996_800_000)
PROMPT = QueuedInput(1, "user", "hello")
REMINDER = QueuedInput(1, "reminder", "framed", ScheduleId("schedule-1"))

HOSTILE = {
    "escape": "\x1b[2J",
    "C1 control": "\x9b2J",
    "operating system command": "\x1b]0;title\x07",
    "backspace": "\b",
    "carriage return": "\r",
    "delete": "\x7f",
    "null": "\0",
    "vertical tab": "\v",
    "form feed": "\f",
    "next line": "\x85",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "right-to-left override": "\u202e",
    "right-to-left isolate": "\u2067",
    "right-to-left mark": "\u200f",
    "Arabic letter mark": "\u061c",
    "lone surrogate": "\ud83d",
}


def is_harmless(text: str) -> bool:
    """Whether a terminal shows the text as it stands, on one line."""
    return not any(
        unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}
        or unicodedata.bidirectional(character)
        in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
        or character in "\u200e\u200f\u061c"
        for character in text
    )


class TestHostileText:
    @pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
    def test_printable_leaves_nothing_that_moves_the_cursor(self, hostile: str) -> None:
        """And it is visible that something stood there."""
        shown = printable(f"a{hostile}b")
        assert is_harmless(shown)
        assert "\N{REPLACEMENT CHARACTER}" in shown
        shown.encode("utf-8")

    @pytest.mark.parametrize(
        "text",
        [
            "plain",
            "Grüße, Київ, 東京",
            "👩\u200d👩\u200d👧",
            "عربي",
            "a\tb\nc",
            "",
            "{} [bold]x[/]",
        ],
    )
    def test_printable_leaves_other_text_alone(self, text: str) -> None:
        """Field report 51: no language and no emoji is refused."""
        assert text == printable(text)

    @given(st.from_type(str), st.integers(1, 80))
    def test_one_line_is_one_harmless_line_of_at_most_its_width(
        self, text: str, width: int
    ) -> None:
        line = one_line(text, width)
        assert is_harmless(line)
        assert len(line) <= width
        assert len(line.splitlines()) <= 1

    @given(st.from_type(AfterScheduleRecord) | st.from_type(AtScheduleRecord))
    def test_a_reminder_takes_one_harmless_line_whatever_it_says(
        self, record: ScheduleRecord
    ) -> None:
        """Field report 49: its id and its text come from outside."""
        assert is_harmless(view_line(view(record, NOW), NOW, "Europe/Berlin"))

    @given(
        st.from_type(str),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.from_type(str),
            lambda inner: st.lists(inner) | st.dictionaries(st.from_type(str), inner),
            max_leaves=5,
        ),
    )
    def test_an_event_takes_one_harmless_line_whatever_it_holds(
        self, event_type: str, data: object
    ) -> None:
        assert is_harmless(event_line(SessionEvent(event_type, data, 0, 0), None))

    @pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
    @pytest.mark.parametrize(
        ("event_type", "members"),
        [
            ("input/queued", ("source", "text", "scheduleId")),
            ("turn/started", ("input",)),
            ("turn/ended", ("input", "outcome")),
            ("log/checkpoint", ("durable",)),
            ("conversation/messages", ("format", "messages")),
            ("schedule/change", ("version", "operation", "id")),
        ],
    )
    def test_no_member_of_an_event_of_ours_reaches_the_terminal_raw(
        self, event_type: str, members: tuple[str, ...], hostile: str
    ) -> None:
        """Given a log from elsewhere, then its strings and its objects are only text."""
        for value in (hostile, [hostile], f"a\n{hostile}"):
            data = dict.fromkeys(members, value)
            assert is_harmless(event_line(SessionEvent(event_type, data, 0, 0), None))
        for source in ("user", "reminder"):
            data = {"source": source, "text": hostile, "scheduleId": hostile}
            assert is_harmless(event_line(SessionEvent(event_type, data, 0, 0), None))

    @pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
    def test_a_line_is_made_harmless_where_it_is_written(
        self, hostile: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Whoever made the line: the assistant's text too."""
        for kind in get_args(Kind):
            show_plainly(kind, f"a{hostile}b")
        out, err = capsys.readouterr()
        assert all(is_harmless(line) for line in (out + err).split("\n"))
        assert [3, 1] == [len(out.split("\n")) - 1, len(err.split("\n")) - 1]


class TestWording:
    @pytest.mark.parametrize(
        ("milliseconds", "text"),
        [
            (0, "0 s"),
            (999, "0 s"),
            (20_000, "20 s"),
            (59_999, "59 s"),
            (MINUTE_MS, "0:01:00"),
            (HOUR_MS + 5 * MINUTE_MS, "1:05:00"),
            (DAY_MS - 1, "23:59:59"),
            (3 * DAY_MS + 4 * HOUR_MS, "3 d 4:00:00"),
            (-90_000, "0:01:30"),
        ],
    )
    def test_a_duration_reads_as_a_person_says_it(self, milliseconds: int, text: str) -> None:
        assert text == duration(milliseconds)

    @pytest.mark.parametrize(
        ("text", "width", "line"),
        [
            ("short", 60, "short"),
            ("  a \n\n b\t c ", 60, "a b c"),
            ("abcdef", 6, "abcdef"),
            ("abcdefg", 6, "abcde…"),
            ("", 60, ""),
        ],
    )
    def test_one_line_collapses_space_and_cuts(self, text: str, width: int, line: str) -> None:
        assert line == one_line(text, width)

    @pytest.mark.parametrize(
        ("zone", "text"),
        [
            ("Europe/Berlin", "2026-11-30 01:00:00 Europe/Berlin"),
            ("UTC", "2026-11-30 00:00:00 UTC"),
            (None, "2026-11-30 00:00:00 UTC"),
        ],
    )
    def test_a_moment_names_its_zone(self, zone: str | None, text: str) -> None:
        assert text == local_moment(NOW, zone)

    @pytest.mark.parametrize(
        ("ahead_ms", "when"),
        [(20_000, "in 20 s"), (1, "in 0 s"), (0, "due 0 s ago"), (-90_000, "due 0:01:30 ago")],
    )
    def test_a_reminder_says_when_it_is_due(self, ahead_ms: int, when: str) -> None:
        """At its very instant it is due."""
        record = AfterScheduleRecord(
            ScheduleId("schedule-1"), Prompt("make\ntea"), DelaySeconds(1), Instant(NOW + ahead_ms)
        )
        line = view_line(view(record, NOW), NOW, None)
        at = local_moment(record.scheduled_at, None)
        assert line == f"schedule-1  {at}  ({when})  make tea"

    @pytest.mark.parametrize("count", [0, 1, 2])
    def test_reminders_are_counted_as_a_person_does(self, count: int) -> None:
        assert ["no reminders", "1 reminder", "2 reminders"][count] == reminder_count(count)

    @pytest.mark.parametrize("fault", Fault)
    def test_every_fault_is_put_into_words(self, fault: Fault) -> None:
        """Design decision 16: the fault is visible, with the event that is to blame."""
        assert f"reminders are NOT delivered: {FAULTS[fault]} (event 7)" == state_line(
            OwnerState("faulted", None, fault, 7)
        )

    @pytest.mark.parametrize(
        ("state", "line"),
        [
            (OwnerState("resting"), None),
            (OwnerState("working"), None),
            (OwnerState("waiting", NOW), None),
            (OwnerState("stopped"), None),
            (OwnerState("watching"), "a due reminder waits for the turn to end"),
            (OwnerState("faulted"), "reminders are NOT delivered: for an unknown reason"),
        ],
    )
    def test_a_state_is_mentioned_only_if_a_person_needs_to_know(
        self, state: OwnerState, line: str | None
    ) -> None:
        assert line == state_line(state)


CREATE = {
    "version": 1,
    "operation": "create",
    "schedule": {
        "id": "schedule-1",
        "kind": "at",
        "prompt": "make\ntea",
        "scheduledAt": "2026-11-30T00:00:00.000Z",
    },
}


class TestEventLines:
    @pytest.mark.parametrize(
        ("event_type", "data", "gist"),
        [
            (
                "schedule/change",
                CREATE,
                "create schedule-1 for 2026-11-30 01:00:00 Europe/Berlin: make tea",
            ),
            (
                "schedule/change",
                {"version": 1, "operation": "delete", "id": "schedule-1"},
                "delete schedule-1",
            ),
            (
                "schedule/change",
                {"version": 1, "operation": "dispatch", "id": "schedule-1"},
                "dispatch schedule-1",
            ),
            ("schedule/change", {"version": 2}, "INVALID: unknown_version: version is not 1"),
            ("schedule/change", None, "INVALID: wrong_type: the change is not an object"),
            ("input/queued", {"source": "user", "text": "hello\nthere"}, "hello there"),
            (
                "input/queued",
                {"source": "reminder", "text": "framed", "scheduleId": "schedule-1"},
                "reminder schedule-1",
            ),
            ("input/queued", {"source": "user"}, ""),
            ("turn/started", {"input": 4}, "for event 4"),
            ("turn/started", {}, ""),
            ("turn/ended", {"input": 4, "outcome": "completed"}, "for event 4: completed"),
            ("turn/ended", {"input": 4}, ""),
            ("log/checkpoint", {"durable": -1}, "durable up to -1"),
            ("log/checkpoint", None, ""),
            ("conversation/messages", {"format": "x", "messages": [1, 2]}, "2 messages"),
            ("conversation/messages", {"messages": "x"}, ""),
            ("foreign/type", {"anything": "secret"}, ""),
        ],
    )
    def test_an_event_is_one_line_with_its_gist(
        self, event_type: str, data: object, gist: str
    ) -> None:
        line = event_line(SessionEvent(event_type, data, 12, NOW), "Europe/Berlin")
        start = f"    12  2026-11-30 01:00:00  {event_type:<22} "
        assert line == (start + gist).rstrip()

    @pytest.mark.parametrize("time", [2**60, -(2**60)])
    def test_a_time_that_is_none_is_shown_as_its_number(self, time: int) -> None:
        assert f"     0  {time}  x" == event_line(SessionEvent("x", None, 0, time), None)


@define
class Lines:
    """What was shown."""

    lines: list[tuple[Kind, str]] = field(factory=list)

    def show(self, kind: Kind, text: str) -> None:
        self.lines.append((kind, text))

    def take(self) -> list[tuple[Kind, str]]:
        """What was shown since the last look."""
        taken, self.lines = self.lines, []
        return taken


def transcribed(*outputs: SessionOutput) -> list[tuple[Kind, str]]:
    """The lines that come of these outputs."""
    lines = Lines()
    transcript = Transcript(lines.show)
    for output in outputs:
        transcript.take(output)
    return lines.lines


def write_failed(message: str = "the disk is full") -> StoreError:
    """What a barrier raises."""
    return StoreError(StoreErrorCode.WRITE_FAILED, message)


class TestTranscript:
    def test_streamed_text_appears_line_by_line(self) -> None:
        """However it was cut into pieces; the rest comes at the end of the turn."""
        lines = Lines()
        transcript = Transcript(lines.show)
        for piece in ("one ", "line\ntwo", " lines\n\nthe ", "rest"):
            transcript.take(TextDelta(piece))
        assert lines.take() == [
            ("assistant", "one line"),
            ("assistant", "two lines"),
            ("assistant", ""),
        ]
        transcript.take(TurnEnded(PROMPT, "completed"))
        assert lines.take() == [("assistant", "the rest")]
        transcript.take(TurnEnded(PROMPT, "completed"))
        assert lines.take() == []

    def test_a_tool_call_stands_after_the_text_before_it(self) -> None:
        assert transcribed(
            TextDelta("let me see"),
            ToolCalled("schedule_list"),
            TextDelta("none"),
            TurnEnded(PROMPT, "completed"),
        ) == [("assistant", "let me see"), ("note", "[schedule_list]"), ("assistant", "none")]

    def test_a_reminder_is_marked_as_one(self) -> None:
        """Design decision 18: a person sees where the turn came from; a prompt needs no mark."""
        assert transcribed(TurnStarted(PROMPT), TurnStarted(REMINDER)) == [
            ("reminder", "reminder schedule-1")
        ]

    def test_names_from_outside_forge_no_line(self) -> None:
        """A tool's name comes from the model, a reminder's id from the log."""
        forged = QueuedInput(1, "reminder", "", ScheduleId("a\n* reminder b"))
        shown = transcribed(TurnStarted(forged), ToolCalled("x\n[y]"))
        assert shown == [("reminder", "reminder a * reminder b"), ("note", "[x [y]]")]

    @pytest.mark.parametrize(
        ("ended", "lines"),
        [
            (TurnEnded(PROMPT, "completed"), []),
            (TurnEnded(PROMPT, "cancelled"), [("note", "[turn ended]")]),
            (
                TurnEnded(PROMPT, "failed", ValueError("no\nmodel")),
                [("error", "this turn failed: ValueError: no model")],
            ),
            (
                TurnEnded(PROMPT, "failed"),
                [("error", "this turn failed: for an unknown reason")],
            ),
            (
                TurnEnded(PROMPT, "completed", write_failed()),
                [("error", "this turn may not be saved: StoreError: the disk is full")],
            ),
            (
                TurnEnded(PROMPT, "cancelled", write_failed()),
                [
                    ("note", "[turn ended]"),
                    ("error", "this turn may not be saved: StoreError: the disk is full"),
                ],
            ),
        ],
    )
    def test_the_end_of_a_turn_is_mentioned_only_if_something_was_amiss(
        self, ended: TurnEnded, lines: list[tuple[Kind, str]]
    ) -> None:
        assert lines == transcribed(ended)

    @pytest.mark.parametrize("outcome", get_args(Outcome))
    def test_text_that_was_cut_off_is_shown_before_the_end(self, outcome: Outcome) -> None:
        assert ("assistant", "half a") == transcribed(
            TextDelta("half a"), TurnEnded(PROMPT, outcome)
        )[0]

    def test_a_failure_is_told_in_one_bounded_line(self) -> None:
        [(_, line)] = transcribed(TurnEnded(PROMPT, "failed", ValueError("x\n" * 10_000)))
        assert len(line) < 400
        assert "\n" not in line


@frozen
class Desk:
    """A chat's commands on a live conversation."""

    world: Talk
    commands: Commands
    lines: Lines

    async def run(self, line: str) -> list[tuple[Kind, str]]:
        """Run one command that does not leave; gives what it showed."""
        assert await self.commands.run(line)
        return self.lines.take()

    async def create(self, prompt: str, seconds: int) -> None:
        await self.world.call("schedule_create", prompt=prompt, after_seconds=seconds)


def at_desk(scenario: Callable[[Desk], Coroutine[Any, Any, None]]) -> None:
    """Run one scenario with an open chat."""

    async def main(clock: VirtualClock) -> None:
        lines, driver = Lines(), ScriptedDriver({"long": lasting(600)})
        async with talk(MemoryStore(clock=clock), clock, driver=driver) as world:
            commands = Commands(world.conversation, clock, "Europe/Berlin", lines.show)
            await scenario(Desk(world, commands, lines))

    run_virtual(main)


class TestCommands:
    @pytest.mark.parametrize("line", ["/quit", "/exit", "  /quit  ", "/quit now"])
    def test_quit_leaves(self, line: str) -> None:
        async def scenario(desk: Desk) -> None:
            assert not await desk.commands.run(line)
            assert desk.lines.take() == []

        at_desk(scenario)

    def test_list_shows_the_active_reminders_in_the_zone_of_the_person(self) -> None:
        async def scenario(desk: Desk) -> None:
            assert await desk.run("/list") == [("note", "no reminders")]
            await desk.create("tea", 60)
            await desk.create("cake", 3_600)
            assert await desk.run("/list") == [
                ("note", "schedule-1  2026-11-30 01:01:00 Europe/Berlin  (in 0:01:00)  tea"),
                ("note", "schedule-2  2026-11-30 02:00:00 Europe/Berlin  (in 1:00:00)  cake"),
            ]

        at_desk(scenario)

    def test_list_says_what_a_due_reminder_waits_for(self) -> None:
        async def scenario(desk: Desk) -> None:
            await desk.create("tea", 60)
            desk.world.conversation.runtime.prompt("long")
            await asyncio.sleep(90)
            assert await desk.run("/list") == [
                ("note", "a due reminder waits for the turn to end"),
                ("note", "schedule-1  2026-11-30 01:01:00 Europe/Berlin  (due 30 s ago)  tea"),
            ]

        at_desk(scenario)

    def test_list_says_so_when_the_log_is_corrupt(self) -> None:
        """Field report 20: loud, and the chat itself goes on."""

        async def scenario(desk: Desk) -> None:
            desk.world.conversation.session.append("schedule/change", {"version": 2})
            desk.world.conversation.schedule.recompute()
            await settle()
            lines = await desk.run("/list")
            assert lines[0] == (
                "note",
                f"reminders are NOT delivered: {FAULTS[Fault.CORRUPT_LOG]} (event 1)",
            )
            assert "version is not 1" in lines[1][1]
            desk.world.conversation.runtime.prompt("x")
            await settle()
            assert desk.world.driver.heard == ["x"]

        at_desk(scenario)

    def test_delete_ends_one_reminder(self) -> None:
        async def scenario(desk: Desk) -> None:
            await desk.create("tea", 60)
            assert await desk.run("/delete schedule-1") == [("note", "deleted schedule-1")]
            assert await desk.run("/delete schedule-1") == [
                ("error", "there is no active reminder schedule-1")
            ]
            assert await desk.world.listed() == []

        at_desk(scenario)

    def test_delete_wants_an_id(self) -> None:
        async def scenario(desk: Desk) -> None:
            for line in ("/delete", "/delete  "):
                assert await desk.run(line) == [
                    ("error", "which one? /delete ID, with an id that /list shows")
                ]

        at_desk(scenario)

    def test_delete_says_when_it_is_not_certain(self) -> None:
        """Field report 19: nobody is told "deleted" who cannot rely on it."""

        async def scenario(desk: Desk) -> None:
            await desk.create("tea", 60)
            session = desk.world.conversation.session

            async def fail() -> None:
                raise write_failed()

            session.barrier = fail  # type: ignore[method-assign]
            [(kind, line)] = await desk.run("/delete schedule-1")
            assert kind == "error"
            assert "not certain" in line

        at_desk(scenario)

    def test_events_shows_the_last_ones(self) -> None:
        async def scenario(desk: Desk) -> None:
            for text in ("one", "two"):
                desk.world.conversation.runtime.prompt(text)
                await desk.world.conversation.runtime.when_idle()
            session = desk.world.conversation.session
            every = [("note", event_line(e, "Europe/Berlin")) for e in session.events_from(0)]
            assert len(every) > 6
            assert await desk.run("/events") == every[-20:]
            assert await desk.run("/events 3") == every[-3:]
            assert await desk.run("/events 0") == []
            assert await desk.run("/events 999999999") == every

        at_desk(scenario)

    def test_events_shows_twenty_unless_told_otherwise(self) -> None:
        async def scenario(desk: Desk) -> None:
            for number in range(30):
                desk.world.conversation.runtime.prompt(f"{number}")
            await desk.world.conversation.runtime.when_idle()
            assert len(await desk.run("/events")) == 20

        at_desk(scenario)

    @pytest.mark.parametrize("count", ["x", "-1", "1.5", "٣", "9" * 20, "9" * 5_000])
    def test_events_wants_a_count_it_can_use(self, count: str) -> None:
        """Whatever stands there, the chat goes on."""

        async def scenario(desk: Desk) -> None:
            lines = await desk.run(f"/events {count}")
            assert [line for _, line in lines] == ["how many? /events N, with a whole number"]

        at_desk(scenario)

    def test_help_names_every_command(self) -> None:
        async def scenario(desk: Desk) -> None:
            lines = [line for _, line in await desk.run("/help")]
            assert HELP.split("\n") == lines
            for name in ("/list", "/delete", "/events", "/help", "/quit"):
                assert any(line.startswith(name) for line in lines)

        at_desk(scenario)

    @pytest.mark.parametrize("line", ["/", "/lst", "/LIST"])
    def test_a_misspelt_command_is_not_sent_to_the_assistant(self, line: str) -> None:
        async def scenario(desk: Desk) -> None:
            assert await desk.run(line) == [
                ("error", f"there is no {line}; /help lists the commands")
            ]
            await settle()
            assert desk.world.driver.heard == []

        at_desk(scenario)


class TestAbsentAgent:
    def test_an_absent_agent_lets_tools_work_and_delivers_nothing(self) -> None:
        """Whoever holds the conversation delivers, later."""

        async def main(clock: VirtualClock) -> None:
            store = MemoryStore(clock=clock)
            session = await store.open("main")
            schedule = LiveSchedule(AbsentAgent(), session, clock=clock)
            schedule.start()
            await schedule.call_tool("schedule_create", {"prompt": "tea", "after_seconds": 1})
            await asyncio.sleep(600)
            rows = await schedule.call_tool("schedule_list", {})
            assert isinstance(rows, list)
            assert [(row["id"], row["state"]) for row in rows] == [("schedule-1", "overdue")]
            await settle()
            assert state_line(schedule.state) is not None
            await schedule.close()
            await session.close()
            assert schedule.state.activity == "stopped"
            async with talk(store, clock) as world:
                await settle()
                assert world.driver.heard == ["schedule-1"]

        run_virtual(main)

    def test_an_absent_agent_is_a_live_root_that_refuses_every_claim(self) -> None:
        agent = AbsentAgent()
        assert (agent.is_root, agent.is_live) == (True, True)
        assert not agent.has_admitted(ScheduleId("schedule-1"))

        async def never() -> None:
            raise AssertionError("it must not run")

        with pytest.raises(AgentBusy):
            agent.run_maintenance(never)
        with pytest.raises(AgentBusy):
            agent.followup(reminder())

    def test_listening_to_an_absent_agent_is_possible_and_pointless(self) -> None:
        agent = AbsentAgent()
        heard: list[str] = []
        for unsubscribe in (
            agent.on_idle(lambda: heard.append("idle")),
            agent.on_close(lambda: heard.append("close")),
        ):
            unsubscribe()
        assert heard == []
