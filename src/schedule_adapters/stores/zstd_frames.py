"""Compressed logs of the published original: concatenated Zstandard frames, read only.

The header line lies in a frame of its own and each durable batch in one, so an incomplete
last frame is a torn tail as a whole.
"""

import importlib
from collections.abc import Iterator
from io import BytesIO, RawIOBase
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, Final

from schedule_adapters.sessions import StoreError, StoreErrorCode

MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""The first bytes of every frame (RFC 8878, 3.1.1)."""
_CHUNK: Final = 1 << 14
"""Fed at once; what lies behind the end of a frame is copied, so this bounds that copy."""
_IN_MEMORY: Final = 1 << 24
"""How much of one frame is held in memory; a batch is far smaller."""
_PIECE: Final = 1 << 16


class FrameReader:
    """The content of the complete frames, in pieces; memory does not grow with the log.

    Attributes:
        torn_at: where the incomplete last frame begins, once all was read.
    """

    def __init__(self, source: BinaryIO | RawIOBase, where: str) -> None:
        self.torn_at: int | None = None
        self._source = source
        self._where = where
        self._zstandard = _zstandard(where)

    def __iter__(self) -> Iterator[bytes]:
        """Give the content, a frame only once it is known to be complete.

        Raises:
            StoreError: `corrupt_log`; a frame that no compressor wrote.
        """
        start, unread = 0, self._source.read(_CHUNK)
        while unread:
            with SpooledTemporaryFile(max_size=_IN_MEMORY) as content:
                frame = self._zstandard.ZstdDecompressor().decompressobj()
                position = start
                while unread and not frame.eof:
                    content.write(self._decompress(frame, unread, start))
                    position += len(unread) - len(frame.unused_data)
                    unread = frame.unused_data or self._source.read(_CHUNK)
                if not frame.eof:
                    self.torn_at = start
                    return
                content.seek(0)
                yield from iter(lambda: content.read(_PIECE), b"")
                start = position

    def _decompress(self, frame: Any, data: bytes, start: int) -> bytes:
        try:
            content: bytes = frame.decompress(data)
        except self._zstandard.ZstdError as error:
            raise StoreError(
                StoreErrorCode.CORRUPT_LOG,
                f"the compressed frame at byte {start} is damaged",
                where=self._where,
            ) from error
        return content


def decompress(data: bytes, where: str) -> bytes:
    """The content of all complete frames.

    Raises:
        StoreError: `corrupt_log`; a frame that no compressor wrote. `unsupported_log`; the
            optional package that reads them is not installed.
    """
    return b"".join(FrameReader(BytesIO(data), where))


def _zstandard(where: str) -> Any:
    try:
        return importlib.import_module("zstandard")
    except ImportError as error:
        raise StoreError(
            StoreErrorCode.UNSUPPORTED_LOG,
            "a compressed log is read after: pip install 'session-schedule[zstd]'",
            where=where,
        ) from error
