"""The system calls that decide whether something is durable, as one seam.

Tests and the simulator subclass `Disk` to make a call fail; nothing else is patched.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path

_PRIVATE_FILE = 0o600
_PRIVATE_FOLDER = 0o700


class Disk:
    """The real file system; each method raises `OSError` when it cannot do its one thing."""

    def write(self, descriptor: int, data: memoryview, offset: int) -> int:
        """Write some of the data at the offset; gives how many bytes that were."""
        return os.pwrite(descriptor, data, offset)

    def fsync(self, descriptor: int) -> None:
        """Make the content of a file durable."""
        os.fsync(descriptor)

    def drop_cache(self, descriptor: int) -> None:
        """Let the next read of a file show what the disk holds.

        After a failed fsync the page cache shows bytes that the disk never got, and calls them
        written: no later fsync can tell. Best effort where the system only takes it as advice.
        """
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file to a size."""
        os.ftruncate(descriptor, size)

    def publish(self, temporary: Path, path: Path) -> None:
        """Give a finished file its name, never over another file."""
        os.link(temporary, path)
        with contextlib.suppress(OSError):  # a second name left behind harms nobody
            temporary.unlink()

    def replace(self, temporary: Path, path: Path) -> None:
        """Give a finished file its name in place of the file that has it."""
        temporary.replace(path)

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder durable."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_file(path: Path, flags: int) -> int:
    """Open a private regular file, never through a symbolic link; gives the descriptor.

    Raises:
        OSError: as `os.open`; ELOOP for a link, EINVAL for anything else than a file.
    """
    # O_NONBLOCK matters only for what is refused: opening a pipe would wait for its other end.
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, _PRIVATE_FILE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


def read_file(descriptor: int) -> bytes:
    """The whole content of an open file."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", closefd=False) as file:
        return file.read()


def make_folder(path: Path) -> None:
    """Make a private folder, and its missing parents as private ones."""
    if not path.is_dir():
        make_folder(path.parent)
        with contextlib.suppress(FileExistsError):
            path.mkdir(_PRIVATE_FOLDER)
