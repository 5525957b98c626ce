"""What is asked of the database, one function for each question.

Each statement is a transaction of its own, at the isolation level "read committed": after a
wait for a row's lock the row is read again. All of them lock leases in the order of their
keys, so no two wait for each other.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final
from uuid import UUID

from attrs import frozen

from schedule_adapters.stores.postgres.connecting import Connection
from schedule_adapters.stores.postgres.leases import Lease, steady_s
from schedule_adapters.stores.postgres.rows import Row

PAGE: Final = 1_000
"""How many lines are read, or taken over, at once."""


@frozen(eq=False)
class Batch:
    """What one flush of one session writes; `header` goes with the first one."""

    lease: Lease
    header: str | None
    rows: Sequence[Row]


class Outcome(Enum):
    """What became of a batch."""

    DURABLE = auto()
    REFUSED = auto()
    """The lease is not held, or what it should follow is not there; nothing was written."""
    FOREIGN = auto()
    """Other events stand at its numbers, which no owner of this lease wrote."""


@frozen
class Holder:
    """Who has a session now, and for how long if nothing more is heard of it."""

    name: str
    left_s: float


_TAKE: Final = """
insert into lease as l (session_id, token, owner, holder, expires)
values (%(key)s, 1, %(owner)s, %(holder)s, clock_timestamp() + %(ttl)s * interval '1 second')
on conflict (session_id) do update set
    -- A repeated asking, whose first answer was lost, finds its own lease.
    token = l.token + (l.owner <> excluded.owner)::int,
    owner = excluded.owner,
    holder = excluded.holder,
    expires = clock_timestamp() + %(ttl)s * interval '1 second'
where l.expires <= clock_timestamp() or l.owner = excluded.owner
returning token
"""
_HOLDER: Final = """
select holder, extract(epoch from expires - clock_timestamp())::float8 from lease
where session_id = %s and expires > clock_timestamp()
"""


async def take(connection: Connection, lease: Lease, holder: str, ttl_s: float) -> Holder | None:
    """Take a lease that is free or has run out; gives who has it if it is neither."""
    asked = {"key": lease.key, "owner": lease.owner, "holder": holder, "ttl": ttl_s}
    while True:
        asked_at_s = steady_s()
        granted = await (await connection.execute(_TAKE, asked)).fetchone()
        if granted is not None:
            lease.token = granted[0]
            lease.extend(asked_at_s, ttl_s)
            return None
        taken = await (await connection.execute(_HOLDER, [lease.key])).fetchone()
        if taken is not None:  # else it was given back in between
            return Holder(*taken)


_RENEW: Final = """
with asked as (
    select * from unnest(%(keys)s::text[], %(tokens)s::bigint[]) as a (session_id, token)
), held as materialized (
    select l.session_id from lease l join asked using (session_id, token)
    where l.expires > '-infinity'  -- given back is given back
    order by l.session_id for no key update of l
)
update lease l set expires = clock_timestamp() + %(ttl)s * interval '1 second'
from held where l.session_id = held.session_id
returning l.session_id, l.token
"""


async def renew(connection: Connection, leases: Sequence[Lease], ttl_s: float) -> list[Lease]:
    """Extend leases that nobody else took, run out or not; gives those that were taken."""
    asked_at_s = steady_s()
    keys, tokens = [lease.key for lease in leases], [lease.token for lease in leases]
    asked = {"keys": keys, "tokens": tokens, "ttl": ttl_s}
    kept = set(await (await connection.execute(_RENEW, asked)).fetchall())
    lost = []
    for lease in leases:
        if (lease.key, lease.token) in kept:
            lease.extend(asked_at_s, ttl_s)
        else:
            lost.append(lease)
    return lost


_RELEASE: Final = """
with asked as (
    select * from unnest(%(keys)s::text[], %(owners)s::uuid[]) as a (session_id, owner)
), held as materialized (
    select l.session_id from lease l join asked using (session_id, owner)
    order by l.session_id for no key update of l
)
update lease l set expires = '-infinity' from held where l.session_id = held.session_id
"""


async def release(connection: Connection, leases: Sequence[Lease]) -> None:
    """Give leases back; those that others have by now are theirs."""
    keys, owners = [lease.key for lease in leases], [lease.owner for lease in leases]
    await connection.execute(_RELEASE, {"keys": keys, "owners": owners})


# `held` locks the lease, and only its rows reach the inserts: so a taker waits for this
# transaction, and this one waits for a taker and then finds another token.
_APPEND: Final = """
with asked as (
    select * from unnest(
        %(keys)s::text[], %(tokens)s::bigint[], %(headers)s::text[],
        %(tail_seqs)s::bigint[], %(tail_ids)s::uuid[]
    ) with ordinality as a (session_id, token, header, tail_seq, tail_id, batch)
), held as materialized (
    select a.batch, a.session_id, a.header from lease l join asked a using (session_id, token)
    where l.expires > clock_timestamp()
      and (a.tail_seq is null or exists (
          select from event_line e
          where (e.session_id, e.seq, e.event_id) = (a.session_id, a.tail_seq, a.tail_id)
      ))
    order by l.session_id for no key update of l
), begun as (
    insert into session (id, header)
    select session_id, header from held where header is not null
    on conflict do nothing
), brought as (
    select held.batch, held.session_id, r.seq, r.event_id, r.type, r.line
    from unnest(
        %(batches)s::bigint[], %(seqs)s::bigint[], %(ids)s::uuid[], %(types)s::text[],
        %(lines)s::text[]
    ) as r (batch, seq, event_id, type, line) join held using (batch)
), blocked as (  -- somebody else's event stands where one of the batch was to go
    select b.batch from brought b join event_line e using (session_id, seq)
    where e.event_id <> b.event_id
), written as (
    insert into event_line (session_id, seq, event_id, type, line)
    select session_id, seq, event_id, type, line from brought
    where batch not in (select batch from blocked)
    on conflict do nothing
    returning session_id
)
select held.batch, (select count(*) from written w where w.session_id = held.session_id)
from held
"""
_STANDING: Final = """
select count(*) from event_line e
join unnest(%(seqs)s::bigint[], %(ids)s::uuid[]) as r (seq, event_id) using (seq, event_id)
where e.session_id = %(key)s
"""


async def append(connection: Connection, batches: Sequence[Batch]) -> Mapping[Batch, Outcome]:
    """Write batches in one transaction, each behind its own lease; one commit for all.

    Doing it again is what finds out about a commit in doubt. Rows that an earlier attempt
    wrote are passed over and then looked for by their ids. That is sound because each attempt
    locks the lease: one that is still under way is waited for, and one that comes later
    finds all its rows there. And this attempt's own commit, later in the server's log, makes
    durable (and replicated, where that was asked for) whatever stood there before it.
    """
    rows = [(number, row) for number, batch in enumerate(batches, 1) for row in batch.rows]
    asked = {
        "keys": [batch.lease.key for batch in batches],
        "tokens": [batch.lease.token for batch in batches],
        "headers": [batch.header for batch in batches],
        "tail_seqs": [batch.lease.tail and batch.lease.tail[0] for batch in batches],
        "tail_ids": [batch.lease.tail and batch.lease.tail[1] for batch in batches],
        "batches": [number for number, _ in rows],
        "seqs": [row.seq for _, row in rows],
        "ids": [row.event_id for _, row in rows],
        "types": [row.type for _, row in rows],
        "lines": [row.line for _, row in rows],
    }
    answer: dict[int, int] = dict(await (await connection.execute(_APPEND, asked)).fetchall())
    outcomes = {}
    for number, batch in enumerate(batches, 1):
        if number not in answer:
            outcomes[batch] = Outcome.REFUSED
        elif answer[number] == len(batch.rows) or await _stands(connection, batch):
            outcomes[batch] = Outcome.DURABLE
        else:
            outcomes[batch] = Outcome.FOREIGN
    return outcomes


async def _stands(connection: Connection, batch: Batch) -> bool:
    seqs, ids = [row.seq for row in batch.rows], [row.event_id for row in batch.rows]
    asked = {"key": batch.lease.key, "seqs": seqs, "ids": ids}
    return await (await connection.execute(_STANDING, asked)).fetchone() == (len(seqs),)


_BEREFT: Final = """
select a.session_id from unnest(
    %(keys)s::text[], %(seqs)s::bigint[], %(ids)s::uuid[]
) as a (session_id, seq, event_id)
where not exists (
    select from event_line e
    where (e.session_id, e.seq, e.event_id) = (a.session_id, a.seq, a.event_id)
)
"""


async def bereft(connection: Connection, leases: Sequence[Lease]) -> list[Lease]:
    """Those whose last durable line is gone, as after a fall back to a standby that lagged."""
    tails = [(lease.key, *lease.tail) for lease in leases if lease.tail is not None]
    asked = {
        "keys": [key for key, _, _ in tails],
        "seqs": [seq for _, seq, _ in tails],
        "ids": [event_id for _, _, event_id in tails],
    }
    gone = {key for (key,) in await (await connection.execute(_BEREFT, asked)).fetchall()}
    return [lease for lease in leases if lease.key in gone]


_CLAIM: Final = """
insert into lease as l (session_id, token, owner, holder, expires)
select %(key)s, 1, %(owner)s, %(holder)s, '-infinity'
where not exists (select from session where id = %(key)s)
on conflict (session_id) do update set
    token = l.token + 1, owner = excluded.owner, holder = excluded.holder, expires = '-infinity'
where l.expires <= clock_timestamp()
returning token
"""
_BEGIN: Final = "insert into session (id, header) values (%s, %s) on conflict do nothing"
_INSERT: Final = """
insert into event_line (session_id, seq, event_id, type, line)
select %(key)s, * from unnest(
    %(seqs)s::bigint[], %(ids)s::uuid[], %(types)s::text[], %(lines)s::text[]
)
"""


async def put(
    connection: Connection, lease: Lease, holder: str, header: str, rows: Sequence[Row]
) -> bool:
    """Make a whole session in one transaction, or find that it was made by this same lease.

    Gives False if there is another session of that name, or somebody has it open.
    """
    async with connection.transaction():
        claim = {"key": lease.key, "owner": lease.owner, "holder": holder}
        is_free = await (await connection.execute(_CLAIM, claim)).fetchone() is not None
        if is_free and (await connection.execute(_BEGIN, [lease.key, header])).rowcount == 1:
            for start in range(0, len(rows), PAGE):
                await _insert(connection, lease.key, rows[start : start + PAGE])
            return True
    if not rows:
        return False
    first = {"key": lease.key, "seqs": [rows[0].seq], "ids": [rows[0].event_id]}
    return await (await connection.execute(_STANDING, first)).fetchone() == (1,)


async def _insert(connection: Connection, key: str, rows: Sequence[Row]) -> None:
    columns = {
        "key": key,
        "seqs": [row.seq for row in rows],
        "ids": [row.event_id for row in rows],
        "types": [row.type for row in rows],
        "lines": [row.line for row in rows],
    }
    await connection.execute(_INSERT, columns)


_HEADER: Final = "select header from session where id = %s"
_LINES: Final = """
select seq, event_id, line from event_line where session_id = %s and seq > %s
order by seq limit %s
"""


async def read_header(connection: Connection, key: str) -> str | None:
    """The header of a session; None if there is no such session."""
    found = await (await connection.execute(_HEADER, [key])).fetchone()
    return None if found is None else str(found[0])


async def read_lines(connection: Connection, key: str, after: int) -> list[tuple[int, UUID, str]]:
    """The next page of lines behind a seq; none if there are no more.

    A session has one writer, so its rows become visible in their order and none is skipped.
    """
    rows = await (await connection.execute(_LINES, [key, after, PAGE])).fetchall()
    return [(seq, event_id, line) for seq, event_id, line in rows]


async def read_keys(connection: Connection) -> list[str]:
    """The keys of all sessions."""
    rows = await (await connection.execute("select id from session")).fetchall()
    return [key for (key,) in rows]
