"""A timeline drawn with characters, as wide as the terminal."""

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import frozen

from schedule_adapters.doctor.axis import Axis, Tick, make_axis, ticks
from schedule_adapters.doctor.cells import cells, fit
from schedule_adapters.doctor.timeline import End, Lane, Timeline
from schedule_adapters.doctor.timeline_words import is_late, moments_of, outcome, remarks, summary
from schedule_adapters.wording import one_line
from schedule_core.instants import Instant

MIN_WIDTH: Final = 60

Span = tuple[str, str]
"""Some text and its style in the words of rich; an empty one is plain."""

_OUTCOME_WIDTH: Final = 18
_GAP: Final = "  "
_MIN_PROMPT: Final = 6
_TICK_WIDTH: Final = len("2030-03-01 ")
_SOFT: Final = "dim"
_TITLE: Final = "bold"
_STYLES: Final = {End.DISPATCHED: "green", End.DELETED: "red", End.ACTIVE: "cyan"}
_ENDS: Final = {End.DISPATCHED: ("✓", "bold green"), End.DELETED: ("✗", "bold red")}
_LEGEND: Final = (
    *("● created", "◆ due", "◇ due, not reached", "▸ queued", "✓ dispatched", "✗ deleted", "▼ now"),
)


def timeline_lines(
    timeline: Timeline, zone: str | None, now: Instant, width: int
) -> Iterator[list[Span]]:
    """The picture, a line at a time.

    Args:
        timeline: what to draw.
        zone: whose wall clock to show; UTC if None.
        now: what active reminders are measured by.
        width: cells that a line may take; fewer than `MIN_WIDTH` count as that many.
    """
    width = max(width, MIN_WIDTH)
    axis = make_axis(moment for lane in timeline.lanes for moment in moments_of(lane, now))
    yield [(fit(one_line(timeline.session, width), width).rstrip(), _TITLE)]
    yield [(summary(timeline), _SOFT)]
    if timeline.lanes:
        frame = _Frame.for_width(width, axis)
        yield []
        yield from frame.scale(zone, now)
        for lane in timeline.lanes:
            yield frame.lane(lane, now)
        yield []
        for line in _filled(_LEGEND, width):
            yield [(line, _SOFT)]
    for remark in remarks(timeline, axis, zone):
        for line in _filled(remark.split(), width, " "):
            yield [(line, _SOFT)]


@frozen
class _Frame:
    """The columns of the picture: what it is, its bar, how it fares."""

    axis: Axis
    label: int
    bar: int

    @classmethod
    def for_width(cls, width: int, axis: Axis) -> "_Frame":
        label = width * 27 // 100
        return cls(axis, label, width - label - _OUTCOME_WIDTH - 2 * len(_GAP))

    def scale(self, zone: str | None, now: Instant) -> Iterator[list[Span]]:
        """The labels above the bars, and the line that they stand on."""
        labels = ticks(self.axis, zone, _TICK_WIDTH / self.bar)
        rule = ["─"] * self.bar
        for tick in labels:
            rule[self._column(tick.place)] = "┬"
        days = self._row(labels, [tick.day for tick in labels])
        clocks = self._row(labels, [tick.clock for tick in labels])
        if self.axis.shows(now):
            rule[self._at(now)] = "▼"
        for row in (days, clocks, "".join(rule)):
            yield [(f"{' ' * self.label}{_GAP}{row}".rstrip(), _SOFT)]

    def lane(self, lane: Lane, now: Instant) -> list[Span]:
        """One reminder."""
        name = one_line(lane.id, self.label)
        room = self.label - cells(name) - 1
        prompt = one_line(lane.prompt) if room >= _MIN_PROMPT else ""
        name_width = self.label - room - 1 if prompt else self.label
        gap = (_GAP, "")
        return [
            (fit(name, name_width), _TITLE),
            *([(f" {fit(prompt, room)}", _SOFT)] if prompt else []),
            gap,
            *self._bar(lane, now),
            gap,
            (outcome(lane, now), "yellow" if is_late(lane, now) else _STYLES[lane.end]),
        ]

    def _bar(self, lane: Lane, now: Instant) -> list[Span]:
        created, due = self._at(lane.created), self._at(lane.due)
        settled = self._at(lane.settled(now))
        is_open = lane.end is End.ACTIVE and lane.queued is None
        is_reached = lane.settled(now) >= lane.due
        line: list[Span] = [(" ", "")] * self.bar

        def draw(start: int, end: int, sign: str, style: str) -> None:
            line[start:end] = [(sign, style)] * max(end - start, 0)

        draw(created, due if is_open else min(due, settled), "━", "blue")
        draw(due, settled, "╍", "yellow")
        if not is_reached and not is_open:
            draw(settled, due, "┈", _SOFT)
        line[created] = ("●", "blue")
        line[due] = ("◆", "yellow") if is_reached else ("◇", "cyan" if is_open else _SOFT)
        if lane.queued is not None:
            line[self._at(lane.queued)] = ("▸", "bold yellow")
        if lane.ended is not None:
            line[self._at(lane.ended)] = _ENDS[lane.end]
        return line

    def _at(self, moment: int) -> int:
        return self._column(self.axis.place(moment))

    def _column(self, place: float) -> int:
        return round(place * (self.bar - 1))

    def _row(self, labels: Iterable[Tick], texts: Iterable[str]) -> str:
        row = [" "] * self.bar
        for tick, text in zip(labels, texts, strict=True):
            start = self._column(tick.start)
            row[start : start + len(text)] = text
        return "".join(row)[: self.bar]


def _filled(parts: Iterable[str], width: int, gap: str = _GAP) -> Iterator[str]:
    """The parts on as few lines as hold them."""
    line = ""
    for part in parts:
        if line and len(line) + len(gap) + len(part) > width:
            yield line
            line = part
        else:
            line = f"{line}{gap}{part}" if line else part
    yield line
