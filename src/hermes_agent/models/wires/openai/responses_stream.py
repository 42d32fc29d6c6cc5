"""Assembles answers of OpenAI's Responses format from their events."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import ReasoningBlock, Request, Stop
from hermes_agent.models.shared import sensible_pause
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.errors import refusal
from hermes_agent.models.wires.http import HttpResponse
from hermes_agent.models.wires.openai.shared import InputDetails, OutputDetails, counted, text_of
from hermes_agent.models.wires.streaming import SseAccumulator

BETWEEN = "\n\n"
"""Between the parts of a thought."""

INCOMPLETE: dict[str, Stop] = {"max_output_tokens": "length", "content_filter": "refused"}
"""Why an answer is incomplete; other reasons count as a limit."""

_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_THOUGHTS: dict[str, "Part"] = {
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "content",
}
_ENDS = ("response.completed", "response.incomplete", "response.done")

Part = Literal["summary", "content"]


class Seal(Struct, frozen=True, omit_defaults=True):
    """What is stored with the text of a thought: of a reasoning item, or the phase of the message
    that begins there."""

    id: str = ""
    encrypted: str = ""
    parts: tuple[tuple[Part, int], ...] = ()
    """The parts of the thought and their lengths."""
    phase: str = ""
    """Set for a message only."""


class _Item(Struct, frozen=True, gc=False):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None
    content: Any = None
    summary: Any = None
    encrypted_content: str | None = None
    phase: str | None = None


class _Usage(Struct, frozen=True, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None


class _Incomplete(Struct, frozen=True, gc=False):
    reason: str | None = None


class _Response(Struct, frozen=True, gc=False):
    status: str | None = None
    output: tuple[_Item, ...] | None = None
    usage: _Usage | None = None
    incomplete_details: _Incomplete | None = None
    error: Any = None


class _Event(_Response, frozen=True, gc=False):
    """An event, or a whole response if the service does not stream."""

    type: str = ""
    delta: Any = None
    arguments: Any = None
    item: _Item | None = None
    output_index: int | None = None
    summary_index: int | None = None
    content_index: int | None = None
    response: _Response | None = None


_event = msgspec.json.Decoder(_Event)


class _Open:
    """An unfinished item of the answer."""

    def __init__(self, kind: str, chars: int, calls: int) -> None:
        self.kind = kind
        self.at = chars, calls
        self.id = ""
        self.name = ""
        self.call_id = ""
        self.encrypted = ""
        self.phase = ""
        self.texts: list[str] = []
        self.parts: list[tuple[Part, int | None]] = []
        """Kind and number of the part that each text belongs to."""

    def know(self, item: _Item) -> None:
        self.id = item.id or self.id
        self.name = item.name or self.name
        self.call_id = item.call_id or self.call_id
        self.encrypted = item.encrypted_content or self.encrypted
        self.phase = item.phase or self.phase

    def think(self, part: Part, number: int | None, text: str) -> str:
        """Add to a part; returns the text to show, with a separator before a new part."""
        new = bool(self.parts) and self.parts[-1] != (part, number)
        self.parts.append((part, number))
        self.texts.append(text)
        return BETWEEN + text if new else text

    def thought(self, by: str) -> ReasoningBlock | None:
        if self.kind == "message":
            seal = Seal(phase=self.phase)
            return (
                ReasoningBlock(by, "", _sealed(seal), *self.at)
                if self.phase and self.texts
                else None
            )
        whole: list[tuple[Part, list[str]]] = []
        last: tuple[Part, int | None] | None = None
        for part, text in zip(self.parts, self.texts, strict=True):
            if part != last:
                whole.append((part[0], []))
                last = part
            whole[-1][1].append(text)
        parts = tuple((part, sum(map(len, texts))) for part, texts in whole)
        text = BETWEEN.join("".join(texts) for _, texts in whole)
        # Nothing is stored at the service: without content or ciphertext it cannot be sent back.
        known = self.encrypted or any(part == "content" for part, _ in parts)
        body = _sealed(Seal(self.id, self.encrypted, parts)) if known else ""
        return ReasoningBlock(by, text, body, *self.at) if text or body else None


class ResponsesAccumulator(SseAccumulator):
    """Assembles one answer from the events of a stream."""

    stops = INCOMPLETE

    def __init__(self, endpoint: Endpoint, request: Request, credential: Credential) -> None:
        super().__init__(endpoint, request, credential)
        self._items: list[_Open] = []
        self._calls = 0
        self._places: dict[int | None, _Open] = {}

    def take(self, data: bytes) -> None:
        event = _event.decode(data)
        kind, delta = event.type, event.delta
        if kind in _TEXTS and isinstance(delta, str):
            self.declined = self.declined or kind == "response.refusal.delta"
            self._say(self._item("message", event.output_index), delta)
        elif kind in _THOUGHTS and isinstance(delta, str):
            part = _THOUGHTS[kind]
            number = event.summary_index if part == "summary" else event.content_index
            self.think(self._item("reasoning", event.output_index).think(part, number, delta))
        elif kind == "response.function_call_arguments.delta" and isinstance(delta, str):
            self._item("function_call", event.output_index).texts.append(delta)
        else:
            self._take_other(event, data)

    def _take_other(self, event: _Event, data: bytes) -> None:
        match event.type:
            case "response.function_call_arguments.done" if event.arguments:
                item = self._item("function_call", event.output_index)
                item.texts = [text_of(event.arguments)]
            case "response.output_item.added" if event.item is not None:
                self._item(event.item.type, event.output_index).know(event.item)
            case "response.output_item.done" if event.item is not None:
                self._done(event.item, event.output_index)
            case kind if kind in _ENDS and event.response is not None:
                self._end(kind, event.response)
            case "response.failed" | "error":
                raise failed(self.endpoint, self.credential, data)
            case "" if event.output is not None:
                self._whole(event, data)
            case kind:
                self.begun = self.begun or kind.startswith("response.")

    def _whole(self, event: _Event, data: bytes) -> None:
        if event.error:
            raise failed(self.endpoint, self.credential, data)
        if event.status in ("completed", "incomplete"):
            self._end(f"response.{event.status}", event)

    def _end(self, kind: str, response: _Response) -> None:
        self.begun = True
        if response.usage is not None:
            self._count(response.usage)
        if not self._items:
            for index, item in enumerate(response.output or ()):
                self._done(item, index)
        details = response.incomplete_details
        if "incomplete" in (response.status, kind.removeprefix("response.")):
            reason = details.reason if details is not None else None
            self.end(reason if reason in INCOMPLETE else "max_output_tokens")
        else:
            self.end("completed")

    def _done(self, item: _Item, index: int | None) -> None:
        """An item is complete: add what has not come before."""
        open = self._item(item.type, index)
        open.know(item)
        match item.type:
            case "message":
                self._rest(open, item)
            case "reasoning" if not open.texts:
                told = (*_numbered("summary", item.summary), *_numbered("content", item.content))
                for part, number, text in told:
                    self.think(open.think(part, number, text))
            case "function_call" if item.arguments:
                open.texts = [text_of(item.arguments)]

    def _rest(self, open: _Open, item: _Item) -> None:
        content = item.content if isinstance(item.content, list) else ()
        parts = [part for part in content if isinstance(part, dict)]
        self.declined = self.declined or any(part.get("type") == "refusal" for part in parts)
        texts = (part.get("text") or part.get("refusal") for part in parts)
        whole = "".join(text for text in texts if isinstance(text, str))
        said = "".join(open.texts)
        if whole.startswith(said):
            self._say(open, whole[len(said) :])

    def _say(self, item: _Open, text: str) -> None:
        if text:
            item.texts.append(text)
            self.say(text)

    def _item(self, kind: str, index: int | None) -> _Open:
        """The item at an output index; without an index, the last of its kind."""
        known = self._places.get(index)
        if known is not None and known.kind == kind:
            return known
        self.begun = True
        item = self._places[index] = _Open(kind, self.chars, self._calls)
        self._items.append(item)
        if kind == "function_call":
            self._calls += 1
            self.called(self._calls)
        return item

    def refused(
        self, status: int, body: bytes, answer: HttpResponse | None = None, **more: Any
    ) -> ModelError:
        error = super().refused(status, body, answer, **more)
        if error.retry_after is None:
            error.retry_after = pause_said(body)
        return error

    def made(self) -> Iterator[tuple[str, str, str]]:
        for item in self._items:
            if item.kind == "function_call":
                yield item.call_id, item.name, "".join(item.texts)

    def thoughts(self) -> tuple[ReasoningBlock, ...]:
        found = (i.thought(self.name) for i in self._items if i.kind != "function_call")
        return tuple(thought for thought in found if thought is not None)

    def _count(self, said: _Usage) -> None:
        if said.input_tokens is None:
            return
        details, more = said.input_tokens_details, said.output_tokens_details
        self.counted = counted(
            said.input_tokens,
            said.output_tokens,
            details.cached_tokens if details is not None else 0,
            details.cache_write_tokens if details is not None else 0,
            more.reasoning_tokens if more is not None else 0,
        )


def _numbered(part: Part, told: Any) -> Iterable[tuple[Part, int, str]]:
    for number, each in enumerate(told if isinstance(told, list) else ()):
        if isinstance(each, dict) and isinstance(text := each.get("text"), str):
            yield part, number, text


def _sealed(seal: Seal) -> str:
    return msgspec.json.encode(seal).decode()


STATUSES = {
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "usage_limit_reached": 429,
    "usage_not_included": 403,
    "invalid_api_key": 401,
    "context_length_exceeded": 400,
    "data_residency_mismatch": 400,
    "bio_policy": 400,
    "cyber_policy": 400,
    "misalignment_policy_violation": 400,
    "server_error": 500,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "vector_store_timeout": 500,
}
"""The HTTP status of each error code that can come in a stream."""

_OF_THE_REQUEST = re.compile(r"invalid_|image_|unsupported_|empty_image|failed_to_download")
_PAUSE = re.compile(r"try again in (\d+(?:\.\d+)?) ?(ms|s)", re.IGNORECASE)


def failed(endpoint: Endpoint, credential: Credential, data: bytes) -> ModelError:
    """The error in an event or a whole response."""
    content: Any = msgspec.json.decode(data)
    inner = content.get("response")
    said = content.get("error") or (inner.get("error") if isinstance(inner, dict) else None)
    error = said if isinstance(said, dict) else content
    words = [error.get(field) for field in ("code", "type")]
    codes = [word for word in words if isinstance(word, str)]
    status = content.get("status_code")
    if not isinstance(status, int) or not 400 <= status < 600:
        status = next((STATUSES[code] for code in codes if code in STATUSES), None)
    if status is None:
        status = 400 if any(_OF_THE_REQUEST.match(code) for code in codes) else 500
    body = msgspec.json.encode({"error": error})
    pause = pause_said(body)
    return refusal(endpoint, credential, status, body, codes=" ".join(codes), retry_after=pause)


def pause_said(body: bytes) -> float | None:
    """The retry delay, if only the body of a refusal names it."""
    try:
        content: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    error = content.get("error") if isinstance(content, dict) else None
    if not isinstance(error, dict):
        return None
    resets = error.get("resets_in_seconds")
    if isinstance(resets, int | float) and not isinstance(resets, bool):
        return sensible_pause(resets)
    found = _PAUSE.search(str(error.get("message")))
    if found is None:
        return None
    return sensible_pause(float(found[1]) / (1000 if found[2].lower() == "ms" else 1))
