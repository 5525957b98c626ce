"""Log lines as rows of the database. No I/O.

A row is one line of the log, byte for byte, under the seq of its first event: a packed row of
the published original stands for several events and stays one row.
"""

import re
from collections.abc import Sequence
from typing import TypeAlias

from attrs import frozen

from schedule_adapters.stores.log_format import parse_events
from schedule_core.text import json_text

Row: TypeAlias = tuple[int, str, str]
"""Seq of the first event; its type, as JSON writes it inside its quotes; the line."""
_OWN_TYPE = re.compile(rb'\{"type":"((?:[^"\\]|\\.)*)"')


@frozen
class Batch:
    """Lines that enter the database together.

    Attributes:
        name: the encoded id of their session.
        header: the first line of its log, without the newline.
        after: the seq of the row before these; -1 if there is none.
        rows: the lines, in order.
        is_new: there must be no such session, nor an owner of one.
    """

    name: str
    header: str
    after: int
    rows: Sequence[Row]
    is_new: bool = False


def own_rows(lines: bytes, first_seq: int) -> list[Row]:
    """The rows of lines that this program just wrote: one event each, its type in front."""
    return [
        (seq, _own_type(line), line.decode()) for seq, line in enumerate(_split(lines), first_seq)
    ]


def foreign_rows(lines: bytes) -> list[Row]:
    """The rows of lines that were found good, whoever wrote them."""
    rows = []
    for line in _split(lines):
        event = parse_events(line)[0]
        # Escaped as in JSON: a type may hold what UTF-8 cannot.
        rows.append((event.seq, json_text(event.type)[1:-1], line.decode()))
    return rows


def _own_type(line: bytes) -> str:
    match = _OWN_TYPE.match(line)
    assert match is not None
    return match[1].decode()


def _split(lines: bytes) -> list[bytes]:
    return lines.split(b"\n")[:-1]
