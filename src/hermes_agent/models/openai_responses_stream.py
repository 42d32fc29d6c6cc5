"""The answers of OpenAI's Responses format, put together from their events."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from hermes_agent.core.messages import Delta, Reply, Request, Stop, Thinking, Thought, Usage
from hermes_agent.models.listening import Piece, no_answer
from hermes_agent.models.openai_failed import failed
from hermes_agent.models.openai_shared import counted, named_calls, text_of
from hermes_agent.models.shared import estimated_usage
from hermes_agent.models.speaking import Credential, Endpoint

BETWEEN = "\n\n"
"""Between the parts of a thought."""

INCOMPLETE: dict[str, Stop] = {"max_output_tokens": "length", "content_filter": "refused"}
"""Why an answer is not complete; another reason is a limit too."""

_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_THOUGHTS: dict[str, "Part"] = {
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "content",
}
_ENDS = ("response.completed", "response.incomplete", "response.done")

Part = Literal["summary", "content"]


class Seal(Struct, frozen=True, omit_defaults=True):
    """What is kept beside the text of a thought: of a reasoning item, or, as the format has more
    to say of them than we do, of the message that begins there."""

    id: str = ""
    encrypted: str = ""
    parts: tuple[tuple[Part, int], ...] = ()
    """Which parts the thought has, and how long they are."""
    phase: str = ""
    """Set for a message only."""


class _Item(Struct, frozen=True):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None
    content: Any = None
    summary: Any = None
    encrypted_content: str | None = None
    phase: str | None = None


class _InputDetails(Struct, frozen=True):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OutputDetails(Struct, frozen=True):
    reasoning_tokens: int | None = None


class _Usage(Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Incomplete(Struct, frozen=True):
    reason: str | None = None


class _Response(Struct, frozen=True):
    status: str | None = None
    output: tuple[_Item, ...] | None = None
    usage: _Usage | None = None
    incomplete_details: _Incomplete | None = None
    error: Any = None


class _Event(_Response, frozen=True):
    """An event; or a whole response, where the service does not stream."""

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
    """An item of the answer whose pieces are still arriving."""

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
        """Kind and number of the part that each of the texts belongs to."""

    def know(self, item: _Item) -> None:
        self.id = item.id or self.id
        self.name = item.name or self.name
        self.call_id = item.call_id or self.call_id
        self.encrypted = item.encrypted_content or self.encrypted
        self.phase = item.phase or self.phase

    def think(self, part: Part, number: int | None, text: str) -> str:
        """Add to a part; the text as it is shown, with something between two parts."""
        new = bool(self.parts) and self.parts[-1] != (part, number)
        self.parts.append((part, number))
        self.texts.append(text)
        return BETWEEN + text if new else text

    def thought(self, by: str) -> Thought | None:
        if self.kind == "message":
            seal = Seal(phase=self.phase)
            return Thought(by, "", _sealed(seal), *self.at) if self.phase and self.texts else None
        whole: list[tuple[Part, list[str]]] = []
        last: tuple[Part, int | None] | None = None
        for part, text in zip(self.parts, self.texts, strict=True):
            if part != last:
                whole.append((part[0], []))
                last = part
            whole[-1][1].append(text)
        parts = tuple((part, sum(map(len, texts))) for part, texts in whole)
        text = BETWEEN.join("".join(texts) for _, texts in whole)
        # Nothing is stored there: what is neither encrypted nor told cannot be referred to.
        known = self.encrypted or any(part == "content" for part, _ in parts)
        body = _sealed(Seal(self.id, self.encrypted, parts)) if known else ""
        return Thought(by, text, body, *self.at) if text or body else None


class Assembly:
    """Makes one answer of the events of a stream."""

    def __init__(self, endpoint: Endpoint, request: Request, credential: Credential) -> None:
        self._endpoint = endpoint
        self._request = request
        self._credential = credential
        self._usage: Usage | None = None
        self._heard = False
        self._finish = ""
        self._reason = ""
        self._refused = False
        self._texts: list[str] = []
        self._chars = 0
        self._items: list[_Open] = []
        self._places: dict[int | None, _Open] = {}

    @property
    def begun(self) -> bool:
        return self._heard

    @property
    def finished(self) -> bool:
        return bool(self._finish)

    def spent(self) -> Usage:
        if self._usage is not None:
            return self._usage
        said = "".join(item.name + "".join(item.texts) for item in self._items)
        return estimated_usage(self._request, said, ())

    def take(self, data: bytes) -> Sequence[Piece]:
        """Add an event; the pieces it brought."""
        try:
            event = _event.decode(data)
            return self._take(event, data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise no_answer(self._endpoint.name, str(error), data) from None

    def reply(self) -> Reply:
        endpoint, usage = self._endpoint, self.spent()
        thoughts = (i.thought(endpoint.name) for i in self._items if i.kind != "function_call")
        return Reply(
            text="".join(self._texts),
            calls=named_calls(self._request, self._made(), endpoint.name, usage),
            usage=usage,
            stop=self._stop(),
            model=endpoint.name,
            cost=endpoint.facts.cost(usage),
            thoughts=tuple(thought for thought in thoughts if thought is not None),
        )

    def _take(self, event: _Event, data: bytes) -> Sequence[Piece]:
        kind, delta = event.type, event.delta
        if kind in _TEXTS and isinstance(delta, str):
            self._refused = self._refused or kind == "response.refusal.delta"
            return self._say(self._item("message", event.output_index), delta)
        if kind in _THOUGHTS and isinstance(delta, str):
            part = _THOUGHTS[kind]
            number = event.summary_index if part == "summary" else event.content_index
            item = self._item("reasoning", event.output_index)
            return [Thinking(item.think(part, number, delta))]
        if kind == "response.function_call_arguments.delta" and isinstance(delta, str):
            self._item("function_call", event.output_index).texts.append(delta)
        elif kind == "response.function_call_arguments.done" and event.arguments:
            item = self._item("function_call", event.output_index)
            item.texts = [text_of(event.arguments)]
        elif kind == "response.output_item.added" and event.item is not None:
            self._item(event.item.type, event.output_index).know(event.item)
        elif kind == "response.output_item.done" and event.item is not None:
            return self._done(event.item, event.output_index)
        elif kind in _ENDS and event.response is not None:
            return self._end(kind, event.response)
        elif kind in ("response.failed", "error"):
            raise failed(self._endpoint, self._credential, data)
        elif not kind and event.output is not None:
            return self._whole(event, data)
        self._heard = self._heard or kind.startswith("response.")
        return ()

    def _whole(self, event: _Event, data: bytes) -> Sequence[Piece]:
        if event.error:
            raise failed(self._endpoint, self._credential, data)
        if event.status not in ("completed", "incomplete"):
            return ()
        return self._end(f"response.{event.status}", event)

    def _end(self, kind: str, response: _Response) -> Sequence[Piece]:
        self._heard = True
        self._finish = kind
        if response.usage is not None:
            self._count(response.usage)
        if response.incomplete_details is not None:
            self._reason = response.incomplete_details.reason or ""
        if response.status == "incomplete":
            self._finish = "response.incomplete"
        if self._items:
            return ()
        output = enumerate(response.output or ())
        return [piece for index, item in output for piece in self._done(item, index)]

    def _done(self, item: _Item, index: int | None) -> Sequence[Piece]:
        """An item is whole: what it holds that has not come before."""
        open = self._item(item.type, index)
        open.know(item)
        match item.type:
            case "message":
                return self._rest(open, item)
            case "reasoning" if not open.texts:
                told = (*_numbered("summary", item.summary), *_numbered("content", item.content))
                return [Thinking(open.think(part, n, text)) for part, n, text in told]
            case "function_call" if item.arguments:
                open.texts = [text_of(item.arguments)]
        return ()

    def _rest(self, open: _Open, item: _Item) -> Sequence[Piece]:
        content = item.content if isinstance(item.content, list) else ()
        parts = [part for part in content if isinstance(part, dict)]
        self._refused = self._refused or any(part.get("type") == "refusal" for part in parts)
        texts = (part.get("text") or part.get("refusal") for part in parts)
        whole = "".join(text for text in texts if isinstance(text, str))
        said = "".join(open.texts)
        more = whole.startswith(said) and len(whole) > len(said)
        return self._say(open, whole[len(said) :]) if more else ()

    def _say(self, item: _Open, text: str) -> Sequence[Piece]:
        if not text:
            return ()
        item.texts.append(text)
        self._texts.append(text)
        self._chars += len(text)
        return (Delta(text),)

    def _item(self, kind: str, index: int | None) -> _Open:
        """The item at a place in the output. One without a place is the last of its kind."""
        known = self._places.get(index)
        if known is not None and known.kind == kind:
            return known
        self._heard = True
        calls = sum(item.kind == "function_call" for item in self._items)
        item = _Open(kind, self._chars, calls)
        self._items.append(item)
        self._places[index] = item
        return item

    def _stop(self) -> Stop:
        if self._refused:
            return "refused"
        if self._finish == "response.incomplete":
            return INCOMPLETE.get(self._reason, "length")
        return "calls" if any(item.kind == "function_call" for item in self._items) else "end"

    def _made(self) -> Iterator[tuple[str, str, str]]:
        for item in self._items:
            if item.kind != "function_call":
                continue
            arguments = "".join(item.texts)
            if not arguments and item is self._items[-1] and self._stop() == "length":
                return  # cut before its arguments began: nobody knows what it would have been
            yield item.call_id, item.name, arguments

    def _count(self, said: _Usage) -> None:
        if said.input_tokens is None:
            return
        details, more = said.input_tokens_details, said.output_tokens_details
        self._usage = counted(
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
