"""Both stores of this project keep the contract of every session store."""

from pathlib import Path

import pytest

from schedule_adapters.sessions import SessionStore
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.testing.stores import SessionStoreContract, SetClock
from schedule_core.ports import Clock


class TestMemoryStore(SessionStoreContract):
    def make_store(self, clock: Clock) -> SessionStore:
        return MemoryStore(clock=clock)


class TestJsonlStore(SessionStoreContract):
    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path / "new" / "root"

    def make_store(self, clock: Clock) -> SessionStore:
        return JsonlStore(self.root, clock=clock)

    def restarted(self, store: SessionStore) -> SessionStore:
        return JsonlStore(self.root, clock=SetClock())
