"""A server that speaks Modal's wire, with the stubs that the SDK ships: the control plane and the
router of commands on one port. Processes and files are real; an image is a copy of the files."""

import asyncio
import base64
import json
import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, Self

from grpclib import GRPCError, Status
from grpclib.protocol import H2Protocol
from grpclib.server import Server, Stream
from modal_proto import api_pb2 as api
from modal_proto import task_command_router_pb2 as router
from modal_proto.api_grpc import ModalClientBase
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

from tests.support.fake_boxes import Box, Program, Service

TOKEN = ("ak-fake", "as-fake")
RUNNING = api.GenericResult.GENERIC_STATUS_UNSPECIFIED
ENDED = api.GenericResult.GENERIC_STATUS_TERMINATED


class ModalBox(Box):
    def __init__(self, id: str, folder: Path, definition: api.Sandbox) -> None:
        super().__init__(id, folder)
        self.definition = definition
        self.execs: dict[str, Program] = {}

    @property
    def task(self) -> str:
        return f"ta-{self.id}"


class _Server(Server):
    """Hangs up on everybody when it is shut."""

    def __init__(self, handlers: Sequence[Any]) -> None:
        super().__init__(handlers)
        self._protocols: list[H2Protocol] = []

    def _protocol_factory(self) -> H2Protocol:
        self._protocols.append(super()._protocol_factory())
        return self._protocols[-1]

    def cut(self) -> None:
        for protocol in self._protocols:
            if protocol.connection is not None:
                protocol.connection.close()


class FakeModal(Service[ModalBox]):
    def __init__(self, disk: Path) -> None:
        super().__init__(disk)
        self.images: dict[str, Path] = {}
        self.ended: set[str] = set()
        self.refuse: tuple[Status, str] | None = None
        """What every request to the control plane is answered with instead."""
        self.port = 0
        self._ids = count()
        self._before: str | None = None

    @property
    def environ(self) -> dict[str, str]:
        return {"MODAL_TOKEN_ID": TOKEN[0], "MODAL_TOKEN_SECRET": TOKEN[1]}

    def __enter__(self) -> Self:
        super().__enter__()
        # The SDK takes the address of its service from the environment of the process only.
        self._before = os.environ.get("MODAL_SERVER_URL")
        os.environ["MODAL_SERVER_URL"] = f"http://127.0.0.1:{self.port}"
        return self

    def __exit__(self, *details: object) -> None:
        del os.environ["MODAL_SERVER_URL"]
        if self._before is not None:
            os.environ["MODAL_SERVER_URL"] = self._before
        super().__exit__(*details)

    async def open(self) -> None:
        self._server = _Server([_ControlPlane(self), _Router(self)])
        await self._server.start("127.0.0.1", self.port)
        assert self._server._server is not None
        self.port = self._server._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        self._server.close()
        self._server.cut()
        await self._server.wait_closed()

    def named(self, name: str) -> ModalBox | None:
        return next((box for box in self.boxes.values() if box.definition.name == name), None)

    async def create(self, definition: api.Sandbox) -> ModalBox:
        if self.named(definition.name):
            raise GRPCError(Status.ALREADY_EXISTS, f"sandbox {definition.name!r} runs already")
        folder = self.disk / definition.name
        if kept := self.images.get(definition.image_id):
            await _copy(kept, folder)
        id = f"sb-{next(self._ids)}"
        box = self.boxes[id] = ModalBox(id, folder, definition)
        return box

    async def end(self, id: str) -> None:
        """A sandbox ends, and its files with it."""
        await self.boxes.pop(id).remove()
        self.ended.add(id)

    async def snapshot(self, box: ModalBox) -> str:
        id = f"im-{next(self._ids)}"
        folder = self.disk / "images" / id
        folder.parent.mkdir(exist_ok=True)
        await _copy(box.folder, folder)
        self.images[id] = folder
        return id


async def _copy(source: Path, target: Path) -> None:
    process = await asyncio.create_subprocess_exec("cp", "-a", "--", str(source), str(target))
    assert await process.wait() == 0


async def _not_here(_service: Any, stream: Stream[Any, Any]) -> None:
    await stream.recv_message()
    raise GRPCError(Status.UNIMPLEMENTED, "the fake does not know this request")


def _whole(base: type) -> Any:
    """The stub's class with an answer to everything, so that only what is used is written."""
    names: frozenset[str] = getattr(base, "__abstractmethods__", frozenset())
    return type(f"Whole{base.__name__}", (base,), dict.fromkeys(names, _not_here))


class _ControlPlane(_whole(ModalClientBase)):  # type: ignore[misc]  # made on the fly
    def __init__(self, service: FakeModal) -> None:
        self._service = service

    async def _asked(self, stream: Stream[Any, Any], what: str) -> Any:
        request = await stream.recv_message()
        id = getattr(request, "sandbox_id", "")
        self._service.calls.append(f"{what} {id}")
        metadata: Any = stream.metadata
        if (metadata.get("x-modal-token-id"), metadata.get("x-modal-token-secret")) != TOKEN:
            raise GRPCError(Status.UNAUTHENTICATED, "Token ID not recognized")
        if self._service.refuse is not None:
            raise GRPCError(*self._service.refuse)
        if id and id not in self._service.boxes and id not in self._service.ended:
            raise GRPCError(Status.NOT_FOUND, f"no sandbox {id}")
        return request

    async def AuthTokenGet(self, stream: Stream[Any, Any]) -> None:  # noqa: N802 - the wire's name
        await self._asked(stream, "token")
        await stream.send_message(api.AuthTokenGetResponse(token=_token()))

    async def AppGetOrCreate(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await self._asked(stream, "app")
        await stream.send_message(api.AppGetOrCreateResponse(app_id=f"ap-{request.app_name}"))

    async def EnvironmentGetOrCreate(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        await self._asked(stream, "environment")
        settings = api.EnvironmentSettings(image_builder_version="2025.06")
        metadata = api.EnvironmentMetadata(name="main", settings=settings)
        await stream.send_message(
            api.EnvironmentGetOrCreateResponse(environment_id="en-main", metadata=metadata)
        )

    async def ImageGetOrCreate(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        await self._asked(stream, "image")
        result = api.GenericResult(status=api.GenericResult.GENERIC_STATUS_SUCCESS)
        await stream.send_message(api.ImageGetOrCreateResponse(image_id="im-debian", result=result))

    async def ImageFromId(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await self._asked(stream, "image")
        if request.image_id not in self._service.images:
            raise GRPCError(Status.NOT_FOUND, f"no image {request.image_id}")
        await stream.send_message(api.ImageFromIdResponse(image_id=request.image_id))

    async def ImageDelete(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await self._asked(stream, "image-delete")
        if self._service.images.pop(request.image_id, None) is None:
            raise GRPCError(Status.NOT_FOUND, f"no image {request.image_id}")
        await stream.send_message(_empty())

    async def SandboxCreateV2(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await self._asked(stream, "create")
        box = await self._service.create(request.definition)
        await stream.send_message(api.SandboxCreateV2Response(sandbox_id=box.id, task_id=box.task))

    async def SandboxGetFromNameV2(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await self._asked(stream, "by-name")
        box = self._service.named(request.sandbox_name)
        if box is None:
            raise GRPCError(Status.NOT_FOUND, f"no sandbox {request.sandbox_name!r} runs")
        await stream.send_message(api.SandboxGetFromNameResponse(sandbox_id=box.id))

    async def SandboxGetFromName(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await self._asked(stream, "by-name-v1")
        raise GRPCError(Status.NOT_FOUND, f"no sandbox {request.sandbox_name!r} runs")

    async def SandboxWaitV2(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await self._asked(stream, "wait")
        ended = request.sandbox_id in self._service.ended
        result = api.GenericResult(status=ENDED if ended else RUNNING)
        await stream.send_message(api.SandboxWaitResponse(result=result))

    async def SandboxTerminateV2(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await self._asked(stream, "terminate")
        if request.sandbox_id in self._service.boxes:
            await self._service.end(request.sandbox_id)
        await stream.send_message(api.SandboxTerminateResponse())

    async def SandboxGetTaskIdV2(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await self._asked(stream, "task")
        if request.sandbox_id in self._service.ended:
            result = api.GenericResult(status=ENDED)
            await stream.send_message(api.SandboxGetTaskIdResponse(task_result=result))
        else:
            task = self._service.boxes[request.sandbox_id].task
            await stream.send_message(api.SandboxGetTaskIdResponse(task_id=task))

    async def SandboxGetCommandRouterAccess(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        await self._asked(stream, "router")
        url = f"http://127.0.0.1:{self._service.port}"
        await stream.send_message(api.SandboxGetCommandRouterAccessResponse(url=url, jwt=_token()))


class _Router(_whole(TaskCommandRouterBase)):  # type: ignore[misc]  # made on the fly
    def __init__(self, service: FakeModal) -> None:
        self._service = service
        self._taken: dict[str, int] = {}
        """Bytes of input that each program has got; what is sent again is not taken again."""

    def _box(self, request: Any) -> ModalBox:
        for box in self._service.boxes.values():
            if box.task == request.task_id:
                return box
        raise GRPCError(Status.NOT_FOUND, f"no task {request.task_id}")

    def _program(self, request: Any) -> Program:
        return self._box(request).execs[request.exec_id]

    async def TaskExecStart(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await stream.recv_message()
        assert request is not None
        box = self._box(request)
        box.execs[request.exec_id] = await box.start(*request.command_args, stdin=True)
        await stream.send_message(router.TaskExecStartResponse())

    async def TaskExecStdioRead(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await stream.recv_message()
        assert request is not None
        program = self._program(request)
        is_out = request.file_descriptor == router.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT
        kept = program.out if is_out else program.err
        async for piece in program.pieces(kept, request.offset):
            await stream.send_message(router.TaskExecStdioReadResponse(data=piece))

    async def TaskExecStdinWrite(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await stream.recv_message()
        assert request is not None
        program = self._program(request)
        taken = self._taken.get(request.exec_id, 0)
        if request.offset > taken:
            raise GRPCError(Status.OUT_OF_RANGE, f"{taken} bytes came before {request.offset}")
        data = request.data[taken - request.offset :]
        self._taken[request.exec_id] = taken + len(data)
        try:
            if data:
                await program.write(data)
        except ConnectionError as error:
            raise GRPCError(Status.FAILED_PRECONDITION, str(error)) from error
        if request.eof:
            program.end_input()
        await stream.send_message(router.TaskExecStdinWriteResponse())

    async def TaskExecWait(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await stream.recv_message()
        assert request is not None
        code = await self._program(request).end()
        answer = {"code": code} if code >= 0 else {"signal": -code}
        await stream.send_message(router.TaskExecWaitResponse(**answer))

    async def TaskSnapshotFilesystem(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await stream.recv_message()
        assert request is not None
        self._service.calls.append(f"snapshot {request.task_id}")
        id = await self._service.snapshot(self._box(request))
        await stream.send_message(router.TaskSnapshotFilesystemResponse(image_id=id))


def _empty() -> Any:
    from google.protobuf.empty_pb2 import Empty

    return Empty()


def _token() -> str:
    """A token that does not expire while a test runs."""
    body = base64.urlsafe_b64encode(json.dumps({"exp": 4_000_000_000}).encode()).decode()
    return f"head.{body.rstrip('=')}.sign"
