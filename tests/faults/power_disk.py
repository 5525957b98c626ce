"""The disk image as a FUSE file system whose power goes off at the n-th change.

Run as `python -m tests.faults.power_disk MOUNTPOINT`. Each line on standard input is one boot,
a JSON object with these members:

- `fresh`: begin with an empty disk.
- `stop_at`: the number of a change at which "stop" is said and nothing is answered until a
  further line says that whoever used the disk is dead; or null. The change may be kept.
- `is_cut`: that is a power cut: from there on every call fails.
- `fail_at`: the number of a sync of a file that fails; or null.
- `seed`: decides what is left of what was not synced, after the disk was unmounted.

It says "on" when it is mounted, and what was lost after it was unmounted.
"""

import errno
import json
import os
import random
import stat
import sys
from collections.abc import Iterator
from typing import Any, Final

import mfusepy  # type: ignore[import-untyped]  # it has annotations but no marker

from tests.faults.disk_image import Cut, DiskImage, File, Folder, Link, Node, Write, error

_BLOCK: Final = 512
_HIDDEN: Final = ".fuse_hidden"
"""To the library, removing an open file is renaming it to this, until it is closed."""


class PowerDisk(mfusepy.Operations):  # type: ignore[misc]  # untyped
    """One boot of a disk image: the calls of the kernel, until the power goes.

    Attributes:
        changes: how many changes and syncs were asked for.
        syncs: how many of those were syncs of files.
    """

    use_ns = True
    flag_nopath = 1
    flag_nullpath_ok = 1

    def __init__(self, image: DiskImage, boot: dict[str, Any]) -> None:
        self.changes = 0
        self.syncs = 0
        self._boot = boot
        self._image = image
        self._open: dict[int, Node] = {}
        self._is_on = True

    def _spend(self) -> None:
        """Take note of one change, made or about to be; it fails if the disk stops at it."""
        self._check()
        self.changes += 1
        if self.changes == self._boot["stop_at"]:
            self._is_on = not self._boot["is_cut"]
            _say("stop")
            sys.stdin.readline()
            raise error(errno.EIO)

    def _check(self) -> None:
        if not self._is_on:
            raise error(errno.EIO)

    def _node(self, path: str | None, handle: int | None) -> Node:
        if handle is not None and handle in self._open:
            return self._open[handle]
        assert path is not None
        return self._image.find(path)

    def _opened(self, handle: int) -> File:
        node = self._open[handle]
        assert isinstance(node, File)
        return node

    def _keep_open(self, node: Node) -> int:
        handle = max(self._open, default=0) + 1
        self._open[handle] = node
        return handle

    def init(self, path: str) -> None:
        """The disk is mounted."""
        _say("on")

    def getattr(self, path: str | None, fh: int | None = None) -> dict[str, Any]:
        """What `stat` says."""
        self._check()
        node = self._node(path, fh)
        size = len(node.content) if isinstance(node, File) else 0
        return {
            "st_ino": node.number,
            "st_mode": _mode(node),
            "st_nlink": 1,
            "st_size": size,
            "st_blocks": -(-size // _BLOCK),
            "st_uid": os.getuid(),
            "st_gid": os.getgid(),
        }

    def readdir(self, path: str, fh: int) -> Iterator[tuple[str, dict[str, int], int]]:
        """The names in a folder."""
        self._check()
        folder = self._node(path, fh)
        assert isinstance(folder, Folder)
        for name, node in {".": folder, "..": folder, **folder.names}.items():
            yield name, {"st_ino": node.number, "st_mode": _mode(node)}, 0

    def opendir(self, path: str) -> int:
        """Open a folder."""
        self._check()
        return self._keep_open(self._image.folder(path))

    def open(self, path: str, flags: int) -> int:
        """Open a file."""
        self._check()
        file = self._image.file(path)
        if flags & os.O_TRUNC:
            self._change(file, Cut(0))
        return self._keep_open(file)

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        """Make a new file and open it."""
        self._check()
        file = File(stat.S_IMODE(mode))
        self._rename(path, file)
        return self._keep_open(file)

    def mkdir(self, path: str, mode: int) -> int:
        """Make a new folder."""
        self._check()
        self._rename(path, Folder(stat.S_IMODE(mode)))
        return 0

    def symlink(self, target: str, source: str) -> int:
        """Make a symbolic link at `target` that says `source`."""
        self._check()
        self._rename(target, Link(source))
        return 0

    def readlink(self, path: str) -> str:
        """What a symbolic link says."""
        self._check()
        node = self._image.find(path)
        if not isinstance(node, Link):
            raise error(errno.EINVAL)
        return node.target

    def link(self, target: str, source: str) -> int:
        """Give a file a second name."""
        self._check()
        self._rename(target, self._image.file(source))
        return 0

    def unlink(self, path: str) -> int:
        """Take a name away."""
        self._check()
        self._rename(path, None)
        return 0

    def rmdir(self, path: str) -> int:
        """Remove an empty folder."""
        self._check()
        if self._image.folder(path).names:
            raise error(errno.ENOTEMPTY)
        self._rename(path, None)
        return 0

    def rename(self, old: str, new: str) -> int:
        """Move a file to another name in the same folder."""
        self._check()
        (folder, old_name), (other, new_name) = self._image.place(old), self._image.place(new)
        if folder is not other:
            raise error(errno.EXDEV)
        node = self._image.find(old)
        if new_name.startswith(_HIDDEN):
            folder.hide(old_name, new_name)
        else:
            folder.change({old_name: None, new_name: node})
        self._spend()
        return 0

    def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes:
        """Some of a file."""
        self._check()
        return bytes(self._opened(fh).content[offset : offset + size])

    def write(self, path: str | None, data: bytes, offset: int, fh: int) -> int:
        """Write to a file; not durable."""
        self._check()
        self._change(self._opened(fh), Write(offset, data))
        return len(data)

    def truncate(self, path: str | None, length: int, fh: int | None = None) -> int:
        """Give a file another size; not durable."""
        self._check()
        node = self._node(path, fh)
        assert isinstance(node, File)
        self._change(node, Cut(length))
        return 0

    def fsync(self, path: str | None, datasync: int, fh: int) -> int:
        """Make a file durable."""
        self._spend()
        node = self._open[fh]
        assert not isinstance(node, Link)
        self.syncs += isinstance(node, File)
        if isinstance(node, File) and self.syncs == self._boot["fail_at"]:
            node.fail_to_sync()
            raise error(errno.EIO)
        node.sync()
        return 0

    fsyncdir = fsync

    def release(self, path: str | None, fh: int) -> int:
        """Close."""
        self._open.pop(fh, None)
        return 0

    releasedir = release

    def utimens(self, path: str | None, times: Any = None) -> int:
        """No times are kept."""
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        """A disk with room."""
        return {"f_bsize": _BLOCK, "f_blocks": 1 << 20, "f_bavail": 1 << 20, "f_bfree": 1 << 20}

    def _change(self, file: File, how: Write | Cut) -> None:
        file.change(how)
        self._spend()

    def _rename(self, path: str, node: Node | None) -> None:
        folder, name = self._image.place(path)
        folder.change({name: node})
        self._spend()


def _mode(node: Node) -> int:
    kinds = {Folder: stat.S_IFDIR, File: stat.S_IFREG, Link: stat.S_IFLNK}
    return node.mode | kinds[type(node)]


class _Mount(mfusepy.FUSE):  # type: ignore[misc]  # untyped
    """The mount; blocks until somebody unmounts it."""

    def truncate_fuse_3(self, path: bytes | None, length: int, fip: Any) -> int:
        """Pass the handle on: a file that lost the name it was opened by has no path."""
        return int(self.ftruncate(path, length, fip))


_OPTIONS: Final[dict[str, Any]] = {
    "foreground": True,
    "nothreads": True,
    "use_ino": True,
    # The kernel keeps no sizes and no names: one file may have two names here.
    "attr_timeout": 0,
    "entry_timeout": 0,
    "negative_timeout": 0,
}


def _say(word: str, **members: object) -> None:
    sys.stdout.write(json.dumps([word, members]) + "\n")
    sys.stdout.flush()


def _main(mountpoint: str) -> None:
    image = DiskImage()
    while line := sys.stdin.readline():
        boot = json.loads(line)
        if boot["fresh"]:
            image = DiskImage()
        disk = PowerDisk(image, boot)
        _Mount(disk, mountpoint, **_OPTIONS)
        losses = image.cut_power(random.Random(boot["seed"]))  # noqa: S311 - no secret
        _say("lost", changes=disk.changes, syncs=disk.syncs, **losses)


if __name__ == "__main__":
    _main(sys.argv[1])
