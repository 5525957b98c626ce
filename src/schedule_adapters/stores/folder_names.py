"""Session ids as folder names and back: injective, and safe as one path segment. No I/O.

The published original's rule, so each product finds the other's sessions: `A-Z a-z 0-9 . _ -`
stand for themselves, every other UTF-16 unit is `~` and four upper-case hex digits.
"""

import re
from typing import Final

from schedule_adapters.sessions import StoreError, StoreErrorCode

_MAX_FOLDER_NAME: Final = 255
"""NAME_MAX of the file systems in use; an encoded id is ASCII, so units are bytes."""
_UNIT = re.compile("[A-Za-z0-9._-]|~[0-9A-F]{4}")
_FOLDER_NAME = re.compile(f"(?:{_UNIT.pattern})+")


def encode_id(session_id: str) -> str:
    """Name the folder of a session.

    Raises:
        StoreError: `invalid_session_id`; empty, or too long for a folder name.
    """
    units = session_id.encode("utf-16-be", "surrogatepass")
    pairs = zip(units[::2], units[1::2], strict=True)
    name = "".join(_encode_unit(high << 8 | low) for high, low in pairs)
    if name in {".", ".."}:
        name = name.replace(".", "~002E")
    if not 0 < len(name) <= _MAX_FOLDER_NAME:
        reason = "a session id is not empty" if name == "" else "the session id is too long"
        raise StoreError(StoreErrorCode.INVALID_SESSION_ID, reason)
    return name


def _encode_unit(unit: int) -> str:
    return chr(unit) if _UNIT.fullmatch(chr(unit)) else f"~{unit:04X}"


def decode_id(name: str) -> str | None:
    """The session id that a folder name stands for; None if `encode_id` never gives it."""
    if len(name) > _MAX_FOLDER_NAME or _FOLDER_NAME.fullmatch(name) is None:
        return None
    units = (int(unit[1:], 16) if len(unit) > 1 else ord(unit) for unit in _UNIT.findall(name))
    session_id = canonical_id("".join(map(chr, units)))
    return session_id if encode_id(session_id) == name else None


def canonical_id(session_id: str) -> str:
    """The id as its folder name gives it back: two surrogate halves are one character.

    Raises:
        StoreError: `invalid_session_id`, as `encode_id`.
    """
    encode_id(session_id)
    return session_id.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
