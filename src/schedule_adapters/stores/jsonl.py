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

from schedule_adapters.sessions import (
    SessionHeader,
    SessionSnapshot,
    SessionText,
    StoreError,
    StoreErrorCode,
)
from schedule_adapters.stores.disk import Disk, make_folder, open_file, read_file
from schedule_adapters.stores.flushed_log import FlushedLog
from schedule_adapters.stores.folder_names import canonical_id, decode_id, encode_id
from schedule_adapters.stores.forking import forked, new_header
from schedule_adapters.stores.log_file import LOG_NAME, TEMPORARY_NAME, LogFile
from schedule_adapters.stores.log_format import header_line
from schedule_adapters.stores.log_image import LogImage, TornTail, read_log, read_text
from schedule_adapters.stores.session_lock import SessionLock
from schedule_adapters.stores.zstd_frames import decompress
from schedule_core.instants import Instant
from schedule_core.ports import Clock, SessionEvent

NO_PROJECT: Final = "_no-cwd"
"""The original's project folder of sessions without a working directory."""
COMPRESSED_NAME: Final = f"{LOG_NAME}.zstd"


class JsonlSession(FlushedLog):
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
        self._lock = lock

    @property
    def where(self) -> str:
        """The path of the log, for errors."""
        return str(self.path)

    @property
    def path(self) -> Path:
        """Where the log is, or will be once something is durable."""
        return self._file.path

    @property
    def fsyncs(self) -> int:
        """How often the log file was synced; the cost of durability."""
        return self._file.fsyncs

    def _write(self, lines: bytes, first_seq: int) -> asyncio.Future[None]:  # noqa: ARG002
        return asyncio.get_running_loop().run_in_executor(None, self._file.commit, lines)

    def _release(self) -> None:
        self._file.close()
        self._lock.release(keep=self._file.exists)


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

    async def export(self, session_id: str) -> SessionText:
        """Read a log's text; a torn tail is left out, a compressed log comes unpacked."""
        _, _, text = await asyncio.to_thread(self._text, session_id)
        return text

    async def adopt(self, text: SessionText) -> None:
        """Make a session of a text, under the project of those made here."""
        await asyncio.to_thread(self._adopt, text)

    async def session_ids(self) -> list[str]:
        """The ids of all folders that hold a log, good or bad."""
        return await asyncio.to_thread(lambda: sorted(set(self._ids())))

    async def close(self) -> None:
        """Nothing to give back: each session has its own file."""

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
            header = new_header(session_id, now)
            file = LogFile(folder, self._disk, header_line(header))
            return JsonlSession(header, [], self._clock, file=file, lock=lock, torn=None)
        try:
            # An owner that was killed before its fsync leaves lines that are not durable yet;
            # one whose fsync failed leaves lines that never will be, and only look written.
            self._disk.fsync(descriptor)
            self._disk.drop_cache(descriptor)
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

    def _text(self, session_id: str) -> tuple[Path, int, SessionText]:
        """Where a log is, how many events it holds, and its text without a torn tail."""
        path, content, image = self._read(session_id)
        lines = content[image.header_size : image.size]
        return (
            path,
            len(image.events),
            SessionText(image.header, content[: image.header_size], lines),
        )

    def _fork(self, parent_id: str, child_id: str, now: Instant) -> SessionHeader:
        encode_id(child_id)
        path, length, parent = self._text(parent_id)
        child = forked(parent, length, child_id, now)
        self._put(path.parent.parent, child)
        return child.header

    def _adopt(self, text: SessionText) -> None:
        read_text(text, str(self._root))
        self._put(self._root / NO_PROJECT, text)

    def _put(self, project: Path, text: SessionText) -> None:
        """Make a new session of a whole text, durable when this returns."""
        name = encode_id(text.header.id)
        if self._find(name) is not None:
            raise _exists(name)
        folder = project / name
        with _coded(folder, StoreErrorCode.WRITE_FAILED, "the session could not be written"):
            _refuse_link(folder)
            self._make_root(self._root)
            try:
                lock = SessionLock.acquire(folder)
            except StoreError as error:
                raise _exists(name) from error  # new, and open for writing right now
            file = LogFile(folder, self._disk, text.header_line)
            try:
                file.commit(text.lines)
            except FileExistsError as error:
                raise _exists(name) from error
            finally:
                file.close()
                lock.release(keep=_holds_log(folder))

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
        opening.result()._release_once()  # noqa: SLF001 - the session has no other owner yet
