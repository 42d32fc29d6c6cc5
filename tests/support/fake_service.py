"""A local server that stands for a whole model service: it lists models, wants a key and answers,
in the formats of Anthropic and OpenAI, or fails as real services do.

By hand: `python -m tests.support.fake_service PORT [KEY] [MODEL...]`."""

import signal
import sys
from collections.abc import Sequence

from tests.support.model_server import ModelServer, Raw, Received
from tests.support.openai_server import FAILURES
from tests.support.wires import Case, anthropic, openai_chat

LOGIN_PAGE = Raw([b"<!doctype html><title>Log in</title>"], 200, {"content-type": "text/html"})


def fake_service(
    models: Sequence[str], *, key: str = "", fails: Raw | None = None, port: int = 0
) -> ModelServer:
    """With `fails`, whatever is asked gets that answer; with `key`, other keys are refused."""

    def answer(received: Received) -> Raw:
        given = received.headers.get("x-api-key") or received.headers.get("authorization", "")
        if fails is not None:
            return fails
        if key and given.removeprefix("Bearer ") != key:
            if "x-api-key" in received.headers:
                return Raw.json(anthropic.refused("authentication_error", "invalid x-api-key"), 401)
            return FAILURES["401"]
        if received.path.endswith("/models"):
            rows = [{"id": name, "object": "model", "max_model_len": 32_000} for name in models]
            return Raw.json({"object": "list", "data": rows})
        if received.path.endswith("/messages"):
            return anthropic.WIRE.answer(Case("short", ("OK",)))
        if received.path.endswith("/chat/completions"):
            return openai_chat.WIRE.answer(Case("short", ("OK",)))
        return FAILURES["404"]

    return ModelServer(answer, port=port)


if __name__ == "__main__":
    with fake_service(
        sys.argv[3:],
        key=sys.argv[2].strip("-"),
        fails=FAILURES.get(sys.argv[2]),
        port=int(sys.argv[1]),
    ):
        signal.pause()
