"""The live log of a store that writes: barriers share flushes, and one flush is out at a time.

A store adds what a flush is: `_write` makes a batch durable, `_release` gives back the
right to write. The rule that both keep: a barrier passes on a flush that began after it was
asked for, never on an earlier one (design decision 11).
"""

import asyncio
from abc import abstractmethod

from attrs import frozen

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.live_log import LiveLog


@frozen
class _Flush:
    """A write under way: how many events are durable once it succeeds, and its end."""

    length: int
    done: asyncio.Future[None]


class FlushedLog(LiveLog):
    """The part of `Session` that every store with a medium of its own shares."""

    _flush: _Flush | None = None  # the one write under way
    _released = False

    @property
    @abstractmethod
    def where(self) -> str:
        """What the store keeps the session in, for errors."""

    @abstractmethod
    def _write(self, lines: bytes, first_seq: int) -> asyncio.Future[None]:
        """Begin to make lines durable; gives the end, and is never called before that.

        A failed write's lines come again, alone or with more behind them, and must then
        stand in the log once. The future fails with `OSError` or `StoreError`, and is not a
        task: cancelling every task, as the end of `asyncio.run` does, must not make a write
        under way look finished.

        Args:
            lines: whole lines, the first one a checkpoint.
            first_seq: the seq of the first of their events.
        """

    @abstractmethod
    def _release(self) -> None:
        """Give back the right to write; called once, when no write is under way."""

    async def barrier(self) -> None:
        """Return once everything appended before the call is durable.

        Concurrent barriers share a flush, but never one that began before the events of
        the call were there. A cancelled barrier leaves the flush to those who share it.

        Raises:
            StoreError: `write_failed`; the events stay live and the next barrier tries
                again. `session_closed`; they never became durable. Or what the store says.
        """
        wanted = len(self._events)
        while self._durable < wanted:
            flush = self._flush or self._start_flush()
            # Not `shield`: it returns at once when the flush is over and `_finish_flush` is
            # still to be called, and the loop would spin and never call it.
            await asyncio.wait([flush.done])
            try:
                flush.done.result()
            except (OSError, StoreError) as error:
                if flush.length >= wanted:
                    raise self._refusal(error) from error

    async def close(self) -> None:
        """Give up the right to write, after a flush under way; writes nothing itself."""
        self._closed = True
        if self._flush is None:
            self._release_once()
        else:
            await asyncio.wait([self._flush.done])  # its end releases

    def _start_flush(self) -> _Flush:
        if self._closed:
            raise StoreError(
                StoreErrorCode.SESSION_CLOSED,
                "the session was closed before this was durable",
                where=self.where,
            )
        lines, length = self._take_batch()
        done = self._write(lines, self._durable)
        self._flush = _Flush(length, done)
        # Added before any waiter's callback, so it runs before any waiter wakes.
        done.add_done_callback(self._finish_flush)
        return self._flush

    def _finish_flush(self, done: asyncio.Future[None]) -> None:
        flush, self._flush = self._flush, None
        assert flush is not None
        if done.exception() is None:
            self._mark_durable(flush.length)
        if self._closed:
            self._release_once()

    def _release_once(self) -> None:
        if not self._released:
            self._released = True
            self._release()

    def _refusal(self, error: OSError | StoreError) -> StoreError:
        if isinstance(error, StoreError):
            return StoreError(error.code, error.message, where=error.where)
        return StoreError(
            StoreErrorCode.WRITE_FAILED,
            "the log could not be written; the next barrier tries again",
            where=self.where,
        )
