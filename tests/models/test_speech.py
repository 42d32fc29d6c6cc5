"""Recordings go to a service as OpenAI's format has it; what goes wrong is said."""

from base64 import b64encode
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core.errors import ModelError, UsageError
from hermes_agent.core.messages import Media
from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.core.settings.services import ServiceSettings
from hermes_agent.models.media.service import MediaModel
from hermes_agent.models.media.speaking import plain_words
from hermes_agent.models.registry import ModelRegistry
from tests.support.model_server import ModelServer, Raw, Received

KEY = "sk-a-secret-of-ours"
MEMO = Media("audio/ogg; codecs=opus", b"OggS\x00\r\n--sound", 'voi"ce\r\n')
HEARD = Raw.json({"text": " Is the server up? \n", "usage": {"type": "duration", "seconds": 2}})


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as one:
        yield one


def speech(
    server: ModelServer, folder: Path, model: str = "whisper-1", **changes: Any
) -> MediaModel:
    row = ServiceSettings(url=f"{server.root}/v1", key_variables=("EAR_KEY",), **changes)
    settings = ModelSettings(services={"ear": row})
    models = ModelRegistry(settings, {"EAR_KEY": KEY}, folder, sleep=_at_once)
    return models.media(f"ear/{model}")


async def _at_once(_seconds: float) -> None: ...


def parts(received: Received) -> dict[str, Any]:
    head = f"content-type: {received.headers['content-type']}\r\n\r\n".encode()
    whole: Any = message_from_bytes(head + received.body)
    return {
        part.get_param("name", header="content-disposition"): part for part in whole.get_payload()
    }


async def test_a_memo_is_sent_as_a_form_and_its_words_come_back(
    server: ModelServer, tmp_path: Path
) -> None:
    server.answer_next(HEARD)
    assert await speech(server, tmp_path).transcribe(MEMO) == "Is the server up?"
    (asked,) = server.requests
    assert (asked.method, asked.path) == ("POST", "/v1/audio/transcriptions")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    sent = parts(asked)
    assert sent["model"].get_payload() == "whisper-1"
    assert sent["response_format"].get_payload() == "json"
    assert sent["file"].get_payload(decode=True) == MEMO.data
    assert sent["file"].get_filename() == "voi_ce__.ogg"
    assert sent["file"].get_content_type() == "audio/ogg"


async def test_a_service_may_want_its_key_and_its_version_elsewhere(
    server: ModelServer, tmp_path: Path
) -> None:
    server.answer_next(HEARD)
    ear = speech(server, tmp_path, quirks=("api_key_header",), query={"api-version": "2026"})
    await ear.transcribe(MEMO)
    (asked,) = server.requests
    assert asked.headers["api-key"] == KEY
    assert "authorization" not in asked.headers
    assert asked.query == "api-version=2026"


@pytest.mark.parametrize(
    "trouble",
    [
        Raw.json({"error": {"message": "Overloaded"}}, 503),
        Raw.json({"error": {"message": "Slow down"}}, 429, retry_after="1"),
        Raw(status=0, end="reset"),
        Raw.json({"text": 5}),
    ],
)
async def test_trouble_that_may_pass_is_tried_again(
    server: ModelServer, tmp_path: Path, trouble: Raw
) -> None:
    server.answer_next(trouble, 2)
    server.answer_next(HEARD)
    assert await speech(server, tmp_path).transcribe(MEMO) == "Is the server up?"
    server.answer_next(trouble, 3)
    with pytest.raises(ModelError):
        await speech(server, tmp_path).transcribe(MEMO)
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (Raw.json({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401), "key"),
        (Raw.json({"error": {"message": "Invalid file format."}}, 400), "Invalid file format"),
        (Raw.json({"error": {"message": "no such route"}}, 404), "no such route"),
    ],
)
async def test_what_does_not_pass_is_said_at_once_without_the_key(
    server: ModelServer, tmp_path: Path, trouble: Raw, said: str
) -> None:
    server.answer_next(trouble)
    with pytest.raises(ModelError, match=said) as refused:
        await speech(server, tmp_path).transcribe(MEMO)
    assert KEY not in f"{refused.value}{refused.value.hint}"
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", ["nosuch/whisper", "anthropic/ear", "openai", "openai/"])
def test_who_cannot_hear_is_refused(tmp_path: Path, name: str) -> None:
    models = ModelRegistry(
        ModelSettings(), {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}, tmp_path
    )
    with pytest.raises(UsageError):
        models.media(name)


async def test_without_a_key_the_way_to_one_is_said(tmp_path: Path) -> None:
    ear = ModelRegistry(ModelSettings(), {}, tmp_path).media("openai/whisper-1")
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        await ear.transcribe(MEMO)


async def test_a_picture_is_asked_for_and_decoded(server: ModelServer, tmp_path: Path) -> None:
    server.answer_next(Raw.json({"data": [{"b64_json": b64encode(b"\x89PNG").decode()}]}))
    assert await speech(server, tmp_path).draw("a lighthouse", "auto") == b"\x89PNG"
    (asked,) = server.requests
    assert asked.path == "/v1/images/generations"
    assert asked.json == {"model": "whisper-1", "prompt": "a lighthouse", "n": 1}
    server.answer_next(Raw.json({"data": [], "key": KEY}))
    with pytest.raises(ModelError, match="answered without a picture") as refused:
        await speech(server, tmp_path).draw("a lighthouse", "auto")
    assert KEY not in str(refused.value)
    assert len(server.requests) == 2  # another one may cost again


async def test_a_model_that_would_answer_with_an_address_is_asked_for_the_picture(
    server: ModelServer, tmp_path: Path
) -> None:
    for model in ("dall-e-3", "gpt-image-1"):
        server.answer_next(Raw.json({"data": [{"b64_json": b64encode(b"\x89PNG").decode()}]}))
        await speech(server, tmp_path, model).draw("a lighthouse", "1024x1024")
    older, newer = (one.json for one in server.requests)
    assert (older["response_format"], older["size"]) == ("b64_json", "1024x1024")
    assert "response_format" not in newer


def test_addresses_are_not_spoken() -> None:
    assert plain_words("**See** https://x.example/a_b or [here](https://y)") == "See or here"
