"""The bytes of a log as blocks of whole lines, whichever of the formats they are in.

The format is told by the content, never by a name.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum, unique
from io import RawIOBase
from itertools import chain
from typing import BinaryIO, Final

from schedule_adapters.stores.zstd_frames import MAGIC, FrameReader

BLOCK: Final = 1 << 16
"""Bytes read at once: small enough to stay in the processor's cache until they are decoded."""


@unique
class LogFormat(StrEnum):
    """How a log is written."""

    PLAIN = "plain"
    PACKED = "packed"
    """Some lines stand for several events."""
    ZSTD = "zstd"


class LogSource:
    """One log, read once from its start to its end; `source` need not be seekable.

    Attributes:
        compressed: known after the first block.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._frames: FrameReader | None = None

    @property
    def compressed(self) -> bool:
        """Whether it is a sequence of Zstandard frames."""
        return self._frames is not None

    @property
    def torn_frame(self) -> int | None:
        """Where an incomplete last frame begins, after the last block."""
        return None if self._frames is None else self._frames.torn_at

    def blocks(self) -> Iterator[bytes]:
        """Give the lines, newlines included; only the last block may end without one.

        Raises:
            StoreError: as `FrameReader`.
        """
        start = _read_some(self._source, len(MAGIC))
        if start == MAGIC:
            self._frames = FrameReader(_Joined(start, self._source), "")
            return _whole_lines(self._frames)
        pieces = iter(lambda: self._source.read(BLOCK), b"")
        return _whole_lines(chain([start], pieces))


class _Joined(RawIOBase):
    """Bytes that were read to know the format, and the rest behind them."""

    def __init__(self, start: bytes, rest: BinaryIO) -> None:
        super().__init__()
        self._start = start
        self._rest = rest

    def read(self, size: int = -1) -> bytes:
        start, self._start = self._start, b""
        return start or self._rest.read(size)


def _read_some(source: BinaryIO, size: int) -> bytes:
    """Read that many bytes unless the source ends; a pipe may give fewer at a time."""
    data = b""
    while len(data) < size and (more := source.read(size - len(data))):
        data += more
    return data


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes | memoryview] = []
    for piece in pieces:
        end = piece.rfind(b"\n") + 1
        if end == 0:
            held.append(piece)
            continue
        held.append(memoryview(piece)[:end])  # copied once, by the join
        yield b"".join(held)
        held = [piece[end:]]
    if rest := b"".join(held):
        yield rest
