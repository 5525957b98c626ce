"""The rules of every agent framework's adapter, as tests that adapter authors subclass.

    class TestMyFramework(AgentContract):
        def make_driver(self, session: Session, script: Script, folder: Path) -> TurnDriver:
            return MyTurns(my_agent_over(fake_model(script)), session)

The fake model is the framework's own, and so is the run loop: nothing between the model and
the driver is replaced. See `docs/agents/kit.md`. Needs pytest with pytest-asyncio in its
auto mode.
"""

import pytest

# Before the import: a failed rule should show its values, as in the author's own tests.
pytest.register_assert_rewrite(f"{__name__}.contract")

from schedule_adapters.testing.agents.contract import AgentContract  # noqa: E402 - as above
from schedule_adapters.testing.agents.script import (  # noqa: E402 - as above
    ANYTHING,
    CallTool,
    CallTools,
    Gate,
    ModelFailed,
    Plan,
    Say,
    Script,
    Seen,
    SeenTool,
    Step,
    Thinks,
    new_call_id,
)

__all__ = [
    "ANYTHING",
    "AgentContract",
    "CallTool",
    "CallTools",
    "Gate",
    "ModelFailed",
    "Plan",
    "Say",
    "Script",
    "Seen",
    "SeenTool",
    "Step",
    "Thinks",
    "new_call_id",
]
