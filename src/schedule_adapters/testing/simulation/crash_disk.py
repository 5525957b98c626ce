"""A disk that knows what is durable on it, fails on order, and can be crashed.

The files are real ones, in a folder in memory; beside them stands what a power cut would
leave: of each file what its last good fsync confirmed, of each folder the names that were
there when it was last synced. A file that was never synced has no content, and a name that
was never synced may be gone, whatever the system shows while it runs.
"""

import errno
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from attrs import define, field, frozen

from schedule_adapters.stores.disk import Disk
from schedule_adapters.testing.simulation.fates import (
    Cut,
    Pending,
    Write,
    after_all,
)
from schedule_adapters.testing.simulation.loop import ProcessDied
from schedule_adapters.testing.simulation.luck import Chance, Crash, Luck
from schedule_adapters.testing.simulation.odds import CALM


@define
class _File:
    """What is known of one file: its durable content, and what was done to it since."""

    durable: bytes = b""
    pending: list[Pending] = field(factory=list)


@frozen
class _Entry:
    """One name in a folder, as it is left by a crash."""

    path: Path
    inode: int
    content: bytes | None  # None: a folder
    file: _File


class CrashDisk(Disk):
    """The file system under one root.

    Attributes:
        odds: how often its calls fail.
        faults: how many faults of each kind it had.
        points: at how many places the process could have died in it so far.
        on_fault: told of each fault.
        dies_at: asked at each of these places whether the process dies there.
        luck: decides what a crash leaves.
    """

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root = root
        self.odds = CALM
        self.faults: Counter[str] = Counter()
        self.points = 0
        self.on_fault: Callable[[], None] = lambda: None
        self.dies_at: Callable[[int], bool] = lambda _: chance.random() < self.odds.crash_in_disk
        self.luck: Luck = Chance(chance)
        self._chance = chance
        self._files: dict[int, _File] = {}
        self._names: dict[Path, dict[str, int]] = {}  # by folder, as last synced
        self._folders: set[int] = set()  # which numbers are folders
        self._full = False  # the next write meets the end of the disk
        self._left: list[_Entry] | None = None  # what the crash in a call leaves
        self._crash: Crash | None = None

    # The calls.

    def write(self, descriptor: int, data: memoryview, offset: int) -> int:
        """Write some of it."""
        self._point()
        file = self._file(descriptor)
        fits = len(data)
        if self._full or self._fails(self.odds.full, "full disk"):
            if self._full or fits < 2:  # noqa: PLR2004 - nothing is shorter than one byte
                self._full = False
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._full = True
            fits = self._chance.randrange(1, fits)
        self.points += 1
        dies = self.dies_at(self.points)
        if dies:
            fits = self.luck.written(fits)
        if fits:
            super().write(descriptor, data[:fits], offset)
            file.pending.append(Write(offset, bytes(data[:fits])))
        if dies:
            self._die()
        self._point()
        return fits

    def fsync(self, descriptor: int) -> None:
        """Make what is pending in a file durable; one that fails forgets it for good."""
        self._point()
        file = self._file(descriptor)
        pending, file.pending = file.pending, []
        if self._fails(self.odds.fsync, "failed fsync"):
            file.durable = self.luck.content(file.durable, pending)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        file.durable = after_all(file.durable, pending)
        self._point()

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file."""
        self._point()
        if self._fails(self.odds.truncate, "failed cut"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        file = self._file(descriptor)
        super().truncate(descriptor, size)
        file.pending.append(Cut(size))
        self._point()

    def drop_cache(self, descriptor: int) -> None:
        """Show what the disk holds: bytes that a failed fsync has lost are gone.

        What is still to be written stays, as the system never drops that.
        """
        self._point()
        if os.fstat(descriptor).st_ino in self._files:
            file = self._file(descriptor)
            content = after_all(file.durable, file.pending)
            os.pwrite(descriptor, content, 0)
            os.ftruncate(descriptor, len(content))
        self._point()

    def publish(self, temporary: Path, path: Path) -> None:
        """Give a name that nothing has."""
        self._point()
        if self._fails(self.odds.names, "no name"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.link(temporary, path)
        self._point()
        temporary.unlink()
        self._point()

    def replace(self, temporary: Path, path: Path) -> None:
        """Give a name that an older file has."""
        self._point()
        if self._fails(self.odds.names, "no name"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().replace(temporary, path)
        self._point()

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder durable."""
        self._point()
        if self._fails(self.odds.names, "failed fsync of a folder"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._names[folder] = self._listing(folder)
        self._point()

    # The crash.

    def crash(self) -> Crash:
        """Give the root what the end of the process leaves; call it once that is all over.

        A process that is killed leaves all it wrote, durable or not. A power cut leaves what
        is durable, and of everything else what each piece's fate was.
        """
        self._take_down()
        assert self._left is not None
        assert self._crash is not None
        left, kind = self._left, self._crash
        self._left = self._crash = None
        _close_descriptors(self.root)
        shutil.rmtree(self.root)
        self.root.mkdir()
        self._put_back(left, kind)
        return kind

    def note_death(self) -> None:
        """The process is dead, and what there is now is what it leaves."""
        self._take_down()

    def _point(self) -> None:
        if self._left is not None:  # whoever dies tidies up; none of that has an effect
            raise OSError(errno.EIO, "the process is dead")
        self.points += 1
        if self.dies_at(self.points):
            self._die()

    def _die(self) -> None:
        self._take_down()
        raise ProcessDied

    def _take_down(self) -> None:
        if self._left is None:
            self._crash = self.luck.crash()
            keep = self._after_kill if self._crash == "killed" else self._after_power_cut
            self._left = keep(self.root)

    def _after_kill(self, folder: Path) -> list[_Entry]:
        entries = []
        for name, inode in sorted(self._listing(folder).items()):
            path = folder / name
            if inode in self._folders:
                entries += [_Entry(path, inode, None, _File()), *self._after_kill(path)]
            else:
                file = self._files.get(inode, _File())
                entries.append(_Entry(path, inode, path.read_bytes(), file))
        return entries

    def _after_power_cut(self, folder: Path) -> list[_Entry]:
        now, durable = self._listing(folder), self._names.get(folder, {})
        contents: dict[int, bytes] = {}  # a file with two names has one fate
        entries = []
        for name in sorted(now.keys() | durable.keys()):
            inode = (now if self.luck.keeps() else durable).get(name)
            if inode is None:
                continue
            path = folder / name
            if inode in self._folders:
                entries += [_Entry(path, inode, None, _File()), *self._after_power_cut(path)]
                continue
            if inode not in contents:
                file = self._files.get(inode, _File())
                contents[inode] = self.luck.content(file.durable, file.pending)
            entries.append(_Entry(path, inode, contents[inode], _File(contents[inode])))
        return entries

    def _put_back(self, left: list[_Entry], kind: Crash) -> None:
        old_files, old_names = self._files, self._names
        self._files, self._names = {}, {}
        paths: dict[int, Path] = {}
        for entry in left:
            if entry.content is None:
                entry.path.mkdir()
            elif entry.inode in paths:
                os.link(paths[entry.inode], entry.path)
            else:
                entry.path.write_bytes(entry.content)
                if entry.inode in old_files:  # not the lock, which is nobody's data
                    self._files[entry.path.stat().st_ino] = entry.file
            paths.setdefault(entry.inode, entry.path)
            self._listing(entry.path.parent)  # takes note of the new folders
        if kind == "power cut":
            folders = {self.root, *(entry.path for entry in left if entry.content is None)}
            self._names = {folder: self._listing(folder) for folder in folders}
            return
        new = {inode: path.stat().st_ino for inode, path in paths.items()}
        for folder, names in old_names.items():
            self._names[folder] = {name: new.get(inode, -inode) for name, inode in names.items()}
            for inode in names.values():  # a durable name of what the system shows no more
                if inode in new:
                    continue
                self._files[-inode] = old_files.get(inode, _File())
                if inode in self._folders:
                    self._folders.add(-inode)

    # What is known.

    def _file(self, descriptor: int) -> _File:
        status = os.fstat(descriptor)
        if status.st_size == 0 or status.st_ino not in self._files:
            # A new file; its number may have belonged to one that is gone.
            self._files[status.st_ino] = _File()
        return self._files[status.st_ino]

    def _listing(self, folder: Path) -> dict[str, int]:
        if not folder.is_dir():
            return {}
        with os.scandir(folder) as entries:
            found = {entry.name: (entry.inode(), entry.is_dir()) for entry in entries}
        self._folders.update(inode for inode, is_folder in found.values() if is_folder)
        return {name: inode for name, (inode, _) in found.items()}

    def _fails(self, odds: float, what: str) -> bool:
        fails = odds > 0 and self._chance.random() < odds
        if fails:
            self.faults[what] += 1
            self.on_fault()
        return fails


def _close_descriptors(root: Path) -> None:
    """Close what a dead process left open under the root; its locks go with it."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        try:
            target = entry.readlink()
        except OSError:
            continue  # the descriptor of the listing itself
        if target.is_relative_to(root):
            os.close(int(entry.name))
