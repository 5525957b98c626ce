"""Strict version-1 JSON of changes, records and views, both ways.

cattrs gives the structure; every leaf has its own hook, because cattrs would otherwise
coerce (`True` to 1, `"5"` to 5), which the contract refuses (`spec/schedule.md`, replay).
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from attrs import fields_dict
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from schedule_core.errors import LogFault, ScheduleLogError
from schedule_core.instants import Instant, format_instant, parse_instant
from schedule_core.records import (
    AfterScheduleRecord,
    AtScheduleRecord,
    DelaySeconds,
    Prompt,
    ScheduleChange,
    ScheduleCreateChange,
    ScheduleDeleteChange,
    ScheduleDispatchChange,
    ScheduleId,
    ScheduleRecord,
    ScheduleView,
)
from schedule_core.text import is_trimmed, json_text, parse_json, safe_integer

VERSION: Final = 1

_Member = TypeVar("_Member")


def decode_change(payload: object) -> ScheduleChange:
    """Read the `data` of one `schedule/change` event; the payload is copied, never kept.

    Raises:
        ScheduleLogError: not exactly a version-1 change; without a position.
    """
    fields = _object(payload, "the change")
    if safe_integer(_field(fields, "version")) != VERSION:
        raise ScheduleLogError(LogFault.UNKNOWN_VERSION, "version is not 1")
    change_type = _named(_CHANGES, fields, "operation", LogFault.UNKNOWN_OPERATION)
    return _structure(fields, change_type, {"version", "operation"})


def decode_change_json(text: str | bytes) -> ScheduleChange:
    """Read one change from JSON text, or from its UTF-8 bytes.

    Raises:
        ScheduleLogError: not JSON, or not exactly a version-1 change.
    """
    try:
        payload = parse_json(text)
    except ValueError as error:
        raise ScheduleLogError(LogFault.NOT_JSON, "the change is not JSON") from error
    return decode_change(payload)


def encode_change(change: ScheduleChange) -> dict[str, Any]:
    """Write a change as the JSON object of its event, keys in the original's order."""
    fields = _converter.unstructure(change)
    return {"version": VERSION, "operation": change.operation, **fields}


def encode_change_json(change: ScheduleChange) -> str:
    """Write a change as canonical JSON text."""
    return json_text(encode_change(change))


def encode_record(record: ScheduleRecord) -> dict[str, Any]:
    """Write a record as its JSON object, keys in the original's order."""
    fields: dict[str, Any] = _converter.unstructure(record)
    return {"id": fields.pop("id"), "kind": record.kind, **fields}


def view_json(view: ScheduleView) -> dict[str, Any]:
    """Write a view as its JSON object: the record's keys, then state and deliveryMode."""
    return {
        **encode_record(view.record),
        "state": view.state,
        "deliveryMode": view.delivery_mode,
    }


def _object(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ScheduleLogError(LogFault.WRONG_TYPE, f"{what} is not an object")
    return value


def _field(fields: dict[str, object], name: str) -> object:
    if name not in fields:
        raise ScheduleLogError(LogFault.MISSING_FIELD, f"{name} is missing")
    return fields[name]


def _named(
    members: dict[str, type[_Member]], fields: dict[str, object], name: str, fault: LogFault
) -> type[_Member]:
    """Pick the member of a union by the word that the field `name` holds."""
    word = _field(fields, name)
    if not isinstance(word, str) or word not in members:
        raise ScheduleLogError(fault, f"{name} is not one of {', '.join(members)}")
    return members[word]


def _structure(fields: dict[str, object], wanted: type[_Member], consumed: set[str]) -> _Member:
    """Build `wanted` from exactly its own fields and the `consumed` ones."""
    expected = consumed | _FIELDS[wanted]
    extra = len(fields.keys() - expected)
    if extra:
        # The names are a stranger's text and stay out of the message.
        raise ScheduleLogError(LogFault.EXTRA_FIELD, f"{extra} unexpected fields")
    missing = expected - fields.keys()
    if missing:
        raise ScheduleLogError(LogFault.MISSING_FIELD, f"{min(missing)} is missing")
    member: _Member = _converter.structure(fields, wanted)
    return member


def _trimmed(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ScheduleLogError(LogFault.WRONG_TYPE, f"{what} is not text")
    if not is_trimmed(value):
        raise ScheduleLogError(LogFault.UNTRIMMED_TEXT, f"{what} is empty or padded")
    return value


def _structure_delay(value: object, _: object) -> DelaySeconds:
    seconds = safe_integer(value)
    if seconds is None or seconds < 1:
        raise ScheduleLogError(LogFault.INVALID_DELAY, "afterSeconds is not a positive integer")
    return DelaySeconds(seconds)


def _structure_instant(value: object, _: object) -> Instant:
    try:
        return parse_instant(value if isinstance(value, str) else "")
    except ValueError as error:
        raise ScheduleLogError(
            LogFault.NON_CANONICAL_INSTANT, "scheduledAt is not a canonical instant"
        ) from error


def _structure_record(value: object, _: object) -> ScheduleRecord:
    fields = _object(value, "schedule")
    return _structure(fields, _named(_RECORDS, fields, "kind", LogFault.UNKNOWN_KIND), {"kind"})


_RECORDS: Final[dict[str, type[ScheduleRecord]]] = {
    record.kind: record for record in (AfterScheduleRecord, AtScheduleRecord)
}
_CHANGES: Final[dict[str, type[ScheduleChange]]] = {
    change.operation: change
    for change in (ScheduleCreateChange, ScheduleDeleteChange, ScheduleDispatchChange)
}
_WIRE_NAMES: Final = {"after_seconds": "afterSeconds", "scheduled_at": "scheduledAt"}
"""Where the wire's spelling differs from ours."""
_FIELDS: Final[dict[type, frozenset[str]]] = {
    member: frozenset(_WIRE_NAMES.get(name, name) for name in fields_dict(member))
    for member in (*_RECORDS.values(), *_CHANGES.values())
}


def _make_converter() -> Converter:
    converter = Converter(detailed_validation=False)
    leaves: dict[object, Callable[[object, object], object]] = {
        ScheduleId: lambda value, _: _trimmed(value, "id"),
        Prompt: lambda value, _: _trimmed(value, "prompt"),
        DelaySeconds: _structure_delay,
        Instant: _structure_instant,
        ScheduleRecord: _structure_record,
    }
    for leaf, hook in leaves.items():
        converter.register_structure_hook(leaf, hook)
    converter.register_unstructure_hook(Instant, format_instant)
    converter.register_unstructure_hook(ScheduleRecord, encode_record)
    for record in _RECORDS.values():
        renames: dict[str, Any] = {
            name: override(rename=_WIRE_NAMES[name])
            for name in fields_dict(record)
            if name in _WIRE_NAMES
        }
        converter.register_structure_hook(
            record, make_dict_structure_fn(record, converter, **renames)
        )
        converter.register_unstructure_hook(
            record, make_dict_unstructure_fn(record, converter, **renames)
        )
    return converter


_converter = _make_converter()
