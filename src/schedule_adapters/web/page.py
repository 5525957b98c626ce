"""The page as HTML: one answer that holds everything it needs, and the policy that says so."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Final
from urllib.parse import urlencode

from attrs import frozen

_ASSETS: Final = files("schedule_adapters.web") / "static"
_PAGE_BYTES: Final = 59_000
"""A page and its icon come to less than 60 KB. A first picture that does not fit in there
comes by the stream instead."""
_LINKS_BYTES: Final = 10_000
"""How much of that the list of sessions may take."""


@frozen
class SessionLink:
    """One line of the list of sessions; `pending` is None while it is not open."""

    name: str
    pending: int | None


def conversation_page(
    session: str, sessions: Sequence[SessionLink], *, snapshot: str, csrf_token: str
) -> str:
    """The page of one session.

    Args:
        session: its name.
        sessions: what can be switched to, itself among it.
        snapshot: its first picture as JSON.
        csrf_token: what the page must send with everything that changes something.
    """
    first, rest = _PAGE.split("{{snapshot}}")
    parts = {
        "style": _STYLE,
        "script": _SCRIPT,
        "session": escape(session),
        "sessions": _links(sessions, session),
        "csrf": escape(csrf_token),
    }
    before, after = _filled(first, parts), _filled(rest, parts)
    embedded = _harmless(snapshot)
    fits = _size(before) + _size(embedded) + _size(after) <= _PAGE_BYTES
    return before + (embedded if fits else "null") + after


def trouble_page(title: str, words: str, code: str, sessions: Sequence[SessionLink]) -> str:
    """The page of a session that cannot be shown, and why."""
    parts = {
        "style": _STYLE,
        "title": escape(title),
        "words": escape(words),
        "code": escape(code),
        "sessions": _links(sessions, None),
    }
    return _filled(_TROUBLE, parts)


def icon() -> bytes:
    """The icon of the page."""
    return (_ASSETS / "icon.svg").read_bytes()


def _links(sessions: Sequence[SessionLink], current: str | None) -> str:
    """As many links as fit, in their order; the current session's is among them."""
    lines = {each.name: _link(each, current=each.name == current) for each in sessions}
    shown, room = set[str](), _LINKS_BYTES
    for name in sorted(lines, key=lambda name: name != current):
        room -= _size(lines[name])
        if room < 0:
            break
        shown.add(name)
    more = len(lines) - len(shown)
    rest = f'<li class="more">and {more} more</li>' if more else ""
    return "".join(line for name, line in lines.items() if name in shown) + rest


def _link(session: SessionLink, *, current: bool) -> str:
    address = escape("/?" + urlencode({"session": session.name}))
    mark = ' aria-current="page"' if current else ""
    count = ""
    if session.pending:
        words = f"{session.pending} pending"
        count = f'<span class="count" title="{words}">{session.pending}</span>'
    return f'<li><a href="{address}"{mark}><bdi>{escape(session.name)}</bdi>{count}</a></li>'


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _harmless(json: str) -> str:
    """JSON that no HTML reader takes for markup."""
    return json.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with its `{{parts}}`; a part is never searched for further ones."""
    first, *rest = template.split("{{")
    filled = [first]
    for piece in rest:
        name, _, text = piece.partition("}}")
        filled += [parts[name], text]
    return "".join(filled)


def _text(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")


def _source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_PAGE: Final = _text("page.html")
_TROUBLE: Final = _text("trouble.html")
_STYLE: Final = _text("page.css")
_SCRIPT: Final = _text("page.js")

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        f"script-src {_source(_SCRIPT)}",
        f"style-src {_source(_STYLE)}",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""The Content-Security-Policy of every answer: our script and style, and nothing else."""
