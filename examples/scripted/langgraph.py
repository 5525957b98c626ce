"""Says what a model would say, so that the quickstart needs no key."""

from typing import Any

from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolCall


class _Scripted(FakeMessagesListChatModel):
    """Says what it was given, with whatever tools."""

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self


def scripted_model() -> FakeMessagesListChatModel:
    """A model that sets a reminder for a second from now, and says its text when it is back."""
    create = {"prompt": "stretch", "after_seconds": 1}
    return _Scripted(
        responses=[
            AIMessage("", tool_calls=[ToolCall(name="schedule_create", args=create, id="call_1")]),
            AIMessage("I will remind you."),
            AIMessage("It is time to stretch."),
        ]
    )
