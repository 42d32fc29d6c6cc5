import asyncio
import json
from typing import Any

import pytest

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    AssistantMessage,
    Delta,
    Reply,
    Request,
    ToolCall,
    Usage,
)
from hermes_agent.core.settings import ModelSettings, Price
from tests.models.helpers import chat, chunks, reply, request
from tests.support.openai_server import OpenAIServer, Raw, chunk, text_chunk

DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": None}


def call_chunk(*pieces: dict[str, Any]) -> dict[str, Any]:
    return chunk({"content": None, "tool_calls": list(pieces)})


def piece(
    index: int | None, arguments: Any = None, name: str | None = None, id: str | None = None
) -> dict[str, Any]:
    made: dict[str, Any] = {"function": {"name": name, "arguments": arguments}}
    if index is not None:
        made["index"] = index
    return made | ({"id": id} if id is not None else {})


async def answer_to(raw: Raw, asked: Request | None = None) -> Reply:
    async with OpenAIServer([raw], in_order=True) as server:
        model = chat(server.url)
        try:
            return await reply(model, asked or request("go"))
        finally:
            await model.close()


async def test_text_streams_piece_by_piece_and_ends_in_a_reply() -> None:
    said = Reply("one two three four five six seven", usage=Usage(50, 9, 30))
    async with OpenAIServer([said]) as server:
        settings = ModelSettings(prices={"openai/test-model": Price(1.0, 10.0, 0.1)})
        model = chat(server.url, settings)
        *pieces, last = await chunks(model, request("go"))
        await model.close()
    assert len(pieces) == 3
    assert all(isinstance(piece, Delta) for piece in pieces)
    assert last == Reply(
        said.text, (), Usage(50, 9, 30), "end", "openai/test-model",
        pytest.approx((20 * 1.0 + 30 * 0.1 + 9 * 10.0) / 1e6),
    )  # fmt: skip


async def test_parallel_calls_in_interleaved_pieces_are_put_together() -> None:
    calls = (
        ToolCall("a", "find", '{"pattern": "**/*.py", "limit": 20}'),
        ToolCall("b", "find", '{ "pattern" :"é汉"}'),
        ToolCall("c", "find", "{}"),
    )
    async with OpenAIServer([Reply("looking", calls)]) as server:
        model = chat(server.url)
        answer = await reply(model, request("go"))
        await model.close()
    assert answer.calls == calls
    assert (answer.text, answer.stop) == ("looking", "calls")


async def test_a_whole_call_in_one_chunk_is_taken() -> None:
    raw = Raw.events(
        call_chunk(piece(0, '{"a":1}', "find", "x"), piece(1, {"b": 2}, "find", "y")),
        text_chunk(None, "tool_calls"),
        DONE,
    )
    answer = await answer_to(raw)
    assert answer.calls == (ToolCall("x", "find", '{"a":1}'), ToolCall("y", "find", '{"b":2}'))


async def test_calls_without_ids_get_ids_of_their_own() -> None:
    raw = Raw.events(
        call_chunk(piece(0, "{}", "find")),
        call_chunk(piece(1, None, "find", "")),
        text_chunk("", "tool_calls"),
    )
    before = AssistantMessage("", (ToolCall("call-1-0", "find"),))
    first, second = (await answer_to(raw, request("go", before))).calls
    assert len({first.id, second.id, "call-1-0", ""}) == 4
    assert second.arguments == "{}"
    assert (await answer_to(raw, request("go", before))).calls == (first, second)


async def test_an_id_that_the_conversation_has_already_is_replaced() -> None:
    raw = Raw.events(
        call_chunk(piece(0, "{}", "find", "call_0"), piece(1, "{}", "find", "call_0")),
        text_chunk(None, "tool_calls"),
    )
    before = AssistantMessage("", (ToolCall("call_0", "find"),))
    ids = [call.id for call in (await answer_to(raw, request("go", before))).calls]
    assert len({*ids, "call_0"}) == 3


async def test_calls_that_all_claim_index_zero_are_kept_apart_by_their_ids() -> None:
    raw = Raw.events(
        call_chunk(piece(0, '{"a":', "find", "x")),
        call_chunk(piece(0, "1}", "find", "x")),
        call_chunk(piece(0, '{"b":2}', "find", "y")),
        text_chunk(None, "stop"),
        DONE,
    )
    answer = await answer_to(raw)
    assert answer.calls == (ToolCall("x", "find", '{"a":1}'), ToolCall("y", "find", '{"b":2}'))
    assert answer.stop == "calls"


async def test_calls_without_an_index_are_taken_in_their_order() -> None:
    raw = Raw.events(
        call_chunk(piece(None, '{"a":', "find", "x")),
        call_chunk(piece(None, "1}")),
        call_chunk(piece(None, "{}", "look")),
        text_chunk(None, "tool_calls"),
    )
    names = [(call.name, call.arguments) for call in (await answer_to(raw)).calls]
    assert names == [("find", '{"a":1}'), ("look", "{}")]


async def test_a_call_without_a_name_is_garbage() -> None:
    raw = Raw.events(call_chunk(piece(0, "{}", None, "x")), text_chunk(None, "tool_calls"))
    with pytest.raises(ModelError) as raised:
        await answer_to(raw)
    assert raised.value.kind == "garbage"


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "end"), ("length", "length"), ("content_filter", "refused"), ("eos", "end")],
)
async def test_the_reason_for_stopping_is_translated(finish: str, stop: str) -> None:
    answer = await answer_to(Raw.events(text_chunk("hm"), text_chunk(None, finish), DONE))
    assert (answer.text, answer.stop) == ("hm", stop)


async def test_a_refusal_is_its_own_text_and_reason() -> None:
    raw = Raw.events(chunk({"refusal": "I will "}), chunk({"refusal": "not"}, "stop"), DONE)
    answer = await answer_to(raw)
    assert (answer.text, answer.stop) == ("I will not", "refused")


async def test_tokens_are_estimated_when_the_service_counts_none() -> None:
    answer = await answer_to(Raw.events(text_chunk("x" * 40, "stop"), DONE))
    assert answer.usage.output == 10
    assert answer.usage.input > 0


async def test_a_stream_may_end_without_a_last_word() -> None:
    raw = Raw.events(text_chunk("hi", "stop"), {"choices": [], "usage": USAGE})
    assert (await answer_to(raw)).usage == Usage(100, 20)


async def test_a_stream_may_end_without_a_reason() -> None:
    answer = await answer_to(Raw.events(text_chunk("hi"), DONE))
    assert (answer.text, answer.stop) == ("hi", "end")


@pytest.mark.parametrize("end", ["cut", "hang"])
async def test_an_answer_that_is_whole_counts_whatever_happens_after_it(end: Any) -> None:
    raw = Raw.events(
        text_chunk("hi", "stop"), {"choices": [], "usage": USAGE}, b"data: oops\n\n", end=end
    )
    answer = await answer_to(raw)
    assert (answer.text, answer.usage) == ("hi", Usage(100, 20))


async def test_comments_other_fields_and_odd_line_ends_are_passed_over() -> None:
    raw = Raw(
        [
            b": keep-alive\r\n\r\nevent: message\r\nid: 7\r\nretry: 100\r\n",
            b'data:{"choices":[{"delta":{"content":"h\xc3',
            b'\xa9"}}]}\r\n\r\n',
            b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}',
        ]
    )
    assert (await answer_to(raw)).text == "hé"


async def test_separators_inside_a_text_do_not_end_its_line() -> None:
    text = "a\u2028b\u2029c\u0085d\x0be"
    body = b'data: {"choices":[{"delta":{"content":"%s"},"finish_reason":"stop"}]}\n\n'
    raw = Raw([body % text.replace("\x0b", "\\u000b").encode()])
    assert (await answer_to(raw)).text == text


async def test_a_service_that_does_not_stream_is_understood() -> None:
    message = {
        "role": "assistant",
        "content": "here",
        "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "find", "arguments": "{}"}}
        ],
    }
    raw = Raw(
        [_json({"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": USAGE})],
        headers={"content-type": "application/json"},
    )
    answer = await answer_to(raw)
    assert answer.calls == (ToolCall("x", "find", "{}"),)
    assert (answer.text, answer.usage.input) == ("here", 100)


def _json(content: Any) -> bytes:
    return json.dumps(content).encode()


async def test_one_connection_serves_many_calls_in_a_row() -> None:
    async with OpenAIServer([Reply("hi")]) as server:
        model = chat(server.url)
        for _ in range(3):
            await reply(model, request("go"))
        await model.close()
        assert len({received.port for received in server.requests}) == 1


async def test_no_call_waits_for_another() -> None:
    async with OpenAIServer([Reply("hi")]) as server:
        model = chat(server.url)
        asked = [request("go", session=str(number)) for number in range(120)]
        answers = await asyncio.gather(*(reply(model, one) for one in asked))
        await model.close()
        assert [answer.text for answer in answers] == ["hi"] * 120
        assert (await reply(model, asked[0])).text == "hi"  # closed is not broken
        await model.close()


async def test_a_listener_may_leave_in_the_middle() -> None:
    async with OpenAIServer([Reply("one two three four five six")]) as server:
        model = chat(server.url)
        stream = model.stream(request("go"))
        assert isinstance(await anext(stream), Delta)
        await stream.aclose()  # type: ignore[attr-defined]
        assert (await reply(model, request("go"))).stop == "end"
        await model.close()
