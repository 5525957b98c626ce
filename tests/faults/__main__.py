"""The long run: every fault script at length, each with its counts.

python -m tests.faults [--seed N] [--kills 10000] [--cuts 3000] [--only WORD]
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from attrs import frozen

from tests.faults import disk_full, kills, power, severed, stopped, syscalls
from tests.faults.places import FILE_STORES, STORES, new_place
from tests.faults.zygote import Zygote, zygote

_STEPS = 12


@frozen
class Script:
    """One script for one store.

    Attributes:
        name: what it does, in a word or two.
        kind: of the store.
        run: told the zygote, the store's URL and the folder for everything; gives the counts.
        obstacle: why it cannot run on this machine.
    """

    name: str
    kind: str
    run: Callable[[Zygote, str, Path], Counter[str]]
    obstacle: str | None = None


def scripts(seed: int, kill: int, cut: int) -> Iterator[Script]:
    """All scripts, at length."""
    for kind in FILE_STORES:
        long = {"steps": _STEPS, "seed": seed}
        for fault in syscalls.FAULTS[kind]:
            yield Script(
                f"system call: {fault}",
                kind,
                partial(_with_fault, kind=kind, fault=fault, seed=seed),
                syscalls.obstacle(),
            )
        yield Script("power cuts", kind, partial(_on, power.run, kind, long), power.obstacle())
        yield Script(
            "kills before a power cut",
            kind,
            partial(_on, power.kill_before_cut, kind, long),
            power.obstacle(),
        )
        yield Script(
            "failed syncs", kind, partial(_on, power.fail_syncs, kind, long), power.obstacle()
        )
        yield Script("full files", kind, partial(_on, disk_full.limit_files, kind, long))
        yield Script(
            "full disks",
            kind,
            partial(_on, disk_full.fill_disks, kind, long),
            disk_full.obstacle(),
        )
        yield Script("paused owners", kind, partial(_at, stopped.keep_out, long))
    yield Script("paused owners, fenced", "postgresql", partial(_at, stopped.fence, long))
    yield Script("paused owners, lapsed", "postgresql", partial(_at, stopped.lapse, long))
    many = {"cuts": cut, "seed": seed}
    yield Script("severed connections", "postgresql", partial(_at, severed.run, many))
    for kind in STORES:
        yield Script("kills", kind, partial(_at, kills.run, {"kills": kill, "seed": seed}))


def _with_fault(
    lives: Zygote, _: str, folder: Path, *, kind: str, fault: syscalls.Fault, seed: int
) -> Counter[str]:
    return syscalls.run(lives, kind, folder, fault, steps=_STEPS, seed=seed)


def _on(
    script: Callable[..., Counter[str]],
    kind: str,
    length: dict[str, int],
    lives: Zygote,
    _: str,
    folder: Path,
) -> Counter[str]:
    return script(lives, kind, folder, **length)


def _at(
    script: Callable[..., Counter[str]], length: dict[str, int], lives: Zygote, url: str, _: Path
) -> Counter[str]:
    return script(lives, url, **length)


async def _run(script: Script, lives: Zygote) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        async with new_place(script.kind, Path(folder)) as url:
            counts = await asyncio.to_thread(script.run, lives, url, Path(folder))
    words = ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))
    _say(f"{script.kind}: {script.name}: {words} ({time.monotonic() - began:.0f} s)")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--kills", type=int, default=10_000, help="for each store")
    parser.add_argument("--cuts", type=int, default=3_000, help="of connections")
    parser.add_argument("--only", default="", help="scripts whose line would have this word")
    wanted = parser.parse_args()
    _say(f"seed {wanted.seed}")
    with zygote() as lives:
        for script in scripts(wanted.seed, wanted.kills, wanted.cuts):
            if wanted.only not in f"{script.kind}: {script.name}":
                continue
            if script.obstacle is not None:
                _say(f"{script.kind}: {script.name}: SKIPPED: {script.obstacle}")
                continue
            asyncio.run(_run(script, lives))


if __name__ == "__main__":
    _main()
