"""Who may talk to the server over HTTP: this machine, no web page, with the token."""

import asyncio
from pathlib import Path

import httpx
import pytest
from mcp import MCPError

from schedule_adapters.mcp.http import Endpoint, HttpError, serving
from schedule_adapters.mcp.remote import RemoteError, connected
from schedule_adapters.mcp.server import DueHints, make_server
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.testing.stores import SetClock
from tests.adapters.mcp.mcp_world import HANG_S, ServerWorld, SmallHost, bridged

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture
def world(tmp_path: Path) -> ServerWorld:
    clock = SetClock()
    return ServerWorld(JsonlStore(tmp_path, clock=clock), clock)


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 401, "token_needed"),
        ({"Authorization": "Bearer wrong"}, 401, "token_needed"),
        ({"Authorization": "Bearer \u00fc"}, 401, "token_needed"),
        ({"Authorization": "Basic TOKEN"}, 401, "token_needed"),
        ({"Authorization": "Bearer TOKEN", "Host": "evil.example"}, 403, "forbidden_host"),
        ({"Authorization": "Bearer TOKEN", "Host": "["}, 403, "forbidden_host"),
        ({"Authorization": "Bearer TOKEN", "Origin": "null"}, 403, "forbidden_origin"),
        (
            {"Authorization": "Bearer TOKEN", "Origin": "http://evil.example"},
            403,
            "forbidden_origin",
        ),
        (
            {"Authorization": "Bearer TOKEN", "Origin": "http://127.0.0.1:1"},
            403,
            "forbidden_origin",
        ),
    ],
)
async def test_who_is_refused(
    world: ServerWorld, headers: dict[str, str], status: int, code: str
) -> None:
    """Before anything of the request is read, whatever its method."""
    async with world.served() as served, httpx.AsyncClient() as http:
        shown = [
            (name.encode(), value.replace("TOKEN", served.endpoint.token).encode())
            for name, value in headers.items()
        ]
        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            answer = await http.request(method, served.endpoint.url, headers=shown, json=CALL)
            assert (answer.status_code, answer.json()["code"]) == (status, code)
            assert served.endpoint.token not in answer.text
            assert answer.headers["Cache-Control"] == "no-store"


async def test_the_server_is_on_loopback_and_keeps_its_secret(world: ServerWorld) -> None:
    """The token is in no text that somebody might log."""
    async with world.served() as served:
        assert served.endpoint.url.startswith("http://127.0.0.1:")
        assert served.endpoint.token not in repr(served.endpoint)


async def test_a_client_without_the_token_is_told_no_secret() -> None:
    """And a server that is not there is one line for a person."""
    async with asyncio.timeout(HANG_S), serving(make_server(lambda: ())) as endpoint:
        with pytest.raises(RemoteError, match="no server of ours answers"):
            await _connect(Endpoint(endpoint.url, "wrong"))
    with pytest.raises(RemoteError, match="no server of ours answers"):
        await _connect(endpoint)


async def test_a_port_that_is_taken_is_said() -> None:
    """In one line."""
    async with asyncio.timeout(HANG_S), serving(make_server(lambda: ())) as endpoint:
        port = int(endpoint.url.rsplit(":", 1)[1].partition("/")[0])
        with pytest.raises(HttpError, match=f"cannot listen on 127.0.0.1 port {port}: "):
            await _serve(port)


async def test_closing_ends_those_who_listen(world: ServerWorld) -> None:
    """Well within the time that requests under way are given; nobody is waited for."""
    loop = asyncio.get_running_loop()
    host = SmallHost()
    async with world.served() as served, bridged(served.endpoint, host, poll_s=3600) as client:
        async with client.listen(resource_subscriptions=["schedule://due"]):
            pass
        began = loop.time()
    assert loop.time() - began < HANG_S


async def test_a_listener_is_refused_once_the_server_closes() -> None:
    """Or its stream would hold the server open."""
    hints = DueHints()
    server = make_server(lambda: (), hints=hints)
    async with asyncio.timeout(HANG_S), serving(server) as endpoint, connected(endpoint) as client:
        hints.close()
        listening = client.listen(resource_subscriptions=["schedule://due"])
        with pytest.raises(MCPError, match="the server is closing"):
            await listening.__aenter__()


async def _connect(endpoint: Endpoint) -> None:
    async with asyncio.timeout(HANG_S), connected(endpoint):
        pass


async def _serve(port: int) -> None:
    async with serving(make_server(lambda: ()), port=port):
        pass
