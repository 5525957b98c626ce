"""Sessions in PostgreSQL: many processes, one live owner for each session.

The rules, and where each is kept:

- One owner at a time: a lease row per session, with a token that grows with every owner and
  an end by the server's clock (`leases`). The statement that appends checks the token itself
  and locks the row, so a taker waits for an append under way, and an append after it is
  refused (`statements`).
- One writer connection per store; everything that waits goes out in one statement, which is
  one transaction and one commit (`writer`).
- A lost connection leaves a commit in doubt. Writing again is the answer: rows that stand
  there already are told by (seq, event id), and the lease's row lock waits for a transaction
  that is still under way (`writer`).
- Settings of the server that would weaken the promise are refused whenever a connection is
  made (`connecting`). The schema is made, upgraded and checked in `schema`.
"""

from schedule_adapters.stores.postgres.store import PostgresOptions, PostgresSession, PostgresStore

__all__ = ["PostgresOptions", "PostgresSession", "PostgresStore"]
