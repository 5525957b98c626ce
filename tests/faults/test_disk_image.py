"""The disk that the power cuts are made on keeps what was synced, and of the rest a beginning."""

import random
from collections import Counter

from tests.faults.disk_image import Cut, DiskImage, File, Folder, Write

SEEDS = range(200)


def dice(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - no secret


def test_what_was_synced_survives_every_cut() -> None:
    """Given content and name synced, the file is there whole, whatever came later."""
    for seed in SEEDS:
        image, file = DiskImage(), File(0o600)
        image.root.change({"log": file})
        file.change(Write(0, b"durable"))
        file.sync()
        image.root.sync()
        file.change(Write(7, b" pending"))

        image.cut_power(dice(seed))

        assert image.file("log") is file
        assert b"durable pending".startswith(file.content.rstrip(b"\0"))
        assert file.content.startswith(b"durable")


def test_what_a_failed_sync_has_lost_no_later_one_brings_back() -> None:
    """Given a sync that failed, the content can be read until the cut, and then it is gone."""
    image, file = DiskImage(), File(0o600)
    image.root.change({"log": file})
    image.root.sync()
    file.change(Write(0, b"lost "))
    file.fail_to_sync()
    file.change(Write(5, b"kept"))
    file.sync()
    assert bytes(file.content) == b"lost kept"

    image.cut_power(dice(1))

    assert bytes(file.content) == b"\0\0\0\0\0kept"


def test_a_file_whose_name_was_not_synced_may_be_gone() -> None:
    """Syncing a file says nothing of its name."""
    found = set()
    for seed in SEEDS:
        image, file = DiskImage(), File(0o600)
        image.root.change({"log": file})
        file.change(Write(0, b"text"))
        file.sync()
        image.cut_power(dice(seed))
        found.add("log" in image.root.names)
    assert {True, False} == found


def test_a_name_may_stand_for_content_that_never_came() -> None:
    """Syncing a folder says nothing of the files in it."""
    found = set()
    for seed in SEEDS:
        image, file = DiskImage(), File(0o600)
        image.root.change({"log": file})
        image.root.sync()
        file.change(Write(0, b"text"))
        image.cut_power(dice(seed))
        found.add(bytes(file.content))
    assert {b"", b"t", b"te", b"tex", b"text", b"\0\0\0\0"} <= found


def test_a_rename_happens_wholly_or_not_at_all() -> None:
    """Given a new file in place of an old one, a cut leaves the one or the other."""
    found = Counter[bytes]()
    for seed in SEEDS:
        image = DiskImage()
        old, new = File(0o600), File(0o600)
        for file, text in ((old, b"old"), (new, b"new")):
            file.change(Write(0, text))
            file.sync()
        image.root.change({"log": old, "temporary": new})
        image.root.sync()
        image.root.change({"temporary": None, "log": new})
        image.cut_power(dice(seed))
        found[bytes(image.file("log").content)] += 1
        assert ("temporary" in image.root.names) == (image.file("log") is old)
    assert {b"old", b"new"} == set(found)


def test_a_cut_back_file_may_be_long_again() -> None:
    """Truncating is no more durable than writing."""
    found = set()
    for seed in SEEDS:
        image, file = DiskImage(), File(0o600)
        image.root.change({"log": file})
        image.root.sync()
        file.change(Write(0, b"longer"))
        file.sync()
        file.change(Cut(4))
        image.cut_power(dice(seed))
        found.add(bytes(file.content))
    assert {b"long", b"longer"} == found


def test_folders_lose_what_is_in_them_too() -> None:
    """A cut reaches every file below, by whichever of its names."""
    image, folder, file = DiskImage(), Folder(0o700), File(0o600)
    image.root.change({"folder": folder})
    image.root.sync()
    folder.change({"one": file, "two": file})
    folder.sync()
    file.change(Write(0, b"x" * 1_000))

    losses = image.cut_power(dice(1))

    assert file is image.file("/folder/one") is image.file("folder/two")
    assert bytes(file.content) == file.durable
    assert losses["writes lost"] <= 1
