"""Where the sessions of a fault script lie, and how its processes open the store there."""

import hashlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import SessionStore
from schedule_adapters.stores.disk import Disk
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.stores.log_format import event_line
from schedule_adapters.stores.postgres import PostgresOptions, PostgresStore
from schedule_adapters.stores.postgres.place import parse_place
from schedule_adapters.stores.urls import open_store
from schedule_adapters.testing.postgres import own_schema
from schedule_core import Clock, SessionEvent

STORES: Final = ("jsonl", "sqlite", "postgresql")
FILE_STORES: Final = ("jsonl", "sqlite")
"""The stores that live on a file system, and so meet the faults of one."""

LEASE_S: Final = 0.5
_SHORT_LEASES: Final = PostgresOptions(lease_s=LEASE_S, renew_s=LEASE_S / 4)
"""So that a session whose owner was killed is free again before long."""


class ForgetfulDisk(Disk):
    """A planted bug: the disk of a store that never syncs. The scripts must catch it."""

    def fsync(self, descriptor: int) -> None:
        """Say that it is durable."""

    def sync_folder(self, folder: Path) -> None:
        """Say that they are durable."""


class TrustingDisk(Disk):
    """A planted bug: the disk of a store that syncs again when a sync has failed."""

    def fsync(self, descriptor: int) -> None:
        """Try twice."""
        try:
            super().fsync(descriptor)
        except OSError:
            super().fsync(descriptor)


BUGS: Final[dict[str, type[Disk]]] = {"forgetful": ForgetfulDisk, "trusting": TrustingDisk}
"""By the scheme of the store that has it."""


@asynccontextmanager
async def new_place(kind: str, folder: Path) -> AsyncIterator[str]:
    """The URL of a new store that nobody else uses; a database is emptied afterwards."""
    if kind != "postgresql":
        yield url_in(kind, folder)
        return
    async with own_schema() as url:
        async with opened(url, SystemClock()):
            pass  # makes the tables, so that no life has to
        yield url


def url_in(kind: str, folder: Path) -> str:
    """The URL of a new file store in a folder."""
    return f"{kind}:{folder / ('sessions' if kind == 'jsonl' else 'sessions.db')}"


@asynccontextmanager
async def opened(url: str, clock: Clock) -> AsyncIterator[SessionStore]:
    """The store at a URL; some schemes are JSONL stores with a planted bug."""
    scheme, _, place = url.partition(":")
    if scheme in BUGS:
        yield JsonlStore(Path(place), clock=clock, disk=BUGS[scheme]())
        return
    if scheme == "postgresql":
        database = await PostgresStore.connect(url, clock=clock, options=_SHORT_LEASES)
        try:
            yield database
        finally:
            await database.close()
        return
    async with open_store(url, clock=clock) as store:
        yield store


def schema_of(url: str) -> str:
    """The schema that the URL of a database names."""
    return parse_place(url).schema


def digest(events: Iterable[SessionEvent]) -> str:
    """One value for the whole of these events."""
    lines = hashlib.sha256()
    for event in events:
        lines.update(event_line(event))
    return lines.hexdigest()
