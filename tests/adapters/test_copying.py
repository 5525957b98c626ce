"""Copying a session: byte for byte, from any store into any other, and never half."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from attrs import evolve

from schedule_adapters.copying import copy_session
from schedule_adapters.sessions import SessionStore, StoreError, StoreErrorCode
from schedule_adapters.stores.folder_names import encode_id
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.stores.urls import open_store
from schedule_adapters.testing.postgres import own_schema
from schedule_adapters.testing.stores import AWKWARD_IDS, AWKWARD_TEXT, SetClock
from schedule_core import ScheduleCreateChange, fold_log, new_record

GOLDEN = Path(__file__).parents[1] / "golden" / "original_logs"


@pytest.fixture(params=["jsonl", "sqlite", "postgresql"])
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionStore]:
    """An empty store of each kind."""
    async with AsyncExitStack() as closing:
        match request.param:
            case "postgresql":
                url = await closing.enter_async_context(own_schema())
            case "sqlite":
                url = f"sqlite:{tmp_path / 'target.db'}"
            case _:
                url = f"jsonl:{tmp_path / 'target'}"
        yield await closing.enter_async_context(open_store(url, clock=SetClock()))


async def test_every_byte_arrives(target: SessionStore, tmp_path: Path) -> None:
    """The file, the copy, and the copy copied back to a file are the same bytes."""
    source = JsonlStore(tmp_path / "source", clock=SetClock())
    session = await source.open("one")
    session.append(AWKWARD_TEXT, {AWKWARD_TEXT: [1e300, -0.0, AWKWARD_TEXT]})
    session.append_change(
        ScheduleCreateChange(new_record("schedule-1", "x", after_seconds=60, now=SetClock().now()))
    )
    await session.barrier()
    await session.close()
    back = JsonlStore(tmp_path / "back", clock=SetClock())

    size = await copy_session(source, target, "one")
    await copy_session(target, back, "one")

    original, returned = log_under(tmp_path / "source"), log_under(tmp_path / "back")
    assert returned.read_bytes() == original.read_bytes()
    assert size == original.stat().st_size
    snapshot = await target.read("one")
    [reminder] = fold_log(snapshot.events, snapshot.header.seed_length).active
    assert reminder.id == "schedule-1"


@pytest.mark.parametrize("name", ["basic-packed-0.jsonl", "fork-packed-1.jsonl", "fork-zstd-2"])
async def test_logs_of_the_original_keep_their_form(
    target: SessionStore, tmp_path: Path, name: str
) -> None:
    """Packed rows stay packed; a compressed log arrives unpacked."""
    (log,) = GOLDEN.glob(f"{name}*")
    file = "session.jsonl.zstd" if log.suffix == ".zstd" else "session.jsonl"
    plain = GOLDEN / log.name.replace("zstd", "plain").removesuffix(".plain")
    session_id = json.loads(plain.read_bytes().split(b"\n")[0])["id"]
    folder = tmp_path / "source" / "-home-project" / encode_id(session_id)
    folder.mkdir(parents=True)
    (folder / file).write_bytes(log.read_bytes())
    source = JsonlStore(tmp_path / "source", clock=SetClock())

    await copy_session(source, target, session_id)

    assert await target.export(session_id) == await source.export(session_id)
    assert await target.read(session_id) == evolve(
        await source.read(session_id), where=(await target.read(session_id)).where
    )


async def test_awkward_names_arrive(target: SessionStore, tmp_path: Path) -> None:
    """A copy has the name of its session, whatever characters that has."""
    source = await store_with(tmp_path, *AWKWARD_IDS)

    for session_id in AWKWARD_IDS:
        await copy_session(source, target, session_id)

    assert list(await target.session_ids()) == list(await source.session_ids())


async def test_session_in_the_target_is_left_alone(target: SessionStore, tmp_path: Path) -> None:
    """A session that is there, or is being made there, is not overwritten."""
    source = await store_with(tmp_path, "one", "two")
    await copy_session(source, target, "one")
    before = await target.export("one")
    making = await target.open("two")

    for session_id in ("one", "two"):
        assert await refusal(source, target, session_id) == StoreErrorCode.SESSION_EXISTS

    assert await target.export("one") == before
    await making.close()


async def test_session_with_an_owner_is_not_copied(target: SessionStore, tmp_path: Path) -> None:
    """What its owner writes next would be missing, and both would deliver the same reminder."""
    source = await store_with(tmp_path, "one")
    session = await source.open("one")

    assert await refusal(source, target, "one") == StoreErrorCode.SESSION_LOCKED
    assert list(await target.session_ids()) == []

    await session.close()
    await copy_session(source, target, "one")


async def test_torn_tail_stays_behind(target: SessionStore, tmp_path: Path) -> None:
    """It was never committed; the source keeps it, since copying changes nothing there."""
    source = await store_with(tmp_path, "one")
    whole = await source.export("one")
    path = log_under(tmp_path)
    append(path, b'{"type":"x/y","se')

    await copy_session(source, target, "one")

    assert await target.export("one") == whole
    assert path.read_bytes().endswith(b'"se')


async def test_corrupt_session_is_not_copied(target: SessionStore, tmp_path: Path) -> None:
    """A copy would make damage look whole; nothing of it arrives, and it is not locked after."""
    source = await store_with(tmp_path, "one")
    session = await source.open("one")
    session.append("x/z", {})
    await session.barrier()
    await session.close()
    path = log_under(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"x/y"', b'"x/y', 1))

    assert await refusal(source, target, "one") == StoreErrorCode.CORRUPT_LOG
    assert list(await target.session_ids()) == []


async def store_with(folder: Path, *session_ids: str) -> JsonlStore:
    """A store of files whose sessions hold one event each."""
    store = JsonlStore(folder / "source", clock=SetClock())
    for session_id in session_ids:
        session = await store.open(session_id)
        session.append("x/y", {})
        await session.barrier()
        await session.close()
    return store


async def refusal(source: SessionStore, target: SessionStore, session_id: str) -> StoreErrorCode:
    with pytest.raises(StoreError) as caught:
        await copy_session(source, target, session_id)
    return caught.value.code


def log_under(folder: Path) -> Path:
    """The one log in a folder of sessions."""
    [path] = folder.rglob("session.jsonl")
    return path


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)
