"""Text, numbers and JSON mean here what they mean in JavaScript."""

import json
import shutil
import subprocess
from collections import OrderedDict
from types import MappingProxyType
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from schedule_core.text import (
    MAX_SAFE_INTEGER,
    is_trimmed,
    json_text,
    parse_json,
    safe_integer,
    trim,
)

_Value = TypeVar("_Value")

NODE = shutil.which("node")
with_node = pytest.mark.skipif(NODE is None, reason="node is not installed; the tables stand alone")

NUMBERS = [
    (0.0, "0"),
    (-0.0, "0"),
    (1.0, "1"),
    (-1.5, "-1.5"),
    (0.1, "0.1"),
    (0.1 + 0.2, "0.30000000000000004"),
    (100.0, "100"),
    (123.456, "123.456"),
    (1e15, "1000000000000000"),
    (1e16, "10000000000000000"),
    (1.2345e16, "12345000000000000"),
    (1e20, "100000000000000000000"),
    (123456789012345680000.0, "123456789012345680000"),
    (1e21, "1e+21"),
    (1.5e21, "1.5e+21"),
    (-1e21, "-1e+21"),
    (1e-4, "0.0001"),
    (1e-5, "0.00001"),
    (1.5e-5, "0.000015"),
    (1e-6, "0.000001"),
    (1.23e-6, "0.00000123"),
    (1e-7, "1e-7"),
    (1.5e-7, "1.5e-7"),
    (-1.5e-7, "-1.5e-7"),
    (5e-324, "5e-324"),
    (1.7976931348623157e308, "1.7976931348623157e+308"),
    (float(2**53), "9007199254740992"),
    (4.35, "4.35"),
    (float("nan"), "null"),
    (float("inf"), "null"),
    (float("-inf"), "null"),
    (0, "0"),
    (-7, "-7"),
    (MAX_SAFE_INTEGER, "9007199254740991"),
    (True, "true"),
    (False, "false"),
]
"""What `JSON.stringify` makes of a number: the turns of ECMA-262 Number::toString."""

# Keys that look like an array index are left out: JavaScript moves those to the front.
json_values: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.from_type(str),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.from_type(str).filter(lambda key: not key.isdecimal()), inner, max_size=4
        )
    ),
    max_leaves=8,
)
almost_json = st.lists(
    st.sampled_from(
        [
            *'{}[],:"\\/ \t\n\r0123456789.-+eE',
            *("true", "false", "null", "NaN", "Infinity", "01", "\\u", "d83d", "'", "//"),
            *("\ufeff", "\xa0", "\v", "\f", "\0", "\x1f", "\x7f", "\u0661"),
        ]
    ),
    max_size=9,
).map("".join)


def _drawn(strategy: st.SearchStrategy[_Value], count: int) -> list[_Value]:
    """At least `count` values drawn ahead, so that one process of node can judge them all."""
    values: list[_Value] = []

    @settings(
        max_examples=count // 20,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(strategy, min_size=20))
    def collect(several: list[_Value]) -> None:
        values.extend(several)

    collect()
    return values


def _node(script: str, values: object) -> Any:
    """The JSON value that `script` makes of `input`, in node."""
    assert NODE is not None
    source = (
        "const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        f"process.stdout.write(JSON.stringify({script}))"
    )
    done = subprocess.run(  # noqa: S603 - our own script
        [NODE, "-e", source], input=json.dumps(values).encode(), capture_output=True, check=True
    )
    return json.loads(done.stdout.decode())


@pytest.mark.parametrize(("number", "text"), NUMBERS, ids=str)
def test_number_is_written_as_javascript_writes_it(number: float, text: str) -> None:
    assert text == json_text(number)


@with_node
def test_table_of_numbers_is_what_node_writes() -> None:
    # NaN and Infinity, which JSON cannot carry, go as text.
    sent = [str(number) if text == "null" else number for number, text in NUMBERS]
    expected = _node(
        "input.map(n => JSON.stringify(typeof n === 'string' ? Number(n.replace('inf', 'Infinity'))"
        " : n))",
        sent,
    )
    assert expected == [text for _, text in NUMBERS]


@with_node
def test_json_text_equals_json_stringify() -> None:
    """Byte for byte, for any value: one corpus, one process of node."""
    values = _drawn(json_values, 1_000) + _drawn(st.floats(allow_nan=False, width=64), 2_000)
    values = [value for value in values if value not in (float("inf"), float("-inf"))]

    expected = _node("input.map(value => JSON.stringify(value))", values)

    assert expected == [json_text(value) for value in values]


@with_node
def test_every_character_is_written_as_node_writes_it() -> None:
    """Every UTF-16 unit alone, in a row, and between two letters."""
    expected = _node(
        "Array.from({length: 65536}, (_, u) => JSON.stringify('a' + String.fromCharCode(u) + 'b'))",
        None,
    )

    assert expected == [json_text(f"a{chr(unit)}b") for unit in range(0x1_0000)]


@with_node
def test_parse_json_takes_exactly_what_json_parse_takes() -> None:
    texts = [*_drawn(almost_json, 2_000), *map(json_text, _drawn(json_values, 500))]

    expected = _node(
        "input.map(text => { try { JSON.parse(text); return true } catch { return false } })", texts
    )

    assert any(expected)
    assert not all(expected)
    assert expected == [_is_json(text) for text in texts]


@with_node
def test_trim_cuts_exactly_what_javascript_cuts() -> None:
    expected = _node(
        "[...Array(65536).keys()].filter(u => String.fromCharCode(u).trim() === '')",
        None,
    )
    assert expected == [point for point in range(0x1_0000) if trim(chr(point)) == ""]


def _is_json(text: str | bytes) -> bool:
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


def test_trim_keeps_what_only_python_calls_space() -> None:
    """U+001C to U+001F and U+0085 stay; U+FEFF goes."""
    assert "\x1ca\x85" == trim(" \t\x1ca\x85\ufeff\u2029")
    assert is_trimmed("\x85a\x1f")
    assert not is_trimmed("\ufeffa")
    assert not is_trimmed("a\n")
    assert not is_trimmed("")


@given(text=st.from_type(str))
def test_trim_cuts_the_ends_only_and_once(text: str) -> None:
    assert trim(text) in text
    assert trim(text) == trim(trim(text))
    assert is_trimmed(trim(text)) == (trim(text) != "")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (30, 30),
        pytest.param(30.0, 30, id="30.0"),
        (-0.0, 0),
        (MAX_SAFE_INTEGER, MAX_SAFE_INTEGER),
        (-MAX_SAFE_INTEGER, -MAX_SAFE_INTEGER),
        (float(MAX_SAFE_INTEGER), MAX_SAFE_INTEGER),
        (MAX_SAFE_INTEGER + 1, None),
        (-MAX_SAFE_INTEGER - 1, None),
        (10**400, None),
        (1e300, None),
        (30.5, None),
        (5e-324, None),
        (float("nan"), None),
        (float("inf"), None),
        (float("-inf"), None),
        (True, None),
        (False, None),
        ("30", None),
        (None, None),
        ([30], None),
        (30 + 0j, None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_safe_integer(value: object, expected: int | None) -> None:
    actual = safe_integer(value)

    assert expected == actual
    assert actual is None or type(actual) is int


@given(value=json_values)
def test_json_text_reads_back(value: object) -> None:
    """As the same number, list or object; compared as text, for 1e16 reads back as an integer."""
    text = json_text(value)

    assert text == json_text(parse_json(text))
    assert text == json_text(parse_json(text.encode()))


@given(text=st.text(st.characters()))
def test_json_text_is_always_one_line_of_utf8(text: str) -> None:
    """No raw line feed and no character that UTF-8 refuses, whatever the text."""
    line = json_text({text: [text]}).encode()

    assert b"\n" not in line
    assert b"\r" not in line


def test_surrogate_pair_in_two_characters_is_the_one_it_stands_for() -> None:
    """JavaScript cannot tell the two apart; a log written with escapes would read back changed."""
    assert '"😀"' == json_text("\ud83d\ude00")
    assert '"\\ude00\\ud83d"' == json_text("\ude00\ud83d")
    assert '"\\ud83d😀\\ude00"' == json_text("\ud83d\ud83d\ude00\ude00")


def test_any_mapping_and_sequence_is_written_in_its_order() -> None:
    mapping = MappingProxyType(OrderedDict([("b", (1, None)), ("a", [])]))

    assert '{"b":[1,null],"a":[]}' == json_text(mapping)


@pytest.mark.parametrize("value", [{1: 2}, {None: 1}, b"x", {1}, object, 1j], ids=str)
def test_value_that_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="JSON"):
        json_text([value])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NaN",
        "-Infinity",
        "[Infinity]",
        "01",
        "1.",
        ".5",
        "+1",
        "'a'",
        '"\n"',
        "[1,]",
        "{a:1}",
        "\ufeff1",
        "\xa01",
        "[" * 100_000,
        '{"a":' * 100_000,
        "1" * 5_000,
        b"\xef\xbb\xbf1",
        b"\xff",
        b'"\xed\xa0\x80"',
        '"a"'.encode("utf-16"),
        "1".encode("utf-32-le"),
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_text_that_json_parse_refuses_is_refused(text: str | bytes) -> None:
    """Byte order marks, other encodings and what is too deep or too long included."""
    assert not _is_json(text)


def test_last_value_of_a_repeated_key_counts() -> None:
    assert {"a": 2} == parse_json('{"a":1,"a":2}')
