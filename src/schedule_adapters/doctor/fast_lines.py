"""A block of lines decoded in one call, with msgspec: the fast way to the exact answer.

It may refuse whatever it likes: what it refuses is read again by `stores.log_format` and
`schedule_core.decoder`, which decide. So there is one rule here: **never accept what they
refuse, and give the same values.** Where msgspec is laxer than they are:

- It reads a sequence of values, not lines. Each line is therefore made an array of one, as
  `[line]`. Nothing but white space may stand between `]` and `[` at the top level, and a
  newline may not stand between them anywhere else: so each newline ends a value, and as many
  values as lines mean one value a line.
- It does not check UTF-8 in what it skips: the block is decoded once.
- It skips integers of any length and nesting up to the interpreter's own limit. Either needs a
  long line, even if the member is repeated and only its last value is kept: blocks with a long
  line are read line by line.
- The data of several events is decoded as one array: each was found to be one value before.
- Bounds of integers are given as constraints; `seq` is compared with the one expected, and
  `ignorable` with true.
"""

import re
from itertools import repeat
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta, MsgspecError, Raw, Struct
from msgspec.json import Decoder

from schedule_adapters.doctor.decoders import WATCHED, Block, ChangeRow
from schedule_adapters.stores.log_format import MAX_DEPTH, may_be_deep
from schedule_core.instants import parse_instant
from schedule_core.ports import SCHEDULE_EVENT_TYPE
from schedule_core.text import MAX_SAFE_INTEGER, is_trimmed

_LONG: Final = 2 * MAX_DEPTH
"""A line nested deeper than `MAX_DEPTH` is longer: it closes whatever it opens."""
_LONG_NUMBER = re.compile(rb"[0-9]{640}")
"""`int()` refuses 4,300 digits, or fewer where so configured, but never fewer than 640."""
_REFUSALS: Final = (MsgspecError, ValueError, RecursionError)

_Time = Annotated[int, Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]
_Delay = Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)]


class Envelope(Struct, forbid_unknown_fields=True, gc=False):
    """An event whose `data` is JSON that nobody has looked at yet; `seq` is any integer."""

    type: str
    seq: int
    time: _Time
    data: Raw
    ignorable: bool = True


class _Record(Struct, tag_field="kind", rename="camel", forbid_unknown_fields=True, gc=False):
    id: str
    prompt: str
    scheduled_at: str


class _After(_Record, tag="after"):
    after_seconds: _Delay


class _At(_Record, tag="at"):
    pass


class _Change(Struct, tag_field="operation", forbid_unknown_fields=True, gc=False):
    version: Literal[1]


class _Create(_Change, tag="create"):
    schedule: _After | _At


class _Delete(_Change, tag="delete"):
    operation: ClassVar[Literal["delete"]] = "delete"
    id: str


class _Dispatch(_Change, tag="dispatch"):
    operation: ClassVar[Literal["dispatch"]] = "dispatch"
    id: str


class ChangeEnvelope(Struct, forbid_unknown_fields=True, gc=False):
    """A schedule event, all of it read at once."""

    type: Literal["schedule/change"]
    seq: int
    time: _Time
    data: _Create | _Delete | _Dispatch
    ignorable: bool = True


_BLOCK: Final = Decoder(tuple[Envelope])
_CHANGE_BLOCK: Final = Decoder(tuple[ChangeEnvelope])
_LINE: Final = Decoder(Envelope)
_CHANGES: Final = Decoder(list[_Create | _Delete | _Dispatch])

_CHANGE_START: Final = b'{"type":"schedule/change"'


def read_block(block: bytes, first: int) -> Block | None:
    """Read whole lines at once; None unless each is one event, numbered from `first` on."""
    rows: list[tuple[Any]] | None = None
    if block.startswith(_CHANGE_START):  # then they may all be: worth a try
        rows = _read_rows(_CHANGE_BLOCK, block)
    if rows is None:
        rows = _read_rows(_BLOCK, block)
    if rows is None or [event.seq for (event,) in rows] != list(range(first, first + len(rows))):
        return None
    events = [event for (event,) in rows if event.type in WATCHED or not event.ignorable]
    changes = [event for event in events if event.type == SCHEDULE_EVENT_TYPE and event.ignorable]
    plain = _change_rows(changes)
    if len(plain) == len(events):
        return len(rows), plain, []
    taken = {row[0] for row in plain}
    return len(rows), plain, [event.seq - first for event in events if event.seq not in taken]


def read_line(line: bytes, seq: int) -> bool:
    """Tell whether a line is an event of that number that means nothing to reminders."""
    if len(line) >= _LONG and (may_be_deep(line) or _LONG_NUMBER.search(line)):
        return False
    if not _is_utf8(line):
        return False
    try:
        event = _LINE.decode(line)
    except _REFUSALS:
        return False
    return event.seq == seq and event.ignorable and event.type not in WATCHED


def _change_rows(events: list[Any]) -> list[ChangeRow]:
    """The rows of those whose change is plain."""
    if events and type(events[0]) is Envelope:
        changes = _decode_changes([event.data for event in events])
    else:
        changes = [event.data for event in events]
    rows = (_row(change, event) for change, event in zip(changes, events, strict=True))
    return [row for row in rows if row is not None]


def _row(change: Any, event: Any) -> Any:
    """The `ChangeRow` of one change; None if it is not plain."""
    if type(change) is not _Create:
        if change is None or not is_trimmed(change.id):
            return None
        return event.seq, event.time, change.operation, change.id, 0, None, ""
    record = change.schedule
    if not (is_trimmed(record.id) and is_trimmed(record.prompt)):
        return None
    try:
        due = parse_instant(record.scheduled_at)
    except ValueError:
        return None
    delay = record.after_seconds if type(record) is _After else None
    return event.seq, event.time, "create", record.id, due, delay, record.prompt


def _decode_changes(data: list[Raw]) -> list[Any]:
    """Decode them in one call; if one is refused, one by one, with None for each such."""
    try:
        changes = _CHANGES.decode(b"[" + b",".join(data) + b"]")
    except _REFUSALS:
        changes = []
    if len(changes) == len(data):
        return changes
    return [None] if len(data) == 1 else [_decode_changes([one])[0] for one in data]


def _read_rows(decoder: Decoder[Any], block: bytes) -> list[tuple[Any]] | None:
    if _has_long_line(block) or not _is_utf8(block):
        return None
    arrays = b"[" + block.replace(b"\n", b"]\n[")  # and one bracket too many
    lines = (len(arrays) - len(block)) // 2
    try:
        rows = decoder.decode_lines(memoryview(arrays)[:-1])
    except _REFUSALS:
        return None
    return rows if len(rows) == lines else None


def _has_long_line(block: bytes) -> bool:
    """Tell whether a line reaches `_LONG` bytes."""
    half, size = _LONG // 2, len(block)
    starts, ends = range(0, size - half + 1, half), range(half, size + 1, half)
    if -1 not in map(block.find, repeat(b"\n"), starts, ends):
        return False  # a newline in each half: so it is for most blocks, and found faster
    start, last, rfind = 0, size - _LONG, block.rfind
    while start < last:
        newline = rfind(b"\n", start, start + _LONG)
        if newline < 0:
            return True
        start = newline + 1
    return False


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
