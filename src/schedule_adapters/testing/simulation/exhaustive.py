"""Every small script, every point at which its process can die, every byte of the write there.

A script is up to four operations. It is run once to see at how many places the process could
die in the disk; then once for each of these places. Where that place is inside a write, each
fate of that write is tried, cut at each of its bytes: what the store then reads must be what
it confirmed, and at most what was pending, whole events from the front. Each different log
that comes of it is opened again as a conversation, left alone until nothing is left to do,
and judged by the same witness as every other run.
"""

import asyncio
import random
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, get_args

from attrs import define

from schedule_adapters.conversation import open_conversation
from schedule_adapters.sessions import StoreError
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.stores.log_image import read_log
from schedule_adapters.testing.simulation.crash_disk import CrashDisk
from schedule_adapters.testing.simulation.fates import (
    Cut,
    Fate,
    Pending,
    Write,
    after_all,
    fall,
    written,
)
from schedule_adapters.testing.simulation.ledger import Ledger
from schedule_adapters.testing.simulation.luck import Crash
from schedule_adapters.testing.simulation.model import Caller, Numbers, SimulatedModel
from schedule_adapters.testing.simulation.oracles import BROKEN, Oracle, require
from schedule_adapters.testing.simulation.process import Process
from schedule_adapters.testing.simulation.timeline import Timeline, WallClock
from schedule_adapters.testing.simulation.user import User
from schedule_adapters.testing.simulation.watched import WatchedStore
from schedule_adapters.testing.simulation.witness import Story
from schedule_core import SessionEvent

Operation = Literal["create", "delete", "prompt", "wait", "reopen"]
OPERATIONS: Final[tuple[Operation, ...]] = get_args(Operation)
Script = tuple[Operation, ...]
_SESSION: Final = "main"
_LOG: Final = "the log"
_DELAY_S: Final = 20


def scripts(longest: int) -> Iterator[Script]:
    """Every script of one to so many operations."""
    for length in range(1, longest + 1):
        yield from product(OPERATIONS, repeat=length)


@define
class _Plan:
    """One crash, planned: where the process dies, and what is left.

    Attributes:
        point: the place in the disk where it dies.
        kind: whether the system lives on.
        keeps_names: whether names that no sync confirmed are on the disk.
        fate: what becomes of the last unsynced write; those before it are whole.
        byte: where that write is cut.
        seen: the last unsynced write of the log, and what was durable before it.
    """

    point: int
    kind: Crash = "killed"
    keeps_names: bool = True
    fate: Fate = Fate.WHOLE
    byte: int = 0
    seen: tuple[bytes, Write] | None = None

    def crash(self) -> Crash:
        return self.kind

    def written(self, size: int) -> int:
        return min(size, self.byte) if self.kind == "killed" and self.fate is Fate.TORN else size

    def keeps(self) -> bool:
        return self.keeps_names

    def content(self, durable: bytes, pending: list[Pending]) -> bytes:
        if not pending:
            return durable
        content, last = after_all(durable, pending[:-1]), pending[-1]
        if isinstance(last, Cut):
            return content[: last.size] if self.fate is Fate.WHOLE else content
        self.seen = content, last
        part = fall(last, self.fate, min(self.byte, len(last.data)))
        return written(content, Write(last.offset, part)) if part else content


class _Life:
    """One run of a script: up to its end, or to a crash and the recovery from it."""

    def __init__(self, root: Path, script: Script, plan: _Plan | None) -> None:
        self.ends: list[int] = []  # how many points there were at the end of each operation
        self._script = script
        self._timeline = Timeline()
        self._wall = WallClock(self._timeline)
        self._disk = CrashDisk(root, random.Random(0))  # noqa: S311 - nothing is left to it
        self._disk.dies_at = lambda point: plan is not None and point == plan.point
        if plan is not None:
            self._disk.luck = plan
        self._numbers = Numbers()
        self._story = Story(_SESSION, self._wall, self._timeline)
        self._store: WatchedStore

    def run(self) -> bool:
        """Run the script; tells whether the process died."""
        died = self._run(self._act)
        self.ends.append(self._disk.points)
        return died

    def recover(self) -> None:
        """Open what is left, let time pass, and judge it."""
        self._disk.dies_at = lambda _: False
        self._run(self._rest)

    def _run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        process = Process(self._timeline, main, at_step=lambda: False, work_takes_s=lambda: 0.001)
        try:
            while not process.is_over:
                self._timeline.advance(process.loop.wakes_at_s)
                process.run_until_waiting()
                require(not process.is_stuck, Oracle.LIVENESS, "everything waits for nothing")
        finally:
            if not process.loop.is_closed():
                self._disk.note_death()
                self._store.died()
                process.bury()
                self._disk.crash()
        return process.died

    async def _act(self) -> None:
        todo = list(self._script)
        async with AsyncExitStack() as conversation:
            user = await conversation.enter_async_context(self._open())
            while todo:
                operation = todo.pop(0)
                if operation == "reopen":
                    await conversation.aclose()
                    user = await conversation.enter_async_context(self._open())
                else:
                    await self._do(operation, user)
                self.ends.append(self._disk.points)

    async def _rest(self) -> None:
        async with self._open() as user:
            await user.settle()

    async def _do(self, operation: Operation, user: User) -> None:
        match operation:
            case "create":
                await user.call(
                    "schedule_create",
                    {
                        "prompt": f"{_SESSION}#{self._numbers.next()}",
                        "after_seconds": _DELAY_S,
                    },
                )
            case "delete":
                active = list(self._story.history.active) or ["schedule-1"]
                await user.call("schedule_delete", {"id": active[0]})
            case "prompt":
                user.conversation.runtime.prompt(f"{_SESSION}#p{self._numbers.next()}")
                await user.conversation.runtime.when_idle()
            case "wait":
                await asyncio.sleep(_DELAY_S + 2)
            case "reopen":
                raise AssertionError("that is not done inside a conversation")

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[User]:
        chance = random.Random(0)  # noqa: S311 - nothing is left to it
        store = JsonlStore(self._disk.root, clock=self._wall, disk=self._disk)
        self._store = WatchedStore(store, {_SESSION: self._story}, chance, Counter())
        caller = Caller(self._story, self._wall, chance, self._numbers)
        model = SimulatedModel(caller, lambda: True)
        async with open_conversation(
            self._store, _SESSION, lambda _: model, clock=self._wall, report=lambda *_: None
        ) as conversation:
            conversation.runtime.start()
            user = User(conversation, caller, 0, chance)
            yield user
            user.abandon()


class Exhaustion:
    """Tries everything for scripts of up to so many operations.

    Attributes:
        images: how many contents of a log were read.
        ledger: what the runs were through.
    """

    def __init__(self, folder: Path) -> None:
        self.images = 0
        self.ledger = Ledger()
        self._folder = folder
        self._read: set[tuple[bytes, Write]] = set()

    def try_script(self, script: Script) -> None:
        """Crash a script at every place that its last operation, or its end, adds.

        What a shorter script passes is tried with that one.

        Raises:
            AssertionError: a rule was broken; a note tells where.
        """
        whole = self._live(script, None)
        assert not whole.run(), "no crash was planned"
        before = whole.ends[-3] if len(script) > 1 else 0
        for point in range(before + 1, whole.ends[-1] + 1):
            for plan in self._plans(point):
                try:
                    life = self._live(script, plan)
                    assert life.run(), "the crash was planned"
                    self.ledger.crashes[plan.kind] += 1
                    life.recover()
                except AssertionError as error:
                    error.add_note(f"{script} dies at {plan}")
                    raise

    def _plans(self, point: int) -> Iterator[_Plan]:
        """The crashes at one point that leave different things."""
        self.ledger.points += 1
        yield _Plan(point, "killed")
        probe = _Plan(point, "power cut")
        yield probe
        yield _Plan(point, "power cut", keeps_names=False)
        yield _Plan(point, "power cut", keeps_names=False, fate=Fate.LOST)
        if probe.seen is None or probe.seen in self._read:
            return
        self._read.add(probe.seen)
        content, write = probe.seen
        kept = read_log(content, _LOG).events if content else None
        pending = read_log(written(content, write), _LOG).events
        outcomes: set[tuple[int, bool]] = set()
        for fate in Fate:
            for byte in range(len(write.data) + 1):
                part = fall(write, fate, byte)
                image = written(content, Write(write.offset, part)) if part else content
                outcome = self._read_image(image, kept, pending)
                if outcome is not None and outcome not in outcomes:
                    outcomes.add(outcome)
                    yield _Plan(point, "power cut", fate=fate, byte=byte)
                    if fate is Fate.TORN:
                        yield _Plan(point, "killed", fate=fate, byte=byte)

    def _read_image(
        self, image: bytes, kept: list[SessionEvent] | None, pending: list[SessionEvent]
    ) -> tuple[int, bool] | None:
        """Read one content of a log: how many events are whole, and whether a tail is torn.

        `kept` is what was durable before; None in a file that has no name yet.
        """
        self.images += 1
        try:
            read = read_log(image, _LOG)
        except StoreError as error:
            # A new file gets its name when it is durable; what has one is never damaged.
            require(kept is None, Oracle.CONFIRMED_KEPT, f"called corrupt: {error}")
            return None
        durable = kept or []
        same = read.events[: len(durable)] == durable
        require(same, Oracle.CONFIRMED_KEPT, "a durable event is gone")
        whole = read.events == pending[: len(read.events)]
        require(whole, Oracle.NEVER_INVENTED, "an event that nobody appended")
        return len(read.events), read.torn is not None

    def _live(self, script: Script, plan: _Plan | None) -> _Life:
        BROKEN.clear()
        self.ledger.processes += 1
        shutil.rmtree(self._folder)
        self._folder.mkdir()
        return _Life(self._folder, script, plan)
