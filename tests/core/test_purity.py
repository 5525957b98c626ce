"""The core is values and functions: no event loop, and no zone data to read a log."""

import os
import subprocess
import sys
from pathlib import Path

import schedule_core


def _run(source: str) -> str:
    """Run Python in a process of its own that sees this very package."""
    package = Path(schedule_core.__file__).parents[1]
    done = subprocess.run(  # noqa: S603 - our own text, our own interpreter
        [sys.executable, "-W", "error", "-c", source],
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout.strip()


def test_import_of_the_whole_core_brings_no_event_loop() -> None:
    """Nor sockets, logging or the adapters: not even by way of a dependency."""
    modules = sorted(path.stem for path in Path(schedule_core.__file__).parent.glob("*.py"))
    imports = "\n".join(f"import schedule_core.{name}" for name in modules if name != "__init__")
    unwanted = ("asyncio", "logging", "selectors", "socket", "sqlite3", "schedule_adapters")

    loaded = _run(f"{imports}\nimport sys\nprint(set({unwanted}) & set(sys.modules))")

    assert "set()" == loaded


def test_replay_needs_no_zone_data() -> None:
    """A log holds canonical UTC only, so it reads the same where no zone can be loaded."""
    answer = _run(
        """
import sys
sys.modules["tzdata"] = None  # any import of it fails now
from schedule_core.fold import fold_log
from schedule_core.framing import render_reminder
from schedule_core.ports import SCHEDULE_EVENT_TYPE, SessionEvent
from schedule_core.zones import find_zone
record = {"id": "a", "kind": "at", "prompt": "tea", "scheduledAt": "2026-12-05T12:00:00.000Z"}
schedules = fold_log([
    SessionEvent(SCHEDULE_EVENT_TYPE, {"version": 1, "operation": "create", "schedule": record})
])
(active,) = schedules.active
try:
    find_zone("Europe/Berlin")
except ImportError:
    print(render_reminder(active).split("\\n")[3], find_zone("UTC"))
"""
    )

    assert "occurrence_at: 2026-12-05T12:00:00.000Z UTC" == answer


def test_public_names_are_the_ones_of_the_modules() -> None:
    """Everything exported exists, once, and the list is in order."""
    assert sorted(set(schedule_core.__all__)) == sorted(schedule_core.__all__)
    assert [] == [name for name in schedule_core.__all__ if not hasattr(schedule_core, name)]
    for name in (
        *("decode_change", "decode_change_json", "encode_change", "encode_change_json"),
        *("new_record", "SessionEvent", "fold_log", "Schedules", "ScheduleInputError"),
        *("ScheduleLogError", "ErrorCode", "view", "view_json", "render_reminder", "TOOLS"),
    ):
        assert name in schedule_core.__all__
