"""Session logs of any size to measure with: foreign events, and schedule changes among them."""

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Final

from schedule_adapters.sessions import SessionHeader
from schedule_adapters.stores.log_format import header_line
from schedule_core.instants import SECOND_MS, Instant, format_instant

START: Final = Instant(1_796_055_926_738)
_WORDS: Final = "the build of the release branch went through after the third attempt and " * 4
_BATCH: Final = 20_000
_STEP_MS: Final = 1_000
_DELAY_S: Final = 1


def write_log(path: Path, events: int, *, every: int) -> Path:
    """Write a log in which one event of `every` is a schedule change; others fill 330 bytes."""
    changes = _changes(every)
    lines = (
        next(changes) % (seq, _time(seq)) if seq % every == 0 else _foreign(seq)
        for seq in range(events)
    )
    with path.open("w", encoding="utf-8", newline="\n") as file:
        header = SessionHeader(path.parent.name, START)  # the original compares it with the folder
        file.write(header_line(header).decode())
        while batch := list(islice(lines, _BATCH)):
            file.write("".join(batch))
    return path


def _time(seq: int) -> int:
    return START + seq * _STEP_MS


def _foreign(seq: int) -> str:
    """An assistant's text delta, as most lines of a real log are."""
    return (
        f'{{"type":"assistant/chunk","seq":{seq},"time":{_time(seq)},"data":'
        f'{{"turn":{seq // 500},"step":{seq // 50},"chunk":{{"type":"text-delta","index":0,'
        f'"text":"{_WORDS[seq % 64 : seq % 64 + 195]}"}}}}}}\n'
    )


def _changes(every: int) -> Iterator[str]:
    """Reminders that come and go when they are due, some left over; `%` takes seq and time."""
    seq = 0
    for number in count(1):
        target = format_instant(Instant(_time(seq) + _DELAY_S * SECOND_MS))
        kind = f'"kind":"after","afterSeconds":{_DELAY_S}' if number % 2 else '"kind":"at"'
        yield _change(
            f'"operation":"create","schedule":{{"id":"schedule-{number}",{kind},'
            f'"prompt":"look at the build {number}","scheduledAt":"{target}"}}'
        )
        seq += every
        if number % 100:
            operation = "dispatch" if number % 3 else "delete"
            yield _change(f'"operation":"{operation}","id":"schedule-{number}"')
            seq += every


def _change(members: str) -> str:
    return '{"type":"schedule/change","seq":%d,"time":%d,"data":{"version":1,' + members + "}}\n"
