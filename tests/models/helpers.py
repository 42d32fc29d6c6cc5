"""Short ways to ask a model."""

import random
from collections.abc import AsyncIterator
from typing import Protocol

from hermes_agent.core.messages import (
    AssistantMessage,
    Chunk,
    Delta,
    Message,
    ModelFacts,
    Prompt,
    Reply,
    Request,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_agent.core.settings.services import ModelService
from hermes_agent.models.wires.base import Credential, Endpoint, WireClient
from hermes_agent.models.wires.openai import chat as chat_wire
from hermes_agent.models.wires.openai import responses

KEY = "sk-test-1234567890-do-not-tell"
FIND = ToolSpec(
    "find",
    "Find files",
    {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]},
)


def request(*messages: Message | str, session: str = "s1") -> Request:
    said = tuple(UserMessage(m) if isinstance(m, str) else m for m in messages)
    return Request(Prompt("Be brief", (FIND,)), said, session=session)


class Answering(Protocol):
    """All that is needed of a model here."""

    def stream(self, request: Request) -> AsyncIterator[Chunk]: ...


async def chunks(model: Answering, asked: Request) -> list[Chunk]:
    return [chunk async for chunk in model.stream(asked)]


async def reply(model: Answering, asked: Request) -> Reply:
    """The reply, after checking that the pieces make up its text."""
    *pieces, last = await chunks(model, asked)
    assert isinstance(last, Reply)
    assert "".join(piece.text for piece in pieces if isinstance(piece, Delta)) == last.text
    return last


class Keyed:
    """A speaker with a key, as a model."""

    def __init__(self, speaker: WireClient, credential: Credential) -> None:
        self.speaker = speaker
        self.credential = credential

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        return self.speaker.stream(request, self.credential)

    async def close(self) -> None:
        await self.speaker.close()


def endpoint(
    url: str = "http://x/v1",
    service: ModelService | None = None,
    facts: ModelFacts | None = None,
    *,
    model: str = "test-model",
    silence: float = 120.0,
) -> Endpoint:
    known = facts or ModelFacts()
    return Endpoint(f"openai/{model}", model, service or ModelService(), url, known, silence)


def chat(url: str, facts: ModelFacts | None = None, silence: float = 120.0) -> Keyed:
    """A model that speaks OpenAI's chat format with a server."""
    return speaking(endpoint(url, None, facts, silence=silence))


def speaking(with_: Endpoint, credential: Credential | None = None) -> Keyed:
    module = responses if with_.service.wire == "openai-responses" else chat_wire
    return Keyed(module.open_client(with_), credential or Credential(KEY, label="OPENAI_API_KEY"))


def random_conversation(seed: int) -> Request:
    """Messages of all kinds in an order that can happen, with texts that JSON finds hard."""
    chance = random.Random(seed)
    messages: list[Message] = []

    def text() -> str:
        alphabet = 'ab "\\\n\t\x00\x1f/é汉🙂\u2028\u0085<>&{}[],:'
        return "".join(chance.choices(alphabet, k=chance.randrange(12)))

    for turn in range(chance.randrange(1, 6)):
        messages.append(UserMessage(text()))
        for step in range(chance.randrange(3)):
            calls = tuple(
                ToolCall(
                    f"c{turn}.{step}.{n}", "find", chance.choice(("{}", " { }", "{oops", '""'))
                )
                for n in range(chance.randrange(1, 4))
            )
            messages.append(AssistantMessage(text(), calls))
            messages += [ToolMessage(c.id, c.name, text(), chance.random() < 0.8) for c in calls]
            if chance.random() < 0.2:
                messages.append(UserMessage(text()))
        messages.append(AssistantMessage(text()))
    return request(*messages, session=f"seed-{seed}")
