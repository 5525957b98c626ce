"""The schedule's own events, found without reading the conversation around them."""

from typing import Final

from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"


def upgrade() -> None:
    """Make a partial index; it costs nothing for every other event."""
    op.execute("""
        create index event_line_schedule_change on event_line (session_id, seq)
        where type = 'schedule/change'
    """)
