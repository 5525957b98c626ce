"""One line of the log on disk as text and as values: the header, events, packed rows. No I/O.

The layout is the published original's, so each product reads the other's logs (design
decision 9). What a whole file says is `log_image`'s business.
"""

import re
from collections.abc import Iterable
from enum import StrEnum, unique
from itertools import accumulate
from json import JSONDecodeError
from typing import Final

from schedule_adapters.sessions import SessionHeader, StoreError, StoreErrorCode
from schedule_core.ports import SCHEDULE_EVENT_TYPE, SessionEvent
from schedule_core.text import json_text, parse_json, safe_integer

VERSION: Final = 0
END_SEED: Final = "session/end-seed"
"""The first event of a fork's own, at seq `seedLength`; known to the original."""

_KNOWN_TO_THE_ORIGINAL: Final = frozenset({SCHEDULE_EVENT_TYPE, END_SEED})
"""The types we write that need no `ignorable`; it refuses every other one without it."""
_EVENT_KEYS: Final = frozenset({"type", "seq", "time", "data"})
_SURFACE_KEYS: Final = frozenset({"surfaceOp", "sourceEventSeqs"})
_SURFACE_TYPES: Final = frozenset({"user/message", "assistant/message", "tool/result"})
"""The only types that the original gives `_SURFACE_KEYS`."""
_ROW_KEYS: Final = frozenset({"type", "seq0", "time0", "data"})
_ROW_DATA_KEYS: Final = frozenset({"turn", "step", "index", "dt"})
_TEXT_ROWS: Final = {"text-chunks": "text-delta", "reasoning-chunks": "reasoning-delta"}
_TOOL_CALL_ROW: Final = "tool-call-chunks"
_HEADER_NAMES: Final = {
    "type", "version", "id", "createdAt", "cwd", "parentSession", "seedLength",
}  # fmt: skip
"""The members that `SessionHeader` has fields for; the rest is its `extra`."""

MAX_DEPTH: Final = 500
"""Half of Python's recursion limit, so that a line can be read from wherever it is asked for."""
_EVENT_START: Final = b'{"type":'
"""How every known writer begins an event."""
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


@unique
class LineFault(StrEnum):
    """Which rule of the format a bad line breaks."""

    NOT_JSON = "not_json"
    NOT_UTF8 = "not_utf8"
    NUL_RUN = "nul_run"
    GLUED_LINES = "glued_lines"
    BAD_ENVELOPE = "bad_envelope"
    SEQ_GAP = "seq_gap"
    SEQ_REPEAT = "seq_repeat"


class BadLine(ValueError):  # noqa: N818 - what it is, not whose mistake it was
    """A line that no log holds there; its text is the reason, without the line's content."""

    def __init__(self, reason: str, fault: LineFault = LineFault.BAD_ENVELOPE) -> None:
        super().__init__(reason)
        self.fault = fault


def header_line(header: SessionHeader) -> bytes:
    """Write the first line, keys in the original's order."""
    extra = dict(header.extra)
    members: dict[str, object] = {
        "type": "session",
        "version": VERSION,
        "id": header.id,
        "createdAt": header.created_at,
    }
    if header.cwd is not None:
        members["cwd"] = header.cwd
    if header.parent is not None:
        members["parentSession"] = header.parent
    if header.parent is not None or header.seed_length != 0:
        members["seedLength"] = header.seed_length
    if "origin" in extra:
        members["origin"] = extra.pop("origin")
    members["delegationDepth"] = extra.pop("delegationDepth", 0)
    return _line(members | extra)


def event_line(event: SessionEvent) -> bytes:
    """Write one event.

    Raises:
        TypeError: data that JSON cannot hold.
    """
    # By hand, for every append writes one: as a whole it would take three times as long.
    kind, data = json_text(event.type), json_text(event.data)
    mark = "" if event.type in _KNOWN_TO_THE_ORIGINAL else ',"ignorable":true'
    text = f'{{"type":{kind},"seq":{event.seq:d},"time":{event.time:d},"data":{data}{mark}}}\n'
    return text.encode()


def _line(members: dict[str, object]) -> bytes:
    # JSON text holds no lone surrogate (they are escaped), so it always has a UTF-8 form.
    return json_text(members).encode() + b"\n"


def parse_header(line: bytes, where: str) -> SessionHeader:
    """Read the first line.

    Raises:
        BadLine: not a header.
        StoreError: `unsupported_log`; a header of another version.
    """
    members = _members(line)
    if members.get("type") != "session":
        raise BadLine("the header is not one of a session")
    if "version" in members and safe_integer(members["version"]) != VERSION:
        raise StoreError(
            StoreErrorCode.UNSUPPORTED_LOG, f"only log version {VERSION} is known", where=where
        )
    created_at = safe_integer(members.get("createdAt"))
    session_id = members.get("id")
    if "version" not in members or created_at is None or not isinstance(session_id, str):
        raise BadLine("the header lacks a version, an id or createdAt")
    return SessionHeader(
        id=session_id,
        created_at=created_at,
        parent=_optional_text(members, "parentSession"),
        seed_length=members.get("seedLength", 0),
        cwd=_optional_text(members, "cwd"),
        extra={name: members[name] for name in members if name not in _HEADER_NAMES},
    )


def parse_events(line: bytes) -> list[SessionEvent]:
    """Read one line, without its newline: one event, or the events of a packed row.

    Raises:
        BadLine: no reader of this format would take it.
    """
    members = _members(line)
    if not isinstance(members.get("type"), str):
        raise BadLine("type is not text")
    return _unpack(members) if "seq0" in members else [_event(members)]


def glued_events(line: bytes) -> list[SessionEvent]:
    """The event, or the events of a packed row, that stand whole at the end of a bad line."""
    start = line.rfind(_EVENT_START)
    try:
        return parse_events(line[start:]) if start > 0 else []
    except BadLine:
        return []


def check_following(events: list[SessionEvent], expected: int) -> None:
    """Refuse the events of one line that do not follow the ones before.

    Raises:
        BadLine: the first has another seq than the expected one.
    """
    seq = events[0].seq
    if seq < expected:
        reason, fault = "repeats an earlier number", LineFault.SEQ_REPEAT
    elif seq > expected:
        reason, fault = "leaves a gap", LineFault.SEQ_GAP
    else:
        return
    raise BadLine(f"seq {seq} {reason}: expected {expected}", fault)


def _event(members: dict[str, object]) -> SessionEvent:
    event_type = str(members["type"])
    optional = {"ignorable"} | (_SURFACE_KEYS if event_type in _SURFACE_TYPES else set())
    _check_keys(members, _EVENT_KEYS, optional)
    if members.get("ignorable", True) is not True:
        raise BadLine("ignorable is not true")
    return SessionEvent(
        event_type, members["data"], seq=_count(members, "seq"), time=_integer(members["time"])
    )


def _unpack(row: dict[str, object]) -> list[SessionEvent]:
    """Read a packed row of the original: a run of `assistant/chunk` events of one stream."""
    _check_keys(row, _ROW_KEYS)
    data = row["data"]
    if not isinstance(data, dict):
        raise BadLine("the data of a packed row is not an object")
    chunk: dict[str, object]
    if row["type"] in _TEXT_ROWS:
        chunk = {"type": _TEXT_ROWS[str(row["type"])], "index": data.get("index")}
        texts, member = "texts", "text"
        _check_keys(data, _ROW_DATA_KEYS | {texts})
    elif row["type"] == _TOOL_CALL_ROW:
        names = ("index", "id", "name")
        chunk = {"type": "tool-call-delta"} | {name: data[name] for name in names if name in data}
        texts, member = "args", "argumentsDelta"
        _check_keys(data, _ROW_DATA_KEYS | {"id", texts}, {"name"})
    else:
        raise BadLine("a packed row of an unknown type")
    pieces, steps = data[texts], data["dt"]
    if not isinstance(pieces, list) or not isinstance(steps, list):
        raise BadLine("a packed row without its lists")
    if not pieces or len(pieces) != len(steps) + 1:
        raise BadLine("a packed row whose lists do not fit together")
    if not all(isinstance(piece, str) for piece in pieces):
        raise BadLine("a packed row of something else than texts")
    times = accumulate(map(_integer, steps), initial=_integer(row["time0"]))
    return [
        SessionEvent(
            "assistant/chunk",
            {"turn": data["turn"], "step": data["step"], "chunk": {**chunk, member: piece}},
            seq=seq,
            time=time,
        )
        for seq, (piece, time) in enumerate(zip(pieces, times, strict=True), _count(row, "seq0"))
    ]


def _members(line: bytes) -> dict[str, object]:
    """Read a line as one JSON object; each kind of damage has a reason of its own."""
    if b"\0" in line:
        raise BadLine("the line holds NUL bytes", LineFault.NUL_RUN)
    if line.startswith(b"\xef\xbb\xbf"):
        raise BadLine("the line begins with a byte order mark", LineFault.NOT_JSON)
    if not line.strip():
        raise BadLine("the line is blank", LineFault.NOT_JSON)
    if may_be_deep(line) and _depth(line) > MAX_DEPTH:
        raise BadLine(f"the line is nested deeper than {MAX_DEPTH} levels", LineFault.NOT_JSON)
    try:
        value = parse_json(line)
    except UnicodeDecodeError:
        raise BadLine("the line is not UTF-8", LineFault.NOT_UTF8) from None
    except JSONDecodeError as error:
        if error.msg == "Extra data":
            raise BadLine("more than one JSON value on the line", LineFault.GLUED_LINES) from None
        raise BadLine("the line is not JSON", LineFault.NOT_JSON) from None
    except ValueError:
        raise BadLine("the line is not JSON", LineFault.NOT_JSON) from None
    if not isinstance(value, dict):
        raise BadLine("the line is not a JSON object")
    return value


def may_be_deep(line: bytes) -> bool:
    """Tell whether a line has enough brackets to be nested too deeply."""
    return line.count(b"[") + line.count(b"{") > MAX_DEPTH


def _depth(line: bytes) -> int:
    steps = (_STEPS.get(byte, 0) for byte in _STRING.sub(b"", line))
    return max(accumulate(steps), default=0)


def _check_keys(
    members: dict[str, object], wanted: frozenset[str], optional: Iterable[str] = ()
) -> None:
    missing = sorted(wanted - members.keys())
    if missing:
        raise BadLine(f"{' and '.join(missing)} missing")
    unknown = len(members.keys() - wanted - set(optional))
    if unknown:
        # The names are a stranger's text and stay out of the reason.
        raise BadLine(f"{unknown} unexpected members")


def _count(members: dict[str, object], name: str) -> int:
    number = safe_integer(members[name])
    if number is None or number < 0:
        raise BadLine(f"{name} is not a count")
    return number


def _integer(value: object) -> int:
    number = safe_integer(value)
    if number is None:
        raise BadLine("a time is not an integer")
    return number


def _optional_text(members: dict[str, object], name: str) -> str | None:
    value = members.get(name)
    if value is not None and not isinstance(value, str):
        raise BadLine(f"{name} of the header is not text")
    return value
