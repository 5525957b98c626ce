"""The scripted model: what it answers, and what each request to it held.

The framework's own fake model turns one request into a `Seen`, awaits `Script.next`, and
turns the `Step` that comes back into the framework's own kind of answer.
"""

import asyncio
from collections import deque
from typing import Any, Final
from uuid import uuid4

from attrs import field, frozen


@frozen
class Say:
    """The model answers with this text, and the turn ends."""

    text: str

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text word by word, as the fake model streams it; joined they are the text."""
        words = self.text.split(" ")
        return (*(f"{word} " for word in words[:-1]), words[-1])


@frozen
class CallTool:
    """The model calls one tool; the fake model gives the call its id (`new_call_id`)."""

    name: str
    arguments: dict[str, Any] = field(factory=dict)


@frozen
class CallTools:
    """The model calls several tools in one answer."""

    calls: tuple[CallTool, ...]


Step = Say | CallTool | CallTools
"""One answer of the model."""


@frozen
class SeenTool:
    """One tool as the framework sends it to the model."""

    name: str
    description: str
    parameters: dict[str, Any]


@frozen
class Seen:
    """What one request to the model held.

    Attributes:
        texts: every user-role text, in order, each exactly as it was sent.
        tools: every tool on offer.
        results: the JSON value of every tool result, in order. One that is not JSON (an
            error text of the framework) is given as it is.
        instructions: all system-side text, joined.
        calls: the name of every tool call in the history, in order; the kit finds by it
            whether a call was left without a result.
    """

    texts: tuple[str, ...]
    tools: tuple[SeenTool, ...]
    results: tuple[object, ...]
    instructions: str
    calls: tuple[str, ...] = ()


class ModelFailed(Exception):  # noqa: N818 - what happened, as the test tells it
    """The model could not answer; the fake model lets it through, as a provider's error."""


class Gate:
    """A place where something waits until the test lets it go on.

    Attributes:
        reached: set when somebody waits, or has waited, at it.
    """

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._open = asyncio.Event()

    def open(self) -> None:
        """Let through whoever waits and whoever comes."""
        self._open.set()

    async def wait(self) -> None:
        """Stand at the gate until it opens."""
        self.reached.set()
        await self._open.wait()


@frozen
class Thinks:
    """The model takes its time: it answers once the gate is open."""

    gate: Gate
    then: Step


Plan = Step | Thinks | ModelFailed
"""What a test has the model do with one request."""

ANYTHING: Final = Say("very well then")
"""What the model says when it has no plan."""


class Script:
    """The scripted model of one process; the framework's fake model asks it what to answer.

    `next` is called on the loop of the test.

    Attributes:
        requests: every request so far, in order.
        most_at_once: how many requests were open at the same time, at the most.
    """

    def __init__(self, *plans: Plan) -> None:
        self.requests: list[Seen] = []
        self.most_at_once = 0
        self._open = 0
        self._plans = deque(plans)

    def play(self, *plans: Plan) -> None:
        """Have the model do this with the next requests, one plan each."""
        self._plans.extend(plans)

    async def next(self, seen: Seen) -> Step:
        """Record one request, and give the model's answer to it.

        Raises:
            ModelFailed: this request has no answer.
        """
        self.requests.append(seen)
        plan = self._plans.popleft() if self._plans else ANYTHING
        self._open += 1
        self.most_at_once = max(self.most_at_once, self._open)
        try:
            match plan:
                case ModelFailed():
                    raise plan
                case Thinks(gate, then):
                    await gate.wait()
                    return then
                case _:
                    return plan
        finally:
            self._open -= 1


def new_call_id() -> str:
    """An id for a tool call that no other call has, in this process or an earlier one."""
    return f"call_{uuid4().hex[:16]}"
