"""Where in a log its reader stands, in lines and bytes, without counting what nobody asks for."""

from attrs import define, field

from schedule_adapters.doctor.findings import Finding, FindingCode
from schedule_core.records import ScheduleId


@define
class Cursor:
    """A place in a log that is read in blocks of lines.

    Attributes:
        before: how many lines stand before the current block.
        size: how many bytes do.
        index: of the line being read, in the block.
    """

    before: int = 0
    size: int = 0
    index: int = 0
    _block: bytes = b""
    _lines: list[bytes] = field(factory=list)  # of the block, once somebody asks

    def enter(self, block: bytes) -> None:
        """Go to the first line of the next block."""
        self.index, self._block, self._lines = 0, block, []

    def leave(self, lines: int, size: int) -> None:
        """Go behind lines of that size."""
        self.before += lines
        self.size += size

    @property
    def lines(self) -> list[bytes]:
        """The lines of the block; behind the last newline comes an empty one."""
        if not self._lines:
            self._lines = self._block.split(b"\n")
        return self._lines

    @property
    def line(self) -> int:
        """The number of the line being read, from 1."""
        return self.before + self.index + 1

    @property
    def offset(self) -> int:
        """The byte at which it begins."""
        if self.index == 0:
            return self.size
        return self.size + sum(len(line) + 1 for line in self.lines[: self.index])

    def finding(
        self,
        code: FindingCode,
        message: str,
        seq: int | None = None,
        schedule_id: ScheduleId | None = None,
    ) -> Finding:
        """What is wrong with that line."""
        return Finding(code, self.line, self.offset, seq, schedule_id, message)
