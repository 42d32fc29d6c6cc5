"""One `ask` of an MCP client: followed to its end, with its questions asked of the client's user.

A client that cancels its request wants the turn stopped. One that only disconnects does not: the
turn goes on, and its answer can be fetched later. Over HTTP, newer clients cancel by
disconnecting."""

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import msgspec
from anyio.to_thread import run_sync
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)

from hermes_agent.cli.client.api import RuntimeClient, session_path
from hermes_agent.cli.client.follower import TurnFollower, reach
from hermes_agent.cli.mcp.serve.text import answer_of, form, progress_lines, turn_result
from hermes_agent.cli.output.formatting import one_line
from hermes_agent.cli.talk.turn import collect
from hermes_agent.core.errors import HermesError, NotFound

McpContext = Context[Any, Any]
Key = tuple[str, str]
Event = dict[str, Any]

NAME_CHARS = 40
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


class ServedCall:
    """An `ask` under way."""

    def __init__(self) -> None:
        self.session = ""
        """Empty until the message is submitted."""
        self.ours = False
        """Whether the session works on it, not on an earlier message."""
        self.cancelled = False


class ServedCalls:
    """Server middleware that handles cancellations."""

    def __init__(self, api: RuntimeClient) -> None:
        self._api = api
        self._calls: dict[Key, ServedCall] = {}

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        if ctx.method == "notifications/cancelled":
            key = _key(ctx, (ctx.params or {}).get("requestId"))
            if (call := self._calls.pop(key, None)) is not None:
                call.cancelled = True
                await self.stop(call)
        return await call_next(ctx)

    @contextmanager
    def waiting(self, context: McpContext) -> Iterator[ServedCall]:
        call = ServedCall()
        if cancels_by_disconnect(
            context
        ):  # requests of different clients may have the same number there
            yield call
            return
        key = _key(context.request_context, context.request_id)
        self._calls[key] = call
        try:
            yield call
        except asyncio.CancelledError:
            raise  # it stays: the cancel notice may still be on its way
        except BaseException:
            self._calls.pop(key, None)
            raise
        else:
            self._calls.pop(key, None)

    async def stop(self, call: ServedCall) -> None:
        """Interrupt the turn, unless the session still works on an earlier message."""
        if call.session and call.ours:
            with anyio.CancelScope(shield=True):
                await run_sync(self._interrupt, call.session)

    def _interrupt(self, session: str) -> None:
        try:
            reach(self._api, lambda: self._api.post(f"{session_path(session)}/interrupt"))
        except NotFound:
            pass  # the session was deleted


def client_name(context: McpContext) -> str:
    """Who answers, for the rules and the record: the client, by the name it gives itself. That is
    unverified, so it is never the name of a person."""
    known = context.session.client_params
    name = _ODD.sub("-", known.client_info.name if known is not None else "")
    return f"mcp:{name[:NAME_CHARS].strip('-') or 'unnamed'}"


def cancels_by_disconnect(context: McpContext) -> bool:
    """Whether the client cancels by disconnecting: over HTTP without a way back to it."""
    return context.headers is not None and not context.session.can_send_request


def _key(context: ServerRequestContext[Any, Any], request: object) -> Key:
    headers = getattr(context.request, "headers", None) or {}
    return str(headers.get("mcp-session-id", "")), str(request)


class TurnCursor(msgspec.Struct, frozen=True):
    """The position in a turn. A client that answers questions by asking again sends it back."""

    session: str
    key: str
    after: int
    ours: bool = False
    reported: int = 0
    """Steps reported to the client."""
    asked: tuple[str, ...] = ()
    """Questions that it was asked."""
    refused: tuple[str, ...] = ()
    """What was not allowed, and why."""


class LiveEvents:
    """A turn's events, read by a thread because the runtime's client blocks."""

    def __init__(self, following: TurnFollower) -> None:
        self._following = following
        self._arrived: asyncio.Queue[tuple[Event, int] | tuple[BaseException | None]]
        self._arrived = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, daemon=True).start()

    def leave(self) -> None:
        """Disconnect, which ends the thread."""
        self._following.leave()

    def _read(self) -> None:
        failure: BaseException | None = None
        try:
            for event in self._following.events():
                self._put((event, self._following.after))
        except BaseException as error:  # noqa: BLE001 - raised again where the events are read
            failure = error
        self._put((failure,))

    def _put(self, item: tuple[Event, int] | tuple[BaseException | None]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, item)
        except RuntimeError:
            self._following.leave()  # the server has ended

    async def next(self) -> tuple[Event, int] | None:
        """The next event and its number; None after the last."""
        item = await self._arrived.get()
        if len(item) == 2:
            return item
        if item[0] is not None:
            raise item[0]
        return None


class ServedTurn:
    """A turn that a client waits for. `asks` says whether the client can ask its user."""

    def __init__(
        self,
        api: RuntimeClient,
        context: McpContext,
        call: ServedCall,
        cursor: TurnCursor,
        *,
        asks: bool,
    ) -> None:
        self._api = api
        self._context = context
        self._call = call
        self._cursor = cursor
        self._asks = asks
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._delegating: set[str] = set()
        """Effects whose output is the progress of children."""

    async def follow(self) -> CallToolResult | InputRequiredResult:
        at = self._cursor
        self._call.session = at.session
        self._call.ours = self._call.ours or at.ours
        following = TurnFollower(self._api, at.session, at.key, at.after, ours=at.ours)
        live = LiveEvents(following)
        try:
            for question in await self._questions():  # also those from before our message
                if (asked := self._ask(question)) is not None:
                    return asked
            return await self._until_the_end(live)
        finally:
            live.leave()
            for task in self._waiting.values():
                task.cancel()

    async def _until_the_end(self, live: LiveEvents) -> CallToolResult | InputRequiredResult:
        outcome: Event = {"session": self._cursor.session, "parked": []}
        while (item := await live.next()) is not None:
            event, number = item
            self._move(after=number)
            await self._report(event)
            collect(event, outcome)
            match event["kind"]:
                case "message_taken" if event["key"] == self._cursor.key:
                    self._call.ours = True
                    self._move(ours=True)
                case "call_judged":
                    self._judged(event)
                case "question_asked":
                    for question in await self._questions():
                        if (asked := self._ask(question)) is not None:
                            return asked
                case "question_answered" if (
                    task := self._waiting.pop(event["id"], None)
                ) is not None:
                    task.cancel()  # answered elsewhere
                case "call_parked":
                    outcome["reason"] = "parked"
                    break
        return turn_result(outcome, self._cursor.refused)

    def _move(self, **changes: Any) -> None:
        self._cursor = msgspec.structs.replace(self._cursor, **changes)

    async def _report(self, event: Event) -> None:
        lines = progress_lines(event)
        if event["kind"] == "call_intended" and event["tool"] == "delegate":
            self._delegating.add(event["effect"])
        if event["kind"] == "output_arrived" and event["effect"] in self._delegating:
            lines = [one_line(line) for line in event["text"].splitlines()]
        for line in lines:
            await self._say(line)

    async def _say(self, line: str) -> None:
        self._move(reported=self._cursor.reported + 1)
        await self._context.report_progress(self._cursor.reported, message=line)

    def _judged(self, event: Event) -> None:
        nobody = event["action"] == "ask" and not self._asks and not event["consent"].get("by")
        if event["action"] == "deny" or nobody:
            what = one_line(event["text"] or event["tool"], 200)
            needs = "needs approval, which this client cannot ask for: " if nobody else ""
            self._move(
                refused=(*self._cursor.refused, f"{what}: {needs}{one_line(event['reason'])}")
            )

    # questions

    async def _questions(self) -> list[Event]:
        """Open questions of the session and its children that the client was not asked yet."""
        if not self._asks:
            return []
        found: list[Event] = await run_sync(reach, self._api, self._open_questions)
        return found

    def _open_questions(self) -> list[Event]:
        rows: list[Event] = self._api.get("/v1/questions")
        new = [row for row in rows if row["id"] not in self._cursor.asked]
        return [row for row in new if self._is_ours(row["session"])]

    def _is_ours(self, session: str) -> bool:
        try:
            while session and session != self._cursor.session:
                session = self._api.session(session)["parent"]
        except NotFound:
            return False  # deleted
        return bool(session)

    def _ask(self, question: Event) -> InputRequiredResult | None:
        """Ask a question: at once where there is a way back to the client, else as the result,
        after which the client asks again with the answer."""
        self._move(asked=(*self._cursor.asked, question["id"]))
        if self._context.session.can_send_request:
            self._waiting[question["id"]] = asyncio.create_task(self._elicit(question))
            return None
        message, schema = form(question)
        asked = ElicitRequest(
            params=ElicitRequestFormParams(message=message, requested_schema=schema)
        )
        state = msgspec.json.encode(self._cursor).decode()
        return InputRequiredResult(input_requests={question["id"]: asked}, request_state=state)

    async def _elicit(self, question: Event) -> None:
        message, schema = form(question)
        try:
            said = await self._context.session.elicit_form(
                message, schema, related_request_id=self._context.request_id
            )
        except MCPError as error:
            if error.error.code == CONNECTION_CLOSED:
                return  # unanswered; others can still answer
            said = ElicitResult(action="decline")
        except ValueError:  # not an answer
            said = ElicitResult(action="decline")
        problem = await answer(self._api, question, said, client_name(self._context))
        if problem:
            await self._say(problem)


async def answer(api: RuntimeClient, question: Event, said: ElicitResult, by: str) -> str:
    """Pass an answer on; returns why it is not accepted, or nothing."""
    given = answer_of(question, said)
    try:
        await run_sync(reach, api, lambda: api.answer(question["id"], given, by))
    except NotFound:
        return ""  # answered elsewhere or expired; the turn continues
    except HermesError as error:
        return f"the answer is not accepted: {error.message}; {error.hint}"
    return ""
