"""A disk that fails when told to, for tests of what a store does then."""

import errno
import os
import threading
from collections import Counter
from pathlib import Path

from schedule_adapters.stores.disk import Disk


class FaultyDisk(Disk):
    """The real disk, with faults on order.

    Attributes:
        calls: how often each method was called, failures included.
        room: how many more bytes fit; None is without end. The write that meets the end is
            short, and the next one fails with ENOSPC, as on a real full disk.
        longest_write: the most bytes that one write takes.
        gate: cleared, each fsync of a file waits until it is set again.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.room: int | None = None
        self.longest_write = 1 << 30
        self.gate = threading.Event()
        self.gate.set()
        self._faults: dict[tuple[str, int], int] = {}

    def fail(self, call: str, *, skip: int = 0, code: int = errno.EIO) -> None:
        """Make one call of a method fail: the next one, or the one after `skip` more."""
        self._faults[call, self.calls[call] + skip + 1] = code

    def write(self, descriptor: int, data: memoryview, offset: int) -> int:
        """Write, as far as there is room."""
        self._enter("write")
        fits = min(len(data), self.longest_write)
        if self.room is not None:
            if self.room == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            fits = min(fits, self.room)
            self.room -= fits
        return super().write(descriptor, data[:fits], offset)

    def fsync(self, descriptor: int) -> None:
        """Sync, once the gate is open."""
        self.gate.wait()
        self._enter("fsync")
        super().fsync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut."""
        self._enter("truncate")
        super().truncate(descriptor, size)

    def publish(self, temporary: Path, path: Path) -> None:
        """Give a name that nothing has."""
        self._enter("publish")
        super().publish(temporary, path)

    def replace(self, temporary: Path, path: Path) -> None:
        """Give a name that an older file has."""
        self._enter("replace")
        super().replace(temporary, path)

    def sync_folder(self, folder: Path) -> None:
        """Sync names."""
        self._enter("sync_folder")
        super().sync_folder(folder)

    def _enter(self, call: str) -> None:
        self.calls[call] += 1
        code = self._faults.pop((call, self.calls[call]), None)
        if code is not None:
            raise OSError(code, os.strerror(code))
