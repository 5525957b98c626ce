"""What one life wrote down: each intention before it, each acknowledgement after it.

The page is a pipe that the parent holds, so what was written outlives the writer, whatever
kills it and whatever becomes of its disk. One entry is one JSON line, written at once.
"""

import fcntl
import json
import os
import select
import time
from typing import Any, Final, Literal

from attrs import define, field, frozen

Kind = Literal[
    "refused",  # the session could not be opened: code
    "opened",  # it is open: length and digest of the log that was found
    "append",  # an event is about to enter the live log: the event
    "try",  # a tool is about to be called: tool, arguments
    "got",  # it answered: tool, arguments, answer
    "say",  # the user is about to say something: text
    "heard",  # the model got a message: name (a reminder's id, or the text), time
    "unsaved",  # a turn was over that the disk did not take: name, code
    "room",  # the disk has room again from here on
    "crashed",  # the life failed in a way that it should not: what
    "over",  # the life ended in order
]

_PIPE_SIZE: Final = 1 << 20
"""So that no life ever waits for its reader; the most that everybody may ask for."""


@frozen
class Entry:
    """One line of a diary."""

    kind: Kind
    data: dict[str, Any]


class Pen:
    """Writes one life's diary; every entry is out of the process when `write` returns."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, kind: Kind, **data: object) -> None:
        """Write one entry."""
        line = json.dumps([kind, data], separators=(",", ":")).encode() + b"\n"
        written = os.write(self._descriptor, line)
        assert written == len(line), "the diary is full"


@define
class Diary:
    """The parent's side of one life's diary.

    Attributes:
        entries: what was read so far; whole lines only.
        ended: the writer is gone, and everything it wrote was read.
    """

    entries: list[Entry] = field(factory=list)
    ended: bool = False
    _source: int = -1
    _pending: bytes = b""

    @classmethod
    def open(cls) -> tuple["Diary", int]:
        """An empty diary, and the descriptor for its writer; the caller closes that."""
        source, sink = os.pipe()
        fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        diary = cls()
        diary._source = source
        return diary, sink

    @property
    def is_over(self) -> bool:
        """Whether that life ended in order."""
        return bool(self.entries) and self.entries[-1].kind == "over"

    def has(self, kind: Kind) -> bool:
        """Whether there is such an entry."""
        return any(entry.kind == kind for entry in self.entries)

    def of(self, kind: Kind) -> list[dict[str, Any]]:
        """The data of all entries of that kind."""
        return [entry.data for entry in self.entries if entry.kind == kind]

    def read_for(self, seconds: float) -> None:
        """Read what comes in that time, or until the writer is gone."""
        end = time.monotonic() + seconds
        while not self.ended and (left := end - time.monotonic()) > 0:
            self._read(left)

    def read_until(self, kind: Kind, count: int = 1, *, timeout_s: float = 30.0) -> bool:
        """Read until there are that many entries of that kind; tells whether there are."""
        return self._read_until(lambda: len(self.of(kind)) >= count, timeout_s)

    def read_lines(self, count: int, *, timeout_s: float = 30.0) -> bool:
        """Read until there are that many entries; tells whether there are."""
        return self._read_until(lambda: len(self.entries) >= count, timeout_s)

    def read_to_end(self, *, timeout_s: float = 60.0) -> None:
        """Read until the writer is gone."""
        self._read_until(lambda: self.ended, timeout_s)
        assert self.ended, f"the life did not end; its last words: {self.entries[-3:]}"

    def _read_until(self, is_enough: Any, timeout_s: float) -> bool:
        end = time.monotonic() + timeout_s
        while not is_enough() and not self.ended and (left := end - time.monotonic()) > 0:
            self._read(left)
        return bool(is_enough())

    def _read(self, timeout_s: float) -> None:
        if not select.select([self._source], [], [], timeout_s)[0]:
            return
        data = os.read(self._source, _PIPE_SIZE)
        if not data:
            self.ended = True
            os.close(self._source)
            return
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            kind, members = json.loads(line)
            self.entries.append(Entry(kind, members))
