"""An error says whose fault it is, with a code that never changes."""

from schedule_core.errors import ErrorCode, LogFault, ScheduleInputError, ScheduleLogError


def test_codes_are_the_closed_set_of_version_1() -> None:
    assert [
        "invalid_prompt",
        "invalid_selector",
        "invalid_rule",
        "invalid_time_zone",
        "not_future",
        "time_out_of_range",
        "corrupt_schedule_log",
        "persistence_uncertain",
        "internal_error",
        "schedule_not_found",
    ] == [str(code) for code in ErrorCode]


def test_input_error_carries_code_and_message() -> None:
    error = ScheduleInputError(ErrorCode.NOT_FUTURE, "the time has already passed")

    assert (ErrorCode.NOT_FUTURE, "the time has already passed") == (error.code, error.message)
    assert "not_future: the time has already passed" == str(error)


def test_log_error_gains_a_position_and_loses_nothing() -> None:
    error = ScheduleLogError(LogFault.REUSED_ID, "create of an id used before")
    there = error.at(7)

    assert error.position is None
    assert "reused_id: create of an id used before" == str(error)
    assert (LogFault.REUSED_ID, error.detail, 7) == (there.fault, there.detail, there.position)
    assert "reused_id at event 7: create of an id used before" == str(there)
    assert ErrorCode.CORRUPT_SCHEDULE_LOG == there.code
