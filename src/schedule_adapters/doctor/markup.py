"""Elements of HTML and SVG in which no text can be anything but text."""

import html
import re
from typing import Final

from attrs import frozen

from schedule_adapters.wording import printable

_NOT_XML: Final = re.compile("[\ufffe\uffff]")
"""The only characters that `printable` leaves and XML refuses."""
_EMPTY: Final = frozenset({"meta", "line", "rect", "circle", "path", "stop"})


@frozen
class Markup:
    """Text that is markup already."""

    source: str


def element(name: str, /, *children: str | Markup, **attributes: object) -> Markup:
    """One element; children and attributes that are text are escaped.

    Args:
        name: of the element.
        children: what it holds.
        attributes: by name, where `_` stands for `-` and a last one is dropped (`class_`);
            None leaves one out.
    """
    pairs = (
        f' {key.removesuffix("_").replace("_", "-")}="{escaped(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    start = f"<{name}{''.join(pairs)}"
    if name in _EMPTY and not children:
        return Markup(f"{start}/>")
    return Markup(f"{start}>{joined(*children).source}</{name}>")


def joined(*parts: str | Markup) -> Markup:
    """The parts one behind the other."""
    return Markup("".join(p.source if isinstance(p, Markup) else escaped(p) for p in parts))


def escaped(text: str) -> str:
    """The text as HTML and XML write it; what neither can hold is replaced."""
    return html.escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", printable(text)))
