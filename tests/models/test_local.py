"""A real model of 135 million parameters, run by llama.cpp in a process of its own."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import jsonschema
import msgspec
import pytest

from hermes_agent.core.errors import ModelError, UsageError
from hermes_agent.core.messages import (
    Delta,
    Message,
    Prompt,
    Reply,
    Request,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_agent.core.services import Service
from hermes_agent.models.local.child import Child
from hermes_agent.models.local.files import find_model, gguf_facts, model_names
from hermes_agent.models.local.grammar import tool_grammar
from hermes_agent.models.local.model import LocalModel
from hermes_agent.models.speaking import Credential, Endpoint
from hermes_agent.runtime.toolbox import load_tools

TABLE = tuple(tool.spec for tool in load_tools(["terminal", "files", "people"]))
FEW = tuple(tool for tool in TABLE if tool.name in ("read_file", "process", "search_files"))
SMOL = find_model("smollm2")


def endpoint(model: str = "smollm2", url: str = "", context: int = 1024) -> Endpoint:
    facts = msgspec.structs.replace(gguf_facts(SMOL), context=context)
    return Endpoint(f"local/{model}", model, Service(wire="local"), url, facts, 60.0)


@asynccontextmanager
async def opened(
    at: Endpoint | None = None, *, idle: float = 60.0, temperature: float = 0.0
) -> AsyncIterator[LocalModel]:
    model = LocalModel(at or endpoint(), os.environ, idle=idle, temperature=temperature)
    try:
        yield model
    finally:
        await model.close()


def asking(
    *said: Message | str, tools: tuple[ToolSpec, ...] = (), limit: int | None = 12
) -> Request:
    messages = tuple(UserMessage(text) if isinstance(text, str) else text for text in said)
    return Request(Prompt("You are a helpful assistant.", tools), messages, max_output=limit)


async def answer(model: LocalModel, request: Request) -> Reply:
    """The reply, after checking that the pieces make up its text."""
    *pieces, last = [chunk async for chunk in model.stream(request, Credential())]
    assert isinstance(last, Reply)
    assert "".join(piece.text for piece in pieces if isinstance(piece, Delta)) == last.text
    return last


async def gone(pid: int) -> None:
    """Wait until there is no such process."""
    while Path(f"/proc/{pid}").exists():
        await asyncio.sleep(0.02)


async def test_a_conversation_goes_on_where_the_model_has_read_it_before() -> None:
    async with opened() as model:
        first = await answer(model, asking("What is the capital of Japan?", limit=30))
        assert "Tokyo" in first.text
        assert (first.stop, first.cost, first.model) == ("end", 0.0, "local/smollm2")
        assert first.usage.input > 10
        assert 0 < first.usage.output < 30
        assert first.usage.cached == 0
        more = asking("What is the capital of Japan?", first.message, "Are you sure?", limit=3)
        second = await answer(model, more)
        assert second.stop == "length"
        assert second.usage.output == 3
        assert first.usage.input <= second.usage.cached < second.usage.input


async def test_whatever_a_confused_model_calls_exists_and_fits() -> None:
    chance, known = Random(1), {tool.name: tool.parameters for tool in FEW}
    words = ("read", "find 'x'", "a.txt", "every line", "of src/app.py", "`ls -l`", "job-7", "12?")
    whole = 0
    async with opened(temperature=1.8) as model:
        for tool in FEW * 3:
            wanted = " ".join(chance.choices(words, k=4))
            asked = asking(f"Use {tool.name} with {wanted}", tools=FEW, limit=28)
            reply = await answer(model, asked)
            calls = reply.calls[:-1] if reply.stop == "length" else reply.calls
            for call in calls:
                jsonschema.Draft202012Validator(known[call.name]).validate(call.input())
            whole += len(calls)
            assert bool(reply.text) != bool(reply.calls)
    assert whole


async def test_a_tiny_model_calls_the_tool_it_is_asked_for_and_copies_the_name() -> None:
    tools = FEW[1:2]
    async with opened() as model:
        asked = asking("Use read_file with path 'notes/today.md'", tools=tools, limit=60)
        reply = await answer(model, asked)
        assert reply.stop == "calls"
        assert [call.name for call in reply.calls] == ["read_file"]
        assert reply.calls[0].input()["path"] == "notes/today.md"
        results = [ToolMessage(call.id, call.name, "1|Buy milk") for call in reply.calls]
        after = await answer(
            model, asking(*asked.messages, reply.message, *results, tools=tools, limit=5)
        )
        assert after.usage.cached >= reply.usage.input


async def test_the_library_takes_every_kind_of_grammar_we_write() -> None:
    schema = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": -20, "maximum": 1234},
            "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "tags": {
                "type": "array",
                "items": {"type": "string", "maxLength": 3},
                "minItems": 2,
                "maxItems": 3,
            },
            "kind": {"enum": ["größe", 'a "b"', None, 3]},
            "pair": {"type": "array", "prefixItems": [{"type": "null"}, {}], "items": False},
            "tree": {"$ref": "#/$defs/tree"},
            "any": {"anyOf": [{"type": "boolean"}, {"type": "object"}]},
        },
        "required": ["size", "share", "tags", "kind", "pair", "tree"],
        "additionalProperties": False,
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {"next": {"$ref": "#/$defs/tree"}},
                "additionalProperties": False,
            }
        },
    }
    tool = ToolSpec("make", "Make one.", schema)
    body = {
        "messages": [{"role": "user", "content": "Make one."}],
        "grammar": tool_grammar((tool,)).replace(" | text\n", "\n").replace("{0,7}", "{0,0}"),
        "max_tokens": 24,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    child = await Child.start(SMOL, 512, os.environ)
    try:
        assert (await child.hear("it", 60.0)).ready
        await child.ask(1, body)
        said = ""
        while (line := await child.hear("it", 60.0)).done is None:
            assert line.error is None
            said += line.text
        assert said.startswith('{"tool": "make", ')
    finally:
        await child.end()


async def test_an_answer_that_nobody_waits_for_is_given_up() -> None:
    child = await Child.start(SMOL, 4096, os.environ)
    body = {
        "messages": [{"role": "user", "content": "Count to one million."}],
        "grammar": 'root ::= "a"*',
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    try:
        assert (await child.hear("it", 60.0)).ready
        await child.ask(1, {**body, "max_tokens": 4000})
        while not (await child.hear("it", 60.0)).text:
            pass
        child.stop(1)
        await child.ask(2, {**body, "max_tokens": 2})
        late = 0
        while (line := await child.hear("it", 60.0)).done is None:
            late += line.id == 1
        assert line.id == 2
        assert late < 100
    finally:
        await child.end()


async def test_a_listener_that_leaves_does_not_disturb_the_next() -> None:
    async with opened() as model:
        chunks = model.stream(asking("Tell me a story", limit=900), Credential())
        assert isinstance(await anext(chunks), Delta)
        assert isinstance(chunks, AsyncGenerator)
        await chunks.aclose()
        pid = model.pid
        reply = await answer(model, asking("What is the capital of Japan?", limit=30))
        assert "Tokyo" in reply.text
        assert model.pid == pid


async def test_requests_of_several_sessions_wait_for_each_other() -> None:
    async with opened() as model:
        asked = [asking(f"{'Again. ' * number}Hello", limit=4 + number) for number in range(3)]
        replies = await asyncio.gather(*(answer(model, each) for each in asked))
        assert [reply.usage.output for reply in replies] == [4, 5, 6]
        lengths = [reply.usage.input for reply in replies]
        assert lengths == sorted(set(lengths))


async def test_a_process_that_is_killed_is_replaced_by_the_next_call() -> None:
    async with opened() as model:
        chunks = model.stream(asking("Tell me a story", limit=900), Credential())
        assert isinstance(await anext(chunks), Delta)
        assert model.pid is not None
        os.kill(model.pid, signal.SIGKILL)
        with pytest.raises(ModelError, match="signal 9") as caught:
            [chunk async for chunk in chunks]
        assert caught.value.kind == "broken_stream"
        assert (await answer(model, asking("Hello"))).text


async def test_the_process_ends_when_nobody_asks_for_a_while() -> None:
    async with opened(idle=0.01) as model:
        assert model.pid is None
        async for chunk in model.stream(asking("Hello", limit=1), Credential()):
            if isinstance(chunk, Delta):
                pid = model.pid
        assert pid is not None
        await gone(pid)
        assert (await answer(model, asking("Hello", limit=1))).text


async def test_the_process_dies_with_its_parent() -> None:
    program = f"""
import asyncio, os, pathlib
from hermes_agent.models.local.child import Child
async def main():
    child = await Child.start(pathlib.Path({str(SMOL)!r}), 512, os.environ)
    print(child.pid, flush=True)
    await child.hear("it", 60.0)
    print("ready", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    assert await parent.stdout.readline() == b"ready\n"
    parent.kill()
    assert await parent.wait() == -signal.SIGKILL
    await gone(pid)


async def test_the_process_listens_nowhere_and_knows_no_keys() -> None:
    environ = {**os.environ, "SOME_API_KEY": "do-not-tell"}
    child = await Child.start(SMOL, 512, environ)
    try:
        assert (await child.hear("it", 60.0)).ready
        process = Path(f"/proc/{child.pid}")
        assert b"do-not-tell" not in (process / "environ").read_bytes()
        held = {link.readlink().name for link in (process / "fd").iterdir()}
        held = {name[len("socket:[") : -1] for name in held if name.startswith("socket:[")}
        for table in ("tcp", "tcp6"):
            rows = (process / "net" / table).read_text().splitlines()[1:]
            assert not held & {row.split()[9] for row in rows}
        named = [row.split() for row in (process / "net" / "unix").read_text().splitlines()[1:]]
        paths = [Path(row[7]) for row in named if row[6] in held and len(row) > 7]
        assert not [path for path in paths if path.exists()]
    finally:
        await child.end()


async def test_a_conversation_that_is_longer_than_the_window_is_refused() -> None:
    async with opened(endpoint(context=256)) as model:
        with pytest.raises(ModelError) as caught:
            await answer(model, asking("word " * 300))
        assert caught.value.kind == "context_too_long"
        assert (await answer(model, asking("Hello", limit=1))).text


async def test_a_damaged_file_is_named_with_what_is_wrong(tmp_path: Path) -> None:
    with SMOL.open("rb") as whole:
        (tmp_path / "cut.gguf").write_bytes(whole.read(2_000_000))
    async with opened(endpoint("cut", tmp_path.as_uri())) as model:
        with pytest.raises(ModelError, match=r"cannot be loaded.*incomplete") as caught:
            await answer(model, asking("Hello"))
        assert caught.value.kind == "bad_request"
        assert "cut.gguf" in caught.value.hint


async def test_a_model_that_is_not_there_is_a_model_error() -> None:
    async with opened(endpoint("/no/such.gguf")) as model:
        with pytest.raises(ModelError, match=r"no model at '/no/such.gguf'") as caught:
            await answer(model, asking("Hello"))
        assert caught.value.kind == "bad_request"


def test_models_are_found_by_name_by_path_and_in_packages(tmp_path: Path) -> None:
    mine = tmp_path / "my models" / "mine.gguf"
    mine.parent.mkdir()
    mine.write_bytes(b"GGUF")
    folder = mine.parent.as_uri()
    assert find_model("mine", folder) == mine
    assert find_model(str(mine)) == mine
    assert find_model("smollm2", folder) == SMOL
    assert model_names(folder) == ("mine", "smollm2")
    with pytest.raises(UsageError, match="there are: mine, smollm2") as caught:
        find_model("other", folder)
    assert "other.gguf" in caught.value.hint


def test_the_facts_of_a_model_are_read_from_its_header(tmp_path: Path) -> None:
    facts = gguf_facts(SMOL)
    assert facts.context == 8192
    assert facts.priced
    for name, content in {
        "none": b"",
        "other": b"PK\3\4....",
        "cut": SMOL.read_bytes()[:60],
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(UsageError, match="is no model that can be used"):
            gguf_facts(path)
