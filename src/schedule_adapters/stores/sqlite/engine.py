"""What one open database file consists of: its owners, its two threads and what they run."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.owner_links import OwnerLinks
from schedule_adapters.stores.rounds import Rounds
from schedule_adapters.stores.sqlite.database import coded, make_file
from schedule_adapters.stores.sqlite.reader import Reader
from schedule_adapters.stores.sqlite.rows import Batch
from schedule_adapters.stores.sqlite.writer import Writer

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


class Engine:
    """One file, ready to be read and written; opening and closing block.

    Each connection lives on one thread, from its opening to its closing. They are threads of
    an executor, so an interpreter that ends without `close` still ends what was begun.

    Attributes:
        path: the file.
        owners: who may write which session.
        writer: the connection that writes; for its thread, but for its counters.
        reader: the connection that reads; for `reading` alone.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, making it if needed, and its threads.

        Raises:
            StoreError: `store_unavailable`, `corrupt_log`, `unsupported_log`.
        """
        with (
            coded(path, StoreErrorCode.STORE_UNAVAILABLE, "the database cannot be used"),
            contextlib.ExitStack() as opened,
        ):
            path = path.absolute()  # it is opened again after a failure
            make_file(path)
            self.path = path
            self.owners = OwnerLinks(path.with_name(f"{path.name}.owners"))
            opened.callback(self.owners.leave)
            self._writing = ThreadPoolExecutor(1, thread_name_prefix="sqlite-writer")
            opened.callback(self._writing.shutdown)
            self._reading = ThreadPoolExecutor(1, thread_name_prefix="sqlite-reader")
            opened.callback(self._reading.shutdown)
            with self.owners.guarded():  # two at once would be in each other's way
                self.writer = _on(self._writing, Writer, path, self.owners)
                opened.callback(_on, self._writing, self.writer.close)
                self.reader = _on(self._reading, Reader, path)
                opened.callback(_on, self._reading, self.reader.close)
            self._reads = Rounds[Callable[[], Any], Any](self._reading, _do_each)
            opened.callback(self._reads.end)
            self._commits = Rounds[Batch, None](self._writing, self.writer.commit, self.writer.rest)
            opened.callback(self._commits.end)
            self._closing = opened.pop_all()

    def reading(
        self, job: Callable[_Args, _Result], *args: _Args.args, **kwargs: _Args.kwargs
    ) -> asyncio.Future[_Result]:
        """Do something on the reader's thread; gives its end, on the running loop.

        Raises:
            StoreError: `store_unavailable`; the store is closed.
        """
        with self._refusing_when_closed():
            return self._reads.submit(partial(job, *args, **kwargs))

    def submit(self, batch: Batch) -> asyncio.Future[None]:
        """Hand a batch to the writer; gives its end, on the running loop.

        Raises:
            StoreError: `store_unavailable`; the store is closed.
        """
        with self._refusing_when_closed():
            return self._commits.submit(batch)

    def close(self) -> None:
        """Give everything back, after the commits under way; again is nothing."""
        self._closing.close()

    @contextlib.contextmanager
    def _refusing_when_closed(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # what rounds that have ended say
            raise StoreError(
                StoreErrorCode.STORE_UNAVAILABLE, "the store is closed", where=str(self.path)
            ) from error


def _do_each(jobs: Sequence[Callable[[], object]]) -> list[object]:
    return [_outcome(job) for job in jobs]


def _outcome(job: Callable[[], object]) -> object:
    try:
        return job()
    except Exception as error:  # noqa: BLE001 - told to who asked for it
        return error


def _on(
    thread: ThreadPoolExecutor,
    job: Callable[_Args, _Result],
    *args: _Args.args,
    **kwargs: _Args.kwargs,
) -> _Result:
    return thread.submit(job, *args, **kwargs).result()
