"""Manifests of kinds that nobody has listed: what looks like a pod or a container is checked, and
what nothing looked at is said."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_drift.manifests.check import CheckedManifests, check, manifest_files, read
from hermes_drift.manifests.policy import load
from tests.support.cli import Hermes

LABELS = {"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop"}
ABOUT = {"name": "web", "labels": LABELS}
SAFE = {"runAsNonRoot": True, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
ENOUGH = {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}
GOOD: Any = {
    "name": "web", "image": "registry.example.com/web:1", "resources": ENOUGH,
    "securityContext": SAFE, "readinessProbe": {"tcpSocket": {"port": 80}},
    "livenessProbe": {"tcpSocket": {"port": 80}},
}  # fmt: skip
BAD: Any = {"name": "web", "image": "nginx", "securityContext": {"privileged": True}}
MODEL = {"modelFormat": {"name": "sklearn"}, "storageUri": "s3://models/churn"}
FULL = {"image-tag", "limits", "privilege-escalation", "privileged", "read-only-root", "requests",
        "run-as-non-root"}  # fmt: skip
AMOUNTS = {"requests", "limits"}


def template(container: Any, **pod: Any) -> Any:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [container], **pod}}


def manifest(version: str, kind: str, spec: Any) -> Any:
    return {"apiVersion": version, "kind": kind, "metadata": ABOUT, "spec": spec}


def checked(*objects: Any) -> CheckedManifests:
    return check([("all.yaml", yaml.safe_dump_all(objects))], load())


def rules(*objects: Any) -> set[str]:
    return {one.rule for one in checked(*objects).findings}


SHAPES = {
    "Rollout": ("argoproj.io/v1alpha1", lambda one: {"template": template(one)},
                FULL | {"readiness-probe", "liveness-probe"}),
    "Service": ("serving.knative.dev/v1", lambda one: {"template": template(one)}, FULL),
    "InferenceService": ("serving.kserve.io/v1beta1",
                         lambda one: {"predictor": {"containers": [one]}}, FULL),
    "Workflow": ("argoproj.io/v1alpha1",
                 lambda one: {"templates": [{"name": "build", "container": one}]}, FULL),
    "Job": ("batch.volcano.sh/v1alpha1", lambda one: {"tasks": [{"template": template(one)}]},
            FULL),
    "Task": ("tekton.dev/v1", lambda one: {"steps": [one]}, FULL),
    "RayCluster": ("ray.io/v1", lambda one: {"headGroupSpec": {"template": template(one)}}, FULL),
    "Widget": ("example.org/v1", lambda one: {"deep": {"deeper": [{"runner": one}]}}, FULL),
}  # fmt: skip


@pytest.mark.parametrize("kind", SHAPES)
def test_containers_of_any_kind_are_found_by_their_shape(kind: str) -> None:
    version, spec, wanted = SHAPES[kind]
    assert rules(manifest(version, kind, spec(BAD))) == wanted
    good = checked(manifest(version, kind, spec(GOOD)))
    assert (good.findings, good.workloads, good.unchecked) == ([], 1, [])


def inference(model: Any) -> Any:
    return manifest(
        "serving.kserve.io/v1beta1", "InferenceService", {"predictor": {"model": model}}
    )


def test_what_a_controller_completes_is_only_asked_for_what_people_decide() -> None:
    """A model server has an image, but its manifest does not name it."""
    (first, second) = checked(inference(MODEL)).findings
    assert {first.rule, second.rule} == AMOUNTS
    assert (first.object, first.container) == ("InferenceService web", "spec.predictor.model")
    assert rules(inference({**MODEL, "resources": ENOUGH})) == set()
    assert rules(inference({**MODEL, "resources": {"limits": {"memory": "1Gi"}}})) == {"requests"}
    root = {**MODEL, "resources": ENOUGH, "securityContext": {"runAsUser": 0}}
    assert rules(inference(root)) == {"run-as-non-root"}
    database = {"kafka": {"resources": {"requests": {"memory": "1Gi", "cpu": 1}}}}
    assert rules(manifest("kafka.strimzi.io/v1beta2", "Kafka", database)) == {"limits"}


def test_settings_around_a_single_container_count_as_those_of_its_pod() -> None:
    inner = {key: value for key, value in GOOD.items() if key != "securityContext"}
    inner["securityContext"] = {**SAFE, "runAsNonRoot": None}
    spec = {
        "securityContext": {"runAsNonRoot": True},
        "volumes": [{"name": "node", "hostPath": {"path": "/etc"}}],
        "templates": [{"name": "a", "container": inner}, {"name": "b", "script": inner}],
    }
    (found,) = checked(manifest("argoproj.io/v1alpha1", "Workflow", spec)).findings
    assert found.rule == "host-path"


@pytest.mark.parametrize(
    ("version", "kind", "spec", "reason"),
    [
        ("v1", "ConfigMap", {}, "no rule applies"),
        ("v1", "PersistentVolumeClaim", {"resources": {"requests": {"storage": "1Gi"}}}, "no rule"),
        ("example.org/v1", "Widget", {"size": 3, "image": {"tag": "latest"}}, "no rule applies"),
        ("kyverno.io/v1", "ClusterPolicy",
         {"rules": [{"validate": {"pattern": {"spec": {"containers": [{"image": "!*:latest"}]}}}}]},
         "patterns of a policy"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition",
         {"versions": [{"example": {"containers": [BAD]}}]}, "a schema"),
        ("helm.toolkit.fluxcd.io/v2", "HelmRelease", {"values": {"resources": {"limits": {
            "memory": "1Gi"}}}}, "values of a chart"),
    ],
)  # fmt: skip
def test_what_no_rule_looked_at_is_said(version: str, kind: str, spec: Any, reason: str) -> None:
    found = checked(manifest(version, kind, spec))
    assert (found.findings, found.workloads) == ([], 0)
    assert [(one.kind, one.line) for one in found.unchecked] == [(kind, 1)]
    assert found.unchecked[0].reason.startswith(reason)


def test_an_exception_and_an_annotation_hold_for_any_kind(tmp_path: Path) -> None:
    rollout = manifest("argoproj.io/v1alpha1", "Rollout", {"template": template(
        {**GOOD, "image": "nginx"})})  # fmt: skip
    policy = tmp_path / "own.yaml"
    policy.write_text("except: [{rules: image-tag, kind: Rollout, reason: built here}]\n")
    waived = check([("a.yaml", json.dumps(rollout))], load(policy))
    assert (waived.findings, [one.reason for one in waived.let_off]) == ([], ["built here"])
    rollout["metadata"] = {**ABOUT, "annotations": {"hermes/ignore": "image-tag: built here"}}
    assert checked(rollout).findings == []


def test_templates_of_a_chart_are_left_to_helm(tmp_path: Path) -> None:
    chart = tmp_path / "deploy" / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("name: web\nversion: 1.0.0\n")
    (chart / "templates" / "web.yaml").write_text("kind: {{ .Values.kind }}\n{{- if .x }}\n")
    (chart / "templates" / "fixed.yaml").write_text(json.dumps(manifest("v1", "Pod", {})))
    (tmp_path / "deploy" / "broken.yaml").write_text("a: [\n")
    hermes = Hermes(tmp_path / "hermes")
    done = hermes.run("manifests", "check", str(tmp_path / "deploy"), "--json")
    told = json.loads(done.stdout)
    assert [(Path(one["path"]).name, one["reason"]) for one in told["unchecked"]] == [
        ("broken.yaml", "cannot be read"), ("Chart.yaml", "not a manifest"),
        ("web.yaml", "a template of a chart: check the output of `helm template`"),
    ]  # fmt: skip
    assert {one["rule"] for one in told["findings"]} == {"yaml", "shape"}
    said = hermes.run("manifests", "check", str(chart)).stdout
    assert f"not checked, not a manifest: {chart}/Chart.yaml:1\n" in said
    sources = [(str(path), read(path)) for path in manifest_files(chart)]
    assert {one.rule for one in check(sources, load()).findings} == {"shape"}
    (chart / "templates" / "fixed.yaml").unlink()
    assert hermes.run("manifests", "check", str(chart)).returncode == 0
    assert hermes.run("manifests", "check", "--strict", str(chart)).returncode == 1
