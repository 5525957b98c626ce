"""A timeline as one SVG file: light and dark, readable by a screen reader, no script."""

from collections.abc import Iterator
from typing import Final

from attrs import frozen

from schedule_adapters.doctor.axis import Axis, make_axis, ticks
from schedule_adapters.doctor.cells import fit
from schedule_adapters.doctor.markup import Markup, element
from schedule_adapters.doctor.timeline import End, Lane, Timeline
from schedule_adapters.doctor.timeline_words import (
    is_late,
    moments_of,
    outcome,
    remarks,
    story,
    summary,
)
from schedule_adapters.wording import one_line
from schedule_core.instants import Instant

_WIDTH: Final = 1_080
_MARGIN: Final = 32
_TOP: Final = 96
_AXIS: Final = 52
_LANE: Final = 46
_LABEL: Final = 250
_OUTCOME: Final = 150
_LEFT: Final = _MARGIN + _LABEL + 20
_RIGHT: Final = _WIDTH - _MARGIN - _OUTCOME - 20
_TICK_WIDTH: Final = 92
_LEGEND: Final = 44
_REMARK: Final = 20
_TEXT_WIDTH: Final = 30

_STYLE: Final = """
svg { color-scheme: light dark; --page: #fbfbfc; --text: #1c2127; --soft: #66717c; --line: #e4e7eb;
  --band: #f2f4f6; --wait: #3b78c9; --late: #c98a12; --done: #1f8a52; --gone: #c63d3d; }
@media (prefers-color-scheme: dark) { svg { --page: #16191d; --text: #e6e9ec; --soft: #96a1ac;
  --line: #30363d; --band: #1d2126; --wait: #6ea4ec; --late: #e3b04b; --done: #5ccb8d;
  --gone: #f08079; } }
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--text); }
.title { font-size: 20px; font-weight: 650; }
.soft { fill: var(--soft); font-size: 12px; }
.id { font-weight: 600; }
.page { fill: var(--page); } .band { fill: var(--band); } .grid { stroke: var(--line); }
.bar { stroke-width: 5; stroke-linecap: round; }
.bar.wait { stroke: var(--wait); } .bar.late { stroke: var(--late); }
.unused { stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 1 5; stroke-linecap: round; }
.created { fill: var(--page); stroke: var(--wait); stroke-width: 2.5; }
.due { fill: var(--late); stroke: var(--page); stroke-width: 1.5; }
.pending { fill: var(--page); stroke: var(--wait); stroke-width: 2; }
.missed { fill: var(--page); stroke: var(--soft); stroke-width: 1.5; }
.queued { fill: var(--late); stroke: var(--page); stroke-width: 1.5; }
.end { stroke: var(--page); stroke-width: 2; }
.end.dispatched { fill: var(--done); } .end.deleted { fill: var(--gone); }
.sign { fill: none; stroke: var(--page); stroke-width: 2; stroke-linecap: round;
  stroke-linejoin: round; }
.said { font-weight: 600; text-anchor: end; }
.said.dispatched { fill: var(--done); } .said.deleted { fill: var(--gone); }
.now { stroke: var(--late); stroke-dasharray: 3 4; } .now-label { fill: var(--late); }
.said.active { fill: var(--wait); } .said.late { fill: var(--late); }
"""


def timeline_svg(timeline: Timeline, zone: str | None, now: Instant) -> str:
    """The picture; text that does not fit is cut, and whole in the description of its lane."""
    axis = make_axis(moment for lane in timeline.lanes for moment in moments_of(lane, now))
    notes = remarks(timeline, axis, zone)
    bottom = _TOP + _AXIS + _LANE * len(timeline.lanes)
    height = bottom + _LEGEND + _REMARK * len(notes) + _MARGIN
    title = f"Reminders of session {one_line(timeline.session)}"
    stories = [story(lane, zone, now) for lane in timeline.lanes]
    parts = [
        element("title", title, id="title"),
        element("desc", ". ".join([summary(timeline), *stories]), id="desc"),
        element("style", Markup(_STYLE)),
        element("rect", class_="page", width=_WIDTH, height=height, rx=12),
        _text(_MARGIN, 46, one_line(timeline.session, 80), "title"),
        _text(_MARGIN, 70, summary(timeline), "soft"),
    ]
    if timeline.lanes:
        parts += [_band(number) for number in range(0, len(timeline.lanes), 2)]
        parts += _scale(axis, zone, now, bottom)
        for number, lane in enumerate(timeline.lanes):
            parts.append(
                _Row(axis, lane, now, _lane_top(number) + _LANE // 2).group(stories[number])
            )
        parts += _legend(bottom + 28)
    parts += [
        _text(_MARGIN, bottom + _LEGEND + 14 + _REMARK * number, one_line(note, 150), "soft")
        for number, note in enumerate(notes)
    ]
    picture = element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {height}",
        role="img",
        aria_labelledby="title desc",
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{picture.source}\n'


def _lane_top(number: int) -> int:
    return _TOP + _AXIS + _LANE * number


def _band(number: int) -> Markup:
    width = _WIDTH - 2 * _MARGIN + 24
    return element(
        "rect",
        class_="band",
        x=_MARGIN - 12,
        y=_lane_top(number),
        width=width,
        height=_LANE,
        rx=8,
    )


def _scale(axis: Axis, zone: str | None, now: Instant, bottom: int) -> Iterator[Markup]:
    span = _RIGHT - _LEFT
    for tick in ticks(axis, zone, _TICK_WIDTH / span):
        x, label = _x(tick.place), _x(tick.start)
        yield element("line", class_="grid", x1=x, x2=x, y1=_TOP + _AXIS - 8, y2=bottom)
        yield _text(label, _TOP + 18, tick.day, "soft")
        yield _text(label, _TOP + 35, tick.clock, "soft")
    if axis.shows(now):
        x = _x(axis.place(now))
        yield element("line", class_="now", x1=x, x2=x, y1=_TOP + _AXIS - 8, y2=bottom)
        yield _text(x - 12, bottom + 14, "now", "soft now-label")


@frozen
class _Row:
    """One lane: what it is, its bar with a mark for each moment, and how it fares."""

    axis: Axis
    lane: Lane
    now: Instant
    y: int

    def group(self, told: str) -> Markup:
        """The row with its own description, which a browser shows under the pointer."""
        lane, y = self.lane, self.y
        said = "late" if is_late(lane, self.now) else lane.end
        return element(
            "g",
            element("title", told),
            _text(_MARGIN, y - 3, fit(one_line(lane.id), _TEXT_WIDTH), "id"),
            _text(_MARGIN, y + 14, fit(one_line(lane.prompt), _TEXT_WIDTH + 6), "soft"),
            *self._marks(),
            _text(_WIDTH - _MARGIN, y + 4, outcome(lane, self.now), f"said {said}"),
        )

    def _marks(self) -> Iterator[Markup]:
        lane = self.lane
        created, due = self._at(lane.created), self._at(lane.due)
        settled = self._at(lane.settled(self.now))
        is_open = lane.end is End.ACTIVE and lane.queued is None
        is_reached = lane.settled(self.now) >= lane.due
        if not is_reached and not is_open:
            yield self._bar(settled, due, "unused")
        yield self._bar(created, due if is_open else min(due, settled), "bar wait")
        if is_reached:
            yield self._bar(due, settled, "bar late")
        yield element("circle", class_="created", cx=created, cy=self.y, r=5)
        yield _diamond(due, self.y, "due" if is_reached else "pending" if is_open else "missed")
        if lane.queued is not None:
            yield _arrow(self._at(lane.queued), self.y)
        if lane.ended is not None:
            yield from _end(self._at(lane.ended), self.y, lane.end)

    def _bar(self, start: float, end: float, kind: str) -> Markup:
        end = max(start, end)
        return element("line", class_=kind, x1=start, x2=end, y1=self.y, y2=self.y)

    def _at(self, moment: int) -> float:
        return _x(self.axis.place(moment))


def _legend(y: int) -> Iterator[Markup]:
    x, middle = _MARGIN + 6, y - 4
    yield element("circle", class_="created", cx=x, cy=middle, r=5)
    yield _text(x + 14, y, "created", "soft")
    yield _diamond(x + 90, middle, "due")
    yield _text(x + 104, y, "due", "soft")
    yield _diamond(x + 156, middle, "pending")
    yield _text(x + 170, y, "due, not reached", "soft")
    yield _arrow(x + 290, middle)
    yield _text(x + 304, y, "queued", "soft")
    yield from _end(x + 376, middle, End.DISPATCHED)
    yield _text(x + 392, y, "dispatched", "soft")
    yield from _end(x + 482, middle, End.DELETED)
    yield _text(x + 498, y, "deleted", "soft")


def _x(place: float) -> float:
    return round(_LEFT + place * (_RIGHT - _LEFT), 1)


def _text(x: float, y: float, content: str, kind: str) -> Markup:
    return element("text", content.rstrip(), class_=kind, x=x, y=y)


def _diamond(x: float, y: float, kind: str) -> Markup:
    return element("path", class_=kind, d=f"M{x} {y - 7}l7 7l-7 7l-7 -7z")


def _arrow(x: float, y: float) -> Markup:
    return element("path", class_="queued", d=f"M{x - 5} {y - 7}l11 7l-11 7z")


def _end(x: float, y: float, end: End) -> Iterator[Markup]:
    yield element("circle", class_=f"end {end}", cx=x, cy=y, r=9)
    is_done = end is End.DISPATCHED
    sign = f"M{x - 4} {y}l3 3l5 -6" if is_done else f"M{x - 3} {y - 3}l6 6m0 -6l-6 6"
    yield element("path", class_="sign", d=sign)
