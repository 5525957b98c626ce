"""The rules of the schedule log held up against a live one, before anything enters it."""

from collections.abc import Callable
from typing import Protocol

from schedule_core.decoder import decode_change
from schedule_core.errors import ScheduleLogError
from schedule_core.fold import LogFold
from schedule_core.ports import SCHEDULE_EVENT_TYPE, SessionEvent, SessionLog

Check = Callable[[SessionEvent], None]
"""Looks at an event that is about to be appended, and raises to keep it out."""


class CheckedLog(SessionLog, Protocol):
    """A live log that asks its checks before each append, as every session of ours does."""

    @property
    def checks(self) -> list[Check]:
        """The checks, asked in their order."""
        ...


class ScheduleInvariant:
    """Keeps a live log valid: what is in it, and each event that is to join it.

    A look costs what was appended since the last one. Events before the fork boundary and
    events of other types are nobody's business here.
    """

    def __init__(self, log: SessionLog) -> None:
        """Check what is in the log.

        Raises:
            ScheduleLogError: it is no valid one; with the position of the first bad event,
                or without one if the fork boundary is bad.
        """
        self._log = log
        self._fold = LogFold()
        self._fold.catch_up(log)

    @classmethod
    def attach(cls, log: CheckedLog) -> "ScheduleInvariant":
        """Check a log now, and each of its appends from now on.

        Raises:
            ScheduleLogError: as the constructor; nothing is attached then.
        """
        invariant = cls(log)
        log.checks.append(invariant.check)
        return invariant

    def check(self, event: SessionEvent) -> None:
        """Refuse an event that would spoil the log if it were appended now.

        Raises:
            ScheduleLogError: with the position that it would have.
        """
        if event.type != SCHEDULE_EVENT_TYPE:
            return
        schedules = self._fold.catch_up(self._log)
        try:
            schedules.check(decode_change(event.data))
        except ScheduleLogError as error:
            raise error.at(max(event.seq, self._fold.position)) from None
