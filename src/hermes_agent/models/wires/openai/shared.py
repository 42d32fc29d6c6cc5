"""Shared by OpenAI's two wire formats: headers, media, calls, usage."""

import hashlib
import re
from base64 import b64encode

import msgspec
from msgspec import Struct

from hermes_agent.core.messages import Media, Request, ToolCall, Usage
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.streaming import bearer

EMPTY = "(empty)"
"""Placeholder for an empty text, which services reject."""


class InputDetails(Struct, frozen=True, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputDetails(Struct, frozen=True, gc=False):
    reasoning_tokens: int | None = None


_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PLAIN_ID = re.compile(r"[A-Za-z0-9_.:-]+")


def headers_of(endpoint: Endpoint, request: Request, credential: Credential) -> dict[str, str]:
    """The headers of one request."""
    headers = {"x-hermes-session": request.session} if request.session else {}
    if credential.secret and endpoint.has("api_key_header"):
        return headers | {"api-key": credential.secret}
    return headers | bearer(credential)


def data_url(media: Media) -> str:
    return f"data:{media.type};base64,{b64encode(media.data).decode()}"


def fitting_arguments(call: ToolCall) -> str:
    """The arguments byte for byte if they are an object, since many services parse them; anything
    else is wrapped into one."""
    try:
        _object.decode(call.arguments)
    except (msgspec.MsgspecError, RecursionError):
        return msgspec.json.encode({"not_an_object": call.arguments}).decode()
    return call.arguments


def fitting_id(id: str, most: int) -> str:
    """The call id if it is valid, else a replacement that is always the same."""
    if len(id) <= most and _PLAIN_ID.fullmatch(id):
        return id
    return f"call_{hashlib.sha256(id.encode(errors='replace')).hexdigest()[:32]}"


def text_of(arguments: object) -> str:
    """A piece of arguments: a string, or an object from some services."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def counted(
    input: int | None,
    output: int | None,
    cached: int | None = 0,
    written: int | None = 0,
    reasoning: int | None = 0,
) -> Usage:
    """The reported usage, with impossible values corrected."""
    whole, said = max(0, input or 0), max(0, output or 0)
    read = min(whole, max(0, cached or 0))
    return Usage(
        whole,
        said,
        read,
        min(whole - read, max(0, written or 0)),
        min(said, max(0, reasoning or 0)),
    )
