"""A conversation as the prompt of a small model, and its tool calls read back. The grammar enforces
the form, so the prompt only lists the tools: a small context window is soon full."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.messages import (
    AssistantMessage,
    Media,
    Message,
    Prompt,
    Request,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_agent.models.shared import known_call_ids, new_call_id

MAX_EXAMPLES = 6
MAX_STRINGS = 4
"""The most arguments of a tool in an example."""
MAX_SPANS = 40
MAX_SPAN = 120

_HOW = """\
To use a tool, answer with nothing but {"tool": NAME, "arguments": {...}}, one line per call; the \
results come next. Else answer in plain text. Tools:"""

_QUOTED = re.compile(r'"([^"\n]+)"|`([^`\n]+)`|(?<!\w)\'([^\'\n]+)\'(?!\w)')
_NAMED = re.compile(r"[^\s\"'`()\[\]{}<>|,;]*[\w~][./\\_@:-][^\s\"'`()\[\]{}<>|,;]*|[./~][\w./-]+")
_CUT_CALL = re.compile(r'\{"tool": "((?:[^"\\]|\\.)*)", "arguments": ', re.DOTALL)


class _Call(Struct, frozen=True):
    tool: str
    arguments: msgspec.Raw


_call = msgspec.json.Decoder(_Call)


def chat_messages(
    prompt: Prompt, messages: Sequence[Message], *, tiny: bool
) -> list[dict[str, str]]:
    """Roles and texts that every chat template knows: results of tools are the user's words, and
    users and the model take turns. A tiny model is shown first how calls are made."""
    chat: list[dict[str, str]] = []
    system = "\n\n".join(filter(None, (prompt.system, tools_text(prompt.tools))))
    if system:
        chat.append({"role": "system", "content": system})
    for message in (*(examples(prompt.tools) if tiny else ()), *messages):
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        text = _text(message)
        if chat and chat[-1]["role"] == role:
            chat[-1]["content"] += f"\n\n{text}"
        else:
            chat.append({"role": role, "content": text})
    return chat


def tools_text(tools: Sequence[ToolSpec]) -> str:
    """One line per tool: name, arguments (`?`: optional) and first sentence."""
    return "\n".join([_HOW, *map(_tool_line, tools)]) if tools else ""


def examples(tools: Sequence[ToolSpec]) -> list[Message]:
    """A short conversation that calls the tools whose required arguments are all strings."""
    shown: list[Message] = []
    values = (f"{letter}{number}" for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz", 1))
    for tool in tools:
        needed = tool.parameters.get("required", ())
        properties = tool.parameters.get("properties", {})
        kinds = {name: kind for name, kind in properties.items() if isinstance(kind, dict)}
        strings = [name for name in needed if kinds.get(name, {}).get("type") == "string"]
        if not 0 < len(needed) == len(strings) <= MAX_STRINGS:
            continue
        arguments = dict(zip(strings, values, strict=False))
        *others, last = [f"{name} '{value}'" for name, value in arguments.items()]
        wanted = f"{', '.join(others)} and {last}" if others else last
        written = ", ".join(f'"{name}": "{value}"' for name, value in arguments.items())
        call = ToolCall("", tool.name, f"{{{written}}}")
        shown += [UserMessage(f"Use {tool.name} with {wanted}"), AssistantMessage("", (call,))]
        if len(shown) == 2 * MAX_EXAMPLES:
            break
    thanks: list[Message] = [UserMessage("Thank you"), AssistantMessage("You are welcome.")]
    hello: list[Message] = [UserMessage("Hello"), AssistantMessage("What can I do for you?")]
    return [*hello, *shown[:2], *thanks, *shown[2:], *thanks] if shown else []


def spans(messages: Sequence[Message]) -> tuple[str, ...]:
    """Quoted texts of the conversation, and words that look like paths, names or ids, latest
    first."""
    found: dict[str, None] = {}
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            continue
        quoted = ["".join(match.groups("")) for match in _QUOTED.finditer(message.text)]
        named = [match[0].rstrip(".:?!-") for match in _NAMED.finditer(message.text)]
        for span in [*quoted, *named]:
            if 0 < len(span) <= MAX_SPAN:
                found.setdefault(span)
            if len(found) == MAX_SPANS:
                return tuple(found)
    return tuple(found)


def read_calls(text: str, request: Request) -> tuple[ToolCall, ...]:
    """The calls in an answer that follows the grammar. A truncated call is kept as it is, so that
    the model is told; without a complete name it is dropped."""
    taken = known_call_ids(request)
    calls = []
    for line in text.split("\n"):
        try:
            call = _call.decode(line)
        except msgspec.MsgspecError:
            cut = _CUT_CALL.match(line)
            if cut is None:
                continue
            name, arguments = msgspec.json.decode(f'"{cut[1]}"', type=str), line[cut.end() :]
        else:
            name, arguments = call.tool, bytes(call.arguments).decode()
        id = new_call_id(request, taken)
        taken.add(id)
        calls.append(ToolCall(id, name, arguments))
    return tuple(calls)


def _text(message: Message) -> str:
    match message:
        case AssistantMessage(text=text, calls=calls):
            return "\n".join(filter(None, (text, *map(_call_line, calls))))
        case ToolMessage(name=name, text=text, ok=ok, files=files):
            return _with_files(f"{name} {'says' if ok else 'failed'}:\n{text}", files)
        case UserMessage(text=text, files=files):
            return _with_files(text, files)


def _with_files(text: str, files: Sequence[Media]) -> str:
    unseen = [f"[{file.name or 'a file'} ({file.type}), which you cannot see]" for file in files]
    return "\n".join([text, *unseen])


def _call_line(call: ToolCall) -> str:
    # As the grammar writes it, so that the model's prompt cache stays valid.
    name = msgspec.json.encode(call.name).decode()
    return f'{{"tool": {name}, "arguments": {call.arguments}}}'


def _tool_line(tool: ToolSpec) -> str:
    required = tool.parameters.get("required", ())
    arguments = ", ".join(
        f"{name}{'' if name in required else '?'}{_choices(schema)}"
        for name, schema in tool.parameters.get("properties", {}).items()
    )
    sentence = " ".join(tool.description.split())
    first = re.split(r"(?<=[.!?])\s", sentence, maxsplit=1)[0]
    return f"{tool.name}({arguments}): {first}"


def _choices(schema: Any) -> str:
    """The possible values of an argument, if its name does not say."""
    if not isinstance(schema, Mapping):
        return ""
    if "enum" in schema:
        return "=" + "|".join(map(str, schema["enum"]))
    return " list" if "array" in schema.get("type", ()) else ""
