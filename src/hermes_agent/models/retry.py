"""Trouble that may pass is tried again."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import Chunk, ModelFacts, Request, Retrying
from hermes_agent.core.protocols import Model
from hermes_agent.core.settings import ModelSettings


class Retried:
    """A model whose passing failures become `Retrying` chunks, with a doubling pause after each.
    A service that names its own pause gets it, or is given up when it asks for too long."""

    def __init__(
        self,
        model: Model,
        settings: ModelSettings,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._settings = settings
        self._sleep = sleep
        self._random = random

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def facts(self) -> ModelFacts:
        return self._model.facts

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        tries = 0
        while True:
            tries += 1
            chunks = self._model.stream(request)
            try:
                async for chunk in chunks:
                    yield chunk
                return
            except ModelError as error:
                pause = self._pause(error, tries)
                if pause is None:
                    raise _counted(error, tries) from error
                again = Retrying(error.kind, error.message, tries, pause)
            finally:
                # A listener that leaves early must not leave the connection behind.
                if isinstance(chunks, AsyncGenerator):
                    await chunks.aclose()
            yield again
            await self._sleep(pause)

    async def close(self) -> None:
        await self._model.close()

    def _pause(self, error: ModelError, tries: int) -> float | None:
        """Seconds to wait before the next try, or None to give up."""
        if not error.passing or tries > self._settings.retries:
            return None
        most = self._settings.retry_most_seconds
        if error.retry_after is not None:
            # Never sooner than asked; a little later, or all sessions come back at once.
            wanted = error.retry_after * (1 + self._random() / 10)
            return min(wanted, most) if error.retry_after <= most else None
        doubled = self._settings.retry_seconds * 2.0 ** (tries - 1)
        return min(doubled, most) * (0.5 + self._random() / 2)


def _counted(error: ModelError, tries: int) -> ModelError:
    if tries == 1:
        return error
    message = f"{error.message} (given up after {tries} tries)"
    return ModelError(error.kind, message, error.hint, error.retry_after)
