"""What the pages of the kit, of pydantic-ai and of the OpenAI Agents SDK show is what runs."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from schedule_adapters.agents.pydantic_ai import PydanticAITurns
from schedule_adapters.testing.agents import AgentContract
from schedule_adapters.testing.agents.world import AgentWorld
from tests.adapters.agents.agent_world import MemorySession
from tests.adapters.agents.driver_world import quickstart_output, run

PAGES = Path(__file__).parents[3] / "docs/agents"
PYTHON_BLOCK = re.compile("```python\n(.*?)```", re.DOTALL)


def block(page: str, number: int) -> dict[str, Any]:
    """The names that one Python block of a page defines."""
    code = PYTHON_BLOCK.findall((PAGES / page).read_text("utf-8"))[number]
    names: dict[str, Any] = {"__name__": page}
    exec(compile(code, page, "exec"), names)  # noqa: S102 - our own page
    return names


@pytest.mark.parametrize("name", ["openai_agents", "pydantic_ai"])
def test_the_quickstart_brings_its_reminder_back(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = quickstart_output(name, tmp_path, capsys)
    assert "source='reminder'" in shown
    assert "outcome='completed'" in shown.splitlines()[-1]
    assert "stretch" in shown.splitlines()[-2] or "UTC)" in shown.splitlines()[-2]


async def test_the_adapter_test_of_the_kits_page_works(tmp_path: Path) -> None:
    adapter: AgentContract = block("kit.md", 0)["TestMyAdapter"]()
    await adapter.test_reminders_are_created_listed_and_deleted_by_tool_call(
        AgentWorld(tmp_path / "first", adapter.make_driver)
    )


def test_the_kits_page_names_every_reason_that_an_adapter_can_write() -> None:
    text = (PAGES / "kit.md").read_text("utf-8")
    reasons = [name for name, value in vars(AgentContract).items() if value is None]
    assert [name for name in reasons if f"`{name}`" not in text] == []


async def test_the_last_exchange_is_taken_back_as_the_page_shows() -> None:
    session = MemorySession()
    agent = Agent(TestModel(call_tools=[], custom_output_text="hello"))
    driver = PydanticAITurns(agent, session)
    await run(driver, "one")
    first = driver.history
    await run(driver, "two")
    await block("pydantic-ai.md", 1)["take_back_the_last_exchange"](session)
    assert driver.history == first
