"""An agent that is never there: the tools work on its session, nothing is delivered."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from schedule_core import AgentBusy, FollowUp, ScheduleId


class AbsentAgent:
    """For programs that manage reminders without holding the conversation."""

    is_root = True
    is_live = True

    def has_admitted(self, schedule_id: ScheduleId) -> bool:  # noqa: ARG002 - the port's shape
        """It never delivers, so it never needs to know."""
        return False

    def followup(self, message: FollowUp) -> NoReturn:  # noqa: ARG002 - the port's shape
        """Never reached: the claim before it is refused."""
        raise AgentBusy

    def run_maintenance(self, task: Callable[[], Awaitable[None]]) -> NoReturn:  # noqa: ARG002
        """Refuse: whoever holds the conversation delivers, later."""
        raise AgentBusy

    async def when_idle(self) -> None:
        """Wait for ever; closing the schedule ends the wait."""
        await asyncio.get_running_loop().create_future()

    def on_idle(self, listener: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Never calls it."""
        return lambda: None

    def on_close(self, listener: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Never calls it."""
        return lambda: None
