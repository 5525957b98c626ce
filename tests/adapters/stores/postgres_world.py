"""A database of a test's own: stores, a second pair of hands, and a line that can be cut."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Self
from urllib.parse import quote

from attrs import define, field
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict

from schedule_adapters.sessions import StoreError
from schedule_adapters.stores.postgres import PostgresOptions, PostgresSession, PostgresStore
from schedule_adapters.stores.postgres.connecting import connect
from schedule_adapters.stores.postgres.place import parse_place
from schedule_adapters.testing.postgres import own_schema
from schedule_adapters.testing.stores import SetClock

Row = tuple[Any, ...]

PATIENCE_S = 20
"""After that what a test waits for does not come: it fails instead of hanging."""


@define
class Cable:
    """A TCP line to the server that a test can cut, hold, or slow down.

    Attributes:
        on_request: told of the bytes that a client sends, before they are passed on.
        on_answer: told of the bytes that the server sends, before they are passed on.
        connections: how many were made.
    """

    host: str
    port: int
    on_request: Callable[[bytes], None] = field(default=lambda _: None)
    on_answer: Callable[[bytes], None] = field(default=lambda _: None)
    connections: int = 0
    passing: asyncio.Event = field(factory=asyncio.Event)
    _writers: set[asyncio.StreamWriter] = field(factory=set)
    _serving: set[asyncio.Task[None]] = field(factory=set)

    def cut(self) -> None:
        """Cut every connection there is; new ones can be made."""
        for writer in self._writers:
            writer.transport.abort()

    def hold(self) -> None:
        """Let nothing through any more, and say nothing of it."""
        self.passing.clear()

    def resume(self) -> None:
        """Let everything through again, also what was held."""
        self.passing.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, until either side ends."""
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        self.connections += 1
        self._writers.add(writer)
        if self.host.startswith("/"):
            path = f"{self.host}/.s.PGSQL.{self.port}"
            upstream, server = await asyncio.open_unix_connection(path)
        else:
            upstream, server = await asyncio.open_connection(self.host, self.port)
        self._writers.add(server)
        # Looked up for each piece: a test changes them while the line is open.
        await asyncio.gather(
            self._pump(reader, server, lambda data: self.on_request(data)),  # noqa: PLW0108 - see above
            self._pump(upstream, writer, lambda data: self.on_answer(data)),  # noqa: PLW0108 - see above
        )

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        look: Callable[[bytes], None],
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                look(data)
                await self.passing.wait()
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()
        self._writers.discard(writer)

    async def close(self) -> None:
        """Cut everything and wait for its end."""
        self.passing.set()
        while self._serving:
            self.cut()
            await asyncio.wait(self._serving, timeout=0.1)


@define
class Database:
    """One schema; whatever is made through it is closed at the end.

    Attributes:
        url: the schema, by the straight way.
        admin: a connection of somebody who may do anything, in that schema.
    """

    url: str
    admin: AsyncConnection[Row]
    stack: contextlib.AsyncExitStack

    @classmethod
    @contextlib.asynccontextmanager
    async def make(cls) -> AsyncIterator[Self]:
        """A new schema, with its tables."""
        async with own_schema() as url, contextlib.AsyncExitStack() as stack:
            admin = await connect(parse_place(url), 30)
            stack.push_async_callback(admin.close)
            yield cls(url, admin, stack)

    def store(self, url: str | None = None, **options: float) -> PostgresStore:
        """A store; it connects when it is used first."""
        store = PostgresStore(url or self.url, clock=SetClock(), options=PostgresOptions(**options))
        self.stack.push_async_callback(store.close)
        return store

    async def another_admin(self) -> AsyncConnection[Row]:
        """One more connection, for a transaction of its own."""
        admin = await connect(parse_place(self.url), 30)
        self.stack.push_async_callback(admin.close)
        return admin

    async def cable(self, user: str | None = None) -> tuple[Cable, str]:
        """A line to the server that can be cut, and the URL of the schema through it."""
        place = parse_place(self.url)
        params = conninfo_to_dict(place.conninfo)
        cable = Cable(str(params.get("host", "127.0.0.1")), int(params.get("port") or 5432))
        cable.resume()
        server = await asyncio.start_server(cable.serve, "127.0.0.1", 0)
        self.stack.push_async_callback(server.wait_closed)
        self.stack.push_async_callback(cable.close)
        self.stack.callback(server.close)
        port = server.sockets[0].getsockname()[1]
        words = (user or params.get("user"), params.get("password"), params.get("dbname"))
        name, password, database = (quote(str(word or ""), safe="") for word in words)
        login = f"{name}:{password}@" if name else ""
        return cable, f"postgresql://{login}127.0.0.1:{port}/{database}?schema={place.schema}"

    async def ask(self, query: str, *arguments: object) -> list[Row]:
        """What the admin gets for a query; none for a command."""
        answer = await self.admin.execute(query.encode(), arguments)
        return await answer.fetchall() if answer.description else []

    async def expire(self, key: str = "one") -> None:
        """Let the lease of a session run out now, by the server's clock."""
        await self.ask(
            "update lease set expires = clock_timestamp() - interval '1 second' "
            "where session_id = %s",
            key,
        )

    async def lines(self, key: str = "one") -> list[str]:
        """The types of a session's lines in order, without the checkpoints."""
        rows = await self.ask("select type from event_line where session_id = %s order by seq", key)
        return [name for (name,) in rows if name != "log/checkpoint"]

    async def until_blocked(self, by: int) -> int:
        """Wait until a statement waits for what that server process did; gives who runs it."""
        waiting = "select pid from pg_stat_activity where %s = any(pg_blocking_pids(pid))"
        async with asyncio.timeout(PATIENCE_S):
            while not (rows := await self.ask(waiting, by)):  # noqa: ASYNC110 - not our process
                await asyncio.sleep(0.01)
        return int(rows[0][0])


async def until(condition: Callable[[], bool]) -> None:
    """Let time pass until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what changes knows nothing of events
            await asyncio.sleep(0.01)


async def refusal(attempt: Any) -> StoreError:
    """The error that something awaited ends with."""
    try:
        await attempt
    except StoreError as error:
        return error
    raise AssertionError("it was not refused")


async def write(session: PostgresSession, *types: str) -> None:
    """Append events and make them durable."""
    for event_type in types:
        session.append(event_type, {})
    await session.barrier()


def every_text(error: BaseException | None) -> str:
    """The text of an error and of all its causes, as a traceback would show them."""
    texts = []
    while error is not None:
        texts.append(f"{error} {error!r}")
        error = error.__cause__ or error.__context__
    return " ".join(texts)
