"""A torn tail is left out of a copy; everything else is explained."""

import json
from pathlib import Path

import pytest

from schedule_adapters.doctor.repair import NOTE_NAME, repair
from tests.adapters.doctor.log_world import (
    change,
    checkpoint,
    codes,
    create,
    delete,
    fast,
    header,
    line,
)

SOUND = header() + checkpoint(0, -1) + create(1)


def place(folder: Path, content: bytes) -> Path:
    """A log file."""
    path = folder / "session.jsonl"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("tail", [b"\0" * 70, b'{"type":"x"', b"bad\n" + line(3), delete(2)[:-1]])
def test_torn_tail_is_left_out_of_a_copy_and_kept_beside_it(tail: bytes, tmp_path: Path) -> None:
    source = place(tmp_path, SOUND + tail)

    note = repair(source, tmp_path / "repaired")

    folder = tmp_path / "repaired" / "one"
    copy, removed = folder / "session.jsonl", folder / f"session.jsonl.torn-{len(SOUND)}-0"
    assert (note.copy, note.removed) == (str(copy), str(removed))
    assert (note.removed_at, note.removed_bytes) == (len(SOUND), len(tail))
    assert copy.read_bytes() == SOUND
    assert removed.read_bytes() == tail
    assert source.read_bytes() == SOUND + tail
    written = json.loads((folder / NOTE_NAME).read_text())
    assert written["summary"] == note.summary
    assert written["removed_bytes"] == len(tail)
    assert codes(fast(copy.read_bytes())) == []
    assert copy.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (SOUND, "Nothing to repair"),
        (SOUND + b"bad\n" + checkpoint(3, 2), "line 4: The line is not JSON."),
        (SOUND + change(2, 7) + b"torn", "line 4: A member of the schedule event"),
        (header(seed_length=9, parent="p") + line(0) + b"torn", "line 1: The fork boundary"),
        (b"", "line 1: The first line is not the header"),
    ],
)
def test_nothing_else_is_touched(content: bytes, says: str, tmp_path: Path) -> None:
    note = repair(place(tmp_path, content), tmp_path / "repaired")

    assert not note.is_repaired
    assert says in note.summary
    assert [path.name for path in tmp_path.iterdir()] == ["session.jsonl"]


def test_earlier_copy_is_not_written_over(tmp_path: Path) -> None:
    source = place(tmp_path, SOUND + b"torn")
    repair(source, tmp_path / "repaired")

    with pytest.raises(FileExistsError):
        repair(source, tmp_path / "repaired")


def test_incomplete_frame_is_left_out_as_a_whole(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    first, second = (zstandard.ZstdCompressor().compress(text) for text in (SOUND, delete(2)))
    source = place(tmp_path, first + second[:-3])

    note = repair(source, tmp_path / "repaired")

    assert note.removed_at == len(first)
    assert (tmp_path / "repaired" / "one" / "session.jsonl").read_bytes() == first


def test_link_is_not_followed(tmp_path: Path) -> None:
    source = place(tmp_path, SOUND + b"torn")
    (tmp_path / "link").symlink_to(source)

    with pytest.raises(OSError, match="link"):
        repair(tmp_path / "link", tmp_path / "repaired")
