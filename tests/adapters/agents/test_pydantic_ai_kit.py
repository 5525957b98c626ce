"""pydantic-ai keeps the contract of every agent framework's adapter."""

from pathlib import Path

from pydantic_ai import Agent

from schedule_adapters.agents.pydantic_ai import PydanticAITurns
from schedule_adapters.sessions import Session
from schedule_adapters.testing.agents import AgentContract, Script
from tests.adapters.agents.killed_turns import KilledTurns
from tests.adapters.agents.pydantic_ai_model import scripted_model


class TestPydanticAI(KilledTurns, AgentContract):
    def make_driver(self, session: Session, script: Script, folder: Path) -> PydanticAITurns:
        return PydanticAITurns(Agent(scripted_model(script)), session)

    def make_driver_with_sub_agent(
        self, session: Session, script: Script, folder: Path
    ) -> PydanticAITurns:
        root, helper = (Agent(scripted_model(script)) for _ in range(2))

        @root.tool_plain
        async def delegate(task: str) -> str:
            """Ask the other agent."""
            async with helper.run_stream(task) as run:
                return await run.get_output()

        return PydanticAITurns(root, session)
