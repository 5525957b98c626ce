"""What the paths of a command name: logs on this machine, standard input, logs behind URLs.

In folders a log is known by how it begins. The name decides in two cases only: what a store
would open as a session log is looked at even if nothing of its beginning is left, and the
bytes that a store or a repair saved aside are no log.
"""

import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final

from attrs import field, frozen

from schedule_adapters.stores.zstd_frames import MAGIC

STANDARD_INPUT: Final = "-"

_HEAD: Final = 4_096
"""Enough of a file to know it by; only `type` of a header must lie within."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:://|::)")
_HEADER = re.compile(rb'[ \t]*\{[^\n]*"type"[ \t]*:[ \t]*"session"')
_EVENT = re.compile(rb'\n\{"type":"[^"\n]*","seq0?":[0-9]')
_STORED_NAMES: Final = frozenset({"session.jsonl", "session.jsonl.zstd"})
_SAVED_ASIDE = re.compile(r"\.torn-[0-9]+-[0-9]+$")


@frozen
class Target:
    """One log to look at.

    Attributes:
        name: the log as it is shown.
        place: a path of this machine or a URL; None for standard input.
        size: in bytes, if that is known without reading it.
    """

    name: str
    place: Path | str | None
    size: int = field(default=0, eq=False)

    @property
    def is_kept_by_a_store(self) -> bool:
        """Whether a store would open it as a session log, whatever it holds."""
        return self.name.rpartition("/")[2] in _STORED_NAMES

    def open(self) -> AbstractContextManager[BinaryIO]:
        """Open it for reading.

        Raises:
            OSError: it cannot be opened; a URL may raise whatever its storage does.
            UnreadableError: the package for URLs is missing.
        """
        if self.place is None:
            return nullcontext(sys.stdin.buffer)
        if isinstance(self.place, Path):
            return self.place.open("rb")
        opened: AbstractContextManager[BinaryIO] = _fsspec().open(self.place, "rb")
        return opened


@frozen
class Unreadable:
    """A path that gives no log, and why, in words for the person who named it."""

    name: str
    reason: str


class UnreadableError(Exception):
    """Why nothing can be read; its text is the reason."""


def find_targets(paths: Iterable[str]) -> Iterator[Target | Unreadable]:
    """The logs that the paths name, each once, those of a folder sorted."""
    known: set[str] = set()
    for path in paths:
        for found in _find(path):
            if found.name not in known:
                known.add(found.name)
                yield found


def reason_of(error: BaseException) -> str:
    """Why something could not be read or written, for a person."""
    match error:
        case FileNotFoundError():
            return "there is no such file or folder"
        case PermissionError():
            return "permission denied; check who may read it"
        case IsADirectoryError():
            return "it is a folder"
        case OSError(strerror=str(text)) if text:
            return text[:1].lower() + text[1:]
        case UnreadableError():
            return str(error)
        case _:
            return f"{type(error).__name__}: {error}"


def _find(path: str) -> Iterator[Target | Unreadable]:
    if path == STANDARD_INPUT:
        yield Target(path, None)
    elif _URL.match(path):
        yield from _find_behind(path)
    elif (local := Path(path)).is_dir():
        yield from _or_none(_find_below(local), path)
    else:
        yield _file(local)


def _find_below(folder: Path) -> Iterator[Target | Unreadable]:
    failures: list[OSError] = []
    for parent, subfolders, names in os.walk(folder, onerror=failures.append):
        subfolders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            if _SAVED_ASIDE.search(name) or not path.is_file():  # a pipe would block
                continue
            try:
                if name in _STORED_NAMES or _begins_like_a_log(_head(path)):
                    yield _file(path)
            except OSError as error:
                yield Unreadable(str(path), reason_of(error))
    for failure in failures:
        yield Unreadable(str(failure.filename), reason_of(failure))


def _file(path: Path) -> Target:
    try:
        size = path.stat().st_size
    except (OSError, ValueError):
        size = 0  # opening it will say what is wrong
    return Target(str(path), path, size)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


def _find_behind(url: str) -> Iterator[Target | Unreadable]:
    try:
        files, path = _fsspec().core.url_to_fs(url)
        if files.isdir(path):
            yield from _or_none(_find_behind_folder(files, path, url), url)
        else:
            yield Target(url, url, _size(files.info(path)))
    except Exception as error:  # noqa: BLE001 - each storage raises errors of its own
        yield Unreadable(url, reason_of(error))


def _find_behind_folder(files: Any, folder: str, url: str) -> Iterator[Target]:
    base, separator, around = url.partition("::")  # behind it: the archive it lies in
    base = base if base.endswith("/") else f"{base}/"
    for path, info in sorted(files.find(folder, detail=True).items()):
        name = path.rpartition("/")[2]
        if _SAVED_ASIDE.search(name):
            continue
        if name in _STORED_NAMES or _begins_like_a_log(files.cat_file(path, 0, _HEAD)):
            below = path.removeprefix(folder.rstrip("/")).lstrip("/")
            found = base + below + separator + around
            yield Target(found, found, _size(info))


def _size(info: dict[str, Any]) -> int:
    size = info.get("size")
    return size if isinstance(size, int) else 0


def _or_none(found: Iterable[Target | Unreadable], folder: str) -> Iterator[Target | Unreadable]:
    """What was found, or that nothing was: nobody should take an empty folder for sound logs."""
    is_empty = True
    for one in found:
        is_empty = False
        yield one
    if is_empty:
        yield Unreadable(folder, "there is no session log in this folder")


def _begins_like_a_log(head: bytes) -> bool:
    if head.startswith(MAGIC):
        try:
            from zstandard import ZstdDecompressor, ZstdError  # noqa: PLC0415 - an extra
        except ImportError:
            return True  # nobody can tell; reading it says what to install
        try:
            head = ZstdDecompressor().stream_reader(BytesIO(head)).read(_HEAD)
        except ZstdError:
            return False
    return _HEADER.match(head) is not None or _EVENT.search(head) is not None


def _fsspec() -> Any:
    try:
        return importlib.import_module("fsspec")
    except ImportError as error:
        raise UnreadableError(
            "a URL is read after: pip install 'session-schedule[fsspec]'"
        ) from error
