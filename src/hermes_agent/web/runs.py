"""`/v1/runs`: work in the background, which clients can follow, query, answer and stop."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core import events as ev
from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.records import Question
from hermes_agent.host.responses import reply
from hermes_agent.runtime.services import Row
from hermes_agent.web import schemas
from hermes_agent.web.conversations import SOURCE, ApiConversations, SubmittedMessage

ID = "run_"
NO = "no"
ALWAYS = "always"
"""Adds a rule for everybody, which only the owner may do."""


class RunsApi:
    def __init__(self, conversations: ApiConversations) -> None:
        self._api = conversations

    def rows(self) -> list[Row]:
        return [
            ("POST", "/v1/runs", self.create),
            ("GET", "/v1/runs/{id}", self.show),
            ("GET", "/v1/runs/{id}/events", self.events),
            ("POST", "/v1/runs/{id}/stop", self.stop),
            ("POST", "/v1/runs/{id}/answers/{question}", self.answer),
        ]

    async def create(self, request: Request) -> Response:
        asked = await self._api.decode(request, schemas.RunRequest)
        key = request.headers.get(schemas.IDEMPOTENCY_KEY, "")
        said = [schemas.ClientMessage("user", asked.input)]
        exchange = await self._api.submit(
            asked.session, said, asked.model, key, interactive=asked.interactive
        )
        return reply(await self._run(exchange), 202 if exchange.new else 200)

    async def show(self, request: Request) -> Response:
        return reply(await self._run(await self._found(request)))

    async def stop(self, request: Request) -> Response:
        exchange = await self._found(request)
        stopped = await self._api.sessions.interrupt(exchange.session.id, "api")
        return reply({**(await self._run(exchange)), "stopped": stopped})

    async def answer(self, request: Request) -> Response:
        exchange = await self._found(request)
        given = await self._api.decode(request, schemas.AnswerRequest)
        id = request.path_params["question"]
        asked = {one.id: one for one in await self._open(exchange)}
        if id not in asked:
            raise NotFound(f"no open question {id!r} of this run", "the run lists its questions")
        if asked[id].purpose == "approval" and given.answer == ALWAYS:
            raise UsageError("the API cannot allow this permanently", "answer yes or no")
        if given.answer != NO and not self._may_consent(asked[id]):
            raise schemas.Forbidden(
                "a client of the API may not approve this",
                "use `hermes approvals`, or set gateway.api_consent",
            )
        await self._api.sessions.answer(id, given.answer, "api")
        return reply(await self._run(exchange))

    async def events(self, request: Request) -> Response:
        exchange = await self._found(request)
        given = request.query_params.get("after") or request.headers.get("last-event-id") or "0"
        if not given.isdecimal():
            raise UsageError(f"not an event id: {given!r}", "give the id of an event")
        return schemas.stream(self._events(exchange, int(given)))

    async def _events(self, exchange: SubmittedMessage, after: int) -> AsyncGenerator[bytes]:
        """The run's part of the journal, and its text as it is written. A client that disconnects
        does not stop the run."""
        async with aclosing(self._api.chunks(exchange, after)) as chunks:
            async for piece in chunks:
                if piece.text:
                    yield schemas.server_sent({"text": piece.text}, "text")
                if piece.recorded is not None and piece.recorded.number:
                    yield b"id: %d\n" % piece.recorded.number + schemas.server_sent(
                        piece.recorded, ev.kind_of(piece.recorded.event)
                    )
        yield schemas.server_sent(await self._run(exchange), "run")

    async def _found(self, request: Request) -> SubmittedMessage:
        id = request.path_params["id"]
        if not id.startswith(ID):
            raise NotFound(f"there is no run {id!r}", "ids begin with run_")
        return await self._api.found(id.removeprefix(ID))

    def _may_consent(self, question: Question) -> bool:
        if question.purpose == "question":
            return True
        return self._api.context.settings.gateway.api_consent or SOURCE in question.consent.by

    async def _open(self, exchange: SubmittedMessage) -> list[Question]:
        questions = await self._api.context.store.questions()
        return [one for one in questions if one.session == exchange.session.id]

    async def _questions(self, exchange: SubmittedMessage) -> list[dict[str, Any]]:
        return [
            {"id": one.id, "purpose": one.purpose, "text": one.text,
             "choices": [c for c in one.choices if one.purpose != "approval" or c != ALWAYS],
             "expires": one.expires, "yours": self._may_consent(one)}
            for one in await self._open(exchange)
        ]  # fmt: skip

    async def _run(self, exchange: SubmittedMessage) -> dict[str, Any]:
        store = self._api.context.store
        taken, end = await self._api.so_far(exchange)
        questions = await self._questions(exchange) if end is None else []
        session = await store.session(exchange.session.id)
        parked = [one.effect for one in await store.parked() if one.session == session.id]
        if end is not None:
            state = {"done": "completed", "interrupted": "stopped"}.get(end.reason, end.reason)
        else:
            state = "waiting" if questions else "parked" if parked else "running"
        return {
            "id": ID + exchange.id, "object": "run", "status": state if taken else "queued",
            "session": session.id, "output": end.text if end else None,
            "error": (end.error or None) if end else None, "hint": end.hint if end else "",
            "questions": questions, "parked": parked,
            "usage": end.usage if end else None, "cost": end.cost if end else None,
        }  # fmt: skip
