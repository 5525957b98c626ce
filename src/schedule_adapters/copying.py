"""Sessions copied from one store to another, byte for byte."""

from contextlib import AsyncExitStack

from schedule_adapters.sessions import SessionStore, StoreError, StoreErrorCode


async def copy_session(source: SessionStore, target: SessionStore, session_id: str) -> int:
    """Copy one session, and read the copy back; gives how many bytes its log has.

    Nobody may write to the session meanwhile, so its right to write is taken. The session
    in the source stays as it is: from then on one of the two must not be opened any more, or
    each of them delivers what is due.

    Raises:
        StoreError: `session_locked`, `session_exists`, `write_failed` and others, as
            `SessionStore.open`, `export` and `adopt`; `corrupt_log` if the copy differs.
    """
    async with AsyncExitStack() as closing:
        try:
            session = await source.open(session_id)
        except StoreError as error:
            if error.code is not StoreErrorCode.UNSUPPORTED_LOG:
                raise  # one that nobody can open for writing has no owner to be kept out
        else:
            closing.push_async_callback(session.close)
        text = await source.export(session_id)
        await target.adopt(text)
    if await target.export(session_id) != text:
        raise StoreError(
            StoreErrorCode.CORRUPT_LOG,
            "the copy differs from the session it was made of; do not use it",
            where=session_id,
        )
    return len(text.header_line) + len(text.lines)
