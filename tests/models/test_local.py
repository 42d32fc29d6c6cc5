"""A real model of 135 million parameters, run by llama.cpp in a process of its own. Most tests
share one: to load it takes longer than what they ask."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import pytest_asyncio

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
from hermes_agent.core.settings.services import ModelService
from hermes_agent.models.local.files import end_token, find_model, gguf_facts, model_names
from hermes_agent.models.local.grammar import tool_grammar
from hermes_agent.models.local.model import LocalModel
from hermes_agent.models.local.process import Child
from hermes_agent.models.local.prompt import read_calls
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.runtime.tools.builtin import load_tools

TABLE = tuple(tool.spec for tool in load_tools(["terminal", "files", "people"]))
FEW = tuple(tool for tool in TABLE if tool.name in ("read_file", "process", "search_files"))
SMOL = find_model("smollm2")
SCHEMAS: dict[str, dict[str, Any]] = {
    "sizes": {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": -20, "maximum": 1234},
            "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "kind": {"enum": ["größe", 'a "b"', None, 3]},
        },
        "required": ["size", "share", "kind"],
    },
    "tags": {
        "type": "object",
        "properties": {
            "tags": {
                "type": "array",
                "items": {"type": "string", "maxLength": 3},
                "minItems": 2,
                "maxItems": 3,
            },
            "pair": {"type": "array", "prefixItems": [{"type": "null"}, {}], "items": False},
        },
        "required": ["tags"],
    },
    "tree": {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}}},
    },
    "choice": {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 3}, "b": {"type": "boolean"}},
        "additionalProperties": False,
        "anyOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"c": {}}}],
        "allOf": [{"properties": {"a": {"maximum": 5}}}],
    },
    "loop": {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/loop"}},
        "required": ["x"],
        "$defs": {"loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "null"}]}},
    },
}
shared_loop = pytest.mark.asyncio(loop_scope="module")

ENVIRON = {**os.environ, "SOME_API_KEY": "do-not-tell"}


def endpoint(model: str = "smollm2", url: str = "", context: int = 1024) -> Endpoint:
    facts = msgspec.structs.replace(gguf_facts(SMOL), context=context)
    return Endpoint(f"local/{model}", model, ModelService(wire="local"), url, facts, 60.0)


@asynccontextmanager
async def opened(at: Endpoint | None = None, *, idle: float = 60.0) -> AsyncIterator[LocalModel]:
    model = LocalModel(at or endpoint(), ENVIRON, idle=idle, temperature=0.0)
    try:
        yield model
    finally:
        await model.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model() -> AsyncIterator[LocalModel]:
    async with opened() as shared:
        yield shared


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def child() -> AsyncIterator[Child]:
    shared = await Child.start(SMOL, 1024, ENVIRON)
    try:
        assert (await shared.receive("it", 60.0)).ready
        yield shared
    finally:
        await shared.end()


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


@shared_loop
async def test_a_conversation_goes_on_where_the_model_has_read_it_before(model: LocalModel) -> None:
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


@shared_loop
async def test_a_tiny_model_calls_the_tool_it_is_asked_for_and_copies_the_name(
    model: LocalModel,
) -> None:
    tools = FEW[1:2]
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


@shared_loop
async def test_a_tool_that_nothing_fits_is_not_offered(
    model: LocalModel, caplog: pytest.LogCaptureFixture
) -> None:
    never = ToolSpec("never", "", {"properties": {"x": {"type": "tetx"}}, "required": ["x"]})
    asked = asking("Use read_file with path 'a.md'", tools=(never, FEW[1]), limit=20)
    reply = await answer(model, asked)
    assert [call.name for call in reply.calls] == ["read_file"]
    assert "local/smollm2 cannot use never" in caplog.text


async def written(child: Child, number: int, **body: Any) -> str:
    """All that the process writes to one request."""
    question = [{"role": "user", "content": "Make one."}]
    shown = {"stream": True, "stream_options": {"include_usage": True}}
    await child.ask(number, {"messages": question, **shown, **body})
    said = ""
    while (line := await child.receive("it", 60.0)).done is None:
        assert line.error is None
        said += line.text
    return said


@pytest.mark.slow
@shared_loop
async def test_whatever_a_confused_model_calls_exists_and_fits(child: Child) -> None:
    tools = (*FEW, *(ToolSpec(name, "", schema) for name, schema in SCHEMAS.items()))
    known = {tool.name: tool.parameters for tool in tools}
    # It means itself for ever; only null fits.
    known["loop"] = {"const": {"x": None}}
    grammar = tool_grammar(tools, ("src/app.py", 'a "b"', "größe"), end_token(SMOL))
    grammar = grammar.replace(" | TEXT", "")  # it would rather talk
    whole = set()
    for number in range(len(tools)):
        only = grammar.replace("call: ", f"call: call_{number} //")
        said = await written(
            child, number, grammar=only, max_tokens=32, temperature=1.5, seed=number
        )
        assert child.refused is None
        for line, call in zip(said.split("\n"), read_calls(said, asking("Do it")), strict=False):
            if line.endswith("}}") and msgspec.json.decode(line):
                jsonschema.Draft202012Validator(known[call.name]).validate(call.input())
                whole.add(call.name)
    assert len(whole) >= 3


@pytest.mark.slow
@shared_loop
async def test_an_answer_that_nobody_waits_for_is_given_up(child: Child) -> None:
    body = {
        "messages": [{"role": "user", "content": "Count to one million."}],
        "grammar": 'root ::= "a"*',
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    await child.ask(101, {**body, "max_tokens": 900})
    while not (await child.receive("it", 60.0)).text:
        pass
    child.stop(101)
    await child.ask(102, {**body, "max_tokens": 2})
    late = 0
    while (line := await child.receive("it", 60.0)).done is None:
        late += line.id == 101
    assert line.id == 102
    assert late < 100


@pytest.mark.slow
@shared_loop
async def test_a_listener_that_leaves_does_not_disturb_the_next(model: LocalModel) -> None:
    chunks = model.stream(asking("Tell me a story", limit=900), Credential())
    assert isinstance(await anext(chunks), Delta)
    assert isinstance(chunks, AsyncGenerator)
    await chunks.aclose()
    pid = model.pid
    reply = await answer(model, asking("What is the capital of Japan?", limit=30))
    assert "Tokyo" in reply.text
    assert model.pid == pid


@pytest.mark.slow
@shared_loop
async def test_requests_of_several_sessions_wait_for_each_other(model: LocalModel) -> None:
    asked = [asking(f"{'Again. ' * number}Hello", limit=4 + number) for number in range(3)]
    replies = await asyncio.gather(*(answer(model, each) for each in asked))
    assert [reply.usage.output for reply in replies] == [4, 5, 6]
    lengths = [reply.usage.input for reply in replies]
    assert lengths == sorted(set(lengths))


@pytest.mark.slow
@shared_loop
async def test_a_process_that_is_killed_is_replaced_by_the_next_call(model: LocalModel) -> None:
    chunks = model.stream(asking("Tell me a story", limit=900), Credential())
    assert isinstance(await anext(chunks), Delta)
    assert model.pid is not None
    os.kill(model.pid, signal.SIGKILL)
    with pytest.raises(ModelError, match="signal 9") as caught:
        [chunk async for chunk in chunks]
    assert caught.value.kind == "broken_stream"
    assert (await answer(model, asking("Hello", limit=1))).text


@pytest.mark.slow
@shared_loop
async def test_the_process_ends_when_nobody_asks_for_a_while() -> None:
    async with opened(idle=0.01) as model:
        assert model.pid is None
        async for chunk in model.stream(asking("Hello", limit=1), Credential()):
            if isinstance(chunk, Delta):
                pid = model.pid
        assert pid is not None
        await gone(pid)
        assert (await answer(model, asking("Hello", limit=1))).text


@shared_loop
async def test_the_process_dies_with_its_parent() -> None:
    program = f"""
import asyncio, os, pathlib
from hermes_agent.models.local.process import Child
async def main():
    child = await Child.start(pathlib.Path({str(SMOL)!r}), 512, os.environ)
    print(child.pid, flush=True)
    await child.receive("it", 60.0)
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


@shared_loop
async def test_the_process_listens_nowhere_and_knows_no_keys(child: Child) -> None:
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


@shared_loop
async def test_a_conversation_that_is_longer_than_the_window_is_refused(model: LocalModel) -> None:
    with pytest.raises(ModelError) as caught:
        await answer(model, asking("word " * 1100))
    assert caught.value.kind == "context_too_long"
    assert (await answer(model, asking("Hello", limit=1))).text


@shared_loop
async def test_a_damaged_file_is_named_with_what_is_wrong(tmp_path: Path) -> None:
    with SMOL.open("rb") as whole:
        (tmp_path / "cut.gguf").write_bytes(whole.read(2_000_000))
    async with opened(endpoint("cut", tmp_path.as_uri())) as model:
        with pytest.raises(ModelError, match=r"cannot be loaded.*incomplete") as caught:
            await answer(model, asking("Hello"))
        assert caught.value.kind == "bad_request"
        assert "cut.gguf" in caught.value.hint


@shared_loop
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
    with pytest.raises(UsageError, match="available: mine, smollm2") as caught:
        find_model("other", folder)
    assert "other.gguf" in caught.value.hint


def test_the_facts_of_a_model_are_read_from_its_header(tmp_path: Path) -> None:
    facts = gguf_facts(SMOL)
    assert facts.context == 8192
    assert end_token(SMOL) == 2
    assert facts.priced
    for name, content in {
        "none": b"",
        "other": b"PK\3\4....",
        "cut": SMOL.read_bytes()[:60],
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(UsageError, match="is not a usable model"):
            gguf_facts(path)
