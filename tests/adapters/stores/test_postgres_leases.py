"""Who may write a session in PostgreSQL, and what one who may not any more cannot do."""

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import partial

import pytest

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.postgres import PostgresSession, PostgresStore, statements
from schedule_adapters.stores.postgres.connecting import bounded
from schedule_adapters.stores.postgres.leases import Lease, steady_s
from schedule_adapters.stores.postgres.place import parse_place
from schedule_adapters.stores.postgres.writer import HOLDER
from tests.adapters.stores.postgres_world import Database, refusal, until, write


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    async with Database.make() as database:
        yield database


async def taken_over(database: Database, store: PostgresStore) -> PostgresSession:
    """A session of that store that another store took over when its lease had run out."""
    session = await store.open("one")
    await write(session, "ours")
    await database.expire()
    await write(await database.store().open("one"), "theirs")
    return session


class TestOneOwner:
    async def test_second_opener_is_told_who_has_it_and_for_how_long(
        self, database: Database
    ) -> None:
        """Host and process; and the wait, should that process be gone."""
        await database.store(lease_s=30).open("one")

        error = await refusal(database.store().open("one"))

        assert error.code == StoreErrorCode.SESSION_LOCKED
        assert HOLDER in error.message
        assert error.message.endswith(("in 30 s", "in 29 s"))

    async def test_second_opening_in_the_same_store_is_refused(self, database: Database) -> None:
        store = database.store()
        await store.open("one")

        error = await refusal(store.open("one"))

        assert error.code == StoreErrorCode.SESSION_LOCKED

    async def test_owner_that_died_is_followed_once_its_lease_ran_out(
        self, database: Database
    ) -> None:
        """What it made durable is there; nothing else is needed than the wait."""
        await write(await database.store().open("one"), "kept")
        await database.expire()

        session = await database.store().open("one")

        assert [event.type for event in session.events_from(0)][1:] == ["kept"]

    async def test_token_grows_with_every_owner(self, database: Database) -> None:
        """However the one before it ended, and also when nothing was written."""
        tokens = []
        for _ in range(3):
            session = await database.store().open("one")
            tokens.append(session._lease.token)
            await session.close()
            await database.store().open("one")
            await database.expire()

        assert tokens == [1, 3, 5]

    async def test_of_many_openers_one_wins_each_session(self, database: Database) -> None:
        """At the same moment, in several stores."""
        stores = [database.store() for _ in range(3)]
        names = [f"s{number}" for number in range(10)]

        results = await asyncio.gather(
            *(store.open(name) for name in names for store in stores), return_exceptions=True
        )

        winners = [each.header.id for each in results if isinstance(each, PostgresSession)]
        losers = [each.code for each in results if isinstance(each, StoreError)]
        assert sorted(winners) == sorted(names)
        assert losers == [StoreErrorCode.SESSION_LOCKED] * 20

    async def test_taker_waits_for_an_append_under_way_and_finds_its_lines(
        self, database: Database
    ) -> None:
        """The lease runs out while the server writes: that append came first all the same."""
        session = await database.store().open("one")
        await write(session, "first")
        holder = await database.another_admin()
        async with holder.transaction(force_rollback=True):
            # The append will wait for this row, with the lease's lock in its hands.
            await holder.execute(
                "insert into event_line select 'one', 2, gen_random_uuid(), '', ''"
            )
            await database.ask("update lease set expires = clock_timestamp() + interval '0.3 s'")
            session.append("second", {})
            barrier = asyncio.ensure_future(session.barrier())
            appending = await database.until_blocked(holder.info.backend_pid)
            await asyncio.sleep(0.4)  # real time: the server's clock has to pass the end
            taking = asyncio.ensure_future(database.store().open("one"))
            await database.until_blocked(appending)
            assert not taking.done()

        taker = await taking
        await barrier

        assert [event.type for event in taker.events_from(0)][1::2] == ["first", "second"]
        session._lease.trusted_until_s = steady_s()
        assert (await refusal(session.barrier())).code == StoreErrorCode.SESSION_TAKEN_OVER

    async def test_lease_granted_twice_to_one_opening_is_one_lease(
        self, database: Database
    ) -> None:
        """The answer to the first asking was lost, so it asks again; so may a late duplicate."""
        lease, other = Lease("one"), Lease("one")
        for _ in range(2):
            assert await statements.take(database.admin, lease, "we", 30) is None

        assert lease.token == 1
        assert await statements.take(database.admin, other, "they", 30) is not None

    async def test_many_sessions_are_kept_by_one_renewal(self, database: Database) -> None:
        """With the same token, and one statement however many they are."""
        store = database.store(lease_s=30, renew_s=0.05)
        sessions = [await store.open(f"s{number}") for number in range(5)]
        asked = "select session_id, token, expires from lease order by 1"
        before = await database.ask(asked)
        trusted = [session._lease.trusted_until_s for session in sessions]

        await until(
            lambda: all(
                session._lease.trusted_until_s > old
                for session, old in zip(sessions, trusted, strict=True)
            )
        )

        after = await database.ask(asked)
        assert [row[:2] for row in after] == [row[:2] for row in before]
        assert all(new[2] > old[2] for new, old in zip(after, before, strict=True))

    async def test_closed_store_gives_back_what_was_left_open(self, database: Database) -> None:
        store = database.store()
        session = await store.open("one")
        await write(session, "x")
        await store.close()

        again = await database.store().open("one")

        assert again.length == session.length

    async def test_renewal_that_comes_late_does_not_revive_a_lease_given_back(
        self, database: Database
    ) -> None:
        session = await database.store().open("one")
        await session.close()

        lost = await statements.renew(database.admin, [session._lease], 30)

        assert lost == [session._lease]
        await (await database.store().open("one")).close()

    async def test_lease_of_another_is_not_given_back(self, database: Database) -> None:
        """An owner that was replaced closes; the new one keeps the session."""
        store = database.store()
        session = await taken_over(database, store)

        await session.close()

        assert (await refusal(store.open("one"))).code == StoreErrorCode.SESSION_LOCKED


class TestCancelledOpening:
    @pytest.mark.parametrize("delay_ms", [0, 1, 2, 4, 8, 16, 32, 64])
    async def test_leaves_the_session_free(self, database: Database, delay_ms: int) -> None:
        """Wherever the cancellation meets it."""
        store = database.store()
        opening = asyncio.ensure_future(store.open("one"))
        await asyncio.sleep(delay_ms / 1_000)
        opening.cancel()
        await asyncio.wait([opening])
        if not opening.cancelled():
            await opening.result().close()
        await store.close()

        await (await database.store().open("one")).close()

    async def test_amid_the_taking_leaves_the_session_free(self, database: Database) -> None:
        """The server has the statement and cannot answer yet."""
        store = database.store()
        await (await store.open("one")).close()
        holder = await database.another_admin()
        async with holder.transaction():
            await holder.execute("select from lease for update")
            opening = asyncio.ensure_future(store.open("one"))
            await database.until_blocked(holder.info.backend_pid)
            opening.cancel()
            await asyncio.wait([opening])
        assert opening.cancelled()
        await store.close()

        await (await database.store().open("one")).close()

    async def test_after_the_server_granted_it_leaves_the_session_free(
        self, database: Database
    ) -> None:
        """The lease is ours already, and whoever asked for it is gone."""
        cable, url = await database.cable()
        store = database.store(url)
        await (await store.open("zero")).close()
        cable.on_answer = lambda _: cable.hold()
        opening = asyncio.ensure_future(store.open("one"))
        await until(lambda: not cable.passing.is_set())
        cable.on_answer = lambda _: None
        opening.cancel()
        cable.resume()
        await asyncio.wait([opening])
        assert opening.cancelled()
        await store.close()

        await (await database.store().open("one")).close()


class TestReplacedOwner:
    async def test_append_of_a_replaced_owner_writes_nothing(self, database: Database) -> None:
        """The statement itself finds the token changed; the session is over for good."""
        session = await taken_over(database, database.store())
        session.append("late", {})

        for _ in range(2):
            error = await refusal(session.barrier())
            assert error.code == StoreErrorCode.SESSION_TAKEN_OVER

        with pytest.raises(StoreError) as caught:
            session.append("later", {})
        assert caught.value.code == StoreErrorCode.SESSION_TAKEN_OVER
        assert await database.lines() == ["ours", "theirs"]

    async def test_owner_replaced_while_its_append_waits_writes_nothing(
        self, database: Database
    ) -> None:
        """The race itself: the append was sent in good time, the taker got the row first."""
        session = await database.store().open("one")
        await write(session, "ours")
        taker = await database.another_admin()
        async with taker.transaction():
            await taker.execute("update lease set token = token + 1, owner = gen_random_uuid()")
            session.append("late", {})
            barrier = asyncio.ensure_future(session.barrier())
            await database.until_blocked(taker.info.backend_pid)

        assert (await refusal(barrier)).code == StoreErrorCode.SESSION_TAKEN_OVER
        assert await database.lines() == ["ours"]

    async def test_barrier_with_nothing_to_write_does_not_trust_an_old_lease(
        self, database: Database
    ) -> None:
        """It asks the server: otherwise an owner that slept would deliver what is not its own."""
        session = await taken_over(database, database.store())
        session._lease.trusted_until_s = steady_s()

        error = await refusal(session.barrier())

        assert error.code == StoreErrorCode.SESSION_TAKEN_OVER

    async def test_barrier_with_nothing_to_write_costs_nothing_under_a_good_lease(
        self, database: Database
    ) -> None:
        cable, url = await database.cable()
        session = await database.store(url).open("one")
        await write(session, "x")
        await asyncio.sleep(0.05)  # the notification goes out
        requests: list[bytes] = []
        cable.on_request = requests.append

        await session.barrier()

        assert requests == []

    async def test_barrier_that_cannot_ask_does_not_pass(self, database: Database) -> None:
        """An unreachable server and a lease in doubt: refused, with a code of its own."""
        cable, url = await database.cable()
        session = await database.store(url, answer_s=0.5).open("one")
        await write(session, "x")
        session._lease.trusted_until_s = steady_s()
        cable.hold()

        error = await refusal(session.barrier())

        assert error.code == StoreErrorCode.STORE_UNAVAILABLE

    async def test_flush_whose_answer_was_long_under_way_is_not_enough(
        self, database: Database
    ) -> None:
        """Durable it is, but the lease may have run out since the server checked it."""
        cable, url = await database.cable()
        session = await database.store(url).open("one")
        cable.on_answer = lambda _: cable.hold()
        session.append("ours", {})
        barrier = asyncio.ensure_future(session.barrier())
        await until(lambda: not cable.passing.is_set())
        session._lease.trusted_until_s = steady_s()  # as if the answer had taken that long
        await database.ask("update lease set token = token + 1")
        cable.on_answer = lambda _: None
        cable.resume()

        error = await refusal(barrier)

        assert error.code == StoreErrorCode.SESSION_TAKEN_OVER
        assert await database.lines() == ["ours"]

    async def test_lease_that_ran_out_and_that_nobody_took_goes_on(
        self, database: Database
    ) -> None:
        """A laptop that slept finds its conversation as it left it."""
        session = await database.store().open("one")
        await write(session, "before")
        await database.expire()

        await write(session, "after")
        session._lease.trusted_until_s = steady_s()
        await session.barrier()

        assert await database.lines() == ["before", "after"]

    async def test_renewal_finds_out_too(self, database: Database) -> None:
        """An owner that does nothing hears of it at its next barrier, without asking."""
        session = await database.store(renew_s=0.02).open("one")
        await database.ask("update lease set token = token + 1, owner = gen_random_uuid()")

        await until(lambda: session._lease.ended is not None)

        assert (await refusal(session.barrier())).code == StoreErrorCode.SESSION_TAKEN_OVER

    async def test_owner_counts_its_lease_from_before_it_asked(self, database: Database) -> None:
        """However long the answer took: the server began to count earlier than it came."""
        cable, url = await database.cable()
        store = database.store(url, lease_s=30)
        await (await store.open("zero")).close()
        cable.on_answer = lambda _: cable.hold()
        opening = asyncio.ensure_future(store.open("one"))
        asked_s = steady_s()
        await asyncio.sleep(0.3)
        cable.on_answer = lambda _: None
        cable.resume()
        session = await opening

        assert session._lease.trusted_until_s <= asked_s + 0.1 + 30 * 0.9

    async def test_failing_renewal_is_told_and_tried_again(
        self, database: Database, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The log says so without a word of the server's; the lease is kept afterwards."""
        cable, url = await database.cable()
        session = await database.store(url, answer_s=0.5, renew_s=0.05).open("one")
        with caplog.at_level(logging.WARNING):
            cable.hold()
            await until(lambda: bool(caplog.records))
        cable.cut()
        cable.resume()
        before = session._lease.trusted_until_s
        await until(lambda: session._lease.trusted_until_s > before)

        assert "1 sessions were not renewed" in caplog.text

    async def test_other_sessions_of_the_store_are_not_concerned(self, database: Database) -> None:
        """One is taken over, its batch goes out with theirs, and theirs are durable."""
        store = database.store()
        lost = await taken_over(database, store)
        kept = [await store.open(name) for name in ("two", "three")]
        for session in (lost, *kept):
            session.append("x", {})

        results = await asyncio.gather(
            *(session.barrier() for session in (lost, *kept)), return_exceptions=True
        )

        assert [isinstance(result, StoreError) for result in results] == [True, False, False]
        assert await database.lines("two") == await database.lines("three") == ["x"]


async def test_statement_of_an_older_token_writes_nothing(database: Database) -> None:
    """A statement that lay in some buffer until its owner was replaced comes too late."""
    session = await taken_over(database, database.store())
    rows = statements.Batch(session._lease, None, [])
    place = parse_place(database.url)

    outcomes = await bounded(database.admin, place, 5, partial(statements.append, batches=[rows]))

    assert outcomes == {rows: statements.Outcome.REFUSED}


async def test_statement_under_a_lease_that_ran_out_writes_nothing(database: Database) -> None:
    """Also when nobody took it yet: it has to be renewed before."""
    session = await database.store().open("one")
    await database.expire()
    batch = statements.Batch(session._lease, None, [])
    append = partial(statements.append, batches=[batch])

    outcomes = await bounded(database.admin, parse_place(database.url), 5, append)

    assert outcomes == {batch: statements.Outcome.REFUSED}
