"""What must hold for every agent framework's adapter, whatever runs its turns.

Each rule lives one or more lives (`world`) of one conversation over a store on disk, with
the framework's own run loop and its own fake model. Time passes when a rule says so.
"""

from pathlib import Path
from typing import ClassVar, Literal, assert_never

import pytest

from schedule_adapters.sessions import Session
from schedule_adapters.testing.agents.script import (
    CallTool,
    CallTools,
    Gate,
    ModelFailed,
    Say,
    Script,
    Seen,
    SeenTool,
    Step,
    Thinks,
)
from schedule_adapters.testing.agents.world import (
    HOLD,
    AgentWorld,
    FromAnotherThread,
    Life,
    admissions,
)
from schedule_adapters.turn_driver import ToolCalled, TurnDriver
from schedule_adapters.turns import TurnEnded
from schedule_core import TOOLS

Ending = Literal["closed", "killed"]
Moment = Literal[
    "idle",
    "the model thinks",
    "inside a tool",
    "the model thinks after a tool",
    "a reminder is due while a turn runs",
    "messages wait while a turn runs",
    "the model has a reminder",
    "the turn failed",
    "the turn was cancelled",
]
EVERY_ENDING: tuple[Ending, ...] = ("closed", "killed")
EVERY_MOMENT: tuple[Moment, ...] = (
    "idle",
    "the model thinks",
    "inside a tool",
    "the model thinks after a tool",
    "a reminder is due while a turn runs",
    "messages wait while a turn runs",
    "the model has a reminder",
    "the turn failed",
    "the turn was cancelled",
)

FIRST = "schedule-1"
SECOND = "schedule-2"
AWKWARD_TEXT = 'two\nlines "quoted" \\ {braces} {{x}} <tag> é 😀'
"""Text that some template, escape or reader would change."""
HALF_AN_EMOJI = "half \ud83d"
"""Text that a log may hold and that is not UTF-8."""


class AgentContract:
    """The rules of an adapter; subclass it and say how a driver is made.

    Attributes:
        schema_changes: the written reason, when the framework cannot send the schemas of
            the tools to the model as they are; then only the names are compared.
        instructions_changes: the written reason, when the framework has no system side
            that a turn's instructions could go to.
        no_sub_agents: the written reason, when `make_driver_with_sub_agent` gives None.
        delegation: the answer of the root's model that makes the framework ask its
            sub-agent; adapt it to what `make_driver_with_sub_agent` builds.
    """

    schema_changes: ClassVar[str | None] = None
    instructions_changes: ClassVar[str | None] = None
    no_sub_agents: ClassVar[str | None] = None
    delegation: ClassVar[Step] = CallTool("delegate", {"task": "look it up"})

    def make_driver(self, session: Session, script: Script, folder: Path) -> TurnDriver:
        """Make a driver with the framework's real run loop over its own fake model.

        Called once per process life, on the loop of the test. The fake model awaits
        `script.next(seen)` for each request and streams the text of a `Say` in its
        `pieces`. It gives each tool call a `new_call_id()`.

        Args:
            session: the open session, as `open_conversation` gives it.
            script: what the model answers.
            folder: a private directory for the framework's own store, if it has one; it
                survives restarts. It exists. What is opened in it, `TurnDriver.close` closes.
        """
        raise NotImplementedError

    def make_driver_with_sub_agent(
        self, session: Session, script: Script, folder: Path
    ) -> TurnDriver | None:
        """Make a driver whose root agent can ask, or hand over to, a sub-agent.

        The sub-agent's model asks the same script, with tools as that request offers them.
        None if the framework has no sub-agents that the adapter could reach; then
        `no_sub_agents` says why.
        """
        raise NotImplementedError

    @pytest.fixture
    def world(self, tmp_path: Path) -> AgentWorld:
        """A conversation that has not begun."""
        return AgentWorld(tmp_path / "first", self.make_driver)

    # The tools.

    async def test_the_three_tools_reach_the_model_unchanged(self, world: AgentWorld) -> None:
        """The root's model is offered each tool once, as the catalog has it."""
        async with world.life() as life:
            await life.say("hello")

        offered = _schedule_tools(life.script.requests[0])
        expected = [SeenTool(tool.name, tool.description, tool.parameters) for tool in TOOLS]
        if self.schema_changes is None:
            assert expected == offered
        else:
            assert [tool.name for tool in expected] == [tool.name for tool in offered]

    async def test_reminders_are_created_listed_and_deleted_by_tool_call(
        self, world: AgentWorld
    ) -> None:
        """What each tool answers reaches the model as its JSON value, and is so in the log."""
        async with world.life() as life:
            await life.say(
                "remind me, no, do not",
                CallTool("schedule_create", {"prompt": AWKWARD_TEXT, "after_seconds": 60}),
                CallTool("schedule_list"),
                CallTool("schedule_delete", {"id": FIRST}),
                Say("gone again"),
            )
            left = await life.listed()

        last = life.script.requests[-1]
        created, listed, deleted = last.results
        assert isinstance(created, dict)
        assert (created["id"], created["prompt"]) == (FIRST, AWKWARD_TEXT)
        assert listed == [created]
        assert deleted == {"id": FIRST, "deleted": True}
        assert last.calls == ("schedule_create", "schedule_list", "schedule_delete")
        assert left == []

    async def test_several_calls_in_one_answer_are_all_answered(self, world: AgentWorld) -> None:
        """Each call has its own result, in the order of the calls."""
        calls = tuple(
            CallTool("schedule_create", {"prompt": prompt, "after_seconds": 60})
            for prompt in ("stretch", "drink")
        )
        async with world.life() as life:
            ended = await life.say("two reminders", CallTools(calls), Say("both are set"))
            listed = await life.listed()

        assert ended.outcome == "completed"
        prompts = [result["prompt"] for result in _objects(life.script.requests[-1])]
        assert prompts == ["stretch", "drink"]
        assert sorted(listed) == [FIRST, SECOND]

    async def test_a_refusal_is_an_answer(self, world: AgentWorld) -> None:
        """The model gets the code of a refused call, and the turn goes on."""
        async with world.life() as life:
            arguments = {"prompt": "stretch", "after_seconds": 0}
            ended = await life.say("now", CallTool("schedule_create", arguments), Say("sorry"))

        [refusal] = _objects(life.script.requests[-1])
        assert refusal["code"] == "invalid_rule"
        assert ended.outcome == "completed"

    async def test_a_tool_that_is_not_there_does_not_end_the_conversation(
        self, world: AgentWorld
    ) -> None:
        """Whatever the framework makes of such a call, the next turn is an ordinary one."""
        async with world.life() as life:
            await life.say("cancel it", CallTool("schedule_cancel", {"id": FIRST}))
            ended = await life.say("are you there?", Say("yes"))

        assert ended.outcome == "completed"
        assert life.script.requests[-1].texts == ("cancel it", "are you there?")

    async def test_a_tool_can_be_called_from_another_thread(self, tmp_path: Path) -> None:
        """A framework that runs its tools on other threads and loops gets the same answers."""

        def make(session: Session, script: Script, folder: Path) -> TurnDriver:
            return FromAnotherThread(self.make_driver(session, script, folder))

        world = AgentWorld(tmp_path / "first", make)
        async with world.life() as life:
            await life.create("stretch")
            life.pass_time(60)
            ended = await life.ended(FIRST)

        assert ended.outcome == "completed"

    async def test_a_sub_agent_is_not_offered_the_tools(self, tmp_path: Path) -> None:
        """They are the root's alone, before and after it asked for help."""
        world = self._world_with_sub_agent(tmp_path)
        if world is None:
            return
        async with world.life() as life:
            await life.say("find out", self.delegation, Say("found"), Say("it is found"))
            asked = len(life.script.requests)
            await life.say("thank you", Say("you are welcome"))

        offers = [len(_schedule_tools(seen)) for seen in life.script.requests]
        assert offers[:2] == [len(TOOLS), 0]
        assert offers[asked] == len(TOOLS)

    async def test_a_sub_agent_that_calls_them_all_the_same_changes_nothing(
        self, tmp_path: Path
    ) -> None:
        """A model that knows their names from elsewhere has not got them by that."""
        world = self._world_with_sub_agent(tmp_path)
        if world is None:
            return
        async with world.life() as life:
            arguments = {"prompt": "stretch", "after_seconds": 60}
            await life.say("find out", self.delegation, CallTool("schedule_create", arguments))
            ended = await life.say("are you there?", Say("yes"))
            listed = await life.listed()

        assert listed == []
        assert ended.outcome == "completed"

    def _world_with_sub_agent(self, tmp_path: Path) -> AgentWorld | None:
        """None when the adapter has no sub-agents, and says why."""
        if self.no_sub_agents is not None:
            assert self.no_sub_agents.strip(), "the reason must be written"
            return None

        def make(session: Session, script: Script, folder: Path) -> TurnDriver:
            driver = self.make_driver_with_sub_agent(session, script, folder)
            assert driver is not None, "say in `no_sub_agents` why there is none"
            return driver

        return AgentWorld(tmp_path / "first", make)

    # Turns, and the conversation.

    async def test_a_turn_is_streamed(self, world: AgentWorld) -> None:
        """Its calls are named and its text comes out in pieces, as the model gives them."""
        answer = Say("it is set for one minute from now")
        async with world.life() as life:
            ended = await life.say("list them", CallTool("schedule_list"), answer)

        outputs = life.outputs
        assert "".join(life.said) == answer.text
        assert len(life.said) > 1
        assert [out for out in outputs if isinstance(out, ToolCalled)] == [
            ToolCalled("schedule_list")
        ]
        assert outputs[-1] == ended

    async def test_the_model_sees_what_was_said_before(self, world: AgentWorld) -> None:
        """Each request holds every earlier message, in order and unchanged."""
        texts = ["my colour is blue", AWKWARD_TEXT, "what is my colour?"]
        async with world.life() as life:
            for text in texts:
                await life.say(text)

        assert life.script.requests[-1].texts == tuple(texts)

    async def test_instructions_are_for_one_turn_and_no_part_of_what_was_said(
        self, world: AgentWorld
    ) -> None:
        """The time context stands on the system side of its own turn, and nowhere else."""
        async with world.life() as life:
            life.conversation.runtime.prompt("in Berlin", time_zone="Europe/Berlin")
            await life.ended("in Berlin")
            await life.say("elsewhere")

        first, second = life.script.requests
        if self.instructions_changes is None:
            assert "client_time_zone: Europe/Berlin" in first.instructions
            assert "client_time_zone: unknown" in second.instructions
            assert second.texts == ("in Berlin", "elsewhere")
        assert "Europe/Berlin" not in second.instructions

    async def test_text_that_cannot_be_utf_8_does_not_end_the_conversation(
        self, world: AgentWorld
    ) -> None:
        """What the model is sent can be encoded, now and in every later turn."""
        async with world.life() as life:
            first = await life.say(HALF_AN_EMOJI, CallTool("schedule_list"), Say(HALF_AN_EMOJI))
            second = await life.say("are you there?", Say("yes"))

        assert (first.outcome, second.outcome) == ("completed", "completed")
        for seen in life.script.requests:
            assert "".join(seen.texts).encode()

    async def test_a_failed_turn_keeps_its_message_and_the_conversation(
        self, world: AgentWorld
    ) -> None:
        """The host hears of the failure; the next turn is an ordinary one."""
        async with world.life() as life:
            await life.say("my colour is blue")
            failed = await life.say("and now?", ModelFailed("the line is dead"))
            ended = await life.say("are you there?", Say("yes"))

        assert failed.outcome == "failed"
        assert failed.error is not None
        assert ended.outcome == "completed"
        assert life.script.requests[-1].texts == ("my colour is blue", "and now?", "are you there?")

    async def test_a_turn_that_fails_after_a_tool_keeps_the_conversation(
        self, world: AgentWorld
    ) -> None:
        """What the tool did is done; the next request has no call without its result."""
        async with world.life() as life:
            await life.say(
                "remind me to stretch",
                CallTool("schedule_create", {"prompt": "stretch", "after_seconds": 60}),
                ModelFailed("the line is dead"),
            )
            ended = await life.say("are you there?", CallTool("schedule_list"), Say("yes"))

        assert ended.outcome == "completed"
        last = life.script.requests[-1]
        assert last.texts == ("remind me to stretch", "are you there?")
        assert last.calls[-1] == "schedule_list"
        assert isinstance(last.results[-1], list)
        assert [row["id"] for row in last.results[-1]] == [FIRST]

    async def test_a_turn_cancelled_inside_a_tool_leaves_the_conversation_usable(
        self, world: AgentWorld
    ) -> None:
        """The next request has the message of that turn, and no call without its result."""
        async with world.life() as life:
            life.prompt("go", CallTools((CallTool("schedule_list"), CallTool(HOLD))))
            await life.hold.reached.wait()
            assert life.conversation.runtime.cancel_turn()
            cancelled = await life.ended("go")
            ended = await life.say("are you there?", CallTool("schedule_list"), Say("yes"))

        assert cancelled.outcome == "cancelled"
        assert ended.outcome == "completed"
        assert life.script.requests[-1].texts == ("go", "are you there?")

    async def test_a_turn_cancelled_while_the_model_thinks_leaves_the_conversation_usable(
        self, world: AgentWorld
    ) -> None:
        """The message stays, and what the model would have said never comes."""
        async with world.life() as life:
            gate = Gate()
            life.prompt("go", Thinks(gate, Say("too late")))
            await gate.reached.wait()
            assert life.conversation.runtime.cancel_turn()
            cancelled = await life.ended("go")
            gate.open()
            await life.say("are you there?", Say("yes"))

        assert cancelled.outcome == "cancelled"
        assert life.said == ["yes"]
        assert life.script.requests[-1].texts == ("go", "are you there?")

    # Reminders that fall due.

    async def test_a_reminder_due_while_idle_gets_a_turn_of_its_own(
        self, world: AgentWorld
    ) -> None:
        """The model gets its framed text as one user-role message, once."""
        async with world.life() as life:
            await life.create("stretch")
            life.pass_time(59)
            await life.settle()
            assert life.turns == ["remind me to stretch"]
            life.pass_time(1)
            ended = await life.ended(FIRST)
            await life.settle()
            listed = await life.listed()

        assert ended.outcome == "completed"
        assert (ended.input.source, ended.input.text) == (
            "reminder",
            life.script.requests[-1].texts[-1],
        )
        assert 'reminder_prompt_json: "stretch"' in ended.input.text
        assert life.turns == ["remind me to stretch", FIRST]
        assert listed == []

    async def test_a_reminder_due_while_a_turn_runs_waits_for_its_end(
        self, world: AgentWorld
    ) -> None:
        """It never interrupts, and no request of the running turn holds it."""
        async with world.life() as life:
            await life.create("stretch")
            life.prompt("go", CallTool(HOLD), Say("went"))
            await life.hold.reached.wait()
            life.pass_time(60)
            await life.listed()
            assert life.turns[-1] == "go"
            life.hold.open()
            await life.ended(FIRST)

        assert life.turns == ["remind me to stretch", "go", FIRST]
        assert life.script.requests[-2].texts == ("remind me to stretch", "go")

    async def test_what_the_user_types_goes_before_a_reminder_that_waits(
        self, world: AgentWorld
    ) -> None:
        """Three more messages are three turns, one after the other; then comes the reminder."""
        async with world.life() as life:
            await life.create("stretch")
            gate = Gate()
            life.prompt("go", Thinks(gate, Say("went")))
            await gate.reached.wait()
            life.pass_time(60)
            for text in ("one", "two", "three"):
                life.prompt(text)
            gate.open()
            await life.ended(FIRST)

        assert life.turns[1:] == ["go", "one", "two", "three", FIRST]
        assert life.script.requests[-1].texts[1:5] == ("go", "one", "two", "three")

    async def test_two_reminders_of_the_same_instant_get_a_turn_each(
        self, world: AgentWorld
    ) -> None:
        """In the order in which they were made."""
        async with world.life() as life:
            await life.create("stretch")
            await life.create("drink")
            life.pass_time(60)
            await life.ended(SECOND)
            await life.settle()

        assert life.turns[2:] == [FIRST, SECOND]
        stretch, drink = life.script.requests[-1].texts[2:]
        assert 'reminder_prompt_json: "stretch"' in stretch
        assert 'reminder_prompt_json: "drink"' in drink

    async def test_a_reminder_deleted_while_it_waits_never_comes(self, world: AgentWorld) -> None:
        """Not even when it was due already, while the turn ran that deleted it."""
        async with world.life() as life:
            await life.create("stretch")
            delete = CallTool("schedule_delete", {"id": FIRST})
            life.prompt("never mind", CallTool(HOLD), delete, Say("it is gone"))
            await life.hold.reached.wait()
            life.pass_time(60)
            await life.listed()
            life.hold.open()
            await life.ended("never mind")
            await life.settle()

        assert life.script.requests[-1].results[-1] == {"id": FIRST, "deleted": True}
        assert life.turns == ["remind me to stretch", "never mind"]

    async def test_the_turn_of_a_reminder_may_set_another(self, world: AgentWorld) -> None:
        """It is an ordinary turn of the root, with the tools."""
        async with world.life() as life:
            await life.create("stretch")
            again = CallTool("schedule_create", {"prompt": "stretch again", "after_seconds": 60})
            life.script.play(again, Say("and once more"))
            life.pass_time(60)
            await life.ended(FIRST)
            life.pass_time(60)
            ended = await life.ended(SECOND)

        assert 'reminder_prompt_json: "stretch again"' in ended.input.text

    async def test_a_reminder_whose_turn_fails_is_not_repeated_and_not_forgotten(
        self, world: AgentWorld
    ) -> None:
        """It was admitted; the model finds its text in the next turn."""
        async with world.life() as life:
            await life.create("stretch")
            life.script.play(ModelFailed("the line is dead"))
            life.pass_time(60)
            failed = await life.ended(FIRST)
            await life.settle()
            await life.say("what was that?")

        assert failed.outcome == "failed"
        assert life.turns[1:] == [FIRST, "what was that?"]
        assert life.script.requests[-1].texts[-2] == failed.input.text

    # Restarts.

    @pytest.mark.parametrize("ending", EVERY_ENDING)
    async def test_the_conversation_and_its_reminders_survive_a_restart(
        self, world: AgentWorld, ending: Ending
    ) -> None:
        """The next process goes on where this one was, and delivers what is due then."""
        async with world.life() as life:
            await life.say("my colour is blue")
            await life.create("stretch")
            await _end(world, life, ending)
        async with world.life() as life:
            assert await life.listed() == [FIRST]
            life.pass_time(60)
            await life.ended(FIRST)

        assert life.turns == [FIRST]
        texts = life.script.requests[-1].texts
        assert texts[:2] == ("my colour is blue", "remind me to stretch")

    @pytest.mark.parametrize("ending", EVERY_ENDING)
    async def test_a_reminder_that_fell_due_in_between_comes_at_the_next_opening(
        self, world: AgentWorld, ending: Ending
    ) -> None:
        """Late by the time nobody was there, and once."""
        async with world.life() as life:
            await life.create("stretch")
            await _end(world, life, ending)
        world.pass_time(3_600)
        async with world.life() as life:
            await life.ended(FIRST)
            await life.settle()

        assert life.turns == [FIRST]

    @pytest.mark.parametrize("ending", EVERY_ENDING)
    async def test_a_delivered_reminder_does_not_come_again_after_a_restart(
        self, world: AgentWorld, ending: Ending
    ) -> None:
        """Its text is part of the conversation by then."""
        async with world.life() as life:
            await life.create("stretch")
            life.pass_time(60)
            delivered = await life.ended(FIRST)
            await life.settle()
            await _end(world, life, ending)
        async with world.life() as life:
            await life.settle()
            await life.say("what did you remind me of?")

        assert life.turns == ["what did you remind me of?"]
        assert life.script.requests[-1].texts[-2] == delivered.input.text

    # Closing, at every moment.

    async def test_a_conversation_is_opened_and_closed_without_a_turn(
        self, world: AgentWorld
    ) -> None:
        """Closing gives back what opening took, and asks the model nothing."""
        async with world.life() as life:
            pass

        assert life.script.requests == []

    @pytest.mark.parametrize("ending", EVERY_ENDING)
    @pytest.mark.parametrize("moment", EVERY_MOMENT)
    async def test_closing_loses_nothing_and_repeats_nothing(
        self, world: AgentWorld, moment: Moment, ending: Ending
    ) -> None:
        """Whatever ran, the next process owes each message and each reminder one turn."""
        async with world.life() as life:
            await life.say("my colour is blue")
            await life.create("stretch")
            await _bring_to(life, moment)
            await _end(world, life, ending)
        cut_off = _cut_off(life)
        world.pass_time(3_600)
        async with world.life() as life:
            await life.settle()
            await life.say("what is my colour?", CallTool("schedule_list"), Say("blue"))
            begun, listed = admissions(life.log), await life.listed()

        assert set(begun.values()) == {1}, begun
        assert begun[FIRST] == 1
        assert listed == []
        texts = life.script.requests[-1].texts
        assert texts[:2] == ("my colour is blue", "remind me to stretch")
        assert texts[-1] == "what is my colour?"
        assert len(texts) == len(set(texts))
        if ending == "closed":
            assert cut_off <= set(texts), "the message of a turn that was cut off stays"


async def _bring_to(life: Life, moment: Moment) -> None:
    """Have the life stand at that moment."""
    gate = Gate()
    thinks = Thinks(gate, Say("done"))
    runtime = life.conversation.runtime
    match moment:
        case "idle":
            pass
        case "the model thinks":
            life.prompt("go", thinks)
            await gate.reached.wait()
        case "inside a tool":
            life.prompt("go", CallTool(HOLD))
            await life.hold.reached.wait()
        case "the model thinks after a tool":
            life.prompt("go", CallTool("schedule_list"), thinks)
            await gate.reached.wait()
        case "a reminder is due while a turn runs":
            await _bring_to(life, "inside a tool")
            life.pass_time(60)
            await life.listed()
        case "messages wait while a turn runs":
            await _bring_to(life, "the model thinks")
            life.prompt("one")
            life.prompt("two")
        case "the model has a reminder":
            life.script.play(thinks)
            life.pass_time(60)
            await gate.reached.wait()
        case "the turn failed":
            await life.say("go", CallTool("schedule_list"), ModelFailed("the line is dead"))
        case "the turn was cancelled":
            await _bring_to(life, "inside a tool")
            runtime.cancel_turn()
            await life.ended("go")
        case _:
            assert_never(moment)


async def _end(world: AgentWorld, life: Life, ending: Ending) -> None:
    """Kill the process here, or leave it to be closed in order."""
    if ending == "killed":
        await world.crash(life)


def _cut_off(life: Life) -> set[str]:
    """The messages of this life whose turns reached the model and were not completed."""
    return {
        output.input.text
        for output in life.outputs
        if isinstance(output, TurnEnded) and output.outcome in ("failed", "cancelled")
    }


def _schedule_tools(seen: Seen) -> list[SeenTool]:
    names = {tool.name for tool in TOOLS}
    return [tool for tool in seen.tools if tool.name in names]


def _objects(seen: Seen) -> list[dict[str, object]]:
    """The results of a request, each of which must be an object."""
    objects = [result for result in seen.results if isinstance(result, dict)]
    assert len(objects) == len(seen.results), seen.results
    return objects
