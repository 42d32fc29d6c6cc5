"""The fronts before what they stand in front of: a real API server, and a real Podman."""

import asyncio
import base64
import json
import os
import socket
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.terminals.local.fronts.http import FilterServer
from hermes_agent.terminals.local.fronts.kubernetes import KubernetesFront, only_shows
from tests.support.cluster import NODE, cluster
from tests.support.dockerd import asked
from tests.support.fronts import Deceived
from tests.support.images import IMAGE
from tests.support.podman import podman_engine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

PASSWORD = "correct-horse-battery"
ENCODED = base64.b64encode(PASSWORD.encode()).decode().rstrip("=")[:-1]


def container(image: str) -> dict[str, Any]:
    beat = ["sh", "-c", "while :; do echo begun; sleep 0.2; done"]
    return {"name": "c", "image": image, "imagePullPolicy": "Never", "command": beat}


def objects(shop: str) -> list[dict[str, Any]]:
    meta = {"name": "one", "namespace": shop}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container(IMAGE)]}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": shop}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"p": PASSWORD}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {
            "nodeName": NODE, "hostNetwork": True, "containers": [container(IMAGE)],
        }},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {
            "selector": {"matchLabels": {"a": "b"}}, "template": template,
        }},
    ]  # fmt: skip


class Shop:
    """A namespace with one of each, in the hands of the administrator."""

    def __init__(self) -> None:
        self.name = f"shop-{uuid.uuid4().hex[:8]}"
        self.config = cluster() / "admin"
        made = {"apiVersion": "v1", "kind": "List", "items": objects(self.name)}
        self.ask("apply", "-f", "-", given=json.dumps(made))
        self.ask("wait", "--for=condition=Ready", "pod/one", "--timeout=120s")
        self.changes = self.changed()

    def ask(self, *words: str, given: str = "") -> str:
        command = ["kubectl", f"--kubeconfig={self.config}", "-n", self.name, *words]
        return subprocess.run(
            command, input=given, capture_output=True, text=True, check=True
        ).stdout

    def changed(self) -> int:
        """As the API server has written down."""
        lines = (cluster() / "audit.log").read_text().splitlines()
        return sum(self.name in line for line in lines)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def clustered(tmp_path: Path, shop: Shop) -> AsyncIterator[Deceived]:
    made = Deceived(tmp_path, KUBECONFIG=str(shop.config))
    yield made
    await made.terminal.destroy()


async def test_looks_at_a_cluster_end_as_without_a_front(clustered: Deceived, shop: Shop) -> None:
    looks = [
        "get pods -o name", "get pod one -o jsonpath={.status.phase}", "get all", "get pods -A",
        "describe pod one", "logs one --limit-bytes=12", "logs none", "get secrets",
        "get secret one", "get secret none", "get secrets --show-labels --sort-by=.metadata.name",
        "describe secret one", "auth can-i delete pods", "auth can-i list pods --as=stranger",
        "auth can-i --list", "--token stranger-token get pods", "--user=none get pods",
        "top pods", "get --raw /version", "get --raw /api/v1", "api-resources",
        "explain pods.spec", "version", "rollout history deployment one",
        "wait --for=condition=Ready pod/one", "scale deployment one --replicas=3 --dry-run=server",
        "label pod one x=y --dry-run=server", "create configmap x --dry-run=server",
        "config get-contexts", "exec one -- echo in",
    ]  # fmt: skip
    for look in looks:
        words = [f"--namespace={shop.name}", *look.split()]
        plain = await asyncio.create_subprocess_exec(
            "kubectl", *words, env={**os.environ, "KUBECONFIG": str(shop.config)},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        out, _ = await plain.communicate()
        told = await clustered.look(f"kubectl {' '.join(words)}")
        assert told.code == plain.returncode, (look, told.stderr)
        differs = {*told.stdout.split()} ^ {*out.decode().split()}
        assert all(word[:1].isdigit() for word in differs), look  # ages
    assert {made[2] for made in clustered.outside.made} == {"kubernetes"}


async def test_what_goes_on_in_a_cluster_is_watched(clustered: Deceived, shop: Shop) -> None:
    told = await clustered.look(
        f"kubectl -n {shop.name} logs -f one | head -2;"
        f"kubectl -n {shop.name} get pods -w -o name --request-timeout=2s;"
        f"kubectl -n {shop.name} get secrets -w --no-headers --request-timeout=2s | cut -d' ' -f1;"
        f"echo in | kubectl -n {shop.name} exec -i one -- cat", "kubectl",
    )  # fmt: skip
    assert told.stdout == "begun\nbegun\npod/one\none\nin\n", told.stderr


async def test_no_change_of_a_real_cluster_gets_through(clustered: Deceived, shop: Shop) -> None:
    (clustered.place.workspace / "pod.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "two"}, "spec": {
            "containers": [container(IMAGE)],
        }})
    )  # fmt: skip
    harm = [
        "delete pod one --wait=false", "create configmap two", "run two --image=x",
        "apply -f pod.json", "apply --server-side -f pod.json", "label pod one a=b",
        "patch deployment one -p '{\"spec\":{\"replicas\":9}}'",
        "scale deployment one --replicas=9", "rollout restart deployment one",
        "attach one", "port-forward one :80", "cp one:/etc/passwd two", "cp pod.json one:/tmp/x",
        "debug one --image=x", "drain 127.0.0.1 --force", "create token one",
        "expose deployment one --port=80", "taint node 127.0.0.1 a=b:NoSchedule",
        "create rolebinding two --clusterrole=admin --user=stranger", "get pods --as=stranger",
        "get --raw /api/v1/nodes/127.0.0.1/proxy/pods", "delete pod one --dry-run=server",
        "patch secret one -p '{}' --dry-run=server -o yaml",
    ]  # fmt: skip
    for command in harm:
        told = await clustered.look(f"kubectl -n {shop.name} {command}")
        assert told.code != 0, command
        assert "hermes: " in told.stderr, (command, told.stderr)
    edited = await clustered.look(
        f"EDITOR='sed -i s/replicas:.1/replicas:9/' kubectl -n {shop.name} edit deployment one"
    )
    assert edited.code != 0
    assert shop.changed() == shop.changes


# A program that says one thing and asks another

FIELDS = "Host: 127.0.0.1:8001\r\n"
EMPTY = "Content-Length: 0\r\n"
UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
RUN = "exec?command=cat&command=/etc/passwd&stdout=true"
LIES = {
    "delete": ("DELETE", "{ns}/pods/one", EMPTY),
    "delete-tried": ("DELETE", "{ns}/pods/one?dryRun=All", EMPTY),
    "token": ("POST", "{ns}/serviceaccounts/one/token", EMPTY),
    "token-tried": ("POST", "{ns}/serviceaccounts/one/token?dryRun=All", EMPTY),
    "eviction": ("POST", "{ns}/pods/one/eviction", EMPTY),
    "binding": ("POST", "{ns}/pods/one/binding", EMPTY),
    "exec": ("GET", "{ns}/pods/one/" + RUN, UPGRADE),
    "exec-posted": ("POST", "{ns}/pods/one/" + RUN, EMPTY),
    "attach": ("GET", "{ns}/pods/one/attach?stdout=true", UPGRADE),
    "upgraded": ("GET", "{ns}/pods/one", UPGRADE),
    "http-2-upgrade": ("GET", "{ns}/pods/one", "Connection: Upgrade\r\nUpgrade: h2c\r\n"),
    "service": ("GET", "{ns}/services/one/proxy/", ""),
    "pod-port": ("GET", "{ns}/pods/http:one:80/proxy/x", ""),
    "kubelet": ("GET", "/api/v1/nodes/127.0.0.1/proxy/pods", ""),
    "kubelet-port": ("GET", "/api/v1/nodes/127.0.0.1:10250/proxy/run/x/one/c?cmd=id", ""),
    "dots": ("GET", "{ns}/pods/../services/one/proxy/", ""),
    "encoded-dots": ("GET", "{ns}/pods/%2e%2e/services/one/proxy/", ""),
    "slashes": ("GET", "/api/v1//nodes/127.0.0.1/proxy/pods", ""),
    "encoded-slash": ("GET", "/api/v1/nodes/127.0.0.1%2fproxy/pods", ""),
    "absolute": ("GET", "http://127.0.0.1{ns}/pods", ""),
    "two-lengths": ("GET", "{ns}/pods", "Content-Length: 0\r\nContent-Length: 7\r\n"),
    "chunks": ("GET", "{ns}/pods", "Transfer-Encoding: chunked\r\n"),
    "somebody-else": ("GET", "{ns}/pods", "Impersonate-User: stranger\r\n"),
    "log-level": ("PUT", "/debug/flags/v?dryRun=All", EMPTY),
    "profile": ("GET", "/debug/pprof/heap", ""),
    "secret-patched": ("PATCH", "{ns}/secrets/one?dryRun=All", EMPTY),
    "another-server": ("GET", "{ns}/pods", "X: y\r\n"),
}
SECRETS = [
    "{ns}/secrets", "{ns}/secrets/one", "/api/v1/secrets", "{ns}/secrets/?includeObject=Object",
    "{ns}/secrets/one?includeObject=Object", "{ns}/secrets?pretty=true",
    "{ns}/secrets?watch=1&timeoutSeconds=1&includeObject=Object",
    "{ns}/secrets/one?dryRun=All&export=true",
    "/api/v1/watch{rest}/secrets?timeoutSeconds=1", "{ns}/secrets%2fone",
]  # fmt: skip
ACCEPTED = [
    "application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;stream=watch",
]  # fmt: skip


class Liar:
    """Asks a front without a program in between."""

    def __init__(self, shop: Shop, folder: Path, words: tuple[str, ...]) -> None:
        self._shop = shop
        self._file = os.open(folder, os.O_PATH)
        command = ("kubectl", f"--kubeconfig={shop.config}")
        self._front = KubernetesFront(command, self._file, str(folder), {**os.environ})
        self._server = FilterServer(
            lambda request: only_shows(request, "kubectl", words), self._front.connect
        )

    async def open(self) -> None:
        await self._front.kubeconfig()
        made = socket.create_server(("127.0.0.1", 0))
        self._address = made.getsockname()
        await self._server.listen(made)

    async def ask(self, method: str, target: str, fields: str, host: str = FIELDS) -> bytes:
        rest = f"/namespaces/{self._shop.name}"
        target = target.replace("{ns}", f"/api/v1{rest}").replace("{rest}", rest)
        reader, writer = await asyncio.open_connection(*self._address)
        writer.write(f"{method} {target} HTTP/1.1\r\n{host}{fields}\r\n".encode())
        said = await reader.read()
        writer.close()
        return said

    async def close(self) -> None:
        await self._server.close()
        await self._front.close()
        os.close(self._file)


@pytest.fixture
async def liar(tmp_path: Path, shop: Shop) -> AsyncIterator[Liar]:
    made = Liar(shop, tmp_path, ("get", "pods"))
    await made.open()
    yield made
    await made.close()


async def test_a_front_refuses_what_nobody_judged(liar: Liar, shop: Shop) -> None:
    assert b'"PodList"' in await liar.ask("GET", "{ns}/pods", "")
    for name, (method, target, fields) in LIES.items():
        host = FIELDS if name != "another-server" else "Host: 127.0.0.2:8001\r\n"
        said = await liar.ask(method, target, fields, host)
        assert said[:10] == b"HTTP/1.1 4", name
        assert b"hermes: " in said, (name, said)
    assert shop.changed() == shop.changes


async def test_no_way_to_ask_shows_what_is_in_a_secret(liar: Liar) -> None:
    shown = 0
    for target in SECRETS:
        for accepted in ACCEPTED:
            said = await liar.ask("GET", target, f"Accept: {accepted}\r\n")
            assert ENCODED.encode() not in said, (target, accepted)
            assert PASSWORD.encode() not in said, (target, accepted)
            shown += b'"one"' in said
    assert shown > len(SECRETS), "it asked for nothing that is there"


# Podman


@pytest.fixture
async def podman(tmp_path: Path) -> AsyncIterator[Deceived]:
    made = Deceived(tmp_path, CONTAINER_HOST=podman_engine(), DOCKER_HOST=podman_engine())
    yield made
    await made.terminal.destroy()


@pytest.fixture
def beating() -> Iterator[str]:
    with asked(podman_engine()) as client:
        made = client.containers.run(
            IMAGE, container(IMAGE)["command"], detach=True, network_mode="none"
        )
        yield str(made.short_id)
        assert client.containers.get(made.short_id).status == "running"
        assert client.volumes.list() == []
        made.remove(force=True)


async def test_looks_at_podman_pass(podman: Deceived, beating: str) -> None:
    for program in ("podman", "docker"):
        told = await podman.look(
            f"{program} ps -q | grep {beating}; {program} logs --tail 1 {beating};"
            f"{program} logs -f {beating} | head -1; {program} inspect -f in {IMAGE};"
            f"{program} exec {beating} echo in; echo in | {program} exec -i {beating} cat;"
            f"{program} exec {beating} sh -c 'exit 3'; echo $?;"
            f"{{ {program} version; {program} info; {program} images; {program} top {beating};"
            f"{program} stats --no-stream {beating}; {program} diff {beating};"
            f"{program} system df; {program} volume ls; {program} network ls;"
            f"{program} events --since 1h --until 0s; }} >/dev/null", program,
        )  # fmt: skip
        assert told.stdout.startswith(beating), told.stderr
        assert told.stdout.split()[1:] == ["begun", "begun", "in", "in", "in", "3"], told.stderr
        assert told.code == 0, told.stderr
    assert {made[2] for made in podman.outside.made} == {"engine"}


async def test_no_change_gets_through_to_podman(podman: Deceived, beating: str) -> None:
    harm = [
        f"rm -f {beating}", f"stop {beating}", f"kill {beating}", f"attach {beating}",
        f"cp {beating}:/etc/passwd harm", f"export {beating}", f"commit {beating} harm",
        f"run --rm {IMAGE} true", "volume create harm", "system prune -af", f"mount {beating}",
        f"exec --privileged {beating} true", f"healthcheck run {beating}", f"tag {IMAGE} harm",
        f"rename {beating} harm", f"update --memory=1m {beating}", "build .",
    ]  # fmt: skip
    for command in harm:
        told = await podman.look(f"podman {command}")
        assert told.code != 0, command
    assert not (podman.place.workspace / "harm").exists()
