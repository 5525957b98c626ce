"""The exclusive right to a session as a hard link to its owner's seat."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import pytest

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.owner_links import OwnerLinks

OWNER = """
import sys
from pathlib import Path
from schedule_adapters.stores.owner_links import OwnerLinks

owners = OwnerLinks(Path(sys.argv[1]))
owners.claim("one")
print("owned", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "new" / "owners"


@pytest.fixture
def owners(folder: Path) -> Iterator[OwnerLinks]:
    owners = OwnerLinks(folder)
    yield owners
    owners.leave()


@contextmanager
def seated(folder: Path) -> Iterator[OwnerLinks]:
    """Another store of the same file."""
    other = OwnerLinks(folder)
    yield other
    other.leave()


@contextmanager
def owner_process(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that has the right to the session `one`."""
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", OWNER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "owned\n"
        yield process
        process.kill()


def assert_locked(owners: OwnerLinks, name: str, pid: int) -> None:
    with pytest.raises(StoreError) as caught:
        owners.claim(name)
    assert caught.value.code == StoreErrorCode.SESSION_LOCKED
    assert caught.value.message == f"the session is open in process {pid}"


def test_a_right_is_had_once(folder: Path, owners: OwnerLinks) -> None:
    """By the same store and by another one; given back, it is free."""
    owners.claim("one")
    with seated(folder) as other:
        assert_locked(owners, "one", os.getpid())
        assert_locked(other, "one", os.getpid())
        other.claim("two")

        owners.release("one")

        other.claim("one")
        assert_locked(owners, "one", os.getpid())


def test_owner_in_another_process_is_named(folder: Path, owners: OwnerLinks) -> None:
    with owner_process(folder) as process:
        assert_locked(owners, "one", process.pid)


def test_rights_of_a_killed_process_are_free(folder: Path, owners: OwnerLinks) -> None:
    """At once, and as often as that happens."""
    for _ in range(3):
        with owner_process(folder) as process:
            process.kill()
            process.wait()
            owners.claim("one")
        owners.release("one")


def test_a_stopped_process_keeps_its_rights(folder: Path, owners: OwnerLinks) -> None:
    """It lives, and will go on writing."""
    with owner_process(folder) as process:
        process.send_signal(signal.SIGSTOP)

        assert_locked(owners, "one", process.pid)


def test_one_who_leaves_gives_up_all_rights(folder: Path, owners: OwnerLinks) -> None:
    with seated(folder) as other:
        for name in ("one", "two"):
            other.claim(name)

    for name in ("one", "two"):
        owners.claim(name)
    other.release("one")  # too late, and so nothing
    assert_locked(owners, "one", os.getpid())


def test_release_takes_no_right_of_another(folder: Path, owners: OwnerLinks) -> None:
    """Somebody emptied the folder by hand, and another owner came."""
    owners.claim("one")
    (folder / "one").unlink()
    with seated(folder) as other:
        other.claim("one")
        owners.release("one")

        assert_locked(owners, "one", os.getpid())


def test_dead_seats_are_taken_away(folder: Path, owners: OwnerLinks) -> None:
    """By the next who takes one; those of the living stay."""
    with owner_process(folder) as process:
        process.kill()
        process.wait()
        assert len(list(folder.glob("@*"))) == 2
        with seated(folder):
            assert len(list(folder.glob("@*"))) == 2

    assert len(list(folder.glob("@*"))) == 1


def test_more_rights_than_one_file_has_links(
    folder: Path, owners: OwnerLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems bound the links of a file; one more seat has as many again."""
    link = os.link

    def link_few(source: str, name: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        if (folder / source).stat().st_nlink > 10:
            raise OSError(errno.EMLINK, os.strerror(errno.EMLINK))
        link(source, name, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "link", link_few)
    names = [f"s-{number}" for number in range(35)]
    for name in names:
        owners.claim(name)

    assert len(list(folder.glob("@*"))) == 4
    with seated(folder) as other:
        for name in names:
            assert_locked(other, name, os.getpid())
            owners.release(name)
            other.claim(name)


def test_a_strange_file_is_no_owner(folder: Path, owners: OwnerLinks) -> None:
    """Links are not followed; a file that nobody locks is taken away."""
    (folder / "one").symlink_to(folder / "elsewhere")
    (folder / "two").touch()

    with pytest.raises(OSError, match="symbolic") as caught:
        owners.claim("one")
    assert caught.value.errno == errno.ELOOP
    owners.claim("two")


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "owners").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="owners"):
        OwnerLinks(tmp_path / "owners")

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_that_stays_guarded_is_an_error_in_the_end(
    folder: Path, owners: OwnerLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped at the wrong moment must not stop all others for ever."""
    monkeypatch.setattr("schedule_adapters.stores.owner_links._GUARD_WAIT_S", 0.01)
    with owners.guarded(), pytest.raises(TimeoutError):
        OwnerLinks(folder)


def test_many_who_come_and_go_are_never_two(folder: Path) -> None:
    """Threads with seats of their own, over one session: also when some leave it behind."""
    owned = Lock()
    folder.mkdir(parents=True)

    def come_and_go(number: int) -> bool:
        owners = OwnerLinks(folder)
        try:
            owners.claim("one")
        except StoreError:
            return False
        else:
            alone = owned.acquire(blocking=False)
            assert alone
            owned.release()
            if number % 2:
                owners.release("one")
            return True
        finally:
            owners.leave()

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(come_and_go, range(200)))

    assert any(results)
    assert list(folder.glob("@*")) == []
