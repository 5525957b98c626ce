"""The two who talk: a model that calls tools as its seed says, and what both may call."""
# ruff: noqa: PLR2004 - chances and durations are numbers, and each stands once

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from attrs import define, field

from schedule_adapters.testing.simulation.timeline import WallClock
from schedule_adapters.testing.simulation.witness import Story
from schedule_adapters.turn_driver import SessionTool, TextDelta, TurnInput, TurnOutput
from schedule_core import Instant, format_instant

CallTool = Callable[[str, dict[str, Any]], Awaitable[object]]
MOST_ACTIVE: Final = 12
"""Further creates become deletes: a run is to end."""
_DELAYS_S: Final = ((1, 1), (1, 5), (1, 5), (5, 90), (60, 600), (1_800, 7_200))
_TURNS_S: Final = (0, 0, 0, 0.01, 1, 1, 20, 150)


class TurnFailed(Exception):  # noqa: N818 - what happened
    """A turn of the simulated model failed, as planned."""


@define
class Numbers:
    """Numbers that are given once, so that every text of a run is unique."""

    last: int = 0

    def next(self) -> int:
        """The next one."""
        self.last += 1
        return self.last


@define
class Caller:
    """Makes tool calls, and lets the story of the session judge the answers."""

    story: Story
    wall: WallClock
    chance: random.Random
    numbers: Numbers

    async def call(self, tool: CallTool) -> None:
        """Make one call of a kind that chance picks."""
        await self.make(tool, *self._draw())

    async def make(self, tool: CallTool, name: str, arguments: dict[str, Any]) -> None:
        """Make one call, and let its answer be judged."""
        call = self.story.calls(name, arguments)
        self.story.answered(call, await tool(name, arguments))

    async def call_and_leave(self, tool: CallTool) -> None:
        """Make one call, and cancel it midway."""
        task = asyncio.ensure_future(self.call(tool))
        await self._midway()
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    async def call_several(self, tool: CallTool) -> None:
        """Make some calls at once."""
        # Not a task group: what it cancels, it cancels in the order of a set.
        await asyncio.gather(*(self.call(tool) for _ in range(self.chance.randint(2, 4))))

    async def _midway(self) -> None:
        if self.chance.random() < 1 / 2:
            for _ in range(self.chance.randint(0, 6)):
                await asyncio.sleep(0)
        else:
            await asyncio.sleep(self.chance.random() * 0.01)

    def _draw(self) -> tuple[str, dict[str, Any]]:
        roll = self.chance.random()
        active = list(self.story.history.active)
        if roll < 0.5 and len(active) < MOST_ACTIVE:
            return "schedule_create", {"prompt": self._text(), **self._selector()}
        if roll < 0.75 or len(active) >= MOST_ACTIVE:
            known = active or sorted(self.story.history.seen) or ["schedule-1"]
            name = self.chance.choice(known) if self.chance.random() < 0.8 else "schedule-77"
            return "schedule_delete", {"id": name}
        if roll < 0.95:
            return "schedule_list", {}
        return self.chance.choice(
            (
                ("schedule_create", {"prompt": self._text(), "after_seconds": 0, "bad": 1}),
                ("schedule_create", {"prompt": self._text(), "bad": 1}),
                ("schedule_delete", {"id": ""}),
            )
        )

    def _selector(self) -> dict[str, Any]:
        seconds = self.chance.randint(*self.chance.choice(_DELAYS_S))
        if self.chance.random() < 0.7:
            return {"after_seconds": seconds}
        target = self.wall.now() + seconds * 1_000 + self.chance.randint(-2_000, 999)
        return {"at": format_instant(Instant(target))}

    def _text(self) -> str:
        padding = "x" * self.chance.choice((0, 0, 0, 40, 3_000))
        return f"{self.story.name}#{self.numbers.next()}{padding}"


@define
class SimulatedModel:
    """A turn driver whose turns last, call tools and fail as their seed says.

    Attributes:
        calm: turns are short, do nothing and end well.
    """

    caller: Caller
    calm: Callable[[], bool]
    turns: int = 0
    _closed: bool = field(default=False, init=False)

    async def run_turn(
        self,
        turn: TurnInput,
        tools: Sequence[SessionTool],
        emit: Callable[[TurnOutput], None],
    ) -> None:
        """Run one turn."""
        story, chance = self.caller.story, self.caller.chance
        assert not self._closed, "a closed driver gets no turn"
        story.hears(turn.schedule_id or turn.text, turn.text)
        self.turns += 1
        by_name = {tool.name: tool for tool in tools}

        async def tool(name: str, arguments: dict[str, Any]) -> object:
            return await by_name[name].call(arguments)

        try:
            if self.calm():
                await asyncio.sleep(0.5)
                return
            for _ in range(chance.choice((0, 1, 1, 2, 3) if turn.source == "user" else (0, 0, 1))):
                await asyncio.sleep(chance.choice(_TURNS_S))
                emit(TextDelta("words"))
                await self._act(tool)
            if chance.random() < 0.05:
                raise TurnFailed
        finally:
            story.turn_over()

    async def close(self) -> None:
        """No turn comes after this."""
        self._closed = True

    async def _act(self, tool: CallTool) -> None:
        roll = self.caller.chance.random()
        if roll < 0.7:
            await self.caller.call(tool)
        elif roll < 0.85:
            await self.caller.call_and_leave(tool)
        else:
            await self.caller.call_several(tool)
