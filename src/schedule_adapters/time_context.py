"""The client's time zone as a fact about one prompt, and what the model is told of it.

The zone is guidance to the model, never a default of the tools: those read no zone but the
one in their arguments (`spec/schedule.md`, absolute-time input).
"""

import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from attrs import frozen

from schedule_core.instants import Instant, format_instant
from schedule_core.zones import canonical_zone_name, find_zone

_WEEKDAYS: Final = (
    *("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
)


@frozen
class TimeContext:
    """What the prompts of one open turn say about the client's zone.

    Attributes:
        zones: the distinct zones that they named, in the order of the prompts.
        complete: every prompt named an accepted zone.
    """

    zones: tuple[str, ...] = ()
    complete: bool = False

    @classmethod
    def for_zones(cls, zones: Iterable[str | None]) -> "TimeContext":
        """The context of a turn whose prompts came with these zones, None for those without.

        A name that is no zone counts as none: a client's mistake must not fail the turn.
        """
        names = [None if zone is None else canonical_zone_name(zone) for zone in zones]
        named = tuple(dict.fromkeys(name for name in names if name is not None))
        return cls(named, complete=None not in names and named != ())

    @property
    def zone(self) -> str | None:
        """The one zone that every prompt came with; None when the model must ask."""
        return self.zones[0] if self.complete and len(self.zones) == 1 else None


def parse_zone(text: str) -> str:
    """The accepted spelling of a zone name in any letter case.

    Raises:
        ValueError: not `UTC` and not an IANA name with a slash.
    """
    name = canonical_zone_name(text)
    if name is None:
        raise ValueError(
            f"{text[:80]!r} is not a time zone; use UTC or an IANA name such as Europe/Berlin"
        )
    return name


def render(context: TimeContext, now: Instant) -> str:
    """The instructions of one turn: the rule, the zone, then the readings of the clock.

    Equal contexts begin with equal text, and only the last lines change from turn to turn,
    so that a provider can reuse what it has read before.
    """
    zone = context.zone
    if zone is None:
        name = _MIXED if len(context.zones) > 1 else _UNKNOWN
        return "\n".join((_ASK, f"{_ZONE_KEY}: {name}", f"current_time_utc: {format_instant(now)}"))
    local = local_text(now, zone)
    readings = [f"current_time_utc: {format_instant(now)}"]
    if local is not None:
        readings.append(f"current_local_time: {local}")
    return "\n".join((_USE_ZONE, f"{_ZONE_KEY}: {zone}", *readings))


def zone_of_instructions(text: str | None) -> str | None:
    """The zone that `render` wrote into a text; None if it wrote none, or no zone is known."""
    lines = _ZONE_LINE.findall(text or "")
    return canonical_zone_name(lines[-1]) if lines else None


def local_time(instant: Instant, zone: str) -> datetime | None:
    """What a clock on the wall of an accepted zone shows at an instant; it carries no zone.

    None where that lies outside the years 1 to 9999.
    """
    rules = find_zone(zone)
    assert rules is not None, "callers pass accepted names"
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant)
        return moment.astimezone(rules).replace(tzinfo=None)
    except OverflowError:
        return None


def local_text(instant: Instant, zone: str) -> str | None:
    """`2030-03-01 10:00:20 (Friday)`: an instant as the wall clock of that zone shows it."""
    local = local_time(instant, zone)
    if local is None:
        return None
    day = f"{local.year:04}-{local.month:02}-{local.day:02}"
    clock = f"{local.hour:02}:{local.minute:02}:{local.second:02}"
    return f"{day} {clock} ({_WEEKDAYS[local.weekday()]})"


def system_time_zone(
    *, environment: Mapping[str, str] = os.environ, etc: Path = Path("/etc")
) -> str | None:
    """The best guess at this machine's zone: TZ, then /etc/timezone, then /etc/localtime.

    Only an accepted name counts; None if none of the three gives one.
    """
    guesses = (
        environment.get("TZ", "").removeprefix(":").rpartition("zoneinfo/")[2],
        _first_line(etc / "timezone"),
        _link_target(etc / "localtime").rpartition("zoneinfo/")[2],
    )
    name = next((name for guess in guesses if (name := canonical_zone_name(guess))), None)
    return "UTC" if name in _OTHER_NAMES_OF_UTC else name


def _first_line(path: Path) -> str:
    try:
        return path.read_text("utf-8").partition("\n")[0].strip()
    except (OSError, ValueError):
        return ""


def _link_target(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


_OTHER_NAMES_OF_UTC: Final = {"Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu"}
_ZONE_KEY: Final = "client_time_zone"
_ZONE_LINE = re.compile(rf"^{_ZONE_KEY}: ([^\s]+)$", re.MULTILINE)
_UNKNOWN: Final = "unknown"
_MIXED: Final = "mixed"
_USE_ZONE: Final = (
    "Read a date or time for which the user names no zone in the user's own time zone, given "
    "below. The schedule tools know nothing of it: always write the offset or the time_zone "
    "into their arguments."
)
_ASK: Final = (
    "The user's own time zone is not certain. When a date or time needs a zone and the user "
    "names none, ask for it before calling a schedule tool; do not guess. Delays such as "
    '"in ten minutes" need no zone.'
)
