"""A namespace in the real cluster, made object by object as an administrator. The cluster has no
controllers and no scheduler: what those would make or say is made here, in their words."""

import ssl
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import yaml

from tests.support.cluster import NODE, cluster
from tests.support.images import IMAGE

PATIENCE = 120.0
MERGE = {"Content-Type": "application/merge-patch+json"}
CORE, APPS, NETWORK = "api/v1", "apis/apps/v1", "apis/networking.k8s.io/v1"
MADE = {
    CORE: ("pods", "events", "configmaps", "secrets", "services", "endpoints",
           "persistentvolumeclaims", "resourcequotas"),
    APPS: ("deployments", "replicasets"),
    "apis/batch/v1": ("jobs",),
    NETWORK: ("ingresses", "networkpolicies"),
}  # fmt: skip
"""What is removed at the end."""


def stamp(minutes: float) -> str:
    return f"{datetime.now(UTC) - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"


def pod(name: str, labels: Mapping[str, str], *, node: str = NODE, **container: Any) -> Any:
    shape = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", **container}
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 0, "containers": [shape]}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": dict(labels)},
        "spec": {**spec, **({"nodeName": node} if node else {})},
    }  # fmt: skip


class Namespace:
    def __init__(self, space: str) -> None:
        self.space = space
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

    def begin(self) -> None:
        if self.client.get(f"/api/v1/namespaces/{self.space}").is_success:
            self.remove()  # a run that was killed left it
        self.post("/api/v1/namespaces", {"metadata": {"name": self.space}})

    def made(self, group: str, plural: str, body: Any, status: Any = None) -> Any:
        path = f"/{group}/namespaces/{self.space}/{plural}"
        one = self.post(path, body)
        if status is not None:
            answer = self.client.patch(
                f"{path}/{one['metadata']['name']}/status", json={"status": status}, headers=MERGE
            )
            assert answer.is_success, answer.text
        return one

    def event(self, about: Any, reason: str, message: str, kind: str = "Warning") -> None:
        data = about["metadata"]
        name = f"{data['name']}.{reason.lower()}"
        self.made(CORE, "events", {
            "metadata": {"name": name}, "type": kind, "reason": reason, "message": message,
            "count": 7, "firstTimestamp": stamp(20), "lastTimestamp": stamp(1),
            "source": {"component": "scheduler"},
            "involvedObject": {
                "kind": about["kind"], "name": data["name"], "namespace": self.space,
                "uid": data["uid"],
            },
        })  # fmt: skip

    def wait(self, what: str, is_so: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < deadline, what
            time.sleep(0.2)

    def remove(self) -> None:
        path = f"/api/v1/namespaces/{self.space}"
        claims = f"{path}/persistentvolumeclaims"
        for one in self.client.get(claims).json()["items"]:
            name, free = one["metadata"]["name"], {"metadata": {"finalizers": None}}
            self.client.patch(f"{claims}/{name}", json=free, headers=MERGE)
        for group, plurals in MADE.items():
            for plural in plurals:
                among = f"/{group}/namespaces/{self.space}/{plural}"
                if plural == "services":  # not to be deleted all at once
                    for one in self.client.get(among).json()["items"]:
                        self.client.delete(f"{among}/{one['metadata']['name']}")
                else:
                    self.client.delete(among, params={"gracePeriodSeconds": 0})
        pods = f"{path}/pods"
        self.wait("the pods are gone", lambda: not self.client.get(pods).json()["items"])
        self.client.delete(path)  # no controller ends it; this says so for it
        body = {
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.space}, "spec": {},
        }  # fmt: skip
        self.client.put(f"{path}/finalize", json=body)
        self.wait("the namespace is gone", lambda: self.client.get(path).status_code == 404)
