"""Drift of objects that a real API server keeps, changed with kubectl as people change them."""

import subprocess
import uuid
from pathlib import Path

import pytest
import yaml

from tests.support.cluster import cluster
from tests.support.drifting import ShellLive, audited, declare

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
