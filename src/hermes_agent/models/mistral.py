"""The wire format of Mistral's chat completions, streaming: like OpenAI's, with content in
chunks, thoughts among them, and rules of its own for ids and the order of messages."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Raw, Struct

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    Chunk,
    Delta,
    Reply,
    Request,
    Stop,
    Thinking,
    Thought,
    ToolCall,
    Usage,
)
from hermes_agent.models.listening import Piece, listen, no_answer
from hermes_agent.models.mistral_request import Mark, request_body
from hermes_agent.models.refusals import refusal
from hermes_agent.models.shared import estimated_usage, known_call_ids, new_call_id
from hermes_agent.models.speaking import Credential, Endpoint
from hermes_agent.models.wire import Wire

STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "calls",
    "length": "length",
    "model_length": "length",
    "content_filter": "refused",
}


class _Function(Struct, frozen=True, gc=False):
    name: str | None = None
    arguments: Raw = Raw(b'""')


class _CallPiece(Struct, frozen=True, gc=False):
    id: str | None = None
    index: int | None = None
    function: _Function | None = None


class _Said(Struct, frozen=True, gc=False):
    text: str | None = None


class _Content(Struct, frozen=True, gc=False):
    """A chunk of content; those that are neither text nor thoughts, as references, say nothing."""

    type: str = "text"
    text: str | None = None
    thinking: tuple[_Said, ...] | None = None
    signature: str | None = None


class _Delta(Struct, frozen=True, gc=False):
    content: str | tuple[_Content, ...] | None = None
    tool_calls: tuple[_CallPiece, ...] | None = None


class _Choice(Struct, frozen=True, gc=False):
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _InputDetails(Struct, frozen=True, gc=False):
    cached_tokens: int | None = None


class _Usage(Struct, frozen=True, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    num_cached_tokens: int | None = None
    prompt_tokens_details: _InputDetails | None = None


class _Chunk(Struct, frozen=True):
    object: str | None = None
    choices: tuple[_Choice, ...] | None = None
    usage: _Usage | None = None
    error: Any = None
    raw_status_code: int | None = None


_chunk = msgspec.json.Decoder(_Chunk)


class _OpenCall:
    """A call whose pieces are still arriving."""

    def __init__(self, id: str, index: int | None) -> None:
        self.id, self.index, self.name = id, index, ""
        self.arguments: list[str] = []


class Assembly:
    """Makes one answer of the chunks of a stream."""

    def __init__(self, endpoint: Endpoint, credential: Credential, request: Request) -> None:
        self._endpoint, self._credential, self._request = endpoint, credential, request
        self._texts: list[str] = []
        self._chars = 0
        self._calls: list[_OpenCall] = []
        self._thinking: list[str] = []
        self._signature = ""
        self._thoughts: list[Thought] = []
        self._counted: _Usage | None = None
        self._finish = ""

    @property
    def begun(self) -> bool:
        return bool(self._counted or self._texts or self._calls or self._thinking or self._thoughts)

    @property
    def finished(self) -> bool:
        return bool(self._finish)

    def take(self, data: bytes) -> Sequence[Piece]:
        try:
            chunk = _chunk.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise no_answer(self._endpoint.name, str(error), data) from None
        if chunk.error or chunk.object == "error":
            code = chunk.raw_status_code or 500
            status = code if 400 <= code < 600 else 500
            raise refusal(self._endpoint, self._credential, status, data)
        if chunk.usage is not None and chunk.usage.prompt_tokens is not None:
            self._counted = chunk.usage
        if not chunk.choices:
            return ()
        choice = chunk.choices[0]
        delta = choice.delta or choice.message
        pieces = self._take_delta(delta, data) if delta is not None else ()
        if choice.finish_reason == "error":
            raise ModelError(
                "overload",
                f"{self._endpoint.name} broke off: it says that an error occurred",
                "it is the service's own; try again later",
            )
        self._finish = choice.finish_reason or self._finish
        return pieces

    def _take_delta(self, delta: _Delta, data: bytes) -> Sequence[Piece]:
        for call in delta.tool_calls or ():
            self._take_call(call, data)
        if isinstance(delta.content, str):
            return (self._say(delta.content),) if delta.content else ()
        pieces: list[Piece] = []
        for content in delta.content or ():
            if content.type == "thinking":
                text = "".join([said.text or "" for said in content.thinking or ()])
                self._signature = content.signature or self._signature
                if text:
                    self._thinking.append(text)
                    pieces.append(Thinking(text))
            elif content.type == "text" and content.text:
                pieces.append(self._say(content.text))
        return pieces

    def _say(self, text: str) -> Delta:
        if self._thinking or self._signature:
            self._close_thought()
        self._texts.append(text)
        self._chars += len(text)
        return Delta(text)

    def _close_thought(self) -> None:
        if self._thinking or self._signature:
            body = msgspec.json.encode(Mark(self._signature)).decode()
            text, name = "".join(self._thinking), self._endpoint.name
            self._thoughts.append(Thought(name, text, body, self._chars, len(self._calls)))
            self._thinking.clear()
            self._signature = ""

    def _take_call(self, piece: _CallPiece, data: bytes) -> None:
        """A piece belongs to the call with its id; without one, to the last with its index. The
        service writes `null` as an id where it has none."""
        id = "" if piece.id is None or piece.id == "null" else piece.id
        function = piece.function or _Function()
        fitting = [c for c in self._calls if (c.id == id if id else c.index == piece.index)]
        if fitting:
            call = fitting[-1]
        else:
            self._close_thought()
            call = _OpenCall(id, piece.index)
            self._calls.append(call)
        call.name = call.name or function.name or ""
        try:
            call.arguments.append(_text_of(function.arguments))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise no_answer(self._endpoint.name, str(error), data) from None

    def _made_calls(self) -> tuple[ToolCall, ...]:
        """The calls, each under an id of its own."""
        taken = known_call_ids(self._request)
        calls = []
        for call in self._calls:
            if not call.name:
                name = self._endpoint.name
                raise ModelError("garbage", f"{name} called a tool without naming it")
            usable = call.id and call.id not in taken
            own = call.id if usable else new_call_id(self._request, taken)
            taken.add(own)
            calls.append(ToolCall(own, call.name, "".join(call.arguments) or "{}"))
        return tuple(calls)

    def spent(self) -> Usage:
        if self._counted is not None:
            return _usage(self._counted)
        written = [*self._texts, *self._thinking, *(t.text for t in self._thoughts)]
        written += [text for call in self._calls for text in (call.name, *call.arguments)]
        return estimated_usage(self._request, "".join(written), ())

    def reply(self) -> Reply:
        self._close_thought()
        calls, usage = self._made_calls(), self.spent()
        stop = STOPS.get(self._finish, "end")
        if stop in ("end", "calls"):
            stop = "calls" if calls else "end"
        return Reply(
            text="".join(self._texts),
            calls=calls,
            usage=usage,
            stop=stop,
            model=self._endpoint.name,
            cost=self._endpoint.facts.cost(usage),
            thoughts=tuple(self._thoughts),
        )


class Mistral:
    """One model of Mistral's API."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        self._wire = Wire(endpoint.url, headers | endpoint.service.headers, endpoint.silence)
        query = endpoint.service.query
        self._path = "/chat/completions" + (f"?{urlencode(query)}" if query else "")

    async def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        body = request_body(self._endpoint, request)
        headers = {"authorization": f"Bearer {credential.secret}"} if credential.secret else {}
        assembly = Assembly(self._endpoint, credential, request)
        async with self._wire.post(self._path, body, headers, (credential.secret,)) as answer:
            if answer.status != 200:
                said = await answer.read()
                raise refusal(
                    self._endpoint,
                    credential,
                    answer.status,
                    said,
                    retry_after=answer.retry_after(),
                )
            async with aclosing(listen(answer, assembly, self._endpoint.name)) as pieces:
                async for piece in pieces:
                    yield piece
        yield assembly.reply()

    async def close(self) -> None:
        await self._wire.close()


def _text_of(arguments: Raw) -> str:
    """A piece of arguments: text by rule, an object now and then."""
    said = bytes(arguments)
    if said.startswith(b'"'):
        return msgspec.json.decode(said, type=str)
    return "" if said == b"null" else said.decode()


def _usage(said: _Usage) -> Usage:
    details = said.prompt_tokens_details
    cached = (details.cached_tokens if details is not None else None) or said.num_cached_tokens or 0
    sent = max(0, said.prompt_tokens or 0)
    return Usage(sent, max(0, said.completion_tokens or 0), min(sent, max(0, cached)))


def open_speaker(endpoint: Endpoint) -> Mistral:
    return Mistral(endpoint)
