"""One machine through all its processes: conversations on a JSONL store and a crash disk."""
# ruff: noqa: PLR2004 - chances and durations are numbers, and each stands once

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from schedule_adapters.conversation import Conversation, open_conversation
from schedule_adapters.live import LiveOptions
from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.testing.simulation.crash_disk import CrashDisk
from schedule_adapters.testing.simulation.ledger import Ledger
from schedule_adapters.testing.simulation.loop import ProcessDied
from schedule_adapters.testing.simulation.model import Caller, Numbers, SimulatedModel
from schedule_adapters.testing.simulation.odds import CALM, Odds
from schedule_adapters.testing.simulation.oracles import Oracle, Violation, require
from schedule_adapters.testing.simulation.process import Process
from schedule_adapters.testing.simulation.timeline import Timeline, WallClock
from schedule_adapters.testing.simulation.user import User
from schedule_adapters.testing.simulation.watched import WatchedStore
from schedule_adapters.testing.simulation.witness import Story
from schedule_adapters.timers import WallTimers
from schedule_core import Instant

MOST_PROCESSES: Final = 60
"""A run that still crashes then goes on in calm."""


class FlakyClock:
    """The wall clock as the owner sees it: it cannot always be read."""

    def __init__(self, wall: WallClock, fails: Callable[[str], bool]) -> None:
        self._wall = wall
        self._fails = fails

    def now(self) -> Instant:
        """Whole milliseconds since the epoch."""
        if self._fails("unreadable clock"):
            raise OSError("no clock")
        return self._wall.now()


class Machine:
    """All of one run; `run` is its only method of interest."""

    def __init__(self, seed: int, root: Path) -> None:
        self._seed = seed
        plan = self._stream("plan")
        self._odds = Odds.draw(plan)
        self._is_calm = False
        self._deeds_left = plan.randint(3, 30)
        self._retry_s = plan.choice((None, 30.0))
        self._barrier_timeout_s = plan.choice((None, None, 5.0))
        self._second = plan.random() < 0.4
        self._stays = plan.choice((0.7, 0.9, 0.97))
        self._loop_chance = self._stream("loop")
        self._chance = self._stream("user")
        self._timeline = Timeline()
        self._wall = WallClock(self._timeline)
        self._disk = CrashDisk(root, self._stream("disk"))
        self._disk.on_fault = self._disturb
        self._numbers = Numbers()
        self._stories: dict[str, Story] = {}
        self._names = ["main"]
        self._story("main")
        self.ledger = Ledger(seeds=1)
        self._store: WatchedStore

    def run(self) -> Ledger:
        """Run to the end, and judge it.

        Raises:
            AssertionError: a rule was broken.
        """
        finished = False
        while not finished:
            if self.ledger.processes >= MOST_PROCESSES:
                self._deeds_left = 0
            finished = self._run_process()
        self.ledger.simulated_s = self._timeline.elapsed_s + self._wall.slept_ms / 1_000
        self.ledger.points += self._disk.points
        self.ledger.faults += self._disk.faults
        self.ledger.deliveries = sum(story.delivered for story in self._stories.values())
        self.ledger.answers = sum(story.answers for story in self._stories.values())
        return self.ledger

    # A process.

    def _run_process(self) -> bool:
        self.ledger.processes += 1
        self._set_odds(CALM if self._deeds_left == 0 else self._odds)
        self._store = WatchedStore(
            JsonlStore(self._disk.root, clock=self._wall, disk=self._disk),
            self._stories,
            self._stream(f"session {self.ledger.processes}"),
            self.ledger.faults,
            self._disk.odds,
        )
        self._finished = False
        process = Process(
            self._timeline, self._live, at_step=self._may_die, work_takes_s=self._work_takes_s
        )
        try:
            while not process.is_over:
                self._timeline.advance(process.loop.wakes_at_s)
                process.run_until_waiting()
                require(not process.is_stuck, Oracle.LIVENESS, "everything waits for nothing")
        finally:
            self.ledger.steps += process.loop.steps
            if not process.loop.is_closed():
                self._disk.note_death()
                self._store.died()
                process.bury()
                self.ledger.crashes[self._disk.crash()] += 1
        return self._finished

    async def _live(self) -> None:
        for name in list(self._names[1:]):
            if name not in self._stories:
                await self._fork(name)
        timers = WallTimers(FlakyClock(self._wall, self._fails))
        async with AsyncExitStack() as stack:
            try:
                users = [await self._open(stack, name, timers) for name in self._open_names()]
            except StoreError as error:
                self._excuse(error)
                return
            await self._use(users)
            if self._deeds_left == 0:
                self._set_odds(CALM)
                await asyncio.gather(*(user.settle() for user in users))
                self._finished = True
            else:
                for user in users:
                    user.abandon()
                for user in users:
                    await user.finish()

    async def _use(self, users: list[User]) -> None:
        while self._deeds_left > 0:
            self._deeds_left -= 1
            user = self._chance.choice(users)
            await user.act()
            roll = self._chance.random()
            if roll > self._stays:
                return
            if roll < 0.02:
                await self._try_second_owner(user)
            elif roll < 0.04 and len(self._names) < 3:
                await self._fork(f"child-{len(self._names)}")

    async def _open(self, stack: AsyncExitStack, name: str, timers: WallTimers) -> User:
        story = self._story(name)
        caller = Caller(story, self._wall, self._chance, self._numbers)
        model = SimulatedModel(caller, lambda: self._is_calm)
        conversation: Conversation = await stack.enter_async_context(
            open_conversation(
                self._store,
                name,
                lambda _: model,
                timers=timers,
                options=LiveOptions(
                    retry_s=self._retry_s, barrier_timeout_s=self._barrier_timeout_s
                ),
                report=lambda _, fact: self._report(story, fact),
            )
        )
        stack.callback(lambda: self._count(model))
        conversation.runtime.start()
        return User(conversation, caller, self._odds.step, self._chance)

    # What may happen beside the conversations.

    async def _try_second_owner(self, user: User) -> None:
        try:
            await self._store.inner.open(user.caller.story.name)
        except StoreError as error:
            if error.code is not StoreErrorCode.SESSION_LOCKED:
                self._excuse(error)
        else:
            raise Violation(Oracle.ONE_OWNER, f"{user.caller.story.name} was opened twice")

    async def _fork(self, name: str) -> None:
        parent = self._stories["main"]
        if not parent.kept.confirmed:
            return
        if name not in self._names:
            self._names.append(name)
        story = Story(name, self._wall, self._timeline)
        story.kept.forks(parent.kept)
        self._stories[name] = story
        try:
            await self._store.fork("main", name)
            snapshot = await self._store.read(name)
        except StoreError as error:
            self._excuse(error)
        else:
            story.kept.forked(list(snapshot.events))

    def _open_names(self) -> list[str]:
        if self._deeds_left == 0:
            return self._names
        return self._names if self._second else [self._chance.choice(self._names)]

    def _story(self, name: str) -> Story:
        if name not in self._stories:
            self._stories[name] = Story(name, self._wall, self._timeline)
        return self._stories[name]

    def _excuse(self, error: StoreError) -> None:
        """A store may refuse for a fault of the disk, and for nothing else."""
        allowed = {StoreErrorCode.STORE_UNAVAILABLE, StoreErrorCode.WRITE_FAILED}
        excused = error.code in allowed and not self._is_calm
        require(excused, Oracle.NO_ACCIDENT, str(error))

    # What goes wrong.

    def _set_odds(self, odds: Odds) -> None:
        self._is_calm = odds is CALM
        self._disk.odds = odds
        if hasattr(self, "_store"):
            self._store.set_odds(odds)

    def _may_die(self) -> bool:
        self.ledger.points += 1
        odds = self._disk.odds.crash_at_await
        if odds > 0 and self._loop_chance.random() < odds / 10:
            raise ProcessDied
        return False

    def _work_takes_s(self) -> float:
        if self._loop_chance.random() < self._disk.odds.slow:
            self.ledger.faults["slow work"] += 1
            self._disturb()
            return self._loop_chance.uniform(0.1, 8)
        return self._loop_chance.choice((0, 0.0001, 0.002, 0.02))

    def _fails(self, what: str) -> bool:
        odds = 0 if self._is_calm else self._odds.clock
        fails = odds > 0 and self._loop_chance.random() < odds
        if fails:
            self.ledger.faults[what] += 1
            self._disturb()
            self._wall.stepped_at_s = self._timeline.elapsed_s  # looked at again a segment later
            for story in self._stories.values():
                story.troubles += 1
        return fails

    def _disturb(self) -> None:
        for story in self._stories.values():
            story.disturb()

    def _report(self, story: Story, fact: Any) -> None:
        if not any(session.dead for session in self._store.sessions):
            story.fact(fact)

    def _count(self, model: SimulatedModel) -> None:
        self.ledger.turns += model.turns

    def _stream(self, name: str) -> random.Random:
        """Chance of its own for each purpose: one more draw here shifts nothing there."""
        return random.Random(f"{self._seed}/{name}")  # noqa: S311 - repeatable on purpose
