"""What tests of any framework's driver need: to run turns, to break them, and odd tools."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from pathlib import Path
from runpy import run_path
from typing import Any, Final

import pytest
from attrs import define, field

from schedule_adapters.testing.virtual_time import VirtualClock, run_virtual
from schedule_adapters.turn_driver import SessionTool, TurnDriver, TurnInput, TurnOutput

_ROOT: Final = Path(__file__).parents[3]


async def run(
    driver: TurnDriver, text: str, tools: Sequence[SessionTool] = (), **turn: Any
) -> list[TurnOutput]:
    """Run one turn to its end; gives what came out."""
    outputs: list[TurnOutput] = []
    await driver.run_turn(TurnInput(text, **turn), tuple(tools), outputs.append)
    return outputs


def on_virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run the test where time passes only when nothing else moves."""

    @wraps(test)
    def run_test(*arguments: Any, **named: Any) -> None:
        async def main(_: VirtualClock) -> None:
            await test(*arguments, **named)

        run_virtual(main)

    return run_test


async def cancelled(
    driver: TurnDriver, text: str, tools: Sequence[SessionTool], at: asyncio.Event
) -> None:
    """Begin a turn, and cancel it once `at` is set and nothing moves; on virtual time only."""
    turn = asyncio.create_task(run(driver, text, tools))
    await at.wait()
    await asyncio.sleep(1)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn


def tool(name: str, call: Callable[[dict[str, Any]], Any]) -> SessionTool:
    """A tool that takes anything."""
    return SessionTool(name, f"The {name}.", {"type": "object", "properties": {}}, call)


def answers(name: str, value: object) -> SessionTool:
    """A tool that answers with this value."""

    async def call(_: dict[str, Any]) -> object:
        return value

    return tool(name, call)


@define
class Endless:
    """A tool that never answers.

    Attributes:
        entered: set once it is called.
    """

    entered: asyncio.Event = field(factory=asyncio.Event)

    @property
    def tool(self) -> SessionTool:
        async def call(_: dict[str, Any]) -> object:
            self.entered.set()
            return await asyncio.Event().wait()

        return tool("endless", call)


def quickstart_output(name: str, root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `examples/{name}_quickstart.py` prints; its page has to show the whole of it."""
    example = _ROOT / "examples" / f"{name}_quickstart.py"
    page = _ROOT / "docs/agents" / f"{name.replace('_', '-')}.md"
    assert example.read_text("utf-8") in page.read_text("utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(_ROOT)  # as `python -m` from there
        patch.chdir(root)  # it keeps its sessions where it is started
        run_path(str(example))
    return capsys.readouterr().out
