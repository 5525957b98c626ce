"""What the database holds, read on a thread and a connection of their own.

So that no reader waits for a commit. Every method blocks.
"""

from pathlib import Path
from typing import Final

from attrs import frozen

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.folder_names import decode_id, encode_id
from schedule_adapters.stores.log_image import LogImage, read_log
from schedule_adapters.stores.sqlite.database import coded, open_database

_SESSION: Final = "SELECT key, header FROM session WHERE name = ?"
_LINES: Final = "SELECT seq, text FROM line WHERE session = ? ORDER BY seq"
_NAMES: Final = "SELECT name FROM session"
_SCHEDULED: Final = (
    "SELECT name FROM session"
    " WHERE key IN (SELECT session FROM line WHERE type = 'schedule/change')"
)


@frozen
class StoredLog:
    """One session as the database holds it.

    Attributes:
        content: the whole log as the bytes of a file.
        last: the seq of the last row.
    """

    content: bytes
    image: LogImage
    last: int


class Reader:
    """The connection that only reads."""

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            StoreError: as `open_database`.
        """
        self._path = path
        self._connection = open_database(path, query_only=1)

    def read(self, session_id: str, name: str) -> StoredLog | None:
        """Read one session, of which both the id and its encoded form are given.

        Gives None if there is none.

        Raises:
            StoreError: `corrupt_log`, `unsupported_log`, `store_unavailable`.
        """
        where = place(self._path, name)
        with coded(where, StoreErrorCode.STORE_UNAVAILABLE, "the log cannot be read"):
            found = self._connection.execute(_SESSION, (name,)).fetchone()
            if found is None:
                return None
            key, header = found
            rows = self._connection.execute(_LINES, (key,)).fetchall()
        texts = [header, *(text for _, text in rows), b""]
        if not all(isinstance(text, bytes) for text in texts):
            raise _corrupt("a line is not text", where)
        content = b"\n".join(texts)
        image = read_log(content, where)
        if image.torn is not None:  # rows are stored whole, so nothing is ever torn
            torn = image.torn
            raise StoreError(
                StoreErrorCode.CORRUPT_LOG,
                torn.reason,
                where=where,
                line=torn.line,
                offset=torn.offset,
            )
        if image.header.id != session_id and encode_id(image.header.id) != name:
            raise _corrupt("the header names another session", where)
        return StoredLog(content, image, rows[-1][0] if rows else -1)

    def ids(self) -> list[str]:
        """The ids of all sessions, sorted."""
        return self._ids(_NAMES)

    def scheduled_ids(self) -> list[str]:
        """The ids of those that hold a schedule event, sorted."""
        return self._ids(_SCHEDULED)

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def _ids(self, query: str) -> list[str]:
        with coded(self._path, StoreErrorCode.STORE_UNAVAILABLE, "the database cannot be read"):
            names = [name for (name,) in self._connection.execute(query)]
        ids = (decode_id(name.decode()) for name in names if isinstance(name, bytes))
        return sorted(session_id for session_id in ids if session_id is not None)


def place(path: Path, name: str) -> str:
    """Where a session is, for errors."""
    return f"{path} ({name})"


def _corrupt(reason: str, where: str) -> StoreError:
    return StoreError(StoreErrorCode.CORRUPT_LOG, reason, where=where)
