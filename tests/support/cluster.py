"""A real Kubernetes cluster of one node on this machine: etcd, an API server and a kubelet with a
Docker engine of its own. It starts when a test first wants it and is shared by all test processes.

Run as a module this file is what keeps the servers, in namespaces of their own."""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import docker
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hermes_agent.core.settings.terminals import KubernetesPlace
from hermes_agent.terminals.kubernetes import transport as kubernetes
from hermes_agent.terminals.transport import Transport
from tests.support.apptainer import cached
from tests.support.daemons import check_root, folder_of, hold
from tests.support.images import IMAGE, program, small_root
from tests.support.transports import Way

NAME = "cluster"
NODE = "127.0.0.1"
PAUSE = "localhost/hermes-pause:1"
IDLE = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"
START_SECONDS = 240
TOKENS = {
    "admin": "system:masters",
    "ann": "system:masters",
    "bob": "system:masters",
    "stranger": "",
}
AUDIT = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "resources": [{"group": ""}, {"group": "coordination.k8s.io"}],
         "namespaces": ["", "kube-node-lease", "kube-system", "default"]},
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"]},
    ],
}  # fmt: skip
"""Whoever changes something is written down; what the node says of itself all the time is not."""
RUNC = """#!/bin/sh
# Containers may not be dearer to the kernel than we are: that takes a capability we may lack.
for word; do
    [ "$last" = --bundle ] && sed -i 's/"oomScoreAdj":-*[0-9]*/"oomScoreAdj":0/' "$word/config.json"
    last=$word
done
exec runc "$@"
"""


@cache
def cluster() -> Path:
    """A folder with the kubeconfigs `admin`, `ann`, `bob`, and `stranger`, who may do nothing."""
    check_root("kubelet")
    cached("kubernetes/kubelet")
    folder = folder_of(NAME)
    root = Path(__file__).parents[2]
    command = [
        "docker-init", "-s", "--", "env", "-C", str(root),
        sys.executable, "-m", "tests.support.cluster", str(folder),
    ]  # fmt: skip
    hold(NAME, command, folder / "here")
    deadline = time.monotonic() + START_SECONDS
    while not (folder / "ready").exists():
        late = time.monotonic() > deadline
        if late or (folder / "failed").exists():
            logs = [path.read_text(errors="replace")[-800:] for path in folder.glob("*log")]
            raise AssertionError("the cluster does not start:\n" + "\n".join(logs))
        time.sleep(0.1)
    return folder


def place(**changes: Any) -> KubernetesPlace:
    """A pod of the small image on the one node."""
    manifest = {
        "nodeName": NODE,  # nobody schedules here
        "hostNetwork": True,  # nor gives out addresses
        "containers": [{"name": "hermes", "imagePullPolicy": "Never"}],
    }
    kubeconfig = str(cluster() / "admin")
    return KubernetesPlace(**{
        "image": IMAGE, "kubeconfig": kubeconfig, "manifest": manifest, **changes,
    })  # fmt: skip


@contextlib.asynccontextmanager
async def kubernetes_way(folder: Path) -> AsyncIterator[Way]:
    """A pod of a session of its own."""
    session = uuid.uuid4().hex
    made: list[Transport] = []

    def again() -> Transport:
        made.append(
            kubernetes.transport(place(), session=session, workspace="", folder=folder, environ={})
        )
        return made[-1]

    try:
        yield Way(again(), again, "/workspace")
    finally:
        for transport in made:
            await transport.destroy()


class Servers:
    """The programs of the cluster, each with a log in the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.etcd, self.peer, self.api, self.node = free_ports(4)

    def start(self, name: str, words: Sequence[str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def wait(self, what: str, is_so: Callable[[], bool]) -> None:
        while not is_so():
            for name, process in self.running.items():
                assert process.poll() is None, f"{name} has ended before {what}"
            time.sleep(0.2)

    def stop(self) -> None:
        for process in reversed(self.running.values()):
            process.terminate()
        for process in self.running.values():
            process.wait()

    def start_store(self) -> None:
        us = f"http://127.0.0.1:{self.etcd}"
        self.start("etcd", [
            "etcd", "--data-dir", "etcd", "--unsafe-no-fsync",
            "--listen-client-urls", us, "--advertise-client-urls", us,
            "--listen-peer-urls", f"http://127.0.0.1:{self.peer}",
        ])  # fmt: skip

    def start_engine(self) -> None:
        runc = self.folder / "runc"
        runc.write_text(RUNC)
        runc.chmod(0o755)
        self.start("dockerd", [
            "dockerd", "-H", f"unix://{self.folder}/docker.sock",
            "--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/exec",
            "-p", f"{self.folder}/docker.pid", "--bridge=none", "--iptables=false",
            "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
            "--add-runtime", f"plain={runc}", "--default-runtime", "plain",
        ])  # fmt: skip

    def start_api(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        (self.folder / "sa.key").write_bytes(pem)
        lines = [f"{name}-token,{name},{name},{group}" for name, group in TOKENS.items()]
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")
        (self.folder / "audit.yaml").write_text(yaml.safe_dump(AUDIT))
        self.start("apiserver", [
            str(cached("kubernetes/kube-apiserver")),
            f"--etcd-servers=http://127.0.0.1:{self.etcd}", f"--secure-port={self.api}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--insecure-port=0",
            "--cert-dir=certs", "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=sa.key", "--service-account-signing-key-file=sa.key",
            "--token-auth-file=tokens.csv", "--authorization-mode=RBAC",
            "--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount",
            "--kubelet-preferred-address-types=InternalIP,Hostname",
            "--audit-policy-file=audit.yaml", "--audit-log-path=audit.log",
        ])  # fmt: skip
        for name in TOKENS:
            self.write_config(name)

    def write_config(self, name: str) -> None:
        server = {
            "server": f"https://127.0.0.1:{self.api}",
            "certificate-authority": f"{self.folder}/certs/apiserver.crt",
        }
        described = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": name, "user": {"token": f"{name}-token"}}],
        }
        (self.folder / name).write_text(yaml.safe_dump(described))

    def start_node(self) -> None:
        self.start("kubelet", [
            str(cached("kubernetes/kubelet")),
            f"--kubeconfig={self.folder}/admin", f"--root-dir={self.folder}/kubelet",
            f"--port={self.node}", f"--address={NODE}", f"--hostname-override={NODE}",
            "--container-runtime=docker", f"--docker-endpoint=unix://{self.folder}/docker.sock",
            f"--experimental-dockershim-root-directory={self.folder}/dockershim",
            f"--pod-infra-container-image={PAUSE}", "--cgroups-per-qos=false",
            "--enforce-node-allocatable=", "--fail-swap-on=false", "--oom-score-adj=0",
            "--make-iptables-util-chains=false", "--authorization-mode=AlwaysAllow",
            "--anonymous-auth=true", "--eviction-hard=", "--image-gc-high-threshold=100",
            "--read-only-port=0", "--healthz-port=0", f"--cert-dir={self.folder}/kubelet-certs",
        ])  # fmt: skip

    def bring_images(self) -> None:
        engine = docker.DockerClient(base_url=f"unix://{self.folder}/docker.sock")
        sleeping = f"ENTRYPOINT {json.dumps(['sh', '-c', IDLE])}"
        for image, more in ((IMAGE, []), (PAUSE, [sleeping])):
            repository, _, tag = image.rpartition(":")
            engine.api.import_image_from_data(
                small_root(), repository=repository, tag=tag,
                changes=["ENV PATH=/bin:/usr/bin", *more],
            )  # fmt: skip
        engine.close()

    def asked(self, path: str) -> Any:
        """What the API server answers to the administrator, or None."""
        certificate = self.folder / "certs/apiserver.crt"
        if not certificate.exists():
            return None
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.api}{path}", headers={"Authorization": "Bearer admin-token"}
        )
        trusted = ssl.create_default_context(cafile=certificate)
        try:
            with urllib.request.urlopen(request, context=trusted, timeout=5) as answer:
                text = answer.read().decode()
        except (urllib.error.URLError, OSError):
            return None
        return json.loads(text) if text.startswith("{") else text

    def node_is_ready(self) -> bool:
        node = self.asked(f"/api/v1/nodes/{NODE}") or {}
        conditions = node.get("status", {}).get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def keep(folder: Path) -> None:
    """Start the servers and stay until told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    here = socket.socket(socket.AF_UNIX)
    here.bind(str(folder / "here"))
    here.listen()
    program("etcd", "etcd-server")
    servers = Servers(folder)
    try:
        servers.start_store()
        servers.start_engine()
        servers.start_api()
        servers.wait("dockerd answers", (folder / "docker.sock").exists)
        servers.bring_images()
        servers.wait("the API server is ready", lambda: servers.asked("/readyz") == "ok")
        servers.start_node()
        servers.wait("the node is ready", servers.node_is_ready)
        (folder / "ready").touch()
        servers.wait("anybody told them to", lambda: False)
    except AssertionError as error:
        print(error, file=sys.stderr)
        (folder / "failed").touch()
        signal.pause()
    finally:
        servers.stop()
        here.close()


if __name__ == "__main__":
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
    keep(Path(sys.argv[1]))
