"""The chat-completions wire format of OpenAI, streaming, spoken by many other services too."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent import __version__
from hermes_agent.core.errors import ModelError, UsageError
from hermes_agent.core.messages import (
    AssistantMessage,
    Chunk,
    Delta,
    Message,
    ModelFacts,
    Prompt,
    Reply,
    Request,
    Stop,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from hermes_agent.core.settings import ModelSettings
from hermes_agent.models.openai_errors import refusal
from hermes_agent.models.shared import (
    estimated_usage,
    known_call_ids,
    known_facts,
    new_call_id,
)
from hermes_agent.models.wire import Answer, Wire, shown, within

DEFAULT_URL = "https://api.openai.com/v1"
TAIL_SECONDS = 1.0
"""How long to wait for the token count once the answer itself is whole."""

STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "refused",
}


def request_body(model: str, request: Request, limit_field: str = "max_tokens") -> bytes:
    """The request as it is sent. A longer conversation's body begins with a shorter one's bytes,
    less its closing brackets: what is fixed comes first, the messages last, nothing after them."""
    body: dict[str, Any] = {
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.max_output is not None:
        body[limit_field] = request.max_output
    if request.prompt.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.prompt.tools
        ]
    body["messages"] = wire_messages(request.prompt, request.messages)
    return msgspec.json.encode(body)


def wire_messages(prompt: Prompt, messages: Sequence[Message]) -> list[dict[str, Any]]:
    system = [{"role": "system", "content": prompt.system}] if prompt.system else []
    return [*system, *map(_wire_message, messages)]


def _wire_message(message: Message) -> dict[str, Any]:
    match message:
        case UserMessage(text=text):
            return {"role": "user", "content": text}
        case ToolMessage(call_id=id, text=text):
            return {"role": "tool", "tool_call_id": id, "content": text}
        case AssistantMessage(text=text, calls=()):
            return {"role": "assistant", "content": text}
        case AssistantMessage(text=text, calls=calls):
            return {
                "role": "assistant",
                "content": text or None,
                "tool_calls": [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for call in calls
                ],
            }


class _Function(Struct, frozen=True):
    name: str | None = None
    arguments: Any = None


class _CallPiece(Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Piece(Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None
    tool_calls: tuple[_CallPiece, ...] | None = None


class _Choice(Struct, frozen=True):
    delta: _Piece | None = None
    message: _Piece | None = None
    finish_reason: str | None = None


class _InputDetails(Struct, frozen=True):
    cached_tokens: int | None = None


class _Usage(Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _InputDetails | None = None


class _Chunk(Struct, frozen=True):
    choices: tuple[_Choice, ...] | None = None
    usage: _Usage | None = None
    error: Any = None


_chunk = msgspec.json.Decoder(_Chunk)


class _OpenCall:
    """A call whose pieces are still arriving."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    def take(self, piece: _CallPiece) -> None:
        self.id = self.id or piece.id or ""
        if piece.function is not None:
            # Some services repeat the name with every piece.
            self.name = self.name or piece.function.name or ""
            self.arguments.append(_text_of(piece.function.arguments))


class Assembly:
    """Makes one answer of the chunks of a stream, however a service likes to cut them."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.finish = ""
        self.refused = False
        self._texts: list[str] = []
        self._calls: list[_OpenCall] = []

    def take(self, chunk: _Chunk) -> str:
        """Add a chunk; returns the text it brought."""
        if chunk.usage is not None:
            self.usage = _usage(chunk.usage) or self.usage
        if not chunk.choices:
            return ""
        choice = chunk.choices[0]
        self.finish = choice.finish_reason or self.finish
        piece = choice.delta or choice.message
        if piece is None:
            return ""
        self.refused = self.refused or bool(piece.refusal)
        for call in piece.tool_calls or ():
            self._open_call(call).take(call)
        text = (piece.content or "") + (piece.refusal or "")
        self._texts.append(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def begun(self) -> bool:
        return bool(self.finish or self._calls or any(self._texts))

    @property
    def stop(self) -> Stop:
        if self.refused:
            return "refused"
        stop = STOPS.get(self.finish, "end")
        # Services disagree on the word; whether there are calls is what counts.
        return ("calls" if self._calls else "end") if stop in ("end", "calls") else stop

    def calls(self, request: Request) -> tuple[ToolCall, ...] | None:
        """The calls, each under an id of its own; None when one has no name."""
        taken = known_call_ids(request)
        calls = []
        for call in self._calls:
            if not call.name:
                return None
            usable = call.id and call.id not in taken
            own = call.id if usable else new_call_id(request, taken)
            taken.add(own)
            calls.append(ToolCall(own, call.name, "".join(call.arguments) or "{}"))
        return tuple(calls)

    def _open_call(self, piece: _CallPiece) -> _OpenCall:
        """The call a piece belongs to: by its index; without one, the last. A second id with a
        name is a new call even under an old index, as services exist that count only to 0."""
        named = piece.function is not None and bool(piece.function.name)
        fitting = [c for c in self._calls if piece.index is None or c.index == piece.index]
        call = fitting[-1] if fitting else None
        if call is not None and named:
            other_id = piece.id and call.id and piece.id != call.id
            next_whole = piece.index is None and not piece.id
            call = None if other_id or next_whole else call
        if call is None:
            call = _OpenCall(piece.index)
            self._calls.append(call)
        return call


class OpenAIChat:
    """One model of a service that speaks this format."""

    def __init__(
        self, name: str, url: str, key: str, settings: ModelSettings, facts: ModelFacts
    ) -> None:
        self.name = name
        self.facts = facts
        self._model = name.partition("/")[2]
        # OpenAI's newer models refuse the old word for the limit, other services the new one.
        self._limit_field = "max_completion_tokens" if url == DEFAULT_URL else "max_tokens"
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "user-agent": f"hermes-agent/{__version__}",
        }
        if key:
            headers["authorization"] = f"Bearer {key}"
        self._wire = Wire(url, headers, key, settings.silence_seconds)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        body = request_body(self._model, request, self._limit_field)
        headers = {"x-hermes-session": request.session} if request.session else {}
        assembly = Assembly()
        async with self._wire.post("/chat/completions", body, headers) as answer:
            if answer.status != 200:
                said = await answer.read()
                raise refusal(self._wire, self.name, answer.status, said, answer.retry_after())
            async with aclosing(self._texts(answer, assembly)) as texts:
                async for text in texts:
                    if text:
                        yield Delta(text)
        yield self._reply(request, assembly)

    async def close(self) -> None:
        await self._wire.close()

    async def _texts(self, answer: Answer, assembly: Assembly) -> AsyncGenerator[str, None]:
        """Feed the assembly; the pieces of text as they come."""
        if answer.is_json():
            # This service does not stream.
            body = await answer.read()
            yield assembly.take(self._decoded(body))
            if not assembly.begun:
                raise self._garbage("no answer in it", body)
            return
        async with aclosing(answer.events()) as events:
            async for data in events:
                if data == b"[DONE]":
                    if assembly.begun:
                        return
                    break
                yield assembly.take(self._decoded(data))
                if assembly.finish:
                    break
            if not assembly.finish:
                raise self._wire.error(
                    "broken_stream", f"{self.name} stopped in the middle of its answer"
                )
            # The answer is whole; only the token count is still of use. Reading on to the very end
            # also leaves the connection fit for the next call.
            for data in await within(TAIL_SECONDS, events):
                with suppress(ModelError):
                    assembly.take(self._decoded(data))

    def _decoded(self, data: bytes) -> _Chunk:
        try:
            chunk = _chunk.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._garbage(str(error), data) from None
        if chunk.error:
            raise self._refused_midway(chunk.error, data)
        return chunk

    def _garbage(self, why: str, data: bytes) -> ModelError:
        return self._wire.error(
            "garbage", f"{self.name} sent something that is no answer ({why}): {shown(data)}"
        )

    def _refused_midway(self, error: Any, data: bytes) -> ModelError:
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        return refusal(self._wire, self.name, status, data, None)

    def _reply(self, request: Request, assembly: Assembly) -> Reply:
        calls = assembly.calls(request)
        if calls is None:
            raise self._wire.error("garbage", f"{self.name} called a tool without naming it")
        usage = assembly.usage or estimated_usage(request, assembly.text, calls)
        return Reply(
            text=assembly.text,
            calls=calls,
            usage=usage,
            stop=assembly.stop,
            model=self.name,
            cost=self.facts.cost(usage),
        )


def _usage(said: _Usage) -> Usage | None:
    if said.prompt_tokens is None:
        return None
    details = said.prompt_tokens_details
    cached = (details.cached_tokens or 0) if details is not None else 0
    return Usage(said.prompt_tokens, said.completion_tokens or 0, cached)


def _text_of(arguments: Any) -> str:
    """A piece of arguments: a string by the format, an object from some services."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def open_named(name: str, settings: ModelSettings, environ: Mapping[str, str]) -> OpenAIChat:
    """`openai/NAME`, at `OPENAI_BASE_URL` with `OPENAI_API_KEY`."""
    url = environ.get("OPENAI_BASE_URL", "").strip().rstrip("/") or DEFAULT_URL
    key = environ.get("OPENAI_API_KEY", "").strip()
    if not url.startswith(("http://", "https://")):
        raise UsageError(
            f"OPENAI_BASE_URL is {url!r}, which is no web address",
            "it begins with http:// or https:// and mostly ends in /v1",
        )
    if not key and url == DEFAULT_URL:
        raise ModelError(
            "auth",
            f"{name} needs a key and OPENAI_API_KEY is not set",
            "set OPENAI_API_KEY (and `hermes restart` a runtime that is up), or OPENAI_BASE_URL to "
            "a service that needs none",
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ModelError(
            "auth",
            "OPENAI_API_KEY holds characters that no key has",
            "copy the key again, without spaces or line breaks",
        )
    return OpenAIChat(name, url, key, settings, known_facts(name, settings))
