import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    AssistantMessage,
    Delta,
    ReasoningBlock,
    Reply,
    Request,
    Thinking,
    ToolCall,
    Usage,
)
from hermes_agent.core.settings.services import ModelService, Quirk
from hermes_agent.models.wires.streaming import TAIL_SECONDS
from tests.models.helpers import chat, chunks, endpoint, reply, request, speaking
from tests.support.awake_loop import stand_still
from tests.support.model_server import Raw, event
from tests.support.openai_server import OpenAIServer, chunk, text_chunk
from tests.support.patience import PATIENCE

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


async def answer_to(raw: Raw, asked: Request | None = None, *quirks: Quirk) -> Reply:
    async with OpenAIServer([raw], in_order=True) as server:
        model = speaking(endpoint(server.url, ModelService(quirks=quirks)))
        try:
            return await reply(model, asked or request("go"))
        finally:
            await model.close()


async def test_a_token_count_that_came_while_we_stood_still_is_read() -> None:
    stands_still = threading.Event()

    def pieces() -> Iterator[bytes]:
        yield event(text_chunk("whole", "stop"))
        assert stands_still.wait(PATIENCE)
        yield event({"choices": [], "usage": USAGE})
        yield DONE

    def standing_still() -> None:
        stands_still.set()
        stand_still(TAIL_SECONDS + 0.5)

    async with OpenAIServer([Raw(pieces())], in_order=True) as server:  # type: ignore[arg-type]
        model = chat(server.url)
        stream = model.stream(request("go"))
        assert await anext(stream) == Delta("whole")
        asyncio.get_running_loop().call_later(0.05, standing_still)
        last = await anext(stream)
        await model.close()
    assert isinstance(last, Reply)
    assert last.usage == Usage(100, 20)


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


async def test_no_call_waits_for_another() -> None:
    async with OpenAIServer([Reply("hi")]) as server:
        model = chat(server.url)
        asked = [request("go", session=str(number)) for number in range(120)]
        answers = await asyncio.gather(*(reply(model, one) for one in asked))
        await model.close()
        assert [answer.text for answer in answers] == ["hi"] * 120
        assert (await reply(model, asked[0])).text == "hi"  # closed is not broken
        await model.close()


# reasoning


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_heard_whatever_it_is_called(field: str) -> None:
    raw = Raw.events(
        chunk({"role": "assistant", "content": "", field: ""}),
        chunk({field: "two and ", "content": None}),
        chunk({field: "two"}),
        chunk({"content": "4"}, "stop"),
        DONE,
    )
    answer = await answer_to(raw)
    assert answer.text == "4"
    assert answer.thoughts == (ReasoningBlock("openai/test-model", "two and two"),)


async def test_reasoning_keeps_its_place() -> None:
    raw = Raw.events(
        text_chunk("Let me see. "),
        call_chunk(piece(0, "{}", "find", "x")),
        chunk({"reasoning": "hm"}),
        text_chunk("So.", "tool_calls"),
    )
    (thought,) = (await answer_to(raw)).thoughts
    assert (thought.chars, thought.calls) == (len("Let me see. "), 1)


def detail(kind: str, index: int, **more: Any) -> dict[str, Any]:
    return {"type": f"reasoning.{kind}", "format": "anthropic-claude-v1", "index": index, **more}


async def test_details_of_reasoning_are_put_together_and_kept_whole() -> None:
    streamed: tuple[dict[str, Any], ...] = (
        {"reasoning": "two and ", "reasoning_details": [detail("text", 0, text="two and ")]},
        {"reasoning": "two", "reasoning_details": [detail("text", 0, text="two")]},
        {"reasoning_details": [detail("text", 0, signature="sig", text=None)]},
        {"reasoning_details": [detail("summary", 1, summary="sum", id="r1")]},
        {"reasoning_details": [detail("encrypted", 1, data="gAAA", id="r1")]},
        {"reasoning_details": [detail("encrypted", 1, data="gBBB", id="r1")]},
    )
    raw = Raw.events(*map(chunk, streamed), text_chunk("4", "stop"), DONE)
    answer = await answer_to(raw, None, "reasoning_details")
    (thought,) = answer.thoughts
    assert thought.text == "two and twosum"
    assert "two and" not in thought.body
    async with OpenAIServer([Reply("ok")] * 2) as server:
        model = speaking(endpoint(server.url, ModelService(quirks=("reasoning_details",))))
        await reply(model, request("go", answer.message, "and?"))
        await model.close()
        sent = server.requests[0].json["messages"][2]
    assert sent["reasoning_details"] == [
        detail("text", 0, text="two and two", signature="sig"),
        detail("summary", 1, summary="sum", id="r1"),
        detail("encrypted", 1, data="gAAA", id="r1"),
        detail("encrypted", 1, data="gBBB", id="r1"),
    ]


async def test_details_that_make_no_sense_are_passed_over() -> None:
    odd: list[Any] = [7, "x", [None, 3, {}, {"type": 4, "text": 5}, detail("text", 0, text=7)], {}]
    raw = Raw.events(
        *(chunk({"reasoning_details": each}) for each in odd), text_chunk("4", "stop"), DONE
    )
    answer = await answer_to(raw, None, "reasoning_details")
    assert (answer.text, [thought.text for thought in answer.thoughts]) == ("4", [""])


@pytest.mark.parametrize("size", [1, 3, 9, 1000])
async def test_reasoning_between_tags_is_told_apart(size: int) -> None:
    said = "\n<think>\nIs a < b? </thin king>\n</think>\n\nYes: </think> a<b"
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    raw = Raw.events(*map(text_chunk, pieces), text_chunk(None, "stop"), DONE)
    answer = await answer_to(raw)
    assert [thought.text for thought in answer.thoughts] == ["\nIs a < b? </thin king>\n"]
    assert answer.text == "Yes: </think> a<b"


@pytest.mark.parametrize("said", ["<thin", "  ", "<thinking> hm", "a <think>b</think>", "<"])
async def test_what_only_looks_like_a_tag_is_text(said: str) -> None:
    raw = Raw.events(*map(text_chunk, said), text_chunk(None, "stop"), DONE)
    answer = await answer_to(raw)
    assert (answer.text, answer.thoughts) == (said, ())


async def test_thinking_that_never_ends_is_no_text() -> None:
    raw = Raw.events(text_chunk("<think>on and on </th"), text_chunk(None, "length"), DONE)
    async with OpenAIServer([raw], in_order=True) as server:
        model = chat(server.url)
        *pieces, last = await chunks(model, request("go"))
        await model.close()
    assert "".join(piece.text for piece in pieces if isinstance(piece, Thinking)) == (
        "on and on </th"
    )
    assert isinstance(last, Reply)
    assert (last.text, last.stop) == ("", "length")


# usage, in all the ways it is told


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        ({"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36}, Usage(100, 20, 64)),
        ({"cached_tokens": 64}, Usage(100, 20, 64)),
        (
            {"prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}},
            Usage(100, 20, 60, 30),
        ),
        (
            {"total_tokens": 120, "completion_tokens_details": {"reasoning_tokens": 15}},
            Usage(100, 20, reasoning=15),
        ),
        (
            {"total_tokens": 135, "completion_tokens_details": {"reasoning_tokens": 15}},
            Usage(100, 35, reasoning=15),
        ),
        ({"prompt_tokens_details": {"cached_tokens": 1000}}, Usage(100, 20, 100)),
        ({"completion_tokens": -5}, Usage(100, 0)),
    ],
)
async def test_usage_is_understood_however_it_is_told(said: dict[str, Any], usage: Usage) -> None:
    told = {"prompt_tokens": 100, "completion_tokens": 20, **said}
    raw = Raw.events(text_chunk("hi", "stop"), {"choices": [], "usage": told}, DONE)
    assert (await answer_to(raw)).usage == usage


async def test_usage_may_come_with_the_last_choice() -> None:
    last = text_chunk(None, "stop")
    last["choices"][0]["usage"] = USAGE
    assert (await answer_to(Raw.events(text_chunk("hi"), last, DONE))).usage == Usage(100, 20)


@pytest.mark.parametrize(
    ("said", "cost"),
    [
        ({"cost": 0.0123}, 0.0123),
        ({"cost": 0}, 0.0),
        (
            {"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}},
            pytest.approx(0.21),
        ),
        ({"cost": {"total": 3}}, None),
        ({"cost": -1}, None),
    ],
)
async def test_what_the_service_says_it_cost_counts(said: dict[str, Any], cost: Any) -> None:
    raw = Raw.events(text_chunk("hi", "stop"), {"choices": [], "usage": {**USAGE, **said}}, DONE)
    assert (await answer_to(raw, None, "reported_cost")).cost == cost
    assert (await answer_to(raw)).cost is None, "not everyone is believed"


# calls that were cut


async def test_a_call_that_was_cut_before_its_arguments_is_not_made() -> None:
    raw = Raw.events(
        call_chunk(piece(0, '{"pattern":"x"}', "find", "a")),
        call_chunk(piece(1, "", "find", "b")),
        text_chunk(None, "length"),
        DONE,
    )
    answer = await answer_to(raw)
    assert [call.id for call in answer.calls] == ["a"]
    assert answer.stop == "length"
