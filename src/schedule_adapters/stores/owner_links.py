"""The exclusive right to write each of very many sessions, for a handful of descriptors.

A store takes a *seat*: a file that it keeps locked as long as it lives. The right to a session
is a hard link to that file under the session's name: making one is atomic, and fails where
there is one. The system frees a lock when its process dies, so a link to a seat that is not
locked was left behind, and is taken away.

Not a byte-range lock for each session: the kernel keeps those of one file in a list that it
walks, and 100,000 of them take minutes.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Final

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.disk import make_folder, open_file

_SEAT_MARK: Final = "@"
"""Begins the name of each seat, and that of no encoded session id."""
_ATTEMPTS: Final = 100
"""Each further one means that one more owner left between two of our looks."""
_GUARD_WAIT_S: Final = 30.0
_GUARD_STEP_S: Final = 0.005
_PID_DIGITS: Final = 20


class OwnerLinks:
    """The rights that one store has in a folder of owners. Every method blocks for a moment.

    Any thread may call any of them.
    """

    def __init__(self, folder: Path) -> None:
        """Take a seat, making the folder if needed.

        Raises:
            OSError: the folder cannot be used; `TimeoutError` if it stays guarded.
        """
        make_folder(folder)
        self._path = folder
        self._thread_guard = Lock()
        self._leaving = Lock()
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._folder = os.open(folder, flags)
        self._seats: dict[str, int] = {}  # the name of each to its descriptor; the last is in use
        try:
            with self.guarded():
                self._remove_dead_seats()
            self._take_seat()
        except BaseException:
            self.leave()
            raise

    def claim(self, name: str) -> None:
        """Take the right to one session; never waits for its owner.

        Raises:
            StoreError: `session_locked`; in another process, or in this one.
            OSError: the folder cannot be used.
        """
        for _ in range(_ATTEMPTS):
            try:
                self._link(name)
            except FileExistsError:
                if (owner := self._living_owner(name)) is not None:
                    raise self._locked(name, f"process {owner}") from None
                self._remove_dead(name)
            else:
                return
        raise self._locked(name, "other processes")

    def release(self, name: str) -> None:
        """Give the right to one session back; nothing is left of it after `leave`."""
        with self._leaving, contextlib.suppress(FileNotFoundError):
            if self._folder == -1:
                return
            found = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
            # Somebody who emptied the folder by hand may have let another owner in.
            if any(os.path.samestat(found, os.fstat(seat)) for seat in self._seats.values()):
                os.unlink(name, dir_fd=self._folder)

    def leave(self) -> None:
        """Give the seats back, and with them every right that is left."""
        with self._leaving:
            while self._seats:
                seat, descriptor = self._seats.popitem()
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(seat, dir_fd=self._folder)
                os.close(descriptor)
            if self._folder != -1:
                os.close(self._folder)
                self._folder = -1

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Hold the folder alone, among threads and processes, for a moment.

        Raises:
            TimeoutError: somebody else holds it for too long.
        """
        with self._thread_guard:
            end = time.monotonic() + _GUARD_WAIT_S
            while not _try_lock(self._folder, fcntl.LOCK_EX):
                if time.monotonic() > end:
                    raise TimeoutError(0, "another process holds the folder", str(self._path))
                time.sleep(_GUARD_STEP_S)
            try:
                yield
            finally:
                fcntl.flock(self._folder, fcntl.LOCK_UN)

    def _link(self, name: str) -> None:
        try:
            self._link_last_seat(name)
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            self._take_seat()  # file systems bound the links of one file; ext4 at 65,000
            self._link_last_seat(name)

    def _link_last_seat(self, name: str) -> None:
        seat = next(reversed(self._seats))
        os.link(seat, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def _take_seat(self) -> None:
        seat = f"{_SEAT_MARK}{os.getpid()}-{secrets.token_hex(8)}"
        with self.guarded():  # nobody judges a seat between its making and its locking
            descriptor = open_file(self._path / seat, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            self._seats[seat] = descriptor

    def _living_owner(self, name: str) -> str | None:
        """The process whose locked seat that is; None if it is not locked, or gone."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=self._folder)
        except FileNotFoundError:
            return None
        try:
            # Shared, so that two who look at once do not take each other for the owner.
            if _try_lock(descriptor, fcntl.LOCK_SH):
                return None
            return os.pread(descriptor, _PID_DIGITS, 0).decode(errors="replace")
        finally:
            os.close(descriptor)

    def _remove_dead(self, name: str) -> None:
        """Take a link away whose owner is gone; looks again, as another may have been faster."""
        with self.guarded():
            self._remove_unlocked(name)

    def _remove_dead_seats(self) -> None:
        with os.scandir(self._folder) as entries:
            seats = [entry.name for entry in entries if entry.name.startswith(_SEAT_MARK)]
        for seat in seats:
            self._remove_unlocked(seat)

    def _remove_unlocked(self, name: str) -> None:
        """Only within the guard: a link that nobody locks there stays so."""
        if self._living_owner(name) is None:
            with contextlib.suppress(FileNotFoundError):  # an owner who leaves does the same
                os.unlink(name, dir_fd=self._folder)

    def _locked(self, name: str, owner: str) -> StoreError:
        return StoreError(
            StoreErrorCode.SESSION_LOCKED,
            f"the session is open in {owner}",
            where=str(self._path / name),
        )


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
