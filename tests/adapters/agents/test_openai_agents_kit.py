"""The OpenAI Agents SDK keeps the contract of every agent framework's adapter, on both stores."""

from pathlib import Path

from agents import Agent, RunConfig, SQLiteSession

from schedule_adapters.agents.openai_agents import OpenAIAgentsTurns
from schedule_adapters.sessions import Session
from schedule_adapters.testing.agents import AgentContract, CallTool, Script
from tests.adapters.agents.killed_turns import KilledTurns
from tests.adapters.agents.openai_agents_model import scripted_model

QUIET = RunConfig(tracing_disabled=True)


class TestOpenAIAgents(KilledTurns, AgentContract):
    """The conversation is in the session's log; the sub-agent is a tool of the root."""

    delegation = CallTool("delegate", {"input": "look it up"})

    def make_driver(self, session: Session, script: Script, folder: Path) -> OpenAIAgentsTurns:
        agent = Agent[None](name="root", model=scripted_model(script))
        return OpenAIAgentsTurns(agent, session, run_config=QUIET)

    def make_driver_with_sub_agent(
        self, session: Session, script: Script, folder: Path
    ) -> OpenAIAgentsTurns:
        model = scripted_model(script)
        helper = Agent[None](name="helper", model=model)
        delegate = helper.as_tool("delegate", "Ask the other agent.", run_config=QUIET)
        root = Agent[None](name="root", model=model, tools=[delegate])
        return OpenAIAgentsTurns(root, session, run_config=QUIET)


class TestHandOver(TestOpenAIAgents):
    """The root hands the turn over to the sub-agent."""

    delegation = CallTool("transfer_to_helper", {})

    def make_driver_with_sub_agent(
        self, session: Session, script: Script, folder: Path
    ) -> OpenAIAgentsTurns:
        model = scripted_model(script)
        helper = Agent[None](name="helper", model=model)
        root = Agent[None](name="root", model=model, handoffs=[helper])
        return OpenAIAgentsTurns(root, session, run_config=QUIET)


class SQLiteTurns(OpenAIAgentsTurns):
    """A driver that closes the history which was opened for it."""

    def __init__(self, agent: Agent[None], session: Session, folder: Path) -> None:
        self._opened = SQLiteSession(session.header.id, folder / "history.db")
        super().__init__(agent, session, history=self._opened, run_config=QUIET)

    async def close(self) -> None:
        await super().close()
        self._opened.close()


class TestItsOwnStore(TestOpenAIAgents):
    """The conversation is in the SDK's own SQLite file, beside the session's log."""

    def make_driver(self, session: Session, script: Script, folder: Path) -> OpenAIAgentsTurns:
        return SQLiteTurns(Agent[None](name="root", model=scripted_model(script)), session, folder)
