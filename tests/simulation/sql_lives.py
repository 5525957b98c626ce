"""Short random lives over a real SQL store: two owners, some sessions, and what goes wrong.

One seed is one life. Two stores on one database append to the same sessions, share barriers,
lose answers, die, sleep beyond their leases, fork, and meet a stranger who writes. What other
hands find in the tables is held up against what was appended and what was confirmed.

Each step waits for its end, and a fault hits a place that its seed names, not a moment: so a
seed is the same life again, though the threads and the server are real.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Final, Protocol

from attrs import define, field

from schedule_adapters.sessions import Session, SessionStore, StoreError, StoreErrorCode
from schedule_adapters.testing.simulation.oracles import BROKEN, Oracle, Violation, require

LEASE_S: Final = 300
"""How long a silent owner keeps a session, where time counts."""
NAPS_S: Final = (70, 140, 210, 280, 350, 700)
"""How long everything may stand still: no sum of them is near the end of a lease."""
POISON: Final = "poison"
"""A type that the database refuses, whoever writes it."""
_STEPS: Final = 18
_LONGEST_LIFE_S: Final = 30.0
_SESSIONS: Final = 3


class Medium(Protocol):
    """A database, and what can be done to it and to those who use it."""

    has_leases: bool
    """Whether an owner that is silent for long is overtaken, though it may still live."""

    async def store(self) -> SessionStore:
        """One more store of it, by a way of its own."""

    async def kill(self, store: SessionStore) -> None:
        """End a store as if its process had been killed."""

    async def nap(self, seconds: int) -> None:
        """Let time pass for everybody, and nobody do anything."""

    async def heartbeat(self, store: SessionStore) -> None:
        """Let a store keep its leases, as it does from time to time."""

    def together(self, store: SessionStore) -> AbstractAsyncContextManager[None]:
        """The time in which what the store is asked to write waits, to go out as one."""

    def trouble(self, store: SessionStore, random: Random) -> AbstractAsyncContextManager[None]:
        """The time in which one fault hits a store, if it comes to its place."""

    async def numbers(self, session_id: str) -> list[int]:
        """The events of a session that a stranger finds, in order, with his own eyes."""

    async def intrude(self, session_id: str) -> None:
        """Have a stranger write where the next event of a session would go."""

    async def lose(self, session_id: str) -> None:
        """Have the last line of a session taken away, as by a restored copy of the database."""

    async def require_strict(self, store: SessionStore) -> None:
        """Insist that what a store confirms is durable, and that a weaker database is refused.

        Raises:
            Violation: it is not so.
        """


@define
class Handle:
    """A session as one owner has it open.

    Attributes:
        session: the open session.
        pending: the numbers appended and not confirmed.
        heard_s: when its owner was last heard of for sure.
        is_asked: whether a barrier since may have renewed its lease.
        is_lost: whether another owner was let in.
    """

    session: Session
    heard_s: int
    pending: list[int] = field(factory=list)
    is_asked: bool = False
    is_lost: bool = False


@define
class Account:
    """What is known of one session.

    Attributes:
        appended: every number that anybody appended.
        confirmed: what barriers confirmed.
        barred: appended by an owner that is no more, and not there when the next one came.
    """

    appended: set[int] = field(factory=set)
    confirmed: set[int] = field(factory=set)
    barred: set[int] = field(factory=set)


@define
class Owner:
    """A store, and the sessions that it has open."""

    store: SessionStore
    handles: dict[str, Handle] = field(factory=dict)


@define
class Life:
    """One life; see the module."""

    medium: Medium
    random: Random
    owners: list[Owner] = field(factory=list)
    accounts: dict[str, Account] = field(factory=dict)
    ids: list[str] = field(factory=list)
    now_s: int = 0
    last: int = 0  # number given to an event
    names: int = 0

    async def run(self) -> None:
        """Live it.

        Raises:
            Violation: a rule was broken.
        """
        self.owners = [Owner(await self.medium.store()) for _ in range(2)]
        self.ids = [self._new_id() for _ in range(_SESSIONS)]
        steps = [*[self._open] * 2, *[self._write] * 4, *[self._together] * 2]
        steps += [self._look, self._close, self._die, self._fork, self._fork_over]
        steps += [self._poison, self._strict, self._intrude]
        if self.medium.has_leases:
            steps += [self._nap, self._overtake, self._overtake, self._heartbeat]
        for _ in range(_STEPS):
            await self.random.choice(steps)()
        for owner in self.owners:
            await self._write_all(owner, list(owner.handles))
            for session_id in list(owner.handles):
                await self._give_back(owner, session_id)
        for session_id in self.ids:
            await self._open_by(self.owners[0], session_id)
            await self._check(session_id)

    # Steps.

    async def _open(self) -> None:
        owner, session_id = self._owner(), self.random.choice(self.ids)
        if session_id not in owner.handles:
            await self._open_by(owner, session_id)

    async def _write(self) -> None:
        """One session, with a fault as often as not."""
        owner, session_id = await self._some_open()
        self._append(owner, session_id)
        if self.random.random() < 0.5:
            async with self.medium.trouble(owner.store, self.random):
                await self._barrier(owner, session_id, is_calm=False)
        await self._check(session_id)
        if self.random.random() < 0.5:
            self._append(owner, session_id)
        await self._barrier(owner, session_id)
        await self._check(session_id)

    async def _together(self) -> None:
        """All sessions of an owner, in one commit."""
        owner, _ = await self._some_open()
        for session_id in self.ids:
            if session_id not in owner.handles and not self._holders(session_id):
                await self._open_by(owner, session_id)
        for session_id in owner.handles:
            self._append(owner, session_id)
        if self.random.random() < 0.4:
            async with self.medium.trouble(owner.store, self.random):
                await self._write_all(owner, list(owner.handles), is_calm=False)
        await self._write_all(owner, list(owner.handles))

    async def _poison(self) -> None:
        """One event that the database refuses holds up nobody, and is not confirmed."""
        owner, spoilt = await self._some_open()
        handle = owner.handles[spoilt]
        if handle.is_lost:
            return
        await self._barrier(owner, spoilt)
        await self._open_by(owner, self._new_id())
        for session_id in owner.handles:
            self._append(owner, session_id)
        before = await self.medium.numbers(spoilt)
        handle.session.append(POISON, {"n": 0})
        others = [session_id for session_id in owner.handles if session_id != spoilt]
        async with self.medium.together(owner.store):
            refused = asyncio.ensure_future(_code(handle.session.barrier()))
            rest = [asyncio.ensure_future(self._barrier(owner, each)) for each in others]
            await asyncio.sleep(0)
        await asyncio.gather(*rest)
        code = await refused
        require(code == StoreErrorCode.WRITE_FAILED, Oracle.HONEST_ANSWER, f"poison: {code}")
        found = await self.medium.numbers(spoilt)
        require(found == before, Oracle.VALID_LOG, "a refused batch is there in part")
        await self._give_back(owner, spoilt)

    async def _look(self) -> None:
        """A barrier with nothing to write, and what readers see."""
        owner, session_id = await self._some_open()
        await self._barrier(owner, session_id)
        if not (handle := owner.handles[session_id]).is_lost and handle.session.events_from(0):
            seen = await self._owner().store.read(session_id)
            live = list(handle.session.events_from(0))
            require(list(seen.events) == live, Oracle.VALID_LOG, f"{session_id} reads otherwise")
        await self._check(session_id)

    async def _close(self) -> None:
        owner, session_id = await self._some_open()
        await self._give_back(owner, session_id)
        if not self._holders(session_id):
            await self._open_by(self._owner(), session_id)

    async def _die(self) -> None:
        """A process is killed; with its leases, where the system does not see that."""
        owner = self._owner()
        await self.medium.kill(owner.store)
        lost, owner.handles = owner.handles, {}
        owner.store = await self.medium.store()
        if self.medium.has_leases:
            await self._sleep(max(NAPS_S))
        for session_id in lost:
            if not self._holders(session_id):
                await self._open_by(self._owner(), session_id)

    async def _fork(self) -> None:
        """A child is what is durable of its parent, and can be opened at once."""
        owner, parent_id = await self._some_open()
        found = await self.medium.numbers(parent_id)
        child_id = self._new_id()
        code = await _code(owner.store.fork(parent_id, child_id))
        wanted = None if await self._is_there(parent_id) else StoreErrorCode.SESSION_NOT_FOUND
        require(code == wanted, Oracle.HONEST_ANSWER, f"fork: {code}")
        require(await self.medium.numbers(child_id) == found, Oracle.VALID_LOG, "another child")
        if code is None:
            self.accounts[child_id] = Account(set(found), set(found))
            self._replace(self.random.choice(self.ids), child_id)

    async def _fork_over(self) -> None:
        """Never over a session that is there, nor over one that somebody has open."""
        owner, parent_id = await self._some_open()
        self._append(owner, parent_id)
        await self._barrier(owner, parent_id)
        if owner.handles[parent_id].is_lost:
            return
        child_id = parent_id
        if self.random.random() < 0.5:
            child_id = self._new_id()
            await self._open_by(self._owner(), child_id)
        elif self.random.random() < 0.5:
            await self._give_back(owner, parent_id)
        before = await self.medium.numbers(child_id)
        code = await _code(owner.store.fork(parent_id, child_id))
        wanted = StoreErrorCode.SESSION_EXISTS
        require(code == wanted, Oracle.HONEST_ANSWER, f"fork over another: {code}")
        require(await self.medium.numbers(child_id) == before, Oracle.VALID_LOG, "it was changed")

    async def _strict(self) -> None:
        await self.medium.require_strict(self._owner().store)

    async def _intrude(self) -> None:
        """What a stranger wrote, or took away, is not built upon, and not taken for ours."""
        owner, session_id = await self._some_open()
        await self._barrier(owner, session_id)
        if (handle := owner.handles[session_id]).is_lost or not handle.session.events_from(0):
            return
        await self.random.choice([self.medium.intrude, self.medium.lose])(session_id)
        handle.session.append("x/y", {"n": -1})
        code = await _code(handle.session.barrier())
        foreign = {StoreErrorCode.SESSION_TAKEN_OVER, StoreErrorCode.CORRUPT_LOG}
        require(code in foreign, Oracle.NEVER_INVENTED, f"behind a stranger: {code}")
        self._replace(session_id, self._new_id())
        for each in self.owners:
            if left := each.handles.pop(session_id, None):
                await left.session.close()

    async def _nap(self) -> None:
        await self._sleep(self.random.choice(NAPS_S))

    async def _overtake(self) -> None:
        """An owner sleeps too long, another comes, and the first one goes on."""
        owner, session_id = await self._some_open()
        await self._barrier(owner, session_id)
        if self.random.random() < 0.5:
            self._append(owner, session_id)
        await self._sleep(max(NAPS_S))
        other = next(each for each in self.owners if each is not owner)
        if session_id not in other.handles:
            await self._open_by(other, session_id)
        for each in self.random.sample([owner, other], 2):
            await self._barrier(each, session_id)
        for each in self.random.sample([owner, other], 2):
            self._append(each, session_id)
            await self._barrier(each, session_id)
            await self._check(session_id)

    async def _heartbeat(self) -> None:
        """Living owners are heard of, and not overtaken by who comes then."""
        for owner in self.owners:
            await self.medium.heartbeat(owner.store)
            for handle in owner.handles.values():
                if not handle.is_lost:
                    handle.heard_s = self.now_s
        await self._sleep(self.random.choice(NAPS_S[:4]))
        await self._open()

    # Parts of them.

    async def _open_by(self, owner: Owner, session_id: str) -> None:
        """Open a session, and judge whether that was right."""
        if session_id in owner.handles:
            return
        holders = self._holders(session_id)
        try:
            session = await owner.store.open(session_id)
        except StoreError as error:
            locked = StoreErrorCode.SESSION_LOCKED
            require(error.code == locked, Oracle.HONEST_ANSWER, f"opening: {error.code}")
            free = all(not each.is_asked and self._is_over(each) for each in holders)
            require(not free, Oracle.LIVENESS, f"{session_id} is free and cannot be opened")
            return
        held = [each for each in holders if not self._is_over(each)]
        require(not held, Oracle.ONE_OWNER, f"{session_id} is open and was opened again")
        account = self._account(session_id)
        there = set(await self.medium.numbers(session_id))
        for each in self.owners:
            if handle := each.handles.get(session_id):
                handle.is_lost = True
        account.barred |= account.appended - there
        owner.handles[session_id] = Handle(session, self.now_s)
        _require_same([e.data for e in session.events_from(0)], there)
        await self._check(session_id)

    def _append(self, owner: Owner, session_id: str) -> None:
        handle, account = owner.handles[session_id], self._account(session_id)
        for _ in range(self.random.randint(1, 3)):
            try:
                handle.session.append("x/y", {"n": self.last + 1})
            except StoreError as error:
                require(handle.is_lost, Oracle.LIVENESS, f"appending: {error.code}")
                return
            self.last += 1
            account.appended.add(self.last)
            handle.pending.append(self.last)
            if handle.is_lost:
                account.barred.add(self.last)

    async def _barrier(self, owner: Owner, session_id: str, *, is_calm: bool = True) -> None:
        """One barrier; what it answers must be so, and in calm it passes."""
        handle = owner.handles[session_id]
        wanted = list(handle.pending)
        code = await _code(handle.session.barrier())
        handle.is_asked = True
        if handle.is_lost:
            require(code is not None, Oracle.ONE_OWNER, f"{session_id} was confirmed to a former")
            lost = StoreErrorCode.SESSION_TAKEN_OVER
            require(code == lost or not is_calm, Oracle.HONEST_ANSWER, f"taken over: {code}")
            return
        if code is not None:
            unsure = {StoreErrorCode.WRITE_FAILED, StoreErrorCode.STORE_UNAVAILABLE}
            require(not is_calm, Oracle.LIVENESS, f"a barrier in calm: {code}")
            require(code in unsure, Oracle.HONEST_ANSWER, f"a barrier in trouble: {code}")
            return
        there = await self.medium.numbers(session_id)
        require(set(wanted) <= set(there), Oracle.CONFIRMED_KEPT, f"{wanted} is not there")
        self._account(session_id).confirmed |= set(wanted)
        handle.pending = handle.pending[len(wanted) :]

    async def _write_all(
        self, owner: Owner, session_ids: Sequence[str], *, is_calm: bool = True
    ) -> None:
        async with self.medium.together(owner.store):
            ends = [
                asyncio.ensure_future(self._barrier(owner, each, is_calm=is_calm))
                for each in session_ids
            ]
            await asyncio.sleep(0)
        await asyncio.gather(*ends)
        for session_id in session_ids:
            await self._check(session_id)

    async def _give_back(self, owner: Owner, session_id: str) -> None:
        await owner.handles.pop(session_id).session.close()
        account = self._account(session_id)
        account.barred |= account.appended - set(await self.medium.numbers(session_id))

    async def _sleep(self, seconds: int) -> None:
        await self.medium.nap(seconds)
        self.now_s += seconds

    async def _check(self, session_id: str) -> None:
        """What other hands find is what was appended: each once, in order, none lost."""
        found, account = await self.medium.numbers(session_id), self._account(session_id)
        kept = account.confirmed <= set(found)
        require(kept, Oracle.CONFIRMED_KEPT, f"{account.confirmed - set(found)} is gone")
        require(len(found) == len(set(found)), Oracle.NEVER_REPEATED, f"{found}")
        strange = set(found) - account.appended
        require(not strange, Oracle.NEVER_INVENTED, f"{strange} was never appended")
        barred = set(found) & account.barred
        require(not barred, Oracle.ONE_OWNER, f"{barred} came from a former owner")
        require(found == sorted(found), Oracle.VALID_LOG, f"{found}")

    async def _some_open(self) -> tuple[Owner, str]:
        """An owner and a session that it has open; opens one if there is none."""
        owner = self._owner()
        while not owner.handles:
            session_id = self.random.choice(self.ids)
            await self._open_by(owner, session_id)
            if not owner.handles and self._holders(session_id):
                self._replace(session_id, self._new_id())
        return owner, self.random.choice(sorted(owner.handles))

    async def _is_there(self, session_id: str) -> bool:
        return await _code(self.owners[0].store.read(session_id)) is None

    def _is_over(self, handle: Handle) -> bool:
        """Whether somebody else may be let in."""
        return self.medium.has_leases and self.now_s - handle.heard_s >= LEASE_S

    def _holders(self, session_id: str) -> list[Handle]:
        handles = [owner.handles.get(session_id) for owner in self.owners]
        return [handle for handle in handles if handle is not None and not handle.is_lost]

    def _owner(self) -> Owner:
        return self.random.choice(self.owners)

    def _account(self, session_id: str) -> Account:
        return self.accounts.setdefault(session_id, Account())

    def _replace(self, session_id: str, by: str) -> None:
        """Go on with another session in the place of one."""
        if session_id in self.ids:  # else another has its place already
            self.ids[self.ids.index(session_id)] = by

    def _new_id(self) -> str:
        self.names += 1
        return f"s{self.names}"


async def live(medium: Medium, seed: int) -> None:
    """Live the life of a seed.

    Raises:
        Violation: a rule was broken.
    """
    BROKEN.clear()
    try:
        async with asyncio.timeout(_LONGEST_LIFE_S):
            await Life(medium, Random(seed)).run()  # noqa: S311 - to be the same again
    except TimeoutError:
        raise Violation(Oracle.LIVENESS, "it never ends") from None


async def _code(attempt: Awaitable[object]) -> StoreErrorCode | None:
    """The code that an attempt is refused with; None if it is not."""
    try:
        await attempt
    except StoreError as error:
        return error.code
    return None


def _require_same(opened: Sequence[object], there: set[int]) -> None:
    numbers = [data["n"] for data in opened if isinstance(data, dict) and "n" in data]
    require(set(numbers) == there, Oracle.CONFIRMED_KEPT, f"{numbers} of {there} is found again")
