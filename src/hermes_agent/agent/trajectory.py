"""Trajectories: turns as the model saw them, one JSON line each, for training and analysis."""

from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from hermes_agent.agent.conversation import ConversationState
from hermes_agent.core import events as ev
from hermes_agent.core.messages import AssistantMessage, Media, Message, Prompt, ToolMessage

Form = Literal["openai", "sharegpt"]
FORMS: tuple[Form, ...] = ("openai", "sharegpt")


def trajectories(
    session: str, prompt: Prompt, recorded: Iterable[ev.Recorded], form: Form
) -> Iterator[dict[str, Any]]:
    """Yield one object per finished turn: all that the model saw up to its end, and the outcome."""
    conversation = ConversationState(session, prompt)
    model = ""
    for one in recorded:
        conversation.apply(one)
        if isinstance(one.event, ev.Replied):
            model = one.event.model
        if isinstance(one.event, ev.TurnFinished):
            end = one.event
            yield {
                "session": session,
                "turn": end.turn,
                "model": model,
                "reason": end.reason,
                "steps": end.steps,
                "tokens": {"input": end.usage.input, "output": end.usage.output},
                "cost": end.cost,
                "seconds": end.seconds,
                **_SHAPES[form](prompt, conversation.messages),
            }


def openai_message(message: Message) -> dict[str, Any]:
    match message:
        case AssistantMessage(text=text, calls=calls) if calls:
            asked = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in calls
            ]
            return {"role": "assistant", "content": text or None, "tool_calls": asked}
        case AssistantMessage(text=text):
            return {"role": "assistant", "content": text}
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        case _:
            parts = [_openai_file(file) for file in message.files]
            said = {"type": "text", "text": message.text}
            return {"role": "user", "content": [said, *parts] if parts else message.text}


def _openai_file(file: Media) -> dict[str, Any]:
    url = f"data:{file.type};base64,{b64encode(file.data).decode()}"
    if file.is_image:
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": file.name, "file_data": url}}


def _openai(prompt: Prompt, messages: list[Message]) -> dict[str, Any]:
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in prompt.tools
    ]
    said = [{"role": "system", "content": prompt.system}, *map(openai_message, messages)]
    return {"messages": said, "tools": tools}


def _sharegpt_turns(message: Message) -> Iterator[dict[str, str]]:
    match message:
        case AssistantMessage(text=text, calls=calls):
            asked = "".join(
                f'\n<tool_call>\n{{"name": "{call.name}", "arguments": {call.arguments}}}\n'
                "</tool_call>"
                for call in calls
            )
            yield {"from": "gpt", "value": (text + asked).strip()}
        case ToolMessage():
            yield {"from": "tool", "value": f"<tool_response>\n{message.text}\n</tool_response>"}
        case _:
            files = "".join(f"\n<{file.type} {file.name}>" for file in message.files)
            yield {"from": "human", "value": message.text + files}


def _sharegpt(prompt: Prompt, messages: list[Message]) -> dict[str, Any]:
    turns = [{"from": "system", "value": prompt.system}]
    for message in messages:
        turns.extend(_sharegpt_turns(message))
    return {"conversations": turns, "tools": [tool.name for tool in prompt.tools]}


_SHAPES = {"openai": _openai, "sharegpt": _sharegpt}
