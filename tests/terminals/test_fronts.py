"""What stands between the programs that a look calls outside and the services that they reach."""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import docker
import pytest
import pytest_asyncio

from hermes_agent.terminals.local.fronts import engine as engine_front
from hermes_agent.terminals.local.fronts import kubernetes as kubernetes_front
from hermes_agent.terminals.local.fronts.http import (
    Filter,
    FilterServer,
    RequestRefused,
    ServiceRequest,
    Streams,
    parse_head,
)
from tests.support.dockerd import asked, docker_engine
from tests.support.fronts import Deceived
from tests.support.images import IMAGE
from tests.support.quick_http import QuickHTTPServer


@pytest.fixture
def programs() -> Iterator[Path]:
    """A folder that everybody can read."""
    with tempfile.TemporaryDirectory(prefix="hermes-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


# A container engine


@pytest.fixture
def engine() -> Iterator[docker.DockerClient]:
    with asked(docker_engine()) as client:
        yield client


@pytest.fixture
def container(engine: docker.DockerClient) -> Iterator[str]:
    made = engine.containers.run(
        IMAGE, ["sh", "-c", "while :; do echo begun; sleep 0.1; done"], detach=True,
        network_mode="none",
    )  # fmt: skip
    yield str(made.short_id)
    made.remove(force=True)


@pytest_asyncio.fixture
async def docked(tmp_path: Path) -> AsyncIterator[Deceived]:
    made = Deceived(tmp_path, DOCKER_HOST=docker_engine())
    yield made
    await made.terminal.destroy()


async def test_a_look_at_containers_passes(docked: Deceived, container: str) -> None:
    told = await docked.look(
        f"docker ps -q; docker logs --tail 1 {container};"
        f"docker inspect -f '{{{{.Id}}}}' {container};"
        "docker version -f '{{.Server.Os}}'; docker images -q; docker system df; docker info;"
        f"docker stats --no-stream {container}; docker top {container}; docker diff {container}",
        "docker",
    )
    assert told.code == 0, told.stderr
    assert told.stdout.startswith(f"{container}\nbegun\n{container}")
    assert {made[2] for made in docked.outside.made} == {"engine"}


async def test_what_goes_on_is_followed(docked: Deceived, container: str) -> None:
    told = await docked.look(f"docker logs -f {container} | head -1", "docker")
    assert told.stdout == "begun\n"
    assert (await docked.look("docker events --since 1h --until 0s")).code == 0


async def test_what_the_gate_wrongly_allows_does_nothing(
    docked: Deceived, container: str, engine: docker.DockerClient
) -> None:
    harm = [
        f"docker rm -f {container}", f"docker stop -t 0 {container}",
        f"docker run --rm -v /:/host {IMAGE} touch /host/{docked.folder}/harm",
        f"docker cp {container}:/etc/passwd {docked.folder}/harm",
        f"docker export {container}", f"docker save {IMAGE}", f"docker tag {IMAGE} harm",
        f"docker exec --privileged {container} true", "docker volume create harm",
        f"docker -H unix:///run/../run/{container} rm -f {container}", "docker system prune -af",
    ]  # fmt: skip
    for command in harm:
        told = await docked.look(command)
        assert told.code != 0, command
        assert command.startswith("docker -H") or "hermes: " in told.stderr, told.stderr
    assert engine.containers.get(container).status == "running"
    assert not (docked.folder / "harm").exists()
    assert engine.volumes.list() == []


async def test_an_engine_that_nothing_can_hold_is_not_called(
    docked: Deceived, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as engine:
        engine.setblocking(False)
        port = engine.getsockname()[1]
        told = await docked.look(f"DOCKER_HOST=tcp://127.0.0.1:{port} docker ps", "docker")
        assert told.code == 126
        assert f"cannot make docker read-only at tcp://127.0.0.1:{port}" in told.stderr
        assert docked.outside.made[0][1]
        with pytest.raises(BlockingIOError):
            engine.accept()
    told = await docked.look(f"DOCKER_HOST=unix://{tmp_path}/none docker ps", "docker")
    assert "Cannot connect" in told.stderr  # as it says itself


async def test_only_what_was_judged_is_executed_in_a_container(
    docked: Deceived, container: str
) -> None:
    told = await docked.look(f"echo in | docker exec -i {container} sh -c 'cat; exit 3'", "docker")
    assert (told.code, told.stdout) == (3, "in\n")


async def test_an_effect_that_was_agreed_to_is_not_held(
    docked: Deceived, container: str, engine: docker.DockerClient
) -> None:
    docked.looks = False
    told = await docked.look(f"docker stop -t 0 {container}")
    assert told.code == 0
    assert docked.outside.made[0][2] == "none"
    assert engine.containers.get(container).status == "exited"


# Requests that are not what they seem

PING = b"GET /_ping HTTP/1.1\r\nHost: x\r\n"
SMUGGLED = {
    "two-lengths": PING + b"Content-Length: 0\r\nContent-Length: 9\r\n\r\n",
    "length-and-chunks": PING + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks": PING + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "signed-length": PING + b"Content-Length: +0\r\n\r\n",
    "body": PING + b"Content-Length: 4\r\n\r\nGET ",
    "folded": PING + b"X: a\r\n Transfer-Encoding: chunked\r\n\r\n",
    "space-before-colon": PING + b"Content-Length : 5\r\n\r\n",
    "bare-line-feed": PING + b"X: a\nTransfer-Encoding: chunked\r\n\r\n",
    "bare-return": PING + b"X: a\rY: b\r\n\r\n",
    "absolute": b"GET http://x/_ping HTTP/1.1\r\nHost: x\r\n\r\n",
    "authority": b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    "old": b"GET /_ping HTTP/1.0\r\n\r\n",
    "none": b"GET /_ping\r\n\r\n",
    "two-spaces": b"GET  /_ping HTTP/1.1\r\n\r\n",
    "lower-case": b"get /_ping HTTP/1.1\r\n\r\n",
    "upgrade": PING + b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n",
    "half-upgrade": PING + b"Upgrade: h2c\r\n\r\n",
    "connection-drops": PING + b"Connection: close, content-length\r\n\r\n",
    "encoded-slash": b"GET /containers/x%2farchive%3f/json HTTP/1.1\r\n\r\n",
    "encoded-twice": b"GET /containers/x%252farchive/json HTTP/1.1\r\n\r\n",
    "dots": b"GET /containers/../swarm HTTP/1.1\r\n\r\n",
    "encoded-dots": b"GET /images/%2e%2e/x/json HTTP/1.1\r\n\r\n",
    "not-text": b"GET /images/%ff/json HTTP/1.1\r\n\r\n",
    "put": b"PUT /containers/x/archive?path=/ HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "delete": b"DELETE /v1.41/containers/x HTTP/1.1\r\n\r\n",
    "post": b"POST /v1.41/containers/x/kill HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "files": b"GET /v1.41/containers/x/archive?path=/ HTTP/1.1\r\n\r\n",
    "export": b"GET /containers/x/export HTTP/1.1\r\n\r\n",
    "image": b"GET /images/get?names=x HTTP/1.1\r\n\r\n",
    "attach": b"GET /containers/x/attach/ws HTTP/1.1\r\n\r\n",
    "swarm-tokens": b"GET /swarm HTTP/1.1\r\n\r\n",
    "secret": b"GET /libpod/secrets/x/json?ShowSecret=true HTTP/1.1\r\n\r\n",
    "long-s": b"GET /libpod/secrets/x/json?%C5%BFhowsecret=true HTTP/1.1\r\n\r\n",
    "check": b"GET /libpod/containers/x/healthcheck HTTP/1.1\r\n\r\n",
    "http-2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "attach-upgraded": b"GET /containers/x/attach HTTP/1.1\r\nConnection: Upgrade\r\n"
    b"Upgrade: tcp\r\n\r\n",
    "logs-upgraded": b"GET /containers/x/logs HTTP/1.1\r\nConnection: Upgrade\r\n"
    b"Upgrade: tcp\r\n\r\n",
    "build": b"POST /build?remote=x HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "all-images": b"GET /v4.3.1/libpod/images/export?references=x HTTP/1.1\r\n\r\n",
    "mounted": b"GET /libpod/containers/showmounted HTTP/1.1\r\n\r\n",
}


class Filtered:
    """A filter in front of a service that keeps what it gets, and connections open for more."""

    def __init__(self, judge: Filter) -> None:
        self.got: list[bytes] = []
        self.server = FilterServer(judge, self.connect)

    async def open(self) -> None:
        self._service = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        made = socket.create_server(("127.0.0.1", 0))
        self._address = made.getsockname()
        await self.server.listen(made)

    async def connect(self, _: ServiceRequest) -> Streams:
        return await asyncio.open_connection(*self._service.sockets[0].getsockname())

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(EOFError):
            while not (self.got and b"connection: close" in self.got[-1]):
                self.got.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nanswered")
        writer.close()

    async def ask(self, data: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*self._address)
        writer.write(data)
        said = await reader.read()
        writer.close()
        return said

    async def close(self) -> None:
        await self.server.close()
        self._service.close()


@pytest_asyncio.fixture
async def filtered() -> AsyncIterator[Filtered]:
    words = ("exec", "web", "cat", "/etc/hosts")
    made = Filtered(lambda request: engine_front.only_shows(request, words))
    await made.open()
    yield made
    await made.close()


async def test_a_plain_request_passes_with_its_fields(filtered: Filtered) -> None:
    said = await filtered.ask(PING + b"X-Own: a b\r\nConnection: keep-alive\r\n\r\n")
    assert said.endswith(b"answered")
    assert filtered.got == [
        b"GET /_ping HTTP/1.1\r\nhost: localhost\r\nx-own: a b\r\nconnection: close\r\n\r\n"
    ]


@pytest.mark.parametrize("data", SMUGGLED.values(), ids=SMUGGLED)
async def test_a_request_that_may_be_two_is_refused(filtered: Filtered, data: bytes) -> None:
    said = await filtered.ask(data)
    assert said[:10] == b"HTTP/1.1 4"
    assert b"hermes: " in said
    assert filtered.got == []


async def test_what_follows_a_request_is_not_forwarded(filtered: Filtered) -> None:
    await filtered.ask(PING + b"\r\nDELETE /containers/x HTTP/1.1\r\nHost: x\r\n\r\n")
    assert not [one for one in filtered.got if b"DELETE" in one]


async def test_what_follows_an_upgrade_that_is_not_made_is_not_forwarded(
    filtered: Filtered,
) -> None:
    await filtered.ask(
        b"POST /exec/x/start HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
        b"DELETE /containers/x HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    assert [one.split()[0] for one in filtered.got] == [b"POST"]


@pytest.mark.parametrize(
    ("body", "runs"),
    [
        ('{"Cmd": ["cat", "/etc/hosts"]}', True),
        ('{"Cmd": ["cat", "/etc/passwd"]}', False),
        ('{"Cmd": ["cat", "/etc/hosts"], "cmd": ["rm"]}', False),
        ('{"Cmd": ["cat", "/etc/hosts"], "\u212amd": 1}', False),
        ('{"Cmd": ["cat", "/etc/hosts"], "Privileged": true}', False),
        ('{"Cmd": "cat /etc/hosts"}', False),
        ('{"Cmd": []}', False),
        ("[]", False),
        ("cat", False),
    ],
)
async def test_only_the_judged_words_are_executed(
    filtered: Filtered, body: str, runs: bool
) -> None:
    given = body.encode()
    said = await filtered.ask(
        b"POST /v1.41/containers/web/exec HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(given) + given
    )
    assert (said.endswith(b"answered"), bool(filtered.got)) == (runs, runs)


ASKED = {
    "GET /api/v1/namespaces/shop/pods/one/log?follow=true": True,
    "GET /apis/apps/v1/deployments?watch=true": True,
    "GET /api/v1/namespaces/proxy/pods/proxy": True,
    "GET /api/v1/secrets": True,
    "GET /api/v1/secrets?includeObject=Object": True,
    "GET /apis/apps/v1": True,
    "GET /readyz/ping?verbose": True,
    "GET /clusters/one/api/v1/secrets": False,
    "GET /debug/pprof/heap": False,
    "GET /api/v1/namespaces/shop/pods/one/exec?command=sh": False,
    "GET /api/v1/namespaces/shop/pods/one/exec?command=cat&command=/etc/hosts": True,
    "GET /api/v1/namespaces/shop/pods/one/exec?command=/etc/hosts": False,
    "GET /api/v1/nodes/one/proxy/run/shop/one/one?cmd=sh": False,
    "GET /api/v1/proxy/nodes/one": False,
    "GET /api/v1/namespaces/shop/pods/one/portforward": False,
    "GET /api/v1//namespaces/shop/pods/one/attach": False,
    "GET /api/v1/watch/namespaces/shop/pods/one/attach": False,
    "PATCH /api/v1/namespaces/shop/pods/one?dryRun=All": True,
    "PATCH /apis/apps/v1/namespaces/shop/deployments/one/scale?dryRun=All": True,
    "PATCH /api/v1/namespaces/shop/secrets/one?dryRun=All": False,
    "POST /api/v1/namespaces/shop/secrets?dryRun=All": True,
    "POST /api/v1/namespaces/shop/serviceaccounts/x/token?dryRun=All": False,
    "PUT /apis/subresources.kubevirt.io/v1/namespaces/x/virtualmachines/y/stop?dryRun=All": False,
    "PUT /debug/flags/v?dryRun=All": False,
    "PATCH /api/v1/namespaces/shop/pods/one?dryRun=All&dryRun=": False,
    "PATCH /api/v1/namespaces/shop/pods/one?dryRun=All;x": False,
    "DELETE /api/v1/namespaces/shop/pods/one?dryRun=All": False,
    "POST /api/v1/namespaces/shop/serviceaccounts/x/token": False,
    "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews": True,
    "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews": True,
    "POST /apis/authentication.k8s.io/v1/tokenreviews": False,
}


@pytest.mark.parametrize(("line", "passes"), ASKED.items(), ids=ASKED)
def test_a_cluster_is_only_asked(line: str, passes: bool) -> None:
    request = parse_head(f"{line} HTTP/1.1\r\n\r\n".encode())
    words = ("exec", "one", "--", "cat", "/etc/hosts")
    with nullcontext() if passes else pytest.raises(RequestRefused):
        kubernetes_front.only_shows(request, "kubectl", words)


@pytest.mark.parametrize(
    ("line", "passes"),
    {
        "GET /api/v1/pods": False,
        "GET /api/v1": True,
        "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews": True,
    }.items(),
)
def test_only_rights_are_looked_up_for_others(line: str, passes: bool) -> None:
    request = parse_head(f"{line} HTTP/1.1\r\nImpersonate-User: root\r\n\r\n".encode())
    with nullcontext() if passes else pytest.raises(RequestRefused):
        kubernetes_front.only_shows(request, "kubectl", ("auth", "can-i"))


def test_a_secret_that_is_called_describe_is_not_shown() -> None:
    request = parse_head(b"GET /api/v1/namespaces/shop/secrets/describe HTTP/1.1\r\n\r\n")
    shown = {
        words[0]: kubernetes_front.only_shows(request, "kubectl", words).field("accept")
        for words in (("get", "secret", "describe", "-o", "yaml"), ("describe", "secret", "x"))
    }
    assert shown == {"get": kubernetes_front.TABLE, "describe": ""}


def test_helm_sees_its_own_secrets_only() -> None:
    def asked(target: str) -> str:
        request = parse_head(f"GET /api/v1/{target} HTTP/1.1\r\n\r\n".encode())
        passed = kubernetes_front.only_shows(request, "helm", ("list",))
        return passed.field("accept")

    assert asked("secrets?labelSelector=name%3Dx%2Cowner%3Dhelm") == ""
    assert asked("namespaces/shop/secrets/sh.helm.release.v1.x.v1") == ""
    assert "Table" in asked("namespaces/shop/secrets/db")


# A cluster


class ClusterApi(BaseHTTPRequestHandler):
    """As much of an API server as `kubectl` needs to find one kind of object and secrets."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[tuple[str, str, str, str]]] = []

    def do_GET(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(size)
        path, authority = self.path.partition("?")[0], self.headers.get("Authorization", "")
        self.asked.append((self.command, self.path, authority, self.headers.get("Accept", "")))
        known = self._answer(path.removesuffix("/"))
        body = json.dumps(known or {"kind": "Status", "code": 404}).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_GET  # noqa: N815 - by the method

    def _answer(self, path: str) -> dict[str, Any] | None:
        verbs = ["get", "list", "watch", "delete", "create", "patch"]
        kinds = {"pods": "Pod", "secrets": "Secret"}
        name = path.rpartition("/")[2]
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            return {"kind": "APIGroupList", "groups": []}
        if path == "/api/v1":
            found = [
                {"name": name, "namespaced": True, "kind": kind, "verbs": verbs}
                for name, kind in kinds.items()
            ]
            return {"kind": "APIResourceList", "groupVersion": "v1", "resources": found}
        if name.endswith("reviews"):
            version = "authorization.k8s.io/v1"
            kind = "SelfSubjectAccessReview"
            return {"kind": kind, "apiVersion": version, "status": {"allowed": True}}
        if name in kinds:
            item = {"metadata": {"name": "one", "namespace": "shop"}, "apiVersion": "v1"}
            return {
                "kind": f"{kinds[name]}List", "apiVersion": "v1",
                "items": [{**item, "kind": kinds[name]}],
            }  # fmt: skip
        if path.endswith("/pods/one"):
            meta = {"name": "one", "namespace": "shop"}
            return {"kind": "Pod", "apiVersion": "v1", "metadata": meta}
        return None

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig with two contexts, of which the second is the current one."""
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    pair = tmp_path / "cert", tmp_path / "key"
    files = ["-out", str(pair[0]), "-keyout", str(pair[1]), "-subj", "/CN=localhost"]
    subprocess.run([*words, *files], check=True, capture_output=True)
    ClusterApi.asked.clear()
    with QuickHTTPServer(("127.0.0.1", 0), ClusterApi) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        address = f"https://127.0.0.1:{server.server_port}"
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "live",
            "clusters": [{"name": "c", "cluster": {
                "server": address, "insecure-skip-tls-verify": True,
            }}],
            "contexts": [
                {"name": name, "context": {"cluster": "c", "user": name, "namespace": "shop"}}
                for name in ("test", "live")
            ],
            "users": [{"name": name, "user": {"token": f"of-{name}"}} for name in ("test", "live")],
        }  # fmt: skip
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield path
        server.shutdown()
        thread.join()


@pytest_asyncio.fixture
async def clustered(tmp_path: Path, cluster: Path) -> AsyncIterator[Deceived]:
    made = Deceived(tmp_path, KUBECONFIG=str(cluster))
    yield made
    await made.terminal.destroy()


async def test_a_look_at_a_cluster_passes_as_the_user(clustered: Deceived, cluster: Path) -> None:
    told = await clustered.look(
        "kubectl get pods -o name; kubectl --context test get pods -o name;"
        f"kubectl --kubeconfig {cluster} get pods -o name; kubectl config current-context;"
        "kubectl auth can-i delete pods;"
        "kubectl --context test get --raw /api/v1/namespaces/shop/pods?a=b;"
        "kubectl --token other --user test get pods -o name -- ",
        "kubectl",
    )
    assert told.stdout.split()[:5] == ["pod/one", "pod/one", "pod/one", "live", "yes"], told.stderr
    tokens = [token for _, path, token, _ in ClusterApi.asked if "/pods?" in path]
    expected = ["of-live", "of-test", "of-live", "of-test", "other"]
    assert tokens == [f"Bearer {token}" for token in expected]
    assert {made[2] for made in clustered.outside.made} == {"kubernetes"}


async def test_a_broken_kubeconfig_is_said_to_be_broken(clustered: Deceived) -> None:
    (clustered.place.workspace / "broken").write_text("{")
    told = await clustered.look("kubectl --kubeconfig broken get pods")
    assert "error loading config file" in told.stderr


async def test_no_change_of_a_cluster_gets_through(clustered: Deceived, cluster: Path) -> None:
    harm = [
        "kubectl delete pod one", "kubectl delete pods --all", "kubectl label pod one a=b",
        f"kubectl --kubeconfig={cluster} --context=test delete pod one --wait=false",
        "kubectl exec one -- ", "kubectl attach one", "kubectl port-forward one 1:1",
        "kubectl create -f - <<< '{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}'",
        "kubectl get --raw /api/v1/namespaces/shop/services/x/proxy/",
    ]  # fmt: skip
    for command in harm:
        told = await clustered.look(command)
        assert told.code != 0, command
    assert {method for method, *_ in ClusterApi.asked} == {"GET"}
    assert not [path for _, path, *_ in ClusterApi.asked if "proxy" in path or "attach" in path]


async def test_what_is_in_secrets_is_not_sent(clustered: Deceived) -> None:
    told = await clustered.look("kubectl get secrets -o yaml")
    accepted = [one[3] for one in ClusterApi.asked if "/secrets" in one[1]]
    assert accepted
    assert all("as=Table" in one for one in accepted)
    assert "it would show the contents of secrets" in told.stderr, "though it was no table"


KUBECTL = """#!/bin/sh
[ "$1" != get ] && (echo "$1 $$" >>{log})
exec /usr/bin/kubectl "$@"
"""


async def test_a_front_is_kept_for_the_next_call(
    tmp_path: Path, cluster: Path, programs: Path
) -> None:
    log = tmp_path / "log"
    (programs / "kubectl").write_text(KUBECTL.format(log=log))
    (programs / "kubectl").chmod(0o755)
    made = Deceived(tmp_path, KUBECONFIG=str(cluster), PATH=f"{programs}:{os.environ['PATH']}")

    async def started() -> list[str]:
        told = await made.look("kubectl get pods -o name; kubectl get pods -o name", "kubectl")
        assert told.stdout == "pod/one\npod/one\n", told.stderr
        return [line.split()[0] for line in log.read_text().splitlines()]

    async def ended(number: str) -> None:
        while Path("/proc", number).exists():
            await asyncio.sleep(0.01)

    assert await started() == ["config", "proxy"]
    proxy = log.read_text().split()[-1]
    os.kill(int(proxy), signal.SIGKILL)
    await ended(proxy)
    assert await started() == ["config", "proxy", "proxy"], "it was gone"
    os.utime(cluster)
    assert await started() == ["config", "proxy", "proxy", "config", "proxy"], "it had changed"
    await made.terminal.destroy()
    for line in log.read_text().splitlines():
        assert not Path("/proc", line.split()[1]).exists(), line


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_front_that_nobody_uses_ends(tmp_path: Path, cluster: Path, stopped: bool) -> None:
    fronts = kubernetes_front.KubernetesFronts(1000 if stopped else 0)
    here = os.open(tmp_path, os.O_PATH)
    use = fronts.use(("kubectl",), here, "/", {**os.environ, "KUBECONFIG": str(cluster)})
    with suppress(InterruptedError):
        async with use as front:
            await front.kubeconfig()
            request = parse_head(b"GET /api HTTP/1.1\r\nHost: 127.0.0.1:8001\r\n\r\n")
            _, writer = await front.connect(request)
            writer.close()
            if stopped:
                raise InterruptedError
    assert front.idle is not None
    await front.idle
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_unix_connection(
            f"/proc/self/fd/{here}/{next(tmp_path.glob('api*')).name}"
        )
    os.close(here)


# The others


async def test_services_are_asked_as_nobody(tmp_path: Path, programs: Path) -> None:
    (programs / "systemctl").write_text(
        "#!/bin/sh\nid; grep -E 'Cap|NoNew' /proc/self/status; echo $*\n"
    )
    (programs / "systemctl").chmod(0o755)
    made = Deceived(tmp_path, PATH=f"{programs}:{os.environ['PATH']}")
    told = await made.look("systemctl stop web")
    assert told.stdout.startswith("uid=65534(nobody) gid=65534(nogroup)"), told.stderr
    assert "root" not in told.stdout.splitlines()[0]
    assert told.stdout.splitlines()[1:] == [
        *(f"Cap{kind}:\t0000000000000000" for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")),
        "NoNewPrivs:\t1", "--no-ask-password stop web",
    ]  # fmt: skip
    await made.terminal.destroy()


async def test_a_program_of_the_network_writes_no_file(tmp_path: Path) -> None:
    made = Deceived(tmp_path)
    (made.place.workspace / "page").write_text("a page")
    told = await made.look(
        "curl -s file://$PWD/page; curl -s -o $PWD/harm file://$PWD/page; echo $?;"
        "curl -s --unix-socket /run/docker.sock http://x/; echo $?; ls;"
        f"curl -s file://{made.place.spool}/private/in; echo $?", "curl",
    )  # fmt: skip
    assert told.stdout == "a page23\n7\npage\n37\n"
    await made.terminal.destroy()


async def test_a_session_of_a_database_is_read_only(tmp_path: Path, programs: Path) -> None:
    (programs / "psql").write_text('#!/bin/sh\necho "$PGOPTIONS"\n')
    (programs / "psql").chmod(0o755)
    made = Deceived(tmp_path, PATH=f"{programs}:{os.environ['PATH']}")
    told = await made.look("PGOPTIONS='-c work_mem=1MB' psql -c 'select 1'", "psql")
    assert told.stdout == "-c work_mem=1MB -c default_transaction_read_only=on\n"
    await made.terminal.destroy()
