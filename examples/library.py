"""The pure core alone: decide, record, fold, and frame what is due."""

from schedule_core import (
    ScheduleCreateChange,
    SessionEvent,
    encode_change,
    fold_log,
    new_record,
    render_reminder,
    view,
    view_json,
)

now = 1_795_996_800_000  # milliseconds since the epoch: 2026-11-30T00:00:00Z
berlin = {"date": "2026-12-01", "time": "09:00:00", "time_zone": "Europe/Berlin"}
record = new_record("schedule-1", "check the build", at=berlin, now=now)
log = [SessionEvent("schedule/change", encode_change(ScheduleCreateChange(record)))]
schedules = fold_log(log)
print(schedules.next_id(), view_json(view(schedules.active[0], now))["scheduledAt"])
print(render_reminder(schedules.active[0]))
