"""${message}"""

from typing import Final

from alembic import op

revision: Final = ${repr(up_revision)}
down_revision: Final = ${repr(down_revision)}


def upgrade() -> None:
    """Say here what the table is for."""
    op.execute("")
