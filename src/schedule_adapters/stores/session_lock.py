"""The exclusive right to write one session: `flock` on a file of its own beside the log.

`flock`, not `lockf`: the latter is lost when any code of this process opens and closes the
file. A file of its own: the log may be replaced by a new one, the lock file never is.
"""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final, Self

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.disk import make_folder, open_file

LOCK_NAME: Final = "session.lock"
_ATTEMPTS: Final = 100
"""Each further one means that one more owner left between our open and our lock."""
_PID_DIGITS: Final = 20


class SessionLock:
    """The lock of one session's folder, held until `release` or the end of the process."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self._folder = folder
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, folder: Path) -> Self:
        """Take the lock, making the folder if needed; never waits.

        Raises:
            StoreError: `session_locked`; another process, or another opener in this one.
            OSError: the folder or the file cannot be used.
        """
        path = folder / LOCK_NAME
        for _ in range(_ATTEMPTS):
            try:
                make_folder(folder)
                descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
            except FileNotFoundError:
                continue  # an owner without a log took its empty folders away
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(path, descriptor):
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                    return cls(folder, descriptor)
            except BlockingIOError:
                owner = os.pread(descriptor, _PID_DIGITS, 0).decode(errors="replace")
                os.close(descriptor)
                raise _locked(folder, f"process {owner}" if owner else "another process") from None
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # we locked a file that its last owner had removed
        raise _locked(folder, "other processes")

    def release(self, *, keep: bool) -> None:
        """Give the lock back.

        Args:
            keep: there is a log, so its lock file stays; else the file and the folders
                that are empty without it go too.
        """
        if keep:
            os.close(self._descriptor)
            return
        # Removed while still held: who opens it in between sees that it has no name any more.
        with contextlib.suppress(OSError):
            (self._folder / LOCK_NAME).unlink()
        os.close(self._descriptor)
        with contextlib.suppress(OSError):
            self._folder.rmdir()
            self._folder.parent.rmdir()


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _locked(folder: Path, owner: str) -> StoreError:
    return StoreError(
        StoreErrorCode.SESSION_LOCKED, f"the session is open in {owner}", where=str(folder)
    )
