"""The one who sits before the machine: talks, calls, closes, travels, and is impatient."""
# ruff: noqa: PLR2004 - chances and durations are numbers, and each stands once

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from attrs import define, field

from schedule_adapters.conversation import Conversation
from schedule_adapters.sessions import StoreError
from schedule_adapters.testing.simulation.model import Caller
from schedule_adapters.testing.simulation.oracles import Oracle, require
from schedule_adapters.testing.simulation.witness import SEGMENT_S, SLACK_S
from schedule_core import AgentBusy, parse_instant
from schedule_core.instants import SECOND_MS

HOUR_MS: Final = 3_600_000
_PAUSES_S: Final = (0, 0, 0, 0.001, 0.01, 0.5, 1, 1, 5, 30, 70, 300, 2_000)
_LONG_PAUSE_S: Final = 9_000.0


@define
class User:
    """One user of one open conversation.

    Attributes:
        step_clock: the odds that the clock steps, or the machine sleeps, before a deed.
    """

    conversation: Conversation
    caller: Caller
    step_clock: float
    chance: random.Random
    longest_pause_s: float = _LONG_PAUSE_S
    background: list[asyncio.Future[Any]] = field(factory=list)  # a set has no order

    async def act(self) -> None:
        """Wait a while, and do one thing."""
        pause = _LONG_PAUSE_S if self.chance.random() < 0.02 else self.chance.choice(_PAUSES_S)
        await asyncio.sleep(min(pause, self.longest_pause_s))
        if self.chance.random() < self.step_clock:
            self._step_clock()
            await asyncio.sleep(self.chance.choice((0, 100, 300)))  # does it notice by itself?
        deeds: list[tuple[int, Callable[[], Awaitable[None] | None]]] = [
            (8, self._prompt),
            (8, lambda: self._behind(self.caller.call(self._tool))),
            (3, lambda: self.caller.call(self._tool)),
            (3, lambda: self._behind(self.caller.call_and_leave(self._tool))),
            (2, lambda: self._behind(self.caller.call_several(self._tool))),
            (2, self._cancel_turn),
            (4, lambda: self._behind(self._maintain())),
            (1, self.conversation.schedule.recompute),
            (2, self.conversation.schedule.reset),
            (1, self._look),
        ]
        weights = [weight for weight, _ in deeds]
        [(_, deed)] = self.chance.choices(deeds, weights)
        done = deed()
        if done is not None:
            await done
        self._look_behind()

    async def call(self, name: str, arguments: dict[str, Any]) -> None:
        """Make one tool call."""
        await self.caller.make(self._tool, name, arguments)

    async def finish(self) -> None:
        """Wait for what was begun in the background; each call gets an answer."""
        while self.background:
            await asyncio.wait(self.background)
            self._look_behind()

    async def settle(self) -> None:
        """Faults are over: bring on what is due, let time pass, and look what is left.

        Raises:
            Violation: something is due and was not delivered, or owed and was not done.
        """
        story, wall, schedule = self.caller.story, self.caller.wall, self.conversation.schedule
        runtime = self.conversation.runtime
        await self.finish()
        schedule.reset()
        story.disturb()
        story.waits = False
        self._prompt()
        await runtime.when_idle()  # turns from before may still make reminders
        targets = [parse_instant(at) for _, _, at in story.history.active.values()]
        last = max([wall.now(), *targets])
        await asyncio.sleep((last - wall.now()) / SECOND_MS + SEGMENT_S + SLACK_S)
        await runtime.when_idle()
        await asyncio.sleep(1)
        story.ended()
        listed = await schedule.call_tool("schedule_list", {})
        require(listed == [], Oracle.LIST_IS_FOLD, f"{story.name}: {listed}")

    def abandon(self) -> None:
        """The conversation is about to close: leave what was begun in the background."""
        self.caller.story.closing = True
        for task in self.background:
            task.cancel()

    async def _tool(self, name: str, arguments: dict[str, Any]) -> object:
        return await self.conversation.schedule.call_tool(name, arguments)

    def _prompt(self) -> None:
        with suppress(StoreError):
            text = f"{self.caller.story.name}#p{self.caller.numbers.next()}"
            self.conversation.runtime.prompt(text)

    def _cancel_turn(self) -> None:
        self.conversation.runtime.cancel_turn()

    def _look(self) -> None:
        with suppress(StoreError, OSError):  # neither log nor clock can always be read
            views = self.conversation.schedule.views()
            rows = tuple(self.caller.story.history.active)
            assert tuple(view.record.id for view in views) == rows, "views are the fold"

    async def _maintain(self) -> None:
        """Use the idle phase for something else, for a while."""

        async def task() -> None:
            await asyncio.sleep(self.chance.choice((0, 3, 100, 1_000)))

        with suppress(AgentBusy):
            running = self.conversation.runtime.run_maintenance(task)
            with self.caller.story.busy_for():
                await asyncio.wait([running])

    def _step_clock(self) -> None:
        wall = self.caller.wall
        if self.chance.random() < 1 / 3:
            wall.sleep(self.chance.choice((1_000, 90_000, HOUR_MS, 9 * HOUR_MS)))
        else:
            size = self.chance.choice((1, 900, 30_000, 120_000, HOUR_MS, 3 * HOUR_MS))
            wall.step(self.chance.choice((-1, 1)) * size)

    def _behind(self, work: Awaitable[None]) -> None:
        self.background.append(asyncio.ensure_future(work))

    def _look_behind(self) -> None:
        for task in [task for task in self.background if task.done()]:
            self.background.remove(task)
            if not task.cancelled():
                task.result()
