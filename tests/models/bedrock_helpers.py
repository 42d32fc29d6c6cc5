"""Endpoints of Bedrock and the requests made for them."""

from typing import Any

import msgspec

from hermes_agent.core.messages import Message, Prompt, Request, ToolSpec, UserMessage
from hermes_agent.models.wires.base import Endpoint
from hermes_agent.models.wires.bedrock.request import request_body
from tests.support.wires.bedrock import MODEL, WIRE

TOOLS = (ToolSpec("look", "Look", {"type": "object"}), ToolSpec("now", "", {"type": "object"}))
PROMPT = Prompt("Be brief.", TOOLS)
HI = UserMessage("hi")


def endpoint(root: str = "http://h.example", model: str = MODEL, **facts: Any) -> Endpoint:
    made = WIRE.endpoint(root)
    return msgspec.structs.replace(
        made, model=model, facts=msgspec.structs.replace(made.facts, **facts)
    )


def content(at: Endpoint, *messages: Message, prompt: Prompt = PROMPT) -> list[dict[str, Any]]:
    """The messages without the marks of the cache."""
    made = request_body(at, Request(prompt, messages))
    WIRE.validate(made)
    return list(WIRE.sent(made).messages)
