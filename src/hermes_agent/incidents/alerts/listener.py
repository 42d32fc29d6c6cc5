"""The HTTP listener for alerts of other systems. Every request must carry the token."""

import hashlib
import hmac

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermes_agent.core.errors import HermesError, TooMuch
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.http_listener import (
    HttpListener,
    TookTooLong,
    body_within,
    knows,
    token_of,
)
from hermes_agent.host.responses import body_of, guarded, reply
from hermes_agent.incidents.alerts.ingest import Intake, OutsideSignal


class AlertListener(HttpListener):
    def __init__(self, context: RuntimeContext, intake: Intake) -> None:
        self._context = context
        self._intake = intake
        super().__init__(
            "watch.listen",
            lambda: context.settings.watch.listen,
            self._alert_routes,
            self._token,
            context.reload_if_changed,
        )

    def _alert_routes(self) -> list[Route]:
        return [
            Route("/v1/signals", guarded(self.own), methods=["POST"]),
            Route("/v1/signals/{kind}", guarded(self.foreign), methods=["POST"]),
        ]

    def _token(self) -> str:
        return token_of("watch.token", self._context.settings.watch.token, self._context.secret)

    async def own(self, request: Request) -> Response:
        body = await self._body(request)
        if isinstance(body, Response):
            return body
        signal = body_of(body, OutsideSignal).signal()
        return reply(await self._intake.raise_signal(signal), 202)

    async def foreign(self, request: Request) -> Response:
        body = await self._body(request)
        if isinstance(body, Response):
            return body
        taken = await self._intake.raise_alerts(request.path_params["kind"], body)
        return reply({"taken": taken}, 202)

    async def _body(self, request: Request) -> bytes | Response:
        """The body of an authorised request, or the response that refuses it."""
        try:
            token = self._token()
        except HermesError as error:
            self.report(error)
            return reply(
                {"error": "not accepting alerts right now", "hint": "`hermes doctor`"}, 503
            )
        self.report(None)
        signature = request.headers.get("x-pagerduty-signature", "")
        if not signature and not knows(request.headers.get("authorization", ""), token):
            return _refused()
        try:
            data = await body_within(request)
        except (TooMuch, TookTooLong) as error:
            status = 413 if isinstance(error, TooMuch) else 408
            return reply({"error": error.message, "hint": "send fewer alerts at a time"}, status)
        if signature and not _signed(signature, data, token):
            return _refused()
        self._context.note_activity()
        return data


def _refused() -> Response:
    hint = "send `Authorization: Bearer …` with the secret that watch.token names"
    return reply({"error": "this needs the token", "hint": hint}, 401)


def _signed(header: str, body: bytes, token: str) -> bool:
    """PagerDuty signs with several secrets while one is being rotated."""
    made = f"v1={hmac.new(token.encode(), body, hashlib.sha256).hexdigest()}".encode()
    return any(hmac.compare_digest(one.strip().encode(), made) for one in header.split(","))
