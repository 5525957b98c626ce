"""What a barrier of the PostgreSQL store promises, whatever happens to the commit."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from itertools import count

import pytest

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.postgres import PostgresSession, PostgresStore
from schedule_adapters.testing.postgres import own_schema
from schedule_adapters.testing.stores import SetClock
from tests.adapters.stores.postgres_world import Cable, Database, every_text, refusal, write

SECRET = "the prompt nobody may read"  # noqa: S105 - of a kind


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    async with Database.make() as database:
        yield database


async def started(session: PostgresSession) -> "asyncio.Task[None]":
    barrier = asyncio.ensure_future(session.barrier())
    await asyncio.sleep(0)
    return barrier


class TestGroupCommit:
    async def test_sessions_that_wait_together_share_a_commit(self, database: Database) -> None:
        """Fifty barriers at once: one goes out alone, the others behind it in one statement."""
        store = database.store()
        sessions = [await store.open(f"s{number}") for number in range(50)]
        for session in sessions:
            session.append("x", {})

        await asyncio.gather(*(session.barrier() for session in sessions))

        assert store._writer.commits <= 2
        assert await database.ask("select count(distinct xmin::text) from event_line") <= [(2,)]
        assert await database.ask("select count(*) from event_line") == [(100,)]

    async def test_later_event_waits_for_a_commit_of_its_own(self, database: Database) -> None:
        """A statement that was sent before the append cannot confirm it, however long it takes."""
        store = database.store()
        session = await store.open("one")
        holder = await database.another_admin()
        async with holder.transaction():
            await holder.execute("select from lease for update")
            session.append("early", {})
            early = await started(session)
            await database.until_blocked(holder.info.backend_pid)
            session.append("late", {})
            late = await started(session)
        await early
        late_was_done = late.done()
        await late

        assert not late_was_done
        assert store._writer.commits == 2

    async def test_batch_that_the_server_refuses_holds_up_no_other(
        self, database: Database, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It fails alone, with a code, and without a word of what was in it."""
        await refuse_type(database, "poison")
        store = database.store()
        sessions = [await store.open(name) for name in ("one", "two", "three")]
        for session in sessions:
            session.append("x", {})
        sessions[1].append("poison", {"text": SECRET})

        with caplog.at_level(logging.DEBUG, "schedule_adapters"):
            results = await asyncio.gather(
                *(session.barrier() for session in sessions), return_exceptions=True
            )

        assert [type(result) for result in results] == [type(None), StoreError, type(None)]
        assert isinstance(results[1], StoreError)
        assert results[1].code == StoreErrorCode.WRITE_FAILED
        assert SECRET not in caplog.text + every_text(results[1])

    async def test_lines_of_a_failed_batch_come_with_the_next_one(self, database: Database) -> None:
        """Nothing was changed by the refused statement; later all of it stands there once."""
        await refuse_type(database, "poison")
        session = await database.store().open("one")
        session.append("poison", {})
        await refusal(session.barrier())
        await database.ask("drop trigger refuse on event_line")

        await write(session, "more")

        assert await database.lines() == ["poison", "more"]


class TestCommitInDoubt:
    async def test_commit_that_happened_is_found_out(self, database: Database) -> None:
        """The answer was lost: the lines stand there, once, and the barrier passes."""
        cable, url = await database.cable()
        session = await database.store(url).open("one")
        cable.on_answer = once(cable, cable.cut)

        await write(session, "x")

        assert await database.lines() == ["x"]
        assert await database.ask("select count(*) from event_line") == [(2,)]

    async def test_commit_that_did_not_happen_is_made_good(self, database: Database) -> None:
        """The statement was lost: it is written again, once, and the barrier passes."""
        cable, url = await database.cable()
        session = await database.store(url).open("one")
        cable.on_request = once(cable, cable.cut)

        await write(session, "x")

        assert await database.lines() == ["x"]

    async def test_line_that_is_cut_at_any_moment_never_breaks_the_log(
        self, database: Database
    ) -> None:
        """Cut at the n-th piece in either direction, for every n until a run meets no cut."""
        for direction in ("on_request", "on_answer"):
            for number in count():
                name = f"{direction}-{number}"
                was_cut = await cut_at(database, direction, number, name)
                stored = await database.store().read(name)
                assert [e.type for e in stored.events if e.type != "log/checkpoint"] == list("abc")
                if not was_cut:
                    break
            assert number > 5

    async def test_old_statement_still_under_way_is_waited_for(self, database: Database) -> None:
        """The line is cut while the server commits: looking at once would find nothing."""
        cable, url = await database.cable()
        session = await database.store(url).open("one")
        await stall_commits(database)
        holder = await database.another_admin()
        await holder.execute("select pg_advisory_lock(hashtext(current_schema))")
        session.append("x", {})
        barrier = await started(session)
        old = await database.until_blocked(holder.info.backend_pid)

        cable.cut()
        await database.until_blocked(old)  # the second attempt waits for the first
        assert not barrier.done()
        await holder.execute("select pg_advisory_unlock(hashtext(current_schema))")
        await barrier

        assert await database.lines() == ["x"]
        assert await database.ask("select count(*) from event_line") == [(2,)]

    async def test_process_that_is_ended_before_the_statement_comes(
        self, database: Database
    ) -> None:
        """The server restarted meanwhile, say: the next barrier does not notice."""
        session = await database.store().open("one")
        connection = session._writer._link._connection
        assert connection is not None
        await database.ask("select pg_terminate_backend(%s)", connection.info.backend_pid)

        await write(session, "x")

        assert await database.lines() == ["x"]

    async def test_process_that_is_ended_amid_the_statement(self, database: Database) -> None:
        """It has the lease's lock and waits to write: nothing of it stays, and it comes again."""
        session = await database.store().open("one")
        holder = await database.another_admin()
        async with holder.transaction(force_rollback=True):
            await holder.execute(
                "insert into event_line select 'one', 1, gen_random_uuid(), '', ''"
            )
            session.append("x", {})
            barrier = await started(session)
            writer = await database.until_blocked(holder.info.backend_pid)
            await database.ask("select pg_terminate_backend(%s)", writer)
            await database.until_blocked(holder.info.backend_pid)
        await barrier

        assert await database.lines() == ["x"]

    async def test_process_that_is_ended_at_its_commit(self, database: Database) -> None:
        """All is written and checked, only the commit is not: it did not happen."""
        session = await database.store().open("one")
        await stall_commits(database)
        holder = await database.another_admin()
        await holder.execute("select pg_advisory_lock(hashtext(current_schema))")
        session.append("x", {})
        barrier = await started(session)
        writer = await database.until_blocked(holder.info.backend_pid)
        await database.ask("select pg_terminate_backend(%s)", writer)
        await database.until_blocked(holder.info.backend_pid)
        await holder.execute("select pg_advisory_unlock(hashtext(current_schema))")
        await barrier

        assert await database.lines() == ["x"]

    async def test_failed_barrier_is_made_good_by_the_next(self, database: Database) -> None:
        """The server was away for longer than two attempts; the lines were kept."""
        cable, url = await database.cable()
        session = await database.store(url, answer_s=0.5).open("one")
        cable.on_request = lambda _: cable.cut()
        session.append("x", {})

        error = await refusal(session.barrier())
        cable.on_request = lambda _: None
        await write(session, "y")

        assert error.code == StoreErrorCode.WRITE_FAILED
        assert await database.lines() == ["x", "y"]

    async def test_server_that_says_nothing_ends_in_an_error(self, database: Database) -> None:
        """No hang: the line is held, and the barrier is refused within a bounded time."""
        cable, url = await database.cable()
        session = await database.store(url, answer_s=0.3).open("one")
        cable.hold()
        session.append("x", {})

        async with asyncio.timeout(5):
            error = await refusal(session.barrier())

        assert error.code == StoreErrorCode.WRITE_FAILED

    async def test_refused_fork_left_in_doubt_is_found_out(self, database: Database) -> None:
        """A whole session in one transaction: the same answers, and never `session_exists`."""
        await write(await database.store().open("one"), "x")
        for number in count():
            cable, url = await database.cable()
            store = database.store(url)
            await store.session_ids()
            cable.on_answer = at(number, cable.cut)
            header = await store.fork("one", f"child{number}")
            assert (await store.read(header.id)).header == header
            if cable.connections == 1:
                break

        assert number > 3


class TestWhatNobodyShouldDo:
    async def test_foreign_events_at_our_numbers_end_the_session(self, database: Database) -> None:
        """Somebody inserted by hand: loud, and nothing more is written."""
        session = await database.store().open("one")
        await write(session, "x")
        await database.ask("insert into event_line select 'one', 3, gen_random_uuid(), 'f', '{}'")
        session.append("y", {})

        for _ in range(2):
            error = await refusal(session.barrier())
            assert error.code == StoreErrorCode.CORRUPT_LOG

    async def test_batch_that_meets_foreign_events_leaves_nothing(self, database: Database) -> None:
        """Neither before nor behind them: it is written whole or not at all."""
        session = await database.store().open("one")
        await write(session, "x")
        await database.ask("insert into event_line select 'one', 3, gen_random_uuid(), 'f', '{}'")
        for event_type in ("y", "z", "last"):
            session.append(event_type, {})

        await refusal(session.barrier())

        rows = await database.ask("select seq, type from event_line order by seq")
        assert rows == [(0, "log/checkpoint"), (1, "x"), (3, "f")]

    async def test_confirmed_events_that_are_gone_end_the_session(self, database: Database) -> None:
        """After a fall back to a standby that lagged: no gap is written behind them."""
        session = await database.store().open("one")
        await write(session, "x", "y")
        await database.ask("delete from event_line where seq = 2")
        session.append("z", {})

        error = await refusal(session.barrier())

        assert error.code == StoreErrorCode.CORRUPT_LOG
        assert await database.lines() == ["x"]


class TestEndOfTheLoop:
    @pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 10, 50, 200])
    def test_leaves_whole_batches_and_ends(self, steps: int) -> None:
        """Every task is cancelled, wherever the writing is: nothing half, and nobody hangs."""

        async def talk(url: str) -> None:
            store = PostgresStore(url, clock=SetClock())
            session = await store.open("one")
            opened.append(session)
            try:
                await write(session, "x", "y")
                await asyncio.Event().wait()  # to be cancelled here at the latest
            finally:
                await session.close()
                await store.close()

        async def leave_early(url: str) -> None:
            talking = asyncio.create_task(talk(url))
            while not opened:  # noqa: ASYNC110 - it counts the loop's own steps
                await asyncio.sleep(0)
            for _ in range(steps):
                await asyncio.sleep(0)
            del talking

        opened: list[PostgresSession] = []
        with asyncio.Runner() as runner:
            making = Database.make()
            database = runner.run(making.__aenter__())
            asyncio.run(leave_early(database.url))
            assert runner.run(database.lines()) in ([], ["x", "y"])
            assert runner.run(database.ask("select expires::text from lease")) == [("-infinity",)]
            runner.run(making.__aexit__(None, None, None))

    async def test_cancelled_writer_is_no_success(self, database: Database) -> None:
        """A barrier that still waits is refused, and so is not the next one."""
        session = await database.store().open("one")
        holder = await database.another_admin()
        async with holder.transaction():
            await holder.execute("select from lease for update")
            session.append("x", {})
            barrier = await started(session)
            await database.until_blocked(holder.info.backend_pid)
            assert session._writer._work is not None
            session._writer._work.cancel()
            error = await refusal(barrier)

        await session.barrier()

        assert error.code == StoreErrorCode.WRITE_FAILED
        assert await database.lines() == ["x"]

    async def test_writer_cancelled_before_its_first_step_is_no_success(
        self, database: Database
    ) -> None:
        session = await database.store().open("one")
        session.append("x", {})
        barrier = await started(session)
        assert session._writer._work is not None
        session._writer._work.cancel()

        error = await refusal(barrier)
        await session.barrier()

        assert error.code == StoreErrorCode.WRITE_FAILED
        assert await database.lines() == ["x"]


class TestLeavingNothingBehind:
    async def test_no_connection_and_no_task_is_left(self) -> None:
        """After a store was closed the server knows nothing of it, and the loop neither."""
        async with own_schema() as url:
            before = asyncio.all_tasks()
            store = await PostgresStore.connect(f"{url}&application_name=leaving", clock=SetClock())
            await write(await store.open("one"), "x")
            await store.close()
            await store.close()
            assert asyncio.all_tasks() == before
            async with Database.make() as database:
                asked = "select count(*) from pg_stat_activity where application_name = 'leaving'"
                while await database.ask(asked) != [(0,)]:  # noqa: ASYNC110 - not our process
                    await asyncio.sleep(0.01)

    async def test_closed_store_refuses(self, database: Database) -> None:
        store = database.store()
        await store.close()

        assert (await refusal(store.open("one"))).code == StoreErrorCode.STORE_UNAVAILABLE
        assert (await refusal(store.read("one"))).code == StoreErrorCode.STORE_UNAVAILABLE


def once(cable: Cable, act: Callable[[], None]) -> Callable[[bytes], None]:
    """Act at the next piece that passes, and at no later one."""
    return at(0, act)


def at(number: int, act: Callable[[], None]) -> Callable[[bytes], None]:
    """Act at the n-th piece that passes, counted from 0."""
    pieces = count()

    def look(_: bytes) -> None:
        if next(pieces) == number:
            act()

    return look


async def cut_at(database: Database, direction: str, number: int, name: str) -> bool:
    """Write three events over a line that is cut once; gives whether it was."""
    cable, url = await database.cable()
    was_cut = asyncio.Event()

    def cut() -> None:
        was_cut.set()
        cable.cut()

    store = database.store(url)
    await (await store.open("connects")).close()
    setattr(cable, direction, at(number, cut))
    session = await store.open(name)
    for event_type in "abc":
        await write(session, event_type)
    await store.close()
    return was_cut.is_set()


async def refuse_type(database: Database, event_type: str) -> None:
    """Make the server refuse events of a type, and repeat their lines in its error."""
    await database.ask(
        "create function refuse() returns trigger language plpgsql as $$ "
        "begin raise exception '%%', new.line using errcode = '53100'; end $$"
    )
    await database.ask(
        "create trigger refuse before insert on event_line for each row "
        f"when (new.type = '{event_type}') execute function refuse()"
    )


async def stall_commits(database: Database) -> None:
    """Make every commit of events wait for an advisory lock, after all else is done."""
    await database.ask(
        "create function stall() returns trigger language plpgsql as $$ begin "
        "perform pg_advisory_xact_lock(hashtext(current_schema)); return null; end $$"
    )
    await database.ask(
        "create constraint trigger stall after insert on event_line "
        "deferrable initially deferred for each row execute function stall()"
    )
