"""How a conversation is put to a local model, and how its calls are read back."""

import json

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.messages import (
    AssistantMessage,
    Media,
    Message,
    Prompt,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_agent.models.local.prompt import (
    MAX_SPANS,
    chat_messages,
    examples,
    read_calls,
    spans,
    tools_text,
)
from hermes_agent.runtime.tools.builtin import load_tools
from tests.models.helpers import random_conversation, request

TABLE = tuple(tool.spec for tool in load_tools(["terminal", "files", "people"]))


def chat(*messages: Message, tiny: bool = False) -> list[dict[str, str]]:
    return chat_messages(Prompt("Be brief", TABLE), messages, tiny=tiny)


def test_the_tools_are_described_in_a_line_each() -> None:
    text = tools_text(TABLE)
    assert "read_file(path, start?, lines?, at?): Read a text, PDF" in text
    assert "process(action=follow|list|send|stop, id?" in text
    assert "ask_user(question, choices? list)" in text
    assert len(text.splitlines()) == 1 + len(TABLE)
    schemas = json.dumps([[tool.description, dict(tool.parameters)] for tool in TABLE])
    assert len(text) < len(schemas) / 2


@pytest.mark.parametrize("seed", range(30))
def test_users_and_the_model_take_turns_and_nothing_said_changes(seed: int) -> None:
    conversation = random_conversation(seed)
    for tiny in (False, True):
        whole = chat_messages(conversation.prompt, conversation.messages, tiny=tiny)
        roles = [message["role"] for message in whole]
        assert roles == (["system", *["user", "assistant"] * len(roles)])[: len(roles)]
        for end in range(1, len(conversation.messages)):
            part = chat_messages(conversation.prompt, conversation.messages[:end], tiny=tiny)
            assert whole[: len(part) - 1] == part[:-1]
            assert whole[len(part) - 1]["content"].startswith(part[-1]["content"])


def test_results_and_files_are_told_in_words() -> None:
    image = Media("image/png", b"", "a.png")
    calls = (ToolCall("1", "terminal", '{"at": "x"}'), ToolCall("2", "read_file", "{}"))
    lines = (
        '{"tool": "terminal", "arguments": {"at": "x"}}',
        '{"tool": "read_file", "arguments": {}}',
    )
    said = chat(
        UserMessage("Look", (image,)),
        AssistantMessage("I do.", calls),
        ToolMessage("1", "terminal", "a.png"),
        ToolMessage("2", "read_file", "no path", ok=False),
    )
    assert [message["content"] for message in said[1:]] == [
        "Look\n[a.png (image/png), which you cannot see]",
        "I do.\n" + "\n".join(lines),
        "terminal says:\na.png\n\nread_file failed:\nno path",
    ]


def test_a_tiny_model_is_shown_calls_that_it_could_make() -> None:
    shown = examples(TABLE)
    calls = [
        call for message in shown if isinstance(message, AssistantMessage) for call in message.calls
    ]
    known = {tool.name: tool for tool in load_tools(["terminal", "files", "people"])}
    assert [call.name for call in calls][:3] == ["terminal", "read_file", "write_file"]
    assert all(known[call.name].arguments(call.input()) for call in calls)
    assert chat(UserMessage("Go"), tiny=True)[-1] == {"role": "user", "content": "Go"}
    assert examples(()) == []
    odd = {"type": "object", "properties": {"a": False, "b": True}, "required": ["a", "b"]}
    assert examples((ToolSpec("odd", "Odd", odd),)) == []


def test_what_was_quoted_or_looks_like_a_name_can_be_copied() -> None:
    found = spans(
        (
            UserMessage("Compare src/main.py with ~/notes.txt, and stop 'job 7' or `make all`."),
            AssistantMessage("I shall read made/up.txt"),
            ToolMessage("1", "search_files", "lib/a.c:3: int main() in build-7"),
        )
    )
    assert found[:1] == ("lib/a.c:3",)
    assert {"build-7", "src/main.py", "~/notes.txt", "job 7", "make all"} <= set(found)
    assert "made/up.txt" not in found
    many = UserMessage(" ".join(f"file{number}.txt" for number in range(100)))
    assert len(spans((many,))) == MAX_SPANS


def test_calls_are_read_line_by_line_as_the_model_wrote_them() -> None:
    text = '{"tool": "find", "arguments": {"a":  1}}\n{"tool": "fi\\"nd", "arguments": {}}'
    earlier = AssistantMessage("", (ToolCall("call-1-0", "find"),))
    calls = read_calls(text, request("Go", earlier))
    assert [(call.id, call.name, call.arguments) for call in calls] == [
        ("call-1-1", "find", '{"a":  1}'),
        ("call-1-2", 'fi"nd', "{}"),
    ]


def test_a_call_that_was_cut_off_is_told_to_the_model() -> None:
    whole = '{"tool": "find", "arguments": {"a": "xy"}}'
    (call,) = read_calls(whole[:-5], request("Go"))
    assert call.name == "find"
    with pytest.raises(ToolError, match="the arguments of find are not a JSON object"):
        call.input()
    assert read_calls(whole[:12], request("Go")) == ()
