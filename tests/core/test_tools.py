"""What the model is told, what is read of its arguments, and the exact answers."""

import json
from collections.abc import Iterator
from itertools import combinations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

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
from schedule_core.errors import ErrorCode, ScheduleInputError
from schedule_core.instants import Instant, parse_instant
from schedule_core.records import (
    AfterScheduleRecord,
    AtScheduleRecord,
    DelaySeconds,
    Prompt,
    ScheduleId,
    ScheduleView,
    view,
)
from schedule_core.tools import (
    TOOLS,
    UNCERTAIN_MESSAGE,
    JsonSchema,
    ToolName,
    answer_json,
    answer_text,
    parse_request,
)

LIMITS = Limits()
CREATE, LIST, DELETE = TOOLS


def _request(name: ToolName, arguments: object, limits: Limits = LIMITS) -> Request:
    return parse_request(name, arguments, limits)


def _refusal(name: ToolName, arguments: object, limits: Limits = LIMITS) -> tuple[str, str]:
    with pytest.raises(ScheduleInputError) as refusal:
        parse_request(name, arguments, limits)
    return refusal.value.code.value, refusal.value.message


# --- arguments -----------------------------------------------------------------------------


def test_create_request_holds_the_trimmed_prompt_and_its_selector() -> None:
    local = {"date": "2030-01-01", "time": "09:00:00", "time_zone": "Europe/Berlin"}

    assert CreateRequest(Prompt("tea"), after_seconds=DelaySeconds(30)) == _request(
        "schedule_create", {"prompt": "\ufeff tea\n", "after_seconds": 3e1}
    )
    for at in (local, "2030-01-01T09:00:00Z", "nonsense", 5, None):
        # Everything about `at` is judged after the barrier, against the clock of then.
        assert CreateRequest(Prompt("tea"), at=at) == _request(
            "schedule_create", {"prompt": "tea", "at": at}
        )


CREATE_FAULTS: dict[str, dict[str, object]] = {
    "invalid_selector": {"cron": "* * * * *"},
    "invalid_prompt": {"prompt": " \n"},
    "invalid_rule": {"after_seconds": 0},
}
"""Each fault alone, in the order in which they are looked for."""


@pytest.mark.parametrize("count", [1, 2, 3])
def test_earlier_fault_of_a_create_wins(count: int) -> None:
    good = {"prompt": "tea", "after_seconds": 30}
    for codes in combinations(CREATE_FAULTS, count):
        arguments: dict[str, object] = dict(good)
        for code in codes:
            arguments.update(CREATE_FAULTS[code])
        assert codes[0] == _refusal("schedule_create", arguments)[0]


@pytest.mark.parametrize(
    "arguments",
    [
        {"prompt": "tea"},
        {"prompt": "tea", "after_seconds": 30, "at": "2030-01-01T09:00:00Z"},
        {"prompt": "tea", "after_seconds": None, "at": "2030-01-01T09:00:00Z"},
        {"prompt": "tea", "every_seconds": 30},
        {"prompt": "tea", "after_seconds": 30, "cron": "* * * * *"},
        {"prompt": "tea", "afterSeconds": 30},
        {"prompt": "tea", "after_seconds": 30, 5: 5},
        {},
        None,
        "tea",
        [],
        [["prompt", "tea"]],
    ],
    ids=str,
)
def test_anything_but_exactly_one_selector_is_refused(arguments: object) -> None:
    assert (
        "invalid_selector",
        "give prompt and exactly one of after_seconds and at, and nothing else",
    ) == _refusal("schedule_create", arguments)


@pytest.mark.parametrize("prompt", ["", " ", "\t\u2029\ufeff", None, 5, ["tea"], True], ids=ascii)
def test_prompt_without_text_is_refused(prompt: object) -> None:
    assert ("invalid_prompt", "prompt is empty") == _refusal(
        "schedule_create", {"prompt": prompt, "after_seconds": 1}
    )


def test_missing_prompt_is_an_empty_one() -> None:
    assert ("invalid_prompt", "prompt is empty") == _refusal("schedule_create", {"at": "x"})


@pytest.mark.parametrize(
    "seconds", [0, -1, 0.5, 2**53, True, "30", None, [], float("nan")], ids=str
)
def test_delay_that_is_no_positive_safe_integer_is_refused(seconds: object) -> None:
    assert ("invalid_rule", "after_seconds is not a positive integer of seconds") == _refusal(
        "schedule_create", {"prompt": "tea", "after_seconds": seconds}
    )


@pytest.mark.parametrize("character", ["a", "é", "語", "😀", "\ud83d"], ids=ascii)
def test_prompt_is_measured_in_bytes_of_utf8_after_trimming(character: str) -> None:
    """8 KiB exactly is accepted, one byte more is not."""
    size = len(character.encode("utf-8", "surrogatepass"))
    fitting = character * (8_192 // size) + "a" * (8_192 % size)

    request = _request("schedule_create", {"prompt": f" {fitting}\n", "after_seconds": 1})

    assert CreateRequest(Prompt(fitting), after_seconds=DelaySeconds(1)) == request
    assert ("invalid_prompt", "prompt is longer than 8192 bytes") == _refusal(
        "schedule_create", {"prompt": fitting + "a", "after_seconds": 1}
    )


def test_host_sets_the_length_of_a_prompt() -> None:
    limits = Limits(prompt_bytes=3)

    assert ("invalid_prompt", "prompt is longer than 3 bytes") == _refusal(
        "schedule_create", {"prompt": "four", "after_seconds": 1}, limits
    )
    assert isinstance(
        _request("schedule_create", {"prompt": "tea", "after_seconds": 1}, limits), CreateRequest
    )


@pytest.mark.parametrize("arguments", [{}, None, {"anything": 1}, "x", []], ids=str)
def test_list_looks_at_no_arguments(arguments: object) -> None:
    assert ListRequest() == _request("schedule_list", arguments)


def test_delete_takes_the_id_as_it_is() -> None:
    assert DeleteRequest(ScheduleId("schedule-1")) == _request(
        "schedule_delete", {"id": "schedule-1"}
    )
    assert DeleteRequest(ScheduleId("\x85x\ud800")) == _request(
        "schedule_delete", {"id": "\x85x\ud800"}
    )


@pytest.mark.parametrize(
    "arguments",
    [{}, None, *({"id": value} for value in ("", " ", " a", "a\n", "\ufeffa", None, 1, ["a"]))],
    ids=ascii,
)
def test_empty_or_padded_id_is_refused(arguments: object) -> None:
    assert ("invalid_rule", "id is empty or padded") == _refusal("schedule_delete", arguments)


@given(
    name=st.sampled_from([tool.name for tool in TOOLS]),
    arguments=st.none()
    | st.integers()
    | st.text()
    | st.dictionaries(
        st.sampled_from(["prompt", "at", "after_seconds", "id"]) | st.text(max_size=3),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
        max_size=3,
    ),
)
def test_any_arguments_give_a_request_or_a_code(name: ToolName, arguments: object) -> None:
    try:
        _request(name, arguments)
    except ScheduleInputError as refusal:
        assert refusal.code in {  # noqa: PT017 - nothing else may come out
            ErrorCode.INVALID_SELECTOR,
            ErrorCode.INVALID_PROMPT,
            ErrorCode.INVALID_RULE,
        }
        assert refusal.message.isascii(), "never the text that was refused"  # noqa: PT017


# --- answers -------------------------------------------------------------------------------

TARGET = parse_instant("2026-12-05T12:00:00.000Z")
AFTER = AfterScheduleRecord(
    ScheduleId("schedule-1"), Prompt("check\nlogs é"), DelaySeconds(30), TARGET
)
AT = AtScheduleRecord(ScheduleId("schedule-2"), Prompt("x\ud83d"), TARGET)
AFTER_TEXT = (
    '{"id":"schedule-1","kind":"after","prompt":"check\\nlogs é","afterSeconds":30,'
    '"scheduledAt":"2026-12-05T12:00:00.000Z","state":"scheduled","deliveryMode":"session-local"}'
)
AT_TEXT = (
    '{"id":"schedule-2","kind":"at","prompt":"x\\ud83d",'
    '"scheduledAt":"2026-12-05T12:00:00.000Z","state":"overdue","deliveryMode":"session-local"}'
)
BEFORE = Instant(TARGET - 1)

ANSWERS: list[tuple[ToolName, Answer, str]] = [
    ("schedule_create", Created(view(AFTER, BEFORE)), AFTER_TEXT),
    ("schedule_create", Created(view(AT, TARGET)), AT_TEXT),
    ("schedule_list", Listed(()), "[]"),
    (
        "schedule_list",
        Listed((view(AFTER, BEFORE), view(AT, TARGET))),
        f"[{AFTER_TEXT},{AT_TEXT}]",
    ),
    ("schedule_delete", Deleted(ScheduleId("a")), '{"id":"a","deleted":true}'),
    (
        "schedule_delete",
        NotFound(ScheduleId("a")),
        '{"id":"a","deleted":false,"code":"schedule_not_found"}',
    ),
    (
        "schedule_create",
        Failed(ErrorCode.NOT_FUTURE, "the time has already passed"),
        '{"code":"not_future","message":"the time has already passed"}',
    ),
    (
        "schedule_list",
        Uncertain("list"),
        f'{{"code":"persistence_uncertain","message":"{UNCERTAIN_MESSAGE}","operation":"list"}}',
    ),
    (
        "schedule_delete",
        Uncertain("delete", ScheduleId("a")),
        (
            f'{{"code":"persistence_uncertain","message":"{UNCERTAIN_MESSAGE}",'
            '"operation":"delete","id":"a"}'
        ),
    ),
]


@pytest.mark.parametrize(("name", "answer", "text"), ANSWERS)
def test_answer_text_is_compact_json_of_the_same_value(
    name: ToolName, answer: Answer, text: str
) -> None:
    assert text == answer_text(answer)
    assert json.loads(text) == answer_json(answer)
    assert [] == list(_faults(answer_json(answer), _output(name)))


# --- schemas -------------------------------------------------------------------------------


def _output(name: ToolName) -> JsonSchema:
    (tool,) = (tool for tool in TOOLS if tool.name == name)
    return tool.output


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_KEYWORDS = {
    *("type", "const", "enum", "oneOf", "items"),
    *("properties", "required", "additionalProperties", "description"),
}


def _faults(value: object, schema: JsonSchema) -> Iterator[str]:
    """What a JSON Schema validator would say; of the keywords that the tools use."""
    assert schema.keys() <= _KEYWORDS
    kind = schema.get("type", "object")
    if "oneOf" in schema:
        fitting = [inner for inner in schema["oneOf"] if not [*_faults(value, inner)]]
        if len(fitting) != 1:
            yield f"{value!r} fits {len(fitting)} of oneOf"
    elif not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        yield f"{value!r} is not of type {kind}"
    elif value != schema.get("const", value) or value not in schema.get("enum", [value]):
        yield f"{value!r} is another value"
    elif isinstance(value, list):
        for inner in value:
            yield from _faults(inner, schema["items"])
    elif isinstance(value, dict):
        yield from _member_faults(value, schema)


def _member_faults(value: dict[str, object], schema: JsonSchema) -> Iterator[str]:
    properties = schema["properties"]
    yield from (f"{name} is missing" for name in schema.get("required", []) if name not in value)
    for name, inner in value.items():
        if name in properties:
            yield from _faults(inner, properties[name])
        elif not schema.get("additionalProperties", True):
            yield f"{name} is not expected"


@given(
    view_=...,
    failed=st.builds(
        Failed,
        st.sampled_from(
            sorted(set(ErrorCode) - {ErrorCode.PERSISTENCE_UNCERTAIN, ErrorCode.SCHEDULE_NOT_FOUND})
        ),
        st.text(),
    ),
    schedule_id=...,
)
def test_every_answer_fits_the_output_schema_of_its_tool(
    view_: ScheduleView, failed: Failed, schedule_id: ScheduleId
) -> None:
    """And exactly one branch of it, so a reader can tell the answers apart."""
    answers: dict[ToolName, list[Answer]] = {
        "schedule_create": [Created(view_), Uncertain("create"), Uncertain("create", schedule_id)],
        "schedule_list": [Listed(()), Listed((view_, view_)), Uncertain("list")],
        "schedule_delete": [
            Deleted(schedule_id),
            NotFound(schedule_id),
            Uncertain("delete", schedule_id),
        ],
    }
    for tool in TOOLS:
        for answer in (*answers[tool.name], failed):
            assert [] == list(_faults(answer_json(answer), tool.output))


def test_schemas_can_refuse() -> None:
    """The validator of these tests is not blind: damaged values have faults."""
    good = answer_json(Created(view(AFTER, BEFORE)))
    assert isinstance(good, dict)
    damages: list[object] = [
        {**good, "extra": 1},
        {**good, "kind": "at"},
        {**good, "state": "late"},
        {**good, "afterSeconds": True},
        {**good, "afterSeconds": 1.5},
        {name: good[name] for name in good if name != "deliveryMode"},
        {"code": "unheard_of", "message": ""},
        [],
        None,
    ]
    for damaged in damages:
        assert [] != list(_faults(damaged, CREATE.output))


def test_three_tools_with_plain_object_roots() -> None:
    """Some providers refuse a combinator at the root of the parameters."""
    assert ("schedule_create", "schedule_list", "schedule_delete") == tuple(t.name for t in TOOLS)
    for tool in TOOLS:
        assert "object" == tool.parameters["type"]
        assert not tool.parameters.keys() & {"oneOf", "anyOf", "allOf", "not"}
        assert tool == evolve(tool, parameters=json.loads(json.dumps(tool.parameters)))
        assert tool == evolve(tool, output=json.loads(json.dumps(tool.output)))
    assert ["prompt"] == CREATE.parameters["required"]
    assert ["id"] == DELETE.parameters["required"]
    assert {} == LIST.parameters["properties"]


TEXT: JsonSchema = {"type": "string"}


def _exactly(**properties: JsonSchema) -> JsonSchema:
    """An object of exactly these members, none of them optional."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": list(properties),
    }


def test_schemas_of_the_answers_are_written_like_this() -> None:
    """Word for word: a host may have been built against them."""
    shared: dict[str, JsonSchema] = {
        "id": TEXT,
        "prompt": TEXT,
        "scheduledAt": TEXT,
        "state": {"type": "string", "enum": ["scheduled", "overdue"]},
        "deliveryMode": {"type": "string", "const": "session-local"},
    }
    after = {"kind": {"type": "string", "const": "after"}, "afterSeconds": {"type": "integer"}}
    of_a_view = {
        "oneOf": [
            _exactly(**shared, **after),
            _exactly(**shared, kind={"type": "string", "const": "at"}),
        ]
    }
    errors = [
        _exactly(code={"type": "string", "const": code.value}, message=TEXT)
        for code in ErrorCode
        if code not in {ErrorCode.PERSISTENCE_UNCERTAIN, ErrorCode.SCHEDULE_NOT_FOUND}
    ]
    uncertain = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "code": {"type": "string", "const": "persistence_uncertain"},
            "message": TEXT,
            "operation": {"type": "string", "enum": ["create", "list", "delete"]},
            "id": TEXT,
        },
        "required": ["code", "message", "operation"],
    }
    deleted = _exactly(id=TEXT, deleted={"type": "boolean", "const": True})
    not_found = _exactly(
        id=TEXT,
        deleted={"type": "boolean", "const": False},
        code={"type": "string", "const": "schedule_not_found"},
    )

    assert {"oneOf": [of_a_view, *errors, uncertain]} == CREATE.output
    assert {"oneOf": [{"type": "array", "items": of_a_view}, *errors, uncertain]} == LIST.output
    assert {"oneOf": [deleted, not_found, *errors, uncertain]} == DELETE.output


def test_roots_of_the_parameters_are_open_and_the_local_time_is_closed() -> None:
    assert {"type": "object", "properties": {}} == LIST.parameters
    assert (
        {"type", "properties", "required"} == CREATE.parameters.keys() == DELETE.parameters.keys()
    )
    text, local = CREATE.parameters["properties"]["at"]["oneOf"]
    assert TEXT == text
    assert _exactly(**local["properties"]) == local


def test_parameters_describe_what_is_accepted() -> None:
    local = {"date": "2030-01-01", "time": "09:00:00", "time_zone": "Europe/Berlin"}
    for arguments in (
        {"prompt": "tea", "after_seconds": 30},
        {"prompt": "tea", "at": "2030-01-01T09:00:00Z"},
        {"prompt": "tea", "at": local},
    ):
        assert [] == list(_faults(arguments, CREATE.parameters))
        assert isinstance(_request("schedule_create", arguments), CreateRequest)
    assert [] != list(_faults({"prompt": "tea", "at": {**local, "zone": 1}}, CREATE.parameters))
    assert [] != list(_faults({}, DELETE.parameters))
