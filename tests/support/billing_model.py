"""A model that keeps its own books: what it was truly paid, by its own count of tokens."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import msgspec

from hermes_agent.core.messages import (
    Chunk,
    Delta,
    FailedAttemptUsage,
    ModelFacts,
    Rates,
    Reply,
    Request,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from hermes_agent.core.tools import Tool

EVER = 1_000_000


def facts(input: float, output: float, **more: object) -> ModelFacts:
    """Prices in dollars per million tokens."""
    return msgspec.structs.replace(ModelFacts(rates=(Rates(input, output),)), **more)


async def look(what: str) -> str:
    return f"{what}: " + "it is there, " * 20


LOOK = Tool("look", look, "Look", repeatable=True)


class Paid:
    """Answers at the greatest length it may, and says what that cost only at the end.
    `bytes_per_token` is its way to count; it makes `steps` replies in a turn; `fails` tries of
    each call are paid for and lost. `pause` comes after the first piece."""

    def __init__(
        self,
        model_facts: ModelFacts,
        *,
        name: str = "paid/model",
        bytes_per_token: float = 1.0,
        most: int = EVER,
        steps: int = 1,
        fails: int = 0,
        pause: Callable[[], Awaitable[object]] | None = None,
        others: Mapping[str, ModelFacts] | None = None,
    ) -> None:
        self.name = name
        self.facts = model_facts
        self.requests: list[Request] = []
        self.dollars = 0.0
        self.of: dict[str, tuple[int, float]] = {}
        """Tokens and dollars by session."""
        self.under_way = 0
        self.at_once = 0
        """The most that were under way at the same time."""
        self._bytes = bytes_per_token
        self._most = most
        self._steps = steps
        self._fails = fails
        self._pause = pause or (lambda: asyncio.sleep(0))
        self._others = others or {}

    @property
    def ways(self) -> Mapping[str, ModelFacts]:
        return {self.name: self.facts, **self._others}

    def count(self, request: Request) -> int:
        """Tokens of a request; an image is a thousand."""
        tokens = len(msgspec.json.encode(request.prompt)) / self._bytes
        for message in request.messages:
            files = getattr(message, "files", ())
            words = message if not files else UserMessage(message.text)
            tokens += len(msgspec.json.encode(words)) / self._bytes + 1_000 * len(files)
        return int(tokens)

    def pay(self, request: Request, output: int) -> tuple[Usage, float]:
        usage = Usage(self.count(request), output)
        cost = self.facts.cost(usage) or 0.0
        self.dollars += cost
        tokens, dollars = self.of.get(request.session, (0, 0.0))
        self.of[request.session] = (tokens + usage.total, dollars + cost)
        return usage, cost

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        output = min(self._most, request.max_output or self.facts.max_output)
        self.under_way += 1
        self.at_once = max(self.at_once, self.under_way)
        paid = True
        try:
            for _ in range(self._fails):
                await self._pause()
                yield FailedAttemptUsage(self.name, *self.pay(request, output))
            paid = False
            yield Delta("word")
            await self._pause()
            paid = True
            yield self._reply(request, *self.pay(request, output))
        finally:
            self.under_way -= 1
            if not paid:  # cut off: it has thought for as long as it may, unseen
                self.pay(request, output)

    def _reply(self, request: Request, usage: Usage, cost: float) -> Reply:
        asked = [n for n, one in enumerate(request.messages) if isinstance(one, UserMessage)]
        done = sum(isinstance(one, ToolMessage) for one in request.messages[asked[-1] :])
        calls: tuple[ToolCall, ...] = ()
        if request.prompt.tools and done + 1 < self._steps:
            calls = (ToolCall.of(f"c{len(request.messages)}", "look", what="x"),)
        cut = usage.output == request.max_output and usage.output < self._most
        stop = "calls" if calls else "length" if cut else "end"
        return Reply("word", calls, usage, stop, self.name, cost)

    async def close(self) -> None:
        """Nothing is held."""
