"""What becomes of a write that no fsync has confirmed, when the power goes."""

import random
from enum import StrEnum, unique
from typing import Final

from attrs import frozen


@unique
class Fate(StrEnum):
    """How much of one pending write the disk holds afterwards."""

    WHOLE = "whole"
    LOST = "lost"
    TORN = "torn"
    """The beginning of it, up to some byte."""
    PADDED = "padded"
    """The beginning of it, and NUL for the rest: the size was saved, the data was not."""
    HOLED = "holed"
    """NUL for the beginning, and the rest of it: its blocks were saved out of order."""
    DOUBLED = "doubled"
    """All of it, and all of it once more behind."""


_CHOICES: Final = (
    *(Fate.WHOLE,) * 4,
    *(Fate.LOST,) * 3,
    *(Fate.TORN,) * 4,
    Fate.PADDED,
    Fate.PADDED,
    Fate.HOLED,
    Fate.DOUBLED,
)


@frozen
class Write:
    """Bytes that were written at an offset."""

    offset: int
    data: bytes


@frozen
class Cut:
    """A file that was cut to a size."""

    size: int


Pending = Write | Cut


def written(content: bytes, write: Write) -> bytes:
    """The content of a file after a write; a gap before it is NUL."""
    before = content[: write.offset].ljust(write.offset, b"\0")
    return before + write.data + content[write.offset + len(write.data) :]


def fall(write: Write, fate: Fate, byte: int) -> bytes:
    """What the disk holds of a write: where it was cut, `byte` says."""
    data = write.data
    match fate:
        case Fate.WHOLE:
            return data
        case Fate.LOST:
            return b""
        case Fate.TORN:
            return data[:byte]
        case Fate.PADDED:
            return data[:byte].ljust(len(data), b"\0")
        case Fate.HOLED:
            return b"\0" * byte + data[byte:]
        case Fate.DOUBLED:
            return data + data


def after_all(content: bytes, pending: list[Pending]) -> bytes:
    """The content once everything pending is on the disk."""
    for each in pending:
        content = written(content, each) if isinstance(each, Write) else content[: each.size]
    return content


def after_power_cut(content: bytes, pending: list[Pending], chance: random.Random) -> bytes:
    """The content that a power cut leaves: each pending change has a fate of its own."""
    for each in pending:
        if isinstance(each, Cut):
            content = content[: each.size] if chance.random() < 1 / 2 else content
            continue
        part = fall(each, chance.choice(_CHOICES), chance.randint(0, len(each.data)))
        if part:
            content = written(content, Write(each.offset, part))
    return content
