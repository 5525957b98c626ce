"""Logs written by the published original (`tests/golden/original_logs/README.md`)."""

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.folder_names import encode_id
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.testing.stores import SetClock
from schedule_core.decoder import encode_record
from schedule_core.errors import LogFault, ScheduleLogError
from schedule_core.fold import fold_log

LOGS: Final = Path(__file__).parents[2] / "golden" / "original_logs"
ROWS: Final[list[dict[str, Any]]] = [
    json.loads(line) for line in (LOGS / "manifest.jsonl").read_text("utf-8").splitlines()
]
READABLE: Final = [row for row in ROWS if not row["file"].startswith("every-")]
PROJECT: Final = "-home-demo-project"


def place(root: Path, row: dict[str, Any]) -> Path:
    """Put a log where the original had it, under a project that is not ours."""
    name = "session.jsonl.zstd" if row["file"].endswith(".zstd") else "session.jsonl"
    path = root / PROJECT / encode_id(row["session"]) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((LOGS / row["file"]).read_bytes())
    return path


def store_at(root: Path) -> JsonlStore:
    return JsonlStore(root, clock=SetClock())


def needs_zstandard(row: dict[str, Any]) -> None:
    if row["file"].endswith(".zstd"):
        pytest.importorskip("zstandard")


@pytest.mark.parametrize("row", READABLE, ids=lambda row: row["file"])
async def test_log_reads_and_folds_as_in_the_original(row: dict[str, Any], tmp_path: Path) -> None:
    """Same number of events, same boundary, same reminders, same ids."""
    needs_zstandard(row)
    place(tmp_path, row)

    snapshot = await store_at(tmp_path).read(row["session"])
    schedules = fold_log(snapshot.events, snapshot.header.seed_length)

    assert len(snapshot.events) == row["events"]
    assert [event.seq for event in snapshot.events] == list(range(row["events"]))
    assert snapshot.header.seed_length == row["seedLength"]
    assert [encode_record(record) for record in schedules.active] == row["active"]
    assert list(schedules.seen) == row["seenIds"]


async def test_recurring_kind_is_a_corrupt_schedule_log(tmp_path: Path) -> None:
    """The store reads it, the fold refuses it: version 1 knows no such kind."""
    [row] = [row for row in ROWS if row["file"].startswith("every-")]
    place(tmp_path, row)

    snapshot = await store_at(tmp_path).read(row["session"])

    assert len(snapshot.events) == row["events"]
    with pytest.raises(ScheduleLogError) as caught:
        fold_log(snapshot.events, snapshot.header.seed_length)
    assert (caught.value.fault, caught.value.position) == (LogFault.UNKNOWN_KIND, 0)


async def test_packed_log_holds_the_events_of_the_plain_one(tmp_path: Path) -> None:
    """Apart from ids and times: both were made by the same conversation."""
    events = []
    for session_id in ("basic/plain", "basic/packed"):
        [row] = [row for row in ROWS if row["session"] == session_id]
        place(tmp_path, row)
        events.append((await store_at(tmp_path).read(session_id)).events)

    plain, packed = [[(event.type, event.data) for event in log] for log in events]
    assert plain == packed


@pytest.mark.parametrize(
    "row",
    [row for row in READABLE if not row["file"].endswith(".zstd")],
    ids=lambda row: row["file"],
)
async def test_log_is_continued_where_it_lies(row: dict[str, Any], tmp_path: Path) -> None:
    """Its bytes stay; new lines follow, in the original's project folder."""
    path = place(tmp_path, row)
    before = path.read_bytes()
    session = await store_at(tmp_path).open(row["session"])
    session.append("x/y", {})
    await session.barrier()
    await session.close()

    after = path.read_bytes()

    assert after.startswith(before)
    assert [json.loads(line)["seq"] for line in after[len(before) :].splitlines()] == [
        row["events"],
        row["events"] + 1,
    ]
    assert [path.parent.parent] == list(tmp_path.iterdir())  # noqa: ASYNC240 - a test may wait


async def test_fork_of_the_originals_log_is_what_it_makes_itself(tmp_path: Path) -> None:
    """Its own fork file begins with the same lines and the same mark; so does ours."""
    parent = next(row for row in ROWS if row["file"] == "fork-packed-0.jsonl")
    original = (LOGS / "fork-packed-1.jsonl").read_bytes().splitlines(keepends=True)
    parent_path = place(tmp_path, parent)

    header = await store_at(tmp_path).fork(parent["session"], "child-late")

    path = tmp_path / PROJECT / "child-late" / "session.jsonl"
    ours = path.read_bytes().splitlines(keepends=True)
    their_header, our_header = json.loads(original[0]), json.loads(ours[0])
    assert list(our_header) == list(their_header)
    assert our_header | {"createdAt": 0} == their_header | {"createdAt": 0}
    assert header.seed_length == parent["events"]
    assert ours[1:-1] == parent_path.read_bytes().splitlines(keepends=True)[1:]
    assert ours[1:-1] == original[1 : len(ours) - 1]
    their_end, our_end = json.loads(original[len(ours) - 1]), json.loads(ours[-1])
    assert our_end | {"time": 0} == their_end | {"time": 0}


@pytest.mark.parametrize("beside", [False, True])
async def test_compressed_log_is_not_written(tmp_path: Path, *, beside: bool) -> None:
    """Refused with what to do; nothing is left behind, whether a plain log lies beside or not."""
    [row] = [row for row in ROWS if row["file"] == "basic-zstd-0.jsonl.zstd"]
    path = place(tmp_path, row)
    if beside:
        path.with_name("session.jsonl").write_bytes(b"")

    with pytest.raises(StoreError, match="fork it") as caught:
        await store_at(tmp_path).open(row["session"])

    assert caught.value.code == StoreErrorCode.UNSUPPORTED_LOG
    assert path.read_bytes() == (LOGS / row["file"]).read_bytes()


async def test_two_logs_of_one_session_are_not_guessed_at(tmp_path: Path) -> None:
    [row] = [row for row in ROWS if row["file"] == "basic-zstd-0.jsonl.zstd"]
    place(tmp_path, row).with_name("session.jsonl").write_bytes(b"")

    with pytest.raises(StoreError, match="side by side") as caught:
        await store_at(tmp_path).read(row["session"])
    assert caught.value.code == StoreErrorCode.UNSUPPORTED_LOG


async def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the command to type."""
    [row] = [row for row in ROWS if row["file"] == "basic-zstd-0.jsonl.zstd"]
    place(tmp_path, row)
    monkeypatch.setitem(sys.modules, "zstandard", None)

    with pytest.raises(StoreError) as caught:
        await store_at(tmp_path).read(row["session"])

    assert caught.value.code == StoreErrorCode.UNSUPPORTED_LOG
    assert caught.value.message.endswith("pip install 'session-schedule[zstd]'")


async def test_incomplete_last_frame_is_a_torn_tail(tmp_path: Path) -> None:
    """Cut anywhere behind the header's frame, what was durable before is read."""
    pytest.importorskip("zstandard")
    [row] = [row for row in ROWS if row["file"] == "basic-zstd-0.jsonl.zstd"]
    path = place(tmp_path, row)
    whole = path.read_bytes()
    lengths = set()
    header_end = whole.index(b"\x28\xb5\x2f\xfd", 1)  # the magic number of the second frame

    for size in range(header_end, len(whole)):
        path.write_bytes(whole[:size])
        lengths.add(len((await store_at(tmp_path).read(row["session"])).events))

    assert min(lengths) == 0
    assert max(lengths) < row["events"]


async def test_damaged_frame_is_corruption(tmp_path: Path) -> None:
    """No crash overwrites the start of a frame."""
    pytest.importorskip("zstandard")
    [row] = [row for row in ROWS if row["file"] == "basic-zstd-0.jsonl.zstd"]
    path = place(tmp_path, row)
    path.write_bytes(b"\0" * 8 + path.read_bytes()[8:])

    with pytest.raises(StoreError) as caught:
        await store_at(tmp_path).read(row["session"])
    assert caught.value.code == StoreErrorCode.CORRUPT_LOG


async def test_compressed_log_can_be_forked(tmp_path: Path) -> None:
    """The way to go on from one: the child is a plain log."""
    pytest.importorskip("zstandard")
    [row] = [row for row in ROWS if row["file"] == "basic-zstd-0.jsonl.zstd"]
    place(tmp_path, row)

    header = await store_at(tmp_path).fork(row["session"], "child")
    session = await store_at(tmp_path).open("child")

    assert header.seed_length == row["events"]
    assert session.length == row["events"] + 1
    await session.close()
