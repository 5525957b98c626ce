"""The text, JSON and number rules that both languages share.

Logs and messages are exchanged with a JavaScript product, so "trimmed", "integer" and
"JSON text" have the ECMAScript meaning here, not Python's.
"""

import json
import re
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Final, NoReturn

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""ECMA-262 Number.MAX_SAFE_INTEGER: beyond it two integers share one double."""

_WHITE_SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""ECMA-262 WhiteSpace and LineTerminator; `str.strip()` differs in U+001C-1F, U+0085, U+FEFF."""

_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
_MAX_FIXED_EXPONENT: Final = 21
_MIN_FIXED_EXPONENT: Final = -6


def trim(text: str) -> str:
    """Cut white space at both ends as `String.prototype.trim` does."""
    return text.strip(_WHITE_SPACE)


def is_trimmed(text: str) -> bool:
    """Tell whether the text is non-empty and has no white space at either end."""
    return text != "" and text.strip(_WHITE_SPACE) == text


def safe_integer(value: object) -> int | None:
    """The value as an integer if JavaScript would call it a safe one, else None.

    JSON has one number type: 30.0 and 3e1 are the integer 30; true is not 1.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if abs(value) > MAX_SAFE_INTEGER or value != value // 1:  # also drops NaN and Infinity
        return None
    return int(value)


def parse_json(text: str | bytes) -> object:
    """Read one JSON value, accepting exactly what `JSON.parse` accepts.

    Bytes must be UTF-8 without a byte order mark. Of a repeated key the last value counts.

    Raises:
        ValueError: not JSON, not UTF-8, nested too deeply to read, or an integer too
            long to convert; whatever the cause, the text is refused.
    """
    try:
        # The decode comes first: json.loads would guess UTF-16 and UTF-32 from bytes.
        value: object = _JSON.decode(text if isinstance(text, str) else text.decode())
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_JSON: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def json_text(value: object) -> str:
    r"""Write a value as `JSON.stringify` does, byte for byte.

    No spaces, keys in their order, non-ASCII text raw, lone surrogates as lower-case
    `\udxxx`, numbers in the shortest ECMAScript form, NaN and Infinity as null.

    Raises:
        TypeError: a value that JSON cannot hold.
    """
    match value:
        case str():
            return _string_text(value)
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case int():
            return str(int(value))
        case float():
            return _number_text(value)
        case dict() | Mapping():  # the ABC alone is slow to ask
            members = (f"{_key_text(key)}:{json_text(member)}" for key, member in value.items())
            return "{" + ",".join(members) + "}"
        case list() | tuple():
            return "[" + ",".join(map(json_text, value)) + "]"
        case _:
            raise TypeError(f"JSON cannot hold a {type(value).__name__}")


def _string_text(text: str) -> str:
    quoted: str = encode_basestring(text)
    return quoted if quoted.isascii() else _SURROGATES.sub(_surrogate_text, quoted)


def _surrogate_text(found: re.Match[str]) -> str:
    """A pair is the one character it stands for in JavaScript; a lone one is escaped."""
    if len(found[0]) == 1:
        return f"\\u{ord(found[0]):04x}"
    return found[0].encode("utf-16", "surrogatepass").decode("utf-16")


def _key_text(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError("a JSON object has text keys only")
    return _string_text(key)


def _number_text(number: float) -> str:
    """ECMA-262 Number::toString: the digits of `repr`, with the point where JavaScript puts it."""
    if number != number or abs(number) == float("inf"):  # noqa: PLR0124 - the test for NaN
        return "null"
    mantissa, _, exponent = f"{abs(number)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(digits)
    point = len(whole) - leading + int(exponent or 0)  # digits before the decimal point
    digits = digits.rstrip("0")
    sign = "-" if number < 0 else ""
    if digits == "":
        return "0"
    if len(digits) <= point <= _MAX_FIXED_EXPONENT:
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    if 0 < point <= _MAX_FIXED_EXPONENT:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if _MIN_FIXED_EXPONENT < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+}"
