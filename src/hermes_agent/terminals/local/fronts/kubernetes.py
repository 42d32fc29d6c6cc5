"""The read-only front of a Kubernetes API server. The program gets a kubeconfig with the same
contexts and without credentials, in which each server is this front; behind it `kubectl proxy`
speaks to the real one as the user."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from hermes_agent.terminals.local.fronts.engine import OPENLY
from hermes_agent.terminals.local.fronts.http import RequestRefused, ServiceRequest, Streams

PORT = 8001
_HOST = re.compile(rf"127\.0\.([0-9]{{1,3}})\.([0-9]{{1,3}}):{PORT}")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_META = "meta.k8s.io/v1"
_KNOWN = frozenset({"name", "namespace", "labels", "creationTimestamp", "resourceVersion", "uid"})
"""What is shown of the metadata of a secret."""
_GROUP = re.compile(r"/api/[^/]+/(.+)|/apis/[^/]+/[^/]+/(.+)")
_DISCOVERED = re.compile(
    r"/(apis?(/[^/]+){0,2}/?|version/?|(healthz|livez|readyz|metrics|openapi|swagger)([/.-].*)?"
    r"|\.well-known/[^/]+|openid/v1/jwks)?"
)
"""What a server says of itself. Nothing else that is no resource: what is below another path may be
another server, or the whole API again."""
_ASKS = re.compile(
    r"/apis/(authorization\.k8s\.io/v1[a-z0-9]*/(self)?subject(access|rules)reviews"
    r"|authentication\.k8s\.io/v1[a-z0-9]*/selfsubjectreviews)"
)
"""What is posted there is a question."""
_INTO = frozenset({"attach", "exec", "portforward", "proxy"})
CONFIG = frozenset({"view", "get-contexts", "current-context", "get-clusters", "get-users"})
"""What `kubectl config` shows, for which no server is asked."""
_CONNECTION = frozenset({
    "--kubeconfig", "--user", "--token", "--certificate-authority", "--client-certificate",
    "--client-key", "--tls-server-name", "--insecure-skip-tls-verify",
})  # fmt: skip
_RELEASE = re.compile(r"sh\.helm\.release\.v1\.")


def only_shows(request: ServiceRequest, program: str, words: Sequence[str]) -> ServiceRequest:
    """`words` are those of the call: it may execute in a pod what it names."""
    path, query = request.path, request.query
    named = _GROUP.fullmatch(path)
    parts = (named[1] or named[2]).strip("/").split("/") if named else []
    if parts[:1] == ["watch"]:
        parts = parts[1:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    if _INTO & {*parts[:1], *parts[2:3]} or request.field("upgrade"):
        if parts[0:3:2] == ["pods", "exec"] and _is_named(query.get("command", []), words):
            return request
        raise RequestRefused(f"connecting to {path} was blocked: {OPENLY}")
    asks = request.method == "POST" and _ASKS.fullmatch(path)
    if parts and not asks and any(name.startswith("impersonate-") for name, _ in request.fields):
        raise RequestRefused(f"access to {path} was blocked: {OPENLY}")
    if request.method in ("GET", "HEAD") and (parts or _DISCOVERED.fullmatch(path)):
        return _without_secrets(request, parts, program, words)
    if asks or (query.get("dryRun") == ["All"] and _can_be_tried(request.method, parts)):
        return request
    raise RequestRefused(f"{request.method} {path} was blocked: {OPENLY}")


def _is_named(inner: Sequence[str], words: Sequence[str]) -> bool:
    after = words[words.index("--") + 1 :] if "--" in words else words[-len(inner) :]
    return "exec" in words and bool(inner) and list(after) == inner


def _can_be_tried(method: str, parts: Sequence[str]) -> bool:
    """Of the parts of an object these alone: others act, such as `token`, which ignores dry runs. A
    change of a secret would be answered with what is in it."""
    if method == "POST":
        return len(parts) == 1
    stored = len(parts) == 2 or (len(parts) == 3 and parts[2] in ("scale", "status"))
    return method in ("PUT", "PATCH") and stored and parts[0] != "secrets"


def _without_secrets(
    request: ServiceRequest, parts: Sequence[str], program: str, words: Sequence[str]
) -> ServiceRequest:
    """What is in secrets is left to who may see it: `describe` counts it, Helm keeps its own there,
    and the others get a list of names."""
    if parts[:1] != ["secrets"]:
        return request
    query = request.query
    kept = "owner=helm" in ",".join(query.get("labelSelector", [])).split(",")
    if program == "helm" and (kept or any(_RELEASE.match(name) for name in parts[1:2])):
        return request
    if program != "helm" and "describe" in words and "get" not in words:
        return request
    rest = (pair for pair in request.fields if pair[0] not in ("accept", "accept-encoding"))
    return request._replace(fields=(*rest, ("accept", TABLE)), rewrite=_names_only)


def _names_only(line: bytes) -> bytes:
    """Of a table, or of an event of a watch. Annotations may repeat what is in a secret."""
    try:
        answer = json.loads(line)
        table = answer["object"] if "type" in answer else answer
        shown = table["kind"] in ("Table", "Status")
    except (ValueError, LookupError, TypeError):
        shown = False
    if not shown:
        raise RequestRefused("it would show the contents of secrets")
    for row in table.get("rows") or ():
        given = row.pop("object", None) or {}
        known = {name: value for name, value in given.get("metadata", {}).items() if name in _KNOWN}
        row["object"] = {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": known}
    return json.dumps(answer).encode()


class KubernetesFronts:
    """Those of a terminal. To start one takes longer than most calls, so they are kept."""

    def __init__(self, idle_seconds: float = 60.0) -> None:
        self._idle_seconds = idle_seconds
        self._kept: dict[object, KubernetesFront] = {}

    @contextlib.asynccontextmanager
    async def use(
        self, command: Sequence[str], place: int, directory: str, environ: Mapping[str, str]
    ) -> AsyncIterator["KubernetesFront"]:
        """For one call; see `KubernetesFront`."""
        key = (*command, *sorted(environ.items()), *_state(command, directory, environ))
        front = self._kept.get(key)
        if front is None:
            front = self._kept[key] = KubernetesFront(command, place, directory, environ)
        if front.idle is not None:
            front.idle.cancel()
        front.users += 1
        seconds = 0.0  # a call that is stopped takes along what still works for it
        try:
            yield front
            seconds = self._idle_seconds
        finally:
            front.users -= 1
            if not front.users:
                front.idle = asyncio.create_task(self._end(key, seconds))

    async def _end(self, key: object, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._kept.pop(key).close()

    async def close(self) -> None:
        for key in (*self._kept,):
            front = self._kept.pop(key)
            if front.idle is not None:
                front.idle.cancel()
            await front.close()


def _state(command: Sequence[str], directory: str, environ: Mapping[str, str]) -> list[object]:
    """Where it is called, and what the kubeconfigs are like."""
    named = [one.partition("=")[2] for one in command if one.startswith("--kubeconfig=")][-1:]
    known = environ.get("KUBECONFIG") or f"{environ.get('HOME', '')}/.kube/config"
    found = [Path(directory, one) for one in named or known.split(":")]
    facts = [path.stat() for path in found if path.exists()]
    return [directory, *((one.st_ino, one.st_mtime_ns, one.st_size) for one in facts)]


class KubernetesFront:
    """`command` is what asks the cluster, with the `connection_options`; sockets are in `place`."""

    def __init__(
        self, command: Sequence[str], place: int, directory: str, environ: Mapping[str, str]
    ) -> None:
        self.users = 0
        self.idle: asyncio.Task[None] | None = None
        self._command = command
        self._folder = os.dup(place)
        self._directory = directory
        self._environ = dict(environ)
        self._contexts: list[str] = []
        self._config = ""
        self._reading = asyncio.Lock()
        self._proxies: dict[int, asyncio.Task[asyncio.subprocess.Process]] = {}
        self._running: list[asyncio.subprocess.Process] = []

    async def kubeconfig(self) -> str:
        """As JSON; empty where the user's is broken."""
        async with self._reading:
            self._config = self._config or await self._read()
        return self._config

    async def _read(self) -> str:
        process = await self._start("config", "view", "-o", "json")
        said, _ = await process.communicate()
        if process.returncode:
            return ""
        given: dict[str, Any] = json.loads(said)
        contexts = {one["name"]: one.get("context") or {} for one in given.get("contexts") or ()}
        current = given.get("current-context") or ""
        self._contexts = [*contexts] if current in contexts else [*contexts, current]
        places = [(name, contexts.get(name, {})) for name in self._contexts]
        users = {place.get("user", "") for _, place in places}
        users |= {one["name"] for one in given.get("users") or ()}
        made = {
            "apiVersion": "v1", "kind": "Config", "current-context": current or "default",
            "clusters": [
                {"name": name or "default", "cluster": {"server": _server(number)}}
                for number, name in enumerate(self._contexts, 1)
            ],
            "contexts": [
                {"name": name or "default", "context": {
                    "cluster": name or "default", "user": place.get("user", ""),
                    "namespace": place.get("namespace", ""),
                }}
                for name, place in places
            ],
            "users": [{"name": name, "user": {}} for name in sorted(users)],
        }  # fmt: skip
        return json.dumps(made)

    async def connect(self, request: ServiceRequest) -> Streams:
        found = _HOST.fullmatch(request.field("host"))
        number = int(found[1]) * 256 + int(found[2]) - 1 if found else -1
        if number not in range(len(self._contexts)):
            raise RequestRefused("no such server", 400)
        task = self._proxies.get(number)
        if task is None or (task.done() and _has_ended(task)):
            task = self._proxies[number] = asyncio.ensure_future(self._proxy(number))
        await asyncio.shield(task)
        return await asyncio.open_unix_connection(self._socket(number))

    async def close(self) -> None:
        for task in self._proxies.values():
            task.cancel()
        for process in self._running:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        os.close(self._folder)

    def _socket(self, number: int) -> str:
        return f"/proc/self/fd/{self._folder}/api.{id(self)}.{number}"

    async def _proxy(self, number: int) -> asyncio.subprocess.Process:
        options = [f"--unix-socket={self._socket(number)}", "--reject-paths=^$"]
        if name := self._contexts[number]:
            options.append(f"--context={name}")
        process = await self._start("proxy", *options)
        said = await process.stdout.readline() if process.stdout else b""
        if b"serve" not in said:
            raise OSError("kubectl proxy did not start")
        return process

    async def _start(self, *words: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            "setpriv", "--pdeathsig", "KILL", "--", *self._command, *words,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, cwd=self._directory, env=self._environ,
            pass_fds=(self._folder,), start_new_session=True,
        )  # fmt: skip
        self._running.append(process)
        return process


def _has_ended(task: asyncio.Task[asyncio.subprocess.Process]) -> bool:
    return task.exception() is not None or task.result().returncode is not None


def _server(number: int) -> str:
    """Each context has an address of its own, all of which are this machine."""
    return f"http://127.0.{number >> 8}.{number & 255}:{PORT}"


def receive(file: socket.socket) -> socket.socket:
    """The listener that a call's own network has handed over."""
    _, files, _, _ = socket.recv_fds(file, 1, 1)
    return socket.socket(fileno=files[0])


def connection_options(words: Sequence[str]) -> list[str]:
    """The options of a call that say as whom it asks, and by which kubeconfig. Without a secure
    connection the program itself would ignore them."""
    own = words[: words.index("--")] if "--" in words else words
    found: list[str] = []
    for word, following in pairwise((*own, "")):
        name, given, value = word.replace("--kube-", "--", 1).partition("=")
        if name in _CONNECTION:
            plain = name == "--insecure-skip-tls-verify" and not given
            found.append(name if plain else f"{name}={value if given else following}")
    return found
