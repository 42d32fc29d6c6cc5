"""A shop in a cluster with much that is wrong: made in the real one, and recorded from it.

Run as a module this file records what the real API server says of it."""

import fcntl
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.cluster import cluster
from tests.support.cluster_objects import Namespace, pod, stamp
from tests.support.images import IMAGE
from tests.support.recorded_wire import key_of

SPACE = "shop"
RECORDING = Path(__file__).parent / "wires" / "shop_cluster.json"


def template(image: str, pool: str) -> Any:
    env = [
        {"name": "POOL_SIZE", "value": pool},
        {"name": "DB_PASSWORD", "value": f"hunter-{pool}"},
        {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "web-config", "key": "mode"}}},
    ]
    labels = {"app": "web"}
    spec = {"containers": [{"name": "main", "image": image, "env": env}]}
    return {"metadata": {"labels": labels}, "spec": spec}


class Shop(Namespace):
    def build(self) -> None:
        self.begin()
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


@contextmanager
def shop() -> Iterator[Shop]:
    """In the real cluster, until the end of the block; one at a time, for all who use it."""
    one = Shop(SPACE)
    with one.client, (cluster() / "shop.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
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
