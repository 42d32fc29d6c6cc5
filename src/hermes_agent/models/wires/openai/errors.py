"""What the Responses format says in the middle of a stream when it fails."""

import re
from typing import Any

import msgspec

from hermes_agent.core.errors import ModelError
from hermes_agent.models.shared import sensible_pause
from hermes_agent.models.wires.base import Credential, Endpoint
from hermes_agent.models.wires.errors import refusal

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
"""The status that an error would have had, had it come before the stream."""

_OF_THE_REQUEST = re.compile(r"invalid_|image_|unsupported_|empty_image|failed_to_download")
_PAUSE = re.compile(r"try again in (\d+(?:\.\d+)?) ?(ms|s)", re.IGNORECASE)


def failed(endpoint: Endpoint, credential: Credential, data: bytes) -> ModelError:
    """The error that an event or a whole response tells of."""
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
    """Seconds to wait, where a refusal tells them in its body only."""
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
