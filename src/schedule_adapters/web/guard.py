"""Who may talk to the page: checked for every request before anything else looks at it.

The dangers are other pages in the same browser (forged requests, names that are made to
resolve to this machine) and, off loopback, other machines.
"""

import hmac
import ipaddress
import logging
import re
import secrets
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from attrs import field, frozen
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger("schedule_adapters")

_VISITOR: Final = re.compile("[A-Za-z0-9_-]{22}")
_COOKIE_AGE_S: Final = 30 * 86_400
_NAMES_OF_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """A request that is not served; the code is stable, the words are for a person."""

    def __init__(self, status: int, code: str, words: str) -> None:
        super().__init__(f"{code}: {words}")
        self.status = status
        self.code = code
        self.words = words


@frozen
class Access:
    """Who may talk to this server.

    Attributes:
        token: what a browser must show once; None on loopback, where no one else can call.
        names: host names in the address bar that are this server, beside loopback's.
        any_address: whether an IP address is accepted as a host; no page elsewhere can make
            its own name look like one.
        cookie: the cookie's name; ports of one host share their cookies.
    """

    token: str | None = None
    names: frozenset[str] = frozenset()
    any_address: bool = False
    cookie: str = "session_schedule"
    _key: bytes = field(factory=lambda: secrets.token_bytes(32), repr=False)

    def is_this_host(self, host: str) -> bool:
        """Whether a Host header names this server, whatever the port (it may be forwarded)."""
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        if name is None:
            return False
        return name in _NAMES_OF_LOOPBACK | self.names or (self.any_address and _is_address(name))

    def is_token(self, text: str) -> bool:
        """Whether it is the token; takes the same time whatever is wrong with it."""
        return self.token is not None and hmac.compare_digest(text.encode(), self.token.encode())

    def sealed(self, visitor: str) -> str:
        """The cookie of a browser: its random name, and proof that it was given here."""
        return f"{visitor}.{self._proof('cookie', visitor)}"

    def visitor(self, cookie: str) -> str | None:
        """The browser that a cookie names; None if it was not given to one.

        Without a token the cookie lets nobody in, so one from before a restart will do.
        """
        visitor, _, proof = cookie.partition(".")
        if not _VISITOR.fullmatch(visitor):
            return None
        is_ours = hmac.compare_digest(proof.encode(), self._proof("cookie", visitor).encode())
        return visitor if is_ours or self.token is None else None

    def csrf_token(self, visitor: str) -> str:
        """What a page of that browser sends with everything that changes something."""
        return self._proof("csrf", visitor)

    def _proof(self, purpose: str, visitor: str) -> str:
        key = self._key if self.token is None else sha256(self.token.encode()).digest()
        return hmac.digest(key, f"{purpose}:{visitor}".encode(), "sha256").hex()


class Guard:
    """Refuses what does not come from this server's own page, and makes every answer safe."""

    def __init__(self, app: ASGIApp, access: Access, policy: str) -> None:
        self._app = app
        self._access = access
        self._headers = {**_SAFE_HEADERS, "Content-Security-Policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        assert scope["type"] == "http", "web sockets are switched off"
        started = False
        headers = Headers(scope=scope)
        visitor = self._visitor(headers)

        async def send_safely(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                answer = MutableHeaders(scope=message)
                answer.update(self._headers)
                if scope.get(_NEW_VISITOR):
                    answer.append("Set-Cookie", self._cookie(scope[_NEW_VISITOR], headers))
            await send(message)

        try:
            answer = self._answer(scope, headers, visitor)
            await (answer or self._app)(scope, receive, send_safely)
        except Exception as error:  # noqa: BLE001 - whatever it is, the answer is the same
            # Its text and its traceback may hold what was said.
            _log.error("a request failed: %s", type(error).__name__)
            if started:
                raise ConnectionAbortedError from None
            words = PlainTextResponse("something went wrong in the server", 500)
            await words(scope, receive, send_safely)

    def _answer(self, scope: Scope, headers: Headers, visitor: str | None) -> Response | None:
        """The answer to a request that stops here; None if it may go on."""
        try:
            self._check_source(scope, headers)
            if visitor is None and self._access.token is not None:
                return self._sign_in(scope)
            if visitor is None:
                visitor = scope[_NEW_VISITOR] = secrets.token_urlsafe(16)
            scope["csrf"] = self._access.csrf_token(visitor)
            if scope["method"] == "POST":
                _check_csrf(headers, scope["csrf"])
        except Refusal as refusal:
            return refused(refusal)
        return None

    def _check_source(self, scope: Scope, headers: Headers) -> None:
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self._access.is_this_host(host):
            raise Refusal(403, "forbidden_host", "this server is not known under that name")
        origin = headers.get("origin")
        if origin is not None and not _is_origin(origin, host):
            raise Refusal(403, "forbidden_origin", "only this server's own page may ask that")
        if scope["method"] == "POST" and origin is None:
            raise Refusal(403, "forbidden_origin", "the request does not say where it comes from")
        # Browsers say it of requests without an Origin, too; a link from elsewhere may lead here.
        is_visit = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"} and not is_visit:
            raise Refusal(403, "forbidden_origin", "only this server's own page may ask that")

    def _sign_in(self, scope: Scope) -> Response:
        """Give a browser that shows the token its cookie, and take the token out of sight."""
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        shown = dict(query).get("token", "")
        if scope["method"] != "GET" or not self._access.is_token(shown):
            words = "open the address that was printed when the server started: it has the token"
            return refused(Refusal(401, "token_needed", words))
        scope[_NEW_VISITOR] = secrets.token_urlsafe(16)
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        return RedirectResponse(f"/?{rest}" if rest else "/", 303)

    def _visitor(self, headers: Headers) -> str | None:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._access.cookie)
        except CookieError:
            return None
        return None if cookie is None else self._access.visitor(cookie.value)

    def _cookie(self, visitor: str, headers: Headers) -> str:
        secure = "; Secure" if headers.get("origin", "").startswith("https:") else ""
        value = self._access.sealed(visitor)
        rules = f"Path=/; Max-Age={_COOKIE_AGE_S}; HttpOnly; SameSite=Strict{secure}"
        return f"{self._access.cookie}={value}; {rules}"


def refused(refusal: Refusal) -> Response:
    """A refusal as a page's script reads it."""
    value = {"code": refusal.code, "message": refusal.words}
    return JSONResponse(value, refusal.status)


def _check_csrf(headers: Headers, expected: str) -> None:
    given = headers.get("x-csrf-token", "")
    if not hmac.compare_digest(given.encode(), expected.encode()):
        raise Refusal(403, "csrf_token", "the page is out of date; reload it")


def _is_origin(origin: str, host: str) -> bool:
    return origin in {f"http://{host}", f"https://{host}"}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


_NEW_VISITOR: Final = "session_schedule.new_visitor"
_SAFE_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
