"""The client's side of a shared store: sessions under a lease, over a bad network.

A request and its reply take time, and each can be lost; then nobody knows whether it
happened. The answer to that is to ask again: events that stand there already are told by
their seq and content, and a token that is no longer the session's ends the ownership.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from schedule_adapters.sessions import SessionHeader, StoreError, StoreErrorCode
from schedule_adapters.stores.flushed_log import FlushedLog
from schedule_adapters.stores.log_format import parse_events
from schedule_adapters.testing.simulation.lease_server import LEASE_S, LeaseServer
from schedule_core import Clock, SessionEvent

_Result = TypeVar("_Result")
Trip = Callable[[], float | None]
"""How long one way of a message takes, in seconds; None: it is lost."""

PATIENCE_S: Final = 5.0
"""When an answer that has not come counts as lost."""
_TRUST_S: Final = 0.9 * LEASE_S
_RENEWALS_S: Final = LEASE_S / 3


class LeasedSession(FlushedLog):
    """One open session; not to be made directly but by `LeasedStore.open`.

    Attributes:
        ended: why this owner may write nothing any more, once that is so; `end` is set then.
    """

    def __init__(
        self, store: "LeasedStore", header: SessionHeader, events: list[SessionEvent], token: int
    ) -> None:
        super().__init__(header, events, store.clock)
        self.ended: StoreError | None = None
        self.end = asyncio.Event()
        self._store = store
        self._token = token
        self._loop = asyncio.get_running_loop()
        self._trusted_until_s = 0.0
        self._renewal: asyncio.TimerHandle | None = None
        self._given_back: asyncio.Future[None] | None = None
        self._renew_later()

    @property
    def where(self) -> str:
        """What errors name."""
        return f"shared store, session {self.header.id}"

    def extend(self, asked_at_s: float) -> None:
        """Take note of a lease granted; it counts from before it was asked for."""
        self._trusted_until_s = asked_at_s + _TRUST_S

    def append(self, event_type: str, data: object) -> SessionEvent:
        """Add one event; raises also `session_taken_over`."""
        self._check_owned()
        return super().append(event_type, data)

    async def barrier(self) -> None:
        """Return once everything is durable and the session is still ours; raises if not."""
        self._check_owned()
        await super().barrier()
        if not self.is_trusted:
            renewal = self._renew()
            await asyncio.wait([renewal])  # whoever is cancelled here leaves it to itself
            renewal.result()

    async def close(self) -> None:
        """Give the lease back, after a flush under way."""
        await super().close()
        if self._given_back is not None:
            await asyncio.wait([self._given_back])

    @property
    def is_trusted(self) -> bool:
        """Whether nobody can have taken the lease yet."""
        return self.ended is None and self._loop.time() < self._trusted_until_s

    def _check_owned(self) -> None:
        if self.ended is not None:
            raise StoreError(self.ended.code, self.ended.message, where=self.where)

    def _write(self, lines: bytes, first_seq: int) -> "asyncio.Future[None]":
        events = [event for line in lines.split(b"\n")[:-1] for event in parse_events(line)]
        assert events[0].seq == first_seq
        return self._ask(lambda s: s.append(self.header.id, self._token, events))

    def _release(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        self._given_back = self._store.ask(lambda s: s.release(self.header.id, self._token))
        self._given_back.add_done_callback(_heard)

    def _renew(self) -> "asyncio.Future[None]":
        return self._ask(lambda s: s.renew(self.header.id, self._token))

    def _renew_later(self) -> None:
        self._renewal = self._loop.call_later(_RENEWALS_S, self._renew_now)

    def _renew_now(self) -> None:
        if self.ended is None:
            self._renew().add_done_callback(_heard)
            self._renew_later()

    def _ask(self, request: Callable[[LeaseServer], None]) -> "asyncio.Future[None]":
        asked_at_s = self._loop.time()
        answer = self._store.ask(request)
        answer.add_done_callback(lambda done: self._learn(done, asked_at_s))
        return answer

    def _learn(self, answer: "asyncio.Future[None]", asked_at_s: float) -> None:
        error = answer.exception()
        if error is None:
            self.extend(asked_at_s)
        elif isinstance(error, StoreError) and error.code is StoreErrorCode.SESSION_TAKEN_OVER:
            self.ended = error
            self.end.set()


class LeasedStore:
    """One process's way to the shared store.

    Args:
        trip: asked for each message, there and back.
        is_alive: False once the process is dead, and sends nothing any more.
    """

    def __init__(
        self, server: LeaseServer, *, clock: Clock, trip: Trip, is_alive: Callable[[], bool]
    ) -> None:
        self.clock = clock
        self._is_alive = is_alive
        self._server = server
        self._trip = trip

    async def open(self, session_id: str) -> LeasedSession:
        """Open a session for writing, if nobody has its lease."""
        asked_at_s = asyncio.get_running_loop().time()
        now = self.clock.now()
        token, made_at, events = await self.ask(lambda s: s.acquire(session_id, now))
        session = LeasedSession(self, SessionHeader(session_id, made_at), events, token)
        session.extend(asked_at_s)
        if not session.is_trusted:
            await session.close()
            raise StoreError(StoreErrorCode.STORE_UNAVAILABLE, "the answer came too late")
        return session

    def ask(self, request: Callable[[LeaseServer], _Result]) -> "asyncio.Future[_Result]":
        """Send one request; the answer fails with `store_unavailable` when either is lost."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_Result] = loop.create_future()
        there, back = self._trip(), self._trip()
        loop.call_later(PATIENCE_S, _give_up, answer)
        if there is not None:
            loop.call_later(there, self._arrive, request, answer, back)
        return answer

    def _arrive(
        self,
        request: Callable[[LeaseServer], _Result],
        answer: "asyncio.Future[_Result]",
        back: float | None,
    ) -> None:
        if not self._is_alive():
            return
        tell: Callable[[Any], None] = answer.set_result
        try:
            outcome: Any = request(self._server)
        except StoreError as error:
            tell, outcome = answer.set_exception, error
        if back is not None:
            asyncio.get_running_loop().call_later(
                back, lambda: None if answer.done() else tell(outcome)
            )


def _give_up(answer: "asyncio.Future[Any]") -> None:
    if not answer.done():
        answer.set_exception(StoreError(StoreErrorCode.STORE_UNAVAILABLE, "no answer came"))


def _heard(answer: "asyncio.Future[Any]") -> None:
    """Nobody waits for this answer; a refusal was taken note of already."""
    if not answer.cancelled():
        answer.exception()
