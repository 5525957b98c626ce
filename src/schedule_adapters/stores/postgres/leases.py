"""The right to write one session, as its owner knows it; the database has the last word."""

import time
from typing import Final
from uuid import UUID, uuid4

from attrs import define, field

from schedule_adapters.sessions import StoreError

_CAUTION: Final = 0.9
"""The share of a lease that its owner counts on, should the two clocks run unlike."""

_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""On Linux the monotonic clock stands still while the machine sleeps; on macOS it does not."""


def steady_s() -> float:
    """Seconds on a clock that nobody sets and that goes on while the machine sleeps."""
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


@define(eq=False)
class Lease:
    """One owner's lease of one session.

    Attributes:
        key: the session, as the tables name it.
        owner: drawn anew for every opening; it tells a lease of ours from one that somebody
            else has, when the answer to the taking was lost.
        token: what every append shows; 0 before it was granted.
        trusted_until_s: until when nobody else can have taken it, on `steady_s`.
        tail: seq and event id of the last line known durable, which each append must find.
        ended: why this owner may write nothing any more, once that is so.
    """

    key: str
    owner: UUID = field(factory=uuid4)
    token: int = 0
    trusted_until_s: float = 0.0
    tail: tuple[int, UUID] | None = None
    ended: StoreError | None = None

    def extend(self, asked_at_s: float, ttl_s: float) -> None:
        """Take note of a lease granted; it counts from before it was asked for."""
        self.trusted_until_s = asked_at_s + ttl_s * _CAUTION

    @property
    def is_trusted(self) -> bool:
        """Whether it cannot have run out yet."""
        return self.ended is None and steady_s() < self.trusted_until_s

    def check(self) -> None:
        """Refuse what only the owner may do.

        Raises:
            StoreError: why it is the owner no more.
        """
        if self.ended is not None:
            raise StoreError(self.ended.code, self.ended.message, where=self.ended.where)
