"""A small world around one agent: a session in memory, a still clock, real schedule tools."""

import json
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Final, Self

from attrs import define, field

from schedule_adapters.sessions import SessionHeader
from schedule_adapters.turn_driver import SessionTool, TextDelta, TurnOutput
from schedule_core.decide import Answer, Failed, Limits, confirm, decide
from schedule_core.decoder import encode_change
from schedule_core.errors import ScheduleInputError
from schedule_core.fold import Schedules
from schedule_core.instants import Instant, parse_instant
from schedule_core.ports import SCHEDULE_EVENT_TYPE, SessionEvent
from schedule_core.records import ScheduleChange
from schedule_core.tools import TOOLS, ToolName, answer_json, parse_request

NOW: Final = parse_instant("2026-11-30T18:00:00.000Z")
"""A Monday, 19:00 in Berlin."""


@define
class StillClock:
    """A clock that shows what it is told to."""

    reading: Instant = NOW

    def now(self) -> Instant:
        return self.reading


@define
class MemorySession:
    """A session whose log is a list; every event has been through JSON text, as in a file."""

    events: list[SessionEvent] = field(factory=list)
    refuse: Exception | None = None
    header: SessionHeader = field(factory=lambda: SessionHeader("s1", 0))
    seed_length: object = 0

    @property
    def length(self) -> int:
        return len(self.events)

    def events_from(self, position: int) -> Iterable[SessionEvent]:
        return self.events[position:]

    def append(self, event_type: str, data: object) -> SessionEvent:
        if self.refuse is not None:
            raise self.refuse
        event = SessionEvent(event_type, json.loads(json.dumps(data)), seq=self.length)
        self.events.append(event)
        return event

    def append_change(self, change: ScheduleChange) -> None:
        self.append(SCHEDULE_EVENT_TYPE, encode_change(change))

    async def barrier(self) -> None:
        pass

    async def close(self) -> None:
        pass


@define
class Reminders:
    """The three tools over a real fold, without an owner, and the calls they received."""

    clock: StillClock = field(factory=StillClock)
    schedules: Schedules = field(factory=Schedules)
    calls: list[tuple[str, dict[str, Any]]] = field(factory=list)

    def tools(self) -> tuple[SessionTool, ...]:
        return tuple(
            SessionTool(tool.name, tool.description, tool.parameters, self._call_of(tool.name))
            for tool in TOOLS
        )

    def _call_of(self, name: ToolName) -> Callable[[dict[str, Any]], Any]:
        async def call(arguments: dict[str, Any]) -> object:
            self.calls.append((name, arguments))
            return answer_json(self._answer(name, arguments))

        return call

    def _answer(self, name: ToolName, arguments: dict[str, Any]) -> Answer:
        try:
            request = parse_request(name, arguments, Limits())
        except ScheduleInputError as error:
            return Failed(error.code, error.message)
        decided = decide(request, self.schedules, self.clock.now(), Limits())
        if isinstance(decided, ScheduleChange):
            self.schedules.evolve(decided)
            return confirm(decided, self.clock.now())
        return decided


def text_of(outputs: Iterable[TurnOutput]) -> str:
    return "".join(output.text for output in outputs if isinstance(output, TextDelta))


class ScriptedProvider:
    """An OpenAI-compatible chat endpoint on loopback that plays back a script.

    Each request takes the next answer: a dict is one tool call (name, arguments), a list is
    the pieces of a text. The bodies of the requests are kept.
    """

    def __init__(self, *answers: dict[str, Any] | list[str]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self._answers = list(answers)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                provider.bodies.append(body)
                provider.requests.append(json.loads(body))
                provider.paths.append(self.path)
                chunks = _chunks(provider._answers.pop(0))
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                for chunk in chunks:
                    self.wfile.write(f"data: {chunk}\n\n".encode())

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def _chunks(answer: dict[str, Any] | list[str]) -> list[str]:
    if isinstance(answer, dict):
        arguments = json.dumps(answer["arguments"])
        half = len(arguments) // 2
        head = {"index": 0, "id": "call_1", "type": "function"}
        deltas: list[dict[str, Any]] = [
            {"tool_calls": [{**head, "function": {"name": answer["name"], "arguments": ""}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": arguments[:half]}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": arguments[half:]}}]},
        ]
        reason = "tool_calls"
    else:
        deltas = [{"content": piece} for piece in answer]
        reason = "stop"
    steps: list[tuple[dict[str, Any], str | None]]
    steps = [*((delta, None) for delta in deltas), ({}, reason)]
    return [*(json.dumps(_chunk(delta, finish)) for delta, finish in steps), "[DONE]"]


def _chunk(delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
        "choices": [choice],
    }
