"""One line of the log, written and read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule_adapters.sessions import SessionHeader, StoreError, StoreErrorCode
from schedule_adapters.stores.log_format import (
    BadLine,
    event_line,
    header_line,
    parse_events,
    parse_header,
)
from schedule_core.ports import SessionEvent
from schedule_core.text import json_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.from_type(str),
    lambda children: st.lists(children) | st.dictionaries(st.from_type(str), children),
    max_leaves=10,
)


def chunk(seq: int, time: int, **members: Any) -> SessionEvent:
    """One event that a packed row stands for, in turn 1, step 2, stream 3."""
    data = {"turn": 1, "step": 2, "chunk": {"index": 3, **members}}
    return SessionEvent("assistant/chunk", data, seq=seq, time=time)


def row(row_type: str, **data: Any) -> bytes:
    """A packed row from seq 7 at time 100."""
    members = {"turn": 1, "step": 2, "index": 3, **data}
    return json_text({"type": row_type, "seq0": 7, "time0": 100, "data": members}).encode()


def test_new_header_is_the_originals_text() -> None:
    header = SessionHeader("a/b", 1_796_055_926_738, extra={"delegationDepth": 0})

    assert header_line(header) == (
        b'{"type":"session","version":0,"id":"a/b","createdAt":1796055926738,"delegationDepth":0}\n'
    )


def test_full_header_keeps_the_originals_key_order() -> None:
    """Even if the members arrive in another order, unknown ones last."""
    header = SessionHeader(
        "c",
        1,
        parent="p",
        seed_length=35,
        cwd="/home/demo",
        extra={"later": [1], "agentPreset": "x", "delegationDepth": 2, "origin": {"a": 1}},
    )

    assert header_line(header) == (
        b'{"type":"session","version":0,"id":"c","createdAt":1,"cwd":"/home/demo",'
        b'"parentSession":"p","seedLength":35,"origin":{"a":1},"delegationDepth":2,'
        b'"later":[1],"agentPreset":"x"}\n'
    )
    assert parse_header(header_line(header).rstrip(), "f") == header


@pytest.mark.parametrize("seed_length", [None, -1, 1.5, "3", True, [], 10**20])
def test_seed_length_is_passed_on_unjudged(seed_length: object) -> None:
    """The fold refuses it, with the code that the tools answer; the store is no judge."""
    header = SessionHeader("c", 1, seed_length=seed_length, extra={"delegationDepth": 0})

    assert parse_header(header_line(header), "f").seed_length == seed_length


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'{"type":"x"}',
        b'{"type":"session","id":"a","createdAt":1}',
        b'{"type":"session","version":0,"createdAt":1}',
        b'{"type":"session","version":0,"id":7,"createdAt":1}',
        b'{"type":"session","version":0,"id":"a"}',
        b'{"type":"session","version":0,"id":"a","createdAt":1.5}',
        b'{"type":"session","version":0,"id":"a","createdAt":1,"cwd":7}',
        b'{"type":"session","version":0,"id":"a","createdAt":1,"parentSession":7}',
    ],
)
def test_bad_headers(line: bytes) -> None:
    with pytest.raises(BadLine):
        parse_header(line, "f")


@pytest.mark.parametrize("version", [b"1", b"-0.5", b'"0"', b"true", b"null"])
def test_other_versions_are_unsupported(version: bytes) -> None:
    """A log of a later product is not damaged; it is only not ours to read."""
    line = b'{"type":"session","version":%s,"whatever":1}' % version

    with pytest.raises(StoreError) as caught:
        parse_header(line, "f")
    assert caught.value.code == StoreErrorCode.UNSUPPORTED_LOG


@pytest.mark.parametrize("event_type", ["schedule/change", "session/end-seed"])
def test_types_the_original_knows_are_plain(event_type: str) -> None:
    event = SessionEvent(event_type, {"b": 1, "a": "é\u2028"}, seq=3, time=9)

    assert (
        event_line(event)
        == (
            '{"type":"%s","seq":3,"time":9,"data":{"b":1,"a":"é\u2028"}}\n' % event_type  # noqa: UP031 - the line is full of braces
        ).encode()
    )


def test_our_own_types_are_ignorable() -> None:
    """Or the original refuses the whole log."""
    line = event_line(SessionEvent("log/checkpoint", {"durable": -1}, seq=0, time=9))

    assert line == (
        b'{"type":"log/checkpoint","seq":0,"time":9,"data":{"durable":-1},"ignorable":true}\n'
    )


@given(st.from_type(str), JSON, st.integers(0, 2**53 - 1), st.integers(-(2**53) + 1, 2**53 - 1))
def test_events_round_trip(event_type: str, data: object, seq: int, time: int) -> None:
    """Every JSON value, on one line whatever the text, in UTF-8 without lone surrogates."""
    event = SessionEvent(event_type, data, seq=seq, time=time)

    line = event_line(event)

    assert line.count(b"\n") == 1
    assert line.decode().encode() == line
    assert parse_events(line[:-1]) == [event]


@pytest.mark.parametrize(
    "line",
    [
        b'{"data":null,"time":9,"seq":3,"type":"x"}',
        b'{"type":"x","seq":3.0,"time":9e0,"data":null}',
        b' {"type":"x","seq":3,"time":9,"data":null,"ignorable":true}\t\r',
        b'{"type":"y","type":"x","seq":3,"time":9,"data":null}',
    ],
)
def test_envelopes_mean_what_json_means(line: bytes) -> None:
    """Key order, number spelling, white space and repeated keys as in JavaScript."""
    assert parse_events(line) == [SessionEvent("x", None, seq=3, time=9)]


@pytest.mark.parametrize("event_type", ["user/message", "assistant/message", "tool/result"])
def test_surface_members_belong_to_three_types(event_type: str) -> None:
    line = b'{"type":"%s","seq":0,"time":9,"data":1,"surfaceOp":{},"sourceEventSeqs":[0]}'

    assert parse_events(line % event_type.encode())[0].data == 1
    with pytest.raises(BadLine, match="2 unexpected members"):
        parse_events(line % b"turn/start")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "the line is blank"),
        (b" \t\r", "the line is blank"),
        (b"\0\0\0", "the line holds NUL bytes"),
        (b'{"type":"x","seq":0,"time":1,"data":\0}', "the line holds NUL bytes"),
        (
            b'\xef\xbb\xbf{"type":"x","seq":0,"time":1,"data":1}',
            "the line begins with a byte order mark",
        ),
        (b'{"type":"\xff","seq":0,"time":1,"data":1}', "the line is not UTF-8"),
        (b'{"type":"\xed\xa0\x80","seq":0,"time":1,"data":1}', "the line is not UTF-8"),
        (b'{"type":"x","se', "the line is not JSON"),
        (b'{"type":"x","seq":0,"ti{"type":"x"}', "the line is not JSON"),
        (b'{"type":"x","seq":0,"time":1,"data":NaN}', "the line is not JSON"),
        (
            b'{"type":"x","seq":0,"time":1,"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            "the line is nested deeper than 500 levels",
        ),
        (b'{"type":"x","seq":0,"time":1,"data":' + b"9" * 5_000 + b"}", "the line is not JSON"),
        (
            b'{"type":"x","seq":0,"time":1,"data":1}{"type":"x","seq":1,"time":1,"data":1}',
            "more than one JSON value on the line",
        ),
        (b"[1]", "the line is not a JSON object"),
        (b'{"seq":0,"time":1,"data":1}', "type is not text"),
        (b'{"type":null,"seq":0,"time":1,"data":1}', "type is not text"),
        (b'{"type":"x","seq":0}', "data and time missing"),
        (b'{"type":"x","seq":0,"time":1}', "data missing"),
        (b'{"type":"x","seq":0,"time":1,"data":1,"prompt":"secret"}', "1 unexpected members"),
        (b'{"type":"x","seq":-1,"time":1,"data":1}', "seq is not a count"),
        (b'{"type":"x","seq":0.5,"time":1,"data":1}', "seq is not a count"),
        (b'{"type":"x","seq":"0","time":1,"data":1}', "seq is not a count"),
        (b'{"type":"x","seq":true,"time":1,"data":1}', "seq is not a count"),
        (b'{"type":"x","seq":0,"time":1.5,"data":1}', "a time is not an integer"),
        (b'{"type":"x","seq":0,"time":null,"data":1}', "a time is not an integer"),
        (b'{"type":"x","seq":0,"time":1,"data":1,"ignorable":false}', "ignorable is not true"),
    ],
)
def test_bad_lines_have_reasons_of_their_own(line: bytes, reason: str) -> None:
    """And none of them quotes the line."""
    with pytest.raises(BadLine) as caught:
        parse_events(line)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("row_type", "chunk_type"),
    [("text-chunks", "text-delta"), ("reasoning-chunks", "reasoning-delta")],
)
def test_packed_texts_are_as_many_events(row_type: str, chunk_type: str) -> None:
    """Numbers count up, times are the running sum, which may step back."""
    line = row(row_type, dt=[5, -10], texts=["a", "", "c"])

    assert parse_events(line) == [
        chunk(7, 100, type=chunk_type, text="a"),
        chunk(8, 105, type=chunk_type, text=""),
        chunk(9, 95, type=chunk_type, text="c"),
    ]


def test_packed_tool_call_names_its_call() -> None:
    named = row("tool-call-chunks", dt=[1], id="c1", name="f", args=["{", "}"])
    nameless = row("tool-call-chunks", dt=[], id="c1", args=["{}"])

    assert parse_events(named) == [
        chunk(7, 100, type="tool-call-delta", id="c1", name="f", argumentsDelta="{"),
        chunk(8, 101, type="tool-call-delta", id="c1", name="f", argumentsDelta="}"),
    ]
    assert parse_events(nameless) == [
        chunk(7, 100, type="tool-call-delta", id="c1", argumentsDelta="{}")
    ]


@pytest.mark.parametrize(
    "line",
    [
        row("other-chunks", dt=[], texts=["a"]),
        row("text-chunks", dt=[], texts=[]),
        row("text-chunks", dt=[1], texts=["a"]),
        row("text-chunks", dt=[], texts=["a", "b"]),
        row("text-chunks", dt=[], texts="a"),
        row("text-chunks", dt=None, texts=["a"]),
        row("text-chunks", dt=[], texts=[1]),
        row("text-chunks", dt=["1"], texts=["a", "b"]),
        row("text-chunks", dt=[], texts=["a"], id="c1"),
        row("text-chunks", dt=[]),
        row("tool-call-chunks", dt=[], args=["a"]),
        row("tool-call-chunks", dt=[], id="c1", texts=["a"]),
        row("text-chunks", dt=[], texts=["a"]).replace(b'"turn":1,', b""),
        row("text-chunks", dt=[], texts=["a"]).replace(b'"seq0":7', b'"seq0":-7'),
        row("text-chunks", dt=[], texts=["a"]).replace(b'"time0":100', b'"time0":"100"'),
        row("text-chunks", dt=[], texts=["a"]).replace(b'"time0"', b'"time"'),
        row("text-chunks", dt=[], texts=["a"])[:-1] + b',"ignorable":true}',
        b'{"type":"text-chunks","seq0":7,"time0":1,"data":[]}',
    ],
)
def test_bad_rows(line: bytes) -> None:
    with pytest.raises(BadLine):
        parse_events(line)
