"""The kit's script as a pydantic-ai model."""

import json
from collections.abc import AsyncIterator, Sequence

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequestPart,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from schedule_adapters.testing.agents import (
    CallTool,
    CallTools,
    Say,
    Script,
    Seen,
    SeenTool,
    new_call_id,
)


def scripted_model(script: Script) -> FunctionModel:
    """A streaming model that answers what the script says."""

    async def stream(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        match await script.next(seen_in(messages, info)):
            case Say() as say:
                for piece in say.pieces:
                    yield piece
            case CallTool() as call:
                yield _calls((call,))
            case CallTools(calls):
                yield _calls(calls)

    return FunctionModel(stream_function=stream)


def seen_in(messages: Sequence[ModelMessage], info: AgentInfo) -> Seen:
    """What one request holds."""
    asked: list[ModelRequestPart] = []
    calls: list[str] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            calls += [part.tool_name for part in message.parts if isinstance(part, ToolCallPart)]
        else:
            asked += message.parts
    system = [part.content for part in asked if isinstance(part, SystemPromptPart)]
    return Seen(
        texts=tuple(str(part.content) for part in asked if isinstance(part, UserPromptPart)),
        tools=tuple(
            SeenTool(tool.name, tool.description or "", tool.parameters_json_schema)
            for tool in info.function_tools
        ),
        results=tuple(
            part.content for part in asked if isinstance(part, ToolReturnPart | RetryPromptPart)
        ),
        instructions="\n".join([*system, info.instructions or ""]),
        calls=tuple(calls),
    )


def _calls(calls: Sequence[CallTool]) -> DeltaToolCalls:
    return {
        index: DeltaToolCall(call.name, json.dumps(call.arguments), tool_call_id=new_call_id())
        for index, call in enumerate(calls)
    }
