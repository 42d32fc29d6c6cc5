"""The HTTP API, driven by OpenAI's own client."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import yaml

from hermes_agent.core import events as ev
from hermes_agent.runtime.api.app import runtime_status
from hermes_agent.runtime.runtime import Runtime
from hermes_agent.web.api import ChatCompletionsApi
from tests.support.fake_time import until
from tests.support.patience import PATIENCE

TOKEN = "a-long-enough-token"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

SCRIPT = {
    "delay": 0.001,
    "turns": [
        {"when": "work", "replies": [
            {"say": "I will look.",
             "calls": [{"tool": "terminal", "with": {"command": "echo hi"}}]},
            {"say": "It says hi."},
        ]},
        {"when": "slow", "replies": [{"say": "never", "wait": 86_400}]},
        {"when": "harm", "replies": [
            {"calls": [{"tool": "terminal", "with": {"command": "rm -rf precious"}}]},
            {"say": "done with it"},
        ]},
        {"when": "second", "replies": [{"say": "That was the second."}]},
        {"replies": [{"say": "The answer is forty-two, as ever."}]},
    ],
}  # fmt: skip


@asynccontextmanager
async def served(folder: Path, **gateway: Any) -> AsyncIterator[tuple[Runtime, str]]:
    home = folder / "home"
    home.mkdir()
    script = folder / "script.yaml"
    script.write_text(yaml.safe_dump(SCRIPT))
    settings = {"listen": "127.0.0.1:0", "token": "API_TOKEN", **gateway}
    (home / "config.yaml").write_text(
        yaml.safe_dump({"gateway": settings, "model": f"scripted/{script}", "policy": "sandbox"})
    )
    environ = {"API_TOKEN": TOKEN}
    runtime = Runtime(home, environ, services=[ChatCompletionsApi])
    await runtime.start()
    try:
        async with asyncio.timeout(PATIENCE):
            while not (door := (await runtime_status(runtime)).get("door", {})).get("address"):
                assert not door.get("trouble"), door
                await asyncio.sleep(0.01)
        yield runtime, f"http://{door['address']}/v1"
    finally:
        await runtime.stop()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[tuple[Runtime, openai.AsyncOpenAI]]:
    async with (
        served(tmp_path) as (runtime, url),
        openai.AsyncOpenAI(api_key=TOKEN, base_url=url, max_retries=0, timeout=PATIENCE) as client,
    ):
        yield runtime, client


Served = tuple[Runtime, openai.AsyncOpenAI]


async def test_a_chat_is_answered(api: Served) -> None:
    _, client = api
    done = await client.chat.completions.create(
        model="hermes", messages=[{"role": "user", "content": "what is it?"}]
    )
    assert done.choices[0].message.content == "The answer is forty-two, as ever."
    assert done.choices[0].finish_reason == "stop"
    assert done.usage is not None
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens > 0
    assert done.id.startswith("chatcmpl-")


async def test_a_chat_is_streamed_with_what_it_did_on_the_way(api: Served) -> None:
    _, client = api
    pieces, usage = [], None
    stream = await client.chat.completions.create(
        model="hermes",
        messages=[{"role": "user", "content": "work on it"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    async for chunk in stream:
        usage = chunk.usage or usage
        pieces += [choice.delta.content or "" for choice in chunk.choices]
    assert "".join(pieces) == "I will look.\n\nIt says hi."
    assert usage is not None
    assert usage.completion_tokens > 0
    assert [piece for piece in pieces if piece] == ["I will look.", "\n\n", "It says hi."]


async def test_a_conversation_that_goes_on_is_known_again(api: Served) -> None:
    runtime, client = api
    talk: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "what is it?"},
    ]
    first = await client.chat.completions.create(model="hermes", messages=talk)
    talk.append({"role": "assistant", "content": first.choices[0].message.content})
    talk.append({"role": "user", "content": "and the second?"})
    second = await client.chat.completions.create(model="hermes", messages=talk)
    assert second.choices[0].message.content == "That was the second."
    (session,) = await runtime.context.store.sessions()
    assert (session.turns, session.source) == (2, "api")
    # Somebody else with the same beginning, or who says otherwise what was answered, is another.
    again = await client.chat.completions.create(model="hermes", messages=talk)
    assert again.choices[0].message.content == "That was the second."
    assert len(await runtime.context.store.sessions()) == 2


async def test_a_named_conversation_is_one_session(api: Served) -> None:
    runtime, client = api
    for text in ("what is it?", "and the second?"):
        await client.chat.completions.create(
            model="hermes",
            messages=[{"role": "user", "content": text}],
            extra_headers={"X-Hermes-Session": "kitchen"},
        )
    (session,) = await runtime.context.store.sessions()
    assert session.turns == 2
    assert "kitchen" not in session.key


async def test_the_same_key_is_submitted_once(api: Served) -> None:
    runtime, client = api
    answers = await asyncio.gather(*(
        client.chat.completions.create(
            model="hermes",
            messages=[{"role": "user", "content": "work on it"}],
            extra_headers={"Idempotency-Key": "order-7"},
        )
        for _ in range(3)
    ))  # fmt: skip
    assert {one.choices[0].message.content for one in answers} == {"It says hi."}
    (session,) = await runtime.context.store.sessions()
    assert session.turns == 1


async def test_the_same_key_is_submitted_once_in_a_conversation_that_is_known(
    api: Served,
) -> None:
    runtime, client = api
    first: Any = [{"role": "user", "content": "work on it"}]
    told = await client.chat.completions.create(model="hermes", messages=first)
    said = {"role": "assistant", "content": told.choices[0].message.content}
    more: Any = [*first, said, {"role": "user", "content": "work on it again"}]
    for _ in range(2):
        await client.chat.completions.create(
            model="hermes", messages=more, extra_headers={"Idempotency-Key": "order-8"}
        )
    taken = [
        one.event.text
        for session in await runtime.context.store.sessions()
        for one in await runtime.context.store.events(session.id)
        if isinstance(one.event, ev.MessageTaken)
    ]
    assert sum("again" in text for text in taken) == 1


async def test_a_key_that_comes_with_something_else_is_refused(api: Served) -> None:
    runtime, client = api

    async def ask(text: str, **more: Any) -> str:
        headers = {"Idempotency-Key": "order-7", **more.pop("headers", {})}
        talk: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
        done = await client.chat.completions.create(
            model="hermes", messages=talk, extra_headers=headers, **more
        )
        return str(done.choices[0].message.content)

    named = {"X-Hermes-Session": "kitchen"}
    for headers in ({}, named):
        first = await ask("work on it", headers=headers)
        assert await ask("work on it", headers=headers) == first
        with pytest.raises(openai.UnprocessableEntityError, match="used for another request") as no:
            await ask("work on another", headers=headers)
        assert no.value.code == "idempotency_key_reused"
    assert sorted(one.turns for one in await runtime.context.store.sessions()) == [1, 1]
    for _ in range(2):  # one that waits behind another
        await client.post("/runs", cast_to=object, body={"input": "slow", "session": "night"},
                          options={"headers": {"Idempotency-Key": "a"}})  # fmt: skip
    for number, input in enumerate(("later", "later", "something else")):
        asked = client.post("/runs", cast_to=object, body={"input": input, "session": "night"},
                            options={"headers": {"Idempotency-Key": "b"}})  # fmt: skip
        if number < 2:
            await asked
        else:
            with pytest.raises(openai.UnprocessableEntityError):
                await asked


async def test_a_title_is_what_is_asked_and_not_what_stands_above_it(api: Served) -> None:
    runtime, client = api
    talk: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "what is it?\nI mean it"},
    ]
    for headers in ({}, {"X-Hermes-Session": "kitchen"}):
        await client.chat.completions.create(model="hermes", messages=talk, extra_headers=headers)
    await client.responses.create(model="hermes", instructions="Be brief.", input="what is it?")
    assert {one.title for one in await runtime.context.store.sessions()} == {"what is it?"}


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("responses", {"input": 5}),
        ("responses", {"input": [5]}),
        ("responses", {"input": [{"role": "user", "content": 5}]}),
        ("responses", {"input": [{"role": "user", "content": [5]}]}),
        ("responses", {"input": [{"role": "user", "content": [{"type": "input_text"}]}]}),
        ("responses", {"input": [{"content": [{"type": "file", "file": 5}]}]}),
        ("responses", {"input": [{"content": [{"type": "image_url", "image_url": 5}]}]}),
        ("responses", {"input": "x", "text": {"format": 5}}),
        ("chat/completions", {"messages": 5}),
        ("chat/completions", {"messages": [{"role": "user", "content": 5}]}),
        ("chat/completions", {"messages": [{"role": "user", "content": ["x"]}]}),
        ("chat/completions", {"messages": [{"role": 5, "content": "x"}]}),
        ("chat/completions", []),
        ("runs", {"input": {"text": "x"}}),
    ],
)
async def test_what_has_another_form_is_a_bad_request(
    api: Served, route: str, body: object
) -> None:
    runtime, client = api
    with pytest.raises(openai.BadRequestError) as refused:
        await client.post(f"/{route}", cast_to=object, body=body)
    assert refused.value.type == "invalid_request_error"
    assert await runtime.context.store.sessions() == []


async def test_a_response_that_goes_on_is_had_again_under_its_key(api: Served) -> None:
    _, client = api
    first = await client.responses.create(model="hermes", input="work on it")
    answers = [
        await client.responses.create(
            model="hermes",
            input="again",
            previous_response_id=first.id,
            extra_headers={"Idempotency-Key": "order-9"},
        )
        for _ in range(2)
    ]
    assert answers[0].id == answers[1].id


async def test_images_come_with_the_message_and_addresses_are_not_fetched(api: Served) -> None:
    runtime, client = api
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"

    async def ask(address: str) -> None:
        part: Any = {"type": "image_url", "image_url": {"url": address}}
        await client.chat.completions.create(
            model="hermes",
            messages=[{"role": "user", "content": [{"type": "text", "text": "look"}, part]}],
        )

    await ask(url)
    (session,) = await runtime.context.store.sessions()
    bodies = [one.event for one in await runtime.context.store.events(session.id)]
    assert [file.data for one in bodies for file in getattr(one, "files", ())] == [PNG]
    with pytest.raises(openai.BadRequestError, match="must come with the message"):
        await ask("http://127.0.0.1:9/cat.png")


async def test_what_is_wrong_is_told_as_the_client_reads_it(api: Served) -> None:
    _, client = api
    talk: Any = [{"role": "user", "content": "what is it?"}]
    with pytest.raises(openai.NotFoundError, match="no model 'gpt-9'"):
        await client.chat.completions.create(model="gpt-9", messages=talk)
    with pytest.raises(openai.BadRequestError, match="only one answer"):
        await client.chat.completions.create(model="hermes", messages=talk, n=2)
    tool: Any = {"type": "function", "function": {"name": "f", "parameters": {}}}
    with pytest.raises(openai.BadRequestError, match="not called"):
        await client.chat.completions.create(model="hermes", messages=talk, tools=[tool])
    with pytest.raises(openai.BadRequestError, match="must be the user's"):
        await client.chat.completions.create(
            model="hermes", messages=[{"role": "assistant", "content": "hm"}]
        )
    with pytest.raises(openai.BadRequestError, match="empty"):
        await client.chat.completions.create(
            model="hermes", messages=[{"role": "user", "content": " "}]
        )
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve("resp_nothing_here")


async def test_strangers_get_nothing(api: Served) -> None:
    runtime, client = api
    for key in ("wrong-token-wrong-token", ""):
        stranger = client.with_options(api_key=key or "-")
        with pytest.raises(openai.AuthenticationError):
            await stranger.models.list()
        with pytest.raises(openai.AuthenticationError):
            await stranger.chat.completions.create(
                model="hermes", messages=[{"role": "user", "content": "work"}]
            )
    async with httpx.AsyncClient(timeout=PATIENCE) as bare:
        answer = await bare.get(f"{client.base_url}models")
        assert (answer.status_code, "server" in answer.headers) == (401, False)
        assert (
            await bare.get(str(client.base_url).replace("/v1/", "/v1/sessions"))
        ).status_code == 404
    assert not await runtime.context.store.sessions()


async def test_models_are_listed(api: Served) -> None:
    _, client = api
    names = [one.id async for one in client.models.list()]
    assert names[0] == "hermes"
    assert (await client.models.retrieve(names[1])).id == names[1]
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("gpt-9")


async def test_whoever_goes_away_stops_the_turn(api: Served) -> None:
    runtime, client = api
    asking = asyncio.create_task(
        client.chat.completions.create(
            model="hermes", messages=[{"role": "user", "content": "be slow"}]
        )
    )
    await until(lambda: runtime.sessions.working, "the turn")
    asking.cancel()  # the client hangs up
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(lambda: not runtime.sessions.working, "its end")
    stream = await client.chat.completions.create(
        model="hermes", messages=[{"role": "user", "content": "slow again"}], stream=True
    )
    await anext(aiter(stream))
    await stream.close()
    await until(lambda: not runtime.sessions.working, "the end of both")
    assert [one.turns for one in await runtime.context.store.sessions()] == [1, 1]


async def test_responses_go_on_from_each_other_and_are_kept(api: Served) -> None:
    runtime, client = api
    first = await client.responses.create(
        model="hermes", input="work on it", instructions="Be brief."
    )
    assert (first.status, first.output_text) == ("completed", "It says hi.")
    second = await client.responses.create(
        model="hermes", input="the second?", previous_response_id=first.id
    )
    assert second.output_text == "That was the second."
    assert len(await runtime.context.store.sessions()) == 1
    kept = await client.responses.retrieve(first.id)
    assert (kept.output_text, kept.status) == ("It says hi.", "completed")
    with pytest.raises(openai.BadRequestError, match="has continued since"):
        await client.responses.create(model="hermes", input="x", previous_response_id=first.id)
    await client.responses.delete(first.id)
    assert not await runtime.context.store.sessions()


async def test_a_response_is_streamed_event_by_event(api: Served) -> None:
    _, client = api
    kinds, text = [], ""
    async with client.responses.stream(model="hermes", input="work on it") as stream:
        async for event in stream:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
        final = await stream.get_final_response()
    assert text == final.output_text == "I will look.\n\nIt says hi."
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert final.usage is not None
    assert final.usage.total_tokens > 0


async def test_a_response_in_the_background_can_be_looked_after_and_cancelled(api: Served) -> None:
    _, client = api
    begun = await client.responses.create(model="hermes", input="be slow", background=True)
    assert begun.status == "in_progress"
    ended = await client.responses.cancel(begun.id)
    assert ended.status == "cancelled"


async def test_a_run_asks_waits_and_goes_on(tmp_path: Path) -> None:
    async with (
        served(tmp_path, api_policy="careful") as (runtime, url),
        httpx.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE
        ) as client,
    ):
        headers = {"Idempotency-Key": "run-1"}
        body = {"input": "do harm", "session": "night"}
        begun = (await client.post("/runs", json=body, headers=headers)).json()
        assert begun["id"].startswith("run_")
        again = await client.post("/runs", json=body, headers=headers)
        assert (again.status_code, again.json()["id"]) == (200, begun["id"])
        path = f"/runs/{begun['id']}"
        async with asyncio.timeout(PATIENCE):
            while (now := (await client.get(path)).json())["status"] != "waiting":
                await asyncio.sleep(0.02)
        (question,) = now["questions"]
        assert "rm -rf precious" in question["text"]
        wrong = await client.post(f"{path}/answers/q-none", json={"answer": "yes"})
        assert wrong.status_code == 404
        assert "always" not in question["choices"]
        ever = await client.post(f"{path}/answers/{question['id']}", json={"answer": "always"})
        assert ever.status_code == 400
        assert not question["yours"]
        yes = await client.post(f"{path}/answers/{question['id']}", json={"answer": "yes"})
        assert (yes.status_code, "may not approve" in yes.text) == (403, True)
        await client.post(f"{path}/answers/{question['id']}", json={"answer": "no"})
        told = (await client.get(f"{path}/events")).text
        assert "event: call_judged" in told
        assert "event: run" in told
        assert (await client.get(path)).json()["output"] == "done with it"
        assert (await client.post(f"{path}/stop")).json()["stopped"] is False
        (session,) = await runtime.context.store.sessions()
        assert session.turns == 1


async def test_no_door_without_a_token(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text(yaml.safe_dump({"gateway": {"listen": "127.0.0.1:0"}}))
    runtime = Runtime(home, {}, services=[ChatCompletionsApi])
    await runtime.start()
    try:
        async with asyncio.timeout(PATIENCE):
            while not (door := (await runtime_status(runtime)).get("door", {})).get("trouble"):
                await asyncio.sleep(0.01)
        assert door["address"] == ""
        assert "gateway.token is not set" in door["trouble"]
    finally:
        await runtime.stop()


@pytest.mark.parametrize(
    ("listen", "mode", "said"),
    [
        ("127.0.0.300:80", 0o600, "not an IP address: '127.0.0.300'"),
        ("127.0.0.1:0", 0o644, "others can read the secrets"),
    ],
)
async def test_why_the_door_is_shut_is_said_and_it_opens_when_that_is_mended(
    tmp_path: Path, listen: str, mode: int, said: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    runtime = Runtime(home, {}, services=[ChatCompletionsApi])
    await runtime.start()

    async def door(key: str) -> str:
        async with asyncio.timeout(PATIENCE):
            while not (found := (await runtime_status(runtime)).get("door", {}).get(key)):
                await asyncio.sleep(0.01)
        return str(found)

    def write(listen: str) -> None:
        settings = {"gateway": {"listen": listen, "token": "API_TOKEN"}}
        (home / "config.yaml").write_text(yaml.safe_dump(settings))

    try:
        (home / ".env").write_text(f"API_TOKEN={TOKEN}\n")
        (home / ".env").chmod(mode)
        write(listen)
        assert said in await door("trouble")
        (home / ".env").chmod(0o600)
        write("localhost:0")
        assert (await door("address")).startswith("127.0.0.1:")
    finally:
        await runtime.stop()


async def test_a_client_that_may_consent_consents(tmp_path: Path) -> None:
    async with (
        served(tmp_path, api_policy="careful", api_consent=True) as (_, url),
        httpx.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE
        ) as client,
    ):
        path = f"/runs/{(await client.post('/runs', json={'input': 'do harm'})).json()['id']}"
        async with asyncio.timeout(PATIENCE):
            while (now := (await client.get(path)).json())["status"] != "waiting":
                await asyncio.sleep(0.02)
        (question,) = now["questions"]
        assert question["yours"]
        yes = await client.post(f"{path}/answers/{question['id']}", json={"answer": "yes"})
        assert yes.status_code == 200
        assert '"ok":true' in (await client.get(f"{path}/events")).text
