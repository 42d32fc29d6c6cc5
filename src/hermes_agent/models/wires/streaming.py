"""One call over HTTP: what is asked is sent, and its answer is put together as it arrives."""

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
    """Cuts a stream into its events; other fields and comments are passed over. Not by httpx's
    own lines: those also end at U+2028 and the like, which JSON text may hold."""

    def __init__(self, sender: str) -> None:
        self._sender = sender
        self._rest: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The events that are whole now that this piece is here. What stands around one is left:
        JSON does not mind."""
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
        """There is no more: the last line counts without its end."""
        return self.feed(b"\n")


TAIL_SECONDS = 1.0
"""How long to wait for the token count once the answer itself is whole."""
DONE = b"[DONE]"
MAX_CALLS = 128
"""More calls in one reply are a fault of the model, or of whoever speaks for it."""

_SENDABLE = re.compile(r"[\t\x20-\x7e]*")

Piece = Delta | Thinking
Asked = Callable[[Request, Credential], tuple[bytes, Mapping[str, str]]]
"""Makes the body and the headers of a request."""
Learns = Callable[[Request, bytes], bool]
"""Told of a refusal; whether the next request will be another."""


class OpenCall:
    """A call whose pieces are still arriving."""

    def __init__(self, id: str = "", name: str = "") -> None:
        self.id, self.name = id, name
        self.arguments: list[str] = []


class ResponseAccumulator(ABC):
    """Makes one answer of the events of a stream."""

    stops: ClassVar[Mapping[str, Stop]]
    """What the service's reasons to stop mean; a word that is not here is a normal end."""

    def __init__(self, endpoint: Endpoint, request: Request, credential: Credential) -> None:
        self.endpoint, self.request, self.credential = endpoint, request, credential
        self.name = endpoint.name
        self.begun = False
        """Whether the service has begun to answer: from then on a try is not free."""
        self.finished = False
        """Whether the service has marked the answer as whole."""
        self.finish_reason = ""
        """The service's reason to stop."""
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
        """Take all that a piece of the network brings. A `ModelError` when it is no answer, or bad
        news; but once the answer is whole, nothing can spoil it."""

    @abstractmethod
    def finish(self) -> None:
        """There are no more pieces."""

    def feed_all(self, body: bytes) -> None:
        """Take an answer that was not streamed."""
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
        """What a refusal means; without an answer it came in the middle of one."""
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
        """Readable reasoning has come; to keep it is the format's."""
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
        """What has come since this was last asked, a run of text as one piece."""
        self._turn(self._runs_on)
        fresh, self._fresh = self._fresh, []
        return fresh

    def open_call(self, id: str = "", name: str = "") -> OpenCall:
        self.open_calls.append(OpenCall(id, name))
        self.called(len(self.open_calls))
        return self.open_calls[-1]

    def called(self, calls: int) -> None:
        """So many calls have come. Nobody means more than `MAX_CALLS`."""
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
        """All that the service has written beside the text, to estimate its tokens."""
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
        """The calls, each under an id of its own. One that a limit cut before its arguments began
        is left out: nobody knows what it would have been."""
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
        return ModelError(
            "garbage", f"{self.name} sent something that is no answer ({why}): {shown(data)}"
        )

    def broken(self) -> ModelError:
        return ModelError("broken_stream", f"{self.name} stopped in the middle of its answer")


class SseAccumulator(ResponseAccumulator):
    """An answer whose events are server-sent and each hold one whole JSON value."""

    def __init__(self, endpoint: Endpoint, request: Request, credential: Credential) -> None:
        super().__init__(endpoint, request, credential)
        self._reader = EventReader(endpoint.name)

    @abstractmethod
    def take(self, data: bytes) -> None:
        """Add an event; an error of decoding it is seen to here."""

    def done(self) -> None:
        """The service says that there is no more."""
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
        """Take one event after the other."""
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
    """Notices a service that keeps the line open and has nothing to say."""

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
                f"{name} kept the line open for {self._patience:g} seconds and said nothing",
            )
        self._size, self._due = size, monotonic() + self._patience


class HttpWireClient:
    """One model of a service. `asked` makes a request, `accumulator` what comes back."""

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
        self._wire = HttpConnection(endpoint.url, headers, endpoint.silence)

    async def close(self) -> None:
        await self._wire.close()

    def _check(self, headers: Mapping[str, str]) -> None:
        """A header that cannot be sent is named; its value may be a secret."""
        for name, value in (*self._headers.items(), *headers.items()):
            if not _SENDABLE.fullmatch(name + value):
                own = self._endpoint.name.partition("/")[0]
                raise ModelError(
                    "bad_request",
                    f"the header {name!r} for {own} holds what no header can",
                    f"only plain characters can be sent; look at models.services.{own}.headers "
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
                            # All that a piece of the network holds goes up at once: each layer
                            # above takes longer over a chunk than it takes to read one.
                            accumulator.feed(piece)
                            for fresh in accumulator.fresh():
                                yield fresh
                            if accumulator.finished:
                                break
                            progress.check()
                        # Once it is whole only the token count is still of use. Reading on to
                        # the very end also leaves the connection fit for the next call.
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
    """The path with what every address of the service ends with."""
    query |= endpoint.service.query
    return f"{path}?{urlencode(query, quote_via=quote)}" if query else path


def standing_headers(endpoint: Endpoint) -> dict[str, str]:
    """Those of every request."""
    own = {"content-type": "application/json", "accept": "text/event-stream"}
    return own | endpoint.service.headers


def bearer(credential: Credential) -> dict[str, str]:
    return {"authorization": f"Bearer {credential.secret}"} if credential.secret else {}
