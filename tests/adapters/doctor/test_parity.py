"""The fast decoder never accepts what the exact readers refuse, and gives the same values."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from schedule_adapters.doctor import fast_lines
from schedule_adapters.stores.log_format import BadLine, parse_events
from schedule_core.decoder import decode_change, decode_change_json
from schedule_core.errors import ScheduleLogError
from schedule_core.ports import SCHEDULE_EVENT_TYPE
from tests.adapters.doctor.log_world import (
    Life,
    agrees,
    change,
    create,
    dispatch,
    header,
    line,
    lives,
)

DECODE_ROWS: Final = Path(__file__).parents[2] / "golden" / "decode.jsonl"

VALUES: Final[dict[str, bytes]] = {
    "not UTF-8": b'"\xff"',
    "overlong": b'"\xc0\x80"',
    "surrogate in UTF-8": b'"\xed\xa0\x80"',
    "not UTF-8 in a key": b'{"\xff":1}',
    "control character": b'"\x01"',
    "tab": b'"\t"',
    "DEL": b'"\x7f"',
    "NUL": b'"\0"',
    "lone surrogate": b'"\\ud800"',
    "surrogate and a letter": b'"\\ud800\\u0041"',
    "two high surrogates": b'"\\ud83d\\ud83d"',
    "pair": b'"\\ud83d\\ude00"',
    "bad escape": b'"\\x"',
    "bad code": b'"\\u12g4"',
    "huge integer": b"1" * 5_000,
    "4300 digits": b"1" * 4_300,
    "4301 digits": b"1" * 4_301,
    "long fraction": b"0." + b"1" * 5_000,
    "huge exponent": b"1e999",
    "minus zero": b"-0",
    "leading zero": b"01",
    "plus": b"+1",
    "bare point": b"1.",
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "nothing": b"",
    "trailing comma": b"[1,]",
    "single quotes": b"'a'",
    "comment": b"/**/1",
    "two values": b"1 2",
    "repeated key": b'{"a":1,"a":2}',
    "499 deep": b"[" * 499 + b"]" * 499,
    "500 deep": b"[" * 500 + b"]" * 500,
    "980 deep": b"[" * 980 + b"]" * 980,
    "deep objects": b'{"a":' * 600 + b"1" + b"}" * 600,
    "brackets in text": b'"' + b"[" * 2_000 + b'"',
    "brackets behind an escape": b'"\\"' + b"[" * 2_000 + b'"',
    "flat list of lists": b"[" + b",".join([b"[]"] * 2_000) + b"]",
    "white space": b" \r\t1 ",
    "vertical tab": b"\x0b1",
    "no-break space": b"\xc2\xa01",
    "newline": b"[1,\n2]",
    "brackets that look like two lines": b"[1]\n[2]",
    "end of an array and start of another": b"1}] [{",
    "repeated, deep one first": b"[" * 700 + b"]" * 700 + b',"data":1',
    "repeated, long number first": b"1" * 5_000 + b',"data":1',
    "repeated, bad one first": b'"\xff","data":1',
}
NUMBERS: Final = [
    b"1.0", b"1e0", b"10e-1", b"-0", b"-0.0", b"-1", b"true", b'"1"', b"null", b"1.5", b"01",
    b"9007199254740991", b"9007199254740992", b"-9007199254740991", b"-9007199254740992",
    b"9223372036854775808", b"18446744073709551616", b"1" * 40, b"1e300", b"[1]", b"2",
]  # fmt: skip
ENVELOPES: Final = [
    b'{"type":"x","seq":1,"time":1,"data":1,"ignorable":false}',
    b'{"type":"x","seq":1,"time":1,"data":1,"ignorable":1}',
    b'{"type":"x","seq":1,"time":1,"data":1,"ignorable":null}',
    b'{"type":"x","seq":1,"time":1,"data":1,"ignorable":false,"ignorable":true}',
    b'{"type":"x","seq":1,"time":1,"data":1,"ignorable":true,"ignorable":false}',
    b'{"type":"x","seq":"1","time":1,"data":1,"seq":1}',
    b'{"type":"x","seq":7,"time":1,"data":1,"seq":1}',
    b'{"type":1,"seq":1,"time":1,"data":1}',
    b'{"type":"\\ud800","seq":1,"time":1,"data":1}',
    b'{"type":"\\ud83d\\ude00","seq":1,"time":1,"data":1}',
    b'{"typ\\u0065":"x","seq":1,"time":1,"data":1}',
    b'{"type":"x","seq":1,"time":1}',
    b'{"type":"x","seq":1,"time":1,"data":1,"extra":1}',
    b'{"type":"user/message","seq":1,"time":1,"data":1,"surfaceOp":{}}',
    b'{"type":"x","seq":1,"time":1,"data":1,"surfaceOp":{}}',
    b'{"type":"schedule\\/change","seq":1,"time":1,"data":1}',
    b'{"type":"x","seq":1,"time":1,"data":1} ',
    b' {"type":"x","seq":1,"time":1,"data":1}\r',
    b'\x0c{"type":"x","seq":1,"time":1,"data":1}',
    b'\xef\xbb\xbf{"type":"x","seq":1,"time":1,"data":1}',
    b'{"type":"x","seq":1,"time":1,"data":1}{"type":"x","seq":2,"time":1,"data":1}',
    b'{"type":"x","seq":1,"time":1,"data":1},{"type":"x","seq":2,"time":1,"data":1}',
    b'{"type":"x","seq":1,"time":1,"data":1}][{"type":"x","seq":2,"time":1,"data":1}',
    b'{"type":"x","seq":1,"time":1,"data":1},',
    b"", b"  ", b"[]", b"null", b"{}", b"][", b"1",
    (
        b'{"type":"text-chunks","seq0":1,"time0":1,"data":{"turn":0,"step":0,"index":0,"dt":[1],'
        b'"texts":["a","b"]}}'
    ),
]  # fmt: skip


def surrounded(text: bytes) -> bytes:
    """A log in which that line is one of several in a block."""
    return header() + line(0) + text + b"\n" + line(2) + line(3)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_data_that_parsers_disagree_on(value: bytes) -> None:
    agrees(surrounded(b'{"type":"x","seq":1,"time":1,"data":' + value + b"}"))
    agrees(surrounded(b'{"type":"schedule/change","seq":1,"time":1,"data":' + value + b"}"))


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.decode()[:24])
def test_numbers_that_parsers_disagree_on(number: bytes) -> None:
    agrees(surrounded(b'{"type":"x","seq":' + number + b',"time":1,"data":1}'))
    agrees(surrounded(b'{"type":"x","seq":1,"time":' + number + b',"data":1}'))


@pytest.mark.parametrize("text", ENVELOPES, ids=lambda text: text.decode("latin1")[-40:])
def test_envelopes_that_parsers_disagree_on(text: bytes) -> None:
    agrees(surrounded(text))


@pytest.mark.parametrize(
    ("split", "glued"),
    [
        (b'{"type":"x",\n"seq":1,"time":1,"data":1}', b"%s%s"),
        (b'{"type":"x","seq":1,"time":1,"data":[1\n,2]}', b"%s%s"),
        (b'{"type":"x","seq":1,"time":1,"data":[1\n2]}', b"%s,%s"),
        (b'{"type":"x","seq":1,"time":1,"data":[[1\n2]]}', b"%s],[%s"),
        (b'{"type":"x","seq":1,"time":1,"data":[[1\n2]]}', b"%s] [%s"),
        (b'{"type":"x","seq":1,"time":1,"data":"a\nb"}', b"%s] [%s"),
        (b'{"type":"x","seq":1,"time":1,"data":\n{}}', b"%s %s"),
        (b'\n{"type":"x","seq":1,"time":1,"data":1}', b"%s%s"),
    ],
)
def test_split_line_is_not_made_up_for_by_a_glued_one(split: bytes, glued: bytes) -> None:
    """As many events as lines, all numbers in order, and yet not one event a line."""
    pair = glued % (line(2).strip(), line(3).strip())
    for text in (split + b"\n" + pair, pair + b"\n" + split):
        log = header() + line(0) + text + b"\n" + line(4)

        assert agrees(log).first_fault is not None


def _in_full(change: Any) -> tuple[object, ...] | None:
    """All that a change says, whichever class says it."""
    if change is None:
        return None
    if change.operation != "create":
        return change.operation, change.id
    record = change.schedule
    delay = record.after_seconds if record.kind == "after" else None
    said = (record.kind, record.id, record.prompt, delay, record.scheduled_at)
    assert type(record.scheduled_at) is int
    return "create", *said


def test_conformance_rows_decode_as_in_the_core() -> None:
    """Fast or not at all; and fast for most of what is valid."""
    accepted = valid = 0
    for row in map(json.loads, DECODE_ROWS.read_text().splitlines()):
        raw = row["raw"].encode("utf-8", "surrogatepass")
        envelope = fast_lines.Envelope(SCHEDULE_EVENT_TYPE, 0, 0, Raw(raw))
        assert fast_lines.read_changes([envelope]) is (envelope.data is not None)
        fast = _in_full(envelope.data)
        try:
            exact = decode_change_json(raw)
        except ScheduleLogError:
            assert fast is None, row["tag"]
            continue
        valid += 1
        accepted += fast is not None
        assert fast in {None, _in_full(exact)}
    assert accepted > valid / 2


def _mutations() -> st.SearchStrategy[Any]:
    """Small and large edits: where, how many bytes go, what comes."""
    pieces = st.sampled_from(
        [b"\n", b"\r", b"\0", b"{", b"}", b"[", b"]", b"][", b",", b'"', b"\\", b"\\ud800", b"1.0",
         b"-0", b"true", b"null", b'"seq":0', b'"data":1,', b'"version":1', b'"operation":"create"',
         b'"kind":"at",', b"\xff", b"\xe2\x80\xa8", b" ", b"1e2", b'"ignorable":false,']
    )  # fmt: skip
    return st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from([0, 0, 0, 1, 2, 9, 99]), pieces | st.binary()),
        min_size=1,
        max_size=4,
    )


@settings(max_examples=500)
@given(lives(), _mutations())
def test_mutated_logs_are_read_alike(life: Life, edits: list[tuple[float, int, bytes]]) -> None:
    log = life.log()
    for place, cut, insert in edits:
        start = int(place * len(log))
        log = log[:start] + insert + log[start + cut :]

    agrees(log)


@given(lives(), st.data())
def test_spliced_logs_are_read_alike(life: Life, data: st.DataObject) -> None:
    """Lines lost, repeated, swapped, glued, or written over their neighbours."""
    lines = life.log().splitlines(keepends=True)
    chosen = data.draw(st.lists(st.sampled_from(lines), max_size=8))
    joined = b"".join(text[: len(text) - data.draw(st.integers(0, 1))] for text in chosen)

    agrees(lines[0] + joined)


@given(lives(), st.data())
def test_lines_are_read_alike(life: Life, data: st.DataObject) -> None:
    """One line alone, with the fast decoder's second way."""
    text = data.draw(st.sampled_from(life.log().splitlines()))
    envelope = fast_lines.read_line(text)
    try:
        events = parse_events(text)
    except BadLine:
        assert envelope is None or not envelope.ignorable
    else:
        if envelope is not None and envelope.ignorable:
            [event] = events
            assert (event.type, event.seq, event.time) == (
                envelope.type,
                envelope.seq,
                envelope.time,
            )


@given(st.binary())
def test_any_bytes_are_read_alike(content: bytes) -> None:
    agrees(content)
    agrees(header() + content)


def test_fast_way_is_taken() -> None:
    """Or all of this would prove nothing."""
    block = line(0) + line(1, data={"text": "é\u2028"}) + change(2, {"version": 1})

    assert len(fast_lines.read_block(block) or []) == 3


def test_block_of_changes_alone_is_read_at_once() -> None:
    block = create(0) + dispatch(1) + create(2, "\u00e9")

    rows = fast_lines.read_block(block) or []
    changes = [envelope for (envelope,) in rows]

    assert {type(envelope) for envelope in changes} == {fast_lines.ChangeEnvelope}
    assert fast_lines.read_changes(changes)
    assert [_in_full(envelope.data) for envelope in changes] == [
        _in_full(decode_change(json.loads(text)["data"])) for text in block.splitlines()
    ]


@pytest.mark.parametrize("name", ["id", "prompt", "scheduledAt"])
def test_change_that_is_not_plain_leaves_the_others_alone(name: str) -> None:
    """Whether a block holds changes alone or not."""
    bad = create(1, "schedule-2").replace(f'"{name}":"'.encode(), f'"{name}":" '.encode())
    for block in (create(0) + bad + create(2, "schedule-3"), bad + line(2)):
        rows = fast_lines.read_block(block) or []
        changes = [envelope for (envelope,) in rows if envelope.type == SCHEDULE_EVENT_TYPE]

        assert not fast_lines.read_changes(changes)
        assert [envelope.data is None for envelope in changes] == [
            envelope.seq == 1 for envelope in changes
        ]


@pytest.mark.parametrize(
    "length", [*range(fast_lines._LONG - 4, fast_lines._LONG + 4), fast_lines._LONG // 2]
)
@pytest.mark.parametrize("before", range(0, 1_001, 77))
def test_long_lines_are_told_wherever_they_stand(length: int, before: int) -> None:
    """None of `_LONG` bytes may pass; `length` counts no newline."""
    filler = b"x" * 59 + b"\n"
    block = (filler * (before // 60)) + b"y" * (before % 60) + b"\n"
    block += b"z" * length + b"\n" + filler * 20

    assert fast_lines._has_long_line(block) or length < fast_lines._LONG
    assert not fast_lines._has_long_line(block) or length > fast_lines._LONG - 4
