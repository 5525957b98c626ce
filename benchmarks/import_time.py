"""Importing the core against importing the four packages it stands on."""

import os
import subprocess
import sys
import time

from benchmarks.report import promise

_RUNS = 15


def run() -> bool:
    """Compare the best of alternating runs, each in a fresh interpreter."""
    _seconds("import schedule_core")
    ours, base = [], []
    for _ in range(_RUNS):
        base.append(_seconds("import attrs, cattrs, dateutil.tz, zoneinfo"))
        ours.append(_seconds("import schedule_core"))
    nothing = min(_seconds("pass") for _ in range(_RUNS))
    ratio = (min(ours) - nothing) / (min(base) - nothing)
    return promise("import schedule_core / its four packages (interpreter taken off)", ratio, 1.5)


def _seconds(statement: str) -> float:
    started = time.perf_counter()
    # Compiled once and kept, as after any installation.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([sys.executable, "-c", statement], check=True, env=environment)  # noqa: S603
    return time.perf_counter() - started
