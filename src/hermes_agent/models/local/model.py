"""A model on this machine: a GGUF file run by llama.cpp in a process of its own. What happens in
native code cannot harm the runtime, and the memory is given back when nobody asks for a while."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hermes_agent.core.errors import ModelError, ModelTrouble, UsageError
from hermes_agent.core.messages import Chunk, Delta, Reply, Request, Stop, Usage
from hermes_agent.models.local.child import Child, Done, Line, Trouble
from hermes_agent.models.local.files import find_model, trained_context
from hermes_agent.models.local.grammar import tool_grammar
from hermes_agent.models.local.prompt import chat_messages, read_calls, spans
from hermes_agent.models.shared import replies_so_far
from hermes_agent.models.speaking import Credential, Endpoint

IDLE_SECONDS = 300.0
"""How long the process waits for the next request before it ends."""
TINY_BYTES = 1024**3
"""A model up to this size is shown examples of calls, and may only copy names from the
conversation: left to itself it talks of the tools, and makes up paths that are nearly right."""
TEMPERATURE = 0.2


class LocalModel:
    """One local model. Requests wait for each other: there is one process and one context."""

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
        self._turn = asyncio.Lock()
        self._child: Child | None = None
        self._asked = 0
        self._rest: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        return self._child.pid if self._child is not None and self._child.usable else None

    async def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        del credential  # nobody wants a key here
        path = self._find()
        body = self._body(request, path)
        said = ""
        async with self._turn:
            try:
                child = await self._ready(path)
                async with aclosing(self._lines(child, body)) as lines:
                    async for line in lines:
                        said += line.text
                        # A text never begins with a brace; calls are shown when they are whole.
                        if line.text and not ("grammar" in body and said.startswith("{")):
                            yield Delta(line.text)
                        done = line.done
            finally:
                self._rest_later()
        assert done is not None  # the last line is the one that says so
        yield self._reply(request, said, done, is_calls="grammar" in body and said.startswith("{"))

    async def close(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
        child, self._child = self._child, None
        if child is not None:
            await child.end()

    def _rest_later(self) -> None:
        if self._child is not None:
            loop = asyncio.get_running_loop()
            self._rest = loop.call_later(self._idle, self._child.leave)

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
                "pip install 'hermes-agent[local]'",
            )
        return path

    def _body(self, request: Request, path: Path) -> dict[str, Any]:
        tiny = path.stat().st_size <= TINY_BYTES
        grammar = tool_grammar(request.prompt.tools, spans(request.messages) if tiny else ())
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
        """The process, with the model loaded; started where there is none."""
        if self._rest is not None:
            self._rest.cancel()
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
            line = await self._child.hear(self._endpoint.name, self._endpoint.silence)
            if line.failed:
                # It ends by itself; its log, which is written by a thread, says why.
                await self._child.end(self._endpoint.silence)
                why = self._child.first_error() or line.failed
                raise ModelError(
                    "bad_request",
                    f"{self._endpoint.name} cannot be loaded: {why}",
                    f"check {str(path)!r} and that there is memory for {context} tokens",
                )
            self._child.ready = line.ready
        return self._child

    async def _lines(self, child: Child, body: Mapping[str, Any]) -> AsyncGenerator[Line, None]:
        """What the process says to a request, to the end; it stops when nobody listens."""
        self._asked += 1
        asked, ended = self._asked, False
        try:
            await child.ask(asked, body)
            while not ended:
                line = await child.hear(self._endpoint.name, self._endpoint.silence)
                if line.id != asked:
                    continue  # the rest of an answer that was given up
                ended = line.done is not None or line.error is not None
                if line.error is not None:
                    raise self._refused(line.error)
                yield line
        finally:
            if not ended:
                child.stop(asked)

    def _refused(self, trouble: Trouble) -> ModelError:
        name = self._endpoint.name
        if trouble.type == "exceed_context_size_error":
            return ModelError(
                "context_too_long",
                f"{name} cannot take a conversation this long: {trouble.message}",
                "set its window in models.context_tokens so that Hermes summarises in time",
            )
        kind: ModelTrouble = "bad_request" if trouble.code < 500 else "overload"
        return ModelError(kind, f"{name} could not answer: {trouble.message}")

    def _reply(self, request: Request, said: str, done: Done, is_calls: bool) -> Reply:
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


def open_speaker(endpoint: Endpoint) -> LocalModel:
    import os

    return LocalModel(endpoint, os.environ)
