"""One session that is open in this process, and the pages that look at it.

Nothing is sent to a page by pushing: a page is told that something changed, and then asks
for what it does not have yet (`stream`). A slow page costs no memory and loses nothing.
"""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from itertools import islice
from typing import Final

from attrs import define, field

from schedule_adapters.conversation import Conversation, open_conversation
from schedule_adapters.facts import LiveFact, log_fact
from schedule_adapters.inbox import QueuedInput
from schedule_adapters.live import LiveOptions
from schedule_adapters.sessions import Session, SessionOpener, StoreError
from schedule_adapters.timers import WallTimers
from schedule_adapters.turn_driver import TextDelta, ToolCalled, TurnDriver
from schedule_adapters.turns import Outcome, SessionOutput, TurnEnded, TurnStarted
from schedule_adapters.web.transcript import Transcript
from schedule_adapters.web.watched import WatchedSession, WatchedStore
from schedule_adapters.wording import one_line, state_line
from schedule_core.signals import Fact

_OPTIONS: Final = LiveOptions(retry_s=30.0)
"""A person waits here: a reminder that a failing disk held back is tried again by itself."""
_KEYS_KEPT: Final = 256
"""How many prompts can be recognized when a page sends one again after a lost answer."""


@define
class LiveTurn:
    """The open turn, as far as it has come.

    Attributes:
        input: what it answers.
        pieces: the assistant's text so far.
        tool: the tool that it used last, while nothing was said since.
    """

    input: QueuedInput
    pieces: list[str] = field(factory=list)
    tool: str | None = None


@define
class Failure:
    """Why a turn failed or may not be saved; kept until the next turn starts."""

    input_seq: int
    words: str


class Room:
    """A conversation with everything a page can see of it; made by `Room.open`."""

    def __init__(
        self, session: WatchedSession, conversation: Conversation, closing: AsyncExitStack
    ) -> None:
        self.session = session
        self.transcript = Transcript(session.seed_length)
        self.live: LiveTurn | None = None
        self.failure: Failure | None = None
        self._conversation = conversation
        self._closing = closing
        self._read = 0  # how many events the transcript has taken
        self._listeners: set[Callable[[], None]] = set()
        self._keys: OrderedDict[str, QueuedInput] = OrderedDict()

    @classmethod
    async def open(
        cls,
        store: SessionOpener,
        session_id: str,
        make_driver: Callable[[Session], TurnDriver],
        *,
        timers: WallTimers,
    ) -> "Room":
        """Open the session and let its turns and reminders begin.

        Raises:
            StoreError: the session cannot be opened.
        """
        made: list[Room] = []

        def changed() -> None:
            for room in made:
                room._changed()  # noqa: SLF001 - one of its own

        def report(name: str, fact: LiveFact) -> None:
            log_fact(name, fact)
            if isinstance(fact, Fact):  # the others change nothing that a page shows
                changed()

        async with AsyncExitStack() as opening:
            opened = open_conversation(
                WatchedStore(store, changed),
                session_id,
                make_driver,
                timers=timers,
                options=_OPTIONS,
                report=report,
            )
            conversation = await opening.enter_async_context(opened)
            assert isinstance(conversation.session, WatchedSession)
            room = cls(conversation.session, conversation, opening.pop_all())
        made.append(room)
        conversation.runtime.subscribe(room._hear)
        room._changed()
        conversation.runtime.start()
        with suppress(StoreError):  # shown as not saved
            await room.session.barrier()
        return room

    # What a page sees.

    @property
    def log_name(self) -> int:
        """What tells this log from another one under the same name: when it was made."""
        return self.session.header.created_at

    def state(self) -> dict[str, object]:
        """What goes on right now; nothing of it is in the log."""
        owner = self._conversation.schedule.state
        return {
            "turn": None if self.live is None else self.live.input.seq,
            "tool": None if self.live is None else self.live.tool,
            "waiting": [queued.seq for queued in self._conversation.runtime.queued],
            "trouble": state_line(owner) if owner.activity == "faulted" else None,
            "saved": self.session.saved,
            "failure": None
            if self.failure is None
            else {"input": self.failure.input_seq, "words": self.failure.words},
        }

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever there may be news; gives the function that ends that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    @property
    def is_idle(self) -> bool:
        """Whether nobody looks, nothing runs, and nothing is to come."""
        runtime = self._conversation.runtime
        busy = runtime.phase != "idle" or runtime.queued or self._listeners
        return not busy and self.transcript.pending() == 0 and self.session.saved

    # What a page can do.

    async def prompt(self, text: str, *, time_zone: str | None, key: str) -> tuple[int, bool]:
        """Queue what the user said; gives its seq, and whether it is durable.

        The same `key` again is the same prompt, whose answer was lost on the way.

        Raises:
            ValueError: that is no time zone; nothing was queued.
            AgentClosed: nothing was queued.
        """
        queued = self._keys.get(key)
        if queued is None:
            queued = self._conversation.runtime.prompt(text, time_zone=time_zone)
            self._keys[key] = queued
            if len(self._keys) > _KEYS_KEPT:
                self._keys.popitem(last=False)
            self._changed()
        try:
            await self.session.barrier()
        except StoreError:
            return queued.seq, False
        return queued.seq, True

    async def delete(self, schedule_id: str) -> object:
        """Delete one reminder as the model would; the tool's answer."""
        return await self._conversation.schedule.call_tool("schedule_delete", {"id": schedule_id})

    def stop_turn(self) -> bool:
        """End the open turn early; False if there is none."""
        return self._conversation.runtime.cancel_turn()

    def waiting(self) -> int:
        """How many messages wait for their turn."""
        return len(self._conversation.runtime.queued)

    async def close(self) -> None:
        """Close the session; its reminders stay in the log."""
        await self._closing.aclose()

    # What happens.

    def _hear(self, output: SessionOutput) -> None:
        match output:
            case TurnStarted(queued):
                self.live, self.failure = LiveTurn(queued), None
            case TextDelta(text) if self.live is not None:
                self.live.pieces.append(text)
                self.live.tool = None
            case ToolCalled(name) if self.live is not None:
                self.live.tool = name
            case TurnEnded(queued, outcome, error):
                self.live = None
                if error is not None:
                    self.failure = Failure(queued.seq, _failure_words(outcome, error))
            case _:
                pass
        self._changed()

    def _changed(self) -> None:
        new = self.session.durable - self._read
        if new > 0:
            self.transcript.take(islice(self.session.events_from(self._read), new))
            self._read = self.session.durable
            if self.live is not None and self.live.input.seq == self.transcript.last_ended:
                self.live = None  # its text is an item now
        for listener in list(self._listeners):
            listener()


def _failure_words(outcome: Outcome, error: Exception) -> str:
    why = one_line(f"{type(error).__name__}: {error}", 300)
    return f"This turn failed: {why}" if outcome == "failed" else f"This may not be saved: {why}"
