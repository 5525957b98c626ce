"""The schema's revision: made when absent, checked when present, upgraded on demand.

Migrations go forward only. An empty place gets the newest schema at once, so that a newcomer
just names a database. An older schema is never upgraded in passing: processes of the older
version may still be at work in it, so a person says when.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.postgres.place import Place

if TYPE_CHECKING:
    from schedule_adapters.stores.postgres.connecting import Connection

REVISIONS: Final = ("0001", "0002")
"""Those that this version knows, oldest first; the last one is what it works with."""
VERSION_TABLE: Final = "session_schedule_version"
"""Not Alembic's default name: the schema may be one that an application migrates too."""

_REVISION: Final = "select version_num from session_schedule_version"


def check_revision(revision: str | None, place: Place) -> None:
    """Refuse a schema that is not the one that this version works with.

    Raises:
        StoreError: `store_unavailable`, with what to do.
    """
    if revision == REVISIONS[-1]:
        return
    if revision in REVISIONS:
        raise _refused(
            place,
            f"the schema is of an older version ({revision}); stop what uses it, then run "
            "session-schedule store upgrade --store URL",
        )
    raise _refused(place, "the schema was made by a newer version; update session-schedule")


async def upgrade(place: Place) -> None:
    """Bring the schema to the newest revision, in one transaction; create it if absent.

    Raises:
        StoreError: `store_unavailable`; nothing was changed.
    """
    from schedule_adapters.stores.postgres.migrating import migrate  # noqa: PLC0415 - seldom

    reason = await asyncio.to_thread(migrate, place, REVISIONS[-1])
    if reason is not None:
        raise _refused(place, f"the schema could not be made or upgraded: {reason}")


async def read_revision(connection: "Connection") -> str | None:
    """The revision of the schema in the search path; None if there is none."""
    found = await connection.execute("select to_regclass(%s) is not null", [VERSION_TABLE])
    if await found.fetchone() != (True,):
        return None
    rows = await (await connection.execute(_REVISION)).fetchall()
    return rows[0][0] if rows else None


def _refused(place: Place, reason: str) -> StoreError:
    return StoreError(StoreErrorCode.STORE_UNAVAILABLE, reason, where=place.where)
