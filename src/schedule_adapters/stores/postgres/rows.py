"""Log lines as rows of the table. No I/O."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from uuid import UUID

from attrs import frozen

from schedule_adapters.stores.log_format import parse_events
from schedule_core.ports import SessionEvent
from schedule_core.text import json_text


@frozen
class Row:
    """One line of a log.

    Attributes:
        seq: of the first event on it.
        event_id: the same whenever its writer writes it, and no other writer's.
        type: of that event, as JSON writes it, for it may hold what a column cannot.
        line: without its newline.
    """

    seq: int
    event_id: UUID
    type: str
    line: str


def rows_of(lines: bytes, writer: UUID, events: Iterable[SessionEvent] | None = None) -> list[Row]:
    """The rows of whole lines.

    Args:
        lines: each with its newline; none of them bad.
        writer: whose lines they are.
        events: one for each line, if they are known; else the lines are read.
    """
    texts = lines.split(b"\n")[:-1]
    heads = _heads(texts) if events is None else events
    return [
        Row(head.seq, _event_id(text, writer), json_text(head.type)[1:-1], text.decode())
        for text, head in zip(texts, heads, strict=True)
    ]


def _heads(texts: Iterable[bytes]) -> Iterator[SessionEvent]:
    return (parse_events(text)[0] for text in texts)


def _event_id(text: bytes, writer: UUID) -> UUID:
    # A line holds its seq, so one writer has no two equal ones; and none is kept in memory.
    return UUID(bytes=blake2b(text, digest_size=16, key=writer.bytes).digest())
