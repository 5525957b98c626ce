"""A disk that remembers what was synced, and what a power cut can leave of the rest.

Strict where POSIX is: only an fsync of a file makes its content durable, only an fsync of a
folder makes its names durable. Of what was not synced a cut keeps any beginning: of the
names of each folder, and of the writes to each file, the last one torn at any byte; and
sometimes the file has its new length already, with NUL where data should be.
"""

import errno
import random
from collections import Counter
from itertools import count
from typing import Final

from attrs import define, field

_numbers = count(1)


def error(code: int) -> OSError:
    """An error of the system, by its number."""
    return OSError(code, errno.errorcode[code])


@define
class Write:
    """Some bytes at an offset."""

    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        """Do it to that content."""
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(self.data)] = self.data

    def torn(self, dice: random.Random) -> "Write":
        """A beginning of it."""
        return Write(self.offset, self.data[: dice.randrange(len(self.data) + 1)])


@define
class Cut:
    """A new size."""

    size: int

    def apply(self, content: bytearray) -> None:
        """Do it to that content."""
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))


@define(eq=False)
class File:
    """A file: its content as every process sees it, and as the disk has it."""

    mode: int
    number: int = field(factory=lambda: next(_numbers))
    content: bytearray = field(factory=bytearray)
    durable: bytes = b""
    pending: list[Write | Cut] = field(factory=list)

    def change(self, how: Write | Cut) -> None:
        """Write to it, or give it another size."""
        how.apply(self.content)
        self.pending.append(how)

    def sync(self) -> None:
        """Make durable what was changed since the last sync."""
        durable = bytearray(self.durable)
        for change in self.pending:
            change.apply(durable)
        self.durable = bytes(durable)
        self.pending.clear()

    def fail_to_sync(self) -> None:
        """Lose what was changed, as Linux does when a sync fails.

        Every process sees the changes still, but no later sync makes them durable.
        """
        self.pending.clear()

    def lose(self, dice: random.Random, losses: Counter[str]) -> None:
        """Be what a power cut leaves."""
        content, length = bytearray(self.durable), len(self.content)
        kept = dice.randrange(len(self.pending) + 1)
        for change in self.pending[:kept]:
            change.apply(content)
        if kept < len(self.pending):
            losses["writes lost"] += len(self.pending) - kept
            change = self.pending[kept]
            if isinstance(change, Write) and dice.random() < 0.5:
                change.torn(dice).apply(content)
                losses["writes torn"] += 1
            if len(content) < length and dice.random() < 0.2:
                Cut(length).apply(content)
                losses["ends of NUL"] += 1
        self.content, self.durable = content, bytes(content)
        self.pending.clear()


@define(eq=False)
class Link:
    """A symbolic link; it is durable as soon as its name is."""

    target: str
    mode: int = 0o777
    number: int = field(factory=lambda: next(_numbers))

    def lose(self, dice: random.Random, losses: Counter[str]) -> None:
        """Lose nothing."""


Names = dict[str, "Node | None"]
"""What becomes of some names at once; None: it is gone."""


@define(eq=False)
class Folder:
    """A folder: its names as every process sees them, and as the disk has them."""

    mode: int
    number: int = field(factory=lambda: next(_numbers))
    names: dict[str, "Node"] = field(factory=dict)
    durable: dict[str, "Node"] = field(factory=dict)
    pending: list[Names] = field(factory=list)

    def change(self, names: Names) -> None:
        """Give names to files, or take them away; all of it or nothing."""
        _apply(names, self.names)
        self.pending.append(names)

    def hide(self, name: str, hidden: str) -> None:
        """Take a name away from a file that is open; it has another one until it is closed."""
        self.names[hidden] = self.names[name]
        self.change({name: None})

    def sync(self) -> None:
        """Make the names durable."""
        self.durable = dict(self.names)
        self.pending.clear()

    def lose(self, dice: random.Random, losses: Counter[str]) -> None:
        """Be what a power cut leaves, with everything below."""
        names = dict(self.durable)
        kept = dice.randrange(len(self.pending) + 1)
        for change in self.pending[:kept]:
            _apply(change, names)
        losses["names lost"] += len(self.pending) - kept
        self.names, self.durable = names, dict(names)
        self.pending.clear()
        for node in {id(node): node for node in names.values()}.values():
            node.lose(dice, losses)


Node = File | Folder | Link


def _apply(change: Names, names: dict[str, Node]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


ROOT_MODE: Final = 0o700


@define
class DiskImage:
    """A tree of folders and files."""

    root: Folder = field(factory=lambda: Folder(ROOT_MODE))

    def cut_power(self, dice: random.Random) -> Counter[str]:
        """Lose what was not synced; gives the counts of what was lost."""
        losses: Counter[str] = Counter()
        self.root.lose(dice, losses)
        return +losses

    def find(self, path: str) -> Node:
        """What stands at a path."""
        node: Node = self.root
        for name in filter(None, path.split("/")):
            if not isinstance(node, Folder):
                raise error(errno.ENOTDIR)
            if name not in node.names:
                raise error(errno.ENOENT)
            node = node.names[name]
        return node

    def folder(self, path: str) -> Folder:
        """The folder at a path."""
        node = self.find(path)
        if not isinstance(node, Folder):
            raise error(errno.ENOTDIR)
        return node

    def file(self, path: str) -> File:
        """The file at a path."""
        node = self.find(path)
        if not isinstance(node, File):
            raise error(errno.EISDIR)
        return node

    def place(self, path: str) -> tuple[Folder, str]:
        """The folder that holds, or would hold, the last name of a path; and that name."""
        parent, _, name = path.rpartition("/")
        return self.folder(parent), name
