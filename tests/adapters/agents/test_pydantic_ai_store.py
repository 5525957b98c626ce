"""pydantic-ai's own ConversationStore on the session's log, beside the turns that go on with it."""

from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.models.test import TestModel

from schedule_adapters.agents.message_log import ConversationError
from schedule_adapters.agents.pydantic_ai import PydanticAITurns
from schedule_adapters.agents.pydantic_ai_store import MESSAGES_FORMAT, LogConversationStore
from schedule_adapters.events import INPUT_QUEUED, MESSAGES, TURN_ENDED, TURN_STARTED
from schedule_adapters.sessions import SessionHeader
from schedule_adapters.stores.memory import MemoryStore
from schedule_core.ports import SessionEvent
from tests.adapters.agents.agent_world import MemorySession, StillClock
from tests.adapters.agents.driver_world import run


def agent() -> Agent[None, str]:
    return Agent(TestModel(call_tools=[], custom_output_text="hello"))


def asked(messages: list[Any]) -> list[str]:
    """The texts of the user, in order."""
    return [
        str(part.content)
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]


async def loaded(store: ConversationStore, conversation_id: str = "s1") -> Conversation:
    conversation = await store.load(conversation_id)
    assert conversation is not None
    return conversation


async def test_what_turns_add_is_the_sessions_own_conversation() -> None:
    session = MemorySession()
    driver = PydanticAITurns(agent(), session)
    store = LogConversationStore(session)
    assert await store.load("s1") is None

    await run(driver, "one")
    await run(driver, "two")

    conversation = await loaded(store)
    assert ["one", "two"] == asked(conversation.messages)
    assert conversation.messages == list(driver.history)
    assert conversation.usage.requests == 2
    assert conversation.usage.output_tokens > 0


async def test_the_next_turn_goes_on_from_what_was_saved() -> None:
    session = MemorySession()
    driver, store = PydanticAITurns(agent(), session), LogConversationStore(session)
    await run(driver, "one")

    result = await agent().run("by hand", conversation=await loaded(store))
    await store.save(result)
    await run(driver, "three")

    assert ["one", "by hand", "three"] == asked(list(driver.history))
    assert driver.history == PydanticAITurns(agent(), session).history
    assert list(driver.history) == (await loaded(LogConversationStore(session))).messages


async def test_a_branch_goes_back_and_the_next_turn_follows_it() -> None:
    session = MemorySession()
    driver, store = PydanticAITurns(agent(), session), LogConversationStore(session)
    await run(driver, "one")
    await run(driver, "two")

    before = await loaded(store)
    await store.branch("s1", at=2, expected_revision=before.revision)
    await run(driver, "two, once more")

    assert ["one", "two, once more"] == asked(list(driver.history))
    record = await store.read_record("s1")
    assert record is not None
    left = await store.branch(
        "s1", from_entry=record.branches[0], expected_revision=record.revision
    )
    assert ["one", "two"] == asked(left.messages)


async def test_a_turn_since_it_was_loaded_makes_a_save_conflict() -> None:
    session = MemorySession()
    driver, store = PydanticAITurns(agent(), session), LogConversationStore(session)
    await run(driver, "one")
    stale = await loaded(store)
    await run(driver, "two")

    with pytest.raises(ConversationConflict):
        await store.save(await agent().run("late", conversation=stale))
    assert ["one", "two"] == asked(list(driver.history))


async def test_other_conversations_lie_beside_and_can_be_deleted() -> None:
    session = MemorySession()
    driver, store = PydanticAITurns(agent(), session), LogConversationStore(session)
    await run(driver, "one")

    fork = await store.fork("s1", new_conversation_id="aside")
    await store.save(await agent().run("aside", conversation=fork))
    assert ["one", "aside"] == asked(
        (await loaded(LogConversationStore(session), "aside")).messages
    )
    assert ["aside", "s1"] == [record.conversation_id for record in await store.read_records()]
    await store.delete("aside")

    assert await LogConversationStore(session).load("aside") is None
    assert ["one"] == asked(list(driver.history))


async def test_a_deleted_conversation_begins_anew() -> None:
    session = MemorySession()
    driver, store = PydanticAITurns(agent(), session), LogConversationStore(session)
    await run(driver, "one")
    await store.delete("s1")
    assert driver.history == ()

    await run(driver, "two")
    assert ["two"] == asked((await loaded(store)).messages)


async def test_a_fork_of_the_session_goes_on_with_its_own_conversation() -> None:
    sessions = MemoryStore(clock=StillClock())
    parent = await sessions.open("parent")
    await run(PydanticAITurns(agent(), parent), "one")
    store = LogConversationStore(parent)
    await store.save(await agent().run("two", conversation=await loaded(store, "parent")))
    await parent.barrier()
    await sessions.fork("parent", "child")

    child = await sessions.open("child")
    assert ["one", "two"] == asked(list(PydanticAITurns(agent(), child).history))
    assert ["one", "two"] == asked((await loaded(LogConversationStore(child), "child")).messages)


async def test_it_answers_as_the_store_in_memory_does() -> None:
    """The same calls on both give the same conversations, scopes, limits and errors."""
    answers: list[list[object]] = []
    for store in (LogConversationStore(MemorySession()), InMemoryConversationStore()):
        seen: list[object] = []
        fresh = Conversation(conversation_id="a")
        await store.save(await agent().run("one", conversation=fresh), scope="me")
        conversation = await loaded(store, "a")
        await store.save(await agent().run("two", conversation=conversation))
        window = await store.load("a", limit=1, scope="me")
        assert window is not None
        seen += [asked((await loaded(store, "a")).messages), len(window.messages)]
        seen += [await store.load("a", scope="you"), len(await store.read_records(scope="me"))]
        seen.append(len(await store.read_records(limit=0)))
        for stale in (conversation, Conversation(conversation_id="a")):
            with pytest.raises(ConversationConflict):
                await store.save(stale)
        with pytest.raises(LookupError):
            await store.read_entry("nobody")
        record = await store.read_record("a")
        assert record is not None
        record.head_id = "nobody"
        with pytest.raises(ConversationConflict):
            await store.write_record(record, expected_revision=record.revision)
        with pytest.raises(ConversationConflict):
            await store.delete_record("a", expected_revision="another")
        answers.append(seen)
    assert answers[0] == answers[1]


async def test_the_message_of_a_turn_that_its_process_did_not_survive_is_kept() -> None:
    """It was admitted and will not be repeated; the model finds it in the next turn."""
    session = MemorySession()
    session.append(INPUT_QUEUED.name, {"source": "user", "text": "one \ud83d"})
    session.append(TURN_STARTED.name, {"input": 0})
    driver = PydanticAITurns(agent(), session)
    assert driver.history == ()
    session.append(TURN_ENDED.name, {"input": 0, "outcome": "interrupted", "text": ""})
    assert ["one \ufffd"] == asked(list(driver.history))

    await run(driver, "two")
    assert driver.history == PydanticAITurns(agent(), session).history
    assert ["one \ufffd", "two"] == asked(list(driver.history))


@pytest.mark.parametrize("outcome", ["completed", "failed", "cancelled", "postponed"])
async def test_only_the_end_of_a_process_cuts_a_turn_off(outcome: str) -> None:
    """A turn of another framework keeps its messages elsewhere; one put off comes again."""
    session = MemorySession()
    session.append(INPUT_QUEUED.name, {"source": "user", "text": "one"})
    session.append(TURN_STARTED.name, {"input": 0})
    session.append(TURN_ENDED.name, {"input": 0, "outcome": outcome, "text": ""})
    assert PydanticAITurns(agent(), session).history == ()


@pytest.mark.parametrize(
    "data",
    [
        {"entries": [], "record": None},
        {"entries": [{"id": "1"}], "record": None, "conversation": None},
        {"entries": [], "record": {"head_id": None}, "conversation": None},
        {
            "entries": [],
            "record": {"conversation_id": "s1", "head_id": "nobody"},
            "conversation": None,
        },
    ],
)
def test_a_save_that_cannot_be_read_is_refused_with_its_event(data: dict[str, Any]) -> None:
    event = {"format": MESSAGES_FORMAT, "messages": [], **data}
    session = MemorySession([SessionEvent(MESSAGES.name, event, 7)])
    with pytest.raises(ConversationError, match="event 7 is not pydantic-ai/1"):
        LogConversationStore(session)


def test_the_own_conversation_has_the_sessions_id() -> None:
    session = MemorySession(header=SessionHeader("another", 0))
    assert LogConversationStore(session)._log.own_id == "another"
