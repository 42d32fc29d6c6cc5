"""Asks a service which models it has, in the format of its wire."""

from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ModelError
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.errors import refusal
from hermes_agent.models.wires.http import HttpConnection, shown

_NO_LIST = (404, 405, 501)
"""How a service says that it has no list of models."""
_WINDOWS = ("max_model_len", "context_length", "context_window", "n_ctx", "n_ctx_train")
"""Fields in which servers name the context window of a model."""


class ListedModel(Struct, frozen=True):
    name: str
    context: int = 0
    """Its context window in tokens, if the service says so."""


async def list_models(endpoint: Endpoint, credential: Credential) -> tuple[ListedModel, ...] | None:
    """The models of a service, or None where it has no list. Raises `ModelError`."""
    service = endpoint.service
    if service.wire == "bedrock" or endpoint.has("codex") or endpoint.has("api_key_header"):
        return None
    path, headers = _request(service.wire, credential)
    headers |= {"accept": "application/json", **service.headers}
    connection = HttpConnection(endpoint.url, headers, endpoint.silence)
    try:
        path = (path + urlencode(service.query, quote_via=quote)).rstrip("?&")
        async with connection.get(path, {}, (credential.secret,)) as response:
            body = await response.read()
            if response.status in _NO_LIST and "html" not in response.header("content-type"):
                return None
            if response.status != 200:
                raise refusal(endpoint, credential, response.status, body)
            return _listed(connection.shown_url, body)
    finally:
        await connection.close()


def _request(wire: str, credential: Credential) -> tuple[str, dict[str, str]]:
    """The path, to which a query can be added, and the headers with the key."""
    match wire:
        case "anthropic":
            from hermes_agent.models.wires.anthropic import VERSION, headers_of

            keyed = headers_of(credential, "", budgeted=False)
            return "/v1/models?limit=1000&", {"anthropic-version": VERSION, **keyed}
        case "gemini":
            return "/models?pageSize=1000&", {"x-goog-api-key": credential.secret}
    from hermes_agent.models.wires.streaming import bearer

    return "/models?", bearer(credential)


def _listed(url: str, body: bytes) -> tuple[ListedModel, ...]:
    try:
        content: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        page = b"<html" in body[:2000].lower() or b"<!doctype" in body[:100].lower()
        said = "a web page" if page else repr(shown(body)[:60])
        raise ModelError(
            "garbage",
            f"{url} answered with {said}, not with a list of models",
            "check the address: the base of an OpenAI-compatible API usually ends in /v1",
        ) from None
    rows = content
    if isinstance(content, dict):
        rows = content.get("data") or content.get("models") or []
    rows = rows if isinstance(rows, list) else []
    found = (_row(row) for row in rows if isinstance(row, dict))
    return tuple(model for model in found if model.name)


def _row(row: dict[str, Any]) -> ListedModel:
    name = str(row.get("id") or row.get("name") or "").removeprefix("models/")
    meta = row.get("meta")
    for place in (row, meta if isinstance(meta, dict) else {}):
        for field in _WINDOWS:
            if isinstance(window := place.get(field), int) and window > 0:
                return ListedModel(name, window)
    return ListedModel(name)
