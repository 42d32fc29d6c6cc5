"""A platform engineer's week: Git declares a cluster, people change it with kubectl, and the audit
says where, who, how often, and what was decided about it before."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import Hermes
from tests.support.cluster import cluster
from tests.support.drift_repositories import declare

pytestmark = pytest.mark.slow

KIND = "ValidatingWebhookConfiguration"


def policy(name: str) -> Any:
    """Of a kind that every API server has; it concerns nothing that is in this one."""
    rule = {"apiGroups": ["shop.example.org"], "apiVersions": ["*"], "operations": ["CREATE"],
            "resources": ["orders"]}  # fmt: skip
    return {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": "owners.example.org", "failurePolicy": "Fail", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "rules": [rule],
            "clientConfig": {"url": "https://owners.example.org/check"},
        }],
    }  # fmt: skip


def deployment(namespace: str) -> Any:
    container = {"name": "web", "image": "registry.example.org/web:1.4"}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                         "spec": {"containers": [container]}},
        },
    }  # fmt: skip


def autoscaler(namespace: str) -> Any:
    return {
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"minReplicas": 2, "maxReplicas": 10, "scaleTargetRef": {
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    }  # fmt: skip


class Platform:
    """A cluster with people who have kubectl, and a repository that declares what is in it."""

    def __init__(self, folder: Path) -> None:
        self.keys = cluster()
        mark = uuid.uuid4().hex[:8]
        self.shop, self.bank, self.policy = f"shop-{mark}", f"bank-{mark}", f"owners-{mark}"
        entry = {"declared": "k8s", "audit_log": str(self.keys / "audit.log")}
        files = {
            "k8s/shop.yaml": yaml.safe_dump_all([deployment(self.shop), autoscaler(self.shop)]),
            "k8s/bank.yaml": yaml.safe_dump(deployment(self.bank)),
            "k8s/owners.yaml": yaml.safe_dump(policy(self.policy)),
        }
        self.repository = declare(folder / "platform", {"kubernetes": [entry]}, files)
        self.hermes = Hermes(folder / "hermes")
        self.hermes.environ["HOME"] = str(folder / "carol")
        (folder / "carol" / ".kube").mkdir(parents=True)
        (folder / "carol" / ".kube" / "config").write_bytes((self.keys / "admin").read_bytes())

    def kubectl(self, who: str, *words: str) -> None:
        command = ["kubectl", "--kubeconfig", str(self.keys / who), *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def apply(self) -> None:
        """What the pipeline does after each merge."""
        self.kubectl("admin", "apply", "-f", str(self.repository / "k8s"))

    def relax_the_policy(self, who: str) -> None:
        patch = '[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]'
        self.kubectl(who, "patch", KIND, self.policy, "--type=json", "-p", patch)

    def audit(self) -> dict[str, Any]:
        """Findings by object."""
        done = self.hermes.run("drift", str(self.repository), "--json")
        (scope,) = json.loads(done.stdout)["scopes"]
        assert scope["troubles"] == []
        return {one["object"]: one for one in scope["findings"]}


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    made = Platform(tmp_path)
    for namespace in (made.shop, made.bank):
        made.kubectl("admin", "create", "namespace", namespace)
    made.apply()
    yield made
    made.hermes.close()
    made.kubectl("admin", "delete", KIND, made.policy, "--ignore-not-found")
    for namespace in (made.shop, made.bank):
        made.kubectl("admin", "delete", "namespace", namespace, "--wait=false")


def test_edits_by_hand_are_told_by_namespace_with_names_and_counted(platform: Platform) -> None:
    policy = f"{KIND} {platform.policy}"
    assert platform.audit() == {}

    platform.relax_the_policy("ann")
    image = "web=registry.example.org/web:1.5"
    platform.kubectl("bob", "-n", platform.bank, "set", "image", "deployment/web", image)
    platform.kubectl("bob", "-n", platform.shop, "scale", "deployment/web", "--replicas=5")
    told = platform.hermes.run("drift", str(platform.repository))
    assert (told.returncode, told.stderr) == (1, "")
    places = [line for line in told.stdout.splitlines() if line.endswith(")") and ": " in line]
    assert places[1:] == [
        "kubernetes: 4 checked, dangerous (1 dangerous, 1 notable, 1 harmless)",
        "cluster-scoped: dangerous (1 dangerous)",
        f"namespace {platform.bank}: notable (1 notable)",
        f"namespace {platform.shop}: harmless (1 harmless)",
    ]
    assert f"dangerous  {policy}: webhooks[0].failurePolicy" in told.stdout
    assert "changed by ann (person, certain)" in told.stdout
    assert "changed by bob (person, certain)" in told.stdout
    assert "HorizontalPodAutoscaler web keeps it between 2 and 10" in told.stdout

    platform.apply()
    assert platform.audit() == {}
    platform.relax_the_policy("bob")
    found = platform.audit()[policy]
    assert (found["who"]["name"], found["edits"], found["namespace"]) == ("bob", 2, "")
    why = "deployments without an owner got in"
    platform.hermes.good("drift", "reject", found["id"], "--why", why, "--by", "carol")

    platform.apply()
    platform.relax_the_policy("ann")
    third = platform.audit()[policy]
    assert third["edits"] == 3
    assert third["history"][0].startswith("3rd manual edit of this object in 14 days; before: ")
    assert " by ann (drift-2), " in third["history"][0]
    assert f"rejected by carol: {why}" in third["history"][1]
    assert third["advice"]["do"] == "revert"

    platform.kubectl("ann", "delete", KIND, platform.policy)
    gone = platform.audit()[policy]
    assert (gone["field"], gone["weight"], gone["edits"]) == ("missing", "dangerous", 4)
    assert (gone["who"]["name"], gone["who"]["sure"]) == ("ann", "certain")
