"""The kit of the agent frameworks passes a plain driver, and finds what it is there to find."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from schedule_adapters.sessions import Session
from schedule_adapters.testing.agents import AgentContract, ModelFailed, Script, Seen
from schedule_adapters.testing.agents.contract import EVERY_ENDING
from schedule_adapters.testing.agents.world import AgentWorld
from schedule_adapters.turn_driver import SessionTool, TextDelta, TurnInput, TurnOutput
from schedule_core.records import ScheduleId
from tests.adapters.agents.plain_turns import Emit, Message, PlainTurns


class TestPlainTurns(AgentContract):
    no_sub_agents = "there is one agent, and no framework"

    def make_driver(self, session: Session, script: Script, folder: Path) -> PlainTurns:
        return PlainTurns(session, script)


class LeavesCallsOpen(PlainTurns):
    def mended(self, added: list[Message]) -> list[Message]:
        return added


class ForgetsFailedTurns(PlainTurns):
    async def run_turn(self, turn: TurnInput, tools: Sequence[SessionTool], emit: Emit) -> None:
        added: list[Message] = [{"text": turn.text}]
        while await self.step(added, turn, tools, emit):
            pass
        self.said += self.log.add(added)


class ForgetsOnRestart(PlainTurns):
    def __init__(self, session: Session, script: Script) -> None:
        super().__init__(session, script)
        self.said = []


class ClosesTooSoon(PlainTurns):
    """What it began goes on after it was closed."""

    async def close(self) -> None:
        self.left = asyncio.create_task(asyncio.sleep(3_600))


class FailsUnheard(PlainTurns):
    async def close(self) -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)


class FailsInTheBackground(PlainTurns):
    async def close(self) -> None:
        async def fail() -> None:
            raise OSError

        failing = asyncio.create_task(fail())
        await asyncio.wait([failing])


class SwallowsCancellation(PlainTurns):
    async def run_turn(self, turn: TurnInput, tools: Sequence[SessionTool], emit: Emit) -> None:
        try:
            await super().run_turn(turn, tools, emit)
        except asyncio.CancelledError:
            emit(TextDelta("never mind"))


class SwallowsFailures(PlainTurns):
    async def run_turn(self, turn: TurnInput, tools: Sequence[SessionTool], emit: Emit) -> None:
        try:
            await super().run_turn(turn, tools, emit)
        except ModelFailed:
            emit(TextDelta("something went wrong"))


class SpeaksAtOnce(PlainTurns):
    async def run_turn(self, turn: TurnInput, tools: Sequence[SessionTool], emit: Emit) -> None:
        said: list[str] = []

        def keep(output: TurnOutput) -> None:
            match output:
                case TextDelta(text):
                    said.append(text)
                case _:
                    emit(output)

        await super().run_turn(turn, tools, keep)
        emit(TextDelta("".join(said)))


class ChangesSchemas(PlainTurns):
    def seen(self, messages: Sequence[Message], turn: TurnInput, tools: Sequence[Any]) -> Seen:
        strict = [evolve(t, parameters={**t.parameters, "strict": True}) for t in tools]
        return super().seen(messages, turn, strict)


class ShowsNoResults(PlainTurns):
    def seen(self, messages: Sequence[Message], turn: TurnInput, tools: Sequence[Any]) -> Seen:
        return evolve(super().seen(messages, turn, tools), results=(), calls=())


class MixesInstructionsIn(PlainTurns):
    async def run_turn(self, turn: TurnInput, tools: Sequence[SessionTool], emit: Emit) -> None:
        text = f"{turn.instructions}\n{turn.text}"
        await super().run_turn(evolve(turn, text=text), tools, emit)


class RepeatsReminders(PlainTurns):
    """Queues each reminder once more, as a framework with an inbox of its own might."""

    def __init__(self, session: Session, script: Script) -> None:
        super().__init__(session, script)
        self.session = session

    async def run_turn(self, turn: TurnInput, tools: Sequence[SessionTool], emit: Emit) -> None:
        await super().run_turn(turn, tools, emit)
        if turn.schedule_id == ScheduleId("schedule-1"):
            data = {"source": "reminder", "text": "again", "scheduleId": turn.schedule_id}
            self.session.append("input/queued", data)


@pytest.mark.parametrize(
    ("driver", "rule", "given"),
    [
        (
            LeavesCallsOpen,
            "test_a_turn_cancelled_inside_a_tool_leaves_the_conversation_usable",
            {},
        ),
        (ForgetsFailedTurns, "test_a_failed_turn_keeps_its_message_and_the_conversation", {}),
        (
            ForgetsFailedTurns,
            "test_a_reminder_whose_turn_fails_is_not_repeated_and_not_forgotten",
            {},
        ),
        *(
            (
                ForgetsOnRestart,
                "test_the_conversation_and_its_reminders_survive_a_restart",
                {"ending": ending},
            )
            for ending in EVERY_ENDING
        ),
        (ClosesTooSoon, "test_a_conversation_is_opened_and_closed_without_a_turn", {}),
        (FailsUnheard, "test_a_conversation_is_opened_and_closed_without_a_turn", {}),
        (FailsInTheBackground, "test_a_conversation_is_opened_and_closed_without_a_turn", {}),
        (
            SwallowsCancellation,
            "test_a_turn_cancelled_while_the_model_thinks_leaves_the_conversation_usable",
            {},
        ),
        (SwallowsFailures, "test_a_failed_turn_keeps_its_message_and_the_conversation", {}),
        (SpeaksAtOnce, "test_a_turn_is_streamed", {}),
        (ChangesSchemas, "test_the_three_tools_reach_the_model_unchanged", {}),
        (ShowsNoResults, "test_several_calls_in_one_answer_are_all_answered", {}),
        (
            MixesInstructionsIn,
            "test_instructions_are_for_one_turn_and_no_part_of_what_was_said",
            {},
        ),
        (
            RepeatsReminders,
            "test_a_delivered_reminder_does_not_come_again_after_a_restart",
            {"ending": "closed"},
        ),
    ],
)
async def test_the_kit_finds_a_driver_that_breaks_a_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: Any, rule: str, given: dict[str, Any]
) -> None:
    monkeypatch.setattr("schedule_adapters.testing.agents.world.LEAVE_S", 0.01)
    world = AgentWorld(tmp_path / "first", lambda session, script, _: driver(session, script))
    before = asyncio.all_tasks()
    with pytest.raises(AssertionError):
        await getattr(TestPlainTurns(), rule)(world, **given)
    for task in asyncio.all_tasks() - before:
        task.cancel()


def test_an_adapter_without_sub_agents_says_why(tmp_path: Path) -> None:
    kit = TestPlainTurns()
    assert kit._world_with_sub_agent(tmp_path) is None
    kit.__class__ = type("Silent", (TestPlainTurns,), {"no_sub_agents": " "})
    with pytest.raises(AssertionError, match="the reason must be written"):
        kit._world_with_sub_agent(tmp_path)
