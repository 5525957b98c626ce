"""The three model-facing tools: what the model is told, reads of its arguments, answers.

Wire spelling lives here and in `decoder` only. The argument and result schemas have the
published original's shape, so a model or a host that knows it finds the same tools; root
schemas stay plain objects, because some providers refuse a combinator there.
"""

from typing import Any, Final, Literal, assert_never

from attrs import frozen

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
from schedule_core.decoder import view_json
from schedule_core.errors import ErrorCode, ScheduleInputError
from schedule_core.normalizer import check_delay
from schedule_core.records import Prompt, ScheduleId
from schedule_core.text import is_trimmed, json_text, trim

JsonSchema = dict[str, Any]
ToolName = Literal["schedule_create", "schedule_list", "schedule_delete"]


@frozen
class Tool:
    """One tool as the model meets it.

    Attributes:
        name: the name the model calls.
        description: when to use it and what it does.
        parameters: JSON Schema of the argument object.
        output: JSON Schema of the value that `answer_json` gives.
    """

    name: ToolName
    description: str
    parameters: JsonSchema
    output: JsonSchema


def parse_request(name: ToolName, arguments: object, limits: Limits) -> Request:
    """Read the arguments of one call; whatever fails here never enters the queue.

    Raises:
        ScheduleInputError: `invalid_selector`, `invalid_prompt` or `invalid_rule`, checked
            in that order (`spec/package.md`, management tools).
    """
    fields = arguments if isinstance(arguments, dict) else {}
    match name:
        case "schedule_create":
            return _parse_create(fields, limits)
        case "schedule_list":
            return ListRequest()
        case "schedule_delete":
            schedule_id = fields.get("id")
            if not isinstance(schedule_id, str) or not is_trimmed(schedule_id):
                raise ScheduleInputError(ErrorCode.INVALID_RULE, "id is empty or padded")
            return DeleteRequest(ScheduleId(schedule_id))
        case _:
            assert_never(name)


def answer_json(answer: Answer) -> object:
    """The canonical JSON value of an answer, keys in the original's order."""
    match answer:
        case Created(view):
            return view_json(view)
        case Listed(views):
            return [view_json(view) for view in views]
        case Deleted(id):
            return {"id": id, "deleted": True}
        case NotFound(id):
            return {"id": id, "deleted": False, "code": ErrorCode.SCHEDULE_NOT_FOUND.value}
        case Failed(code, message):
            return {"code": code.value, "message": message}
        case Uncertain(operation, id):
            fields = {
                "code": ErrorCode.PERSISTENCE_UNCERTAIN.value,
                "message": UNCERTAIN_MESSAGE,
                "operation": operation,
            }
            return fields if id is None else {**fields, "id": id}
        case _:
            assert_never(answer)


def answer_text(answer: Answer) -> str:
    """The text given to the model: compact JSON of the same value."""
    return json_text(answer_json(answer))


def _parse_create(fields: dict[object, object], limits: Limits) -> CreateRequest:
    selectors = [name for name in ("after_seconds", "at") if name in fields]
    if len(selectors) != 1 or fields.keys() - {"prompt", "after_seconds", "at"}:
        raise ScheduleInputError(
            ErrorCode.INVALID_SELECTOR,
            "give prompt and exactly one of after_seconds and at, and nothing else",
        )
    prompt = _parse_prompt(fields.get("prompt"), limits)
    if "at" in fields:
        return CreateRequest(prompt, at=fields["at"])
    return CreateRequest(prompt, after_seconds=check_delay(fields["after_seconds"]))


def _parse_prompt(value: object, limits: Limits) -> Prompt:
    prompt = trim(value) if isinstance(value, str) else ""
    if not prompt:
        raise ScheduleInputError(ErrorCode.INVALID_PROMPT, "prompt is empty")
    if len(prompt.encode("utf-8", "surrogatepass")) > limits.prompt_bytes:
        raise ScheduleInputError(
            ErrorCode.INVALID_PROMPT, f"prompt is longer than {limits.prompt_bytes} bytes"
        )
    return Prompt(prompt)


UNCERTAIN_MESSAGE: Final = (
    "it is not certain whether this was saved; list the reminders before trying again"
)


def _object_schema(
    properties: JsonSchema, *, optional: tuple[str, ...] = (), closed: bool = True
) -> JsonSchema:
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        **({"additionalProperties": False} if closed else {}),
        "properties": properties,
        **({"required": required} if required else {}),
    }


def _const(value: object) -> JsonSchema:
    return {"type": "boolean" if isinstance(value, bool) else "string", "const": value}


def _view_schema(kind: str, **own: JsonSchema) -> JsonSchema:
    return _object_schema(
        {
            "id": _TEXT,
            "prompt": _TEXT,
            "scheduledAt": _TEXT,
            "state": {"type": "string", "enum": ["scheduled", "overdue"]},
            "deliveryMode": _const("session-local"),
            "kind": _const(kind),
            **own,
        }
    )


def _error_schemas() -> list[JsonSchema]:
    plain = [
        _object_schema({"code": _const(code.value), "message": _TEXT})
        for code in ErrorCode
        if code not in {ErrorCode.PERSISTENCE_UNCERTAIN, ErrorCode.SCHEDULE_NOT_FOUND}
    ]
    uncertain = _object_schema(
        {
            "code": _const(ErrorCode.PERSISTENCE_UNCERTAIN.value),
            "message": _TEXT,
            "operation": {"type": "string", "enum": ["create", "list", "delete"]},
            "id": _TEXT,
        },
        optional=("id",),
    )
    return [*plain, uncertain]


_TEXT: Final[JsonSchema] = {"type": "string"}
_VIEW: Final[JsonSchema] = {
    "oneOf": [_view_schema("after", afterSeconds={"type": "integer"}), _view_schema("at")]
}
_ERRORS: Final = _error_schemas()

TOOLS: Final[tuple[Tool, ...]] = (
    Tool(
        "schedule_create",
        "Set one reminder in this conversation. When it is due it comes back here as a later "
        "message, while the conversation is open or as soon as it is opened again. Give the "
        "text and exactly one of after_seconds and at.",
        _object_schema(
            {
                "prompt": {
                    "type": "string",
                    "description": "What to remind the user of, in the user's own words.",
                },
                "after_seconds": {
                    "type": "number",
                    "description": "Delay from now: a whole number of seconds, 1 or more.",
                },
                "at": {
                    "description": (
                        "A future point in time: text such as 2030-01-31T09:00:00+01:00, always "
                        "with Z or an offset; or a local date and time with its IANA time zone. "
                        "Nothing is assumed: if the zone is not known, ask the user."
                    ),
                    "oneOf": [
                        _TEXT,
                        _object_schema(
                            {
                                "date": {"type": "string", "description": "YYYY-MM-DD"},
                                "time": {"type": "string", "description": "HH:MM:SS, 24 hours"},
                                "time_zone": {
                                    "type": "string",
                                    "description": "UTC or a name such as Europe/Berlin",
                                },
                            }
                        ),
                    ],
                },
            },
            optional=("after_seconds", "at"),
            closed=False,
        ),
        {"oneOf": [_VIEW, *_ERRORS]},
    ),
    Tool(
        "schedule_list",
        "List the reminders of this conversation that are still to come, or due and waiting, "
        "in the order they were made.",
        _object_schema({}, closed=False),
        {"oneOf": [{"type": "array", "items": _VIEW}, *_ERRORS]},
    ),
    Tool(
        "schedule_delete",
        "Delete one reminder of this conversation before it comes back.",
        _object_schema(
            {
                "id": {
                    "type": "string",
                    "description": "The exact id that schedule_create or schedule_list gave.",
                }
            },
            closed=False,
        ),
        {
            "oneOf": [
                _object_schema({"id": _TEXT, "deleted": _const(value=True)}),
                _object_schema(
                    {
                        "id": _TEXT,
                        "deleted": _const(value=False),
                        "code": _const(ErrorCode.SCHEDULE_NOT_FOUND.value),
                    }
                ),
                *_ERRORS,
            ]
        },
    ),
)
"""The tools in the order in which they are registered."""
