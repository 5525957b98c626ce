"""The queue before a writer: what goes together, and what becomes of those who wait."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from attrs import define, field

from schedule_adapters.stores.rounds import Rounds


@define
class Writer:
    """A writer that a test holds up, and that fails when told to.

    Attributes:
        gate: cleared, each commit waits until it is set again.
        began: set as soon as a commit has begun.
        commits: the batches of each commit, and "rest" whenever there was nothing else.
        wrong: what is wrong with all batches of the next commit.
    """

    gate: threading.Event = field(factory=threading.Event)
    began: threading.Event = field(factory=threading.Event)
    commits: list[list[str] | str] = field(factory=list)
    wrong: Exception | None = None

    def commit(self, batches: Sequence[str]) -> list[Exception | None]:
        self.commits.append(list(batches))
        self.began.set()
        self.gate.wait()
        self.began.clear()
        wrong, self.wrong = self.wrong, None
        if wrong is not None:
            raise wrong
        return [ValueError(batch) if "bad" in batch else None for batch in batches]

    def rest(self) -> None:
        self.commits.append("rest")


@pytest.fixture
def writer() -> Iterator[Writer]:
    writer = Writer()
    writer.gate.set()
    yield writer
    writer.gate.set()


@pytest.fixture
def rounds(writer: Writer) -> Iterator[Rounds[str, None]]:
    with ThreadPoolExecutor(1) as thread:
        yield Rounds(thread, writer.commit, writer.rest)
        writer.gate.set()


async def under_way(rounds: Rounds[str, None], writer: Writer, batch: str) -> asyncio.Future[None]:
    """A batch whose commit has begun and is held up."""
    writer.gate.clear()
    done = rounds.submit(batch)
    await asyncio.to_thread(writer.began.wait)
    return done


async def test_what_waits_goes_together_in_the_order_it_came(
    rounds: Rounds[str, None], writer: Writer
) -> None:
    """Behind the commit under way, and only when that is over does the writer rest."""
    first = await under_way(rounds, writer, "a")
    others = [rounds.submit(batch) for batch in ("b", "c", "d")]
    assert writer.commits == [["a"]]

    writer.gate.set()
    await asyncio.gather(first, *others)
    await asyncio.wrap_future(rounds._thread.submit(lambda: None))

    assert writer.commits == [["a"], ["b", "c", "d"], "rest"]


async def test_each_is_told_what_was_wrong_with_it_alone(
    rounds: Rounds[str, None], writer: Writer
) -> None:
    first = await under_way(rounds, writer, "a")
    others = [rounds.submit(batch) for batch in ("b", "bad", "c")]
    writer.gate.set()

    results = await asyncio.gather(first, *others, return_exceptions=True)

    assert [str(result) for result in results] == ["None", "None", "bad", "None"]


async def test_all_are_told_what_was_wrong_with_all(
    rounds: Rounds[str, None], writer: Writer
) -> None:
    """Whatever it was, nobody waits for ever; the next commit is a new one."""
    first = await under_way(rounds, writer, "a")
    writer.wrong = ZeroDivisionError()
    second = rounds.submit("b")
    writer.gate.set()

    results = await asyncio.gather(first, second, return_exceptions=True)

    assert [type(result) for result in results] == [ZeroDivisionError, type(None)]
    await rounds.submit("c")


async def test_one_who_no_longer_waits_harms_nobody(
    rounds: Rounds[str, None], writer: Writer
) -> None:
    """Its batch is committed all the same."""
    first = await under_way(rounds, writer, "a")
    cancelled, other = rounds.submit("b"), rounds.submit("c")
    cancelled.cancel()
    writer.gate.set()

    await asyncio.gather(first, other)

    assert writer.commits[1] == ["b", "c"]


def test_a_loop_that_is_closed_is_told_nothing(rounds: Rounds[str, None], writer: Writer) -> None:
    """And those who wait on another loop are."""

    async def leave() -> None:
        await under_way(rounds, writer, "a")

    async def stay() -> None:
        waiting = rounds.submit("b")
        writer.gate.set()
        await waiting

    asyncio.run(leave())
    asyncio.run(stay())

    assert writer.commits[:2] == [["a"], ["b"]]


async def test_what_waited_at_the_end_is_committed_and_nothing_more_is_taken(
    rounds: Rounds[str, None], writer: Writer
) -> None:
    first = await under_way(rounds, writer, "a")
    second = rounds.submit("b")
    rounds.end()
    with pytest.raises(RuntimeError):
        rounds.submit("c")
    writer.gate.set()

    await asyncio.gather(first, second)

    assert writer.commits[:2] == [["a"], ["b"]]
