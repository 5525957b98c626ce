"""What an agent framework's adapter supplies: how to run one turn, and nothing else."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol

from attrs import frozen

from schedule_core.records import ScheduleId


@frozen
class TurnInput:
    """The one user-role message that a turn answers.

    Attributes:
        text: what the model gets, exactly.
        source: "user", or "reminder": then the text is framed, untrusted content, and
            `schedule_id` says which reminder; a host may lower the turn's rights.
        instructions: system-side guidance for this turn alone (the time context).
    """

    text: str
    source: Literal["user", "reminder"] = "user"
    schedule_id: ScheduleId | None = None
    instructions: str | None = None


@frozen
class SessionTool:
    """One tool, bound to one live session: it never takes a session id.

    Attributes:
        call: takes the model's argument object; gives the tool's JSON value. It never
            raises for a bad request: refusals are values. Any loop or thread may call it.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    call: Callable[[dict[str, Any]], Awaitable[object]]


@frozen
class TextDelta:
    """The next piece of the assistant's text."""

    text: str


@frozen
class ToolCalled:
    """The model called a tool."""

    name: str


TurnOutput = TextDelta | ToolCalled


class TurnDriver(Protocol):
    """One conversation of one agent framework."""

    async def run_turn(
        self,
        turn: TurnInput,
        tools: Sequence[SessionTool],
        emit: Callable[[TurnOutput], None],
    ) -> None:
        """Run one turn to its end, streaming what comes out of it.

        A cancelled or failed turn leaves the conversation usable for the next one.

        Raises:
            Exception: the turn failed; the session goes on.
            asyncio.CancelledError: the turn was cancelled.
        """
        ...

    async def close(self) -> None:
        """Give back what the driver holds; called once, after the last turn."""
        ...
