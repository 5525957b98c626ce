"""Runs Alembic's migrations; imported only when there is something to run. It blocks."""

from pathlib import Path
from threading import Lock
from typing import Final

import psycopg
from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from schedule_adapters.stores.postgres.place import Place

_ALEMBIC: Final = Lock()
"""What a migration script finds in `alembic.context` is the whole process's."""


def migrate(place: Place, revision: str) -> str | None:
    """Bring the schema to a revision, in one transaction; gives why it failed, if it did."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(place.conninfo),
        poolclass=NullPool,
    )
    try:
        with _ALEMBIC, engine.begin() as connection:
            config.attributes["connection"] = connection
            config.attributes["schema"] = place.schema
            command.upgrade(config, revision)
    except CommandError:
        return "it was made by a newer version; update session-schedule"
    except DBAPIError as error:
        cause = error.orig
        state = cause.sqlstate if isinstance(cause, psycopg.Error) else None
        return f"{type(cause).__name__} ({state})"
    return None
