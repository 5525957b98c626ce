"""Says what a model would say, so that the quickstart needs no key."""

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai.types import ModelContent, Part


class _Scripted(BaseLlm):
    """Says what it was given."""

    answers: list[Part]

    async def generate_content_async(self, *_: Any, **__: Any) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=ModelContent([self.answers.pop(0)]))


def scripted_model() -> BaseLlm:
    """A model that sets a reminder for a second from now, and says its text when it is back."""
    create = {"prompt": "stretch", "after_seconds": 1}
    return _Scripted(
        model="scripted",
        answers=[
            Part.from_function_call(name="schedule_create", args=create),
            Part(text="I will remind you."),
            Part(text="It is time to stretch."),
        ],
    )
