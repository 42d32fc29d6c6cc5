"""One model call over HTTP: sends the request and assembles the streamed answer."""

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from time import monotonic
from typing import ClassVar
from urllib.parse import quote, urlencode

import msgspec

from hermes_agent.core.errors import ModelError, ModelTrouble
from hermes_agent.core.messages import (
    Chunk,
    Delta,
    ReasoningBlock,
    Reply,
    Request,
    Stop,
    Thinking,
    ToolCall,
    Usage,
)
from hermes_agent.models.keys.inline_secrets import service_secrets
from hermes_agent.models.shared import (
    estimated_usage,
    known_call_ids,
    new_call_id,
    possible_usage,
)
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.errors import refusal
from hermes_agent.models.wires.http import HttpConnection, HttpResponse, shown, within

_FIELDS = (b":", b"id:", b"retry:")


class EventReader:
    """Splits a stream into server-sent events; other fields and comments are skipped. httpx's own
    line splitting does not do: it also splits at U+2028, which JSON text may contain."""

    def __init__(self, sender: str) -> None:
        self._sender = sender
        self._rest: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The events that this chunk completes. Surrounding whitespace stays: JSON allows it."""
        lines = piece.split(b"\n")
        if self._rest:
            self._rest.append(lines[0])
            if len(lines) == 1:
                return
            lines[0] = b"".join(self._rest)
        self._rest = [last] if (last := lines.pop()) else []
        for line in lines:
            if line[:5] == b"data:":
                yield line[5:]
            elif line and line[:6] != b"event:" and not line.startswith(_FIELDS) and line.strip():
                raise ModelError("garbage", f"{self._sender} sent no event stream: {shown(line)}")

    def end(self) -> Iterator[bytes]:
        """The end of the stream: an unterminated last line counts."""
        return self.feed(b"\n")


TAIL_SECONDS = 1.0
"""How long to wait for the token count after the answer is complete."""
DONE = b"[DONE]"
MAX_CALLS = 128
"""More calls in one reply are an error of the model or the service."""

_SENDABLE = re.compile(r"[\t\x20-\x7e]*")

Piece = Delta | Thinking
Asked = Callable[[Request, Credential], tuple[bytes, Mapping[str, str]]]
"""Makes the body and the headers of a request."""
Learns = Callable[[Request, bytes], bool]
"""Called with a refusal; returns whether a changed request may succeed."""


class OpenCall:
    """A call whose pieces are still arriving."""

    def __init__(self, id: str = "", name: str = "") -> None:
        self.id, self.name = id, name
        self.arguments: list[str] = []


class ResponseAccumulator(ABC):
    """Assembles one answer from the events of a stream."""

    stops: ClassVar[Mapping[str, Stop]]
    """The meaning of the service's stop reasons; an unknown one is a normal end."""

    def __init__(self, endpoint: Endpoint, request: Request, credential: Credential) -> None:
        self.endpoint, self.request, self.credential = endpoint, request, credential
        self.name = endpoint.name
        self.begun = False
        """Whether the service has begun to answer: from then on the try costs tokens."""
        self.finished = False
        """Whether the service has marked the answer as complete."""
        self.finish_reason = ""
        """The service's stop reason."""
        self.counted: Usage | None = None
        self.declined = False
        """Whether the model itself has said that it will not answer."""
        self.open_calls: list[OpenCall] = []
        self._chars = 0
        self._texts: list[str] = []
        self._thinking_texts: list[str] = []
        self._run: list[str] = []
        self._runs_on: type[Piece] = Delta
        self._fresh: list[Piece] = []

    # what a format does

    @abstractmethod
    def feed(self, piece: bytes) -> None:
        """Process a chunk of bytes. Raises `ModelError` for garbage or an error event, but not once
        the answer is complete."""

    @abstractmethod
    def finish(self) -> None:
        """The stream has ended."""

    def feed_all(self, body: bytes) -> None:
        """Process an answer that was not streamed."""
        self.feed(body)

    def made(self) -> Iterator[tuple[str, str, str]]:
        """Id, name and arguments of each call, as far as they came."""
        for call in self.open_calls:
            yield call.id, call.name, "".join(call.arguments)

    @abstractmethod
    def thoughts(self) -> tuple[ReasoningBlock, ...]: ...

    def refused(
        self,
        status: int,
        body: bytes,
        answer: HttpResponse | None = None,
        *,
        codes: str = "",
        kind: ModelTrouble | None = None,
    ) -> ModelError:
        """The error for a refusal; `answer` is None if it came in the middle of a stream."""
        pause = answer.retry_after() if answer is not None else None
        return refusal(
            self.endpoint, self.credential, status, body, codes=codes, kind=kind, retry_after=pause
        )

    # what they share

    def say(self, text: str) -> None:
        """Text has come."""
        if self._runs_on is not Delta:
            self._turn(Delta)
        self._run.append(text)

    def think(self, text: str) -> None:
        """Readable reasoning has come; the format keeps its blocks."""
        if self._runs_on is not Thinking:
            self._turn(Thinking)
        self._run.append(text)

    def _turn(self, kind: type[Piece]) -> None:
        if text := "".join(self._run):
            self._fresh.append(self._runs_on(text))
            if self._runs_on is Delta:
                self._texts.append(text)
                self._chars += len(text)
            else:
                self._thinking_texts.append(text)
        self._run.clear()
        self._runs_on = kind

    def fresh(self) -> list[Piece]:
        """What has come since the last call, adjacent text joined."""
        self._turn(self._runs_on)
        fresh, self._fresh = self._fresh, []
        return fresh

    def open_call(self, id: str = "", name: str = "") -> OpenCall:
        self.open_calls.append(OpenCall(id, name))
        self.called(len(self.open_calls))
        return self.open_calls[-1]

    def called(self, calls: int) -> None:
        """Raise if a reply has too many calls."""
        if calls > MAX_CALLS:
            raise ModelError("garbage", f"{self.name} made more than {MAX_CALLS} calls at once")

    def end(self, reason: str) -> None:
        self.finish_reason, self.finished = reason, True

    @property
    def text(self) -> str:
        self._turn(self._runs_on)
        return "".join(self._texts)

    @property
    def thinking(self) -> str:
        self._turn(self._runs_on)
        return "".join(self._thinking_texts)

    def written(self) -> str:
        """Everything the model wrote besides the text, to estimate tokens."""
        return "".join(text for _, *call in self.made() for text in call) + self.thinking

    @property
    def chars(self) -> int:
        """Characters of the text so far."""
        self._turn(self._runs_on)
        return self._chars

    def spent(self) -> Usage:
        """Tokens used so far, counted by the service or estimated."""
        return self.counted or estimated_usage(self.request, self.text + self.written(), ())

    def stop(self) -> Stop:
        stop = "refused" if self.declined else self.stops.get(self.finish_reason, "end")
        # Services disagree on the word; whether there are calls is what counts.
        return ("calls" if any(self.made()) else "end") if stop in ("end", "calls") else stop

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls, each with a unique id. A last call that the output limit cut before its
        arguments began is left out."""
        taken, made, calls = known_call_ids(self.request), list(self.made()), []
        self.called(len(made))
        if made and not made[-1][2] and self.stop() == "length":
            made.pop()
        for id, name, arguments in made:
            if not name:
                raise ModelError("garbage", f"{self.name} called a tool without naming it")
            own = id if id and id not in taken else new_call_id(self.request, taken)
            taken.add(own)
            calls.append(ToolCall(own, name, arguments or "{}"))
        return tuple(calls)

    def cost(self, usage: Usage) -> float | None:
        return self.endpoint.facts.cost(usage)

    def reply(self) -> Reply:
        usage = possible_usage(self.spent())
        return Reply(
            text=self.text,
            calls=self.calls(),
            usage=usage,
            stop=self.stop(),
            model=self.name,
            cost=self.cost(usage),
            thoughts=self.thoughts(),
        )

    def no_answer(self, why: object, data: bytes) -> ModelError:
        return ModelError("garbage", f"{self.name} sent an invalid answer ({why}): {shown(data)}")

    def broken(self) -> ModelError:
        return ModelError("broken_stream", f"{self.name} stopped in the middle of its answer")


class SseAccumulator(ResponseAccumulator):
    """An answer in server-sent events that each hold one JSON value."""

    def __init__(self, endpoint: Endpoint, request: Request, credential: Credential) -> None:
        super().__init__(endpoint, request, credential)
        self._reader = EventReader(endpoint.name)

    @abstractmethod
    def take(self, data: bytes) -> None:
        """Process an event. Decoding errors are handled by the caller."""

    def done(self) -> None:
        """The service sent `[DONE]`."""
        if not self.finished:
            raise self.broken()

    def feed(self, piece: bytes) -> None:
        self.take_all(self._reader.feed(piece))

    def finish(self) -> None:
        self.take_all(self._reader.end())

    def feed_all(self, body: bytes) -> None:
        self.take_all((body,))
        if not self.finished:
            raise self.no_answer("no answer in it", body)

    def take_all(self, events: Iterable[bytes]) -> None:
        """Process events in order."""
        take, data = self.take, b""
        try:
            for data in events:
                take(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if data.strip() == DONE:
                self.done()
            elif not self.finished:
                raise self.no_answer(error, data) from None
        except ModelError:
            if not self.finished:
                raise


class StallDetector:
    """Detects a service that keeps the connection open without making progress."""

    def __init__(self, accumulator: ResponseAccumulator, patience: float) -> None:
        self._accumulator = accumulator
        self._patience = patience
        self._size = 0
        self._due = monotonic() + patience

    def check(self) -> None:
        if monotonic() < self._due:
            return
        size = self._accumulator.chars + len(self._accumulator.written())
        if size == self._size:
            name = self._accumulator.name
            raise ModelError(
                "timeout",
                f"{name} kept the connection open for {self._patience:g} seconds but sent nothing",
            )
        self._size, self._due = size, monotonic() + self._patience


class HttpWireClient:
    """The client of one model. `asked` builds a request, `accumulator` assembles the answer."""

    def __init__(
        self,
        endpoint: Endpoint,
        path: str,
        headers: Mapping[str, str],
        asked: Asked,
        accumulator: Callable[[Endpoint, Request, Credential], ResponseAccumulator],
        learns: Learns = lambda _request, _said: False,
    ) -> None:
        self._endpoint = endpoint
        self._path = path
        self._asked = asked
        self._accumulator = accumulator
        self._learns = learns
        self._headers = headers
        service = endpoint.service
        self._secrets = tuple(service_secrets(service.headers, service.query, endpoint.url))
        self._wire = HttpConnection(endpoint.url, headers, endpoint.silence, endpoint.first)

    async def close(self) -> None:
        await self._wire.close()

    def _check(self, headers: Mapping[str, str]) -> None:
        """Raise for an invalid header. Its value is not shown: it may be a secret."""
        for name, value in (*self._headers.items(), *headers.items()):
            if not _SENDABLE.fullmatch(name + value):
                own = self._endpoint.name.partition("/")[0]
                raise ModelError(
                    "bad_request",
                    f"the header {name!r} for {own} contains invalid characters",
                    f"use plain characters only; check models.services.{own}.headers "
                    "and at its key",
                )

    async def stream(self, request: Request, credential: Credential) -> AsyncGenerator[Chunk, None]:
        while True:
            body, headers = self._asked(request, credential)
            accumulator = self._accumulator(self._endpoint, request, credential)
            secrets = credential.secret, credential.session, *self._secrets
            self._check(headers)
            async with self._wire.post(self._path, body, headers, secrets) as answer:
                if answer.status != 200:
                    said = await answer.read()
                    if answer.status == 400 and self._learns(request, said):
                        continue
                    refused = accumulator.refused(answer.status, said, answer)
                    refused.turned_away = True
                    raise refused
                progress = StallDetector(accumulator, self._endpoint.patience)
                try:
                    async with aclosing(answer.pieces()) as pieces:
                        if answer.is_json():
                            accumulator.feed_all(b"".join([piece async for piece in pieces]))
                        async for piece in pieces:
                            # All events of a network chunk go up at once: the layers above cost
                            # more per chunk than reading does.
                            accumulator.feed(piece)
                            for fresh in accumulator.fresh():
                                yield fresh
                            if accumulator.finished:
                                break
                            progress.check()
                        # Only the token count is still missing. Reading to the very end also
                        # keeps the connection usable for the next call.
                        for piece in await within(TAIL_SECONDS, pieces):
                            accumulator.feed(piece)
                    accumulator.finish()
                    if not accumulator.finished:
                        raise accumulator.broken()
                    for fresh in accumulator.fresh():
                        yield fresh
                    reply = accumulator.reply()
                except ModelError as error:
                    if accumulator.begun:
                        usage = accumulator.spent()
                        error.input, error.output = usage.input, usage.output
                    raise
            yield reply
            return


def path_of(endpoint: Endpoint, path: str, **query: str) -> str:
    """The path with the query that the service needs on every request."""
    query |= endpoint.service.query
    return f"{path}?{urlencode(query, quote_via=quote)}" if query else path


def standing_headers(endpoint: Endpoint) -> dict[str, str]:
    """The headers of every request."""
    own = {"content-type": "application/json", "accept": "text/event-stream"}
    return own | endpoint.service.headers


def bearer(credential: Credential) -> dict[str, str]:
    return {"authorization": f"Bearer {credential.secret}"} if credential.secret else {}
