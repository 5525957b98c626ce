"""A copy of a log without its torn tail: never in place, never a guess.

Only bytes beyond every checkpoint are left out, as the store itself would cut them; they are
kept beside the copy. Everything else is explained and left alone.
"""

import os
import shutil
from pathlib import Path
from typing import BinaryIO, Final

from attrs import asdict, frozen

from schedule_adapters.doctor.findings import Finding, FindingCode, Severity
from schedule_adapters.doctor.report import LogReport
from schedule_adapters.doctor.scan import scan
from schedule_adapters.doctor.source import LogFormat
from schedule_adapters.stores.disk import make_folder, open_file
from schedule_adapters.stores.folder_names import encode_id
from schedule_core.text import json_text

NOTE_NAME: Final = "repair-note.json"
_CHUNK: Final = 1 << 20


@frozen
class RepairNote:
    """What was done with one log, and why.

    Attributes:
        source: the log, which was only read.
        summary: one or two plain sentences.
        copy: the repaired copy; None if none was made.
        removed: the file of the bytes that are not in it.
        removed_at: byte of `source` at which they began.
        removed_bytes: how many they were.
    """

    source: str
    summary: str
    copy: str | None = None
    removed: str | None = None
    removed_at: int | None = None
    removed_bytes: int = 0

    @property
    def is_repaired(self) -> bool:
        """Whether there is a copy now that every reader takes whole."""
        return self.copy is not None


def repair(source_path: Path, target_folder: Path) -> RepairNote:
    """Write a copy without the torn tail to `<target_folder>/<session>/`, if that is all it needs.

    Raises:
        FileExistsError: that folder holds something already.
        OSError: the log cannot be read, or the copy not written; nothing is left behind.
        StoreError: `unsupported_log`, as `scan`.
    """
    with os.fdopen(open_file(source_path, os.O_RDONLY), "rb") as source:
        report = scan(source)
        cut = _cut(report)
        if cut is None:
            return RepairNote(str(source_path), _refusal(report))
        assert report.session is not None
        folder = target_folder / encode_id(report.session)
        make_folder(target_folder)
        folder.mkdir(mode=0o700)
        try:
            return _write(source, source_path, folder, cut)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def _cut(report: LogReport) -> int | None:
    """The byte of the file from which on nothing was ever committed; None to refuse."""
    errors = [f for f in report.findings if f.severity is Severity.ERROR]
    if any(f.code is not FindingCode.TORN_TAIL for f in errors):
        return None
    if report.torn_frame is not None:
        # Torn text in complete frames as well is nothing that a crash leaves behind.
        return report.torn_frame if report.torn is None else None
    if report.torn is None or report.format is LogFormat.ZSTD:
        return None
    return report.torn.offset


def _refusal(report: LogReport) -> str:
    first = report.first_fault
    if first is None:
        return "Nothing to repair: no reader has trouble with this log."
    if first.code is FindingCode.TORN_TAIL:
        return "Not repaired: the torn tail is not the only damage, and nothing is cut on a guess."
    return (
        f"Not repaired: {_describe(first)} What stands there may have been committed, so "
        "nothing is cut; a person has to decide."
    )


def _describe(finding: Finding) -> str:
    return f"line {finding.line}: {finding.explanation.sentence} ({finding.message})"


def _write(source: BinaryIO, source_path: Path, folder: Path, cut: int) -> RepairNote:
    copy = folder / source_path.name
    removed = folder / f"{copy.name}.torn-{cut}-0"
    source.seek(0)
    _copy(source, copy, cut)
    size = _copy(source, removed, None)
    with copy.open("rb") as written:
        check = scan(written)
    if not check.is_sound:
        raise OSError(f"the copy is not sound: {check.first_fault}")
    note = RepairNote(
        source=str(source_path),
        summary=(
            f"The last {size} bytes, from byte {cut} on, were left out: a write that was never "
            "completed and that no checkpoint calls durable. They are kept beside the copy."
        ),
        copy=str(copy),
        removed=str(removed),
        removed_at=cut,
        removed_bytes=size,
    )
    with os.fdopen(_new_file(folder / NOTE_NAME), "wb") as file:
        file.write(json_text(asdict(note)).encode() + b"\n")
    return note


def _copy(source: BinaryIO, path: Path, size: int | None) -> int:
    """Copy that many bytes, or all that are left, to a new file; gives how many there were."""
    copied = 0
    with os.fdopen(_new_file(path), "wb") as file:
        while size is None or copied < size:
            data = source.read(_CHUNK if size is None else min(_CHUNK, size - copied))
            if not data:
                break
            file.write(data)
            copied += len(data)
        file.flush()
        os.fsync(file.fileno())
    return copied


def _new_file(path: Path) -> int:
    return open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
