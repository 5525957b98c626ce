"""Sessions as JSONL files that the published original reads and writes too.

Layout: `<root>/<project>/<encoded id>/session.jsonl`, beside it the lock file and any torn
tails that were saved aside. Sessions made here lie under the project `_no-cwd`; one that the
original made lies under a project derived from its working directory and is found there.
"""

import asyncio
import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from schedule_adapters.sessions import (
    SessionHeader,
    SessionSnapshot,
    StoreError,
    StoreErrorCode,
)
from schedule_adapters.stores.disk import Disk, make_folder, open_file, read_file
from schedule_adapters.stores.folder_names import canonical_id, decode_id, encode_id
from schedule_adapters.stores.live_log import LiveLog
from schedule_adapters.stores.log_file import LOG_NAME, TEMPORARY_NAME, LogFile
from schedule_adapters.stores.log_format import END_SEED, event_line, header_line
from schedule_adapters.stores.log_image import LogImage, TornTail, read_log
from schedule_adapters.stores.session_lock import SessionLock
from schedule_adapters.stores.zstd_frames import decompress
from schedule_core.instants import Instant
from schedule_core.ports import Clock, SessionEvent

NO_PROJECT: Final = "_no-cwd"
"""The original's project folder of sessions without a working directory."""
COMPRESSED_NAME: Final = f"{LOG_NAME}.zstd"
_NEW_EXTRA: Final[dict[str, object]] = {"delegationDepth": 0}
"""What the original writes into each header beside the members that have a meaning here."""


@frozen
class _Flush:
    """A write under way: how many events are durable once it succeeds, and its end."""

    length: int
    done: asyncio.Future[None]


class JsonlSession(LiveLog):
    """One open log; not to be made directly but by `JsonlStore.open`.

    Attributes:
        torn: the torn tail found at opening, if any; the first write saves it aside.
    """

    def __init__(  # noqa: PLR0913 - the parts that opening puts together, each once
        self,
        header: SessionHeader,
        events: list[SessionEvent],
        clock: Clock,
        *,
        file: LogFile,
        lock: SessionLock,
        torn: TornTail | None,
    ) -> None:
        super().__init__(header, events, clock)
        self.torn = torn
        self._file = file
        self._lock: SessionLock | None = lock  # None once released
        self._flush: _Flush | None = None  # the one write under way

    @property
    def path(self) -> Path:
        """Where the log is, or will be once something is durable."""
        return self._file.path

    @property
    def fsyncs(self) -> int:
        """How often the log file was synced; the cost of durability."""
        return self._file.fsyncs

    async def barrier(self) -> None:
        """Return once everything appended before the call is durable.

        Concurrent barriers share a flush, but never one that began before the events of
        the call were there. A cancelled barrier leaves the flush to those who share it.

        Raises:
            StoreError: `write_failed`; the events stay live and the next barrier tries
                again. `session_closed`; they never became durable.
        """
        wanted = len(self._events)
        while self._durable < wanted:
            flush = self._flush or self._start_flush()
            # Not `shield`: it returns at once when the flush is over and `_finish_flush` is
            # still to be called, and the loop would spin and never call it.
            await asyncio.wait([flush.done])
            try:
                flush.done.result()
            except OSError as error:
                if flush.length >= wanted:
                    raise StoreError(
                        StoreErrorCode.WRITE_FAILED,
                        "the log could not be written; the next barrier tries again",
                        where=str(self.path),
                    ) from error

    async def close(self) -> None:
        """Give up the right to write, after a flush under way; writes nothing itself."""
        self._closed = True
        if self._flush is None:
            self._release()
        else:
            await asyncio.wait([self._flush.done])  # its end releases

    def _start_flush(self) -> _Flush:
        if self._closed:
            raise StoreError(
                StoreErrorCode.SESSION_CLOSED,
                "the session was closed before this was durable",
                where=str(self.path),
            )
        lines, length = self._take_batch()
        # The executor's own future and no task: cancelling every task, as the end of
        # `asyncio.run` does, must not make a write under way look finished.
        done = asyncio.get_running_loop().run_in_executor(None, self._file.commit, lines)
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
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._file.close()
            self._lock.release(keep=self._file.exists)
            self._lock = None


class JsonlStore:
    """The sessions under one root folder, which is made when the first one is opened."""

    def __init__(self, root: Path, *, clock: Clock, disk: Disk | None = None) -> None:
        self._root = root
        self._clock = clock
        self._disk = Disk() if disk is None else disk

    async def open(self, session_id: str) -> JsonlSession:
        """Open a session for writing; merely opening an existing one changes nothing in it."""
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(None, self._open, session_id, self._clock.now())
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_release_unclaimed)  # or the lock would never be freed
            raise

    async def read(self, session_id: str) -> SessionSnapshot:
        """Read a session without its lock; a torn tail is passed over."""
        path, _, image = await asyncio.to_thread(self._read, session_id)
        return SessionSnapshot(image.header, tuple(image.events), str(path))

    async def fork(self, parent_id: str, child_id: str) -> SessionHeader:
        """Make a child in the parent's project, its file durable and whole when this returns."""
        return await asyncio.to_thread(self._fork, parent_id, child_id, self._clock.now())

    async def session_ids(self) -> list[str]:
        """The ids of all folders that hold a log, good or bad."""
        return await asyncio.to_thread(lambda: sorted(set(self._ids())))

    def _open(self, session_id: str, now: Instant) -> JsonlSession:
        name = encode_id(session_id)
        folder = self._find(name) or self._root / NO_PROJECT / name
        with _coded(folder, StoreErrorCode.STORE_UNAVAILABLE, "the session cannot be opened"):
            _refuse_link(folder)
            self._make_root(self._root)
            lock = SessionLock.acquire(folder)
            try:
                return self._open_locked(canonical_id(session_id), folder, lock, now)
            except BaseException:
                lock.release(keep=_holds_log(folder))
                raise

    def _open_locked(
        self, session_id: str, folder: Path, lock: SessionLock, now: Instant
    ) -> JsonlSession:
        if os.path.lexists(folder / COMPRESSED_NAME):
            raise StoreError(
                StoreErrorCode.UNSUPPORTED_LOG,
                "a compressed log can be read but not written; fork it to go on from it",
                where=str(folder / COMPRESSED_NAME),
            )
        try:
            descriptor = open_file(folder / LOG_NAME, os.O_RDWR)
        except FileNotFoundError:
            (folder / TEMPORARY_NAME).unlink(missing_ok=True)  # of an owner that died
            header = SessionHeader(session_id, now, extra=dict(_NEW_EXTRA))
            file = LogFile(folder, self._disk, header_line(header))
            return JsonlSession(header, [], self._clock, file=file, lock=lock, torn=None)
        try:
            content = read_file(descriptor)
            image = _image(content, folder / LOG_NAME)
            file = LogFile.adopt(folder, self._disk, descriptor, image.size, len(content))
        except BaseException:
            os.close(descriptor)
            raise
        return JsonlSession(
            image.header,
            image.events,
            self._clock,
            file=file,
            lock=lock,
            torn=image.torn,
        )

    def _read(self, session_id: str) -> tuple[Path, bytes, LogImage]:
        """Read a log: where it is, its text (decompressed if it was), and what that says."""
        name = encode_id(session_id)
        folder = self._find(name)
        if folder is None:
            raise StoreError(
                StoreErrorCode.SESSION_NOT_FOUND, "there is no such session", where=name
            )
        plain, compressed = folder / LOG_NAME, folder / COMPRESSED_NAME
        path = compressed if os.path.lexists(compressed) else plain
        if path == compressed and os.path.lexists(plain):
            raise StoreError(
                StoreErrorCode.UNSUPPORTED_LOG,
                "a plain and a compressed log lie side by side; one of them has to go",
                where=str(folder),
            )
        with _coded(path, StoreErrorCode.STORE_UNAVAILABLE, "the log cannot be read"):
            _refuse_link(folder)
            descriptor = open_file(path, os.O_RDONLY)
            try:
                content = read_file(descriptor)
            finally:
                os.close(descriptor)
        if path == compressed:
            content = decompress(content, str(path))
        return path, content, _image(content, path)

    def _fork(self, parent_id: str, child_id: str, now: Instant) -> SessionHeader:
        child = encode_id(child_id)
        path, content, image = self._read(parent_id)
        if self._find(child) is not None:
            raise _exists(child)
        folder = path.parent.with_name(child)
        length = len(image.events)
        header = SessionHeader(
            id=canonical_id(child_id),
            created_at=now,
            parent=image.header.id,
            seed_length=length,
            cwd=image.header.cwd,  # the child lies in the same project, which it gave its name
            extra=dict(_NEW_EXTRA),
        )
        lines = content[image.header_size : image.size] + event_line(
            SessionEvent(END_SEED, {}, seq=length, time=now)
        )
        with _coded(folder, StoreErrorCode.WRITE_FAILED, "the fork could not be written"):
            _refuse_link(folder)
            try:
                lock = SessionLock.acquire(folder)
            except StoreError as error:
                raise _exists(child) from error  # new, and open for writing right now
            file = LogFile(folder, self._disk, header_line(header))
            try:
                file.commit(lines)
            except FileExistsError as error:
                raise _exists(child) from error
            finally:
                file.close()
                lock.release(keep=_holds_log(folder))
        return header

    def _find(self, name: str) -> Path | None:
        """The folder that holds that session's log, in whichever project it is."""
        found = [project / name for project in self._projects() if _holds_log(project / name)]
        if len(found) > 1:
            raise StoreError(
                StoreErrorCode.CORRUPT_LOG,
                f"the session lies in {len(found)} projects; one of them has to go",
                where=str(found[0]),
            )
        return found[0] if found else None

    def _ids(self) -> Iterator[str]:
        for project in self._projects():
            with contextlib.suppress(OSError):  # one bad project does not hide the others
                for folder in project.iterdir():
                    session_id = decode_id(folder.name)
                    if session_id is not None and _holds_log(folder):
                        yield session_id

    def _projects(self) -> list[Path]:
        with (
            _coded(self._root, StoreErrorCode.STORE_UNAVAILABLE, "the root cannot be listed"),
            contextlib.suppress(FileNotFoundError),
            os.scandir(self._root) as entries,
        ):
            return sorted(Path(e.path) for e in entries if e.is_dir(follow_symlinks=False))
        return []

    def _make_root(self, folder: Path) -> None:
        if not folder.is_dir():
            self._make_root(folder.parent)
            make_folder(folder)
            self._disk.sync_folder(folder.parent)


def _image(content: bytes, path: Path) -> LogImage:
    image = read_log(content, str(path))
    if encode_id(image.header.id) != path.parent.name:
        raise StoreError(
            StoreErrorCode.CORRUPT_LOG,
            "the header names another session than the folder",
            where=str(path),
            line=1,
            offset=0,
        )
    return image


def _holds_log(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in (LOG_NAME, COMPRESSED_NAME))


def _refuse_link(folder: Path) -> None:
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "a symbolic link", str(folder))


def _exists(name: str) -> StoreError:
    return StoreError(StoreErrorCode.SESSION_EXISTS, "there is such a session", where=name)


@contextlib.contextmanager
def _coded(where: Path, code: StoreErrorCode, message: str) -> Iterator[None]:
    """Give errors of the system a code; links are always a matter of the log."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            code, message = StoreErrorCode.UNSUPPORTED_LOG, "symbolic links are not followed"
        reason = f"{message}: {error.strerror}" if error.strerror else message
        raise StoreError(code, reason, where=str(where)) from error


def _release_unclaimed(opening: "asyncio.Future[JsonlSession]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result()._release()  # noqa: SLF001 - the session has no other owner yet
