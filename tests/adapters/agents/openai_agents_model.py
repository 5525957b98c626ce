"""The kit's script as a model of the OpenAI Agents SDK."""

import json
from typing import Any

from agents import FunctionTool, Tool
from agents.testing import ModelCall, ModelStep, ScriptedModel, function_call
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from schedule_adapters.testing.agents import (
    CallTool,
    CallTools,
    Say,
    Script,
    Seen,
    SeenTool,
    Step,
    new_call_id,
)


def scripted_model(script: Script) -> ScriptedModel:
    """The SDK's own scripted model, which asks the script again and again."""

    async def respond(call: ModelCall) -> list[Any]:
        model.enqueue(ModelStep.respond(respond))
        return items_of(await script.next(seen_in(call)))

    model = ScriptedModel([ModelStep.respond(respond)])
    return model


def items_of(step: Step) -> list[Any]:
    """The answer as output items; each piece of a text is streamed by itself."""
    match step:
        case Say() as say:
            parts = [
                ResponseOutputText(type="output_text", text=piece, annotations=[], logprobs=[])
                for piece in say.pieces
            ]
            return [
                ResponseOutputMessage(
                    id=new_call_id(),
                    type="message",
                    role="assistant",
                    status="completed",
                    content=list(parts),
                )
            ]
        case CallTool() as call:
            return [function_call(call.name, call.arguments, call_id=new_call_id())]
        case CallTools(calls):
            return [function_call(c.name, c.arguments, call_id=new_call_id()) for c in calls]


def seen_in(call: ModelCall) -> Seen:
    """What one request holds."""
    items: list[dict[str, Any]] = (
        [{"role": "user", "content": call.input}] if isinstance(call.input, str) else call.input
    )
    return Seen(
        texts=tuple(item["content"] for item in items if item.get("role") == "user"),
        tools=tuple(_seen_tool(tool) for tool in call.tools),
        results=tuple(
            _json(item["output"]) for item in items if item.get("type") == "function_call_output"
        ),
        instructions=call.system_instructions or "",
        calls=tuple(item["name"] for item in items if item.get("type") == "function_call"),
    )


def _seen_tool(tool: Tool) -> SeenTool:
    assert isinstance(tool, FunctionTool), tool
    assert not tool.strict_json_schema or tool.name == "delegate"
    return SeenTool(tool.name, tool.description, tool.params_json_schema)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:  # an error text of the SDK
        return text
