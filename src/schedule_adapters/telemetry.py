"""OpenTelemetry spans and metrics of live schedules, as a report hook.

    open_conversation(store, "main", make_driver, report=OpenTelemetryReport())

Needs the extra `opentelemetry`; which SDK and exporter there are is the host's business. Ids
and numbers only: the text of a reminder never gets here.
"""

import time
from typing import Final

from opentelemetry.metrics import MeterProvider, get_meter_provider
from opentelemetry.trace import Status, StatusCode, TracerProvider, get_tracer_provider

from schedule_adapters.facts import BarrierEnded, CallEnded, CameDue, LiveFact
from schedule_core import ErrorCode
from schedule_core.instants import SECOND_MS
from schedule_core.signals import Admitted, Delayed, Faulted, Recovered

_SCOPE: Final = "session-schedule"
_MS_NS: Final = 1_000_000
_S_NS: Final = 1_000_000_000
_LATENESS_S: Final = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 3_600.0, 86_400.0)
"""A minute is what a suspended machine may cost; a day, a session that was closed."""
_BARRIER_S: Final = (0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
_OUR_FAILURES: Final = frozenset(
    {
        ErrorCode.CORRUPT_SCHEDULE_LOG,
        ErrorCode.PERSISTENCE_UNCERTAIN,
        ErrorCode.INTERNAL_ERROR,
    }
)
"""Of the refusals, those that are not the caller's mistake."""


class OpenTelemetryReport:
    """A `ReportHook` that counts, measures and traces; one serves any number of sessions.

    Metrics (none has the session or an id among its attributes, which would be without end):
    `schedule.calls` by operation and result, `schedule.created`, `schedule.deleted`,
    `schedule.due`, `schedule.delivered`, `schedule.lateness` (s), `schedule.barrier.duration`
    (s) by passed, `schedule.delays` by reason, `schedule.faults` by fault, and
    `schedule.recoveries`.

    Spans, with the session's name and the reminder's id: `schedule.create`, `schedule.list`,
    `schedule.delete`, inside whatever span the caller is in; `schedule.barrier`; and
    `schedule.delivery`, which begins at the target and ends when the reminder entered the
    conversation.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._tracer = (tracer_provider or get_tracer_provider()).get_tracer(_SCOPE)
        meter = (meter_provider or get_meter_provider()).get_meter(_SCOPE)
        self._calls = meter.create_counter(
            "schedule.calls", "{call}", "management calls that were answered"
        )
        self._done = {
            "create": meter.create_counter("schedule.created", "{reminder}", "reminders made"),
            "delete": meter.create_counter("schedule.deleted", "{reminder}", "reminders deleted"),
        }
        self._due = meter.create_counter("schedule.due", "{target}", "targets that were reached")
        self._delivered = meter.create_counter(
            "schedule.delivered", "{reminder}", "reminders that entered their conversation"
        )
        self._lateness = meter.create_histogram(
            "schedule.lateness",
            "s",
            "from the target to the conversation",
            explicit_bucket_boundaries_advisory=_LATENESS_S,
        )
        self._barrier = meter.create_histogram(
            "schedule.barrier.duration",
            "s",
            "until everything appended was durable",
            explicit_bucket_boundaries_advisory=_BARRIER_S,
        )
        self._delays = meter.create_counter(
            "schedule.delays", "{pass}", "passes that had to put off what was due"
        )
        self._faults = meter.create_counter(
            "schedule.faults", "{fault}", "owners that stopped delivering"
        )
        self._recoveries = meter.create_counter(
            "schedule.recoveries", "{owner}", "owners that deliver again"
        )

    def __call__(self, session: str, fact: LiveFact) -> None:
        """Take one fact."""
        match fact:
            case CallEnded():
                self._take_call(session, fact)
            case BarrierEnded(passed, seconds):
                self._barrier.record(seconds, {"passed": passed})
                self._span("schedule.barrier", seconds, {"schedule.session": session}, ok=passed)
            case CameDue():
                self._due.add(1)
            case Admitted():
                self._take_delivery(session, fact)
            case Delayed(setback):
                self._delays.add(1, {"reason": setback.value})
            case Faulted(fault):
                self._faults.add(1, {"fault": fault.value})
            case Recovered():
                self._recoveries.add(1)

    def _take_call(self, session: str, fact: CallEnded) -> None:
        result = "done" if fact.refusal is None else fact.refusal.value
        self._calls.add(1, {"operation": fact.operation, "result": result})
        if fact.refusal is None and fact.operation in self._done:
            self._done[fact.operation].add(1)
        attributes = {"schedule.session": session, "schedule.result": result}
        if fact.schedule_id is not None:
            attributes["schedule.id"] = fact.schedule_id
        ok = fact.refusal not in _OUR_FAILURES
        self._span(f"schedule.{fact.operation}", fact.seconds, attributes, ok=ok)

    def _take_delivery(self, session: str, fact: Admitted) -> None:
        late_s = (fact.now - fact.scheduled_at) / SECOND_MS
        self._delivered.add(1)
        self._lateness.record(late_s)
        span = self._tracer.start_span(
            "schedule.delivery",
            start_time=fact.scheduled_at * _MS_NS,
            attributes={
                "schedule.session": session,
                "schedule.id": fact.schedule_id,
                "schedule.lateness": late_s,
            },
        )
        span.end(fact.now * _MS_NS)

    def _span(self, name: str, seconds: float, attributes: dict[str, str], *, ok: bool) -> None:
        """Add a span that ends now."""
        end = time.time_ns()
        start = end - int(seconds * _S_NS)
        span = self._tracer.start_span(name, start_time=start, attributes=attributes)
        if not ok:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end)
