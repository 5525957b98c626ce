"""Blocks of lines read by native code; there is none where the package was built without it."""

from schedule_adapters.doctor._plain_lines import read_block

__all__ = ["read_block", "read_line"]


def read_line(line: bytes, seq: int) -> bool:
    """Tell whether a line is an event of that number that means nothing to reminders."""
    _, changes, odd = read_block(line + b"\n", seq)
    return not changes and not odd
