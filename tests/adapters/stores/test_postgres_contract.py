"""The PostgreSQL store keeps the contract of every session store."""

from collections.abc import AsyncIterator

import pytest

from schedule_adapters.sessions import SessionStore
from schedule_adapters.stores.postgres import PostgresStore
from schedule_adapters.testing.postgres import own_schema
from schedule_adapters.testing.stores import SessionStoreContract, SetClock
from schedule_core.ports import Clock


class TestPostgresStore(SessionStoreContract):
    @pytest.fixture(autouse=True)
    async def _schema(self) -> AsyncIterator[None]:
        self.stores: list[PostgresStore] = []
        async with own_schema() as self.url:
            yield
            for store in self.stores:
                await store.close()

    def make_store(self, clock: Clock) -> SessionStore:
        self.stores.append(PostgresStore(self.url, clock=clock))
        return self.stores[-1]

    def restarted(self, store: SessionStore) -> SessionStore:
        return self.make_store(SetClock())
