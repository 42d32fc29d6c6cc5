"""What the journal keeps of a reply: no secrets, and names that every service takes back."""

import re
from typing import Any

import msgspec
from msgspec.structs import replace

from hermes_agent.core.messages import ReasoningBlock, Reply, ToolCall
from hermes_agent.policy.redaction.redactor import Redactor

NAME_CHARS = 64
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


def call_to_keep(call: ToolCall, redact: Redactor) -> ToolCall:
    """A call that carries a secret we know is refused later; the journal must not have it. A name
    that no tool can have would be refused by services whenever the conversation is sent."""
    name = _FORBIDDEN.sub("_", redact.known(call.name)[:NAME_CHARS]) or "unnamed"
    return replace(
        call, id=redact.known(call.id), name=name, arguments=_arguments(call.arguments, redact)
    )


def _arguments(text: str, redact: Redactor) -> str:
    """Arguments without known secrets, also where JSON's escapes hide them from a plain look."""
    text = redact.known(text)
    if "\\" not in text:
        return text
    try:
        given = msgspec.json.decode(text)
        clean = _deep(given, redact)
    except (msgspec.MsgspecError, RecursionError):
        return text  # no call is made with it
    return text if clean == given else msgspec.json.encode(clean).decode()


def _deep(value: Any, redact: Redactor) -> Any:
    if isinstance(value, str):
        return redact.known(value)
    if isinstance(value, list):
        return [_deep(each, redact) for each in value]
    if isinstance(value, dict):
        return {redact.known(name): _deep(each, redact) for name, each in value.items()}
    return value


def thoughts_to_keep(reply: Reply, redact: Redactor) -> tuple[ReasoningBlock, ...]:
    """Reasoning to be kept. Where a secret had to be taken out of it, or out of the text that it
    stands in, its service would not know it again: the seal is left out."""
    if redact(reply.text) != reply.text:
        return ()
    kept = []
    for thought in reply.thoughts:
        text = redact(thought.text)
        sealed = text == thought.text and redact.known(thought.body) == thought.body
        kept.append(replace(thought, text=text, body=thought.body if sealed else ""))
    return tuple(kept)
