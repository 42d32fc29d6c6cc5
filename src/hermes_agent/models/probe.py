"""Tests a model with one small question."""

import time
from collections.abc import AsyncIterator

from msgspec import Struct

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    Chunk,
    Delta,
    FailedAttemptUsage,
    Prompt,
    Reply,
    Request,
    RetryEvent,
    RoutingEvent,
    Thinking,
    Usage,
    UserMessage,
)

QUESTION = Request(Prompt("Answer with one word."), (UserMessage("Say OK."),), max_output=256)


class ModelProbe(Struct, frozen=True):
    """A round trip to a model."""

    model: str
    ok: bool
    text: str = ""
    first_seconds: float | None = None
    """Time to the first chunk."""
    seconds: float = 0.0
    usage: Usage = Usage()
    cost: float | None = None
    steps: tuple[str, ...] = ()
    """Retries and reroutes."""
    trouble: str = ""
    error: str = ""
    hint: str = ""


async def probe(name: str, chunks: AsyncIterator[Chunk]) -> ModelProbe:
    """The outcome of `QUESTION`, whose answer arrives in `chunks`."""
    started = time.perf_counter()
    first: float | None = None
    steps: list[str] = []
    used, spent = Usage(), 0.0
    try:
        async for chunk in chunks:
            match chunk:
                case Delta() | Thinking():
                    first = first if first is not None else time.perf_counter() - started
                case RetryEvent():
                    steps.append(f"retried after {chunk.delay:.1f} s: {chunk.reason}")
                case RoutingEvent():
                    steps.append(f"{chunk.step}: {chunk.reason}")
                case FailedAttemptUsage():
                    used, spent = used + chunk.usage, spent + (chunk.cost or 0.0)
                case Reply():
                    return ModelProbe(
                        chunk.model, True, chunk.text.strip(), first,
                        time.perf_counter() - started, used + chunk.usage,
                        None if chunk.cost is None else chunk.cost + spent, tuple(steps),
                    )  # fmt: skip
    except ModelError as error:
        return ModelProbe(
            name, False, "", first, time.perf_counter() - started, used, spent,
            tuple(steps), error.kind, error.message, error.hint,
        )  # fmt: skip
    raise ModelError("broken_stream", f"{name} ended without a reply")
