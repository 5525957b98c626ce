"""Which servers the PostgreSQL store refuses, and what its errors never say."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.postgres import PostgresStore
from schedule_adapters.stores.postgres.connecting import connect
from schedule_adapters.stores.postgres.connecting import refusal as judge
from schedule_adapters.stores.postgres.place import DEFAULT_SCHEMA, parse_place
from schedule_adapters.testing.postgres import own_schema
from schedule_adapters.testing.stores import SetClock
from tests.adapters.stores.postgres_world import Database, every_text, refusal, write

GOOD = {
    "server_version_num": "150000",
    "in_recovery": "off",
    "default_transaction_read_only": "off",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "transaction_isolation": "read committed",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
}
PASSWORD = "s3cr3t-p%61ssword"  # noqa: S105 - of a test
DECODED = "s3cr3t-password"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with own_schema() as url:
        yield url


class TestSettings:
    def test_server_as_it_comes_is_good(self) -> None:
        assert judge(GOOD) is None
        assert judge(GOOD | {"synchronous_commit": "remote_apply"}) is None

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("fsync", "off"),
            ("full_page_writes", "off"),
            ("synchronous_commit", "off"),
            ("synchronous_commit", "local"),
            ("synchronous_commit", "remote_write"),
            ("default_transaction_read_only", "on"),
            ("in_recovery", "on"),
            ("transaction_isolation", "serializable"),
            ("server_encoding", "SQL_ASCII"),
            ("client_encoding", "LATIN1"),
            ("server_version_num", "120000"),
        ],
    )
    def test_setting_that_weakens_the_promise_is_refused(self, name: str, value: str) -> None:
        """With its name, so that somebody can put it right."""
        reason = judge(GOOD | {name: value})

        assert reason is not None
        assert name in reason or "older than PostgreSQL 13" in reason

    def test_setting_that_cannot_be_read_is_refused(self) -> None:
        """Not knowing is not good enough."""
        for name in GOOD:
            assert judge({key: GOOD[key] for key in GOOD if key != name}) is not None

    async def test_read_only_server_is_refused(self, url: str) -> None:
        await (await PostgresStore.connect(url, clock=SetClock())).close()
        read_only = f"{url}&options=-cdefault_transaction_read_only%3Don"

        error = await refusal(PostgresStore.connect(read_only, clock=SetClock()))

        assert error.code == StoreErrorCode.STORE_UNAVAILABLE
        assert "default_transaction_read_only is on" in error.message

    @pytest.mark.parametrize(
        ("asked", "name", "granted"),
        [
            ("synchronous_commit=off", "synchronous_commit", "on"),
            ("synchronous_commit=local", "synchronous_commit", "on"),
            ("synchronous_commit=remote_apply", "synchronous_commit", "remote_apply"),
            ("default_transaction_isolation=serializable", "transaction_isolation",
             "read committed"),
            ("client_encoding=latin1", "client_encoding", "UTF8"),
            ("statement_timeout=5000", "statement_timeout", "8s"),
            ("search_path=elsewhere", "synchronous_commit", "on"),
        ],
    )  # fmt: skip
    async def test_what_is_ours_to_set_is_set(
        self, url: str, asked: str, name: str, granted: str
    ) -> None:
        """Whatever the role, the database or the URL asked for; more is left as it is."""
        options = asked.replace("=", "%3D")
        connection = await connect(parse_place(f"{url}&options=-c{options}"), 10)

        shown = await (await connection.execute(f"show {name}".encode())).fetchone()

        assert shown == (granted,)
        await connection.close()

    async def test_settings_are_judged_again_at_every_connection(self) -> None:
        """They were changed below an open session: the next barrier is refused, not weaker."""
        async with Database.make() as database:
            role = f"{parse_place(database.url).schema}_role"
            await database.ask(f"create role {role} login superuser")
            database.stack.push_async_callback(database.ask, f"drop role {role}")
            cable, url = await database.cable(user=role)
            session = await database.store(url).open("one")
            await write(session, "x")

            await database.ask(f"alter role {role} set default_transaction_read_only = on")
            await write(session, "y")  # the old connection is as it was
            cable.cut()
            session.append("z", {})
            error = await refusal(session.barrier())
            await database.ask(f"alter role {role} reset default_transaction_read_only")
            await session.barrier()

            assert error.code == StoreErrorCode.WRITE_FAILED
            assert "default_transaction_read_only is on" in error.message
            assert await database.lines() == ["x", "y", "z"]
            await session.close()


class TestPlaces:
    def test_schema_is_ours_and_the_rest_is_libpqs(self) -> None:
        place = parse_place("postgresql://someone:pw@db.example:6000/app?schema=mine&sslmode=allow")

        assert place.schema == "mine"
        assert place.where == "postgresql://db.example:6000/app (schema mine)"
        assert "sslmode=allow" in place.conninfo
        assert "host=db.example" in place.conninfo

    def test_schema_has_a_name_of_its_own(self) -> None:
        """Not `public`, where a table named `session` may be another's."""
        assert parse_place("postgresql:///app").schema == DEFAULT_SCHEMA == "session_schedule"

    @pytest.mark.parametrize("name", ["", "a-b", "1a", 'a"b', "a" * 64, "pg%00", "ä", "a.b"])
    def test_schema_with_an_awkward_name_is_refused(self, name: str) -> None:
        with pytest.raises(StoreError, match="a schema has a name"):
            parse_place(f"postgresql:///app?schema={name}")

    def test_what_the_url_says_goes_before_what_we_would_say(self) -> None:
        place = parse_place("postgresql:///app?connect_timeout=77&application_name=mine")

        assert "connect_timeout=77" in place.conninfo
        assert "application_name=mine" in place.conninfo
        assert "keepalives_idle=10" in place.conninfo

    @pytest.mark.parametrize("url", ["postgresql://u:{}@[::1/app", "postgresql://u:{}@h/a?b={}"])
    def test_url_that_cannot_be_read_is_not_repeated(self, url: str) -> None:
        with pytest.raises(StoreError) as caught:
            parse_place(url.format(PASSWORD, PASSWORD))

        assert caught.value.code == StoreErrorCode.STORE_UNAVAILABLE
        assert_hidden(every_text(caught.value))


class TestErrors:
    @pytest.mark.parametrize(
        "place",
        ["nobody:{}@127.0.0.1:{port}/nowhere", "u:{}@127.0.0.1:1/x", "u:{}@nohost.invalid/x"],
    )
    async def test_no_error_says_the_password(
        self, place: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Not in its text, not in its causes, not in the log."""
        async with Database.make() as database:
            port = parse_place(database.url).where.rpartition(":")[2].partition("/")[0]
            with caplog.at_level(logging.DEBUG):
                error = await refusal(
                    PostgresStore.connect(
                        "postgresql://" + place.format(PASSWORD, port=port), clock=SetClock()
                    )
                )

        assert error.code == StoreErrorCode.STORE_UNAVAILABLE
        assert_hidden(every_text(error) + caplog.text)

    async def test_server_that_does_not_exist_is_said_plainly(self) -> None:
        error = await refusal(
            PostgresStore.connect("postgresql://127.0.0.1:1/app", clock=SetClock())
        )

        assert error.code == StoreErrorCode.STORE_UNAVAILABLE
        assert "no connection to the database" in error.message
        assert "refused" in error.message

    async def test_server_that_never_answers_is_given_up(self) -> None:
        """It takes the connection and says nothing."""

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            await writer.wait_closed()
            left.set()

        left = asyncio.Event()
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        error = await refusal(connect(parse_place(f"postgresql://127.0.0.1:{port}/app"), 0.3))
        await left.wait()
        server.close()
        await server.wait_closed()

        assert error.code == StoreErrorCode.STORE_UNAVAILABLE
        assert "does not answer within" in error.message


def assert_hidden(text: str) -> None:
    assert PASSWORD not in text
    assert DECODED not in text
