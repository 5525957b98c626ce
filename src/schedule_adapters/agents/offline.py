"""The offline demo model: rules instead of an AI, so that everything runs without a key.

It is a pydantic-ai `FunctionModel`: it gets the conversation like any model, and answers
with text or with calls of the three schedule tools. A due reminder is shown, never obeyed,
whatever its text says.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Final, assert_never

from attrs import frozen
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from schedule_adapters.agents.phrases import (
    AskDay,
    AskZone,
    CancelIntent,
    CreateIntent,
    Greeting,
    Help,
    Intent,
    ListIntent,
    NamesZone,
    NeedsId,
    NeedsText,
    NeedsTime,
    Question,
    Recurring,
    Unknown,
    parse,
)
from schedule_adapters.agents.spoken_times import Delay, Timestamp, WallClock
from schedule_adapters.time_context import local_text, zone_of_instructions
from schedule_core.instants import Instant, format_instant, parse_instant
from schedule_core.ports import Clock
from schedule_core.text import json_text, parse_json


@frozen
class _Call:
    """One call of a schedule tool."""

    name: str
    arguments: dict[str, Any]


def offline_model(clock: Clock) -> FunctionModel:
    """A model made of rules: no AI, no key, no network; it streams word by word.

    Args:
        clock: what "in ten minutes" and "tomorrow" relate to. The client's zone comes with
            the instructions of each turn (`time_context.render`).
    """

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        match _reply(messages, info, clock.now):
            case _Call(name, arguments):
                call = ToolCallPart(name, arguments, tool_call_id=_call_id(messages))
                return ModelResponse(parts=[call])
            case text:
                return ModelResponse(parts=[TextPart(text)])

    async def stream(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        match _reply(messages, info, clock.now):
            case _Call(name, arguments):
                yield {
                    0: DeltaToolCall(name, json_text(arguments), tool_call_id=_call_id(messages))
                }
            case text:
                for piece in re.findall(r"[^\s]+[\s]*|[\s]+", text):
                    yield piece

    return FunctionModel(answer, stream_function=stream, model_name="offline")


def _reply(
    messages: Sequence[ModelMessage], info: AgentInfo, read_clock: Callable[[], Instant]
) -> _Call | str:
    zone = zone_of_instructions(info.instructions)
    match messages[-1].parts[-1] if messages and messages[-1].parts else None:
        case ToolReturnPart(tool_name=name, content=content):
            return _told(name, content, zone)
        case UserPromptPart() as prompt:
            text = _text_of(prompt)
        case _:
            return _HELP
    if text.startswith(_FRAME):
        return _presented(text, zone)
    intent = _understood(_user_texts(messages), now=read_clock(), zone=zone)
    reply = _acted(intent)
    if isinstance(reply, _Call) and reply.name not in {tool.name for tool in info.function_tools}:
        return "There are no reminders in this conversation: it has no schedule tools."
    return reply


def _call_id(messages: Iterable[ModelMessage]) -> str:
    """A new id: the number of calls made so far in this conversation."""
    parts = (part for message in messages for part in message.parts)
    return f"offline-{sum(isinstance(part, ToolCallPart) for part in parts) + 1}"


def _user_texts(messages: Iterable[ModelMessage]) -> list[str]:
    return [
        text
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart) and not (text := _text_of(part)).startswith(_FRAME)
    ]


def _text_of(prompt: UserPromptPart) -> str:
    if isinstance(prompt.content, str):
        return prompt.content
    return " ".join(item for item in prompt.content if isinstance(item, str))


# A due reminder.


def _presented(text: str, zone: str | None) -> str:
    """Show a framed reminder as quoted content; nothing in it is acted on."""
    lines = text.split("\n")
    try:
        schedule_id, due, prompt = (
            line.removeprefix(key) for line, key in zip(lines[2:], _FRAME_KEYS, strict=True)
        )
        content = _shown(str(parse_json(prompt)))
        source = _shown(str(parse_json(schedule_id)))
        return f"Reminder: {content} ({source}, due {_moment(parse_instant(due), zone)})"
    except ValueError:
        return "A reminder came, but its form is not one I can read. I did nothing with it."


# What the user asked for.


def _understood(texts: Sequence[str], *, now: Instant, zone: str | None) -> Intent:
    """The intent of the last text, which may answer a question about an earlier one."""
    intent: Intent = Unknown()
    asked = ""
    for text in texts[-_REMEMBERED_TEXTS:]:
        sentence, intent = _in_context(text, asked, now=now, zone=zone)
        asked = sentence if isinstance(intent, AskZone | NeedsTime) else ""
    return intent


def _in_context(text: str, asked: str, *, now: Instant, zone: str | None) -> tuple[str, Intent]:
    """Read a text; gives the whole sentence that it completes, and its intent."""
    intent = parse(text, now=now, zone=zone)
    if asked and isinstance(intent, NamesZone):
        return asked, parse(asked, now=now, zone=intent.zone)
    if asked and isinstance(intent, Unknown):
        whole = f"{asked.rstrip(' .!?')} {text}"
        joined = parse(whole, now=now, zone=zone)
        if isinstance(joined, CreateIntent | AskZone):
            return whole, joined
    return text, intent


def _acted(intent: Intent) -> _Call | str:
    match intent:
        case CreateIntent(prompt, when):
            return _Call("schedule_create", {"prompt": prompt, **_selector(when)})
        case ListIntent():
            return _Call("schedule_list", {})
        case CancelIntent(id):
            return _Call("schedule_delete", {"id": id})
        case Greeting(thanks=True):
            return "You are welcome."
        case Greeting():
            return f"Hello! {_ABOUT} Try: remind me in 20 seconds to stretch"
        case Help() | Unknown() | NamesZone():
            return _HELP
        case _:
            return _asked(intent)


def _selector(when: Delay | Timestamp | WallClock) -> dict[str, Any]:
    match when:
        case Delay(seconds):
            return {"after_seconds": seconds}
        case Timestamp(text):
            return {"at": text}
        case WallClock(date, time, time_zone):
            return {"at": {"date": date, "time": time, "time_zone": time_zone}}
        case _:
            assert_never(when)


def _asked(question: Question) -> str:
    match question:
        case AskZone(prompt, phrase, place, candidates):
            return _zone_question(prompt, phrase, place, candidates)
        case AskDay(_, day):
            return f"I am not sure which day {_shown(day)} is. Please write it as YYYY-MM-DD."
        case NeedsText(phrase):
            return f"What should I remind you of? Say: remind me {_shown(phrase)} to ..."
        case NeedsTime(_, ""):
            return "When should I remind you? I understand times such as: in 20 minutes"
        case NeedsTime(_, day):
            return f"At what time {_shown(day)}? I understand times such as: at 9:30 or at 5pm"
        case NeedsId():
            return "Which reminder? Name one by its id, such as: cancel schedule-1"
        case Recurring():
            return "I can set reminders that come once. Repeating ones are not supported."
        case _:
            assert_never(question)


def _zone_question(prompt: str, phrase: str, place: str | None, candidates: tuple[str, ...]) -> str:
    example = "Answer with a zone such as Europe/Berlin, or with a city."
    if place is None:
        return f"Which time zone? You said: {_shown(phrase)}. {example}"
    again = f"Please say the whole reminder again with the zone: {_shown(prompt)}"
    if candidates:
        return f"Which zone is {_shown(place)}: {' or '.join(candidates)}? {again}"
    return f"Which time zone is {_shown(place)}? I know names such as Europe/Berlin. {again}"


# What a tool answered.


def _told(name: str, content: object, zone: str | None) -> str:
    match content:
        case {"code": "schedule_not_found", "id": str(id)}:
            return f"There is no active reminder {_shown(id)}."
        case {"code": str(code), **rest}:
            return _refused(code, _shown(str(rest.get("message", ""))))
        case {"id": str(id), "deleted": True}:
            return f"{_shown(id)} is deleted."
        case {"id": str(id), "prompt": str(prompt), "scheduledAt": str(due)}:
            moment = _moment(parse_instant(due), zone)
            return f"I will remind you at {moment}: {_shown(prompt)} ({_shown(id)})"
        case []:
            return "There are no reminders in this conversation."
        case [*views]:
            return "\n".join(_line(view, zone) for view in views)
        case _:
            return f"{name} answered: {_shown(str(content))}"


def _line(view: object, zone: str | None) -> str:
    match view:
        case {"id": str(id), "prompt": str(prompt), "scheduledAt": str(due), "state": str(state)}:
            moment = _moment(parse_instant(due), zone)
            return f"{_shown(id)}  {moment}  {_shown(state)}  {_shown(prompt)}"
        case _:
            return _shown(str(view))


def _refused(code: str, why: str) -> str:
    lead = _REFUSALS.get(code, f"That did not work ({_shown(code)})")
    return f"{lead}: {why}." if why else f"{lead}."


def _moment(instant: Instant, zone: str | None) -> str:
    """An instant in the client's zone, where one is known, and always in UTC."""
    local = local_text(instant, zone) if zone and zone != "UTC" else None
    utc = format_instant(instant)
    return f"{utc[:10]} {utc[11:19]} UTC" if local is None else f"{local} {zone}, {utc[11:19]} UTC"


def _shown(text: str) -> str:
    """A text on one line, with what a terminal would obey made visible."""
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)


_FRAME: Final = "[SCHEDULE REMINDER]"
_FRAME_KEYS: Final = ("schedule_id_json: ", "occurrence_at: ", "reminder_prompt_json: ")
_REMEMBERED_TEXTS: Final = 4
_ABOUT: Final = "I am the offline model: a few rules that keep reminders, with no AI behind them."
_HELP: Final = "\n".join(
    (
        f"{_ABOUT} I understand sentences such as:",
        "  remind me in 20 seconds to stretch",
        "  remind me tomorrow at 9am Europe/Berlin to call home",
        "  list my reminders",
        "  cancel schedule-1",
    )
)
_REFUSALS: Final = {
    "invalid_prompt": "The text of the reminder cannot be used",
    "invalid_selector": "That is not one clear time",
    "invalid_rule": "That cannot be done",
    "invalid_time_zone": "I do not know that time zone",
    "not_future": "I can only remind you later",
    "time_out_of_range": "That is too far away",
    "corrupt_schedule_log": "The reminders of this conversation cannot be read",
    "persistence_uncertain": "The disk did not confirm it",
    "internal_error": "Something went wrong in the scheduler",
}
