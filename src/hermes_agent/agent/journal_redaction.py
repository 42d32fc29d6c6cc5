"""Prepares a reply for the journal: without secrets, and with names that every service accepts."""

import re
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from hermes_agent.core.messages import ReasoningBlock, Reply, ToolCall
from hermes_agent.policy.redaction.redactor import Redactor

NAME_CHARS = 64
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


def redact_call(call: ToolCall, redact: Redactor) -> ToolCall:
    """Remove known secrets, and replace characters that services do not accept in names."""
    name = _FORBIDDEN.sub("_", redact.known(call.name)[:NAME_CHARS]) or "unnamed"
    return replace(
        call, id=redact.known(call.id), name=name, arguments=_arguments(call.arguments, redact)
    )


def _arguments(text: str, redact: Redactor) -> str:
    """Remove known secrets from JSON, including those hidden by escapes."""
    if "\\" in text:  # first: escapes that are cut in two would be no JSON
        with suppress(msgspec.MsgspecError, RecursionError):  # invalid: the call is refused anyway
            given = msgspec.json.decode(text)
            clean = _deep(given, redact)
            text = text if clean == given else msgspec.json.encode(clean).decode()
    return redact.known(text)


def _deep(value: Any, redact: Redactor) -> Any:
    if isinstance(value, str):
        return redact.known(value)
    if isinstance(value, list):
        return [_deep(each, redact) for each in value]
    if isinstance(value, dict):
        return {redact.known(name): _deep(each, redact) for name, each in value.items()}
    return value


def redact_thoughts(reply: Reply, redact: Redactor) -> tuple[ReasoningBlock, ...]:
    """Redact reasoning. The service would reject a sealed body whose text was changed, so that is
    left out."""
    if redact(reply.text) != reply.text:
        return ()
    kept = []
    for thought in reply.thoughts:
        text = redact(thought.text)
        sealed = text == thought.text and redact.known(thought.body) == thought.body
        kept.append(replace(thought, text=text, body=thought.body if sealed else ""))
    return tuple(kept)
