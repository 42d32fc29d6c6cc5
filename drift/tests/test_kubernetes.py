"""Kubernetes objects against manifests: the real kubectl, asking a server that answers with objects
as an API server keeps them, with who owns which field."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_drift.audit import AuditBaseline
from hermes_drift.cluster.fields import ABSENT, differences, path_text, same
from hermes_drift.patterns import learned_from
from hermes_drift.values import DriftFinding
from tests.support.drift_repositories import Cluster, ShellLive, audited, declare, looked

WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "image": "registry.example.org/web:1.4",
                        "env": [{"name": "LEVEL", "value": "info"}],
                        "ports": [{"containerPort": 80}],
                        "resources": {"limits": {"cpu": "0.5", "memory": "1Gi"}},
                    }
                ]
            },
        },
    },
}  # fmt: skip

OWNED = {
    "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
    "f:spec": {
        "f:replicas": {},
        "f:selector": {},
        "f:strategy": {"f:type": {}},
        "f:template": {
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:containers": {
                    'k:{"name":"web"}': {
                        ".": {}, "f:image": {}, "f:name": {}, "f:imagePullPolicy": {},
                        "f:env": {".": {}, 'k:{"name":"LEVEL"}': {
                            ".": {}, "f:name": {}, "f:value": {}}},
                        "f:ports": {".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': {
                            ".": {}, "f:containerPort": {}, "f:protocol": {}}},
                        "f:resources": {"f:limits": {".": {}, "f:cpu": {}, "f:memory": {}}},
                    }
                },
                "f:restartPolicy": {},
            },
        },
    },
}  # fmt: skip


def manager(
    name: str, fields: Mapping[str, Any], at: str = "2025-11-03T14:00:00Z", **more: str
) -> dict[str, Any]:
    return {
        "manager": name, "operation": "Update", "apiVersion": "apps/v1", "time": at,
        "fieldsType": "FieldsV1", "fieldsV1": fields, **more,
    }  # fmt: skip


def as_kept(declared: Mapping[str, Any]) -> dict[str, Any]:
    """The object as a server keeps it: with defaults, a status, and who applied it."""
    live = copy.deepcopy(dict(declared))
    live["metadata"] |= {
        "uid": "6e6d1c9e-0d5f-4b49-9d5e-6f2b1a3c4d5e", "resourceVersion": "4711", "generation": 2,
        "creationTimestamp": "2025-11-01T09:00:00Z",
        "annotations": {
            "deployment.kubernetes.io/revision": "2",
            "kubectl.kubernetes.io/last-applied-configuration": json.dumps(declared),
        },
        "managedFields": [
            manager("kubectl-client-side-apply", OWNED, "2025-11-01T09:00:00Z"),
            manager("kube-controller-manager", {
                "f:metadata": {"f:annotations": {"f:deployment.kubernetes.io/revision": {}}},
                "f:status": {"f:replicas": {}},
            }, "2025-11-01T09:00:05Z", subresource="status"),
        ],
    }  # fmt: skip
    live["spec"]["strategy"] = {"type": "RollingUpdate"}
    container = live["spec"]["template"]["spec"]["containers"][0]
    container["imagePullPolicy"] = "IfNotPresent"
    container["ports"][0]["protocol"] = "TCP"
    container["resources"] = {"limits": {"cpu": "500m", "memory": "1024Mi"}}
    live["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    live["status"] = {"replicas": 3}
    return live


def container(live: Mapping[str, Any]) -> Any:
    return live["spec"]["template"]["spec"]["containers"][0]


def in_container(fields: Mapping[str, Any]) -> dict[str, Any]:
    inside = {'k:{"name":"web"}': fields}
    return {"f:spec": {"f:template": {"f:spec": {"f:containers": inside}}}}


Asked = Callable[..., Any]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Asked]:
    """Audits the manifest against live objects."""
    made: list[Cluster] = []

    async def ask(
        *objects: Mapping[str, Any], known: AuditBaseline | None = None,
        entry: Mapping[str, Any] = {},
        manifests: Mapping[str, Any] | None = None,
    ) -> dict[str, DriftFinding]:  # fmt: skip
        made.append(Cluster(objects))
        files = manifests or {"web.yaml": WEB}
        texts = {f"k8s/{name}": yaml.safe_dump(one) for name, one in files.items()}
        drift = {"kubernetes": [{"declared": "k8s", **entry}]}
        repository = declare(tmp_path / f"repository{len(made)}", drift, texts)
        live = ShellLive({"KUBECONFIG": str(made[-1].kubeconfig(tmp_path))})
        found = await audited(repository, live, known)
        return {f"{name} {field}".removeprefix("web "): one for (name, field), one in found.items()}

    yield ask
    for one in made:
        one.close()


async def test_defaults_and_managed_fields_are_no_drift(cluster: Asked) -> None:
    assert await cluster(as_kept(WEB)) == {}


async def test_what_a_person_edited_is_found_with_who_and_when(cluster: Asked) -> None:
    live = as_kept(WEB)
    container(live)["env"] = [
        {"name": "LEVEL", "value": "debug"}, {"name": "DB_PASSWORD", "value": "plain-word"},
    ]  # fmt: skip
    live["metadata"]["managedFields"].append(
        manager("kubectl-edit", in_container({"f:env": {
            'k:{"name":"LEVEL"}': {"f:value": {}},
            'k:{"name":"DB_PASSWORD"}': {".": {}, "f:name": {}, "f:value": {}},
        }}))
    )  # fmt: skip
    found = await cluster(live)
    base = "spec.template.spec.containers[name=web].env"
    assert found.keys() == {f"{base}[name=LEVEL].value", f"{base}[name=DB_PASSWORD]"}
    level = found[f"{base}[name=LEVEL].value"]
    assert (level.declared, level.live, level.weight) == ("info", "debug", "look")
    assert (level.who.kind, level.who.name, level.who.sure) == ("person", "kubectl-edit", "likely")
    assert level.who.at == 1762178400.0
    assert "plain-word" not in repr(found)
    assert "kubectl apply -n shop -f -" in level.advice.revert


def scaler(kind: str, **spec: Any) -> dict[str, Any]:
    version = {
        "HorizontalPodAutoscaler": "autoscaling/v2", "ScaledObject": "keda.sh/v1alpha1",
        "VerticalPodAutoscaler": "autoscaling.k8s.io/v1",
    }[kind]  # fmt: skip
    target = "targetRef" if kind == "VerticalPodAutoscaler" else "scaleTargetRef"
    return {
        "apiVersion": version, "kind": kind, "metadata": {"name": "web", "namespace": "shop"},
        "spec": {target: {"kind": "Deployment", "name": "web"}, **spec},
    }  # fmt: skip


HPA = scaler("HorizontalPodAutoscaler", minReplicas=2, maxReplicas=10)
KEDA = scaler("ScaledObject", minReplicaCount=2, maxReplicaCount=10)
SLEEPING = scaler("ScaledObject", minReplicaCount=2, idleReplicaCount=0)


@pytest.mark.parametrize(
    ("scalers", "replicas", "by", "weight", "said"),
    [
        ([HPA], 7, "kubectl", "harmless", "HorizontalPodAutoscaler web keeps it between 2 and 10"),
        ([KEDA], 10, "keda-operator", "harmless", "ScaledObject web keeps it between 2 and 10"),
        ([SLEEPING], 0, "keda-operator", "harmless", "keeps it between 0 and 100"),
        ([HPA, SLEEPING], 0, "keda-operator", "harmless", "ScaledObject web keeps it"),
        ([HPA], 50, "kubectl", "look", "HorizontalPodAutoscaler web would keep it between 2 and"),
        ([HPA], 50, "kube-controller-manager", "look", "would keep it between 2 and 10"),
        ([], 7, "horizontal-pod-autoscaler", "look", "declared in"),
    ],
)
async def test_an_autoscaler_may_set_replicas_within_its_limits(
    cluster: Asked, scalers: list[Any], replicas: int, by: str, weight: str, said: str
) -> None:
    live = as_kept(WEB)
    live["spec"]["replicas"] = replicas
    live["metadata"]["managedFields"].append(
        manager(by, {"f:spec": {"f:replicas": {}}}, subresource="scale")
    )
    found = (await cluster(live, *scalers))["spec.replicas"]
    assert (found.weight, weight == "harmless") == (weight, found.pattern == "hpa-replicas")
    assert said in " ".join([found.who.evidence, *found.history])
    assert (by in found.who.evidence) or found.who.name == by


ALLOWED = {"resourcePolicy": {"containerPolicies": [
    {"containerName": "*", "maxAllowed": {"memory": "4Gi"}}]}}  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "memory", "weight"),
    [
        ({}, "3Gi", "harmless"),
        (ALLOWED, "3072Mi", "harmless"),
        (ALLOWED, "5Gi", "look"),
        ({"updatePolicy": {"updateMode": "Off"}}, "3Gi", "look"),
    ],
)
async def test_a_vertical_autoscaler_may_set_resources(
    cluster: Asked, spec: dict[str, Any], memory: str, weight: str
) -> None:
    live = as_kept(WEB)
    container(live)["resources"]["limits"]["memory"] = memory
    live["metadata"]["managedFields"].append(
        manager("vpa-updater", in_container({"f:resources": {"f:limits": {"f:memory": {}}}}))
    )
    (found,) = (await cluster(live, scaler("VerticalPodAutoscaler", **spec))).values()
    assert (found.field.rpartition(".")[2], found.weight) == ("memory", weight)


POLICIES = {
    "ClusterPolicy": "kyverno.io/v1", "K8sRequiredLabels": "constraints.gatekeeper.sh/v1beta1",
    "ValidatingAdmissionPolicy": "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
}  # fmt: skip


def policy(kind: str, name: str = "owners", action: str = "Enforce", **about: str) -> Any:
    return {
        "apiVersion": POLICIES.get(kind, "kyverno.io/v1"), "kind": kind,
        "metadata": {"name": name, **about}, "spec": {"action": action},
    }  # fmt: skip


@pytest.mark.parametrize("kind", POLICIES)
async def test_a_changed_or_removed_admission_policy_is_dangerous(
    cluster: Asked, kind: str
) -> None:
    """Also where the manifest does not say that it belongs to the whole cluster."""
    declared = {"owners.yaml": policy(kind)}
    (found,) = (await cluster(policy(kind, action="Audit"), manifests=declared)).values()
    assert (found.object, found.namespace, found.field) == (f"{kind} owners", "", "spec.action")
    assert (found.weight, found.place) == ("dangerous", "cluster-scoped")
    assert "kubectl apply -f -" in found.advice.revert
    (found,) = (await cluster(manifests=declared)).values()
    assert (found.field, found.weight) == ("missing", "dangerous")


async def test_an_added_admission_policy_is_dangerous(cluster: Asked) -> None:
    """Of a declared kind always; of others where undeclared objects are asked for."""
    declared = {"owners.yaml": policy("ClusterPolicy"), "web.yaml": WEB}
    live = [as_kept(WEB), policy("ClusterPolicy"), policy("ClusterPolicy", "allow-all"),
            policy("Policy", "lax", namespace="shop"), policy("K8sRequiredLabels"),
            policy("ValidatingWebhookConfiguration", "cert-manager")]  # fmt: skip
    found = await cluster(*live, manifests=declared)
    assert [(one.object, one.field) for one in found.values()] == [
        ("ClusterPolicy allow-all", "extra")
    ]
    found = await cluster(*live, manifests=declared, entry={"extra": True})
    assert [(one.object, one.weight) for one in found.values()] == [
        ("ClusterPolicy allow-all", "dangerous"), ("K8sRequiredLabels owners", "dangerous"),
        ("Policy shop/lax", "dangerous"),
    ]  # fmt: skip
    extra = next(one for one in found.values() if one.object == "ClusterPolicy allow-all")
    assert extra.advice.revert == "kubectl delete clusterpolicy.v1.kyverno.io/allow-all"


async def test_an_injected_sidecar_is_harmless_and_another_container_is_not(cluster: Asked) -> None:
    for name, by, weight in (
        ("istio-proxy", "pilot-discovery", "harmless"),
        ("helper", "kubectl-patch", "dangerous"),
    ):
        live = as_kept(WEB)
        live["spec"]["template"]["spec"]["containers"].append({"name": name, "image": "x:1"})
        inside = {f'k:{{"name":"{name}"}}': {".": {}, "f:name": {}, "f:image": {}}}
        owned = {"f:spec": {"f:template": {"f:spec": {"f:containers": inside}}}}
        live["metadata"]["managedFields"].append(manager(by, owned))
        (found,) = (await cluster(live)).values()
        assert found.field == f"spec.template.spec.containers[name={name}]"
        assert found.weight == weight


async def test_images_and_rights_are_weighed(cluster: Asked) -> None:
    live = as_kept(WEB)
    container(live)["image"] = "docker.io/somebody/web:1.4"
    container(live)["securityContext"] = {"privileged": True}
    live["metadata"]["managedFields"].append(
        manager("k9s", in_container({"f:image": {}, "f:securityContext": {"f:privileged": {}}}))
    )
    found = await cluster(live)
    assert {one.weight for one in found.values()} == {"dangerous"}
    assert len(found) == 2


async def test_what_was_taken_away_is_found(cluster: Asked) -> None:
    live = as_kept(WEB)
    del container(live)["resources"]
    del container(live)["env"]
    live["metadata"]["managedFields"].append(
        manager("kubectl-edit", {"f:metadata": {"f:annotations": {".": {}, "f:x": {}}}})
    )
    found = await cluster(live)
    base = "spec.template.spec.containers[name=web]"
    assert found.keys() == {f"{base}.resources", f"{base}.env"}
    assert (found[f"{base}.env"].live, found[f"{base}.env"].who.sure) == (ABSENT, "guess")


async def test_missing_and_undeclared_objects_are_found(cluster: Asked) -> None:
    stray = as_kept(WEB)
    stray["metadata"]["name"] = "stray"
    owned = as_kept(WEB)
    owned["metadata"] |= {"name": "owned", "ownerReferences": [{"kind": "X"}]}
    found = await cluster(stray, owned, entry={"extra": True})
    assert found.keys() == {"missing", "stray extra"}
    assert "kubectl delete -n shop deployment.v1.apps/stray" in found["stray extra"].advice.revert


def request(user: str, at: str, **changes: Any) -> str:
    """A line of an API server's audit log."""
    event: dict[str, Any] = {
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
        "stage": "ResponseComplete", "verb": "patch", "user": {"username": user},
        "requestURI": "/apis/apps/v1/namespaces/shop/deployments/web?fieldManager=kubectl-edit",
        "userAgent": "kubectl/v1.32.4 (linux/amd64) kubernetes/59526cd",
        "objectRef": {"resource": "deployments", "apiGroup": "apps", "apiVersion": "v1",
                      "namespace": "shop", "name": "web"},
        "responseStatus": {"metadata": {}, "code": 200}, "requestReceivedTimestamp": at,
    }  # fmt: skip
    return json.dumps({**event, **changes}, separators=(",", ":"))


ELSEWHERE = {"resource": "services", "namespace": "shop", "name": "web"}
STATUS = {"resource": "deployments", "apiGroup": "apps", "namespace": "shop", "name": "web",
          "subresource": "status"}  # fmt: skip
BOT = "system:serviceaccount:kube-system:deployment-controller"


async def test_kinds_of_the_same_name_in_two_groups_are_told_apart(cluster: Asked) -> None:
    about = {"name": "web", "namespace": "shop"}
    core: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "metadata": about}
    core["spec"] = {"ports": [{"port": 80}]}
    other = {**core, "apiVersion": "serving.knative.dev/v1", "spec": {"traffic": []}}
    assert await cluster(core, other, manifests={"a.yaml": core, "b.yaml": other}) == {}


async def test_who_sent_it_is_known_from_the_audit_log(cluster: Asked, tmp_path: Path) -> None:
    """Not who was refused, only tried it, changed another object, or wrote its status."""
    live = as_kept(WEB)
    live["spec"]["replicas"] = 1
    live["metadata"]["managedFields"].append(
        manager("kubectl-edit", {"f:spec": {"f:replicas": {}}})
    )
    at = "2025-11-03T14:00:00.512Z"
    lines = [
        request("ann@example.org", at), "{cut off",
        request("refused@example.org", at, responseStatus={"code": 403}),
        request("trying@example.org", at, requestURI="/x?dryRun=All&fieldManager=kubectl-edit"),
        request("other@example.org", at, objectRef=ELSEWHERE),
        request(BOT, at, objectRef=STATUS),
        request(BOT, at, requestURI="/x?fieldManager=kube-controller-manager"),
    ]  # fmt: skip
    (tmp_path / "audit.log").write_text("\n".join(lines) + "\n")
    log = {"audit_log": str(tmp_path / "audit.log")}
    found = (await cluster(live, entry=log))["spec.replicas"]
    assert (found.who.kind, found.who.name, found.who.sure) == (
        "person", "ann@example.org", "certain"
    )  # fmt: skip
    found = (await cluster(live))["spec.replicas"]
    assert (found.who.name, found.who.sure) == ("kubectl-edit", "likely")
    assert found.who.evidence.endswith("only a hint: a program, not its user")


async def test_a_proxy_is_not_who_changed_it(cluster: Asked, tmp_path: Path) -> None:
    """Nor is the program that applied it first, where a request came later, nor who asked for a
    token."""
    live = as_kept(WEB)
    live["spec"]["replicas"] = 1
    proxy = "system:serviceaccount:cattle:proxy"
    lines = [
        request("ci@example.org", "2025-11-01T09:00:00.100Z"),
        request(proxy, "2025-11-02T08:00:00Z", impersonatedUser={"username": "bob"}),
        request(BOT, "2025-11-02T08:00:01Z"),
        request("eve", "2025-11-02T09:00:00Z", objectRef={**STATUS, "subresource": "token"}),
    ]
    (tmp_path / "audit.log").write_text("\n".join(lines) + "\n")
    found = (await cluster(live, entry={"audit_log": str(tmp_path / "audit.log")}))["spec.replicas"]
    assert (found.who.kind, found.who.name, found.who.sure) == ("person", "bob", "likely")


async def test_who_deleted_by_a_selector_may_not_have_deleted_it(
    cluster: Asked, tmp_path: Path
) -> None:
    kind = {"resource": "deployments", "apiGroup": "apps", "namespace": "shop"}
    path = "/apis/apps/v1/namespaces/shop/deployments"
    some = request("bob", "2025-11-03T14:00:00Z", verb="deletecollection", objectRef=kind,
                   requestURI=f"{path}?labelSelector=app%3Dother")  # fmt: skip
    whole = request("eve", "2025-11-03T13:00:00Z", verb="deletecollection", objectRef=kind,
                    requestURI=path)  # fmt: skip
    log = tmp_path / "audit.log"
    said = {}
    for name, lines in {"some": [some], "both": [whole, some], "whole": [whole]}.items():
        log.write_text("\n".join(lines) + "\n")
        who = (await cluster(entry={"audit_log": str(log)}))["missing"].who
        said[name] = (who.name, who.sure)
    assert said == {
        "some": ("bob", "guess"), "both": ("eve", "guess"), "whole": ("eve", "certain"),
    }  # fmt: skip


async def test_an_audit_log_that_cannot_be_read_is_noted(tmp_path: Path) -> None:
    server = Cluster([as_kept(WEB)])
    entry = {"declared": "k8s", "audit_log": str(tmp_path / "none.log")}
    texts = {"k8s/web.yaml": yaml.safe_dump(WEB)}
    repository = declare(tmp_path / "r", {"kubernetes": [entry]}, texts)
    live = ShellLive({"KUBECONFIG": str(server.kubeconfig(tmp_path))})
    (scope,) = await looked(repository, live)
    server.close()
    assert (scope.checked, scope.troubles) == (1, ())
    assert "cannot be read, so users are unknown" in scope.notes[0]


async def test_what_is_said_of_one_object_holds_for_its_kind_where_a_controller_did_it(
    cluster: Asked,
) -> None:
    def scaled(name: str, by: str) -> tuple[dict[str, Any], dict[str, Any]]:
        declared = copy.deepcopy(WEB)
        declared["metadata"]["name"] = name  # type: ignore[index]
        live = as_kept(declared)
        live["spec"]["replicas"] = 5
        live["metadata"]["managedFields"].append(manager(by, {"f:spec": {"f:replicas": {}}}))
        return declared, live

    _, first = scaled("web", "fleet-operator")
    said = learned_from(
        (await cluster(first))["spec.replicas"], "accepted", "the fleet scales", "ann", 1762178400.0
    )
    assert (said.object, said.manager) == (("Deployment **",), ("fleet-operator",))
    declared, live = scaled("api", "fleet-operator")
    found = await cluster(live, known=AuditBaseline([said]), manifests={"api.yaml": declared})
    again = found["api spec.replicas"]
    assert again.weight == "harmless"
    assert again.history[0].startswith("3 Nov 2025, accepted by ann: the fleet scales")
    _, live = scaled("api", "kubectl-edit")
    found = await cluster(live, known=AuditBaseline([said]), manifests={"api.yaml": declared})
    assert found["api spec.replicas"].weight == "look"


async def test_secrets_are_not_read(tmp_path: Path) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"a": "eA=="},
    }
    repository = declare(
        tmp_path, {"kubernetes": [{"declared": "k8s"}]}, {"k8s/s.yaml": yaml.safe_dump(secret)}
    )
    live = ShellLive()
    (scope,) = await looked(repository, live)
    assert scope.notes == ("secrets are not read: Secret default/s",)
    assert live.asked == []


async def test_a_cluster_that_does_not_answer_is_said_once(tmp_path: Path) -> None:
    other = {**WEB, "metadata": {"name": "api", "namespace": "shop"}}
    texts = {"k8s/web.yaml": yaml.safe_dump_all([WEB, other])}
    repository = declare(tmp_path, {"kubernetes": [{"declared": "k8s"}]}, texts)
    (scope,) = await looked(repository, ShellLive({"KUBECONFIG": "/nowhere"}))
    assert (scope.checked, scope.findings, len(scope.troubles)) == (0, (), 1)
    assert scope.troubles[0].startswith("namespace shop: ")


async def test_a_kind_that_the_server_does_not_know_does_not_hide_the_others(
    cluster: Asked, tmp_path: Path
) -> None:
    odd = {"apiVersion": "example.org/v1", "kind": "Widget",
           "metadata": {"name": "w", "namespace": "shop"}}  # fmt: skip
    server = Cluster([as_kept(WEB)])
    texts = {"k8s/all.yaml": yaml.safe_dump_all([odd, WEB])}
    repository = declare(tmp_path / "r", {"kubernetes": [{"declared": "k8s"}]}, texts)
    live = ShellLive({"KUBECONFIG": str(server.kubeconfig(tmp_path))})
    (scope,) = await looked(repository, live)
    server.close()
    assert (scope.checked, scope.findings) == (1, ())
    assert scope.troubles[0].startswith("Widget shop/w: ")


def test_values_are_compared_by_what_they_mean() -> None:
    equal = [("0.5", "500m"), ("1Gi", "1024Mi"), (80, "80"), ("1e3", 1000), (None, ABSENT),
             ("", ABSENT)]  # fmt: skip
    assert [pair for pair in equal if not same(*pair)] == []
    other = [("1G", "1Gi"), (True, 1), ("a", "b"), ("a", ABSENT), (True, ABSENT)]
    assert [pair for pair in other if same(*pair)] == []


def test_lists_without_names_are_compared_by_their_places() -> None:
    found = list(differences({"args": ["a", "b"]}, {"args": ["a", "c"]}))
    assert [(path_text(one.path), one.live) for one in found] == [("args[1]", "c")]
    (found_one,) = differences({"args": ["a"]}, {"args": ["a", "c"]})
    assert found_one.live == ["a", "c"]
