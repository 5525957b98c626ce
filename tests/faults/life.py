"""One life: a real process with the real conversation on a real store, and its diary.

It makes reminders, near and far, deletes some, lists them, talks, and lets the near ones
come due. What it does follows from its seed; when it does it is up to the machine. It takes
every refusal as an answer and goes on.
"""

import asyncio
import logging
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from attrs import define, field, frozen

from schedule_adapters.conversation import Conversation, open_conversation
from schedule_adapters.live import LiveOptions, SystemClock
from schedule_adapters.sessions import Session, SessionStore, StoreError
from schedule_adapters.stores.live_log import LiveLog
from schedule_adapters.turn_driver import SessionTool, TurnInput, TurnOutput
from schedule_adapters.turns import SessionOutput, TurnEnded
from schedule_core import ScheduleView, SessionEvent
from schedule_core.instants import Instant, format_instant
from tests.faults.diary import Pen
from tests.faults.places import digest, opened

FAR_S: Final = 86_400
_HORIZON_MS: Final = FAR_S * 500
"""Half way to the far ones: what is due before it is near."""
_NEAR_MS: Final = (15, 40)
_DO: Final = ("far", "far", "near", "near", "delete", "list", "say", "say")
_ATTEMPTS: Final = 3
_PATIENCE_S: Final = 20.0
_LOOK_S: Final = 0.004


@frozen
class Plan:
    """What one life is to do.

    Attributes:
        url: of the store.
        session: the id of the session.
        name: of this life; stands in every text it makes, so that no two are alike.
        seed: decides what it does.
        steps: how many things it does.
        insist: then make one more reminder, which has to be acknowledged in a few attempts.
        settle: then wait until nothing is due any more.
        openings: how often it tries to open the session.
        hold: wait for a sign before doing anything at all.
        file_limit: no file may grow beyond that many bytes, until there is room again.
        filler: a file that fills the disk, until there is room again. Room is made after
            some refusals.
        stop_at: pause the whole process (SIGSTOP) before that append takes effect, counted
            from 1.
    """

    url: str
    session: str
    name: str
    seed: int = 0
    steps: int = 8
    insist: bool = False
    settle: bool = False
    openings: int = 1
    hold: bool = False
    file_limit: int | None = None
    filler: str | None = None
    stop_at: int | None = None


def run(plan: Plan, pen: Pen) -> None:
    """Live that life to its end, orderly or not; the diary says which."""
    _keep_quiet()
    try:
        asyncio.run(_main(plan, pen))
    except BaseException as error:  # noqa: BLE001 - its last words; the parent judges them
        pen.write("crashed", what=repr(error), where=_last_line(error))
    else:
        pen.write("over")


async def _main(plan: Plan, pen: Pen) -> None:
    # One thread for all blocking work, so that "the n-th call" means the same in each run.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    room = _Room(plan, pen)
    room.take_away()
    for opening in range(plan.openings):
        try:
            async with opened(plan.url, SystemClock()) as store:
                await _converse(plan, pen, store, room)
        except StoreError as error:
            pen.write("refused", code=error.code.value, why=error.message)
            room.refused()
            await asyncio.sleep(_LOOK_S if opening < plan.openings - 1 else 0)
        else:
            return


async def _converse(plan: Plan, pen: Pen, store: SessionStore, room: "_Room") -> None:
    driver = _Model(pen)

    def make_driver(session: Session) -> _Model:
        assert isinstance(session, LiveLog)
        pen.write("opened", length=session.length, digest=digest(session.events_from(0)))
        session.checks.append(_Witness(pen, plan.stop_at))
        return driver

    async with open_conversation(
        store,
        plan.session,
        make_driver,
        options=LiveOptions(retry_s=0.02),
        report=lambda _, __: None,
    ) as conversation:
        conversation.runtime.subscribe(lambda output: _note_unsaved(pen, output))
        conversation.runtime.start()
        person = _Person(plan, pen, conversation, room)
        for number in range(plan.steps):
            await person.act(number)
        if room.is_missing:
            room.make()
        if plan.insist:
            await person.insist()
        if plan.settle:
            await person.settle()


@define
class _Witness:
    """Writes down each event that is about to enter the live log."""

    pen: Pen
    stop_at: int | None
    count: int = 0

    def __call__(self, event: SessionEvent) -> None:
        self.count += 1
        self.pen.write("append", seq=event.seq, type=event.type, time=event.time, data=event.data)
        if self.count == self.stop_at:
            os.kill(os.getpid(), signal.SIGSTOP)


@define
class _Model:
    """A model that does what the user's words say, and nothing when a reminder speaks."""

    pen: Pen

    async def run_turn(
        self, turn: TurnInput, tools: Sequence[SessionTool], emit: Callable[[TurnOutput], None]
    ) -> None:
        name = turn.schedule_id or turn.text
        self.pen.write("heard", name=name, time=SystemClock().now())
        if turn.schedule_id is None:
            [create] = [tool for tool in tools if tool.name == "schedule_create"]
            await _call(self.pen, create, {"prompt": f"{turn.text} far", "after_seconds": FAR_S})

    async def close(self) -> None:
        pass


@define
class _Person:
    """Uses one conversation; every call goes into the diary before and after it."""

    plan: Plan
    pen: Pen
    conversation: Conversation
    room: "_Room"
    dice: random.Random = field(init=False)
    tools: dict[str, SessionTool] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.dice = random.Random(f"{self.plan.seed} {self.plan.name}")  # noqa: S311 - no secret
        self.tools = {tool.name: tool for tool in self.conversation.schedule.tools()}

    async def act(self, number: int) -> None:
        """Do one thing."""
        text = f"{self.plan.name} {number}"
        match self.dice.choice(_DO):
            case "far":
                await self.call("schedule_create", prompt=text, after_seconds=FAR_S)
            case "near":
                at = SystemClock().now() + self.dice.randint(*_NEAR_MS)
                await self.call("schedule_create", prompt=text, at=format_instant(Instant(at)))
            case "delete":
                await self._delete()
            case "list":
                await self.call("schedule_list")
            case _:
                self.pen.write("say", text=text)
                self.conversation.runtime.prompt(text)
        await asyncio.sleep(self.dice.choice((0, 0, 0.002)))

    async def call(self, name: str, **arguments: object) -> bool:
        """Call one tool; tells whether its answer was certain."""
        answer = await _call(self.pen, self.tools[name], arguments)
        if isinstance(answer, dict) and answer.get("code") == "persistence_uncertain":
            self.room.refused()
            return False
        return True

    async def insist(self) -> None:
        """Make a reminder, whatever happened before."""
        for attempt in range(_ATTEMPTS):
            text = f"{self.plan.name} insists {attempt}"
            if await self.call("schedule_create", prompt=text, after_seconds=FAR_S):
                return
            await asyncio.sleep(_LOOK_S)
        raise AssertionError(f"nothing is certain any more: {self.conversation.schedule.state}")

    async def settle(self) -> None:
        """Wait until nothing is due and nothing is queued."""
        end = time.monotonic() + _PATIENCE_S
        while self._is_busy():
            assert time.monotonic() < end, f"not settled: {self.conversation.schedule.state}"
            await asyncio.sleep(_LOOK_S)

    async def _delete(self) -> None:
        far = [view.record.id for view in self.conversation.schedule.views() if not _is_near(view)]
        if far:
            await self.call("schedule_delete", id=self.dice.choice(far))

    def _is_busy(self) -> bool:
        runtime, schedule = self.conversation.runtime, self.conversation.schedule
        return (
            runtime.phase != "idle" or bool(runtime.queued) or any(map(_is_near, schedule.views()))
        )


@define
class _Room:
    """The room on the disk: too little at first, if the plan says so, and then enough."""

    plan: Plan
    pen: Pen
    is_missing: bool = False
    refusals: int = 0

    def take_away(self) -> None:
        """From here on there is too little."""
        self.is_missing = self.plan.file_limit is not None or self.plan.filler is not None
        if self.plan.file_limit is not None:
            _limit_files(self.plan.file_limit)

    def refused(self) -> None:
        """Take note that something could not be saved; somebody makes room after three."""
        self.refusals += 1
        if self.is_missing and self.refusals == 3:
            self.make()

    def make(self) -> None:
        """From here on there is enough."""
        self.is_missing = False
        if self.plan.file_limit is not None:
            _limit_files(resource.RLIM_INFINITY)
        if self.plan.filler is not None:
            Path(self.plan.filler).unlink()
        self.pen.write("room")


async def _call(pen: Pen, tool: SessionTool, arguments: dict[str, Any]) -> object:
    pen.write("try", tool=tool.name, arguments=arguments)
    answer = await tool.call(dict(arguments))
    pen.write("got", tool=tool.name, arguments=arguments, answer=answer)
    return answer


def _note_unsaved(pen: Pen, output: SessionOutput) -> None:
    if isinstance(output, TurnEnded) and isinstance(output.error, StoreError):
        name = output.input.schedule_id or output.input.text
        pen.write("unsaved", name=name, code=output.error.code.value)


def _is_near(view: ScheduleView) -> bool:
    return view.record.scheduled_at < SystemClock().now() + _HORIZON_MS


def _limit_files(size: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size if size >= 0 else hard, hard))


def _keep_quiet() -> None:
    """The warnings of a life that is being hurt are no news; the diary has what matters."""
    log = logging.getLogger("schedule_adapters")
    log.addHandler(logging.NullHandler())
    log.propagate = False
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)


def _last_line(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
