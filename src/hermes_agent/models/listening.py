"""Reading an answer to its end, as formats do whose events each hold one whole JSON value."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Protocol

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import Delta, Thinking, Usage
from hermes_agent.models.wire import Answer, shown, within

TAIL_SECONDS = 1.0
"""How long to wait for the token count once the answer itself is whole."""

Piece = Delta | Thinking


class Assembly(Protocol):
    """Makes one answer of the events of a stream."""

    @property
    def begun(self) -> bool: ...

    @property
    def finished(self) -> bool:
        """Whether the service has marked the answer as whole."""
        ...

    def take(self, data: bytes) -> Sequence[Piece]:
        """Add an event; what it brought. A `ModelError` when it is none, or bad news."""
        ...

    def spent(self) -> Usage:
        """Tokens used so far, counted by the service or estimated."""
        ...


async def listen(
    answer: Answer, assembly: Assembly, name: str, *, done_ends: bool = False
) -> AsyncGenerator[Piece, None]:
    """The pieces of an answer as they come. An error says what the try has cost. With `done_ends`
    an answer that has begun is whole at `[DONE]`, whether or not it was marked so before."""
    try:
        if answer.is_json():
            # This service does not stream.
            body = await answer.read()
            for piece in assembly.take(body):
                yield piece
            if not assembly.finished:
                raise no_answer(name, "no answer in it", body)
            return
        async with aclosing(answer.events()) as events:
            async for data in events:
                if data == b"[DONE]":
                    if done_ends and assembly.begun:
                        return
                    break
                for piece in assembly.take(data):
                    yield piece
                if assembly.finished:
                    break
            if not assembly.finished:
                raise ModelError("broken_stream", f"{name} stopped in the middle of its answer")
            # Only the token count is still of use. Reading on to the very end also leaves the
            # connection fit for the next call.
            for data in await within(TAIL_SECONDS, events):
                with suppress(ModelError):
                    for piece in assembly.take(data):
                        yield piece
    except ModelError as error:
        if assembly.begun:
            usage = assembly.spent()
            error.input, error.output = usage.input, usage.output
        raise


def no_answer(name: str, why: str, data: bytes) -> ModelError:
    return ModelError("garbage", f"{name} sent something that is no answer ({why}): {shown(data)}")
