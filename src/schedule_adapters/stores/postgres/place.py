"""Where a database is: a libpq URL with a schema of ours in it. No I/O."""

import re
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

import psycopg
from attrs import field, frozen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from schedule_adapters.sessions import StoreError, StoreErrorCode

DEFAULT_SCHEMA: Final = "session_schedule"
"""Of its own, not `public`: a table named `session` is likely to be there already."""
_SCHEMA_PARAMETER: Final = "schema="
_SCHEMA_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]{0,62}")
"""Longer names are cut off by the server without a word."""

_DEFAULTS: Final[dict[str, str]] = {
    "connect_timeout": "5",  # for each of several hosts
    # A server that vanished is noticed by the system within half a minute.
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "gssencmode": "disable",  # or each connection costs one more round trip
    "application_name": "session-schedule",
}
"""What the URL does not say itself."""


@frozen
class Place:
    """One schema of one database.

    Attributes:
        conninfo: how to get there, in libpq's form; it may hold a password.
        schema: the schema that holds the tables.
        where: how errors name it; without user and password.
    """

    conninfo: str = field(repr=False)
    schema: str
    where: str

    def hides(self, text: str) -> bool:
        """Whether a text repeats nothing of this place that is secret."""
        password = conninfo_to_dict(self.conninfo).get("password")
        return not password or str(password) not in text


def parse_place(url: str) -> Place:
    """Read `postgresql://...`, as libpq does, and `schema=NAME` among its parameters.

    Raises:
        StoreError: `store_unavailable`; the text repeats nothing of the URL.
    """
    base, mark, query = url.partition("?")
    # Only our own parameter is taken out: everything else goes to libpq as it stands.
    ours = [each for each in query.split("&") if each.startswith(_SCHEMA_PARAMETER)]
    rest = "&".join(each for each in query.split("&") if each not in ours)
    schema = unquote(ours[-1].removeprefix(_SCHEMA_PARAMETER)) if ours else DEFAULT_SCHEMA
    params = None
    with suppress(psycopg.Error):  # its text may repeat the password, so it is no part of ours
        params = conninfo_to_dict(base + (mark if rest else "") + rest)
    if params is None:
        raise _unreadable("the URL of the database cannot be read")
    if _SCHEMA_NAME.fullmatch(schema) is None:
        raise _unreadable("a schema has a name of up to 63 letters, digits and underscores")
    host = params.get("host") or params.get("hostaddr") or "local"
    database = params.get("dbname") or params.get("user") or ""
    where = f"postgresql://{host}:{params.get('port') or 5432}/{database} (schema {schema})"
    conninfo = make_conninfo("", **{**_DEFAULTS, **params, "client_encoding": "UTF8"})
    return Place(conninfo, schema, where)


def _unreadable(reason: str) -> StoreError:
    return StoreError(
        StoreErrorCode.STORE_UNAVAILABLE,
        f"{reason}; use postgresql://USER@HOST/DATABASE?schema=NAME",
    )
