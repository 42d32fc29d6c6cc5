"""One `ask` of an MCP client: followed to its end, with its questions put to the client's user."""

import asyncio
import threading
from typing import Any
from urllib.parse import quote

import msgspec
from anyio.to_thread import run_sync
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
from hermes_agent.cli.mcp.serve.calls import McpContext, ServedCall, whose
from hermes_agent.cli.mcp.serve.text import answer_of, form, steps_said, turn_told
from hermes_agent.cli.output.turn_outcome import collect
from hermes_agent.cli.output.turn_printer import one_line
from hermes_agent.core.errors import HermesError, NotFound

Event = dict[str, Any]


class TurnCursor(msgspec.Struct, frozen=True):
    """Where in a turn we are. A client that answers questions by asking again carries it."""

    session: str
    key: str
    after: int
    ours: bool = False
    told: int = 0
    """Steps that the client has been told of."""
    put: tuple[str, ...] = ()
    """Questions that were put to it."""
    refused: tuple[str, ...] = ()
    """What was not allowed, and why."""


class LiveEvents:
    """A turn's events, taken in by a thread because the runtime's client waits for them."""

    def __init__(self, following: TurnFollower) -> None:
        self._following = following
        self._arrived: asyncio.Queue[tuple[Event, int] | tuple[BaseException | None]]
        self._arrived = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._left = threading.Event()
        threading.Thread(target=self._take_in, daemon=True).start()

    def leave(self) -> None:
        """Hang up, upon which the thread ends."""
        self._left.set()
        self._following.leave()

    def _take_in(self) -> None:
        trouble: BaseException | None = None
        try:
            for event in self._following.events():
                if self._left.is_set():
                    break
                self._put((event, self._following.after))
        except BaseException as error:  # noqa: BLE001 - raised again where the events are read
            trouble = error
        self._put((trouble,))

    def _put(self, item: tuple[Event, int] | tuple[BaseException | None]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, item)
        except RuntimeError:
            self._left.set()  # the server has ended

    async def next(self) -> tuple[Event, int] | None:
        """The next event and its number; None after the last."""
        item = await self._arrived.get()
        if len(item) == 2:
            return item
        if item[0] is not None:
            raise item[0]
        return None


class ServedTurn:
    """A turn that a client waits for. `asks` says whether the client can put questions."""

    def __init__(
        self,
        api: RuntimeClient,
        context: McpContext,
        call: ServedCall,
        place: TurnCursor,
        *,
        asks: bool,
    ) -> None:
        self._api = api
        self._context = context
        self._call = call
        self._place = place
        self._asks = asks
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._delegating: set[str] = set()
        """Effects whose output is what children do."""

    async def follow(self) -> CallToolResult | InputRequiredResult:
        place = self._place
        self._call.session = place.session
        self._call.ours = self._call.ours or place.ours
        following = TurnFollower(self._api, place.session, place.key, place.after, ours=place.ours)
        live = LiveEvents(following)
        try:
            for question in await self._questions():  # also those from before our message
                if (asked := self._put(question)) is not None:
                    return asked
            return await self._until_the_end(live)
        finally:
            live.leave()
            for task in self._waiting.values():
                task.cancel()

    async def _until_the_end(self, live: LiveEvents) -> CallToolResult | InputRequiredResult:
        outcome: Event = {"session": self._place.session, "parked": []}
        while (item := await live.next()) is not None:
            event, number = item
            self._move(after=number)
            await self._tell(event)
            collect(event, outcome)
            match event["kind"]:
                case "message_taken" if event["key"] == self._place.key:
                    self._call.ours = True
                    self._move(ours=True)
                case "call_judged":
                    self._judged(event)
                case "question_asked":
                    for question in await self._questions():
                        if (asked := self._put(question)) is not None:
                            return asked
                case "question_answered" if (
                    task := self._waiting.pop(event["id"], None)
                ) is not None:
                    task.cancel()  # somebody else was quicker
                case "call_parked":
                    outcome["reason"] = "parked"
                    break
        return turn_told(outcome, self._place.refused)

    def _move(self, **changes: Any) -> None:
        self._place = msgspec.structs.replace(self._place, **changes)

    async def _tell(self, event: Event) -> None:
        lines = steps_said(event)
        if event["kind"] == "call_intended" and event["tool"] == "delegate":
            self._delegating.add(event["effect"])
        if event["kind"] == "output_arrived" and event["effect"] in self._delegating:
            lines = [one_line(line) for line in event["text"].splitlines()]
        for line in lines:
            await self._say(line)

    async def _say(self, line: str) -> None:
        self._move(told=self._place.told + 1)
        await self._context.report_progress(self._place.told, message=line)

    def _judged(self, event: Event) -> None:
        nobody = event["action"] == "ask" and not self._asks and not event["consent"].get("by")
        if event["action"] == "deny" or nobody:
            what = one_line(event["text"] or event["tool"], 200)
            needs = "needs consent, and this client cannot ask for it: " if nobody else ""
            self._move(
                refused=(*self._place.refused, f"{what}: {needs}{one_line(event['reason'])}")
            )

    # questions

    async def _questions(self) -> list[Event]:
        """The open questions of the session and its children that were not put to the client."""
        if not self._asks:
            return []
        found: list[Event] = await run_sync(reach, self._api, self._open_questions)
        return found

    def _open_questions(self) -> list[Event]:
        rows: list[Event] = self._api.get("/v1/questions")
        new = [row for row in rows if row["id"] not in self._place.put]
        return [row for row in new if self._is_in_the_family(row["session"])]

    def _is_in_the_family(self, session: str) -> bool:
        try:
            while session and session != self._place.session:
                session = self._api.get(session_path(session))["parent"]
        except NotFound:
            return False  # deleted meanwhile
        return bool(session)

    def _put(self, question: Event) -> InputRequiredResult | None:
        """Put a question: at once where there is a way back to the client, else as the result,
        upon which the client asks again with the answer."""
        self._move(put=(*self._place.put, question["id"]))
        if self._context.session.can_send_request:
            self._waiting[question["id"]] = asyncio.create_task(self._elicit(question))
            return None
        message, schema = form(question)
        asked = ElicitRequest(
            params=ElicitRequestFormParams(message=message, requested_schema=schema)
        )
        state = msgspec.json.encode(self._place).decode()
        return InputRequiredResult(input_requests={question["id"]: asked}, request_state=state)

    async def _elicit(self, question: Event) -> None:
        message, schema = form(question)
        try:
            said = await self._context.session.elicit_form(
                message, schema, related_request_id=self._context.request_id
            )
        except MCPError as error:
            if error.error.code == CONNECTION_CLOSED:
                return  # nobody has answered; others still can
            said = ElicitResult(action="decline")
        except ValueError:  # what came back is no answer
            said = ElicitResult(action="decline")
        trouble = await answer(self._api, question, said, whose(self._context))
        if trouble:
            await self._say(trouble)


async def answer(api: RuntimeClient, question: Event, said: ElicitResult, by: str) -> str:
    """Pass an answer on; why it does not count, if it does not."""
    body: dict[str, object] = {"answer": answer_of(question, said), "by": by}
    path = f"/v1/questions/{quote(question['id'], safe='')}"
    try:
        await run_sync(reach, api, lambda: api.post(path, body))
    except NotFound:
        return ""  # somebody or the clock was quicker, and the turn goes on
    except HermesError as error:
        return f"the answer does not count: {error.message}; {error.hint}"
    return ""
