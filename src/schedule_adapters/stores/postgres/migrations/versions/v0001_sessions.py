"""Sessions, the lines of their logs, and who may write them."""

from typing import Final

from alembic import op

revision: Final = "0001"
down_revision: Final = None


def upgrade() -> None:
    """Make the three tables.

    No foreign keys: nothing is ever deleted, and one statement writes a session's row
    together with its first lines.
    """
    op.execute("""
        create table session (
            id text collate "C" primary key,  -- as `folder_names` encodes it
            header text not null              -- the first line, without its newline
        )
    """)
    op.execute("""
        create table event_line (             -- nothing in it is ever changed or deleted
            session_id text collate "C" not null,
            seq bigint not null,              -- of the first event on the line
            event_id uuid not null,           -- tells our line from any other at that seq
            type text not null,               -- of that event, as JSON writes it
            line text not null,               -- byte for byte, without its newline
            primary key (session_id, seq)
        )
    """)
    op.execute("""
        create table lease (                  -- a row stays for good, for the sake of its token
            session_id text collate "C" primary key,
            token bigint not null,            -- grows by one with every owner
            owner uuid not null,              -- drawn anew for every opening
            holder text not null,             -- host:pid, for people
            expires timestamptz not null      -- by the server's clock
        ) with (fillfactor = 50)              -- renewals stay on their page
    """)
