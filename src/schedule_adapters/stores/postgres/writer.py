"""The one writer of a store: whatever waits goes out together, in one commit.

A batch joins the next statement, never one that is out already. When a statement is refused
for some lease, only that lease's session hears of it.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.postgres import statements
from schedule_adapters.stores.postgres.connecting import ConnectionLost, Link
from schedule_adapters.stores.postgres.following import notify
from schedule_adapters.stores.postgres.leases import Lease
from schedule_adapters.stores.postgres.place import Place
from schedule_adapters.stores.postgres.statements import Batch, Outcome

_log = logging.getLogger("schedule_adapters")

HOLDER: Final = f"{socket.gethostname()}:{os.getpid()}"
"""How another opener is told who has a session."""


class Writer:
    """Takes leases, keeps them, and writes behind them; on the loop of its first use.

    Attributes:
        commits: how many statements that write events were asked for.
    """

    def __init__(self, place: Place, link: Link, *, ttl_s: float, renew_s: float) -> None:
        self.commits = 0
        self._link = link
        self._schema = place.schema
        self._where = place.where
        self._ttl_s = ttl_s
        self._renew_s = renew_s
        self._batches: list[tuple[Batch, asyncio.Future[None]]] = []
        self._releases: list[tuple[Lease, asyncio.Future[None]]] = []
        self._leases: set[Lease] = set()  # those to be renewed
        self._work: asyncio.Task[None] | None = None  # set while something waits or is out
        self._renewal: asyncio.Task[None] | None = None  # set while there are leases

    async def take(self, lease: Lease) -> None:
        """Take a lease and keep it until it is released.

        Raises:
            StoreError: `session_locked`, `store_unavailable`; it is not taken.
        """
        work = partial(statements.take, lease=lease, holder=HOLDER, ttl_s=self._ttl_s)
        try:
            holder = await self._link.exchange(work)
        except (ConnectionLost, asyncio.CancelledError):
            self.release(lease)  # it may have been granted
            raise
        if holder is not None:
            raise StoreError(
                StoreErrorCode.SESSION_LOCKED,
                f"the session is open in {holder.name}; if that process is gone, "
                f"it can be opened in {max(holder.left_s, 0):.0f} s",
                where=f"{self._where} {lease.key}",
            )
        self._leases.add(lease)
        if self._renewal is None:
            self._renewal = asyncio.get_running_loop().create_task(self._keep_renewing())

    async def confirm(self, lease: Lease) -> None:
        """Return if the lease is held now, which the server is only asked when it is in doubt.

        Raises:
            StoreError: why it is not, or `store_unavailable`: that is not certain.
        """
        if lease.ended is None and not lease.is_trusted:
            await self._renew([lease])
        lease.check()

    def append(self, batch: Batch) -> asyncio.Future[None]:
        """Write a batch with all others that wait; the future fails with `StoreError`."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._batches.append((batch, done))
        self._start_work()
        return done

    def release(self, lease: Lease) -> asyncio.Future[None]:
        """Give a lease back; failing that, it runs out. The future only ever succeeds."""
        self._leases.discard(lease)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._releases.append((lease, done))
        self._start_work()
        return done

    async def close(self) -> None:
        """Finish what is under way and stop; the leases are to be released before."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])
            self._renewal = None
        while self._work is not None:
            await asyncio.wait([self._work])
        await self._link.close()

    # What goes out together.

    def _start_work(self) -> None:
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._clear())
            # Not in a finally of the task: one that is cancelled before it starts has none.
            self._work.add_done_callback(self._end_work)

    def _end_work(self, work: asyncio.Task[None]) -> None:
        self._work = None
        if work.cancelled():
            # The loop ends, most likely. A write that was out, or waited, is no success;
            # leases are given back all the same.
            self._abandon_batches()
        elif (error := work.exception()) is not None:
            _log.error("%s: the writer failed: %s", self._where, type(error).__name__)
            self._abandon_batches()
            for _, done in self._releases:
                done.set_result(None)  # they run out
            self._releases.clear()
        if self._batches or self._releases:
            self._start_work()  # they came after its last look, or are still to be done

    def _abandon_batches(self) -> None:
        for batch, done in self._batches:
            if not done.done():
                done.set_exception(self._failed(batch, "stopped before the outcome was known"))
        self._batches.clear()

    async def _clear(self) -> None:
        while self._batches or self._releases:
            batches, releases = list(self._batches), list(self._releases)
            await self._append(dict(batches))
            await self._release([lease for lease, _ in releases])
            for _, done in releases:
                done.set_result(None)
            del self._batches[: len(batches)]
            del self._releases[: len(releases)]

    async def _append(self, batches: Mapping[Batch, asyncio.Future[None]]) -> None:
        """Write batches; the end of each is in its future."""
        ready = [batch for batch in batches if batch.lease.ended is None]
        try:
            outcomes = await self._write(ready)
        except StoreError as error:
            if isinstance(error, ConnectionLost) or len(batches) == 1:
                for batch, done in batches.items():
                    done.set_exception(self._failed(batch, error.message))
            else:  # one that the server cannot take is not to hold up the others
                for batch, done in batches.items():
                    await self._append({batch: done})
            return
        again = {}
        for batch, done in batches.items():
            if batch.lease.ended is not None:
                done.set_exception(batch.lease.ended)
            elif outcomes[batch] is Outcome.DURABLE:
                batch.lease.tail = batch.rows[-1].seq, batch.rows[-1].event_id
                done.set_result(None)
            else:
                again[batch] = done
        await self._notify([b.lease.key for b in ready if outcomes[b] is Outcome.DURABLE])
        if again:
            await self._append(again)

    async def _write(self, batches: Sequence[Batch]) -> Mapping[Batch, Outcome]:
        """Write batches, and find out about the leases of those that were refused."""
        if not batches:
            return {}
        self.commits += 1
        outcomes = await self._link.exchange(partial(statements.append, batches=batches))
        refused = [batch.lease for batch in batches if outcomes[batch] is Outcome.REFUSED]
        if refused:
            # Each ran out and nobody took it, or somebody did: the renewal tells.
            await self._renew(refused)
            for lease in await self._link.exchange(partial(statements.bereft, leases=refused)):
                self._end(
                    lease, "the database lost events that it had confirmed; the log ends before"
                )
        for batch in batches:
            if outcomes[batch] is Outcome.FOREIGN:
                self._end(batch.lease, "other events stand where this session's were to go")
        return outcomes

    async def _notify(self, keys: list[str]) -> None:
        with contextlib.suppress(StoreError):  # a hint: followers look by themselves too
            if keys:
                await self._link.exchange(partial(notify, schema=self._schema, keys=keys))

    def _end(self, lease: Lease, reason: str) -> None:
        if lease.ended is None:
            where = f"{self._where} {lease.key}"
            lease.ended = StoreError(StoreErrorCode.CORRUPT_LOG, reason, where=where)

    def _failed(self, batch: Batch, reason: str) -> StoreError:
        return StoreError(
            StoreErrorCode.WRITE_FAILED,
            f"{reason}; the next barrier tries again",
            where=f"{self._where} {batch.lease.key}",
        )

    # Leases.

    async def _renew(self, leases: Sequence[Lease]) -> None:
        """Extend leases; those that were taken over are ended.

        Raises:
            StoreError: `store_unavailable`; nothing is known of them.
        """
        work = partial(statements.renew, leases=leases, ttl_s=self._ttl_s)
        for lease in await self._link.exchange(work):
            if lease.ended is None:
                lease.ended = StoreError(
                    StoreErrorCode.SESSION_TAKEN_OVER,
                    "another owner has taken the session over, for this one was not heard of "
                    "for too long; open it again to go on from there",
                    where=f"{self._where} {lease.key}",
                )
            self._leases.discard(lease)

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(self._renew_s)
            leases = list(self._leases)
            if not leases:
                self._renewal = None
                return
            try:
                await self._renew(leases)
            except StoreError as error:
                # Whoever needs the lease asks for it again, and is told.
                _log.warning("the leases of %d sessions were not renewed: %s", len(leases), error)

    async def _release(self, leases: Sequence[Lease]) -> None:
        if not leases:
            return
        try:
            await self._link.exchange(partial(statements.release, leases=leases))
        except StoreError as error:
            _log.warning("%d sessions stay locked until it runs out: %s", len(leases), error)
