"""Repairs a conversation so that strict services accept it."""

import re
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Any

from hermes_agent.core.errors import ToolError
from hermes_agent.core.messages import (
    AssistantMessage,
    Media,
    Message,
    ModelFacts,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The types that most services know."""
BRIDGE = "Understood."
"""Inserted as the model's reply where two user messages in a row would be refused."""
NO_RESULT = "there is no result: the call was cut short"


def paired(messages: Iterable[Message]) -> list[Message]:
    """The conversation with exactly one result per call, right after it and in the order of the
    calls. A result without its call becomes a user message; an empty reply is left out. Appending
    messages never changes what comes before."""
    mended: list[Message] = []
    places: dict[str, int] = {}
    for message in messages:
        match message:
            case AssistantMessage(text="", calls=()):
                continue
            case AssistantMessage(calls=calls):
                mended.append(message)
                places = {call.id: len(mended) + n for n, call in enumerate(calls)}
                mended += [ToolMessage(call.id, call.name, NO_RESULT, ok=False) for call in calls]
            case ToolMessage(call_id=id) if id in places:
                mended[places.pop(id)] = message
            case ToolMessage(name=name, text=text, files=files):
                mended.append(UserMessage(f"[result of {name}]\n{text}", files))
            case UserMessage():
                mended.append(message)
    return mended


_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def short_id(id: str) -> str:
    """A call id in the form that Mistral's models require: nine letters or digits."""
    if _SHORT_ID.fullmatch(id):
        return id
    number = int.from_bytes(sha256(id.encode(errors="replace")).digest())
    letters = []
    for _ in range(9):
        number, at = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[at])
    return "".join(letters)


_NOT_ON_TOP = ("anyOf", "oneOf", "allOf", "enum", "not")


def fitting_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's schema as strict services accept it: an object with `properties`, and no `anyOf` or
    the like at the top level."""
    schema = {word: part for word, part in parameters.items() if word not in _NOT_ON_TOP}
    schema["type"] = "object"
    schema.setdefault("properties", {})
    return schema


def function_tools(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """Tools as the chat formats list them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": fitting_schema(tool.parameters),
            },
        }
        for tool in tools
    ]


def object_arguments(call: ToolCall) -> str:
    """The arguments byte for byte; an empty object where they are none, since the result says what
    was wrong with them."""
    try:
        call.input()
    except (ToolError, RecursionError):
        return "{}"
    return call.arguments or "{}"


def takes(media: Media, facts: ModelFacts, images: Collection[str]) -> bool:
    """Whether a model accepts this file; `images` are the types that its service knows."""
    if media.is_image:
        return facts.sees and media.type in images
    return facts.reads and media.type == "application/pdf"


def in_place_of(media: Media) -> str:
    """The placeholder for a file that a model does not accept."""
    named = f" {media.name}" if media.name else ""
    if media.is_image:
        return f"[image{named}: this model cannot see it]"
    return f"[file{named}: this model cannot read it]"
