"""A rule beyond the kit's, for adapters that keep the conversation in the session's log."""

import pytest

from schedule_adapters.testing.agents import CallTool, Gate, Say, Thinks
from schedule_adapters.testing.agents.world import HOLD, AgentWorld


class KilledTurns:
    """What a killed process was busy with is not repeated, and not forgotten either."""

    @pytest.mark.parametrize("steps", [0, 1])
    async def test_the_model_sees_the_message_of_a_turn_that_was_killed(
        self, world: AgentWorld, steps: int
    ) -> None:
        """Whether the turn had a finished step by then or none."""
        async with world.life() as life:
            await life.create("stretch")
            life.script.play(*[CallTool("schedule_list")] * steps, CallTool(HOLD))
            life.pass_time(60)
            await life.hold.reached.wait()
            await world.crash(life)
        for _ in range(2):
            async with world.life() as life:
                await life.say("what was that?")
            assert life.turns == ["what was that?"]
            reminders = [text for text in life.script.requests[-1].texts if "stretch" in text]
            assert len(reminders) == 2, "the message that set it, and the reminder itself"

    async def test_the_turns_after_a_kill_follow_the_one_that_was_killed(
        self, world: AgentWorld
    ) -> None:
        """In the order in which they were."""
        async with world.life() as life:
            await life.say("one")
            gate = Gate()
            life.prompt("two", Thinks(gate, Say("too late")))
            await gate.reached.wait()
            life.prompt("three")
            await world.crash(life)
        async with world.life() as life:
            await life.ended("three")
        assert life.script.requests[-1].texts == ("one", "two", "three")
