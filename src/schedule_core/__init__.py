"""Durable one-shot reminders of one conversation: the pure core.

Decode and fold a session log, decide requests, frame what is due, and run the owner's
machine; every effect (clock, log, agent, disk) is behind the ports.
"""

from schedule_core.decide import (
    Answer,
    Created,
    CreateRequest,
    Deleted,
    DeleteRequest,
    Failed,
    Limits,
    Listed,
    ListRequest,
    NotFound,
    Request,
    Uncertain,
)
from schedule_core.decoder import (
    decode_change,
    decode_change_json,
    encode_change,
    encode_change_json,
    encode_record,
    view_json,
)
from schedule_core.errors import ErrorCode, LogFault, ScheduleInputError, ScheduleLogError
from schedule_core.fold import LogFold, Schedules, fold_log
from schedule_core.framing import render_reminder
from schedule_core.instants import Instant, format_instant, parse_instant
from schedule_core.normalizer import new_record, resolve_at
from schedule_core.owner import OwnerState, ScheduleOwner, drive
from schedule_core.ports import (
    SCHEDULE_EVENT_TYPE,
    AgentBusy,
    AgentPort,
    Clock,
    FollowUp,
    Persistence,
    SessionEvent,
    SessionLog,
)
from schedule_core.records import (
    AfterScheduleRecord,
    AtScheduleRecord,
    ScheduleChange,
    ScheduleCreateChange,
    ScheduleDeleteChange,
    ScheduleDispatchChange,
    ScheduleId,
    ScheduleRecord,
    ScheduleView,
    view,
)
from schedule_core.signals import Effect, Input, Reading, Ticket
from schedule_core.tools import TOOLS, Tool, answer_json, answer_text, parse_request
from schedule_core.zones import canonical_zone_name, zone_data_version

__all__ = [
    "SCHEDULE_EVENT_TYPE",
    "TOOLS",
    "AfterScheduleRecord",
    "AgentBusy",
    "AgentPort",
    "Answer",
    "AtScheduleRecord",
    "Clock",
    "CreateRequest",
    "Created",
    "DeleteRequest",
    "Deleted",
    "Effect",
    "ErrorCode",
    "Failed",
    "FollowUp",
    "Input",
    "Instant",
    "Limits",
    "ListRequest",
    "Listed",
    "LogFault",
    "LogFold",
    "NotFound",
    "OwnerState",
    "Persistence",
    "Reading",
    "Request",
    "ScheduleChange",
    "ScheduleCreateChange",
    "ScheduleDeleteChange",
    "ScheduleDispatchChange",
    "ScheduleId",
    "ScheduleInputError",
    "ScheduleLogError",
    "ScheduleOwner",
    "ScheduleRecord",
    "ScheduleView",
    "Schedules",
    "SessionEvent",
    "SessionLog",
    "Ticket",
    "Tool",
    "Uncertain",
    "answer_json",
    "answer_text",
    "canonical_zone_name",
    "decode_change",
    "decode_change_json",
    "drive",
    "encode_change",
    "encode_change_json",
    "encode_record",
    "fold_log",
    "format_instant",
    "new_record",
    "parse_instant",
    "parse_request",
    "render_reminder",
    "resolve_at",
    "view",
    "view_json",
    "zone_data_version",
]
