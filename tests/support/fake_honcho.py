"""A server that speaks Honcho's interface. What it is sent and what it answers have the shapes of
the official SDK, which are strict about fields that nobody knows."""

import re
from collections.abc import Iterable
from itertools import count
from typing import Any

from honcho.api_types import (
    ConclusionQueryParams,
    ConclusionResponse,
    MessageBatchCreateParams,
    MessageResponse,
    SessionCreateParams,
    SessionResponse,
    WorkspaceCreateParams,
    WorkspaceResponse,
)
from pydantic import BaseModel, ValidationError

from tests.support.model_server import ModelServer, Raw, Received

KEY = "hch-1234567890-do-not-tell"
_TIME = "2026-10-01T12:00:00Z"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,512}")
MESSAGE_CHARS = 25_000


class FakeHoncho(ModelServer):
    """Concludes each thing a peer says as it is said, where the session lets it look at that peer;
    finds conclusions by their words."""

    def __init__(self, key: str = KEY) -> None:
        super().__init__(self._route)
        self.key = key
        """Empty: whoever asks is let in."""
        self.workspaces: set[str] = set()
        self.sessions: dict[str, SessionCreateParams] = {}
        self.messages: list[MessageResponse] = []
        self.conclusions: list[ConclusionResponse] = []
        self._ids = count(1)

    def asked(self) -> list[tuple[str, str, Any]]:
        """Path, key and content of what arrived."""
        return [
            (each.path, each.headers.get("authorization", ""), each.json) for each in self.requests
        ]

    def forget(self) -> None:
        """Somebody sets the server up anew."""
        self.workspaces.clear()
        self.sessions.clear()

    def _route(self, received: Received) -> Raw:
        if self.key and received.headers.get("authorization") != f"Bearer {self.key}":
            return Raw.json({"detail": "Invalid JWT"}, 401)
        try:
            return self._answered(received)
        except ValidationError as error:
            return Raw.json({"detail": error.errors(include_url=False, include_input=False)}, 422)

    def _answered(self, received: Received) -> Raw:
        if received.path == "/v3/workspaces":
            named = WorkspaceCreateParams.model_validate(received.json)
            if not _NAME.fullmatch(named.id):
                return Raw.json({"detail": "String should match pattern"}, 422)
            self.workspaces.add(named.id)
            return _one(WorkspaceResponse.model_validate({"id": named.id, "created_at": _TIME}))
        parts = received.path.removeprefix("/v3/workspaces/").split("/")
        if parts[0] not in self.workspaces:
            return Raw.json({"detail": f"Workspace {parts[0]} not found"}, 404)
        match parts[1:]:
            case ["sessions"]:
                return self._session(parts[0], received.json)
            case ["sessions", session, "messages"]:
                return self._say(parts[0], session, received.json)
            case ["conclusions", "query"]:
                return self._query(received.json)
        return Raw.json({"detail": "Not Found"}, 404)

    def _session(self, workspace: str, body: dict[str, Any]) -> Raw:
        given = SessionCreateParams.model_validate(body)
        self.sessions.setdefault(given.id, given)
        session = {
            "id": given.id, "is_active": True, "workspace_id": workspace, "created_at": _TIME,
        }  # fmt: skip
        return _one(SessionResponse.model_validate(session))

    def _say(self, workspace: str, session: str, body: dict[str, Any]) -> Raw:
        given = MessageBatchCreateParams.model_validate(body).messages
        if any(len(message.content) > MESSAGE_CHARS for message in given):
            return Raw.json({"detail": "String should have at most 25000 characters"}, 422)
        said = [
            MessageResponse.model_validate(
                {
                    "id": f"message-{next(self._ids)}", "content": each.content,
                    "peer_id": each.peer_id, "session_id": session, "workspace_id": workspace,
                    "token_count": len(each.content) // 4, "created_at": _TIME,
                }
            )
            for each in given
        ]  # fmt: skip
        self.messages += said
        self.conclusions += [self._concluded(message) for message in said if self._watched(message)]
        return _many(said, 201)

    def _watched(self, message: MessageResponse) -> bool:
        peers = self.sessions[message.session_id].peers or {}
        return message.peer_id not in peers or peers[message.peer_id].observe_me is not False

    def _concluded(self, message: MessageResponse) -> ConclusionResponse:
        peer = message.peer_id
        return ConclusionResponse.model_validate(
            {
                "id": f"conclusion-{next(self._ids)}", "content": message.content,
                "observer_id": peer, "observed_id": peer, "session_id": message.session_id,
                "created_at": _TIME,
            }
        )  # fmt: skip

    def _query(self, body: dict[str, Any]) -> Raw:
        given = ConclusionQueryParams.model_validate(body)
        filters, asked = given.filters or {}, set(given.query.lower().split())
        scored = [
            (len(asked & set(one.content.lower().split())), one)
            for one in self.conclusions
            if (one.observer_id, one.observed_id)
            == (filters.get("observer_id"), filters.get("observed_id"))
        ]
        fitting = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        return _many(one for _, one in fitting[: given.top_k])


def _one(value: BaseModel) -> Raw:
    return Raw.json(value.model_dump(mode="json"))


def _many(values: Iterable[BaseModel], status: int = 200) -> Raw:
    return Raw.json([value.model_dump(mode="json") for value in values], status)
