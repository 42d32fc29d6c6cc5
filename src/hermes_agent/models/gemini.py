"""The wire format of the Gemini API, streaming."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import quote, urlencode

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
from hermes_agent.models.gemini_request import Mark, Place, request_body
from hermes_agent.models.listening import Piece, listen, no_answer
from hermes_agent.models.refusals import refusal
from hermes_agent.models.shared import estimated_usage, known_call_ids, new_call_id
from hermes_agent.models.speaking import Credential, Endpoint
from hermes_agent.models.wire import Wire

_REFUSED = (
    "SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
    "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER", "NO_IMAGE",
)  # fmt: skip
STOPS: dict[str, Stop] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(_REFUSED, "refused"),
}
BROKEN = frozenset(
    {"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"}
)
"""The model wrote what nobody can use; on another try it may not."""


class _Call(Struct, frozen=True, gc=False):
    name: str | None = None
    args: Raw = Raw(b"{}")
    id: str | None = None


class _Part(Struct, frozen=True, gc=False, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _Call | None = None


class _Content(Struct, frozen=True, gc=False):
    parts: tuple[_Part, ...] | None = None


class _Candidate(Struct, frozen=True, gc=False, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Usage(Struct, frozen=True, gc=False, rename="camel"):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None


class _Feedback(Struct, frozen=True, gc=False, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Chunk(Struct, frozen=True, rename="camel"):
    candidates: tuple[_Candidate, ...] | None = None
    usage_metadata: _Usage | None = None
    prompt_feedback: _Feedback | None = None
    error: Any = None


class _Violation(Struct, frozen=True, gc=False, rename="camel"):
    quota_id: str = ""


class _Detail(Struct, frozen=True, gc=False, rename="camel"):
    reason: str = ""
    retry_delay: str = ""
    violations: tuple[_Violation, ...] = ()


class _Error(Struct, frozen=True):
    code: int = 500
    details: tuple[_Detail, ...] = ()


class _Refusal(Struct, frozen=True):
    error: _Error = _Error()


# Without its streaming, as behind some proxies, the service sends all chunks as one list.
_chunks = msgspec.json.Decoder(_Chunk | tuple[_Chunk, ...])
_refusals = msgspec.json.Decoder(_Refusal | tuple[_Refusal, ...])


class Assembly:
    """Makes one answer of the chunks of a stream."""

    def __init__(self, endpoint: Endpoint, credential: Credential, request: Request) -> None:
        self._endpoint, self._credential, self._request = endpoint, credential, request
        self._texts: list[str] = []
        self._chars = 0
        self._calls: list[ToolCall] = []
        self._taken = known_call_ids(request)
        self._thinking: list[str] = []
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
            chunks = _chunks.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise no_answer(self._endpoint.name, str(error), data) from None
        pieces: list[Piece] = []
        for chunk in (chunks,) if isinstance(chunks, _Chunk) else chunks:
            self._take_chunk(chunk, data, pieces)
        return pieces

    def _take_chunk(self, chunk: _Chunk, data: bytes, pieces: list[Piece]) -> None:
        if chunk.error:
            raise refused(self._endpoint, self._credential, None, data)
        counted = chunk.usage_metadata
        if counted is not None and counted.prompt_token_count is not None:
            self._counted = counted
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            raise self._blocked(chunk.prompt_feedback)
        if not chunk.candidates:
            return
        candidate = chunk.candidates[0]
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                piece = self._take_part(part, data)
                if piece is not None:
                    pieces.append(piece)
        if candidate.finish_reason:
            self._end(candidate.finish_reason, candidate.finish_message or "")

    def _take_part(self, part: _Part, data: bytes) -> Piece | None:
        signature, text = part.thought_signature or "", part.text or ""
        if part.thought:
            if text:
                self._thinking.append(text)
            if signature:
                self._close_thought(signature)
            return Thinking(text) if text else None
        if self._thinking:
            self._close_thought()
        if part.function_call is not None:
            self._sign("call", signature)
            self._calls.append(self._call(part.function_call, data))
            return None
        if signature:
            self._sign("text", signature, len(text))
        if not text:
            return None
        self._texts.append(text)
        self._chars += len(text)
        return Delta(text)

    def _call(self, call: _Call, data: bytes) -> ToolCall:
        if not call.name:
            raise ModelError("garbage", f"{self._endpoint.name} called a tool without naming it")
        try:
            arguments = bytes(call.args).decode()
        except UnicodeDecodeError as error:
            raise no_answer(self._endpoint.name, str(error), data) from None
        if arguments == "null":
            arguments = "{}"
        if not arguments.startswith("{"):
            raise no_answer(self._endpoint.name, "arguments that are no object", data)
        own = call.id if call.id and call.id not in self._taken else ""
        own = own or new_call_id(self._request, self._taken)
        self._taken.add(own)
        return ToolCall(own, call.name, arguments)

    def _sign(self, on: Place, signature: str, length: int = 0, text: str = "") -> None:
        if signature or text:
            body = msgspec.json.encode(Mark(on, signature, length)).decode() if signature else ""
            name = self._endpoint.name
            self._thoughts.append(Thought(name, text, body, self._chars, len(self._calls)))

    def _close_thought(self, signature: str = "") -> None:
        self._sign("thought", signature, text="".join(self._thinking))
        self._thinking.clear()

    def _end(self, reason: str, message: str) -> None:
        said = f": {message}" if message else ""
        if reason in BROKEN:
            raise ModelError("garbage", f"{self._endpoint.name} broke off ({reason}){said}")
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise ModelError(
                "bad_request", f"{self._endpoint.name} misses a signature of its own{said}"
            )
        self._finish = reason

    def _blocked(self, feedback: _Feedback) -> ModelError:
        self._finish = feedback.block_reason or ""
        why = feedback.block_reason_message or feedback.block_reason
        return ModelError(
            "refused",
            f"{self._endpoint.name} refused to answer: {why}",
            "put the request another way",
        )

    def spent(self) -> Usage:
        if self._counted is not None:
            return _usage(self._counted)
        thought = "".join([*(t.text for t in self._thoughts), *self._thinking])
        return estimated_usage(self._request, "".join(self._texts) + thought, tuple(self._calls))

    def reply(self) -> Reply:
        self._close_thought()
        stop = STOPS.get(self._finish, "end")
        usage = self.spent()
        return Reply(
            text="".join(self._texts),
            calls=tuple(self._calls),
            usage=usage,
            # The service has no word of its own for a stop at calls.
            stop="calls" if self._calls and stop == "end" else stop,
            model=self._endpoint.name,
            cost=self._endpoint.facts.cost(usage),
            thoughts=tuple(self._thoughts),
        )


class Gemini:
    """One model of the Gemini API."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        self._wire = Wire(endpoint.url, headers | endpoint.service.headers, endpoint.silence)
        model = endpoint.model if "/" in endpoint.model else f"models/{endpoint.model}"
        query = urlencode({"alt": "sse", **endpoint.service.query})
        self._path = f"/{quote(model)}:streamGenerateContent?{query}"

    async def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        body = request_body(self._endpoint, request)
        headers = {"x-goog-api-key": credential.secret} if credential.secret else {}
        assembly = Assembly(self._endpoint, credential, request)
        async with self._wire.post(self._path, body, headers, (credential.secret,)) as answer:
            if answer.status != 200:
                said = await answer.read()
                raise refused(self._endpoint, credential, answer.status, said, answer.retry_after())
            async with aclosing(listen(answer, assembly, self._endpoint.name)) as pieces:
                async for piece in pieces:
                    yield piece
        yield assembly.reply()

    async def close(self) -> None:
        await self._wire.close()


def refused(
    endpoint: Endpoint,
    credential: Credential,
    status: int | None,
    body: bytes,
    retry_after: float | None = None,
) -> ModelError:
    """The error for a refusal; without a status it came in the middle of a stream and says its
    own. What tells most stands in the details: reasons, quotas, how long to wait."""
    try:
        decoded = _refusals.decode(body)
        first = decoded[0].error if isinstance(decoded, tuple) else decoded.error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, IndexError):
        first = _Error()
    words = [word for each in first.details for word in (each.reason, *_quotas(each)) if word]
    waits = [_seconds(each.retry_delay) for each in first.details if each.retry_delay]
    if retry_after is None:
        retry_after = next((wait for wait in waits if wait is not None), None)
    if status is None:
        status = first.code if 400 <= first.code < 600 else 500
    return refusal(
        endpoint, credential, status, body, codes=" ".join(words), retry_after=retry_after
    )


def _quotas(detail: _Detail) -> list[str]:
    return [violation.quota_id for violation in detail.violations]


def _seconds(said: str) -> float | None:
    try:
        return max(0.0, float(said.removesuffix("s")))
    except ValueError:
        return None


def _usage(said: _Usage) -> Usage:
    thought = max(0, said.thoughts_token_count or 0)
    sent = max(0, said.prompt_token_count or 0) + max(0, said.tool_use_prompt_token_count or 0)
    cached = min(sent, max(0, said.cached_content_token_count or 0))
    return Usage(sent, max(0, said.candidates_token_count or 0) + thought, cached, 0, thought)


def open_speaker(endpoint: Endpoint) -> Gemini:
    return Gemini(endpoint)
