"""Several owners compete for one session in a shared store, and some of them stand still."""

import asyncio
import math
import random
from typing import Final, cast

from attrs import define

from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import LiveOptions
from schedule_adapters.sessions import SessionStore, StoreError, StoreErrorCode
from schedule_adapters.testing.simulation.lease_server import LeaseServer
from schedule_adapters.testing.simulation.leased import LeasedSession, LeasedStore
from schedule_adapters.testing.simulation.ledger import Ledger
from schedule_adapters.testing.simulation.loop import ProcessDied, SimulationLoop
from schedule_adapters.testing.simulation.model import Caller, Numbers, SimulatedModel
from schedule_adapters.testing.simulation.odds import CALM, Odds
from schedule_adapters.testing.simulation.oracles import Oracle, Violation, require
from schedule_adapters.testing.simulation.process import Process
from schedule_adapters.testing.simulation.timeline import Timeline, WallClock
from schedule_adapters.testing.simulation.user import User
from schedule_adapters.testing.simulation.watched import WatchedStore
from schedule_adapters.testing.simulation.witness import Kept, Story

_SESSION: Final = "main"
_STANDSTILLS_S: Final = (1, 30, 65, 90, 200)
_LONGEST_PAUSE_S: Final = 300.0
_EXCUSED: Final = {
    StoreErrorCode.SESSION_LOCKED,
    StoreErrorCode.STORE_UNAVAILABLE,
    StoreErrorCode.WRITE_FAILED,
    StoreErrorCode.SESSION_TAKEN_OVER,
}


@define
class _Owner:
    """One place where processes are started one after the other; it has a clock of its own."""

    number: int
    wall: WallClock
    process: Process
    paused_until_s: float = 0.0
    paused: Story | None = None  # what stands still until then

    @property
    def wakes_at_s(self) -> float:
        return max(self.process.loop.wakes_at_s, self.paused_until_s)


class Owners:
    """All of one run; `run` is its only method of interest."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        plan = self._stream("plan")
        self._odds = Odds.draw(plan)
        self._deeds_left = plan.randint(5, 40)
        self._retry_s = plan.choice((None, 30.0))
        self._stays = plan.choice((0.8, 0.95, 0.99))
        self._chance = self._stream("user")
        self._loop_chance = self._stream("loop")
        self._timeline = Timeline()
        self._server = LeaseServer(self._timeline)
        self._numbers = Numbers()
        self._kept = Kept(is_shared=True)
        self._stories: list[Story] = []
        self._stores: dict[int, WatchedStore] = {}
        self._finished = False
        self.ledger = Ledger(seeds=1)
        self._owners = [self._make_owner(number) for number in range(plan.choice((2, 2, 3)))]
        self._running = self._owners[0]

    def run(self) -> Ledger:
        """Run to the end, and judge it.

        Raises:
            AssertionError: a rule was broken.
        """
        try:
            while not self._finished:
                self._run_next()
        finally:
            for owner in self._owners:
                self._bury(owner)
        self.ledger.simulated_s = self._timeline.elapsed_s
        self.ledger.deliveries = sum(story.delivered for story in self._stories)
        self.ledger.answers = sum(story.answers for story in self._stories)
        return self.ledger

    # The processes.

    def _run_next(self) -> None:
        first = min(owner.wakes_at_s for owner in self._owners)
        if first == math.inf:
            raise Violation(Oracle.LIVENESS, "everything waits for nothing")
        at_once = [owner for owner in self._owners if owner.wakes_at_s <= first]
        owner = self._running = self._loop_chance.choice(at_once)
        self._timeline.advance(first)
        if owner.paused is not None:
            owner.paused.resumes()
            owner.paused = None
            self._disturb()
        owner.process.run_until_waiting()
        if owner.process.is_over and not self._finished:
            self._bury(owner)
            owner.process = self._make_process(owner.number, owner.wall)

    def _make_owner(self, number: int) -> _Owner:
        wall = WallClock(self._timeline)
        wall.step(self._chance.choice((0, 0, -2_000, 1_500, 600_000)))
        return _Owner(number, wall, self._make_process(number, wall))

    def _make_process(self, number: int, wall: WallClock) -> Process:
        self.ledger.processes += 1
        return Process(
            self._timeline,
            lambda: self._live(number, wall),
            at_step=self._may_die_or_pause,
            work_takes_s=lambda: 0,
        )

    def _bury(self, owner: _Owner) -> None:
        self.ledger.steps += owner.process.loop.steps
        if owner.process.loop.is_closed():
            return
        if owner.process.died:
            self.ledger.crashes["killed"] += 1
        if owner.number in self._stores:
            self._stores[owner.number].died()
        owner.process.bury()

    def _may_die_or_pause(self) -> bool:
        self.ledger.points += 1
        if self._loop_chance.random() < self._now_odds.crash_at_await / 10:
            raise ProcessDied
        if self._loop_chance.random() < self._now_odds.pause / 10:
            return self._pause(self._running)
        return False

    def _pause(self, owner: _Owner) -> bool:
        if owner.paused is not None or owner.number not in self._stores:
            return False
        self.ledger.faults["paused owner"] += 1
        owner.paused_until_s = self._timeline.elapsed_s + self._loop_chance.choice(_STANDSTILLS_S)
        owner.paused = self._stores[owner.number].stories[_SESSION]
        owner.paused.pauses()
        return True

    # One process.

    async def _live(self, number: int, wall: WallClock) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulationLoop)
        inner = LeasedStore(
            self._server,
            clock=wall,
            trip=self._trip,
            is_alive=lambda: not loop.is_dead,
        )
        await asyncio.sleep(self._loop_chance.uniform(0, 2))
        while not self._finished:
            story = Story(_SESSION, wall, self._timeline, self._kept)
            self._stories.append(story)
            store = WatchedStore(
                cast("SessionStore", inner),  # nothing but `open` is asked of it
                {_SESSION: story},
                self._stream(f"session {len(self._stories)}"),
                self.ledger.faults,
                self._now_odds,
            )
            self._stores[number] = store
            try:
                await self._own(store, story)
            except StoreError as error:
                require(error.code in _EXCUSED, Oracle.NO_ACCIDENT, str(error))
            await asyncio.sleep(self._loop_chance.choice((1, 10, 30, 70)))

    async def _own(self, store: WatchedStore, story: Story) -> None:
        caller = Caller(story, story.wall, self._chance, self._numbers)
        model = SimulatedModel(caller, lambda: self._deeds_left == 0)
        async with open_conversation(
            store,
            _SESSION,
            lambda _: model,
            clock=story.wall,
            options=LiveOptions(retry_s=self._retry_s),
            report=lambda _, fact: None if self._is_dead(store) else story.fact(fact),
        ) as conversation:
            conversation.runtime.start()
            session = store.sessions[-1].inner
            assert isinstance(session, LeasedSession)
            user = User(conversation, caller, self._odds.step, self._chance, _LONGEST_PAUSE_S)
            try:
                await self._use(user, session)
                if self._deeds_left == 0:
                    store.set_odds(CALM)
                    await asyncio.sleep(1)  # a standstill from before comes first
                    await session.barrier()  # or it is the owner no more
                    await user.settle()
                    self._finished = True
            finally:
                user.abandon()
                await user.finish()
        self.ledger.turns += model.turns

    async def _use(self, user: User, session: LeasedSession) -> None:
        while self._deeds_left > 0 and session.ended is None:
            self._deeds_left -= 1
            acting = asyncio.ensure_future(user.act())
            end = asyncio.ensure_future(session.end.wait())
            await asyncio.wait([acting, end], return_when=asyncio.FIRST_COMPLETED)
            for task in (acting, end):
                task.cancel()
            await asyncio.wait([acting, end])
            if not acting.cancelled():
                acting.result()
            if self._chance.random() > self._stays:
                return

    # What goes wrong.

    @property
    def _now_odds(self) -> Odds:
        return CALM if self._deeds_left == 0 else self._odds

    def _trip(self) -> float | None:
        if self._loop_chance.random() < self._now_odds.network:
            self.ledger.faults["lost message"] += 1
            self._disturb()
            return None
        if self._loop_chance.random() < self._now_odds.slow:
            self.ledger.faults["slow message"] += 1
            self._disturb()
            return self._loop_chance.uniform(0.5, 8)
        return self._loop_chance.choice((0, 0.001, 0.02))

    def _disturb(self) -> None:
        for store in self._stores.values():
            store.stories[_SESSION].disturb()

    def _is_dead(self, store: WatchedStore) -> bool:
        return any(session.dead for session in store.sessions)

    def _stream(self, name: str) -> random.Random:
        """Chance of its own for each purpose: one more draw here shifts nothing there."""
        return random.Random(f"{self._seed}/{name}")  # noqa: S311 - repeatable on purpose
