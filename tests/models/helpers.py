"""Short ways to ask a model."""

import random

from hermes_agent.core.messages import (
    AssistantMessage,
    Chunk,
    Delta,
    Message,
    Prompt,
    Reply,
    Request,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_agent.core.protocols import Model
from hermes_agent.core.settings import ModelSettings
from hermes_agent.models.openai_chat import OpenAIChat, open_named

KEY = "sk-test-1234567890-do-not-tell"
FIND = ToolSpec(
    "find",
    "Find files",
    {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]},
)


def request(*messages: Message | str, session: str = "s1") -> Request:
    said = tuple(UserMessage(m) if isinstance(m, str) else m for m in messages)
    return Request(Prompt("Be brief", (FIND,)), said, session=session)


async def chunks(model: Model, asked: Request) -> list[Chunk]:
    return [chunk async for chunk in model.stream(asked)]


async def reply(model: Model, asked: Request) -> Reply:
    """The reply, after checking that the pieces make up its text."""
    *pieces, last = await chunks(model, asked)
    assert isinstance(last, Reply)
    assert "".join(piece.text for piece in pieces if isinstance(piece, Delta)) == last.text
    return last


def chat(url: str, settings: ModelSettings | None = None) -> OpenAIChat:
    environ = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY}
    return open_named("openai/test-model", settings or ModelSettings(), environ)


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
