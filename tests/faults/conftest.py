"""What the fault tests share: a zygote for each worker, and the counts that each test prints."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.places import new_place
from tests.faults.zygote import Zygote, zygote

Tell = Callable[[Counter[str]], None]


@pytest.fixture(scope="session")
def lives() -> Iterator[Zygote]:
    """Where lives come from."""
    with zygote() as source:
        yield source


@pytest.fixture
async def url(kind: str, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a new store of that kind."""
    async with new_place(kind, tmp_path) as place:
        yield place


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """Print the counts of a script, in the test's output and in the summary of the run."""

    def tell_counts(counts: Counter[str]) -> None:
        words = ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))
        record_property("faults", words)
        print(words)  # noqa: T201 - what a script is asked for

    return tell_counts
