"""Sessions in one SQLite file.

The rules, and where each is kept:

- One owner of each session at a time, in a folder beside the file (`stores.owner_links`).
- One thread writes. Whatever waits when it is free goes out in one transaction, which is one
  commit and one fsync (`stores.rounds`, `writer`).
- A failed commit leaves its outcome in doubt. The connection is thrown away, what can be read
  is made durable, and lines that come again are told from those that stand there (`writer`).
- Lines stand in the tables byte for byte; none is ever changed or taken away (`rows`).
- Settings that would weaken the promise are refused (`database`).
- Readers have a connection and a thread of their own (`reader`).
"""

from schedule_adapters.stores.sqlite.store import SqliteSession, SqliteStore

__all__ = ["SqliteSession", "SqliteStore"]
