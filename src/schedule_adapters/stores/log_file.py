"""One log file and the one handle that writes it: what is durable, and what after a failure.

- A write that fails is cut back to what was durable; the handle stays good.
- A failed fsync, or a failed cut, poisons the handle for good: the page cache may show bytes
  that the disk will never hold, and a second fsync may report success for them. Such a file
  is only left by writing its durable part and what is pending to a new one (decision 11).
"""

import contextlib
import errno
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Final

from schedule_adapters.stores.disk import Disk, open_file, read_file

LOG_NAME: Final = "session.jsonl"
TEMPORARY_NAME: Final = "session.jsonl.tmp"
"""One fixed name: only the owner of the session's lock writes there."""


class LogFile:
    """The log of one session, to be written by the owner of its lock. Every method blocks.

    Attributes:
        path: where the log is, or will be once something is committed.
        fsyncs: how often commits synced the log itself; folders and saved tails do not count.
    """

    def __init__(self, folder: Path, disk: Disk, header_line: bytes) -> None:
        self.path = folder / LOG_NAME
        self.fsyncs = 0
        self._disk = disk
        self._header_line = header_line
        self._descriptor: int | None = None  # None until there is a file
        self._size = 0  # bytes known durable; 0 means not even the header
        self._end = 0  # bytes in the file; more than `_size` only before the torn tail is cut
        self._tail_saved = False
        self._poisoned = False

    @classmethod
    def adopt(cls, folder: Path, disk: Disk, descriptor: int, size: int, end: int) -> "LogFile":
        """The existing log behind an open descriptor; bytes `size` to `end` are its torn tail.

        Its content is durable already (see `JsonlStore.open`); its name is made so here.

        Raises:
            OSError: that is not certain; the descriptor stays the caller's.
        """
        file = cls(folder, disk, b"")
        file._sync_name()
        file._descriptor, file._size, file._end = descriptor, size, end
        return file

    @property
    def exists(self) -> bool:
        """Whether the log has its name, durably or not."""
        return self._descriptor is not None

    def commit(self, lines: bytes) -> None:
        """Make further lines durable, after everything committed before.

        Raises:
            OSError: that is not certain. They may be committed again, alone or with more
                lines behind them, and then stand in the log once.
        """
        if self._descriptor is None:
            self._write_anew(self._header_line + lines, self._disk.publish)
            return
        if self._end > self._size:
            self._cut_tail(self._descriptor)
        if self._poisoned:
            self._write_anew(self._durable_part(self._descriptor) + lines, self._disk.replace)
        else:
            self._extend(self._descriptor, lines)

    def close(self) -> None:
        """Close the handle; the file is not to be used after that.

        A poisoned one is cut to its durable part: the next owner would read lines from the
        page cache that the disk may never hold, and build on them.
        """
        if self._descriptor is None:
            return
        if self._poisoned and self._size > 0:
            with contextlib.suppress(OSError):
                self._disk.truncate(self._descriptor, self._size)
        os.close(self._descriptor)

    def _extend(self, descriptor: int, lines: bytes) -> None:
        if os.fstat(descriptor).st_size != self._size:
            raise OSError(errno.EBUSY, "another program wrote to the log", str(self.path))
        try:
            self._write(descriptor, lines, self._size)
        except BaseException:
            self._cut_back(descriptor)
            raise
        self._sync(descriptor)
        self._size = self._end = self._size + len(lines)

    def _cut_back(self, descriptor: int) -> None:
        try:
            self._disk.truncate(descriptor, self._size)
        except OSError:
            self._poisoned = True

    def _write_anew(self, content: bytes, give_name: Callable[[Path, Path], None]) -> None:
        temporary = self.path.with_name(TEMPORARY_NAME)
        temporary.unlink(missing_ok=True)  # of an owner that died
        descriptor = open_file(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            self._write(descriptor, content, 0)
            self._sync(descriptor)
            give_name(temporary, self.path)
        except BaseException:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)
            raise
        # From here on the new file is the log, and begins with what was durable before.
        self._poisoned = True  # until its name is durable too
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = descriptor
        self._sync_name()
        self._poisoned = False
        self._size = self._end = len(content)

    def _sync_name(self) -> None:
        for folder in self.path.parents[:3]:  # the session's, the project's, the root
            self._disk.sync_folder(folder)

    def _durable_part(self, descriptor: int) -> bytes:
        if self._size == 0:
            return self._header_line
        durable = read_file(descriptor)[: self._size]
        if len(durable) < self._size:
            raise OSError(errno.EIO, "the durable part of the log is gone", str(self.path))
        return durable

    def _cut_tail(self, descriptor: int) -> None:
        """Save the torn tail aside, then cut it: new lines are never glued to it."""
        if not self._tail_saved:
            self._save_tail(read_file(descriptor)[self._size :])
            self._tail_saved = True
        self._disk.truncate(descriptor, self._size)
        self._end = self._size
        # Durable before anything is written over it, so that no crash can mix the two.
        self._sync(descriptor)

    def _save_tail(self, tail: bytes) -> None:
        for number in count():
            path = self.path.with_name(f"{LOG_NAME}.torn-{self._size}-{number}")
            try:
                descriptor = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
                break
            except FileExistsError:
                continue
        try:
            self._write(descriptor, tail, 0)
            self._disk.fsync(descriptor)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        self._disk.sync_folder(path.parent)

    def _write(self, descriptor: int, data: bytes, offset: int) -> None:
        """Write all of it: a full disk shows first as a short write, not as an error."""
        view = memoryview(data)
        while view:
            written = self._disk.write(descriptor, view, offset)
            if written < 1:
                raise OSError(errno.EIO, "nothing was written", str(self.path))
            view = view[written:]
            offset += written

    def _sync(self, descriptor: int) -> None:
        self.fsyncs += 1
        try:
            self._disk.fsync(descriptor)
        except OSError:
            self._poisoned = True
            raise
