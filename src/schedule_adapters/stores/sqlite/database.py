"""A connection to the database file that keeps the promise of a barrier, or none at all.

Every setting that matters is read back: a build of SQLite, or a file system, that does not
take one is refused. What a connection finds when it is opened may not be durable yet: an owner
that was killed between its write and its fsync leaves lines that can be read. So nothing is
read before a checkpoint has copied all of them into the database file and synced that.

Never opened here by anything but SQLite: closing any other descriptor of the file would drop
the locks that SQLite holds on it in this process.
"""

import contextlib
import os
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.disk import Disk, make_folder

APPLICATION_ID: Final = 0x5343_4844  # "SCHD"
SCHEMA_VERSION: Final = 1

_OLDEST: Final = (3, 37, 0)
"""The first SQLite with strict tables."""
_BUSY_MS: Final = 5_000
"""How long another process may keep the database to itself."""
_CHECKPOINT_STEP_S: Final = 0.01
SETTINGS: Final[dict[str, object]] = {
    "busy_timeout": _BUSY_MS,
    "trusted_schema": 0,
    "cell_size_check": 1,
    "foreign_keys": 1,
    "journal_mode": "wal",
    "synchronous": 2,  # FULL: each commit syncs
    "fullfsync": 1,  # where fsync alone does not reach the medium
    "checkpoint_fullfsync": 1,
    "wal_autocheckpoint": 0,  # the writer checkpoints when it rests, not within a commit
}
_SCHEMA: Final = (
    """
CREATE TABLE session (
  key INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  header TEXT NOT NULL
) STRICT
""",
    # With a rowid: the lines of one commit lie side by side, whosesoever they are. In order of
    # the primary key, each session in a commit would cost a page of its own.
    """
CREATE TABLE line (
  session INTEGER NOT NULL REFERENCES session,
  seq INTEGER NOT NULL,
  type TEXT NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT
""",
    # With the type, so that the index alone answers who has reminders.
    "CREATE INDEX schedule_line ON line (session, seq, type) WHERE type = 'schedule/change'",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


def make_file(path: Path) -> None:
    """Make an empty private database file where there is none, its name durable.

    Raises:
        OSError: that cannot be done.
    """
    _make_durable_folder(path.parent)
    if not os.path.lexists(path):
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        os.close(descriptor)
        with contextlib.suppress(FileExistsError):  # another process was faster
            Disk().publish(Path(temporary), path)
        Path(temporary).unlink(missing_ok=True)
    Disk().sync_folder(path.parent)


def open_database(path: Path, **further: object) -> sqlite3.Connection:
    """Open the database for the thread that calls, its tables made if it has none.

    Args:
        path: the file.
        further: settings beside those that every connection has.

    Raises:
        StoreError: `store_unavailable`, `corrupt_log`, or `unsupported_log` for a database of
            another program or of a newer version of this one.
    """
    with coded(path, StoreErrorCode.STORE_UNAVAILABLE, "the database cannot be opened"):
        _refuse_unsafe(path)
        connection = sqlite3.connect(
            f"file:{quote(os.fsencode(path.absolute()))}?mode=rw",
            uri=True,
            timeout=_BUSY_MS / 1_000,
            isolation_level=None,
        )
        try:
            connection.text_factory = bytes
            _identify(connection, path)
            for name, value in {**SETTINGS, **further}.items():
                _require(connection, path, name, value)
            _make_tables(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def make_durable(connection: sqlite3.Connection) -> None:
    """Make everything that can be read durable, whoever wrote it, and begin a new WAL.

    A WAL whose fsync once failed is not trusted: its pages are copied from where they can be
    read into the database file, and that is synced. Without this, lines that only the page
    cache holds could be built upon, and a second fsync would report success for them.

    Raises:
        sqlite3.Error: that is not certain.
    """
    end = time.monotonic() + _BUSY_MS / 1_000
    while not try_checkpoint(connection):
        if time.monotonic() > end:
            raise sqlite3.OperationalError("the write-ahead log stays in use")
        time.sleep(_CHECKPOINT_STEP_S)
    begin_wal(connection)


def try_checkpoint(connection: sqlite3.Connection) -> bool:
    """Copy the WAL into the database and empty it; False if it is in use and was not copied.

    A kind of checkpoint that lets nobody write meanwhile: before 3.51.3, SQLite can lose a
    commit that resets the WAL beside a checkpoint.
    """
    query = "PRAGMA wal_checkpoint(TRUNCATE)"
    busy, length, copied = connection.execute(query).fetchone()
    return not busy or 0 <= length == copied


def begin_wal(connection: sqlite3.Connection) -> None:
    """Write the head of an empty WAL, which takes an fsync of its own, before it is urgent."""
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def wal_path(path: Path) -> Path:
    """The file beside the database that commits are written to."""
    return path.with_name(f"{path.name}-wal")


@contextlib.contextmanager
def coded(where: Path | str, code: StoreErrorCode, message: str) -> Iterator[None]:
    """Give errors of SQLite and of the system a code."""
    try:
        yield
    except sqlite3.Error as error:
        raise sqlite_error(error, where, code, message) from error
    except OSError as error:
        reason = f"{message}: {error.strerror}" if error.strerror else message
        raise StoreError(code, reason, where=str(where)) from error


def sqlite_error(
    error: sqlite3.Error, where: Path | str, code: StoreErrorCode, message: str
) -> StoreError:
    """One error of SQLite with a code; only the name of its kind is told, never its text."""
    kind = getattr(error, "sqlite_errorname", None)
    number = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if number in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        code, message = StoreErrorCode.CORRUPT_LOG, "the database is damaged"
    return StoreError(code, f"{message} ({kind})" if kind else message, where=str(where))


def _identify(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse what is not ours, before anything is changed in it."""
    if sqlite3.sqlite_version_info < _OLDEST or sqlite3.threadsafety == 0:
        raise StoreError(
            StoreErrorCode.STORE_UNAVAILABLE,
            f"SQLite {sqlite3.sqlite_version} is too old, or built without threads",
        )
    application, version = (_value(connection, name) for name in ("application_id", "user_version"))
    if application == APPLICATION_ID and version == SCHEMA_VERSION:
        return
    if application == APPLICATION_ID:
        reason = f"version {version} of the tables is not known; use a newer release"
    elif application == version == 0 and _is_empty(connection):
        return
    else:
        reason = "the database belongs to another program"
    raise StoreError(StoreErrorCode.UNSUPPORTED_LOG, reason, where=str(path))


def _is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None


def _require(connection: sqlite3.Connection, path: Path, name: str, value: object) -> None:
    """Change a setting of SQLite, and read it back.

    Raises:
        StoreError: `store_unavailable`; it stays another one.
    """
    connection.execute(f"PRAGMA {name} = {value}")
    found = _value(connection, name)
    if found != value:
        raise StoreError(
            StoreErrorCode.STORE_UNAVAILABLE,
            f"{name} stays {found!r}, not {value!r}; put the database on another file system",
            where=str(path),
        )


def _value(connection: sqlite3.Connection, name: str) -> object:
    row = connection.execute(f"PRAGMA {name}").fetchone()
    value = None if row is None else row[0]
    return value.decode() if isinstance(value, bytes) else value


def _make_tables(connection: sqlite3.Connection) -> None:
    if _value(connection, "user_version") == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute("COMMIT")


def _refuse_unsafe(path: Path) -> None:
    """Refuse files that others may read or write, and anything that is not a file."""
    if path.parent.stat().st_mode & stat.S_IWOTH:
        raise _unsafe("everybody may write in its folder; use a private one", path)
    for each in (path, wal_path(path), path.with_name(f"{path.name}-shm")):
        with contextlib.suppress(FileNotFoundError):
            mode = each.lstat().st_mode
            if not stat.S_ISREG(mode):
                raise _unsafe("not a regular file; links are not followed", each)
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise _unsafe("others may use the file; take their rights away (chmod 600)", each)


def _unsafe(reason: str, path: Path) -> StoreError:
    return StoreError(StoreErrorCode.STORE_UNAVAILABLE, reason, where=str(path))


def _make_durable_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_durable_folder(folder.parent)
        make_folder(folder)
        Disk().sync_folder(folder.parent)
