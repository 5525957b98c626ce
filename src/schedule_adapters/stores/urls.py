"""Stores chosen by URL, each imported only when it is chosen."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

from schedule_adapters.sessions import SessionStore, StoreError, StoreErrorCode
from schedule_core.ports import Clock

if TYPE_CHECKING:
    from schedule_adapters.stores.postgres import PostgresStore

_FORMS: Final = "jsonl:DIR, sqlite:FILE or postgresql://USER@HOST/DATABASE"


@frozen
class StoreUrl:
    """Where sessions are kept.

    Attributes:
        scheme: "jsonl", "sqlite" or "postgresql".
        place: the folder, the file, or the whole URL of the database.
    """

    scheme: str
    place: str


def parse_store_url(url: str) -> StoreUrl:
    """Read the URL of a store.

    Raises:
        ValueError: it is none; the text says which forms there are, and repeats no password.
    """
    scheme, colon, place = url.partition(":")
    if colon and scheme in {"postgresql", "postgres"} and place.startswith("//"):
        return StoreUrl("postgresql", f"postgresql:{place}")
    if scheme in {"jsonl", "sqlite"} and place:
        return StoreUrl(scheme, str(Path(place).expanduser()))
    raise ValueError(f"not the URL of a store; use {_FORMS}")


@asynccontextmanager
async def open_store(url: StoreUrl | str, *, clock: Clock) -> AsyncIterator[SessionStore]:
    """The store at a URL, closed at the end.

    Raises:
        ValueError: the URL is none.
        StoreError: `store_unavailable`; see the store.
    """
    store = await _make(parse_store_url(url) if isinstance(url, str) else url, clock)
    try:
        yield store
    finally:
        await store.close()


async def _make(url: StoreUrl, clock: Clock) -> SessionStore:
    match url.scheme:
        case "sqlite":
            from schedule_adapters.stores.sqlite import SqliteStore  # noqa: PLC0415 - on demand

            return await SqliteStore.connect(Path(url.place), clock=clock)
        case "postgresql":
            return await _postgres().connect(url.place, clock=clock)
        case _:
            from schedule_adapters.stores.jsonl import JsonlStore  # noqa: PLC0415 - on demand

            return JsonlStore(Path(url.place), clock=clock)


async def upgrade_store(url: StoreUrl) -> str:
    """Bring the tables of a store up to date; says what was done.

    Raises:
        StoreError: `store_unavailable`, or `unsupported_log` for tables of a newer release.
    """
    if url.scheme != "postgresql":
        return f"a {url.scheme} store needs no upgrade"
    await _postgres().upgrade(url.place)
    return "the tables are those of this release"


def _postgres() -> "type[PostgresStore]":
    try:
        from schedule_adapters.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise StoreError(
            StoreErrorCode.STORE_UNAVAILABLE,
            f"the store needs {error.name}: pip install 'session-schedule[postgres]'",
        ) from error
    return PostgresStore
