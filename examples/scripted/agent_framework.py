"""Says what a model would say, so that the quickstart needs no key."""

from collections.abc import AsyncIterator
from typing import Any

from agent_framework import (
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    ResponseStream,
)


class _Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Says what it was given."""

    def __init__(self, answers: list[Content]) -> None:
        super().__init__()
        self._answers = answers

    def _inner_get_response(self, **_: Any) -> Any:
        async def stream() -> AsyncIterator[ChatResponseUpdate]:
            yield ChatResponseUpdate(contents=[self._answers.pop(0)], role="assistant")

        return ResponseStream(stream(), finalizer=ChatResponse.from_updates)


def scripted_client() -> BaseChatClient[Any]:
    """A client that sets a reminder for a second from now, and says its text when it is back."""
    create = {"prompt": "stretch", "after_seconds": 1}
    return _Scripted(
        [
            Content.from_function_call("call_1", "schedule_create", arguments=create),
            Content.from_text("I will remind you."),
            Content.from_text("It is time to stretch."),
        ]
    )
