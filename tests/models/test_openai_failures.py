import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import Reply
from tests.models.helpers import KEY, chat, chunks, reply, request
from tests.support.awake_loop import pass_time
from tests.support.fake_time import until
from tests.support.model_server import Raw
from tests.support.openai_server import FAILURES, OpenAIServer, text_chunk
from tests.support.patience import PATIENCE

HANGING = ("silent", "stall")

KINDS = {
    "400": "bad_request", "401": "auth", "403": "auth", "404": "bad_request",
    "422": "bad_request", "429": "rate_limit", "500": "overload", "502": "overload",
    "503": "overload", "529": "overload", "quota": "quota", "context": "context_too_long",
    "cut": "broken_stream", "stall": "timeout", "garbage": "garbage", "html": "garbage",
    "empty": "broken_stream", "midway": "overload", "silent": "timeout", "reset": "broken_stream",
}  # fmt: skip


async def failure(how: str | Raw, retry_after: float | str | None = None) -> ModelError:
    async with OpenAIServer() as server:
        server.fail_next(how, retry_after=retry_after)
        model = chat(server.url, silence=PATIENCE)
        asking = asyncio.create_task(chunks(model, request("go")))
        if how in HANGING:
            await until(lambda: server.requests)
            await pass_time(2 * PATIENCE)
        with pytest.raises(ModelError) as raised:
            await asking
        await model.close()
    return raised.value


def test_every_way_to_fail_has_its_kind_here() -> None:
    assert KINDS.keys() == FAILURES.keys()


@pytest.mark.parametrize(("how", "kind"), KINDS.items())
async def test_each_failure_has_its_kind(how: str, kind: str) -> None:
    assert (await failure(how)).kind == kind


@pytest.mark.parametrize("how", [how for how, kind in KINDS.items() if kind == "bad_request"])
async def test_a_rejected_request_names_the_model_and_what_the_service_said(how: str) -> None:
    error = await failure(how)
    assert "openai/test-model" in error.message
    assert any(word in error.message for word in ("nonsense", "does not exist", "field required"))
    assert "hermes model list" in error.hint


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (402, {"error": {"message": "Insufficient Balance"}}, "quota"),
        (403, {"error": {"message": "insufficient credit"}}, "quota"),
        (408, {}, "timeout"),
        (413, {"detail": "payload"}, "context_too_long"),
        (400, {"error": "prompt is too long: 9 tokens"}, "context_too_long"),
        (400, {"error": {"type": "exceed_context_size_error"}}, "context_too_long"),
        (400, [{"error": {"message": "the input exceeds the model's context window"}}],
         "context_too_long"),
        (400, {"error": {"code": "content_filter", "message": "no"}}, "refused"),
        (418, "teapot", "bad_request"),
        (301, {}, "bad_request"),
        (504, {}, "overload"),
    ],
)  # fmt: skip
async def test_services_that_say_it_another_way_are_understood(
    status: int, body: object, kind: str
) -> None:
    error = await failure(Raw([json.dumps(body).encode()], status))
    assert (error.kind, str(status) in error.message) == (kind, True)


async def test_a_pause_in_seconds_is_read() -> None:
    assert (await failure("429", retry_after=7)).retry_after == 7.0
    assert (await failure("503", retry_after="1.5")).retry_after == 1.5
    assert (await failure("429")).retry_after is None
    assert (await failure("429", retry_after="soon")).retry_after is None


async def test_a_pause_in_milliseconds_is_read() -> None:
    assert (await failure(Raw([], 429, {"retry-after-ms": "250"}))).retry_after == 0.25


async def test_a_pause_until_a_date_is_measured_by_the_services_clock() -> None:
    now = datetime(2031, 5, 1, 12, tzinfo=UTC)  # which is not ours
    later, earlier = now + timedelta(seconds=40), now - timedelta(seconds=40)
    assert await pause_until(later, now) == 40.0
    assert await pause_until(earlier, now) == 0.0


async def pause_until(date: datetime, now: datetime) -> float | None:
    """How long a service is left alone whose clock says `now`."""
    said = {"Date": now, "Retry-After": date}
    rows = [f"{name}: {format_datetime(at, usegmt=True)}" for name, at in said.items()]
    head = ("HTTP/1.1 429 Too Many Requests", "Content-Length: 0", "Connection: close", *rows)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(("\r\n".join(head) + "\r\n\r\n").encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        model = chat(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        with pytest.raises(ModelError) as raised:
            await chunks(model, request("go"))
        await model.close()
    return raised.value.retry_after


async def test_a_page_instead_of_an_answer_is_shown_as_plain_text() -> None:
    error = await failure("html")
    assert "502 Bad Gateway" in error.message
    assert "<" not in error.message


async def test_silence_names_its_length() -> None:
    assert f"nothing for {PATIENCE:g} seconds" in (await failure("silent")).message


async def test_a_slow_service_that_keeps_sending_is_waited_for() -> None:
    said = "one two three four five six seven eight nine"
    async with OpenAIServer([Reply(said)], first_delay=0.05, chunk_delay=0.05) as server:
        model = chat(server.url)
        assert (await reply(model, request("go"))).text == said
        await model.close()


async def test_errors_do_not_tell_the_key() -> None:
    leaking = Raw([f'{{"error": {{"message": "bad key {KEY}"}}}}'.encode()], 401)
    page = Raw([f"<p>your header was Bearer {KEY}</p>".encode()])
    stream = Raw([f'data: {{"oops": {KEY}'.encode()])
    for how in (leaking, page, stream):
        error = await failure(how)
        assert KEY not in str(error)
        assert KEY not in repr(error.__cause__)
        assert "[key]" in error.message


async def test_errors_do_not_tell_a_password_in_the_address() -> None:
    model = chat("http://user:secret@no-such-host.invalid/v1")
    with pytest.raises(ModelError) as raised:
        await chunks(model, request("go"))
    await model.close()
    assert "secret" not in str(raised.value)
    assert "http://no-such-host.invalid/v1" in str(raised.value)


async def test_a_stream_that_breaks_says_what_it_has_cost() -> None:
    for how in ("cut", "midway", "garbage"):
        error = await failure(how)
        assert error.input > 0
        assert error.output == 4  # "half an answer", by its characters
    for how in ("429", "empty", "html"):
        error = await failure(how)
        assert (error.input, error.output) == (0, 0)


@pytest.mark.parametrize(
    ("finish", "kind"),
    [("error", "broken_stream"), ("insufficient_system_resource", "overload")],
)
async def test_a_service_that_gives_up_has_given_no_answer(finish: str, kind: str) -> None:
    raw = Raw.events(text_chunk("half"), text_chunk(None, finish), b"data: [DONE]\n\n")
    assert (await failure(raw)).kind == kind
