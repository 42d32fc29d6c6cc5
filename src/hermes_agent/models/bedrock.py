"""Amazon Bedrock's Converse, streaming: signed requests, answers in AWS's binary frames."""

import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ModelError, ModelTrouble
from hermes_agent.core.messages import Chunk, Reply, Request
from hermes_agent.core.protocols import Clock
from hermes_agent.models.aws_signing import signed_headers
from hermes_agent.models.bedrock_answers import MALFORMED, Assembly, Unreadable
from hermes_agent.models.bedrock_requests import request_body
from hermes_agent.models.event_stream import DamagedFrame, Frame, FrameReader
from hermes_agent.models.refusals import refusal
from hermes_agent.models.speaking import Credential, Endpoint
from hermes_agent.models.wire import Answer, Wire, within

TAIL_SECONDS = 1.0
"""How long to wait for the token count once the answer itself is whole."""
REGION_HEADER = "x-amz-region"
"""Names the region where the address does not: a proxy, a private address."""

TROUBLES: dict[str, tuple[int, ModelTrouble | None]] = {
    "accessdenied": (403, "auth"),
    "expiredtoken": (403, "auth"),
    "incompletesignature": (400, "auth"),
    "invalidclienttokenid": (403, "auth"),
    "invalidsignature": (403, "auth"),
    "missingauthenticationtoken": (403, "auth"),
    "notauthorized": (400, "auth"),
    "unrecognizedclient": (403, "auth"),
    "throttling": (429, "rate_limit"),
    "servicequotaexceeded": (400, "quota"),
    "modelnotready": (429, "overload"),
    "modelerror": (424, "overload"),
    "modelstreamerror": (424, "overload"),
    "internalserver": (500, "overload"),
    "serviceunavailable": (503, "overload"),
    "modeltimeout": (408, "timeout"),
    "resourcenotfound": (404, "bad_request"),
    "validation": (400, None),
}
"""AWS's names of errors, less `Exception`: their status, which is not told inside a stream, and
what they mean; the words tell where it is None."""

_REGION = re.compile(r"\bbedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")


class _Error(Struct, frozen=True):
    type: Any = msgspec.field(name="__type", default="")


class Bedrock:
    """One model of Bedrock."""

    def __init__(self, endpoint: Endpoint, clock: Clock = time.time) -> None:
        self._endpoint = endpoint
        self._name = endpoint.name
        self._clock = clock
        self._path = f"/model/{quote(endpoint.model, safe='')}/converse-stream"
        named = _REGION.search(endpoint.url)
        self._region = (
            named[1] if named else endpoint.service.headers.get(REGION_HEADER, "us-east-1")
        )
        headers = {"accept": "application/vnd.amazon.eventstream"}
        self._wire = Wire(endpoint.url, headers | endpoint.service.headers, endpoint.silence)

    async def stream(self, request: Request, credential: Credential) -> AsyncIterator[Chunk]:
        body = request_body(self._endpoint, request)
        signed = self._headers(body, credential)
        secrets = (credential.secret, credential.session)
        assembly, reader = Assembly(), FrameReader()
        async with self._wire.post(self._path, body, signed, secrets) as answer:
            if answer.status != 200:
                raise await self._refused(answer, credential)
            try:
                async with aclosing(answer.pieces()) as pieces:
                    async for piece in pieces:
                        frames = reader.feed(piece)
                        for headers, payload in frames:
                            kind = headers.get(":event-type")
                            if kind is None:
                                raise self._failed(headers, payload, credential)
                            chunk = assembly.take(kind, payload)
                            if chunk is not None:
                                yield chunk
                            elif assembly.stop_reason:
                                break
                        if assembly.stop_reason:
                            break
                    else:
                        raise ModelError("broken_stream", f"{self._name} stopped midway")
                    await self._count(frames, reader, pieces, assembly)
            except (DamagedFrame, Unreadable) as error:
                why = ModelError("garbage", f"{self._name} sent no answer ({error})")
                raise _with_usage(why, assembly, request) from None
            except ModelError as error:
                raise _with_usage(error, assembly, request) from None
        yield self._reply(request, assembly)

    async def close(self) -> None:
        await self._wire.close()

    def _headers(self, body: bytes, credential: Credential) -> Mapping[str, str]:
        headers = {"content-type": "application/json"}
        if credential.id:
            return signed_headers(
                self._endpoint.url.rstrip("/") + self._path,
                body,
                headers,
                credential,
                region=self._region,
                service="bedrock",
                now=self._clock(),
            )
        if credential.secret:
            headers["authorization"] = f"Bearer {credential.secret}"
        return headers

    async def _count(
        self,
        frames: Iterator[Frame],
        reader: FrameReader,
        pieces: AsyncIterator[bytes],
        assembly: Assembly,
    ) -> None:
        """The answer is whole; only the token count is still of use. Reading on to the very end
        also leaves the connection fit for the next call."""

        def take(frames: Iterator[Frame]) -> None:
            for headers, payload in frames:
                if headers.get(":event-type") == "metadata":
                    assembly.take("metadata", payload)

        with suppress(DamagedFrame, Unreadable):
            take(frames)
            for piece in await within(TAIL_SECONDS, pieces):
                take(reader.feed(piece))

    def _failed(
        self, headers: Mapping[str, str], payload: bytes, credential: Credential
    ) -> ModelError:
        """What Bedrock reports in the middle of a stream."""
        name = headers.get(":exception-type") or headers.get(":error-code", "")
        status, kind = TROUBLES.get(_plain(name), (500, None))
        said = payload or headers.get(":error-message", "").encode()
        return refusal(self._endpoint, credential, status, said, codes=name, kind=kind)

    async def _refused(self, answer: Answer, credential: Credential) -> ModelError:
        said = await answer.read()
        name = answer.header("x-amzn-errortype") or _named_in(said)
        _, kind = TROUBLES.get(_plain(name), (0, None))
        return refusal(
            self._endpoint,
            credential,
            answer.status,
            said,
            codes=name,
            kind=kind,
            retry_after=answer.retry_after(),
        )

    def _reply(self, request: Request, assembly: Assembly) -> Reply:
        usage = assembly.used(request)
        if assembly.stop_reason in MALFORMED:
            raise ModelError(
                "garbage",
                f"{self._name} wrote what Bedrock could not read ({assembly.stop_reason})",
                input=usage.input,
                output=usage.output,
            )
        return Reply(
            text=assembly.text,
            calls=assembly.calls(request),
            usage=usage,
            stop=assembly.stop,
            model=self._name,
            cost=self._endpoint.facts.cost(usage),
            thoughts=assembly.thoughts(self._name),
        )


def _with_usage(error: ModelError, assembly: Assembly, request: Request) -> ModelError:
    """The error with what the answer used until then, if there was any."""
    if assembly.begun:
        used = assembly.used(request)
        error.input, error.output = used.input, used.output
    return error


def _plain(name: str) -> str:
    """An error's name however it is dressed: `com.amazon#ThrottlingException:http://…`."""
    return name.partition(":")[0].rpartition("#")[2].removesuffix("Exception").lower()


def _named_in(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body, type=_Error).type)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def open_speaker(endpoint: Endpoint) -> Bedrock:
    return Bedrock(endpoint)
