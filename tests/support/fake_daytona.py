"""A server that speaks Daytona's wire: its REST interface and, for each sandbox, the toolbox.
Processes and files are real; a stopped sandbox has files and no processes."""

import asyncio
import shutil
from itertools import count
from pathlib import Path
from typing import Any

from daytona_api_client_async import Sandbox, SandboxState
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tests.support.fake_boxes import Box, HttpService

KEY = "dtn_fake"


class DaytonaBox(Box):
    def __init__(self, id: str, folder: Path, body: dict[str, Any]) -> None:
        super().__init__(id, folder)
        self.name: str = body["name"]
        self.snapshot: str | None = body.get("snapshot")
        self.blocked: bool = body["networkBlockAll"]
        self.labels: dict[str, str] = body["labels"]
        self.stops_after: int = body["autoStopInterval"]
        self.state = SandboxState.STARTED
        self.cpu, self.memory = 1, 1

    def shown(self, toolbox: str) -> dict[str, Any]:
        sandbox = Sandbox(
            id=self.id,
            organization_id="org",
            name=self.name,
            snapshot=self.snapshot,
            user="daytona",
            env={},
            labels=self.labels,
            public=False,
            network_block_all=self.blocked,
            kvm=False,
            target="eu",
            cpu=self.cpu,
            gpu=0,
            memory=self.memory,
            disk=3,
            state=self.state,
            error_reason="its disk is full" if self.state == SandboxState.ERROR else None,
            auto_stop_interval=self.stops_after,
            toolbox_proxy_url=toolbox,
        )
        shown: dict[str, Any] = sandbox.to_dict()
        return shown


class FakeDaytona(HttpService[DaytonaBox]):
    def __init__(self, disk: Path) -> None:
        super().__init__(disk)
        self.refuse: tuple[int, str] | None = None
        """What every request of the REST interface is answered with instead."""
        self.forget_replies = False
        """Whether a sandbox is made but the answer is lost on the way."""
        self.uploads: list[Path] = []
        self._ids = count()

    @property
    def environ(self) -> dict[str, str]:
        return {"DAYTONA_API_KEY": KEY, "DAYTONA_API_URL": f"{self.url}/api"}

    def app(self) -> ASGIApp:
        one, toolbox = "/api/sandbox/{name}", "/toolbox/{name}"
        routes = [
            Route("/api/sandbox", self._create, methods=["POST"]),
            Route(one, self._get, methods=["GET"]),
            Route(one, self._delete, methods=["DELETE"]),
            Route(one + "/start", self._start, methods=["POST"]),
            Route(one + "/stop", self._stop, methods=["POST"]),
            Route(one + "/network-settings", self._network, methods=["POST"]),
            Route(one + "/last-activity", self._active, methods=["POST"]),
            Route(toolbox + "/process/execute", self._execute, methods=["POST"]),
            Route(toolbox + "/files/bulk-upload", self._upload, methods=["POST"]),
            Route(toolbox + "/files/bulk-download", self._download, methods=["POST"]),
            Route(toolbox + "/files", self._remove_file, methods=["DELETE"]),
        ]
        return Starlette(routes=routes, exception_handlers={_No: _answered})

    def called(self, name: str) -> DaytonaBox | None:
        return next((box for box in self.boxes.values() if name in (box.id, box.name)), None)

    def _asked(self, request: Request, what: str) -> DaytonaBox:
        """The sandbox that a request is about, if the request may come in."""
        name = request.path_params.get("name", "")
        self.calls.append(f"{what} {name}")
        self._let_in(request)
        if (box := self.called(name)) is None:
            raise _No(404, f"Sandbox with ID or name {name} not found")
        return box

    def _let_in(self, request: Request) -> None:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            raise _No(401, "Invalid credentials")
        if self.refuse is not None:
            raise _No(*self.refuse)

    def _shown(self, box: DaytonaBox) -> Response:
        return JSONResponse(box.shown(f"{self.url}/toolbox"))

    async def _create(self, request: Request) -> Response:
        self.calls.append("create")
        self._let_in(request)
        body = await request.json()
        if self.called(body["name"]) is not None:
            raise _No(409, f"Sandbox with name {body['name']} already exists")
        id = f"sandbox-{next(self._ids)}"
        self.boxes[id] = DaytonaBox(id, self.disk / body["name"], body)
        if self.forget_replies:
            self.cut()
        return self._shown(self.boxes[id])

    async def _get(self, request: Request) -> Response:
        return self._shown(self._asked(request, "get"))

    async def _delete(self, request: Request) -> Response:
        box = self._asked(request, "delete")
        await self.lose(box.id)
        box.state = SandboxState.DESTROYED
        return self._shown(box)

    async def lose(self, id: str) -> None:
        """The service throws a sandbox away by itself."""
        await self.boxes.pop(id).remove()

    async def halt(self, id: str) -> None:
        """The service stops a sandbox that was left alone."""
        await self.boxes[id].kill()
        self.boxes[id].state = SandboxState.STOPPED

    async def _start(self, request: Request) -> Response:
        box = self._asked(request, "start")
        box.state = SandboxState.STARTED
        return self._shown(box)

    async def _stop(self, request: Request) -> Response:
        box = self._asked(request, "stop")
        await self.halt(box.id)
        return self._shown(box)

    async def _network(self, request: Request) -> Response:
        box = self._asked(request, "network")
        box.blocked = (await request.json())["networkBlockAll"]
        return self._shown(box)

    async def _active(self, request: Request) -> Response:
        self._asked(request, "active")
        return Response(status_code=201)

    def _awake(self, request: Request, what: str) -> DaytonaBox:
        box = self._asked(request, what)
        if box.state != SandboxState.STARTED:
            raise _No(400, "no IP address found. Is the Sandbox started?")
        return box

    async def _execute(self, request: Request) -> Response:
        box = self._awake(request, "execute")
        body = await request.json()
        program = await box.start("/bin/sh", "-c", body["command"], stdin=False)
        code = await program.end()
        text = bytes(program.out + program.err).decode(errors="replace")
        return JSONResponse({"exitCode": code, "result": text})

    async def _upload(self, request: Request) -> Response:
        self._awake(request, "upload")
        async with request.form() as form:
            file: Any = form["files[0].file"]
            path = Path(str(form["files[0].path"]))
            self.uploads.append(path)
            await asyncio.to_thread(path.write_bytes, await file.read())
        return Response(status_code=200)

    async def _download(self, request: Request) -> Response:
        self._awake(request, "download")
        parts = b""
        for path in (await request.json())["paths"]:
            head = f'--edge\r\nContent-Disposition: form-data; name="file"; filename="{path}"'
            data = await asyncio.to_thread(Path(path).read_bytes)
            parts += head.encode() + b"\r\n\r\n" + data + b"\r\n"
        kind = "multipart/form-data; boundary=edge"
        return Response(parts + b"--edge--\r\n", media_type=kind)

    async def _remove_file(self, request: Request) -> Response:
        self._awake(request, "remove")
        await asyncio.to_thread(shutil.rmtree, request.query_params["path"])
        return Response(status_code=204)


class _No(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


async def _answered(_request: Request, no: Exception) -> Response:
    assert isinstance(no, _No)
    return JSONResponse({"statusCode": no.code, "message": no.message}, no.code)
