"""A server that speaks version 3 of Mem0's interface, and Mem0's official SDK in a process of its
own: it writes into the home of whoever imports it, so it gets another."""

import asyncio
import json
import os
import sys
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.support.model_server import ModelServer, Raw, Received

KEY = "m0-1234567890-do-not-tell"
ENTITIES = ("user_id", "agent_id", "app_id", "run_id")


class FakeMem0(ModelServer):
    """Remembers each thing a user says as it is said, and finds it by its words."""

    def __init__(self) -> None:
        super().__init__(self._route)
        self.memories: list[dict[str, Any]] = []
        self._ids = count(1)

    def asked(self) -> list[tuple[str, str, Any]]:
        """Path, key and content of what arrived."""
        return [
            (
                f"{each.path}?{each.query}" if each.query else each.path,
                each.headers["authorization"],
                each.json,
            )
            for each in self.requests
        ]

    def _refused(self, received: Received) -> Raw | None:
        """The SDK greets the server when it is opened; that is no request to compare."""
        if received.path != "/v1/ping/":
            return None
        return Raw.json({"status": "ok", "org_id": "o", "project_id": "p", "user_email": "a@b.c"})

    def _route(self, received: Received) -> Raw:
        if received.headers.get("authorization") != f"Token {KEY}":
            return Raw.json({"detail": "Given token not valid"}, 401)
        match received.path:
            case "/v3/memories/add/":
                return self._add(received.json)
            case "/v3/memories/search/":
                return self._search(received.json)
            case "/v3/memories/":
                return self._list(received)
        return Raw.json({"detail": "Not found."}, 404)

    def _add(self, body: dict[str, Any]) -> Raw:
        labels = {name: body.get(name) for name in ENTITIES}
        if not any(labels.values()):
            return _bad(f"At least one entity ID is required ({', '.join(ENTITIES)}).")
        if not body.get("messages"):
            return _bad("messages must not be empty")
        for message in body["messages"]:
            if message["role"] == "user":
                self.memories.append(self._memory(message["content"], labels, body))
        return Raw.json(
            {
                "message": "Memory processing has been queued for background execution",
                "status": "PENDING",
                "event_id": f"event-{next(self._ids)}",
            }
        )

    def _memory(self, text: str, labels: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": f"memory-{next(self._ids)}",
            "memory": text,
            **labels,
            "metadata": body.get("metadata"),
            "categories": None,
            "created_at": "2026-10-01T12:00:00-07:00",
            "updated_at": "2026-10-01T12:00:00-07:00",
        }

    def _search(self, body: dict[str, Any]) -> Raw:
        user = body.get("filters", {}).get("user_id")
        if not user or "*" in user:
            return _bad("filters must include at least one positively-scoped entity ID")
        if not body["query"].strip():
            return _bad("query must not be empty")
        asked = set(body["query"].lower().split())
        scored = [
            {**memory, "score": len(asked & set(memory["memory"].lower().split())) / len(asked)}
            for memory in self._of(user)
        ]
        fitting = sorted((one for one in scored if one["score"]), key=lambda one: -one["score"])
        return Raw.json({"results": fitting[: body.get("top_k", 10)]})

    def _list(self, received: Received) -> Raw:
        query = {name: int(values[0]) for name, values in parse_qs(received.query).items()}
        found = self._of(received.json["filters"]["user_id"])
        size = query.get("page_size", 100)
        start = (query.get("page", 1) - 1) * size
        page = found[start : start + size]
        return Raw.json({"count": len(found), "next": None, "previous": None, "results": page})

    def _of(self, user: str) -> list[dict[str, Any]]:
        return [memory for memory in self.memories if memory["user_id"] == user]


def _bad(message: str) -> Raw:
    return Raw.json({"error": "400 Bad Request", "detail": message}, 400)


_PROGRAM = """
import asyncio, json, sys
from mem0 import AsyncMemoryClient
from mem0.exceptions import MemoryError

async def main(host, key, calls):
    answers = []
    async with AsyncMemoryClient(api_key=key, host=host) as client:
        for method, arguments in calls:
            try:
                answers.append(await getattr(client, method)(**arguments))
            except MemoryError as error:
                answers.append({"error": type(error).__name__, **error.debug_info})
    return answers

print(json.dumps(asyncio.run(main(*json.load(sys.stdin)))))
"""


async def ask_sdk(home: Path, host: str, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """What the SDK's methods return, one after the other."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "MEM0_DIR": str(home / "mem0"),
        "MEM0_TELEMETRY": "False",
        "NO_PROXY": "127.0.0.1",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROGRAM, env=environ,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate(json.dumps([host, KEY, calls]).encode())
    assert process.returncode == 0, err.decode()
    answers: list[Any] = json.loads(out)
    return answers
