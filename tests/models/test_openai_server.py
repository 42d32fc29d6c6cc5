"""The server the other tests rely on, with the official client as the judge."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from hermes_agent.core.messages import AssistantMessage, Reply, ToolCall, Usage
from tests.models.helpers import chat, reply, request
from tests.support.openai_server import OpenAIServer
from tests.support.patience import PATIENCE

CALLS = (
    ToolCall("a", "find", '{"pattern": "**/*.py"}'),
    ToolCall("b", "look", '{"at": "everything there is"}'),
)
SCRIPT = [Reply("let me see", CALLS, Usage(11, 7, 5)), Reply("one two three four")]
FIRST: list[Any] = [{"role": "user", "content": "hi"}]
SECOND: list[Any] = [*FIRST, {"role": "assistant", "content": "let me see"}]


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer(SCRIPT) as running:
        yield running


@pytest.fixture
async def official(server: OpenAIServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(
        base_url=server.url, api_key="k", max_retries=0, timeout=PATIENCE
    ) as client:
        yield client


async def test_streamed_text_and_calls_are_read_by_the_official_client(
    official: AsyncOpenAI,
) -> None:
    async with official.chat.completions.stream(
        model="m", messages=FIRST, stream_options={"include_usage": True}
    ) as stream:
        whole = await stream.get_final_completion()
    message = whole.choices[0].message
    assert message.content == "let me see"
    assert [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or ()] == [
        (call.id, call.name, call.arguments) for call in CALLS
    ]
    assert whole.choices[0].finish_reason == "tool_calls"
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (11, 7)
    assert whole.usage.prompt_tokens_details is not None
    assert whole.usage.prompt_tokens_details.cached_tokens == 5


async def test_a_conversation_that_grows_is_stable_and_one_that_changes_is_not(
    server: OpenAIServer,
) -> None:
    model = chat(server.url)
    answer = (await reply(model, request("hi"))).message
    await reply(model, request("other", session="s2"))
    await reply(model, request("hi", answer, "and"))
    server.assert_prefix_stable()
    await reply(model, request("hi", AssistantMessage("let me lie"), "and"))
    await model.close()
    with pytest.raises(AssertionError, match="request 3 of s1 does not begin"):
        server.assert_prefix_stable()
    server.assert_prefix_stable(compactions=1)


async def test_a_changed_beginning_is_no_compaction(server: OpenAIServer) -> None:
    model = chat(server.url)
    await reply(model, request("hi"))
    await reply(model, request("ho"))
    await model.close()
    with pytest.raises(AssertionError):
        server.assert_prefix_stable(compactions=1)


async def test_conversations_without_a_session_are_told_apart_by_their_beginning(
    server: OpenAIServer, official: AsyncOpenAI
) -> None:
    other: list[Any] = [{"role": "user", "content": "other"}]
    for messages in (FIRST, other, SECOND):
        await official.chat.completions.create(model="m", messages=messages)
    assert sorted(len(group) for group in server.conversations().values()) == [1, 2]


def test_the_server_runs_as_a_process_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"turns": [{"replies": [{"say": "hello there"}]}]}))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.openai_server", "--port", "0", "--script", script],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with openai.OpenAI(base_url=url, api_key="k") as client:
            whole = client.chat.completions.create(model="m", messages=FIRST)
        process.terminate()
        assert whole.choices[0].message.content == "hello there"
    assert process.returncode == 0
