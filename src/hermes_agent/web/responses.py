"""`/v1/responses`. Responses are stored in the journal; the id of one says where."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.host.responses import reply
from hermes_agent.runtime.services import Row
from hermes_agent.web import schemas
from hermes_agent.web.conversations import MODEL, ApiConversations, SubmittedMessage, key_of

ID = "resp_"


class ResponsesApi:
    def __init__(self, conversations: ApiConversations) -> None:
        self._api = conversations

    def rows(self) -> list[Row]:
        return [
            ("POST", "/v1/responses", self.create),
            ("GET", "/v1/responses/{id}", self.show),
            ("DELETE", "/v1/responses/{id}", self.delete),
            ("POST", "/v1/responses/{id}/cancel", self.cancel),
        ]

    async def create(self, request: Request) -> Response:
        asked = await self._api.decode(request, schemas.ResponsesRequest)
        said = schemas.responses_said(asked)
        exchange = await self._begin(request, asked, said)
        if asked.background:
            return reply(_response(exchange, asked.model, "in_progress", None, asked))
        if asked.stream:
            return schemas.stream(self._streamed(request, asked, exchange))
        end = await self._api.ended(request, exchange)
        return reply(_response(exchange, asked.model, "completed", end, asked))

    async def _begin(
        self, request: Request, asked: schemas.ResponsesRequest, said: list[schemas.ClientMessage]
    ) -> SubmittedMessage:
        if not asked.previous_response_id:
            return await self._api.begin(request, said, asked.model)
        before = await self._found(asked.previous_response_id)
        once = request.headers.get(schemas.IDEMPOTENCY_KEY, "")
        if await self._last(before) in (before.key, key_of(once)):
            rules = [one.text for one in said[:-1] if one.role in ("system", "developer")]
            text = "\n\n".join([*rules, said[-1].text])
            new = schemas.ClientMessage("user", text, said[-1].files)
            return await self._api.resume(before.session.id, new, once)
        raise UsageError(
            f"the conversation has continued since {asked.previous_response_id!r}",
            "continue from its last response",
        )

    async def _last(self, exchange: SubmittedMessage) -> str:
        """The key of the last message of its conversation."""
        last = ""
        for one in await self._api.context.store.events(exchange.session.id):
            if isinstance(one.event, ev.MessageTaken):
                last = one.event.key
        return last

    async def _found(self, id: str) -> SubmittedMessage:
        if not id.startswith(ID):
            raise NotFound(f"there is no response {id!r}", "ids begin with resp_")
        return await self._api.found(id.removeprefix(ID))

    async def show(self, request: Request) -> Response:
        exchange = await self._found(request.path_params["id"])
        taken, end = await self._api.so_far(exchange)
        if not taken and exchange.session.state in ("idle", "paused"):
            raise NotFound(f"there is no response {request.path_params['id']!r}", "")
        return reply(_response(exchange, "", _state(taken, end), end, None))

    async def delete(self, request: Request) -> Response:
        exchange = await self._found(request.path_params["id"])
        await self._api.sessions.delete_session(exchange.session)
        return reply({"id": request.path_params["id"], "object": "response", "deleted": True})

    async def cancel(self, request: Request) -> Response:
        exchange = await self._found(request.path_params["id"])
        await self._api.sessions.interrupt(exchange.session.id, "api")
        end = await self._api.end(exchange)
        return reply(_response(exchange, "", _state(True, end), end, None))

    async def _streamed(
        self, request: Request, asked: schemas.ResponsesRequest, exchange: SubmittedMessage
    ) -> AsyncGenerator[bytes]:
        count = 0

        def event(kind: str, **fields: Any) -> bytes:
            nonlocal count
            body = {"type": kind, "sequence_number": count, **fields}
            count += 1
            return schemas.server_sent(body, kind)

        begun = _response(exchange, asked.model, "in_progress", None, asked)
        item = _item(exchange, "", "in_progress")
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        part = {"type": "output_text", "text": "", "annotations": []}
        yield event("response.created", response=begun)
        yield event("response.in_progress", response=begun)
        yield event("response.output_item.added", output_index=0, item={**item, "content": []})
        yield event("response.content_part.added", **place, part=part)
        written: list[str] = []
        end: ev.TurnFinished | None = None
        async with aclosing(self._api.watched(request, exchange)) as chunks:
            async for piece in chunks:
                if piece is None:
                    yield b": keep-alive\n\n"
                    continue
                if piece.text:
                    written.append(piece.text)
                    yield event(
                        "response.output_text.delta", **place, delta=piece.text, logprobs=[]
                    )
                end = piece.end or end
        error = schemas.failure(end) if end is not None else HermesError("the runtime is stopping")
        if error is not None:
            failed = _response(exchange, asked.model, "failed", end, asked)
            failed["error"] = {"code": "server_error", "message": error.message}
            yield event("response.failed", response=failed)
            return
        text = "".join(written)
        whole = {**part, "text": text}
        item = _item(exchange, text, "completed")
        yield event("response.output_text.done", **place, text=text, logprobs=[])
        yield event("response.content_part.done", **place, part=whole)
        yield event("response.output_item.done", output_index=0, item=item)
        done = _response(exchange, asked.model, "completed", end, asked)
        done["output"] = [item]
        yield event("response.completed", response=done)


def _state(taken: bool, end: ev.TurnFinished | None) -> str:
    if end is None:
        return "in_progress" if taken else "queued"
    return {"done": "completed", "interrupted": "cancelled", "budget": "incomplete"}.get(
        end.reason, "failed"
    )


def _item(exchange: SubmittedMessage, text: str, status: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": f"msg_{exchange.id}", "type": "message", "role": "assistant", "status": status,
        "content": [part],
    }  # fmt: skip


def _response(
    exchange: SubmittedMessage,
    model: str,
    status: str,
    end: ev.TurnFinished | None,
    asked: schemas.ResponsesRequest | None,
) -> dict[str, Any]:
    error = None
    if end is not None and end.reason == "failed":
        error = {"code": "server_error", "message": end.error}
    output = [_item(exchange, end.text, "completed")] if end is not None and not error else []
    usage = end.usage if end is not None else None
    return {
        "id": ID + exchange.id, "object": "response", "created_at": exchange.session.created,
        "status": status, "model": model or MODEL, "output": output, "error": error,
        "incomplete_details": None, "instructions": asked.instructions if asked else None,
        "metadata": (asked.metadata if asked else None) or {}, "parallel_tool_calls": True,
        "previous_response_id": asked.previous_response_id if asked else None,
        "temperature": None, "top_p": None, "tool_choice": "auto", "tools": [],
        "store": asked.store if asked else True,
        "background": asked.background if asked else False,
        "usage": None if usage is None else {
            "input_tokens": usage.input, "output_tokens": usage.output,
            "total_tokens": usage.total,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        },
    }  # fmt: skip
