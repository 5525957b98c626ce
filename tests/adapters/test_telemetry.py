"""What a host hears of its reminders, plainly and through OpenTelemetry; never a prompt."""

import asyncio
import logging
from typing import Any

import pytest
from attrs import define, evolve, field
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from schedule_adapters.facts import BarrierEnded, CallEnded, CameDue, log_fact
from schedule_adapters.telemetry import OpenTelemetryReport
from schedule_adapters.testing.virtual_time import VirtualClock, run_virtual
from schedule_core import ErrorCode, Instant, ScheduleId
from schedule_core.signals import Admitted, Delayed, Fault, Faulted, Recovered, Setback
from tests.adapters.live_world import World

CANARY = "xyzzy"
DUE = Instant(1_796_000_000_000)
TARGET = Instant(1_795_996_860_000)
"""A minute after the virtual clock begins."""
ONE = ScheduleId("schedule-1")


@define
class Watched:
    """A report with an SDK of its own behind it."""

    spans_out: InMemorySpanExporter = field(factory=InMemorySpanExporter)
    metrics_out: InMemoryMetricReader = field(factory=InMemoryMetricReader)
    report: OpenTelemetryReport = field(init=False)
    tracers: TracerProvider = field(factory=TracerProvider)

    def __attrs_post_init__(self) -> None:
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans_out))
        self.report = OpenTelemetryReport(
            tracer_provider=self.tracers,
            meter_provider=MeterProvider([self.metrics_out]),
        )

    def spans(self) -> list[ReadableSpan]:
        return list(self.spans_out.get_finished_spans())

    def metrics(self) -> dict[str, Any]:
        """The points of each instrument that was used: attributes and value, or count and sum."""
        data = self.metrics_out.get_metrics_data()
        if data is None:
            return {}
        found: dict[str, Any] = {}
        for metric in data.resource_metrics[0].scope_metrics[0].metrics:
            found[metric.name] = [
                (
                    dict(point.attributes or {}),
                    point.value if hasattr(point, "value") else (point.count, point.sum),
                )
                for point in metric.data.data_points
            ]
        return found


def test_a_life_is_told_in_facts() -> None:
    """Calls with their results, a target reached, its delivery; each call with two barriers."""

    async def life(clock: VirtualClock) -> World:
        world = await World.make(clock)
        await world.start()
        world.heard.clear()
        await world.create(CANARY, after_seconds=60)
        await asyncio.sleep(61)
        await world.live.call_tool("schedule_delete", {"id": CANARY})
        await world.listed()
        await world.live.call_tool("schedule_create", {"prompt": "x", "after_seconds": 0})
        await world.live.call_tool("schedule_create", {"prompt": "x"})
        await world.live.close()
        return world

    heard = run_virtual(life).heard

    assert [
        evolve(fact, now=fact.scheduled_at) if isinstance(fact, Admitted) else fact
        for fact in heard
        if not isinstance(fact, BarrierEnded)
    ] == [
        CallEnded("create", None, 0.0, ONE),
        CameDue(TARGET),
        Admitted(ONE, TARGET, TARGET),
        CallEnded("delete", ErrorCode.SCHEDULE_NOT_FOUND, 0.0),
        CallEnded("list", None, 0.0),
        CallEnded("create", ErrorCode.INVALID_RULE, 0.0),
        CallEnded("create", ErrorCode.INVALID_SELECTOR, 0.0),
    ]
    assert BarrierEnded(passed=True, seconds=0.0) in heard
    assert CANARY not in repr(heard)


def test_a_failed_barrier_is_told() -> None:
    async def life(clock: VirtualClock) -> World:
        world = await World.make(clock)
        await world.start()
        world.heard.clear()
        world.log.barrier_results = [OSError(CANARY)]
        await world.listed()
        await world.live.close()
        return world

    heard = run_virtual(life).heard

    assert heard == [
        BarrierEnded(passed=False, seconds=0.0),
        CallEnded("list", ErrorCode.PERSISTENCE_UNCERTAIN, 0.0),
    ]


def test_metrics_count_and_measure_without_ids() -> None:
    """No attribute grows with the number of sessions or reminders."""
    watched = Watched()
    for number in range(3):
        session = f"session-{number}"
        watched.report(session, CallEnded("create", None, 0.5, ScheduleId(f"schedule-{number}")))
        watched.report(session, CameDue(DUE))
        watched.report(session, Admitted(ONE, DUE, Instant(DUE + 1_500)))
    watched.report("one", CallEnded("delete", None, 0.1, ONE))
    watched.report("one", CallEnded("delete", ErrorCode.SCHEDULE_NOT_FOUND, 0.1, ONE))
    watched.report("one", CallEnded("list", None, 0.1))
    watched.report("one", BarrierEnded(passed=True, seconds=0.25))
    watched.report("one", BarrierEnded(passed=False, seconds=2.0))
    watched.report("one", Delayed(Setback.BARRIER_FAILED))
    watched.report("one", Faulted(Fault.CORRUPT_LOG, 7))
    watched.report("one", Recovered())

    assert watched.metrics() == {
        "schedule.calls": [
            ({"operation": "create", "result": "done"}, 3),
            ({"operation": "delete", "result": "done"}, 1),
            ({"operation": "delete", "result": "schedule_not_found"}, 1),
            ({"operation": "list", "result": "done"}, 1),
        ],
        "schedule.created": [({}, 3)],
        "schedule.deleted": [({}, 1)],
        "schedule.due": [({}, 3)],
        "schedule.delivered": [({}, 3)],
        "schedule.lateness": [({}, (3, 4.5))],
        "schedule.barrier.duration": [
            ({"passed": True}, (1, 0.25)),
            ({"passed": False}, (1, 2.0)),
        ],
        "schedule.delays": [({"reason": "barrier_failed"}, 1)],
        "schedule.faults": [({"fault": "corrupt_log"}, 1)],
        "schedule.recoveries": [({}, 1)],
    }


def test_a_delivery_is_a_span_from_the_target_on() -> None:
    watched = Watched()
    watched.report("main", Admitted(ONE, DUE, Instant(DUE + 1_500)))

    [span] = watched.spans()

    assert (span.name, span.start_time, span.end_time) == (
        "schedule.delivery",
        DUE * 1_000_000,
        (DUE + 1_500) * 1_000_000,
    )
    assert dict(span.attributes or {}) == {
        "schedule.session": "main",
        "schedule.id": "schedule-1",
        "schedule.lateness": 1.5,
    }


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (None, StatusCode.UNSET),
        (ErrorCode.NOT_FUTURE, StatusCode.UNSET),
        (ErrorCode.SCHEDULE_NOT_FOUND, StatusCode.UNSET),
        (ErrorCode.PERSISTENCE_UNCERTAIN, StatusCode.ERROR),
        (ErrorCode.CORRUPT_SCHEDULE_LOG, StatusCode.ERROR),
        (ErrorCode.INTERNAL_ERROR, StatusCode.ERROR),
    ],
)
def test_a_call_is_an_error_only_when_the_fault_is_ours(
    refusal: ErrorCode | None, status: StatusCode
) -> None:
    watched = Watched()
    watched.report("main", CallEnded("create", refusal, 0.5))

    [span] = watched.spans()

    assert span.status.status_code == status
    assert (span.end_time or 0) - (span.start_time or 0) == 500_000_000


def test_a_call_is_traced_inside_the_span_of_its_caller() -> None:
    """A tool call's reminder belongs to the turn that called it; due work belongs to nobody."""
    watched = Watched()

    async def life(clock: VirtualClock) -> None:
        world = await World.make(clock)
        world.live._report_fact = watched.report
        await world.start()
        with watched.tracers.get_tracer("host").start_as_current_span("turn"):
            await world.create(CANARY, after_seconds=60)
        await world.live.close()

    run_virtual(life)
    spans = {span.name: span for span in watched.spans()}

    assert spans["schedule.create"].parent == spans["turn"].context
    assert CANARY not in "".join(span.to_json() for span in watched.spans())


def test_without_a_hook_facts_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Faults as errors, delays as warnings, deliveries as information, the rest to debug."""
    caplog.set_level(logging.DEBUG, "schedule_adapters")
    for fact in (
        Faulted(Fault.CORRUPT_LOG, 7),
        Delayed(Setback.BARRIER_FAILED),
        Admitted(ONE, DUE, Instant(DUE + 5)),
        Recovered(),
        CallEnded("create", None, 0.5, ONE),
        BarrierEnded(passed=False, seconds=0.25),
        CameDue(DUE),
    ):
        log_fact("main", fact)

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "main: delivers nothing any more: corrupt_log, event 7"),
        ("WARNING", "main: due reminders wait for activity: barrier_failed"),
        ("INFO", "main: admitted schedule-1, 5 ms late"),
        ("INFO", "main: delivers again"),
        ("DEBUG", "main: create schedule-1: done, 0.500 s"),
        ("DEBUG", "main: barrier failed, 0.250 s"),
        ("DEBUG", f"main: {DUE} has come"),
    ]
