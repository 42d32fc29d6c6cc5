"""Drift of objects that a real API server keeps, changed with kubectl as people change them."""

import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster import cluster
from tests.support.drift_repositories import ShellLive, audited, declare, looked

pytestmark = pytest.mark.slow


def deployment(namespace: str) -> str:
    container = {
        "name": "web", "image": "registry.example.org/web:1.4",
        "env": [{"name": "LEVEL", "value": "info"}],
        "resources": {"limits": {"cpu": "0.5", "memory": "1Gi"}},
    }  # fmt: skip
    return yaml.safe_dump({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                         "spec": {"containers": [container]}},
        },
    })  # fmt: skip


@pytest.mark.parametrize("way", [[], ["--server-side"]], ids=["client", "server"])
async def test_what_was_applied_and_then_edited_drifts(tmp_path: Path, way: list[str]) -> None:
    kubeconfig = str(cluster() / "admin")
    namespace = f"shop-{uuid.uuid4().hex[:8]}"

    def kubectl(*words: str) -> None:
        subprocess.run(["kubectl", "--kubeconfig", kubeconfig, *words], check=True)

    files = {"k8s/web.yaml": deployment(namespace)}
    repository = declare(tmp_path / "r", {"kubernetes": [{"declared": "k8s"}]}, files)
    live = ShellLive({"KUBECONFIG": kubeconfig})
    assert [one.field for one in (await audited(repository, live)).values()] == ["missing"]
    kubectl("create", "namespace", namespace)
    try:
        kubectl("apply", *way, "-f", str(repository / "k8s" / "web.yaml"))
        assert await audited(repository, live) == {}
        kubectl("-n", namespace, "set", "env", "deployment/web", "LEVEL=debug", "MORE=1")
        kubectl("-n", namespace, "scale", "deployment/web", "--replicas=5")
        found = {field: one for (_, field), one in (await audited(repository, live)).items()}
        env = "spec.template.spec.containers[name=web].env"
        assert found.keys() == {
            f"{env}[name=LEVEL].value", f"{env}[name=MORE]", "spec.replicas",
        }  # fmt: skip
        assert found[f"{env}[name=LEVEL].value"].live == "debug"
        assert found[f"{env}[name=MORE]"].who.kind == "person"
    finally:
        kubectl("delete", "namespace", namespace, "--wait=false")


POD: Mapping[str, Any] = {
    "containers": [
        {"name": "web", "image": "registry.example.org/web:1", "ports": [{"containerPort": 80}],
         "envFrom": [{"configMapRef": {"name": "conf"}}],
         "volumeMounts": [{"name": "conf", "mountPath": "/conf"}],
         "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
         "resources": {"requests": {"cpu": "100m", "memory": "0.5Gi"},
                       "limits": {"cpu": 1, "memory": "1024Mi"}}},
    ],
    "volumes": [{"name": "conf", "configMap": {"name": "conf"}}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
}  # fmt: skip
PODS = {"metadata": {"labels": {"app": "web"}}, "spec": POD}
CHOSEN = {"matchLabels": {"app": "web"}}
SPECS: Mapping[tuple[str, str, str], Mapping[str, Any]] = {
    ("v1", "ConfigMap", "conf"): {"data": {"a": "1", "b": "x: y\nz: |\n  t\n"}},
    ("v1", "ServiceAccount", "sa"): {"imagePullSecrets": [{"name": "pull"}]},
    ("v1", "Service", "web"): {"spec": {"selector": {"app": "web"}, "ports": [
        {"port": 80, "targetPort": "http", "name": "http"},
        {"port": 53, "protocol": "UDP", "name": "dns"}]}},
    ("v1", "Service", "node"): {"spec": {"type": "NodePort", "ports": [{"port": 80}]}},
    ("v1", "Service", "headless"): {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
    ("apps/v1", "StatefulSet", "db"): {"spec": {
        "serviceName": "headless", "selector": CHOSEN, "template": PODS,
        "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]}},
    ("apps/v1", "DaemonSet", "agent"): {"spec": {"selector": CHOSEN, "template": PODS}},
    ("apps/v1", "Deployment", "web"): {"spec": {
        "replicas": 2, "selector": CHOSEN, "template": PODS,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%"}}}},
    ("batch/v1", "Job", "once"): {"spec": {"backoffLimit": 2, "template": {
        "spec": {**POD, "restartPolicy": "Never"}}}},
    ("networking.k8s.io/v1", "Ingress", "web"): {"spec": {"rules": [{
        "host": "shop.example.org", "http": {"paths": [{
            "path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}},
    ("networking.k8s.io/v1", "NetworkPolicy", "deny"): {"spec": {
        "podSelector": {}, "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}]}},
    ("autoscaling/v1", "HorizontalPodAutoscaler", "db"): {"spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
        "maxReplicas": 5}},
    ("rbac.authorization.k8s.io/v1", "Role", "read"): {
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "read"): {
        "subjects": [{"kind": "ServiceAccount", "name": "sa"}],
        "roleRef": {"kind": "Role", "name": "read", "apiGroup": "rbac.authorization.k8s.io"}},
    ("v1", "PersistentVolumeClaim", "room"): {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}},
    ("v1", "ResourceQuota", "most"): {"spec": {"hard": {"cpu": "10", "requests.memory": "1024Mi"}}},
}  # fmt: skip


class Shop:
    """Objects of many kinds in a namespace, and the repository that declares them."""

    def __init__(self, folder: Path) -> None:
        self.folder = cluster()
        self.namespace = f"shop-{uuid.uuid4().hex[:8]}"
        objects = [
            {"apiVersion": version, "kind": kind,
             "metadata": {"name": name, "namespace": self.namespace}, **more}
            for (version, kind, name), more in SPECS.items()
        ]  # fmt: skip
        entry = {"declared": "k8s", "extra": True, "audit_log": str(self.folder / "audit.log")}
        files = {"k8s/all.yaml": yaml.safe_dump_all(objects)}
        self.repository = declare(folder / "r", {"kubernetes": [entry]}, files)
        self.live = ShellLive({"KUBECONFIG": str(self.folder / "admin")})

    def kubectl(self, *words: str) -> None:
        us = ["kubectl", "--kubeconfig", str(self.folder / "admin"), "-n", self.namespace]
        subprocess.run([*us, *words], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    made.kubectl("create", "namespace", made.namespace)
    made.kubectl("apply", "-f", str(made.repository / "k8s" / "all.yaml"))
    yield made
    made.kubectl("delete", "namespace", made.namespace, "--wait=false")


async def test_what_people_do_to_objects_of_many_kinds_is_found_with_their_names(
    shop: Shop,
) -> None:
    assert await audited(shop.repository, shop.live) == {}
    shop.kubectl("patch", "configmap/conf", "-p", '{"data": {"a": "2"}}')
    shop.kubectl("set", "image", "daemonset/agent", "web=registry.example.org/web:2")
    shop.kubectl("patch", "service/web", "-p", '{"spec": {"selector": {"app": "other"}}}')
    shop.kubectl("delete", "networkpolicy/deny")
    shop.kubectl("create", "configmap", "stray", "--from-literal=a=b")
    found = await audited(shop.repository, shop.live)
    image = "spec.template.spec.containers[name=web].image"
    assert found.keys() == {
        ("conf", "data.a"), ("agent", image), ("web", "spec.selector.app"),
        ("deny", "missing"), ("stray", "extra"),
    }  # fmt: skip
    for one in found.values():
        assert (one.who.kind, one.who.name, one.who.sure) == ("person", "admin", "certain"), one
    for key in (("conf", "data.a"), ("deny", "missing"), ("stray", "extra")):
        assert (await shop.live.ask(found[key].advice.revert)).ok, found[key].advice.revert
    left = await audited(shop.repository, shop.live)
    assert ("deny", "missing") not in left
    assert ("stray", "extra") not in left


async def test_who_may_not_look_is_told_so_and_finds_nothing(shop: Shop) -> None:
    stranger = ShellLive({"KUBECONFIG": str(shop.folder / "stranger")})
    (scope,) = await looked(shop.repository, stranger)
    assert (scope.checked, scope.findings) == (0, ())
    assert "forbidden" in " ".join(scope.troubles)
