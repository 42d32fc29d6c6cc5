"""A shop in a cluster with much that is wrong: made in the real one, and recorded from it.

Run as a module this file records what the real API server says of it."""

import json
import ssl
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support.cluster import NODE, cluster
from tests.support.images import IMAGE
from tests.support.recorded_wire import key_of

SPACE = "shop"
RECORDING = Path(__file__).parent / "wires" / "shop_cluster.json"
PATIENCE = 120.0


def stamp(minutes: float) -> str:
    return f"{datetime.now(UTC) - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"


def pod(name: str, labels: Mapping[str, str], *, node: str = NODE, **container: Any) -> Any:
    shape = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", **container}
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 0, "containers": [shape]}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": dict(labels)},
        "spec": {**spec, **({"nodeName": node} if node else {})},
    }  # fmt: skip


def template(image: str, pool: str) -> Any:
    env = [
        {"name": "POOL_SIZE", "value": pool},
        {"name": "DB_PASSWORD", "value": f"hunter-{pool}"},
        {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "web-config", "key": "mode"}}},
    ]
    labels = {"app": "web"}
    spec = {"containers": [{"name": "main", "image": image, "env": env}]}
    return {"metadata": {"labels": labels}, "spec": spec}


class Shop:
    """Makes it, object by object, as an administrator."""

    def __init__(self) -> None:
        config = yaml.safe_load((cluster() / "admin").read_text())
        server = config["clusters"][0]["cluster"]
        trusted = ssl.create_default_context(cafile=server["certificate-authority"])
        self.client = httpx.Client(
            base_url=server["server"], verify=trusted, timeout=30,
            headers={"Authorization": f"Bearer {config['users'][0]['user']['token']}"},
        )  # fmt: skip

    def post(self, path: str, body: Any) -> Any:
        answer = self.client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def made(self, group: str, plural: str, body: Any, status: Any = None) -> Any:
        path = f"/{group}/namespaces/{SPACE}/{plural}"
        one = self.post(path, body)
        if status is not None:
            answer = self.client.patch(
                f"{path}/{one['metadata']['name']}/status", json={"status": status},
                headers={"Content-Type": "application/merge-patch+json"},
            )  # fmt: skip
            assert answer.is_success, answer.text
        return one

    def event(self, about: Any, reason: str, message: str, kind: str = "Warning") -> None:
        data = about["metadata"]
        name = f"{data['name']}.{reason.lower()}"
        self.made("api/v1", "events", {
            "metadata": {"name": name}, "type": kind, "reason": reason, "message": message,
            "count": 7, "firstTimestamp": stamp(20), "lastTimestamp": stamp(1),
            "source": {"component": "scheduler"},
            "involvedObject": {
                "kind": about["kind"], "name": data["name"], "namespace": SPACE, "uid": data["uid"],
            },
        })  # fmt: skip

    def build(self) -> None:
        self.post("/api/v1/namespaces", {"metadata": {"name": SPACE}})
        self.build_pods()
        self.build_web()
        self.made(
            "api/v1", "secrets", {"metadata": {"name": "db"}, "stringData": {"url": "hunter2"}}
        )
        settings = {
            "mode": "fast",
            "api_token": "hunter3",
            "app.ini": "size = 1\npassword = hunter4\n",
        }
        self.made("api/v1", "configmaps", {"metadata": {"name": "web-config"}, "data": settings})
        ports = [{"port": 80, "targetPort": 8080}]
        spec = {"selector": {"app": "carts", "tier": "front"}, "ports": ports}
        self.made("api/v1", "services", {"metadata": {"name": "cart"}, "spec": spec})
        paths = [
            {"path": path, "pathType": "Prefix",
             "backend": {"service": {"name": name, "port": {"number": port}}}}
            for path, name, port in (("/pay", "payments", 80), ("/cart", "cart", 8080))
        ]  # fmt: skip
        self.made("apis/networking.k8s.io/v1", "ingresses", {
            "metadata": {"name": "shop"},
            "spec": {"rules": [{"host": "shop.example", "http": {"paths": paths}}]},
        })  # fmt: skip
        claim = self.made("api/v1", "persistentvolumeclaims", {
            "metadata": {"name": "orders"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast-ssd",
                     "resources": {"requests": {"storage": "5Gi"}}},
        })  # fmt: skip
        self.event(claim, "ProvisioningFailed", 'storageclass.storage.k8s.io "fast-ssd" not found')

    def build_pods(self) -> None:
        crash = "echo starting; echo 'panic: cannot reach db:5432'; exit 3"
        shell = {"command": ["/bin/sh", "-c", crash]}
        self.made("api/v1", "pods", pod("checkout-0", {"app": "checkout"}, **shell))
        self.made(
            "api/v1", "pods", pod("search-0", {"app": "search"}, image="shop/search:2.0-typo")
        )
        full = self.made("api/v1", "pods", pod("report-0", {"app": "report"}, node=""), {
            "phase": "Pending", "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/3 nodes are available: 3 Insufficient memory.",
            }],
        })  # fmt: skip
        self.event(full, "FailedScheduling", "0/3 nodes are available: 3 Insufficient memory.")
        ended = {
            "exitCode": 137,
            "reason": "OOMKilled",
            "startedAt": stamp(9),
            "finishedAt": stamp(3),
        }
        limits = {"resources": {"limits": {"memory": "64Mi"}, "requests": {"memory": "64Mi"}}}
        waiting = {
            "reason": "CrashLoopBackOff",
            "message": "back-off 5m0s restarting failed container",
        }
        cart = pod("cart-0", {"app": "cart", "tier": "front"}, node="", **limits)
        self.made("api/v1", "pods", cart, {
            "phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{
                "name": "main", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 6,
                "state": {"waiting": waiting}, "lastState": {"terminated": ended},
            }],
        })  # fmt: skip

    def build_web(self) -> None:
        selector = {"matchLabels": {"app": "web"}}
        spec = {"replicas": 2, "selector": selector, "template": template("shop/web:1.5", "5")}
        condition = {
            "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
            "message": 'ReplicaSet "web-2" has timed out progressing.',
        }  # fmt: skip
        web = self.made(
            "apis/apps/v1", "deployments", {"metadata": {"name": "web"}, "spec": spec},
            {"replicas": 2, "readyReplicas": 1, "conditions": [condition]},
        )  # fmt: skip
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True,
                 "uid": web["metadata"]["uid"]}  # fmt: skip
        for number, image, pool in ((1, "shop/web:1.4", "50"), (2, "shop/web:1.5", "5")):
            key = {"app": "web", "pod-template-hash": str(number)}
            whole = template(image, pool)
            whole["metadata"]["labels"] = key
            notes = {"deployment.kubernetes.io/revision": str(number)}
            self.made("apis/apps/v1", "replicasets", {
                "metadata": {"name": f"web-{number}", "annotations": notes, "labels": key,
                             "ownerReferences": [owner]},
                "spec": {"replicas": number - 1, "template": whole,
                         "selector": {"matchLabels": key}},
            })  # fmt: skip

    def wait(self, what: str, is_so: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < deadline, what
            time.sleep(0.2)

    def settled(self) -> bool:
        """The kubelet has come to its conclusions about the pods that it runs."""
        found = self.client.get(f"/api/v1/namespaces/{SPACE}/pods").json()["items"]
        reasons = {
            one["metadata"]["name"]: status["state"].get("waiting", {}).get("reason")
            for one in found
            for status in one["status"].get("containerStatuses", [])
        }
        return (
            reasons.get("checkout-0") == "CrashLoopBackOff"
            and reasons.get("search-0") == "ErrImageNeverPull"
        )

    def remove(self) -> None:
        path = f"/api/v1/namespaces/{SPACE}"
        self.client.patch(
            f"{path}/persistentvolumeclaims/orders", json={"metadata": {"finalizers": None}},
            headers={"Content-Type": "application/merge-patch+json"},
        )  # fmt: skip
        for plural in ("pods", "events", "configmaps", "secrets", "persistentvolumeclaims"):
            self.client.delete(f"{path}/{plural}", params={"gracePeriodSeconds": 0})
        self.client.delete(f"{path}/services/cart")
        self.client.delete(f"/apis/networking.k8s.io/v1/namespaces/{SPACE}/ingresses/shop")
        for plural in ("deployments", "replicasets"):
            self.client.delete(f"/apis/apps/v1/namespaces/{SPACE}/{plural}")
        pods = f"{path}/pods"
        self.wait("the pods are gone", lambda: not self.client.get(pods).json()["items"])
        self.client.delete(path)  # no controller ends it; this says so for it
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}, "spec": {}}
        self.client.put(f"{path}/finalize", json=body)
        self.wait("the namespace is gone", lambda: self.client.get(path).status_code == 404)


@contextmanager
def shop() -> Iterator[Shop]:
    """In the real cluster, until the end of the block."""
    one = Shop()
    with one.client:
        if one.client.get(f"/api/v1/namespaces/{SPACE}").is_success:
            one.remove()  # a run that was killed left it
        one.build()
        try:
            one.wait("the kubelet has tried the pods", one.settled)
            yield one
        finally:
            one.remove()


def forward(shop: Shop, into: dict[str, Any]) -> Any:
    """Asks the real server, and writes down what it says."""

    def respond(
        method: str, target: str, _body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        kind = headers.get("accept", "")
        answer = shop.client.request(method, target, headers={"Accept": kind})
        try:
            said = answer.json()
        except ValueError:
            said = answer.text
        for one in said.get("items", []) if isinstance(said, dict) else []:
            if "nodeInfo" in one.get("status", {}):
                one["status"]["nodeInfo"] = {"kubeletVersion": "v1.20.5"}
                one["status"].pop("images", None)
        form = next(
            (
                f" as {word}"
                for word in ("Table", "PartialObjectMetadataList")
                if f"as={word}" in kind
            ),
            "",
        )
        into[key_of(method, target) + form] = [answer.status_code, said]
        return answer.status_code, said

    return respond


if __name__ == "__main__":
    import asyncio

    from tests.tools.sources import test_kubernetes

    found: dict[str, Any] = {}
    now = asyncio.run(test_kubernetes.record(found, forward))
    RECORDING.write_text(
        json.dumps({"now": now, "wire": found}, separators=(",", ":"), sort_keys=True).replace(
            ',"GET ', ',\n"GET '
        )
        + "\n"
    )
    print(len(found), "answers", file=sys.stderr)
