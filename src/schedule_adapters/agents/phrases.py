"""What an English sentence asks of the reminders: a pure parser, no clock and no I/O.

It knows a small language well rather than a large one roughly: what it does not
understand it gives back as a question, never as a guess. The meaning of each time phrase
stands in `spoken_times`.
"""

import re
from itertools import islice
from typing import Final

from attrs import evolve, frozen

from schedule_adapters.agents.spoken_times import (
    ClockNeeded,
    DayNeeded,
    TimePhrase,
    When,
    ZoneNeeded,
    find_place,
    read_time,
    resolve,
)
from schedule_core.instants import Instant


@frozen
class CreateIntent:
    """Set one reminder."""

    prompt: str
    when: When


@frozen
class ListIntent:
    """Show the reminders."""


@frozen
class CancelIntent:
    """Delete one reminder."""

    id: str


@frozen
class AskZone:
    """A reminder at a local time whose zone is not known.

    Attributes:
        prompt: the text of the reminder.
        phrase: the words that said when.
        place: the place the user named, where it names no zone, or several.
        candidates: the zones it may mean.
    """

    prompt: str
    phrase: str
    place: str | None = None
    candidates: tuple[str, ...] = ()


@frozen
class AskDay:
    """A reminder on a day that can be read in more than one way."""

    prompt: str
    day: str


@frozen
class NeedsText:
    """A time without anything to be reminded of."""

    phrase: str


@frozen
class NeedsTime:
    """A reminder without a time, or (`day`) with a day and no time of day."""

    prompt: str
    day: str = ""


@frozen
class NeedsId:
    """Something is to be deleted, but not one id was given."""


@frozen
class Recurring:
    """A reminder that comes again and again, which version 1 does not have."""


@frozen
class NamesZone:
    """Nothing but a zone or a place: perhaps the answer to a question."""

    zone: str


@frozen
class Greeting:
    """Hello, or thanks."""

    thanks: bool


@frozen
class Help:
    """The user asks what can be done."""


@frozen
class Unknown:
    """Anything else."""


Question = AskZone | AskDay | NeedsText | NeedsTime | NeedsId | Recurring
Intent = CreateIntent | ListIntent | CancelIntent | Question | NamesZone | Greeting | Help | Unknown

_POLITE: Final = (
    r"(?:(?:please|pls|hey|hi|hello|ok|okay|so|and|also|now|then|can|could|would|will|you|i|want|need"
    r"|like|just|kindly|to|there|thanks|me|let's)\b[\s,!.]*)*"
)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_ONLY_POLITE = _pattern(_POLITE)
_TRIGGER = _pattern(
    r"\b(?:remind[\s]+me"
    r"|(?:(?:set|create|add|make|schedule|give)[\s]+)?(?:me[\s]+)?(?:an?|another|one)[\s]+reminder"
    r"|(?:set|create|add|make|schedule)[\s]+(?:me[\s]+)?reminder|reminder(?=[\s]*:)"
    r"|(?:ping|notify|alert|nudge)[\s]+me|(?P<wake>wake[\s]+me(?:[\s]+up)?))(?=\W|$)"
)
_TRIGGERS_TRIED: Final = 3
_ASKS = _pattern(r"\b(?:can|could|would|will)[\s]+you\b")
_CONNECTOR = _pattern(r"[\s,:;\u2013\u2014-]*(?:(?:to|that|about|of)(?![^\s]))?[\s,:;]*")
_TAIL = _pattern(r"[\s.,;:!?]*(?:(?:please|pls|thanks|thank you)[\s.!?]*)?")
_RECURRING: Final = (
    r"(?:every(?:[\s]+(?:other|single|[0-9]{1,4}))?[\s]+(?:second|minute|hour|day|night|morning"
    r"|afternoon|evening|week|weekday|month|year|monday|tuesday|wednesday|thursday|friday|saturday"
    r"|sunday)s?|everyday|each[\s]+(?:day|week|month|year|morning|evening)|daily|hourly|weekly"
    r"|monthly|yearly)"
)
_STARTS_RECURRING = _pattern(rf"(?:on[\s]+)?{_RECURRING}\b")
_ENDS_RECURRING = _pattern(rf"\b{_RECURRING}[\s.,;:!?]*\Z")
_LIST = _pattern(
    rf"{_POLITE}(?:(?:list|show|view|display|see|check)\b(?:[\s]+(?:me|all|of|my|the|active|open"
    r"|pending|current|upcoming|reminders?|schedules?))*"
    r"|(?:/?(?:ls|reminders|(?:my|all)[\s]+(?:my[\s]+)?reminders))"
    r"|(?:what|which|do|are|how[\s]+many|any|is)\b[^\n]{0,60}\breminders?\b[^\n]{0,40}"
    r"|what(?:'s| is|[\s]+do[\s]+i[\s]+have)?[\s]+(?:scheduled|coming[\s]+up|planned))[\s.!?]*"
)
_CANCEL = _pattern(
    rf"{_POLITE}(?P<verb>cancel|delete|remove|drop|forget|stop|clear|kill)\b(?P<rest>[^\n]*)"
)
_ID = _pattern(r"\bschedule[-\s]?(?P<number>[0-9]{1,16})\b")
_SHORT_ID = _pattern(
    r"[\s]*(?:(?:my|the|reminder|schedule|number|no[.]?|id)[\s]*)*#?(?P<number>[0-9]{1,16})[\s.!]*"
)
_REMINDERS = _pattern(r"\b(?:reminders?|schedules?)\b")
_THANKS = _pattern(rf"{_POLITE}(?:thanks?|thank[\s]+you|thx|cheers|great|nice|ta)\b[^\n]{{0,40}}")
_HELLO = _pattern(
    r"(?:hello|hi|hey|hiya|howdy|good[\s]+(?:morning|afternoon|evening|day)|greetings|yo)\b[^\n]{0,40}"
)
_HELP = _pattern(
    r"[\s/]*(?:help|\?+|what[\s]+can[\s]+(?:you|i)[\s]+(?:do|say)|how[\s]+does[\s]+this[\s]+work)\W*"
)
_WORD = re.compile(r"[^\s]+")
_LONGEST_TIME_WORDS: Final = 64
"""A time phrase at the end is looked for in this many last words."""


def parse(text: str, *, now: Instant, zone: str | None) -> Intent:
    """What a sentence asks for.

    Args:
        text: the sentence; any text at all is accepted.
        now: the wall clock, to which "tomorrow" and "at 9" relate.
        zone: the client's IANA zone, for times that name none; None when it is not known
            or when there are several, and then such a time is answered by `AskZone`.
    """
    sentence = text.strip()
    for found in islice(_TRIGGER.finditer(sentence), _TRIGGERS_TRIED):
        intent = _reminder(sentence, found, now=now, zone=zone)
        if intent is not None:
            return intent
    return _command(sentence)


def _command(sentence: str) -> Intent:
    """Read everything that sets no reminder."""
    if _HELP.fullmatch(sentence):
        return Help()
    if _LIST.fullmatch(sentence):
        return ListIntent()
    if found := _CANCEL.fullmatch(sentence):
        intent = _cancel(found["verb"].lower(), found["rest"])
        if intent is not None:
            return intent
    if _HELLO.fullmatch(sentence):
        return Greeting(thanks=False)
    if _THANKS.fullmatch(sentence):
        return Greeting(thanks=True)
    zone = find_place(sentence)
    return NamesZone(zone) if isinstance(zone, str) else Unknown()


def _cancel(verb: str, rest: str) -> Intent | None:
    ids = {f"schedule-{found['number']}" for found in _ID.finditer(rest)}
    if len(ids) == 1:
        return CancelIntent(ids.pop())
    if not ids and (found := _SHORT_ID.fullmatch(rest)):
        return CancelIntent(f"schedule-{found['number']}")
    about_reminders = ids or _REMINDERS.search(rest) or verb in {"cancel", "delete", "remove"}
    return NeedsId() if about_reminders else None


def _reminder(
    sentence: str, trigger: re.Match[str], *, now: Instant, zone: str | None
) -> Intent | None:
    """Read a sentence around `remind me`; None if the words before it make it another one."""
    before, body = sentence[: trigger.start()], sentence[trigger.end() :]
    polite = _ONLY_POLITE.match(before)
    start = polite.end() if polite else 0
    if _ASKS.search(before):
        body = body.removesuffix("?")
    if _STARTS_RECURRING.match(before, start):
        return Recurring()
    first = None
    if start < len(before):
        first = read_time(before, start)
        if first is None or before[first.end :].strip(" \t\n,:;-"):
            return None
        first = evolve(first, end=0)
    phrase = before[start:].strip(" \t\n,:;-")
    if trigger["wake"] and not _CONNECTOR_WORD.match(body):
        body += " to wake up"
    return _about(body, first, phrase, now=now, zone=zone)


_CONNECTOR_WORD = _pattern(r".*\bto\b")


def _about(
    body: str, time: TimePhrase | None, phrase: str, *, now: Instant, zone: str | None
) -> Intent:
    """Part the words after `remind me` into the time and the text."""
    start = _skip_space(body)
    if _STARTS_RECURRING.match(body, start) or _ENDS_RECURRING.search(body):
        return Recurring()
    if time is None and (time := read_time(body, start)):
        phrase, start = body[start : time.end], time.end
    rest = _without_connector(body[start:])
    if time is None or _is_day_only(time):
        prompt, last, last_phrase = _time_at_end(rest)
        if last is not None and (time is None or not last.day):
            rest = prompt
            phrase = f"{phrase} {last_phrase}".strip()
            time = last if time is None else _joined(time, last)
    if _STARTS_RECURRING.match(rest) or _ENDS_RECURRING.search(rest):
        return Recurring()
    return _settled(rest.strip(), time, phrase, now=now, zone=zone)


def _settled(
    prompt: str, time: TimePhrase | None, phrase: str, *, now: Instant, zone: str | None
) -> Intent:
    if time is None:
        return NeedsTime(prompt)
    if not re.search(r"\w", prompt) and not prompt.strip(".,;:!?- "):
        return NeedsText(phrase)
    match resolve(time, now=now, zone=zone):
        case ZoneNeeded(place, candidates):
            return AskZone(prompt, phrase, place, candidates)
        case ClockNeeded():
            return NeedsTime(prompt, phrase)
        case DayNeeded(day):
            return AskDay(prompt, day)
        case when:
            return CreateIntent(prompt, when)


def _time_at_end(text: str) -> tuple[str, TimePhrase | None, str]:
    """The text without the longest time phrase at its end, that phrase, and its words."""
    words = list(_WORD.finditer(text))[-_LONGEST_TIME_WORDS:]
    for word in words:
        found = read_time(text, word.start(), lone_clock=False)
        if found is not None and _TAIL.fullmatch(text, found.end):
            return text[: word.start()].rstrip(" \t\n,;:-"), found, text[word.start() : found.end]
    return text, None, ""


def _is_day_only(time: TimePhrase) -> bool:
    return time.clock is None and time.step is None and time.stamp is None


def _joined(day: TimePhrase, clock: TimePhrase) -> TimePhrase:
    """`tomorrow` at the front and `at 9` at the end are one time."""
    return evolve(clock, day=day.day, half=clock.half or day.half, place=clock.place or day.place)


def _without_connector(text: str) -> str:
    found = _CONNECTOR.match(text)
    return text[found.end() :] if found else text


def _skip_space(text: str) -> int:
    return len(text) - len(text.lstrip(" \t\n,:;-"))
