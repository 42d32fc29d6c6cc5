"""A model on this machine: a GGUF file that llama.cpp runs in a process of its own. A crash of
native code cannot harm the runtime, and the memory is freed when the model is idle."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hermes_agent.core.errors import ModelError, ModelTrouble, UsageError
from hermes_agent.core.installation.extras import install_hint
from hermes_agent.core.messages import Chunk, Delta, Reply, Request, Stop, ToolSpec, Usage
from hermes_agent.models.local.files import end_token, find_model, trained_context
from hermes_agent.models.local.grammar import tool_grammar
from hermes_agent.models.local.process import Child, WorkerDone, WorkerLine, WorkerTrouble
from hermes_agent.models.local.prompt import chat_messages, read_calls, spans
from hermes_agent.models.shared import replies_so_far
from hermes_agent.models.wires.base import Credential, Endpoint

logger = logging.getLogger(__name__)

IDLE_SECONDS = 300.0
"""How long an idle process waits for the next request before it ends."""
TINY_BYTES = 1024**3
"""A model up to this size is shown examples of calls, and may only copy names from the
conversation: otherwise it talks about tools instead of calling them, and invents paths."""
TEMPERATURE = 0.2


class LocalModel:
    """One local model. Requests are queued: there is one process and one context."""

    def __init__(
        self,
        endpoint: Endpoint,
        environ: Mapping[str, str],
        *,
        idle: float = IDLE_SECONDS,
        temperature: float = TEMPERATURE,
    ) -> None:
        self._endpoint = endpoint
        self._environ = environ
        self._idle = idle
        self._temperature = temperature
        self._queue = asyncio.Lock()
        self._child: Child | None = None
        self._last_id = 0
        self._refused: list[ToolSpec] = []
        self._idle_timer: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        return self._child.pid if self._child is not None and self._child.usable else None

    async def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        del credential  # no key needed
        path = self._find()
        said, with_tools = "", bool(request.prompt.tools)
        async with self._queue:
            try:
                child = await self._ready(path)
                async with aclosing(self._lines(child, request, path)) as lines:
                    async for line in lines:
                        said += line.text
                        # A text never begins with a brace; calls are shown when they are complete.
                        if line.text and not (with_tools and said.startswith("{")):
                            yield Delta(line.text)
                        done = line.done
            finally:
                self._end_when_idle()
        assert done is not None  # the last line has it
        yield self._reply(request, said, done, is_calls=with_tools and said.startswith("{"))

    async def close(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        child, self._child = self._child, None
        if child is not None:
            await child.end()

    def _end_when_idle(self) -> None:
        if self._child is not None:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(self._idle, self._child.leave)

    def _find(self) -> Path:
        try:
            path = find_model(self._endpoint.model, self._endpoint.url)
            trained_context(path)
        except UsageError as error:
            raise ModelError("bad_request", error.message, error.hint) from None
        if find_spec("xllamacpp") is None:
            raise ModelError(
                "bad_request",
                f"{self._endpoint.name} needs llama.cpp, which is not installed",
                install_hint("local"),
            )
        return path

    def _body(self, request: Request, path: Path, tools: Sequence[ToolSpec]) -> dict[str, Any]:
        tiny = path.stat().st_size <= TINY_BYTES
        grammar = tool_grammar(tools, spans(request.messages) if tiny else (), end_token(path))
        return {
            "messages": chat_messages(request.prompt, request.messages, tiny=tiny),
            "max_tokens": request.max_output or self._endpoint.facts.max_output,
            "temperature": self._temperature,
            # The same request gets the same answer.
            "seed": replies_so_far(request),
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,
            "chat_template_kwargs": {"enable_thinking": False},
            **({"grammar": grammar} if grammar else {}),
        }

    async def _ready(self, path: Path) -> Child:
        """The process with the model loaded; started if necessary."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._child is not None and not self._child.usable:
            await self._child.end()
            self._child = None
        context = min(self._endpoint.facts.context, trained_context(path))
        if self._child is None:
            try:
                self._child = await Child.start(path, context, self._environ)
            except OSError as error:
                raise ModelError(
                    "overload", f"the process of {self._endpoint.name} cannot be started: {error}"
                ) from None
        while not self._child.ready:
            first = self._endpoint.first or self._endpoint.silence
            line = await self._child.receive(self._endpoint.name, first)
            if line.failed:
                # It ends by itself; its log, which a thread writes, says why.
                await self._child.end(self._endpoint.silence)
                why = self._child.first_error() or line.failed
                raise ModelError(
                    "bad_request",
                    f"{self._endpoint.name} cannot be loaded: {why}",
                    f"check {str(path)!r} and that there is memory for {context} tokens",
                )
            self._child.ready = line.ready
        return self._child

    async def _lines(
        self, child: Child, request: Request, path: Path
    ) -> AsyncGenerator[WorkerLine, None]:
        """The lines of one answer; cancels it if the consumer stops early. A tool whose schema the
        library refuses is not offered to it again."""
        begun = ended = False
        while not ended:
            self._last_id += 1
            id = self._last_id
            tools = [tool for tool in request.prompt.tools if tool not in self._refused]
            try:
                await child.ask(id, self._body(request, path, tools))
                while not ended:
                    line = await child.receive(self._endpoint.name, self._endpoint.silence)
                    if line.id != id:
                        continue  # the rest of a cancelled answer
                    if child.refused and not begun:
                        self._refuse(tools, *child.refused)
                        break
                    begun = begun or bool(line.text)
                    ended = line.done is not None or line.error is not None
                    if line.error is not None:
                        raise self._failed(line.error)
                    yield line
            finally:
                if not ended:
                    child.stop(id)

    def _refuse(self, tools: Sequence[ToolSpec], index: int, why: str) -> None:
        tool = tools[index]
        logger.warning("%s cannot use %s: %s", self._endpoint.name, tool.name, why)
        self._refused.append(tool)

    def _failed(self, trouble: WorkerTrouble) -> ModelError:
        name = self._endpoint.name
        if trouble.type == "exceed_context_size_error":
            return ModelError(
                "context_too_long",
                f"{name} cannot take a conversation this long: {trouble.message}",
                "set its window in models.context_tokens so that Hermes summarises in time",
            )
        kind: ModelTrouble = "bad_request" if trouble.code < 500 else "overload"
        return ModelError(kind, f"{name} could not answer: {trouble.message}")

    def _reply(self, request: Request, said: str, done: WorkerDone, is_calls: bool) -> Reply:
        calls = read_calls(said, request) if is_calls else ()
        used = done.usage
        usage = Usage(
            used.prompt_tokens, used.completion_tokens, used.prompt_tokens_details.cached_tokens
        )
        stop: Stop = "calls" if calls else "end"
        return Reply(
            text="" if is_calls else said,
            calls=calls,
            usage=usage,
            stop="length" if done.finish == "length" else stop,
            model=self._endpoint.name,
            cost=self._endpoint.facts.cost(usage),
        )


def open_client(endpoint: Endpoint) -> LocalModel:
    import os

    return LocalModel(endpoint, os.environ)
