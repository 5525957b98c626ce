"""The fast decoder never accepts what the exact readers refuse, and gives the same values."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule_adapters.doctor import fast_lines, native_lines
from schedule_adapters.doctor.decoders import WATCHED, Decoder, change_row
from schedule_adapters.stores.log_format import BadLine, parse_events
from schedule_core.decoder import decode_change, decode_change_json
from schedule_core.errors import ScheduleLogError
from schedule_core.text import _WHITE_SPACE
from tests.adapters.doctor.log_world import (
    FAST,
    TIME,
    Life,
    agrees,
    change,
    checkpoint,
    create,
    delete,
    dispatch,
    header,
    line,
    lives,
    queued,
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


@pytest.mark.parametrize("decoder", FAST.values(), ids=FAST)
def test_conformance_rows_decode_as_in_the_core(decoder: Decoder) -> None:
    """Fast or not at all; and fast for what is no curiosity."""
    accepted = 0
    for row in map(json.loads, DECODE_ROWS.read_text().splitlines()):
        raw = row["raw"].encode("utf-8", "surrogatepass")
        event = b'{"type":"schedule/change","seq":0,"time":7,"data":' + raw + b"}\n"
        read = decoder.read_block(event, 0) if raw.count(b"\n") == 0 else None
        rows = [] if read is None else read[1]
        try:
            exact = change_row(decode_change_json(raw), 0, 7)
        except ScheduleLogError:
            assert rows == [], row["tag"]
            continue
        accepted += len(rows)
        assert rows in ([], [exact])
        assert all([*map(type, row)] == [*map(type, exact)] for row in rows)
    assert accepted > 30


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


@pytest.mark.parametrize("decoder", FAST.values(), ids=FAST)
@given(life=lives(), data=st.data())
def test_lines_are_read_alike(decoder: Decoder, life: Life, data: st.DataObject) -> None:
    """One line alone, with a decoder's second way."""
    text = data.draw(st.sampled_from(life.log().splitlines()))
    try:
        numbers = [event.seq for event in parse_events(text)]
    except BadLine:
        numbers = []
    for seq in (0, *numbers):
        if decoder.read_line(text, seq):
            [event] = parse_events(text)
            assert event.seq == seq
            assert event.type not in WATCHED


@given(st.binary())
def test_any_bytes_are_read_alike(content: bytes) -> None:
    agrees(content)
    agrees(header() + content)


def creating(schedule_id: str, prompt: str) -> dict[str, Any]:
    """The data of a create."""
    record = {"id": schedule_id, "kind": "after", "prompt": prompt, "afterSeconds": 5}
    due = "2026-11-30T00:00:05.000Z"
    return {"version": 1, "operation": "create", "schedule": record | {"scheduledAt": due}}


@pytest.mark.parametrize("decoder", FAST.values(), ids=FAST)
def test_fast_way_is_taken(decoder: Decoder) -> None:
    """Or all of this would prove nothing."""
    foreign = line(0) + line(1, data={"text": "é\u2028", "deep": [[{"n": [-1.5e-3, True, None]}]]})
    block = foreign + change(2, {"version": 1}) + checkpoint(3, 1) + queued(4) + line(5)

    assert decoder.read_block(block, 0) == (6, [], [2, 3, 4])
    assert decoder.read_line(line(7).strip(), 7)
    assert not decoder.read_line(line(7).strip(), 8)


@pytest.mark.parametrize("decoder", FAST.values(), ids=FAST)
def test_plain_changes_are_read_at_once(decoder: Decoder) -> None:
    """In a block of them alone, and among others."""
    prompts = ["tea", "é😀", 'a "quoted"\n\\ line', '"all"', "\\", "x\u3000y", "\u0085"]
    texts = [
        *(change(seq, creating(f"id-{seq}", prompt)) for seq, prompt in enumerate(prompts)),
        dispatch(7),
        delete(8, "é"),
    ]
    exact = [
        change_row(decode_change(json.loads(text)["data"]), seq, TIME)
        for seq, text in enumerate(texts)
    ]

    assert decoder.read_block(b"".join(texts), 0) == (9, exact, [])
    assert decoder.read_block(b"".join(texts) + line(9), 0) == (10, exact, [])


@pytest.mark.parametrize("decoder", FAST.values(), ids=FAST)
@pytest.mark.parametrize("name", ["id", "prompt", "scheduledAt"])
def test_change_that_is_not_plain_leaves_the_others_alone(decoder: Decoder, name: str) -> None:
    """Whether a block holds changes alone or not."""
    bad = create(1, "schedule-2").replace(f'"{name}":"'.encode(), f'"{name}":" '.encode())
    for first, block in ((0, create(0) + bad + create(2, "schedule-3")), (1, bad + line(2))):
        read = decoder.read_block(block, first)

        assert read is not None
        assert [row[0] for row in read[1]] == [0, 2][: 2 * (1 - first)]
        assert read[2] == [1 - first]


@pytest.mark.parametrize("white", [*_WHITE_SPACE.replace("\n", "").replace("\r", "")])
def test_white_space_at_either_end_is_not_plain(white: str) -> None:
    """Each of ECMA-262's, raw and escaped; the characters beside it are."""
    for text in (white, f"{white}x", f"x{white}", f"x{chr(ord(white) + 0x100)}{white}"):
        for shown in (text, text.replace(white, f"\\u{ord(white):04x}")):
            raw = create(0).decode().replace('"tea"', f'"{shown}"').encode()
            agrees(header() + raw + line(1))


def test_deep_and_long_values_are_left_to_the_exact_readers() -> None:
    for depth in (59, 60, 61, 500):
        agrees(
            header() + b'{"type":"x","seq":0,"time":1,"data":%s}\n' % (b"[" * depth + b"]" * depth)
        )
    for digits in (300, 301, 4_300, 4_301):
        agrees(header() + b'{"type":"x","seq":0,"time":1,"data":%s}\n' % (b"1" * digits))


def test_half_a_block_is_a_mistake_of_the_caller() -> None:
    """Native code trusts in the newline at the end, so it is looked for first."""
    for block in (b"", b"x", line(0).strip()):
        with pytest.raises(ValueError, match="not whole lines"):
            native_lines.read_block(block, 0)


@given(st.binary())
def test_native_code_takes_any_bytes(block: bytes) -> None:
    """And names each line that is not plain."""
    lines = block.count(b"\n") + 1

    assert native_lines.read_block(block + b"\n", 0)[0] == lines


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
