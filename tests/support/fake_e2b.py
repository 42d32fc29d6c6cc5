"""A server that speaks E2B's wire: its REST interface and, for each sandbox, `envd` with the stub
that the SDK ships. Processes and files are real; a paused sandbox is a stopped process tree."""

import asyncio
import signal
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext
from e2b.envd.process import process_pb as pb
from e2b.envd.process.process_connect import Process, ProcessASGIApplication
from protobuf import Oneof
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.support.fake_boxes import Box, HttpService, Program

KEY = "e2b_" + "0" * 40


class E2bBox(Box):
    def __init__(self, id: str, folder: Path, body: dict[str, Any]) -> None:
        super().__init__(id, folder)
        self.metadata: dict[str, str] = body["metadata"]
        self.template: str = body["templateID"]
        self.internet: bool = body["allow_internet_access"]
        self.auto_pause: bool = body["autoPause"]
        self.timeouts: list[int] = [body["timeout"]]
        self.paused = False
        self.stuck = False
        """Whether its memory cannot be woken."""

    def pause(self) -> None:
        self.paused = True
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.paused = False
        self.signal(signal.SIGCONT)

    def shown(self) -> dict[str, Any]:
        return {
            "templateID": self.template,
            "sandboxID": self.id,
            "clientID": "client",
            "envdVersion": "0.6.4",
            "envdAccessToken": f"token-{self.id}",
            "domain": None,
            "startedAt": "2026-01-01T00:00:00Z",
            "endAt": "2026-01-01T00:15:00Z",
            "cpuCount": 2,
            "memoryMB": 512,
            "diskSizeMB": 1024,
            "metadata": self.metadata,
            "state": "paused" if self.paused else "running",
        }


class FakeE2b(HttpService[E2bBox]):
    def __init__(self, disk: Path) -> None:
        super().__init__(disk)
        self.refuse: tuple[int, str] | None = None
        """What every request of the REST interface is answered with instead."""
        self.forget_replies = False
        """Whether a sandbox is made but the answer is lost on the way."""
        self.dead = 0
        """How many requests more are lost with their connection."""
        self._keys: dict[str, str] = {}
        self._ids = count()

    @property
    def environ(self) -> dict[str, str]:
        return {"E2B_API_KEY": KEY, "E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url}

    def app(self) -> ASGIApp:
        one = "/sandboxes/{id}"
        routes = [
            Route("/v2/sandboxes", self._create, methods=["POST"]),
            Route("/v2/sandboxes", self._list, methods=["GET"]),
            Route("/v2" + one + "/connect", self._connect, methods=["POST"]),
            Route(one + "/pause", self._pause, methods=["POST"]),
            Route(one + "/timeout", self._timeout, methods=["POST"]),
            Route(one + "/network", self._network, methods=["PUT"]),
            Route(one, self._delete, methods=["DELETE"]),
            Route("/files", self._upload, methods=["POST"]),
            Route("/health", self._health),
            Mount("/", _Envd(self)),
        ]
        return Starlette(routes=routes)

    def _said(self, request: Request, what: str, id: str = "") -> Response | None:
        self.calls.append(f"{what} {id}")
        if self.dead:
            self.dead -= 1
            self.cut()
        if self.refuse is not None:
            code, message = self.refuse
            return _error(code, message, {"Should-Retry": "false"})
        if request.headers.get("x-api-key") != KEY:
            return _error(401, "Invalid API key")
        if id and id not in self.boxes:
            return _error(404, f"sandbox {id} not found")
        return None

    async def _create(self, request: Request) -> Response:
        if no := self._said(request, "create"):
            return no
        key = request.headers["idempotency-key"]
        if (id := self._keys.get(key, "")) not in self.boxes:
            body = await request.json()
            id = self._keys[key] = f"i{next(self._ids)}"
            name = body["metadata"]["hermes-session"]
            self.boxes[id] = E2bBox(id, self.disk / name, body)
        if self.forget_replies:
            self.cut()
        return JSONResponse(self.boxes[id].shown(), 201)

    async def _list(self, request: Request) -> Response:
        if no := self._said(request, "list"):
            return no
        wanted = [
            (unquote(name), unquote(value))
            for name, value in parse_qsl(request.query_params.get("metadata", ""))
        ]
        found = [
            box
            for box in self.boxes.values()
            if all(pair in box.metadata.items() for pair in wanted)
        ]
        return JSONResponse([box.shown() for box in found])

    async def _connect(self, request: Request) -> Response:
        id = request.path_params["id"]
        if no := self._said(request, "connect", id):
            return no
        body = await request.json()
        if body.get("memory") is False:
            await self.boxes[id].kill()
        elif self.boxes[id].stuck:
            code = "sandbox_snapshot_guest_agent_unresponsive"
            return JSONResponse({"code": 409, "message": "stuck", "error_code": code}, 409)
        self.boxes[id].timeouts.append(body["timeout"])
        self.boxes[id].resume()
        return JSONResponse(self.boxes[id].shown(), 201)

    async def _pause(self, request: Request) -> Response:
        id = request.path_params["id"]
        if no := self._said(request, "pause", id):
            return no
        if self.boxes[id].paused:
            return _error(409, "already paused")
        self.boxes[id].pause()
        return Response(status_code=204)

    async def _timeout(self, request: Request) -> Response:
        id = request.path_params["id"]
        if no := self._said(request, "timeout", id):
            return no
        self.boxes[id].timeouts.append((await request.json())["timeout"])
        return Response(status_code=204)

    async def _network(self, request: Request) -> Response:
        id = request.path_params["id"]
        if no := self._said(request, "network", id):
            return no
        self.boxes[id].internet = (await request.json())["allow_internet_access"]
        return Response(status_code=204)

    async def _delete(self, request: Request) -> Response:
        id = request.path_params["id"]
        if no := self._said(request, "delete", id):
            return no
        await self.boxes.pop(id).remove()
        return Response(status_code=204)

    async def lose(self, id: str) -> None:
        """The service throws a sandbox away by itself."""
        await self.boxes.pop(id).remove()

    def awake(self, headers: Any) -> E2bBox | None:
        """The sandbox that a request to `envd` is for, if it runs and the request may come in."""
        box = self.boxes.get(headers.get("e2b-sandbox-id", ""))
        if box is None or box.paused or headers.get("x-access-token") != f"token-{box.id}":
            return None
        return box

    async def _upload(self, request: Request) -> Response:
        if self.awake(request.headers) is None:
            return _gone()
        path = request.query_params["path"]
        async with request.form() as form:
            file: Any = form["file"]
            data = await file.read()
        self.calls.append(f"upload {len(data)}")
        await asyncio.to_thread(Path(path).write_bytes, data)
        return JSONResponse([{"path": path, "name": Path(path).name, "type": "file"}])

    async def _health(self, request: Request) -> Response:
        return Response(status_code=204) if self.awake(request.headers) else _gone()


def _error(code: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"code": code, "message": message}, code, headers)


def _gone() -> Response:
    return _error(502, "The sandbox was not found")


class _Envd:
    """`envd` of the sandbox that the headers name; the service's edge answers for one that does
    not run."""

    def __init__(self, service: FakeE2b) -> None:
        self._service = service
        self._inner = ProcessASGIApplication(_Processes(service), read_max_bytes=4 << 20)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._service.awake(Request(scope).headers) is None:
            await _gone()(scope, receive, send)
        else:
            await self._inner(scope, receive, send)


class _Processes(Process):
    def __init__(self, service: FakeE2b) -> None:
        self._service = service

    def _program(self, selector: pb.ProcessSelector | None, ctx: Any) -> Program:
        box = self._service.awake(ctx.request_headers)
        assert box is not None
        assert selector is not None
        assert selector.selector is not None
        program = box.programs.get(int(selector.selector.value))
        if program is None or program.code is not None:
            raise ConnectError(Code.NOT_FOUND, "process not found")
        return program

    async def start(
        self, request: pb.StartRequest, ctx: RequestContext[pb.StartRequest, pb.StartResponse], /
    ) -> AsyncIterator[pb.StartResponse]:
        box = self._service.awake(ctx.request_headers)
        assert box is not None
        assert request.process is not None
        config = request.process
        program = await box.start(config.cmd, *config.args, stdin=request.stdin)
        yield _event("start", pb.ProcessEvent.StartEvent(pid=program.pid))
        sent = {"stdout": 0, "stderr": 0}
        while True:
            await program.wait(
                lambda: (
                    len(program.out) > sent["stdout"]
                    or len(program.err) > sent["stderr"]
                    or program.code is not None
                )
            )
            ended = program.code
            for field, kept in (("stdout", program.out), ("stderr", program.err)):
                while piece := bytes(kept[sent[field] : sent[field] + 65536]):
                    sent[field] += len(piece)
                    yield _event("data", pb.ProcessEvent.DataEvent(output=_one_of(field, piece)))
            if ended is not None:
                code = ended if ended >= 0 else -1  # as Go's os.ProcessState tells it
                end = pb.ProcessEvent.EndEvent(exit_code=code, exited=True, status="")
                yield _event("end", end)
                return

    async def send_input(self, request: pb.SendInputRequest, ctx: Any, /) -> pb.SendInputResponse:
        program = self._program(request.process, ctx)
        assert request.input is not None
        assert request.input.input is not None
        try:
            await program.write(request.input.input.value)
        except ConnectionError as error:
            raise ConnectError(Code.INTERNAL, str(error)) from error
        return pb.SendInputResponse()

    async def close_stdin(
        self, request: pb.CloseStdinRequest, ctx: Any, /
    ) -> pb.CloseStdinResponse:
        self._program(request.process, ctx).end_input()
        return pb.CloseStdinResponse()


def _one_of(field: str, value: Any) -> Any:
    return Oneof(field, value)


def _event(field: str, value: Any) -> pb.StartResponse:
    return pb.StartResponse(event=pb.ProcessEvent(event=_one_of(field, value)))
