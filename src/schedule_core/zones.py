"""IANA zones from the pinned tzdata wheel, and from nowhere else.

`ZoneInfo(name)` would read the machine's own zone files first, accept names that are not
zones (`posix/...`, `localtime`) and answer differently from host to host. So a name is
looked up in the wheel's own list, in any ASCII letter case, and loaded from the wheel.
"""

from datetime import UTC, tzinfo
from functools import cache
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo  # noqa: TID251 - only its from_file, never a name

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

MAX_ZONE_NAME_LENGTH: Final = 64
"""Longer text is no zone name and is not looked at further."""

_WHEEL: Final = "tzdata"


@cache
def zone_names() -> dict[str, str]:
    """Every zone name of the wheel that version 1 accepts, by its lower-case form.

    Names need a slash: the short ones (`EST`, `GB`, `Factory`) are refused by the contract.
    """
    listed = _wheel().joinpath("zones").read_text("ascii").split("\n")
    return {name.lower(): name for name in listed if "/" in name}


def _wheel() -> "Traversable":
    # Imported at first use: it would be a good part of this package's import time.
    from importlib.resources import files  # noqa: PLC0415 - see above

    return files(_WHEEL)


def zone_data_version() -> str:
    """The IANA release of the wheel, such as `2026f`."""
    version: str = __import__(_WHEEL).IANA_VERSION
    return version


def canonical_zone_name(name: str) -> str | None:
    """The wheel's spelling of a zone name in any letter case; None if it is not a zone."""
    if name == "UTC":
        return name
    if len(name) > MAX_ZONE_NAME_LENGTH or not name.isascii():  # U+212A lower-cases to k
        return None
    return zone_names().get(name.lower())


def find_zone(name: str) -> tzinfo | None:
    """The zone of that name in any letter case; None if it is not a zone of the wheel."""
    canonical = canonical_zone_name(name)
    return None if canonical is None else _load(canonical)


@cache
def _load(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    with _wheel().joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)
